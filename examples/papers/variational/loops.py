"""The discrete recursive Newton-Euler algorithm (DRNEA, Algorithm 2) in increment form, as loops over the links of a
robot of any length.

The unknown of a step is the increment δ = qᵏ⁺¹ - qᵏ. Momenta and residuals are times dt, see `variational_body`.
`share` is the part of a whole interval's impulses that act at qᵏ: 1, and one half at the start, where the motion before
is the initial velocity (the discrete Legendre transform).
"""

from __future__ import annotations

from math import atan2, cos, sin, sqrt, tan

import numpy as np
from dynagate.integrators.implicit import variational_body
from dynagate.integrators.implicit.variational_body import (
    ANGLE,
    B_SLOPE,
    WIDEST,
    B,
    displaced,
    impulse,
    momenta,
    polynomial,
    turned_about_z,
    twist,
)
from dynagate.integrators.vectors import (
    Scalar,
    Vector,
    cross,
    dot,
    minus,
    plus,
    scaled,
    times,
    transposed_times,
)

from examples.papers.compiled import callable_in_loops, fused
from examples.papers.variational.articulated import add, lower, matrix, project, put, to_link, vector
from examples.papers.variational.links import Links

callable_in_loops(*variational_body.ALL)


@fused
def logarithm(e: Vector, w: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """θ / |e|, b and db / dθ² of a turn by the unit quaternion (e, w), θ up to π."""
    y = dot(e, e)
    if y <= WIDEST and w > 0.0:
        angle = polynomial(ANGLE, y)
        square = y * angle * angle
        return angle, polynomial(B, square), polynomial(B_SLOPE, square)
    size = sqrt(y)
    turn = 2.0 * atan2(size, abs(w))
    x, square = 0.5 * turn, turn * turn
    b = (1.0 - x / tan(x)) / square
    slope = ((x / sin(x) ** 2 - 1.0 / tan(x)) / (8.0 * x) - b) / square
    return np.sign(w) * turn / size, b, slope


@fused
def prepare(
    links: Links,
    rotation: np.ndarray,
    offset: np.ndarray,
    last: np.ndarray,
    momentum: np.ndarray,
    tau: np.ndarray,
    external: np.ndarray,
    dt: float,
    share: float,
    load: np.ndarray,
    impulse: np.ndarray,
) -> None:
    """What stays while δ is sought. load (links, 6): the momentum that each link brings, gravity's and external
    impulses; impulse (links,): those of the joints, their rotors and half of their dampers.

    last (links,): the increment before; momentum (links, 6): as `residual` wrote it for that; tau (links,) in N m;
    external (links, 6) in N m and N, or of no rows.
    """
    fall = np.empty((len(last), 3))
    reach = share * dt * dt
    for i in range(len(last)):
        p = links.parent[i]
        above = vector(fall, p) if p >= 0 else (links.gravity[0], links.gravity[1], links.gravity[2])
        g = transposed_times(matrix(rotation, i), above)
        fall[i, 0], fall[i, 1], fall[i, 2] = g
        load[i] = momentum[i]
        add(load, i, scaled(cross(vector(links.first, i), g), reach), scaled(g, reach * links.mass[i]))
        if len(external):
            add(load, i, scaled(vector(external, i), reach), scaled(lower(external, i), reach))
        rotor = links.armature[i] - (share - 0.5) * links.damping[i] * dt
        impulse[i] = reach * tau[i] + rotor * last[i]


@fused
def displace(links: Links, rotation: np.ndarray, offset: np.ndarray, delta: np.ndarray, moved: np.ndarray) -> float:
    """moved (links, 7): ΔR's quaternion (e, w) and Δp of each link (Eq. 19), seen from its frame at qᵏ. Returns the
    largest |e|², a negative w counted as 1."""
    widest = 0.0
    for i in range(len(delta)):
        p, r = links.parent[i], matrix(rotation, i)
        e, w, shift, at = (0.0, 0.0, 0.0), 1.0, (0.0, 0.0, 0.0), vector(offset, i)
        if p >= 0:
            e, w, shift = vector(moved, p), moved[p, 3], (moved[p, 4], moved[p, 5], moved[p, 6])
        if links.slides[i]:
            slide = (r[2] * delta[i], r[5] * delta[i], r[8] * delta[i])
            shift = plus(shift, plus(displaced(plus(at, slide), e, w), slide))
            e = transposed_times(r, e)
        else:
            shift = plus(shift, displaced(at, e, w))
            e, w = turned_about_z(transposed_times(r, e), w, sin(0.5 * delta[i]), cos(0.5 * delta[i]))
        moved[i, 0], moved[i, 1], moved[i, 2] = e
        moved[i, 3] = w
        moved[i, 4], moved[i, 5], moved[i, 6] = transposed_times(r, shift)
        widest = max(widest, dot(e, e) if w > 0.0 else 1.0)
    return widest


@fused
def residual(
    links: Links,
    rotation: np.ndarray,
    offset: np.ndarray,
    delta: np.ndarray,
    load: np.ndarray,
    impulse: np.ndarray,
    dt: float,
    moved: np.ndarray,
    f: np.ndarray,
    momentum: np.ndarray,
    force: np.ndarray,
) -> float:
    """f (links,): dt times the residual impulse of Eq. 22 at δ. momentum (links, 6): Ad_exp(ξ)ᵀ μ of each link, which
    it brings into the next step. moved (links, 7), force (links, 6): overwritten. Returns the largest |e|² as
    `displace` does."""
    widest = displace(links, rotation, offset, delta, moved)
    for i in range(len(delta)):
        e = vector(moved, i)
        angle, b, slope = logarithm(e, moved[i, 3])
        turn, v = twist(e, (moved[i, 4], moved[i, 5], moved[i, 6]), angle, b)
        moment, push = body_impulse(links, i, turn, v)
        left_moment, left_push, right_moment, right_push = momenta(turn, v, b, slope, moment, push)
        put(momentum, i, right_moment, right_push)
        put(force, i, minus(left_moment, vector(load, i)), minus(left_push, lower(load, i)))
    for i in range(len(delta)):
        f[i] = (links.armature[i] + 0.5 * dt * links.damping[i]) * delta[i] - impulse[i]
    project(links, rotation, offset, force, f)
    return widest


@fused
def body_impulse(links: Links, i: int, turn: Vector, v: Vector) -> tuple[Vector, Vector]:
    """G ξ of link i."""
    return impulse(links.mass[i], vector(links.first, i), matrix(links.inertia, i), turn, v)


@fused
def start(links: Links, rotation: np.ndarray, offset: np.ndarray, last: np.ndarray, momentum: np.ndarray) -> None:
    """momentum (links, 6) of each link at velocity last / dt: G V(0) dt, which the discrete Legendre
    transform sets equal to that of the first interval."""
    velocity = np.zeros((len(last), 6))
    for i in range(len(last)):
        p, r = links.parent[i], matrix(rotation, i)
        w, v = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        if p >= 0:
            w, v = to_link(r, vector(offset, i), vector(velocity, p), lower(velocity, p))
        rate = (0.0, 0.0, last[i])
        if links.slides[i]:
            v = plus(v, rate)
        else:
            w = plus(w, rate)
        put(velocity, i, w, v)
        moment, push = body_impulse(links, i, w, v)
        put(momentum, i, moment, push)


@fused
def kinetic(
    links: Links, rotation: np.ndarray, offset: np.ndarray, delta: np.ndarray, dt: float, moved: np.ndarray
) -> float:
    """½ Σ Vᵀ G V in J over the interval, with average twists V = ξ / dt. moved (links, 7): overwritten."""
    displace(links, rotation, offset, delta, moved)
    total = 0.0
    for i in range(len(delta)):
        angle, b, _ = logarithm(vector(moved, i), moved[i, 3])
        turn, v = twist(vector(moved, i), (moved[i, 4], moved[i, 5], moved[i, 6]), angle, b)
        moment, push = body_impulse(links, i, turn, v)
        total += dot(turn, moment) + dot(v, push) + links.armature[i] * delta[i] ** 2
    return 0.5 * total / dt**2


@fused
def potential(links: Links, rotation: np.ndarray, offset: np.ndarray) -> float:
    """-Σ m gᵀ c in J, with poses as `pose` writes them: first moments are passed from the tips to the base."""
    moment, mass = links.first.copy(), links.mass.copy()
    total = 0.0
    for i in range(len(mass) - 1, -1, -1):
        p = links.parent[i]
        above = plus(times(matrix(rotation, i), vector(moment, i)), scaled(vector(offset, i), mass[i]))
        if p >= 0:
            for k in range(3):
                moment[p, k] += above[k]
            mass[p] += mass[i]
        else:
            total -= above[0] * links.gravity[0] + above[1] * links.gravity[1] + above[2] * links.gravity[2]
    return total
