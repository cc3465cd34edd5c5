"""Bounds of joints' positions and speeds, kept by an augmented Lagrangian.

Each bounded coordinate x of a knot has a shift s, its multiplier over the weight w. The cost has ½ w d² besides, where
d is how far x + s is beyond the bounds. Where a problem has nearly converged, d becomes the shift, and w grows where
that brought too little. It ends where no shift changes: then x is within the bounds, and pushed only at one of them.

Bertsekas, "Constrained optimization and Lagrange multiplier methods", 1982; with iLQR: Howell, Jackson & Manchester,
"ALTRO: a fast solver for constrained trajectory optimization", 2019.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.dynamics.spatial import array, select
from dynagate.robot import Robot

SHIFT, EASE, WEIGHT = "bound_shift", "bound_ease", "bound_weight"
"""Inputs: of each knot the shifts and how much wider the bounds are, (n,) each; of all knots the weight ()."""
WITHIN = 1e-5
"""How far, of a joint's range, bounds may be missed."""
FIRST_WEIGHT, MORE, ENOUGH, MOST_WEIGHT = 1.0, 10.0, 0.5, 1e8
"""The first weight, of the cost of the guess; how much larger it becomes where more than this part of the last largest
change of a shift is left; and the largest one, of the cost."""
SETTLED = 1e-4
"""The expected fall, of the cost, below which shifts change."""


@dataclass(frozen=True)
class JointBounds:
    """Bounds of a robot's positions and velocities.

    places: indices of the n bounded entries of (q, q̇), along velocities. entries: indices of these positions in q; -1
    for a velocity. low, high (n,): rad or m, rad/s or m/s, infinite if there is no bound.
    """

    nv: int
    places: Array
    entries: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, robot: Robot, low: Array, high: Array) -> JointBounds:
        """low, high (2 nv,), of joints' positions with one number, and speeds."""
        nv = robot.nv
        entry = {v.start: q.start for joint, q, v in robot.moving() if joint.kind.single}
        places = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        entries = np.array([entry[k] if k < nv else -1 for k in places], int)
        return cls(nv, places, entries, low[places], high[places])

    @staticmethod
    def refused() -> ArgumentError:
        """Return the error for bounds in fixed point."""
        return ArgumentError("joint_bounds in fixed point; expected none, and the force Limits, or a cost")

    @property
    def widths(self) -> Array:
        """Widths of the ranges, (n,); 1 if only one end is bounded."""
        width = self.high - self.low
        return np.where(np.isfinite(width), width, 1.0)

    def of_state(self, q: Array, qd: Array) -> Array:
        """The bounded coordinates (..., n) of q (..., nq) and qd (..., nv)."""
        parts = [q[..., e] if e >= 0 else qd[..., k - self.nv] for k, e in zip(self.places, self.entries, strict=True)]
        return np.stack(parts, axis=-1)

    def beyond(self, x: Array) -> Array:
        """How far numbers (..., n) are beyond, below 0 at the lower end."""
        return x - np.clip(x, self.low, self.high)

    def eases(self, q0: Array, qd0: Array, knots: int) -> Array:
        """How much wider the bounds of each knot and of the last state are, (batch, knots + 1, n), below 0 at the lower
        end: from a start beyond them, a line back."""
        beyond = np.nan_to_num(self.beyond(self.of_state(q0, qd0)))
        return beyond[:, None] * np.linspace(1.0, 0.0, knots + 1)[:, None]

    def largest_beyond(self, q: Array, qd: Array) -> Array:
        """The largest of a motion's states but the first, (..., 2 nv); q (..., knots + 1, nq), qd alike."""
        result = np.zeros((*q.shape[:-2], 2 * self.nv), q.dtype)
        beyond = np.abs(self.beyond(self.of_state(q[..., 1:, :], qd[..., 1:, :])))
        result[..., self.places] = beyond.max(axis=-2)
        return result

    def outside(self, x: Array, ease: Array | None = None) -> Array:
        """How far x (n,) is beyond the bounds, which have an ease (n,), over any scalar."""

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

    def cost(self, outside: Array, weight: Any) -> Any:
        """½ w d², relative to the ranges."""
        relative = outside * (1.0 / self.widths)
        return (relative @ relative) * weight * 0.5

    def largest(self, x: Array, least: Any) -> Any:
        """The largest size of these (n,), relative to the ranges, and of `least`."""
        for one in x * (1.0 / self.widths):
            for size in (one, -one):
                least = select(size - least, size, least)
        return least

    def shapes(self, last: bool = False) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the inputs of a knot or of the last state."""
        n = len(self.places)
        return {of_last(SHIFT, last): (n,), of_last(EASE, last): (n,), WEIGHT: ()}

    def shifted(self, values: Mapping[str, Array], last: bool = False, q: str = "q", qd: str = "qd") -> Array:
        """`outside` of the state q and qd of these values with their shifts."""
        x = self.of_state(values[q], values[qd]) + values[of_last(SHIFT, last)]
        return self.outside(x, values[of_last(EASE, last)])


def of_last(name: str, last: bool) -> str:
    """Return the last state's name for an input of each knot."""
    return f"{name}_last" if last else name
