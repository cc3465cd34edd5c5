"""Solve the conditions of one pair in contact, with the impulses of the others as they are.

Sweeps with these solutions take fewer iterations than sweeps with projections. A pair is open, or it sticks, or it
slides:

    0 ≤ u_n: r = 0,    |r_t| ≤ μ r_n: u = 0,    else u_n = 0, r_t = μ r_n d with d along x = r_t - u_t / ρ.

The direction d is that of the sweep before. If x is inside the disc of radius μ r_n, the sweep before has pushed the
pair along d. The tangential impulse is then x, so that a fixed point of the sweeps solves the conditions for any ρ > 0.
The normal impulse of a pair that slides cancels the normal velocity that the pair has with r_t = μ r_n d.

Integers have the same law. Small impulses are multiplied before they are squared, and a pair that moves by less than
the tolerance keeps its impulses, so that they do not alternate by one unit in the last place.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynagate.dynamics.factor import Dense, factorize, solve
from dynagate.dynamics.spatial import Array, Scalar, absolute, array, chosen, largest, select, sqrt, zeros

LEVELS = (16.0, 256.0, 4096.0)
"""Factors of an impulse before its square, which small impulses would lose otherwise."""

LEAST = 0.125
"""Part of the normal's own W that a sliding pair keeps at least. Below it, friction jams, and a sweep projects."""


NEAR = 0.125
"""m/s: in integers, a velocity up to this size is taken to 0 by impulses with all their bits."""

EASED = 2.0**-20
"""Part of a block's trace on its diagonal before its inverse, above the rounding of float32."""


def block_inverses(w: Array, least: float) -> Array:
    """Return the inverses (pairs, 3, 3) of the diagonal blocks of W (3 pairs, 3 pairs).

    A point that cannot move in all directions has a singular block. The diagonal of a block is therefore raised by
    `least` in 1/kg, or by EASED of the block's trace if `least` is 0.
    """
    order, result = Dense(3), []
    for n in range(0, len(w), 3):
        block = array(list(w[n : n + 3, n : n + 3]))
        more = least or (block[0, 0] + block[1, 1] + block[2, 2]) * EASED
        for k in range(3):
            block[k, k] = block[k, k] + more
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
    largest: float | None = None,
    tolerance: float = 0.0,
) -> Array:
    """Return the impulses (3,) of a pair, N s.

    Args:
        block: Diagonal block of W, (3, 3) in 1/kg.
        stiff: Its inverse (3, 3), kg.
        inverse: 1 / ρ of the normal and of the tangents, (2,), kg.
        r: Impulses before, (3,).
        u: Velocity of the pair with r, (3,).
        friction: μ.
        largest: In integers, the size of the largest impulses, N s. None in floating point.
        tolerance: In integers, the velocity up to which a pair sticks with the impulses that it has, m/s.
    """
    sticking = _lessened(r, u, lambda velocity: stiff @ velocity, largest)
    if tolerance:
        sticking = chosen(tolerance - _longest(*u), r, sticking)
    closing = block[0] @ r - u[0]
    shifted = r[1:] - u[1:] * inverse[1]
    direction = _direction(shifted, largest)
    length = shifted @ direction
    steepness = block[0, 0] + friction * (block[0, 1:] @ direction)
    slides = select(steepness - LEAST * block[0, 0], select(length - friction * r[0], 1.0, 0.0), 0.0)
    excess = select(slides, u[0] + block[0, 1:] @ (direction * (friction * r[0]) - r[1:]), u[0])
    other = 1.0 if largest is None else block[0, 0] + 1.0 / largest
    rate = select(slides, 1.0 / select(slides, steepness, other), inverse[0])
    (normal,) = _lessened(r[:1], array([excess]), lambda velocity: velocity * rate, largest)
    normal = select(normal, normal, 0.0)
    radius = friction * normal
    sliding = array([normal, *chosen(length - radius, direction * radius, shifted)])
    return chosen(closing, chosen(_in_cone(sticking, friction, largest), sticking, sliding), zeros(3))


def _lessened(r: Array, u: Array, impulse: Callable[[Array], Array], largest: float | None) -> Array:
    """Return impulses less those that take a velocity u to 0, `impulse(u)`.

    In integers, they are limited to `largest`. Impulses for fast velocities are large and leave few bits for small
    ones, which are therefore computed apart.
    """
    if largest is None:
        return r - impulse(u)
    near = NEAR - _longest(*u)
    far = array([_limited(x, largest) for x in r - impulse(u)])
    return chosen(near, r - impulse(chosen(near, u, zeros(len(u)))), far)


def _limited(x: Scalar, largest: float) -> Scalar:
    """Return the nearest number between -largest and largest."""
    x = select(x - largest, largest, x)
    return select(-largest - x, -largest, x)


def _factor(longest: Scalar, largest: float) -> Scalar:
    """Return the factor that brings an impulse near `largest`."""
    factor: Scalar = 1.0
    for level in LEVELS:
        factor = select(largest / level - longest, level, factor)
    return factor


def _longest(*values: Scalar) -> Scalar:
    """Return the largest absolute value."""
    return largest(map(absolute, values))


def _direction(impulse: Array, largest: float | None) -> Array:
    """Return the unit vector along an impulse (2,). In integers, it is about 0 for one below 2⁻²¹ of `largest`."""
    if largest is None:
        square = impulse @ impulse
        return impulse * (1.0 / sqrt(select(square, square, 1.0)))
    factor = _factor(_longest(*impulse), largest)
    x, y = impulse * factor
    square = x * x + y * y
    length = sqrt(select(square - (largest * 2.0**-9) ** 2, square, largest**2))
    return array([x, y]) * (1.0 / length)


def _in_cone(r: Array, friction: Scalar, largest: float | None) -> Scalar:
    """Return 1 if impulses (3,) press and keep to the friction cone, else 0."""
    border = select(r[0], r[0], 0.0) * friction
    factor = 1.0 if largest is None else _factor(_longest(r[1], r[2], border), largest)
    x, y, z = r[1] * factor, r[2] * factor, border * factor
    return select(z * z - (x * x + y * y), 1.0, 0.0)
