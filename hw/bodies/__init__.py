"""Bodies of designs: the pipelined datapath, and the program for a small processor."""
