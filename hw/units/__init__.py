"""Arithmetic units. Each file holds the gateware, the bit-exact model and the latency of one unit."""
