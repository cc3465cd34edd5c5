"""Forward dynamics of serial chains in loops over links, one step of C or CUDA for a link."""
