"""Executors of integers: what the hardware computes, in numpy and C."""
