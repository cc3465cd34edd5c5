"""Bounds of joint positions and speeds by an augmented Lagrangian.

Each bounded coordinate x of a knot has a shift s, which is its multiplier divided by the weight w. The cost contains ½
w d², where d is the violation of the bounds by x + s. When a problem has nearly converged, d becomes the new shift, and
w grows if the violation did not decrease enough. The method ends when the shifts no longer change: then x is within the
bounds, and the cost acts only on coordinates at a bound.

References:
    Bertsekas, "Constrained optimization and Lagrange multiplier methods", 1982.
    Howell, Jackson & Manchester, "ALTRO: a fast solver for constrained trajectory optimization", 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.dynamics.spatial import array, both_signs, largest, select
from dynagate.robot import Robot

SHIFT, EASE, WEIGHT = "bound_shift", "bound_ease", "bound_weight"
"""Names of inputs: the shifts and the relaxation of the bounds for each knot, (n,) each, and the weight for all knots,
().
"""
WITHIN = 1e-5
"""Accepted violation of bounds, as a fraction of a joint's range."""
FIRST_WEIGHT, MORE, ENOUGH, MOST_WEIGHT = 1.0, 10.0, 0.5, 1e8
"""Initial weight, relative to the cost of the guess; its growth factor; the fraction of the last largest change of a
shift above which it grows; and its largest value, relative to the cost.
"""
SETTLED = 1e-4
"""Expected decrease, relative to the cost, below which shifts change."""


@dataclass(frozen=True)
class JointBounds:
    """Bounds of a robot's joint positions and velocities."""

    nv: int
    places: Array
    """Indices of the n bounded entries of (q, q̇), along velocities."""
    entries: Array
    """Index in q of each bounded position; -1 for a velocity."""
    low: Array
    """Lower bounds (n,), in rad, m, rad/s or m/s; -inf for none."""
    high: Array
    """Upper bounds (n,), in rad, m, rad/s or m/s; inf for none."""

    @classmethod
    def of(cls, robot: Robot, low: Array, high: Array) -> JointBounds:
        """Return the bounds for lower and upper values (2 nv,) of positions of joints with one number, and of
        speeds.
        """
        nv = robot.nv
        entry = {v.start: q.start for joint, q, v in robot.moving() if joint.kind.single}
        places = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        entries = np.array([entry[k] if k < nv else -1 for k in places], int)
        return cls(nv, places, entries, low[places], high[places])

    @staticmethod
    def refused() -> ArgumentError:
        """Return the error for bounds in fixed point."""
        return ArgumentError(
            "joint_bounds in fixed point; expected none, and the force Limits, or a cost", code="DG-SOLVER-027"
        )

    @property
    def widths(self) -> Array:
        """Widths of the ranges, (n,); 1 if only one end is bounded."""
        width = self.high - self.low
        return np.where(np.isfinite(width), width, 1.0)

    def of_state(self, q: Array, qd: Array) -> Array:
        """Return the bounded coordinates (..., n) of q (..., nq) and qd (..., nv)."""
        parts = [q[..., e] if e >= 0 else qd[..., k - self.nv] for k, e in zip(self.places, self.entries, strict=True)]
        return np.stack(parts, axis=-1)

    def beyond(self, x: Array) -> Array:
        """Return the violation of the bounds by coordinates (..., n), negative at the lower bound."""
        return x - np.clip(x, self.low, self.high)

    def eases(self, q0: Array, qd0: Array, knots: int) -> Array:
        """Return the relaxation of the bounds for each knot and the last state, (batch, knots + 1, n), negative at the
        lower bound.

        It decreases linearly from the violation at the start to 0.
        """
        beyond = np.nan_to_num(self.beyond(self.of_state(q0, qd0)))
        return beyond[:, None] * np.linspace(1.0, 0.0, knots + 1)[:, None]

    def largest_beyond(self, q: Array, qd: Array) -> Array:
        """Return the largest violation (..., 2 nv) over a motion's states except the first.

        Args:
            q: Configurations (..., knots + 1, nq).
            qd: Velocities (..., knots + 1, nv).
        """
        result = np.zeros((*q.shape[:-2], 2 * self.nv), q.dtype)
        beyond = np.abs(self.beyond(self.of_state(q[..., 1:, :], qd[..., 1:, :])))
        result[..., self.places] = beyond.max(axis=-2)
        return result

    def outside(self, x: Array, ease: Array | None = None) -> Array:
        """Return by how much coordinates x (n,) violate the bounds, over any scalar, negative below the lower bound.

        A positive relaxation (n,) raises the upper bound, and a negative one lowers the lower bound.
        """

        def one(x: Any, e: Any, low: float, high: float) -> Any:
            result: Any = 0.0
            if math.isfinite(low):
                below = x - low - select(e, 0.0, e)
                result = select(-below, below, result)
            if math.isfinite(high):
                above = x - high - select(e, e, 0.0)
                result = select(above, above, result)
            return result

        ease = np.zeros(len(x)) if ease is None else ease
        ends = self.low.tolist(), self.high.tolist()
        return array([one(*each) for each in zip(x, ease, *ends, strict=True)])

    def largest(self, x: Array, least: Any) -> Any:
        """Return the largest magnitude of numbers (n,), relative to the ranges, and of `least`."""
        return largest(both_signs(x * (1.0 / self.widths)), least)


def of_last(name: str, last: bool) -> str:
    """Return the last state's name for an input of each knot."""
    return f"{name}_last" if last else name
