"""The exact Jacobian of DRNEA by its recursive derivative (Algorithm 4): one pass to the tips and one back for each
column."""

from __future__ import annotations

import numpy as np
from dynagate.integrators.implicit.variational_body import B_CURVE, polynomial, twist
from dynagate.integrators.vectors import Scalar, Vector, cross, dot, minus, plus, scaled, transposed_times

from examples.papers.compiled import fused
from examples.papers.variational.articulated import lower, matrix, project, put, vector
from examples.papers.variational.links import Links
from examples.papers.variational.loops import body_impulse, logarithm


@fused
def dlog_transported(
    turn: Vector, v: Vector, b: Scalar, slope: Scalar, angular: Vector, linear: Vector
) -> tuple[Vector, Vector]:
    """dlog_ξ Ad_exp(ξ) η = dlog_-ξ η of a twist η = (angular, linear) (line 5)."""
    wa = cross(turn, angular)
    push = plus(cross(turn, linear), cross(v, angular))
    wwa = cross(turn, wa)
    even = plus(cross(turn, push), cross(v, wa))
    return (
        plus(plus(angular, scaled(wa, 0.5)), scaled(wwa, b)),
        plus(
            plus(linear, scaled(push, 0.5)),
            plus(scaled(even, b), scaled(wwa, 2.0 * slope * dot(turn, v))),
        ),
    )


@fused
def momentum_derivative(
    turn: Vector,
    v: Vector,
    b: Scalar,
    slope: Scalar,
    curve: Scalar,
    moment: Vector,
    force: Vector,
    turn_rate: Vector,
    v_rate: Vector,
    moment_rate: Vector,
    force_rate: Vector,
) -> tuple[Vector, Vector]:
    """The derivative of μ = dlog_ξᵀ (moment, force) by the product rule (line 8), where ξ and (moment, force) change at
    these rates. curve: d²b / d(θ²)²."""
    wf, vf = cross(turn, force), cross(v, force)
    push, wwf = plus(cross(turn, moment), vf), cross(turn, wf)
    wf_rate = plus(cross(turn_rate, force), cross(turn, force_rate))
    push_rate = plus(
        plus(cross(turn_rate, moment), cross(turn, moment_rate)), plus(cross(v_rate, force), cross(v, force_rate))
    )
    wwf_rate = plus(cross(turn_rate, wf), cross(turn, wf_rate))
    square_rate = 2.0 * dot(turn, turn_rate)
    pitch, pitch_rate = dot(turn, v), dot(turn_rate, v) + dot(turn, v_rate)
    linear = plus(plus(force_rate, scaled(wf_rate, 0.5)), plus(scaled(wwf, slope * square_rate), scaled(wwf_rate, b)))
    even = plus(cross(turn, push), cross(v, wf))
    even_rate = plus(plus(cross(turn_rate, push), cross(turn, push_rate)), plus(cross(v_rate, wf), cross(v, wf_rate)))
    angular = plus(plus(moment_rate, scaled(push_rate, 0.5)), scaled(even, slope * square_rate))
    angular = plus(angular, scaled(even_rate, b))
    angular = plus(angular, scaled(wwf, 2.0 * (curve * square_rate * pitch + slope * pitch_rate)))
    return plus(angular, scaled(wwf_rate, 2.0 * slope * pitch)), linear


@fused
def jacobian(
    links: Links,
    rotation: np.ndarray,
    offset: np.ndarray,
    next_rotation: np.ndarray,
    next_offset: np.ndarray,
    moved: np.ndarray,
    dt: float,
    result: np.ndarray,
) -> None:
    """result (links, links): df / dqᵏ⁺¹, with poses at qᵏ and qᵏ⁺¹ as `pose` and moved as `residual` wrote them."""
    n = len(moved)
    eta, force, column = np.empty((n, 6)), np.empty((n, 6)), np.empty(n)
    for j in range(n):
        eta[:] = 0.0
        force[:] = 0.0
        for i in range(j, n):
            _next_displacement(links, i, j, next_rotation, next_offset, eta)
            _next_force(links, i, moved, eta, force)
        column[:] = 0.0
        column[j] = links.armature[j] + 0.5 * dt * links.damping[j]
        project(links, rotation, offset, force, column)
        result[:, j] = column


@fused
def _next_displacement(links: Links, i: int, j: int, rotation: np.ndarray, offset: np.ndarray, eta: np.ndarray) -> None:
    """η of link i: how Tᵏ⁺¹ turns and moves, seen from itself, as joint j does (lines 3 and 4)."""
    p = links.parent[i]
    angular, linear = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    if i == j:
        along = (0.0, 0.0, 1.0)
        if links.slides[i]:
            linear = along
        else:
            angular = along
    elif p >= j:
        r, above = matrix(rotation, i), vector(eta, p)
        linear = transposed_times(r, minus(lower(eta, p), cross(vector(offset, i), above)))
        angular = transposed_times(r, above)
    put(eta, i, angular, linear)


@fused
def _next_force(links: Links, i: int, moved: np.ndarray, eta: np.ndarray, force: np.ndarray) -> None:
    """dμ / dqⱼ of link i (lines 5 and 8)."""
    e = vector(moved, i)
    angle, b, slope = logarithm(e, moved[i, 3])
    turn, v = twist(e, (moved[i, 4], moved[i, 5], moved[i, 6]), angle, b)
    curve = polynomial(B_CURVE, dot(turn, turn))
    moment, push = body_impulse(links, i, turn, v)
    turn_rate, v_rate = dlog_transported(turn, v, b, slope, vector(eta, i), lower(eta, i))
    moment_rate, push_rate = body_impulse(links, i, turn_rate, v_rate)
    angular, linear = momentum_derivative(
        turn, v, b, slope, curve, moment, push, turn_rate, v_rate, moment_rate, push_rate
    )
    put(force, i, angular, linear)
