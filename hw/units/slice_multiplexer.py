"""Multiplexers in ECP5's slices, for the operands of shared units.

A lookup table with two ways feeds a multiplexer of its slice, which feeds multiplexers of its tile over local wires.
Only one table and one wire of the routing fabric precede a unit's operand. Yosys' tables would need up to five levels.
"""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Instance, Module, Mux, Signal, Value

WAYS = 16
"""Largest number of ways that the multiplexers of a tile join."""
FEW = 4
"""Number of sources of a bit up to which lookup tables are as fast."""
SECOND_WHERE_C = Const(0xCACA, 16)
"""Content of a lookup table: B if C is 1, else A."""


def suits(ways: Sequence[Value]) -> bool:
    """Return whether slice multiplexers are faster than lookup tables for these ways."""
    return max(len(set(sources)) for sources in _sources(ways)) > FEW


def select_way(m: Module, ways: Sequence[Value], select: Value) -> Value:
    """Return the way with this number, sign-extended to the longest way.

    Args:
        m: Module to add to, which holds nothing else.
        ways: Signed values, more than FEW and up to 2 ** len(select).
        select: Number of the way.
    """
    length = 1 << len(select)
    padded = [*ways, *[ways[-1]] * (length - len(ways))]
    if length > WAYS:
        low, high = (select_way(m, half, select[:-1]) for half in (padded[: length // 2], padded[length // 2 :]))
        return Mux(select[-1], high, low)
    bits: list[Value] = []
    sources = _sources(padded)
    for k, source in enumerate(sources):
        if k and source == sources[k - 1]:
            bits.append(bits[-1])
        else:
            bits.append(_bit(m, [way[min(k, len(way) - 1)] for way in padded], select))
    return Cat(*bits).as_signed()


def _sources(ways: Sequence[Value]) -> list[list[object]]:
    """Return the source of each bit of the result in each of the ways."""
    return [[_source(way, min(k, len(way) - 1)) for way in ways] for k in range(max(map(len, ways)))]


def _source(way: Value, place: int) -> object:
    """Return a key that is equal for equal bits."""
    return (way.value >> place) & 1 if isinstance(way, Const) else (id(way), place)


def _bit(m: Module, ways: Sequence[Value], select: Value) -> Value:
    """Return one of 4, 8 or 16 bits."""
    first, second, *rest = select
    tables = [
        _cell(m, "LUT4", "Z", p_INIT=SECOND_WHERE_C, i_A=low, i_B=high, i_C=first, i_D=Const(0, 1))
        for low, high in zip(ways[::2], ways[1::2], strict=True)
    ]
    level = [
        _cell(m, "PFUMX", "Z", i_BLUT=low, i_ALUT=high, i_C0=second)
        for low, high in zip(tables[::2], tables[1::2], strict=True)
    ]
    for bit in rest:
        level = [
            _cell(m, "L6MUX21", "Z", i_D0=low, i_D1=high, i_SD=bit)
            for low, high in zip(level[::2], level[1::2], strict=True)
        ]
    return level[0]


def _cell(m: Module, kind: str, output: str, **ports: Value) -> Signal:
    """Add a primitive cell of the device and return its output."""
    result = Signal(name=kind.lower())
    m.submodules += Instance(kind, **ports, **{f"o_{output}": result})
    return result
