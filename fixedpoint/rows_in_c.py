"""The operations on integers in C: an expression for each, and the numbers that two formats give it.

The numpy functions of `fixedpoint.integers` are the definition. These rows compute the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dynagate.base.errors import Error
from dynagate.fixedpoint.elementary import LAST, Quadratic, exp_plan, reciprocal_plan, sine_plan
from dynagate.fixedpoint.format import HALF_UP, INT64_BITS, SATURATE, Arithmetic, Format
from dynagate.fixedpoint.integers import root_shift
from dynagate.fixedpoint.tabulated import SPARE_BITS, TablePlan, table_plan
from dynagate.graph.ops import table

TYPES = 32, 64, 128
"""Bits of the integer types in C. Two are left free, one of them for the rounding constant."""


class NotInCError(Error, ValueError):
    """Formats that the integers in C do not support. The text says which."""


@dataclass(frozen=True)
class Exact:
    """The exact result of an operation, before it enters its format.

    bits: of the widest intermediate value. frac: its fraction bits. up: by how many bits each operand is moved first.
    plan: the numbers of tables and steps. arithmetic: how the result enters its format, if not as the graph's.
    """

    bits: int
    frac: int
    up: tuple[int, ...]
    plan: tuple[int, ...] = ()
    arithmetic: Arithmetic | None = None


@dataclass(frozen=True)
class CInteger:
    """An operation on integers in C.

    text: the exact result. x, y and z are the operands, a constant last; {bits} is the type's size; p are the numbers
    of the plan, and `wrong` is set where there is no result.
    exact: of the operands' formats, the constant's last, and the result's. constant: the node's constant.
    elementary: the text calls a function, of 64 or 128 bits.
    """

    text: str
    exact: Callable[[Sequence[Format], Format, int], Exact]
    elementary: bool = False


@dataclass(frozen=True)
class Entering:
    """How an exact result enters its format: `down` bits are cut. type: bits of the type in C."""

    type: int
    down: int
    half: bool
    saturate: bool


def entering(row: CInteger, exact: Exact, to: Format, arithmetic: Arithmetic) -> Entering:
    """Raises NotInCError: no type is wide enough."""
    arithmetic = exact.arithmetic or arithmetic
    down = max(exact.frac - to.frac, 0)
    bits = max(exact.bits, down + 1)
    for type in TYPES[1:] if row.elementary else TYPES:
        if bits <= type - 2 and to.width <= type:
            return Entering(type, down, down > 0 and arithmetic.rounding == HALF_UP, arithmetic.overflow == SATURATE)
    raise NotInCError(f"an intermediate value of {bits} bits; expected at most {TYPES[-1] - 2}")


def _sum(formats: Sequence[Format], to: Format, constant: int = 0) -> Exact:
    frac = max(format.frac for format in formats)
    more = max(0, to.frac - frac)
    bits = 2 + max(format.width + frac - format.frac for format in formats) + more
    return Exact(bits, frac + more, tuple(frac - format.frac + more for format in formats))


def _product(formats: Sequence[Format], to: Format, constant: int) -> Exact:
    a, b = formats
    more = max(0, to.frac - a.frac - b.frac)
    return Exact(a.width + b.width + more, a.frac + b.frac + more, (more, 0))


def _fused(formats: Sequence[Format], to: Format, constant: int) -> Exact:
    a, b, c = formats
    below = a.frac + b.frac
    frac = max(below, c.frac, to.frac)
    bits = 2 + max(a.width + b.width + frac - below, c.width + frac - c.frac)
    return Exact(bits, frac, (frac - below, 0, frac - c.frac))


def _shift(formats: Sequence[Format], to: Format, constant: int) -> Exact:
    return _sum([Format(formats[0].width, formats[0].frac - constant)], to)


def _select(formats: Sequence[Format], to: Format, constant: int) -> Exact:
    chosen = _sum(formats[1:], to)
    return Exact(max(chosen.bits - 1, formats[0].width), chosen.frac, (0, *chosen.up))


def _counts(*shifts: int) -> None:
    """Raises NotInCError: a number of more bits than C has, or a count of bits that it cannot shift by."""
    if not all(0 <= shift < INT64_BITS for shift in shifts):
        raise NotInCError(f"a plan with {', '.join(map(str, shifts))} bits; expected 0 to {INT64_BITS - 1}")


def _sine(formats: Sequence[Format], to: Format, constant: int) -> Exact:
    (source,) = formats
    _counts(max(to.frac, 2) + 4)
    plan = sine_plan(source, to)
    _counts(plan.per_radian.bit_length(), plan.phase_shift)
    numbers = plan.per_radian, plan.phase_shift, *_quadratic(plan.quarter)
    bits = max(source.width + plan.per_radian.bit_length() + 1, plan.quarter.outer_frac + 4)
    return Exact(bits, plan.quarter.frac, (0,), numbers, LAST)


def _quadratic(plan: Quadratic) -> tuple[int, ...]:
    up = plan.outer_frac - plan.frac0
    _counts(plan.bits + 2, plan.inner_shift - 1, plan.outer_shift - 1, up)
    sizes = plan.bits, plan.offset_bits, plan.inner_shift, plan.outer_shift, up, len(plan.c0)
    return (*sizes, *plan.c0, *plan.c1, *plan.c2)


def _exp(formats: Sequence[Format], to: Format, constant: int) -> Exact:
    (source,) = formats
    _counts(to.width + 10)
    plan = exp_plan(source, to)
    product = source.width + plan.per_unit.bit_length() + 1
    _counts(plan.per_unit.bit_length(), plan.shift, plan.most_down)
    numbers = plan.per_unit, plan.shift, plan.down, plan.least_down(to), plan.most_down, *_quadratic(plan.power)
    return Exact(max(product, plan.power.outer_frac + 4), to.frac, (0,), numbers, LAST)


def _root(formats: Sequence[Format], to: Format, constant: int) -> Exact:
    (source,) = formats
    shift = root_shift(source, to)
    _counts(abs(shift))
    return Exact(source.width + max(shift, 0), to.frac, (0,), (shift,), LAST)


def _reciprocal(formats: Sequence[Format], to: Format, constant: int) -> Exact:
    (source,) = formats
    plan = table_plan(source.width, to.width, source.frac + to.frac)
    if plan is not None:
        bits = max(to.width + SPARE_BITS + plan.frac1, source.width)
        return Exact(bits, to.frac, (0,), (1, *_tabulated(source, plan)), LAST)
    return _newton(formats, to, constant)


def _newton(formats: Sequence[Format], to: Format, constant: int) -> Exact:
    (source,) = formats
    newton = reciprocal_plan(source, to)
    least, last = newton.least_down(to), len(newton.steps) - 1
    numbers = [source.width, newton.index_bits, newton.shift, least, newton.most_down, len(newton.steps)]
    for k, (have, error_frac, reached) in enumerate(newton.steps):
        one = source.width - 1 + have
        dropped = least if k == last else have + error_frac - reached
        _counts(one - error_frac, error_frac, dropped - 1)
        numbers += [one, one - error_frac, error_frac, dropped]
    numbers += [0] * (4 * (2 - len(newton.steps)))
    _counts(source.width - 1 - newton.index_bits, 9 + source.width)  # numpy's bit length is that of a double
    bits = max(source.width + newton.steps[-1][0], newton.frac) + 4
    return Exact(bits, to.frac, (0,), (0, *numbers, *newton.seed), LAST)


def _tabulated(source: Format, plan: TablePlan) -> list[int]:
    entries = len(plan.coefficients[0])
    slope_shift = plan.inner_shift if plan.degree == 2 else 1
    _counts(slope_shift - 1, plan.frac1, plan.frac1 - SPARE_BITS)
    mask = (1 << (source.width - 1)) - 1
    numbers = [mask, plan.least, plan.degree, entries, slope_shift, plan.frac1 - SPARE_BITS, plan.frac1]
    numbers.append(len(plan.windows))
    for k, window in enumerate(plan.windows):
        numbers += [1 << plan.windows[k - 1].bits if k else 0, window.first, window.offset_bits]
    return numbers + [c for column in plan.coefficients for c in column]


IN_C = table(
    "fixedpoint.rows_in_c",
    {
        "input": CInteger("", _sum),
        "const": CInteger("x", _sum),
        "add": CInteger("x + y", _sum),
        "sub": CInteger("x - y", _sum),
        "add_const": CInteger("x + y", _sum),
        "neg": CInteger("-x", _sum),
        "mul": CInteger("x * y", _product),
        "mul_const": CInteger("x * y", _product),
        "shift": CInteger("x", _shift),
        "sin": CInteger("dg_sine_{bits}(x, p, 0)", _sine, elementary=True),
        "cos": CInteger("dg_sine_{bits}(x, p, 1)", _sine, elementary=True),
        "exp": CInteger("dg_exp_{bits}(x, p, &wrong)", _exp, elementary=True),
        "sqrt": CInteger("dg_root_{bits}(x, p, &wrong)", _root, elementary=True),
        "select": CInteger("x > 0 ? y : z", _select),
        "reciprocal": CInteger("dg_reciprocal_{bits}(x, p, &wrong)", _reciprocal, elementary=True),
        "multiply_add": CInteger("x * y + z", _fused),
        "multiply_sub": CInteger("x * y - z", _fused),
        "sub_multiply": CInteger("z - x * y", _fused),
        "normalised_reciprocal": CInteger("dg_reciprocal_{bits}(x, p, &wrong)", _newton, elementary=True),
    },
)
