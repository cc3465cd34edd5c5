"""Gateware of the datapath, its streams, registers and shells."""
