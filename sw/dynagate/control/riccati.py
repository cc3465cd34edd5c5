"""One step of iLQR's backward pass: the value function at a knot from the value function at the next one.

References:
    Li & Todorov, "Iterative linear quadratic regulator design for nonlinear biological movement systems", 2004.
    Mastalli et al., "Crocoddyl: an efficient and versatile framework for multi-contact optimal control", 2020, for the
    regularization.
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
    """The quadratic cost to go around a state."""

    slope: Array
    """Gradient (nx,)."""
    curvature: Array
    """Second derivative (nx, nx)."""


class Gains(NamedTuple):
    """The control law u + feed + gain (x - x̄)."""

    gain: Array
    feed: Array
    fall: Any
    """Decrease of the cost by the feed-forward term, to first order."""
    right: Any
    """1 if all pivots are positive, else 0."""


def moved(value: CostToGo, dt: Any) -> CostToGo:
    """Return the cost to go of the state before the position update of a semi-implicit step, q⁺ = q + dt q̇⁺."""
    n = len(value.slope) // 2
    curvature, slope = value.curvature, value.slope
    qq, qv, vv = curvature[:n, :n], curvature[:n, n:], curvature[n:, n:]
    with scope("riccati"):
        right = qv + qq * dt
        below = symmetric(lambda a, b: vv[a, b] + (qv[a, b] + qv[b, a]) * dt + qq[a, b] * (dt * dt), n)
        curved = np.block([[qq, right], [right.T, below]])
        return CostToGo(np.concatenate([slope[:n], slope[n:] + slope[:n] * dt]), curved)


def regularized(matrix: Array, more: Any) -> Array:
    """Return a matrix (n, n) with a number added to its diagonal."""
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
    """Compute the cost to go and the gains of a knot.

    Args:
        value: Cost to go of the next state.
        a: Derivative of the next state with respect to the state, (nx, nx).
        b: Derivative of the next state with respect to the torques, (nx, nu).
        cost: Expansion of the knot's cost.
        regularization: Number added to the curvatures of torque and state.
        held: From the gradient with respect to torques (nu,) to numbers (nu,) that are positive for torques at a
            bound that would leave it. The gains keep these torques.
        finite: Whether all numbers are finite.

    Returns:
        The cost to go, and the gains.
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
    """The gains, and the factors half and scaled = D⁻¹ half, (nu, nx + 1): halfᵀ scaled is subtracted from
    the value.
    """

    gains: Gains
    half: Array
    scaled: Array


def feedback(
    by_u: Array, by_ux: Array, by_uu: Array, regularization: Any, held: Held | None, *, finite: bool = False
) -> Feedback:
    """Return the torques that minimize the value, from its derivatives.

    Args:
        by_u: Gradient with respect to torques, (nu,).
        by_ux: Second derivative with respect to torques and state, (nu, nx).
        by_uu: Second derivative with respect to torques, (nu, nu).
        regularization: Number added to the diagonal of by_uu.
        held: As in `riccati`.
        finite: Whether all numbers are finite.
    """
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
    """Replace the equations of held torques by ones that keep them."""
    n = len(held)
    slope = array([_zero_if(h, x) for h, x in zip(held, by_u, strict=True)])
    mixed = array([[_zero_if(h, x) for x in row] for h, row in zip(held, by_ux, strict=True)])
    curved = symmetric(lambda i, j: _zero_if(held[i], _zero_if(held[j], by_uu[i, j])), n)
    for i in range(n):
        curved[i, i] = select(held[i], 1.0, by_uu[i, i])
    return slope, mixed, curved


def _right(inverse: Sequence[Any], finite: bool) -> Any:
    """Return 1 if all pivots are positive, given their inverses, else 0."""
    right: Any = 1.0
    for one in inverse:
        right = select(one, right if finite else select(BEYOND - one, right, 0.0), 0.0)
    return right
