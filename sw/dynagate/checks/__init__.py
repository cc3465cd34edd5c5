"""Checks of a robot's physics before use: inertias, limits, twins, and what it does over its range."""
