"""The core as a program sees it: its shape, its packets and the fields of its program words (plain Python)."""
