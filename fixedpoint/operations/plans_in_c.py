"""The numbers of tables and steps that the units of `fixedpoint.operations.functions` have in C, from two formats."""

from __future__ import annotations

from dynagate.fixedpoint.elementary import Quadratic, exp_plan, reciprocal_plan, root_shift, sine_plan
from dynagate.fixedpoint.format import INT64_BITS, Format
from dynagate.fixedpoint.operations.row import Exact, NotInCError
from dynagate.fixedpoint.tabulated import SPARE_BITS, TablePlan, table_plan


def check_counts(*shifts: int) -> None:
    """Raises NotInCError: a number of more bits than C has, or a count of bits that it cannot shift by."""
    if not all(0 <= shift < INT64_BITS for shift in shifts):
        raise NotInCError(f"a plan with {', '.join(map(str, shifts))} bits; expected 0 to {INT64_BITS - 1}")


def sine(source: Format, to: Format) -> Exact:
    check_counts(max(to.frac, 2) + 4)
    plan = sine_plan(source, to)
    check_counts(plan.per_radian.bit_length(), plan.phase_shift)
    numbers = plan.per_radian, plan.phase_shift, *_quadratic(plan.quarter)
    bits = max(source.width + plan.per_radian.bit_length() + 1, plan.quarter.outer_frac + 4)
    return Exact(bits, plan.quarter.frac, plan=numbers)


def _quadratic(plan: Quadratic) -> tuple[int, ...]:
    up = plan.outer_frac - plan.frac0
    check_counts(plan.bits + 2, plan.inner_shift - 1, plan.outer_shift - 1, up)
    sizes = plan.bits, plan.offset_bits, plan.inner_shift, plan.outer_shift, up, len(plan.c0)
    return (*sizes, *plan.c0, *plan.c1, *plan.c2)


def exp(source: Format, to: Format) -> Exact:
    check_counts(to.width + 10)
    plan = exp_plan(source, to)
    product = source.width + plan.per_unit.bit_length() + 1
    check_counts(plan.per_unit.bit_length(), plan.shift, plan.most_down)
    numbers = plan.per_unit, plan.shift, plan.down, plan.least_down(to), plan.most_down, *_quadratic(plan.power)
    return Exact(max(product, plan.power.outer_frac + 4), to.frac, plan=numbers)


def root(source: Format, to: Format) -> Exact:
    shift = root_shift(source, to)
    check_counts(abs(shift))
    return Exact(source.width + max(shift, 0), to.frac, plan=(shift,))


def reciprocal(source: Format, to: Format) -> Exact:
    plan = table_plan(source.width, to.width, source.frac + to.frac)
    if plan is not None:
        bits = max(to.width + SPARE_BITS + plan.frac1, source.width)
        return Exact(bits, to.frac, plan=(1, *_tabulated(source, plan)))
    return newton(source, to)


def newton(source: Format, to: Format) -> Exact:
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
    return Exact(bits, to.frac, plan=(0, *numbers, *newton.seed))


def _tabulated(source: Format, plan: TablePlan) -> list[int]:
    entries = len(plan.coefficients[0])
    slope_shift = plan.inner_shift if plan.degree == 2 else 1
    check_counts(slope_shift - 1, plan.frac1, plan.frac1 - SPARE_BITS)
    mask = (1 << (source.width - 1)) - 1
    numbers = [mask, plan.least, plan.degree, entries, slope_shift, plan.frac1 - SPARE_BITS, plan.frac1]
    numbers.append(len(plan.windows))
    for k, window in enumerate(plan.windows):
        numbers += [1 << plan.windows[k - 1].bits if k else 0, window.first, window.offset_bits]
    return numbers + [c for column in plan.coefficients for c in column]
