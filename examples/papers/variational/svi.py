"""The baseline: the scalable variational integrator of Johnson & Murphey (2009), with the midpoint rule in generalized
coordinates. A residual takes O(n²) and its Jacobian O(n³) operations.

L_d(q⁰, q¹) = dt L((q⁰ + q¹) / 2, (q¹ - q⁰) / dt). Velocities of links and their derivatives by one joint each are kept
for all pairs of a link and a joint below it, as the paper has them. All impulses are times dt.
"""

from __future__ import annotations

import numpy as np
from dynagate.integrators.vectors import Vector, cross, dot, plus, scaled, transposed_times

from examples.papers.compiled import fused
from examples.papers.variational.articulated import lower, matrix, pose, put, to_link, vector
from examples.papers.variational.links import Links
from examples.papers.variational.loops import body_impulse


@fused
def velocities(
    links: Links, q: np.ndarray, delta: np.ndarray, twists: np.ndarray, by_rate: np.ndarray, by_angle: np.ndarray
) -> np.ndarray:
    """At the midpoint: twists (links, 6) ξ of the links, by_rate and by_angle (links, links, 6) their derivatives by δⱼ
    and qⱼ in row [link, j]. Returns gravity (links, 3) in the links' frames."""
    n = len(q)
    rotation, offset, fall = np.empty((n, 9)), np.empty((n, 3)), np.empty((n, 3))
    pose(links, q + 0.5 * delta, rotation, offset)
    for i in range(n):
        p, r, t = links.parent[i], matrix(rotation, i), vector(offset, i)
        above = vector(fall, p) if p >= 0 else (links.gravity[0], links.gravity[1], links.gravity[2])
        fall[i, 0], fall[i, 1], fall[i, 2] = transposed_times(r, above)
        angular, linear = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        if p >= 0:
            angular, linear = to_link(r, t, vector(twists, p), lower(twists, p))
            for j in range(p + 1):
                put(by_rate[i], j, *to_link(r, t, vector(by_rate[p], j), lower(by_rate[p], j)))
                put(by_angle[i], j, *to_link(r, t, vector(by_angle[p], j), lower(by_angle[p], j)))
        along, none = (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)
        if links.slides[i]:
            put(by_rate[i], i, none, along)
            put(by_angle[i], i, none, cross(angular, along))
            linear = plus(linear, scaled(along, delta[i]))
        else:
            put(by_rate[i], i, along, none)
            put(by_angle[i], i, cross(angular, along), cross(linear, along))
            angular = plus(angular, scaled(along, delta[i]))
        put(twists, i, angular, linear)
    return fall


@fused
def _pair(a: np.ndarray, j: int, moment: Vector, push: Vector) -> float:
    return dot(vector(a, j), moment) + dot(lower(a, j), push)


@fused
def discrete_momenta(
    links: Links, q: np.ndarray, delta: np.ndarray, dt: float, left: np.ndarray, right: np.ndarray
) -> None:
    """left = -D₁L_d and right = D₂L_d (links,), dampers included."""
    n = len(q)
    twists, by_rate, by_angle = np.zeros((n, 6)), np.zeros((n, n, 6)), np.zeros((n, n, 6))
    fall = velocities(links, q, delta, twists, by_rate, by_angle)
    for i in range(n):
        rotor, damper = links.armature[i] * delta[i], 0.5 * dt * links.damping[i] * delta[i]
        left[i], right[i] = rotor + damper, rotor - damper
    for i in range(n):
        moment, push = body_impulse(links, i, vector(twists, i), lower(twists, i))
        weight = scaled(vector(fall, i), dt * dt)
        turning = cross(vector(links.first, i), weight)
        weight = scaled(weight, links.mass[i])
        for j in range(i + 1):
            moving = _pair(by_rate[i], j, moment, push)
            turned = 0.5 * (_pair(by_angle[i], j, moment, push) + _pair(by_rate[i], j, turning, weight))
            left[j] += moving - turned
            right[j] += moving + turned


@fused
def _bracket(a: np.ndarray, i: int, b: np.ndarray, j: int) -> tuple[Vector, Vector]:
    """The Lie bracket of two twists."""
    w, v, x, y = vector(a, i), lower(a, i), vector(b, j), lower(b, j)
    return cross(w, x), plus(cross(w, y), cross(v, x))


@fused
def midpoint_jacobian(links: Links, q: np.ndarray, delta: np.ndarray, dt: float, result: np.ndarray) -> None:
    """result (links, links): -D₂D₁L_d, the derivative of left by qᵏ⁺¹, over all triples of a link and two joints below
    it."""
    n = len(q)
    twists, by_rate, by_angle = np.zeros((n, 6)), np.zeros((n, n, 6)), np.zeros((n, n, 6))
    fall = velocities(links, q, delta, twists, by_rate, by_angle)
    result[:] = 0.0
    for i in range(n):
        result[i, i] = links.armature[i] + 0.5 * dt * links.damping[i]
    for b in range(n):
        moment, push = body_impulse(links, b, vector(twists, b), lower(twists, b))
        first, mass, g = vector(links.first, b), links.mass[b], scaled(vector(fall, b), dt * dt)
        weight, turning = scaled(g, mass), cross(first, g)
        for j in range(b + 1):
            rate_moment, rate_push = body_impulse(links, b, vector(by_rate[b], j), lower(by_rate[b], j))
            angle_moment, angle_push = body_impulse(links, b, vector(by_angle[b], j), lower(by_angle[b], j))
            falls = cross(g, vector(by_rate[b], j))  # how gravity in the link's frame changes with joint j
            for i in range(b + 1):
                rate_rate = _pair(by_rate[b], i, rate_moment, rate_push)
                rate_angle = _pair(by_rate[b], i, angle_moment, angle_push)
                angle_rate = _pair(by_angle[b], i, rate_moment, rate_push)
                angle_angle = _pair(by_angle[b], i, angle_moment, angle_push)
                angle_angle += _pair(by_rate[b], i, cross(first, falls), scaled(falls, mass))
                if j >= i:
                    w, v = _bracket(by_angle[b], i, by_rate[b], j)
                else:
                    w, v = _bracket(by_angle[b], j, by_rate[b], i)
                angle_angle += dot(w, moment) + dot(v, push)
                if j > i:  # joint i's column changes with the joints after it
                    w, v = _bracket(by_rate[b], i, by_rate[b], j)
                    rate_angle += dot(w, moment) + dot(v, push)
                    angle_angle += dot(w, turning) + dot(v, weight)
                elif i > j:
                    w, v = _bracket(by_rate[b], j, by_rate[b], i)
                    angle_rate += dot(w, moment) + dot(v, push)
                result[i, j] += rate_rate + 0.5 * rate_angle - 0.5 * (angle_rate + 0.5 * angle_angle)
