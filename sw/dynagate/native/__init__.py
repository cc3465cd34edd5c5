"""Graphs and loops as C and CUDA: source text, compilation on first use, and calls with numpy arrays."""
