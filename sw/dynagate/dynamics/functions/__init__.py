"""The function table: every function that can be traced, evaluated and built, by name."""
