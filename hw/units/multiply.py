"""Multiply and add a constant, with operand, product and sum registers as in a DSP block.

p = a b + c. The constant c rounds the product, so that cutting it to a format needs only wiring. A product that one 27
× 18 block cannot hold is a chain of blocks, each of which adds its part one cycle later. The length of the chain is
that of 27 × 18 blocks on every device, so that a plan is valid for all of them. On a device with smaller blocks, a step
of the chain adds the products of up to two of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.wordlength.goal import DSP48E2, Multiplier
from dynagate.hw.units.latencies import ProductPart, constant_width, dsp_blocks, parts, product_latency
from dynagate.hw.units.rescale import PACKED, delayed, shift_left
from dynagate.hw.units.slot_selects import SlotSelects, choose


class DspTarget:
    """Device that gateware is elaborated for: Amaranth's `platform`. This base class leaves multipliers to
    synthesis.
    """

    multiplier: Multiplier = DSP48E2
    """Type of the device's multiplier block."""

    @staticmethod
    def of(platform: object) -> DspTarget:
        """Return the platform if it is a DspTarget, else the base class."""
        return platform if isinstance(platform, DspTarget) else DspTarget()

    def choose(self, m: Module, ways: Sequence[Value | None], slots: SlotSelects, name: str) -> Value:
        """Return the way of the present slot.

        Args:
            m: Module to add to.
            ways: Values by slot; None for a slot that may read any value.
            slots: Select signals of the unit.
            name: Prefix of names.
        """
        return choose(ways, slots)

    def product(self, m: Module, a: Value, b: Value, name: str, most: int) -> Value:
        """Return a b, signed, two cycles later: behind operand registers and a product register.

        Args:
            m: Module to add to.
            a: A factor.
            b: A factor.
            name: Suffix of the names of registers.
            most: Largest number of bits that the result needs; it drops bits above.
        """
        a, b = delayed(m, a, 1, f"a{name}", packed=True), delayed(m, b, 1, f"b{name}", packed=True)
        product = Signal(signed(min(len(a) + len(b), most)), name=f"product{name}", reset_less=True, attrs=PACKED)
        m.d.sync += product.eq(a * b)
        return product


class Multiply(wiring.Component):
    """Computes p = a b + c, `latency` cycles later. Accepts operands every cycle.

    =  ===  ============================================
    a  in   signed: a factor
    b  in   signed: a factor
    c  in   signed: the addend, which rounds the product
    p  out  signed: the sum
    =  ===  ============================================

    Args:
        width_a: Bits of a.
        width_b: Bits of b.
        width: Bits of c and p, which are the sum modulo 2**width; width_a + width_b by default.
        product_width: Bits of a b; width_a + width_b by default.
        late_constant: Whether c arrives two cycles after a and b.
        places: Bits of the addend that may be 1. The port c is unsigned, with one bit for each of them; all others of
            the addend are 0 and take no adder's lookup table and no register. None: c is the addend.
    """

    def __init__(
        self,
        width_a: int,
        width_b: int,
        width: int = 0,
        product_width: int = 0,
        *,
        late_constant: bool = False,
        places: Sequence[int] | None = None,
    ) -> None:
        self.width_a, self.width_b = width_a, width_b
        self.places = places
        self.width = width = width or width_a + width_b
        self.product_width = product_width or width_a + width_b
        self.late_constant = late_constant
        self.latency = product_latency(width_a, width_b)
        super().__init__(
            {
                "a": In(signed(width_a)),
                "b": In(signed(width_b)),
                "c": In(signed(width) if places is None else unsigned(len(places))),
                "p": Out(signed(width)),
            }
        )

    @staticmethod
    def model(a: Any, b: Any, c: Any) -> Any:
        """Return the sum that the unit computes."""
        return a * b + c

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fabric = DspTarget.of(platform)
        addend: Value = self.c if self.late_constant else delayed(m, self.c, 2, "c")
        if self.places is not None:
            bit_of = dict(zip(self.places, addend, strict=True))
            addend = Cat(bit_of.get(k, Const(0, 1)) for k in range(self.width)).as_signed()
        done: list[Value] = []  # low bits that no later step changes
        weight = 0
        steps = dsp_blocks(self.width_a, self.width_b)
        blocks = list(enumerate(parts(self.width_a, self.width_b, fabric.multiplier)))
        together = math.ceil(len(blocks) / steps)
        for k in range(steps):
            here = blocks[k * together : (k + 1) * together]
            up = here[0][1].weight - weight if here else 0
            if up:
                # bits below this step's weight are final: they only wait for the steps that follow
                done.append(delayed(m, addend[:up], steps - k, f"low{k}"))
                addend = addend[up:].as_signed()
                weight += up
            terms = [addend]
            for number, part in here:
                a = delayed(m, _piece(self.a, part.low_a, part.bits_a), k, f"a{number}_early")
                b = delayed(m, _piece(self.b, part.low_b, part.bits_b), k, f"b{number}_early")
                product = fabric.product(m, a, b, str(number), self._part_width(part))
                terms.append(shift_left(product, part.weight - weight))
            total = Signal(signed(self.width - weight), name=f"sum{k}", reset_less=True)
            m.d.sync += total.eq(_sum(m, terms, total, k))
            addend = total
        m.d.comb += self.p.eq(Cat(*done, addend))
        return m

    def _part_width(self, part: ProductPart) -> int:
        """Return the bits of a block's product that the sum needs.

        A piece below the top one is not negative. The product of two such pieces needs a bit for its sign.
        """
        tops = (part.low_a + part.bits_a == self.width_a) + (part.low_b + part.bits_b == self.width_b)
        pieces = part.bits_a + part.bits_b + (tops == 0)
        own = self.product_width if part.bits_a + part.bits_b == self.width_a + self.width_b else pieces
        return min(own, self.width - part.weight)


def _sum(m: Module, terms: list[Value], total: Signal, step: int) -> Value:
    """Return the sum of up to three terms in one carry chain; a level of lookup tables reduces three terms to two."""
    if len(terms) < 3:
        return sum(terms[1:], start=terms[0])
    x, y, z = (Signal.like(total, name=f"term{step}_{k}") for k in range(3))
    m.d.comb += [wire.eq(term) for wire, term in zip((x, y, z), terms, strict=True)]
    carries = Signal.like(total, name=f"carries{step}")
    m.d.comb += carries.eq((x & y) | (x & z) | (y & z))
    return (x ^ y ^ z).as_signed() + (carries << 1)


def _piece(value: Value, low: int, bits: int) -> Value:
    """Return bits of an operand as a signed number: the top piece has the sign, the others are non-negative."""
    if low + bits == len(value):
        return value[low:].as_signed()
    return Cat(value[low : low + bits], Const(0, 1)).as_signed()


class MultiplyConst(wiring.Component):
    """Computes p = a · constant + c, with the latency of a multiplier for a factor of the constant's width.

    =  ===  ==================
    a  in   signed: the factor
    c  in   signed: the addend
    p  out  signed: the sum
    =  ===  ==================
    """

    def __init__(self, width_a: int, constant: int) -> None:
        self.width_a, self.constant = width_a, constant
        self.width_b = constant_width(constant)
        self.latency = product_latency(width_a, self.width_b)
        width = width_a + self.width_b
        super().__init__({"a": In(signed(width_a)), "c": In(signed(width)), "p": Out(signed(width))})

    def model(self, a: Any, c: Any) -> Any:
        """Return the sum that the unit computes."""
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
