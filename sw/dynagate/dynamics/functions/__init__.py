"""The function table: what can be traced, evaluated and built, by name."""
