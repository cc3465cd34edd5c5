"""Helpers for all stages: names of intermediate values, text from files, and files that are written atomically."""
