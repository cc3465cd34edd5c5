"""Reciprocal from a table of linear or quadratic polynomials: address, table, one or two products.

The arithmetic is defined by `fixedpoint.tabulated.TablePlan`; the stages follow its lines in order.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.tabulated import SPARE_BITS, TablePlan, Window, table_plan
from dynagate.hw.units.latencies import product_latency
from dynagate.hw.units.multiply import Multiply
from dynagate.hw.units.rescale import BLOCK_RAM, delayed, differ, shift_left

WINDOWS_AT_ONCE = 4
"""Largest number of windows among which the address is chosen without a register of its own."""


def plan_of(source_width: int, to_width: int, point: int) -> TablePlan:
    """Return the plan of a reciprocal with a table.

    Args:
        source_width: Bits of the operand.
        to_width: Bits of the result.
        point: Fraction bits of operand and result together.

    Raises:
        AssertionError: These formats have no table.
    """
    plan = table_plan(source_width, to_width, point)
    assert plan is not None, "formats without a table have a unit of their own"
    return plan


def products(source_width: int, to_width: int, point: int) -> list[tuple[int, int, int, int]]:
    """Return the widths of operands, sum and product for each product, the innermost first."""
    plan = plan_of(source_width, to_width, point)
    *inner, outer = plan.product_widths
    sums = [(plan.offset_width, plan.widths[2], plan.slope_width + plan.inner_shift, bits) for bits in inner]
    return [*sums, (plan.offset_width, plan.slope_width, plan.sum_width, outer)]


def latency(source_width: int, to_width: int, point: int) -> int:
    """Return the cycles of the unit: the address if there are many windows, the table, and the products."""
    addressed = len(plan_of(source_width, to_width, point).windows) > WINDOWS_AT_ONCE
    return 1 + addressed + sum(product_latency(a, b) for a, b, *_ in products(source_width, to_width, point))


class TabulatedReciprocal(wiring.Component):
    """Computes o = 1/x, `latency` cycles later. Accepts an operand every cycle.

    ========  ===  ====================================================
    x         in   signed: the operand
    o         out  signed: the result
    overflow  out  1: x is not positive, or the result does not fit
    ========  ===  ====================================================
    """

    def __init__(self, source_width: int, to_width: int, point: int) -> None:
        self.source_width, self.to_width = source_width, to_width
        self.key = source_width, to_width, point
        self.plan = plan_of(*self.key)
        self.latency = latency(*self.key)
        super().__init__({"x": In(signed(source_width)), "o": Out(signed(to_width)), "overflow": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan = self.plan
        address, offset = self._found(m)
        if len(plan.windows) > WINDOWS_AT_ONCE:
            address, offset = delayed(m, address, 1, "address"), delayed(m, offset, 1, "offset_too")
        below = Signal(reset_less=True)
        m.d.sync += below.eq(self.x < plan.least)

        m.submodules.table = table = self._table()
        read = table.read_port()
        m.d.comb += [read.addr.eq(address), read.en.eq(1)]
        offset = delayed(m, offset, 1, "offset")
        columns, low = [], 0
        for width in plan.widths:
            columns.append(read.data[low : low + width].as_signed())
            low += width
        value, slope, *curvature = columns

        *inner_widths, outer_widths = products(*self.key)
        for widths in inner_widths:
            m.submodules.inner = inner = Multiply(*widths)
            half = Const(1 << (plan.inner_shift - 1), plan.inner_shift)
            m.d.comb += [inner.a.eq(offset), inner.b.eq(curvature[0]), inner.c.eq(Cat(half, slope).as_signed())]
            slope = inner.p >> plan.inner_shift
            value = delayed(m, value, inner.latency, "value", packed=True)
            offset = delayed(m, offset, inner.latency, "offset_late")
        m.submodules.outer = outer = Multiply(*outer_widths)
        m.d.comb += [
            outer.a.eq(offset),
            outer.b.eq(slope),
            outer.c.eq(shift_left(value, plan.frac1 - SPARE_BITS)),
            self.o.eq(outer.p >> plan.frac1),
            self.overflow.eq(
                differ(outer.p[plan.frac1 + self.to_width - 1 :]) | delayed(m, below, self.latency - 1, "below")
            ),
        ]
        return m

    def _found(self, m: Module) -> tuple[Value, Value]:
        """Return the address of the segment and the signed offset from its center, by the window of the operand."""
        plan = self.plan
        size = (len(plan.coefficients[0]) - 1).bit_length()
        address, offset = self._in(plan.windows[0], size)
        for before, window in zip(plan.windows, plan.windows[1:], strict=False):
            above = self.x[before.bits : self.source_width - 1].any()
            here = self._in(window, size)
            address, offset = Mux(above, here[0], address), Mux(above, here[1], offset).as_signed()
        return address, offset

    def _in(self, window: Window, size: int) -> tuple[Value, Value]:
        """Return the address and the offset of an operand in one window."""
        index = self.x[window.offset_bits : window.bits]
        address = Cat(index, Const(window.first >> len(index), size - len(index)))
        # minus half a segment: the top bit of the offset becomes its sign, inverted
        low = self.x[: window.offset_bits]
        return address, Cat(low[:-1], ~low[-1]).as_signed()

    def _table(self) -> Memory:
        words, widths = [], self.plan.widths
        for coefficients in zip(*self.plan.coefficients, strict=True):
            word = low = 0
            for c, width in zip(coefficients, widths, strict=True):
                word |= (c & ((1 << width) - 1)) << low
                low += width
            words.append(word)
        return Memory(shape=unsigned(sum(widths)), depth=len(words), init=words, attrs=BLOCK_RAM)
