"""Find word lengths for an accuracy goal."""
