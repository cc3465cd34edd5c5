"""Select signals of the operand multiplexers of one shared unit, by slot.

A lookup table with six inputs joins four ways. A tree over the bits of the slot counter joins the ways of neighbouring
slots, so a way that several slots use takes several inputs. With select registers of its own, a multiplexer has one
input for each different way, and a table fewer for every three inputs that this saves.

A slot without an operation may read any way, which is the way None: it takes no input and no part of a select signal.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import permutations
from typing import TypeVar

import numpy as np
from amaranth.hdl import Const, Module, Mux, Signal, Value
from dynagate.hw.units.rescale import KEPT

JOINED = 4
"""Largest number of ways that one lookup table joins."""

Count = TypeVar("Count", int, np.ndarray)
Pattern = tuple[bool | None, ...]
"""Value of a select signal in each slot; None if no table uses it there."""


class SlotSelects:
    """Slot counter of one unit, and registers that select ways by slot.

    The bits of a common counter would drive thousands of multiplexers. The attribute keeps equal registers apart.

    The select registers have no reset. They follow the counter by one cycle, and so are wrong at most in the first
    cycle after a reset. No sample enters in that cycle, because the flow control has no credit in it.

    Args:
        m: Module to add to.
        ii: Number of slots.
        name: Prefix of the names of signals.
    """

    def __init__(self, m: Module, ii: int, name: str) -> None:
        self.ii, self.name, self._m = ii, name, m
        self.counter = Signal(range(ii), name=f"{name}_slot", attrs=KEPT)
        if ii > 1:
            m.d.sync += self.counter.eq(Mux(self.counter == ii - 1, 0, self.counter + 1))
        self._signals: list[tuple[Value, Pattern]] = [
            (bit, tuple(bool(slot >> k & 1) for slot in range(ii))) for k, bit in enumerate(self.counter)
        ]
        self._registers = len(self._signals)

    def missing(self, patterns: Sequence[Pattern]) -> int:
        """Return how many of these patterns need a register that does not exist."""
        return sum(all(not _agree(pattern, other) for _, other in self._signals) for pattern in patterns)

    def signal(self, pattern: Pattern) -> Value:
        """Return a signal that has the values of a pattern. A register is added if no signal has them."""
        for k, (signal, other) in enumerate(self._signals):
            if _agree(pattern, other):
                self._signals[k] = signal, tuple(a if b is None else b for a, b in zip(pattern, other, strict=True))
                return signal
        name = f"{self.name}_select_{len(self._signals) - self._registers}"
        signal = Signal(name=name, init=bool(pattern[0]), reset_less=True, attrs=KEPT)
        self._signals.append((signal, pattern))
        return signal

    def finish(self) -> None:
        """Drive the registers; call once after the last `signal`."""
        for signal, pattern in self._signals[self._registers :]:
            bits = {False: Const(0, 1), True: Const(1, 1), None: None}
            values = [bits[value] for value in pattern]
            self._m.d.sync += signal.eq(by_number([*values[1:], values[0]], self.counter))


def _agree(a: Pattern, b: Pattern) -> bool:
    """Return whether one signal can have both patterns."""
    return all(x is None or y is None or x == y for x, y in zip(a, b, strict=True))


def by_number(ways: Sequence[Value | None], number: Iterable[Value]) -> Value:
    """Return the way with a number, by a tree of two-way multiplexers on the number's bits, the lowest bit first.

    Equal objects need no multiplexer. A number whose way is None may return any way; at least one is not None.
    """
    level = list(ways)
    for bit in number:
        pairs = zip(level[::2], [*level[1::2], None], strict=False)
        level = [_either(low, high, bit) for low, high in pairs]
    assert level[0] is not None
    return level[0]


def _either(low: Value | None, high: Value | None, bit: Value) -> Value | None:
    """Return `high` where the bit is 1, else `low`; the other one for None."""
    if low is None or low is high:
        return high
    return low if high is None else Mux(bit, high, low)


def choose(ways: Sequence[Value | None], slots: SlotSelects) -> Value:
    """Return the way of the present slot, with the fewest lookup tables.

    Args:
        ways: Values by slot; None for a slot that may read any value. At least one is not None.
        slots: Select signals of the unit.
    """
    by_key: dict[Hashable, Value] = {}
    ways = [None if way is None else by_key.setdefault(_key(way), way) for way in ways]
    inputs = list(by_key.values())
    keys = [None if way is None else id(way) for way in ways]
    if all(isinstance(way, Const) for way in inputs) or tables_by_counter(keys) <= tables(len(inputs)):
        return by_number(ways, slots.counter)
    return _chosen(ways, inputs, slots)


def _key(way: Value) -> Hashable:
    """Return a key that is equal for equal values."""
    return (way.value, len(way)) if isinstance(way, Const) else id(way)


def tables(inputs: Count) -> Count:
    """Return the lookup tables per bit that join this many ways; 0 for none."""
    return -(-(inputs - 1) // (JOINED - 1))


def tables_of(ways: Sequence[Hashable]) -> int:
    """Return the lookup tables per bit of the multiplexer that `choose` builds for ways by slot, None for any."""
    return min(tables(len(set(ways) - {None})), tables_by_counter(ways))


def tables_by_counter(ways: Sequence[Hashable]) -> int:
    """Return the lookup tables per bit that join ways by two bits of the slot counter each; None stands for any."""
    level, count = list(ways), 0
    while len(level) > 1:
        groups = [tuple(level[k : k + JOINED]) for k in range(0, len(level), JOINED)]
        level = []
        for group in groups:
            different = set(group) - {None}
            count += len(different) > 1
            level.append(group if len(different) > 1 else next(iter(different), None))
    return count


def _chosen(ways: Sequence[Value | None], inputs: Sequence[Value], slots: SlotSelects) -> Value:
    """Return the way of the present slot, by a tree in which each table joins four inputs or earlier tables."""
    level = [(value, frozenset(slot for slot, way in enumerate(ways) if way is value)) for value in inputs]
    first = (len(level) - 1) % (JOINED - 1)
    count = first + 1 if first else JOINED
    while len(level) > 1:
        joined, level = level[:count], level[count:]
        level.append((_table(joined, slots), frozenset[int]().union(*(used for _, used in joined))))
        count = JOINED
    return level[0][0]


def _table(joined: Sequence[tuple[Value, frozenset[int]]], slots: SlotSelects) -> Value:
    """Return one of up to four values, each in the slots that use it.

    The numbers of the values are those that need the fewest new select registers.
    """
    bits = (len(joined) - 1).bit_length()

    def patterns(order: Sequence[int]) -> list[Pattern]:
        number = {slot: code for code, (_, used) in zip(order, joined, strict=True) for slot in used}
        return [
            tuple(bool(number[slot] >> k & 1) if slot in number else None for slot in range(slots.ii))
            for k in range(bits)
        ]

    order = min(permutations(range(1 << bits), len(joined)), key=lambda order: slots.missing(patterns(order)))
    select = [slots.signal(pattern) for pattern in patterns(order)]
    by_code = {code: value for code, (value, _) in zip(order, joined, strict=True)}
    some = joined[0][0]
    return by_number([by_code.get(code, by_code.get(code ^ 1, some)) for code in range(1 << bits)], select)
