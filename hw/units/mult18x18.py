"""The multiplier block of ECP5 with its operand and product registers. Yosys infers the block without them."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, Value, signed
from dynagate.fixedpoint.wordlength.goal import MULT18X18
from dynagate.hw.units import slice_multiplexer
from dynagate.hw.units.multiply import DspTarget
from dynagate.hw.units.slot_selects import SlotSelects

BITS = 18
"""Bits of an operand."""
REGISTERS = {
    **{f"REG_{place}_{pin}": f"{pin}0" for place in ("INPUTA", "INPUTB", "OUTPUT") for pin in ("CLK", "CE", "RST")},
    **{f"REG_{place}_CLK": "NONE" for place in ("INPUTC", "PIPELINE")},
}
"""Parameters of MULT18X18D that select its registers, and their clock, enable and reset."""


class Ecp5(DspTarget):
    """Lattice ECP5 with multiplier blocks MULT18X18D."""

    multiplier = MULT18X18

    def choose(self, m: Module, ways: Sequence[Value | None], slots: SlotSelects, name: str) -> Value:
        some = next(way for way in ways if way is not None)
        filled = [some if way is None else way for way in ways]
        if not slice_multiplexer.suits(filled):
            return super().choose(m, ways, slots, name)
        m.submodules[name] = inner = Module()
        return slice_multiplexer.select_way(inner, filled, slots.counter)

    def product(self, m: Module, a: Value, b: Value, name: str, most: int) -> Value:
        product = Signal(signed(2 * BITS), name=f"product{name}")
        operands = {"A": _extended(a), "B": _extended(b), "C": Const(0, BITS)}
        m.submodules[f"block{name}"] = Instance(
            "MULT18X18D",
            **{f"p_{parameter}": value for parameter, value in REGISTERS.items()},
            **{f"i_{port}{k}": value[k] for port, value in operands.items() for k in range(BITS)},
            **{f"i_{port}": Const(1, 1) for port in ("SIGNEDA", "SIGNEDB", "CE0")},
            **{f"i_{port}": Const(0, 1) for port in ("SOURCEA", "SOURCEB", "RST0")},
            i_CLK0=ClockSignal(),
            **{f"o_P{k}": product[k] for k in range(2 * BITS)},
        )
        return product[: min(len(a) + len(b), most)].as_signed()


def _extended(value: Value) -> Value:
    """Return a signed value, extended to the width of the block's operands."""
    return Cat(value, value[-1].replicate(BITS - len(value)))
