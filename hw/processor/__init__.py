"""A processor for graphs: a few multiply-add units, values in memories, a program.

`isa` describes a core and its packets, `compiler` makes programs, `checker` replays them, `rtl` is the gateware of a
core, and `shell` the gateware around cores. The files here resolve the requested core, and build and reopen programs.
"""
