"""Fixed point: formats and their arithmetic, ranges, assignment of formats, and the integer executor."""
