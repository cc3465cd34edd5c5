"""Arithmetic units: each file holds gateware, bit-exact model and latency of one of them."""
