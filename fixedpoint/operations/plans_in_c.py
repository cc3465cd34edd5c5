"""Plans of elementary functions as numbers for C, from the formats of operand and result."""

from __future__ import annotations

from dynagate.fixedpoint.elementary import Quadratic, exp_plan, reciprocal_plan, root_shift, sine_plan
from dynagate.fixedpoint.format import INT64_BITS, Format
from dynagate.fixedpoint.operations.row import ExactResult, NotInCError
from dynagate.fixedpoint.tabulated import SPARE_BITS, TablePlan, table_plan

WITHIN_A_UNIT = 2
"""Bits of a C type that `entering` leaves free for rounding, and that values inside a unit may use."""


def check_counts(*shifts: int) -> None:
    """Check that C can shift by these numbers of bits.

    Raises:
        NotInCError: A number of bits is negative or too large.
    """
    if not all(0 <= shift < INT64_BITS for shift in shifts):
        raise NotInCError(
            f"a plan with {', '.join(map(str, shifts))} bits; expected 0 to {INT64_BITS - 1}", code="DG-FORMAT-034"
        )


def _scaled(width: int, factor: int, shift: int) -> ExactResult:
    """Return the numbers with which C computes x * factor >> shift, for x of `width` bits.

    The factor has two parts if the complete product has more bits than an int64.
    """
    length = factor.bit_length()
    split = 0 if width + length <= INT64_BITS + WITHIN_A_UNIT else min(shift, length // 2)
    check_counts(length, shift)
    low = factor & ((1 << split) - 1)
    bits = width + max(split, length - split) - WITHIN_A_UNIT
    return ExactResult(bits, 0, plan=(factor >> split, low, split, shift - split))


def sine(source: Format, to: Format) -> ExactResult:
    """Return the plan of a sine or cosine."""
    check_counts(max(to.frac, 2) + 4)
    plan = sine_plan(source, to)
    turn, quarter = _scaled(source.width, plan.per_radian, plan.phase_shift), _quadratic(plan.quarter)
    return ExactResult(max(turn.bits, quarter.bits), plan.quarter.frac, plan=(*turn.plan, *quarter.plan))


def _quadratic(plan: Quadratic) -> ExactResult:
    """Return the numbers of a table: the slope times the offset, and the value at the segment's center, are below 2."""
    to_c0 = plan.outer_frac - plan.frac0
    outer_shift = plan.outer_shift - to_c0
    check_counts(plan.bits + 2, plan.inner_shift - 1, outer_shift - 1, to_c0)
    sizes = plan.bits, plan.offset_bits, plan.inner_shift, outer_shift, to_c0, len(plan.c0)
    bits = max(plan.offset_bits + plan.frac1 + 1, plan.frac0 + 3) - WITHIN_A_UNIT
    return ExactResult(bits, plan.frac, plan=(*sizes, *plan.c0, *plan.c1, *plan.c2))


def exp(source: Format, to: Format) -> ExactResult:
    """Return the plan of an exponential."""
    check_counts(to.width + 10)
    plan = exp_plan(source, to)
    check_counts(plan.most_down)
    t, power = _scaled(source.width, plan.per_unit, plan.shift), _quadratic(plan.power)
    numbers = *t.plan, plan.down, plan.least_down(to), plan.most_down, *power.plan
    return ExactResult(max(t.bits, power.bits), to.frac, plan=numbers)


def root(source: Format, to: Format) -> ExactResult:
    """Return the plan of a root. The operand is not negative when it is shifted."""
    shift = root_shift(source, to)
    check_counts(abs(shift))
    return ExactResult(source.width + max(shift - 1, 0), to.frac, plan=(shift,))


def reciprocal(source: Format, to: Format) -> ExactResult:
    """Return the plan of a reciprocal, by a table or by Newton's method."""
    plan = table_plan(source.width, to.width, source.frac + to.frac)
    if plan is not None:
        bits = max(to.width + SPARE_BITS + plan.frac1, source.width)
        return ExactResult(bits, to.frac, plan=(1, *_tabulated(source, plan)))
    return newton(source, to)


def newton(source: Format, to: Format) -> ExactResult:
    """Return the plan of a reciprocal by Newton's method."""
    newton = reciprocal_plan(source, to)
    least, last = newton.least_down(to), len(newton.steps) - 1
    numbers = [source.width, newton.index_bits, newton.shift, least, newton.most_down, len(newton.steps)]
    for k, (have, error_frac, reached) in enumerate(newton.steps):
        one = source.width - 1 + have
        dropped = least if k == last else have + error_frac - reached
        check_counts(one - error_frac, error_frac, dropped - 1)
        numbers += [one, one - error_frac, error_frac, dropped]
    numbers += [0] * (4 * (2 - len(newton.steps)))
    check_counts(source.width - 1 - newton.index_bits, 9 + source.width)  # numpy's bit length is that of a double
    bits = max(source.width + newton.steps[-1][0], newton.frac) + 4
    return ExactResult(bits, to.frac, plan=(0, *numbers, *newton.seed))


def _tabulated(source: Format, plan: TablePlan) -> list[int]:
    """Return the numbers of a reciprocal's table."""
    entries = len(plan.coefficients[0])
    slope_shift = plan.inner_shift if plan.degree == 2 else 1
    check_counts(slope_shift - 1, plan.frac1, plan.frac1 - SPARE_BITS)
    mask = (1 << (source.width - 1)) - 1
    numbers = [mask, plan.least, plan.degree, entries, slope_shift, plan.frac1 - SPARE_BITS, plan.frac1]
    numbers.append(len(plan.windows))
    for k, window in enumerate(plan.windows):
        numbers += [1 << plan.windows[k - 1].bits if k else 0, window.first, window.offset_bits]
    return numbers + [c for column in plan.coefficients for c in column]
