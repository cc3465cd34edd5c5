"""Bounds of errors that hold for every state of a region."""
