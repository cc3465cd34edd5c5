"""Simulation: models compiled by Verilator, cocotb benches, and the first difference between RTL and integers."""
