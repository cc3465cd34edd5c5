"""Solve the conditions of one pair in contact, with the impulses of the others as they are, for integers.

Sweeps with these solutions take few iterations, while those with projections (`implicit.contact`) converge slowly and
alternate by one unit in the last place. A pair is open, or it sticks, or it slides:

    0 ≤ u_n: r = 0,    |r_t| ≤ μ r_n: u = 0,    else u_n = 0, r_t = μ r_n d with d along r_t - u_t / ρ.

The direction d is that of the sweep before, and a fixed point of the sweeps solves the conditions for any ρ > 0.
"""

from __future__ import annotations

import numpy as np

from dynagate.dynamics.factor import Dense, factorize, solve
from dynagate.dynamics.spatial import Array, Scalar, array, chosen, select, sqrt, zeros
from dynagate.integrators.implicit.root_finders import size

LEVELS = (16.0, 256.0, 4096.0)
"""Factors of an impulse before its square, which small impulses would lose otherwise."""

LEAST = 0.125
"""Part of the normal's own W that a sliding pair keeps at least. Below it, friction jams, and a sweep projects."""


def block_inverses(w: Array, least: float) -> Array:
    """Return the inverses (pairs, 3, 3) of the diagonal blocks of W (3 pairs, 3 pairs), each plus `least` times 1."""
    order, result = Dense(3), []
    for n in range(0, len(w), 3):
        block = array(list(w[n : n + 3, n : n + 3]))
        for k in range(3):
            block[k, k] = block[k, k] + least
        factor = factorize(order, block)
        result.append(array([solve(order, factor, [float(i == k) for i in range(3)]) for k in range(3)]))
    return np.stack(result)


def pair_solution(
    block: Array,
    stiff: Array,
    inverse: Array,
    r: Array,
    u: Array,
    friction: Scalar,
    *,
    largest: float,
    tolerance: float,
) -> Array:
    """Return the impulses (3,) of a pair, N s.

    Args:
        block: Diagonal block of W, (3, 3) in 1/kg.
        stiff: Its inverse (3, 3), kg.
        inverse: 1 / ρ of the normal and of the tangents, (2,), kg.
        r: Impulses before, (3,).
        u: Velocity of the pair with r, (3,).
        friction: μ.
        largest: Size of the largest impulses, N s.
        tolerance: Velocity up to which a pair sticks with the impulses that it has, m/s: these alternate no more.
    """
    sticking = chosen(tolerance - _longest(*u), r, r - stiff @ u)
    closing = block[0] @ r - u[0]
    direction = _direction(r[1:] - u[1:] * inverse[1], largest)
    steepness = block[0, 0] + friction * (block[0, 1:] @ direction)
    slides = select(steepness - LEAST * block[0, 0], 1.0, 0.0)
    along = closing * (1.0 / select(slides, steepness, block[0, 0] + 1.0 / largest))
    normal = select(slides, along, r[0] - u[0] * inverse[0])
    normal = select(normal, normal, 0.0)
    sliding = array([normal, *(direction * (friction * normal))])
    return chosen(closing, chosen(_in_cone(sticking, friction, largest), sticking, sliding), zeros(3))


def _factor(longest: Scalar, largest: float) -> Scalar:
    """Return the factor that brings an impulse near `largest`."""
    factor: Scalar = 1.0
    for level in LEVELS:
        factor = select(largest / level - longest, level, factor)
    return factor


def _longest(first: Scalar, *others: Scalar) -> Scalar:
    """Return the largest absolute value."""
    longest = size(first)
    for other in map(size, others):
        longest = select(other - longest, other, longest)
    return longest


def _direction(impulse: Array, largest: float) -> Array:
    """Return the unit vector along an impulse (2,); about 0 for one below 2⁻²¹ of `largest`."""
    factor = _factor(_longest(*impulse), largest)
    x, y = impulse * factor
    square = x * x + y * y
    length = sqrt(select(square - (largest * 2.0**-9) ** 2, square, largest**2))
    return array([x, y]) * (1.0 / length)


def _in_cone(r: Array, friction: Scalar, largest: float) -> Scalar:
    """Return 1 if impulses (3,) press and keep to the friction cone, else 0."""
    border = select(r[0], r[0], 0.0) * friction
    factor = _factor(_longest(r[1], r[2], border), largest)
    x, y, z = r[1] * factor, r[2] * factor, border * factor
    return select(z * z - (x * x + y * y), 1.0, 0.0)
