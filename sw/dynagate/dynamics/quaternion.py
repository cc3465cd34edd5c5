"""Unit quaternions (x, y, z, w) over any scalar: rotation matrix, exponential and logarithm."""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.dynamics.series import arc_sine_series, polynomial, sine_series, unscrew_series
from dynagate.dynamics.spatial import Array, Scalar, array, cos, cross, select, sin, sqrt

SMALL_TURN = 0.5
"""Angle in rad up to which power series are used. Closed forms divide by the angle and are used above."""


ARC_SINE = arc_sine_series(12)[::-1]
"""Coefficients of asin(x) / x in powers of x², from the highest power down."""

UNSCREW = unscrew_series(7)[::-1]
"""Coefficients of (1 - θ/2 cot(θ/2)) / θ² in powers of θ², from the highest power down."""


def rotation_of(quaternion: Sequence[Scalar]) -> Array:
    """Return the rotation matrix (3, 3) of a unit quaternion (x, y, z, w)."""
    x, y, z, w = quaternion
    x2, y2, z2 = x + x, y + y, z + z
    xx, yy, zz = x * x2, y * y2, z * z2
    xy, xz, yz = x * y2, x * z2, y * z2
    wx, wy, wz = w * x2, w * y2, w * z2
    return array(
        [
            [1.0 - (yy + zz), xy - wz, xz + wy],
            [xy + wz, 1.0 - (xx + zz), yz - wx],
            [xz - wy, yz + wx, 1.0 - (xx + yy)],
        ]
    )


def turn_factors(squared: Scalar) -> tuple[Scalar, ...]:
    """Return sin(θ/2) / θ, cos(θ/2), (1 - cos θ) / θ² and (θ - sin θ) / θ³ from the squared angle θ²."""
    beyond = squared - SMALL_TURN**2
    angle = sqrt(select(beyond, squared, SMALL_TURN**2))  # avoid sqrt(0), whose derivative is infinite
    inverse, half = 1.0 / angle, angle * 0.5
    half_sinc, cosine = sin(half) * inverse, cos(half)
    third = (1.0 - half_sinc * cosine * 2.0) * (inverse * inverse)
    half_sinc = select(beyond, half_sinc, _taylor(squared * 0.25, 1, 6) * 0.5)
    cosine = select(beyond, cosine, _taylor(squared * 0.25, 0, 7))
    return half_sinc, cosine, half_sinc * half_sinc * 2.0, select(beyond, third, _taylor(squared, 3, 7))


def _taylor(x: Scalar, start: int, terms: int) -> Scalar:
    """Return the sum of the first `terms` terms of `series.sine_series(start)` at x."""
    return polynomial(sine_series(start, terms)[::-1], x)


def times_exponential(quaternion: Array, rate: Array) -> Array:
    """Return a quaternion times exp(ω/2) for an angular velocity ω (3,) over one second, normalized to rounding."""
    half_sinc, cosine, _, _ = turn_factors(rate @ rate)
    axis, w = quaternion[:3], quaternion[3]
    vector = rate * half_sinc
    after = array([*(vector * w + axis * cosine + cross(axis, vector)), w * cosine - axis @ vector])
    # one Newton step restores the length that rounding changed
    return after * (1.5 - (after @ after) * 0.5)


def shorter_turn(q: Array, q_next: Array) -> tuple[Array, Scalar, Scalar]:
    """Return the relative rotation from one quaternion to another, by the shorter way, over any scalar.

    The angle is computed from an eighth of the rotation, where the series is short.

    Args:
        q: First unit quaternion (4,).
        q_next: Second unit quaternion (4,).

    Returns:
        The vector part e (3,) and the scalar part w ≥ 0 of the relative quaternion, and the factor θ / |e|.
    """
    axis, w0, axis_next, w1 = q[:3], q[3], q_next[:3], q_next[3]
    w = w0 * w1 + axis @ axis_next
    sign = select(w, 1.0, -1.0)
    vector, w = (axis_next * w0 - axis * w1 - cross(axis, axis_next)) * sign, w * sign
    part, longer, cosine = vector, 16.0, w
    for _ in range(3):
        cosine = sqrt((1.0 + cosine) * 0.5)
        shorter = 0.5 / cosine
        part, longer = part * shorter, longer * shorter
    return vector, w, longer * polynomial(ARC_SINE, part @ part)
