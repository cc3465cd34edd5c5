"""Random numbers in fixed point, with the integers of `base.philox`."""

from __future__ import annotations

from typing import Any

import numpy as np
from dynagate.base import philox
from dynagate.fixedpoint.elementary import LAST
from dynagate.fixedpoint.format import Format, Integers, Rescaled, rescale, wide
from dynagate.fixedpoint.intervals import Interval, IntervalWithError
from dynagate.fixedpoint.operations.plans_in_c import check_counts
from dynagate.fixedpoint.operations.row import ExactResult, FixedOp, Unit

_MOST = np.float64(philox.MEAN * 2.0**-philox.FRAC)


def noise(number: Integers, draw: Integers, seed: Integers, *formats: Format) -> Rescaled:
    """Return the random number for operands rounded to integers, half up, modulo 2**32.

    Args:
        number: Index of the number.
        draw: Index of the draw.
        seed: Seed.
        formats: Formats of the operands and of the result.
    """
    *sources, to = formats
    whole = [_whole(value, fmt) for value, fmt in zip((number, draw, seed), sources, strict=True)]
    return rescale(philox.integers(*whole), philox.FRAC, to, LAST)


def _whole(value: Integers, fmt: Format) -> Integers:
    """Return operands rounded to integers modulo 2**32."""
    exact = wide(np.asarray(value), 2 + max(fmt.width, fmt.width - fmt.frac, fmt.frac))
    rounded = exact << -fmt.frac if fmt.frac <= 0 else (exact + (1 << fmt.frac >> 1)) >> fmt.frac
    return rounded & 0xFFFFFFFF


def _plan(*formats: Format) -> ExactResult:
    """Return the operands' fraction bits, and the bits by which the number is shifted left."""
    *sources, to = formats
    fracs, up = [fmt.frac for fmt in sources], max(to.frac - philox.FRAC, 0)
    check_counts(*map(abs, fracs), up)
    bits = max(philox.WIDTH + up, *(1 + max(fmt.width, fmt.width - fmt.frac, fmt.frac) for fmt in sources))
    return ExactResult(bits, philox.FRAC + up, plan=(*fracs, up))


def _errs(*known: Any) -> float:
    """Return the error of a number, which is exact except for one rounding."""
    *_, to, _ = known
    return 0.5 * float(to.step) if to.frac < philox.FRAC else 0.0


def _error(*operands: IntervalWithError) -> Any:
    """Return the error for operands with errors: another index or seed may give any number."""
    same = np.logical_and.reduce([each.error == 0.0 for each in operands])
    return np.where(same, 0.0, 2.0 * _MOST)


_NOISE = Unit("dg_noise_{bits}(x, y, z, p)", noise, _plan, _errs, noise=1.0)

ROWS = {"noise": FixedOp(_NOISE, lambda *operands: Interval(-_MOST, _MOST), _error, most=4.0)}
