"""Ranges of values: sampled, or proved for every state of a region."""
