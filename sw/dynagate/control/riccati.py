"""A step of the backward pass of iLQR: the value function of a knot from that of the next one.

Li & Todorov, "Iterative linear quadratic regulator design for nonlinear biological movement systems", 2004;
regularized as Crocoddyl's SolverDDP: Mastalli et al., "Crocoddyl: an efficient and versatile framework for
multi-contact optimal control", 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.naming import scope
from dynagate.control.cost import Expansion
from dynagate.dynamics.factor import Dense, factorize, inwards, outwards
from dynagate.dynamics.spatial import array, select, symmetric
from dynagate.graph.ops import BEYOND

Held = Callable[[Array], Array]


class CostToGo(NamedTuple):
    """The cost to go about a state: its slope (nx,) and curvature (nx, nx)."""

    slope: Array
    curvature: Array


class Gains(NamedTuple):
    """u + feed + gain (x - x̄). fall: what the feed-forward gains by its slope, to first order. right: 1 where all
    pivots are positive, else 0."""

    gain: Array
    feed: Array
    fall: Any
    right: Any


def moved(value: CostToGo, dt: float) -> CostToGo:
    """The value of the state after a semi-implicit step, as that of (q, q̇⁺), of which q⁺ = q + dt q̇⁺."""
    n = len(value.slope) // 2
    curvature, slope = value.curvature, value.slope
    qq, qv, vv = curvature[:n, :n], curvature[:n, n:], curvature[n:, n:]
    with scope("riccati"):
        right = qv + qq * dt
        below = symmetric(lambda a, b: vv[a, b] + (qv[a, b] + qv[b, a]) * dt + qq[a, b] * (dt * dt), n)
        curved = np.block([[qq, right], [right.T, below]])
        return CostToGo(np.concatenate([slope[:n], slope[n:] + slope[:n] * dt]), curved)


def regularized(matrix: Array, more: Any) -> Array:
    """A matrix (n, n) with so much more on its diagonal."""
    result = matrix.copy()
    for i in range(len(result)):
        result[i, i] = result[i, i] + more
    return result


def riccati(
    value: CostToGo,
    a: Array,
    b: Array,
    cost: Expansion,
    regularization: Any,
    held: Held | None = None,
    *,
    finite: bool = False,
) -> tuple[CostToGo, Gains]:
    """The value of a knot, and its gains. value: of the next state; a (nx, nx), b (nx, nu): its derivatives. finite:
    whether all numbers are.

    regularization: what is added to the curvatures of torque and state. held: the slope by the torques (nu,) to numbers
    (nu,) above 0 for those that are at a bound and would leave it, which the gains do not change.
    """
    nx, nu = a.shape[1], b.shape[1]
    with scope("riccati"):
        ahead, pushed = value.curvature @ a, value.curvature @ b
        by_x = cost.by_x + a.T @ value.slope
        by_u = cost.by_u + b.T @ value.slope
        by_ux = cost.by_ux + b.T @ ahead
        by_xx = symmetric(lambda i, j: cost.by_xx[i, j] + a[:, i] @ ahead[:, j], nx)
        by_uu = symmetric(lambda i, j: cost.by_uu[i, j] + b[:, i] @ pushed[:, j], nu)
        back = feedback(by_u, by_ux, by_uu, regularization, held, finite=finite)
        half, scaled = back.half, back.scaled
        curvature = regularized(symmetric(lambda i, j: by_xx[i, j] - scaled[:, i] @ half[:, j], nx), regularization)
        slope = array([by_x[i] - scaled[:, nx] @ half[:, i] for i in range(nx)])
    return CostToGo(slope, curvature), back.gains


class Feedback(NamedTuple):
    """The gains; and half and scaled = D⁻¹ half, (nu, nx + 1): halfᵀ scaled is what they take of the value."""

    gains: Gains
    half: Array
    scaled: Array


def feedback(
    by_u: Array, by_ux: Array, by_uu: Array, regularization: Any, held: Held | None, *, finite: bool = False
) -> Feedback:
    """The torques that minimize the value, by its derivatives. regularization, held, finite: as of `riccati`."""
    nx, by_uu = by_ux.shape[1], regularized(by_uu, regularization)
    if held is not None:
        by_u, by_ux, by_uu = _without(held(by_u), by_u, by_ux, by_uu)
    dense = Dense(len(by_u))
    # the first joint is the first pivot, where `factorize` begins with the last row: short words lose less
    factor = factorize(dense, by_uu[::-1, ::-1])
    right = np.concatenate([by_ux, by_u[:, None]], axis=1)[::-1]
    half = np.stack([array(inwards(dense, factor, list(column))) for column in right.T], axis=1)
    scaled = half * array(factor.inverse_d)[:, None]
    both = -np.stack([array(outwards(dense, factor, list(column))) for column in half.T], axis=1)[::-1]
    fall = scaled[:, nx] @ half[:, nx]
    return Feedback(Gains(both[:, :nx], both[:, nx], fall, _right(factor.inverse_d, finite)), half, scaled)


def _zero_if(held: Any, value: Any) -> Any:
    return select(held, 0.0, value)


def _without(held: Array, by_u: Array, by_ux: Array, by_uu: Array) -> tuple[Array, Array, Array]:
    """Torques that are held have an equation of their own: they do not change."""
    n = len(held)
    slope = array([_zero_if(h, x) for h, x in zip(held, by_u, strict=True)])
    mixed = array([[_zero_if(h, x) for x in row] for h, row in zip(held, by_ux, strict=True)])
    curved = symmetric(lambda i, j: _zero_if(held[i], _zero_if(held[j], by_uu[i, j])), n)
    for i in range(n):
        curved[i, i] = select(held[i], 1.0, by_uu[i, i])
    return slope, mixed, curved


def _right(inverse: Sequence[Any], finite: bool) -> Any:
    """1 where all pivots are positive, by their inverses."""
    right: Any = 1.0
    for one in inverse:
        right = select(one, right if finite else select(BEYOND - one, right, 0.0), 0.0)
    return right
