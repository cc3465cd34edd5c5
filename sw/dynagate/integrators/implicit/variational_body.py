"""Discrete mechanics of one rigid body, over any scalar.

In a step of length dt a body moves from T to T ΔT, with ΔT = (ΔR, Δp) in its own frame. ξ = (ω, v) = log ΔT is dt times
its average twist V (Eq. 10), and G its spatial inertia. The trapezoidal discrete Lagrangian (Eq. 9) is L_d = ½ ξᵀ G ξ /
dt - dt (P(T) + P(T ΔT)) / 2, and its derivatives are the momenta of `momenta`. All momenta here are multiplied by dt
(kg m² and kg m), so dt does not occur.

ΔR is stored as a unit quaternion (e, w). Its vector part e is accurate for rotations of any size. ΔR - 1, computed from
two rotations, would lose the digits that the residual needs.

Reference:
    Lee, Liu, Park & Srinivasa, "A Linear-Time Variational Integrator for Multibody Systems", 2020, §2.2.
"""

from __future__ import annotations

from math import pi, sin

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from dynagate.dynamics.series import arc_sine_series, polynomial, sine_series, unscrew_series
from dynagate.integrators.vectors import Matrix, Scalar, Vector, cross, dot, minus, plus, scaled, times

WIDEST_TURN = pi / 3
"""Largest rotation of a body or a joint in a step, in rad, for which the polynomials below are accurate."""

WIDEST = sin(WIDEST_TURN / 2) ** 2
"""|e|² of the rotation WIDEST_TURN."""

_TERMS = 40


def _economized(taylor: list[float], end: float) -> tuple[float, ...]:
    """Return the shortest polynomial that is as accurate on [0, end] as float64 and the Taylor series.

    The coefficients start with the highest power. Dropping Chebyshev terms halves their number.
    """
    series = Polynomial(taylor).convert(kind=Chebyshev, domain=[0.0, end])
    sizes = np.abs(series.coef)
    enough = int(np.flatnonzero(sizes > 1e-17 * sizes[0])[-1]) + 1
    short = Chebyshev(series.coef[:enough], domain=[0.0, end]).convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1])
    return tuple(float(c) for c in short.coef[::-1])


_B = unscrew_series(16)
_Z = 1.01 * WIDEST_TURN**2

ANGLE = _economized([2.0 * c for c in arc_sine_series(_TERMS)], 1.01 * WIDEST)
"""θ / |e| = 2 asin(|e|) / |e| of |e|²."""

B = _economized(_B, _Z)
"""b = (1 - θ/2 cot θ/2) / θ² of θ²: the even part of dlog is 1 + b ad² on so(3)."""

B_SLOPE = _economized([k * c for k, c in enumerate(_B)][1:], _Z)
"""db / dθ²."""

B_CURVE = _economized([k * (k - 1) * c for k, c in enumerate(_B)][2:], _Z)
"""d²b / d(θ²)²."""

HALF_SINE = _economized([0.5 * 0.25**k * c for k, c in enumerate(sine_series(1, 20))], _Z)
HALF_COSINE = _economized([0.25**k * c for k, c in enumerate(sine_series(0, 20))], _Z)
"""sin(δ/2) / δ and cos(δ/2) of δ²."""

SCREW = _economized(sine_series(2, 20), _Z)
SCREW_CUBE = _economized(sine_series(3, 20), _Z)
"""(1 - cos δ) / δ² and (δ - sin δ) / δ³ of δ²."""


def displaced(point: Vector, e: Vector, w: Scalar) -> Vector:
    """Return (ΔR - 1) point, without cancellation."""
    return scaled(cross(e, plus(scaled(point, w), cross(e, point))), 2.0)


def turned_about_z(e: Vector, w: Scalar, half_sine: Scalar, half_cosine: Scalar) -> tuple[Vector, Scalar]:
    """Return the quaternion (e, w) times that of a rotation about z, given the sine and cosine of half its angle."""
    c, s = half_cosine, half_sine
    return (c * e[0] + s * e[1], c * e[1] - s * e[0], c * e[2] + s * w), c * w - s * e[2]


def exponential(rotation: Vector, v: Vector) -> tuple[Vector, Scalar, Vector]:
    """Return exp of the twist (ω, v): the quaternion (e, w) of a rotation of up to `WIDEST_TURN`, and the
    displacement.
    """
    square = dot(rotation, rotation)
    across = cross(rotation, v)
    bent = plus(
        scaled(across, polynomial(SCREW, square)), scaled(cross(rotation, across), polynomial(SCREW_CUBE, square))
    )
    return scaled(rotation, polynomial(HALF_SINE, square)), polynomial(HALF_COSINE, square), plus(v, bent)


def combined(
    first: tuple[Vector, Scalar, Vector], second: tuple[Vector, Scalar, Vector]
) -> tuple[Vector, Scalar, Vector]:
    """Return the displacement (e, w, Δp) by the first and then, in the frame that it leads to, by the second."""
    (a, v, shift), (b, w, further) = first, second
    e = plus(plus(scaled(b, v), scaled(a, w)), cross(a, b))
    return e, v * w - dot(a, b), plus(shift, plus(further, displaced(further, a, v)))


def twist(e: Vector, shift: Vector, angle: Scalar, b: Scalar) -> tuple[Vector, Vector]:
    """Return ξ = (ω, v) = log ΔT (Eq. 10).

    Args:
        e: Vector part of ΔR's quaternion.
        shift: Δp.
        angle: As `ANGLE`.
        b: As `B`.
    """
    rotation = scaled(e, angle)
    across = cross(rotation, shift)
    return rotation, plus(minus(shift, scaled(across, 0.5)), scaled(cross(rotation, across), b))


def impulse(mass: Scalar, first: Vector, inertia: Matrix, rotation: Vector, v: Vector) -> tuple[Vector, Vector]:
    """Return G ξ as (moment, force).

    Args:
        mass: Mass of the body.
        first: Mass times the center of mass.
        inertia: Inertia about the frame's origin.
        rotation: ω of ξ.
        v: v of ξ.
    """
    return plus(times(inertia, rotation), cross(first, v)), minus(scaled(v, mass), cross(first, rotation))


def momenta(
    rotation: Vector, v: Vector, b: Scalar, slope: Scalar, moment: Vector, force: Vector
) -> tuple[Vector, Vector, Vector, Vector]:
    """μ = dlog_ξᵀ (moment, force) and Ad_exp(ξ)ᵀ μ = dlog_-ξᵀ (moment, force) (Eq. 21), as (moment, force) each.

    On so(3) dlog is 1 - ½ω× + b ω×ω×. In se(3), ad_ξ is [[ω×, 0], [v×, ω×]], so the block below the diagonal of
    any function of it is the function's derivative along v. This makes dlog exact in closed form; the sum of Eq. 12
    need not be cut off.
    """
    wf, vf = cross(rotation, force), cross(v, force)
    push = plus(cross(rotation, moment), vf)
    wwf = cross(rotation, wf)
    odd_moment, odd_force = scaled(push, 0.5), scaled(wf, 0.5)
    even_force = plus(force, scaled(wwf, b))
    even_moment = plus(moment, scaled(plus(cross(rotation, push), cross(v, wf)), b))
    even_moment = plus(even_moment, scaled(wwf, 2.0 * slope * dot(rotation, v)))
    return (
        plus(even_moment, odd_moment),
        plus(even_force, odd_force),
        minus(even_moment, odd_moment),
        minus(even_force, odd_force),
    )


ALL = (polynomial, displaced, turned_about_z, twist, impulse, momenta)
"""Functions that a loop compiled by Numba may call."""
