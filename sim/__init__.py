"""Simulation: Verilator builds, cocotb benches, and the first difference between RTL and integers."""
