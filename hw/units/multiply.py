"""Multiply and add a constant, pipelined as a DSP block wants it: operand, product and sum registers.

p = a b + c. The constant c rounds the product, so that cutting it to a format afterwards is wiring. A product that
one 27 × 18 block cannot hold is a chain of blocks, each adding its part to the one before, one cycle later.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.hw.units.rescale import delayed

DSP_A, DSP_B = 27, 18
"""Operand widths of a DSP48E2."""


def parts(width_a: int, width_b: int) -> list[tuple[int, int, int, int, int]]:
    """The blocks of a product, least significant first: (low bit and width of a, low bit and width of b, weight)."""
    if width_a < width_b:
        return [(a, wa, b, wb, w) for b, wb, a, wa, w in parts(width_b, width_a)]
    pieces_a = _pieces(width_a, DSP_A)
    pieces_b = _pieces(width_b, DSP_B)
    return sorted(((a, wa, b, wb, a + b) for a, wa in pieces_a for b, wb in pieces_b), key=lambda p: (p[4], p[0]))


def _pieces(width: int, limit: int) -> list[tuple[int, int]]:
    """(low bit, bits): unsigned pieces of limit - 1 bits, the last one signed and of up to limit bits."""
    pieces = []
    low = 0
    while width - low > limit:
        pieces.append((low, limit - 1))
        low += limit - 1
    return [*pieces, (low, width - low)]


def dsp_blocks(width_a: int, width_b: int) -> int:
    return len(parts(width_a, width_b))


def latency(width_a: int, width_b: int) -> int:
    return 2 + dsp_blocks(width_a, width_b)


class Multiply(wiring.Component):
    """p = a b + c, `latency` cycles later. A new product every cycle.

    width: of c and p; width_a + width_b unless the constant needs more. late_constant: c comes two cycles late.

    =  ===  ============================================
    a  in   a factor, signed
    b  in   a factor, signed
    c  in   the addend, signed, which rounds the product
    p  out  the sum, signed
    =  ===  ============================================
    """

    def __init__(self, width_a: int, width_b: int, width: int = 0, *, late_constant: bool = False) -> None:
        self.width_a, self.width_b = width_a, width_b
        self.width = width = max(width, width_a + width_b)
        self.late_constant = late_constant
        self.latency = latency(width_a, width_b)
        super().__init__(
            {
                "a": In(signed(width_a)),
                "b": In(signed(width_b)),
                "c": In(signed(width)),
                "p": Out(signed(width)),
            }
        )

    @staticmethod
    def model(a: Any, b: Any, c: Any) -> Any:
        return a * b + c

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.width
        addend: Value = self.c if self.late_constant else delayed(m, self.c, 2, "c")
        done: list[Value] = []  # low bits that no later block changes
        weight = 0
        blocks = parts(self.width_a, self.width_b)
        for k, (low_a, bits_a, low_b, bits_b, block_weight) in enumerate(blocks):
            a = delayed(m, _piece(self.a, low_a, bits_a), k + 1, f"a{k}")
            b = delayed(m, _piece(self.b, low_b, bits_b), k + 1, f"b{k}")
            product = Signal(signed(len(a) + len(b)), name=f"product{k}", reset_less=True)
            m.d.sync += product.eq(a * b)
            step = block_weight - weight
            if step:
                # bits below this block's weight are final: they only wait for the blocks that follow
                done.append(delayed(m, addend[:step], len(blocks) - k, f"low{k}"))
                addend = addend[step:].as_signed()
                weight = block_weight
            total = Signal(signed(width - weight), name=f"sum{k}", reset_less=True)
            m.d.sync += total.eq(product + addend)
            addend = total
        m.d.comb += self.p.eq(Cat(*done, addend))
        return m


def _piece(value: Value, low: int, bits: int) -> Value:
    """Bits of an operand as a signed number: the top piece carries the sign, the others are made non-negative."""
    if low + bits == len(value):
        return value[low:].as_signed()
    return Cat(value[low : low + bits], Const(0, 1)).as_signed()


class MultiplyConst(wiring.Component):
    """p = a times a constant plus c, with the latency of a multiplier of a variable of that width.

    =  ===  ==================
    a  in   a factor, signed
    c  in   the addend, signed
    p  out  the sum, signed
    =  ===  ==================
    """

    def __init__(self, width_a: int, constant: int) -> None:
        self.width_a, self.constant = width_a, constant
        self.width_b = constant_width(constant)
        self.latency = latency(width_a, self.width_b)
        width = width_a + self.width_b
        super().__init__({"a": In(signed(width_a)), "c": In(signed(width)), "p": Out(signed(width))})

    def model(self, a: Any, c: Any) -> Any:
        return a * self.constant + c

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = core = Multiply(self.width_a, self.width_b)
        m.d.comb += [
            core.a.eq(self.a),
            core.b.eq(Const(self.constant, signed(self.width_b))),
            core.c.eq(self.c),
            self.p.eq(core.p),
        ]
        return m


def constant_width(constant: int) -> int:
    """Bits of a constant with its sign."""
    return constant.bit_length() + 1
