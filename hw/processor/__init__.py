"""A processor for graphs: a few multiply-add units, values in memories, a program.

`shape` says what a core is, `instructions` what a graph becomes, `schedule` when and where, `words` in which bits.
`replay` runs the bits in Python. `unit`, `core` and `elementary` are the gateware.
"""
