"""Check a compiled program: replay its schedule on symbols, and its bits on integers."""
