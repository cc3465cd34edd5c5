"""The graph as C: vectors over the batch, compiled on first use and called with numpy arrays."""
