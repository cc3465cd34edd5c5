"""Gateware of one processor core."""
