"""Fixed point: formats and their arithmetic, ranges, assignment of formats, and integer models of the hardware."""
