"""Lee, Liu, Park & Srinivasa, "A Linear-Time Variational Integrator for Multibody Systems" (2020)."""
