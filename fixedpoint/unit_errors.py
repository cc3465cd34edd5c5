"""Bound the errors of sin, cos, exp, √ and 1/x on integers against the real functions of the same operand.

Each bound adds up the errors of the steps in `elementary.py` and `tabulated.py`, including the last rounding.
"""

from __future__ import annotations

import math

from dynagate.fixedpoint.elementary import Quadratic, exp_plan, octaves_of_exp, reciprocal_plan, sine_plan
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.tabulated import table_plan

SOLVED = 2.0**-40
"""Error of the tables' coefficients relative to the largest value, above that of float64."""

TABULATED = 1.0 + 2.0**-8
"""Largest error of the table of 1/x, in units of the last place.

It is 1/4 by the polynomials, 1/16 each by three coefficients and the inner product, 1/2 by the last rounding, and a
little by float64.
"""


def sine_error(source: Format, to: Format, largest: float) -> float:
    """Return a bound on the error of sin and cos.

    The phase is cut to phase_bits and 1/2π is rounded. The quadratic errs by f''' h³ / 192, where f is sin(π u / 2).
    Its coefficients, products and sum are rounded. The bound holds for every operand, so `largest` is not used.
    """
    plan = sine_plan(source, to)
    per_radian = abs(plan.per_radian - math.ldexp(0.5 / math.pi, plan.phase_bits + plan.phase_shift - source.frac))
    phase = 0.5 + math.ldexp(per_radian, source.width - 1 - plan.phase_shift)  # half a cell, for cells have centers
    return (
        math.ldexp(2.0 * math.pi * phase, -plan.phase_bits)
        + _quadratic_error(plan.quarter, (math.pi / 2.0) ** 3)
        + (to.step / 2.0 if to.frac < 2 else 0.0)
    )


def _quadratic_error(plan: Quadratic, third: float) -> float:
    """Return a bound on the error of a quadratic table. third: largest third derivative of the function."""
    h = 2.0**-plan.index_bits
    half0, half1, half2 = (2.0 ** -(frac + 1) for frac in (plan.frac0, plan.frac1, plan.frac2))
    coefficients = half0 + h / 2.0 * half1 + h * h / 4.0 * half2
    rounding = h / 2.0 * half1 + 2.0 ** -(plan.frac + 1)
    return third * h**3 / 192.0 + coefficients + rounding + SOLVED


def exp_error(source: Format, to: Format, largest: float) -> float:
    """Return a bound on the error of an exponential.

    t is cut to its fraction bits, and log₂ e is rounded. Operands count up to the size at which results vanish.

    Args:
        source: Format of the operand.
        to: Format of the result.
        largest: Largest result; all errors but the last scale with it.
    """
    plan = exp_plan(source, to)
    size = min(math.ldexp(1.0, source.width - 1 - source.frac), octaves_of_exp(to) * math.log(2.0))
    bits = plan.power.bits
    per_unit = abs(math.ldexp(plan.per_unit, source.frac - plan.shift) - math.ldexp(math.log2(math.e), bits))
    exponent = math.ldexp(0.5 + size * per_unit, -bits) * math.log(2.0)
    return largest * math.expm1(exponent + _quadratic_error(plan.power, 2.0 * math.log(2.0) ** 3)) + to.step / 2.0


def root_error(source: Format, to: Format, largest: float) -> float:
    """Return a bound on the error of a root, which is exact until it is rounded, whatever its size (`largest`)."""
    return to.step / 2.0


def reciprocal_error(source: Format, to: Format, largest: float) -> float:
    """Return a bound on the error of a reciprocal: the table's if the formats have one, else `newton_error`."""
    if table_plan(source.width, to.width, source.frac + to.frac) is not None:
        return TABULATED * to.step
    return newton_error(source, to, largest)


def newton_error(source: Format, to: Format, largest: float) -> float:
    """Return a bound on the error of a reciprocal by Newton's method.

    With n in [1, 2), a seed r and e = 1 - n r, r + r e is (1 - e²) / n. e is cut to its fraction bits, and so is every
    result but the last, which is rounded at the last bit of the format.

    Args:
        source: Format of the operand.
        to: Format of the result.
        largest: Largest result; the errors of Newton steps scale with it.
    """
    plan = reciprocal_plan(source, to)
    error = 2.0 ** -(plan.index_bits + 1) + 2.0**-plan.seed_frac  # half a segment, and twice the seed's rounding
    for k, (_, error_frac, reached) in enumerate(plan.steps):
        is_last = k == len(plan.steps) - 1
        error = error**2 + (1.0 + error) * 2.0**-error_frac + (0.0 if is_last else 2.0**-reached)
    return largest * error + to.step / 2.0
