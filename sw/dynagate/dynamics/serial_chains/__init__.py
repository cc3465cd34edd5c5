"""Parallel algorithms for serial chains of revolute and prismatic joints (Yang, Wu & Pan 2016)."""
