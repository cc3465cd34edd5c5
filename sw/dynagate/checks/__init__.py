"""Checks of a robot's physics before use: inertias, limits, left and right twins, and behavior over its range."""
