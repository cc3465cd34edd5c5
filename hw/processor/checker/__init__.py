"""Checks of a compiled program: a replay of its schedule on symbols, and of its bits on integers."""
