"""What all stages use: names of intermediate values, text that came from a file, files put in place whole."""
