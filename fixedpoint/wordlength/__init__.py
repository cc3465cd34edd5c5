"""Word lengths for a wanted error."""
