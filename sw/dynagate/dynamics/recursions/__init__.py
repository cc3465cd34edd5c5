"""Passes over the links of a robot, from the base to the leaves and back."""
