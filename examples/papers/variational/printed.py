"""DRNEA as the paper prints it (Algorithm 2): products of poses, then their logarithm. Kept for comparison.

Its residual cannot fall below a floor: ΔT of Eq. 19 is a product of rotations, each with rounding errors of 1e-16, and
its logarithm divided by dt² multiplies them by 1e6 at 1 ms, times the lever arms of the chain. The increment form of
`variational_loops` has no such product.
"""

from __future__ import annotations

from math import atan2, sqrt

import numpy as np
from dynagate.integrators.implicit.variational_body import momenta
from dynagate.integrators.vectors import cross, minus, plus, scaled, times, transposed_times

from examples.papers.compiled import fused
from examples.papers.variational.articulated import lower, matrix, pose, product, project, put, transposed, vector
from examples.papers.variational.links import Links
from examples.papers.variational.loops import body_impulse, logarithm


@fused
def printed_residual(
    links: Links,
    q: np.ndarray,
    rotation: np.ndarray,
    offset: np.ndarray,
    delta: np.ndarray,
    load: np.ndarray,
    impulse: np.ndarray,
    dt: float,
    f: np.ndarray,
    momentum: np.ndarray,
    force: np.ndarray,
) -> None:
    """As `variational_loops.residual`, at qᵏ⁺¹ = q + delta."""
    n = len(q)
    displacement, shift = np.empty((n, 9)), np.empty((n, 3))
    next_rotation, next_offset = np.empty((n, 9)), np.empty((n, 3))
    pose(links, q + delta, next_rotation, next_offset)
    for i in range(n):
        p, r, at = links.parent[i], matrix(rotation, i), vector(next_offset, i)
        above = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
        if p >= 0:
            above = matrix(displacement, p)
            at = plus(vector(shift, p), times(above, at))
        at = transposed_times(r, minus(at, vector(offset, i)))
        turned = product(product(transposed(r), above), matrix(next_rotation, i))
        for k in range(9):
            displacement[i, k] = turned[k]
        shift[i, 0], shift[i, 1], shift[i, 2] = at
        axis = (0.5 * (turned[7] - turned[5]), 0.5 * (turned[2] - turned[6]), 0.5 * (turned[3] - turned[1]))
        size = sqrt(axis[0] ** 2 + axis[1] ** 2 + axis[2] ** 2)
        angle = atan2(size, 0.5 * (turned[0] + turned[4] + turned[8] - 1.0))
        turn = scaled(axis, angle / size if size > 1e-7 else 1.0 + angle * angle / 6.0)
        half = np.sin(0.5 * angle) / angle if angle > 1e-7 else 0.5
        _, b, slope = logarithm(scaled(turn, half), np.cos(0.5 * angle))
        across = cross(turn, at)
        v = plus(minus(at, scaled(across, 0.5)), scaled(cross(turn, across), b))
        moment, push = body_impulse(links, i, turn, v)
        left_moment, left_push, right_moment, right_push = momenta(turn, v, b, slope, moment, push)
        put(momentum, i, right_moment, right_push)
        put(force, i, minus(left_moment, vector(load, i)), minus(left_push, lower(load, i)))
    for i in range(n):
        f[i] = (links.armature[i] + 0.5 * dt * links.damping[i]) * delta[i] - impulse[i]
    project(links, rotation, offset, force, f)
