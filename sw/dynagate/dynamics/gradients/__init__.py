"""Derivatives of inverse and forward dynamics with respect to positions and velocities."""
