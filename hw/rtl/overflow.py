"""Collect the overflow bits of a sample in a pipeline of their own.

One bit per pass travels with the sample and accumulates the overflow bits of each cycle. A register has at most as many
inputs as a lookup table.
"""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Signal, Value

INPUTS = 6
"""Inputs of a lookup table."""

Flags = dict[int, list[Value]]
"""Overflow bits by the cycle of the sample in which they can be read."""


def gather(m: Module, flags: Mapping[int, Flags], latency: int, name: str = "overflow") -> tuple[Value, int]:
    """Collect overflow bits.

    Args:
        m: Module that the registers are added to.
        flags: Overflow bits of each pass that has any, by number of the pass.
        latency: Cycle of a sample in which its values are delivered.
        name: Prefix of the registers' names.

    Returns:
        One bit per pass, and the cycles by which these bits follow the values; a constant 0 if no pass has a bit.
    """
    if not flags:
        return Const(0, 1), 0
    bits = [_Gathered(m, f"{name}_{k}", scope, latency) for k, scope in flags.items()]
    late = max(bit.late for bit in bits)
    return Cat(*(bit.after(late) for bit in bits)), late


class _Gathered:
    """Overflow bit of one pass. late: cycles from the delivery of the values until the bit can be read."""

    def __init__(self, m: Module, name: str, flags: Flags, latency: int) -> None:
        self.m, self.name = m, name
        waiting = {cycle: list(bits) for cycle, bits in flags.items()}
        self.seen: Value | None = None
        cycle = min(waiting, default=latency)
        while cycle < latency or waiting:
            bits = waiting.pop(cycle, [])
            while len(bits) > INPUTS - 1:  # one input is for what was seen before
                some, bits = bits[:INPUTS], bits[INPUTS:]
                waiting.setdefault(cycle + 1, []).append(self._register(f"{cycle + 1}_{len(bits)}", Cat(*some).any()))
            cycle += 1
            here = bits if self.seen is None else [self.seen, *bits]
            if here:
                self.seen = self._register(str(cycle), Cat(*here).any())
        self.late = cycle - latency

    def _register(self, name: str, value: Value) -> Signal:
        register = Signal(name=f"{self.name}_{name}", reset_less=True)
        self.m.d.sync += register.eq(value)
        return register

    def after(self, late: int) -> Value:
        """Return the bit `late` cycles after the delivery of the values."""
        if self.seen is None:
            return Const(0, 1)
        seen = self.seen
        for k in range(self.late, late):
            seen = self._register(f"late_{k + 1}", seen)
        return seen
