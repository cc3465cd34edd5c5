"""What a solver of optimal control returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import is_whole
from dynagate.base.elsewhere import answering
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained

Array = npt.NDArray[Any]


@explained
@dataclass(frozen=True, slots=True)
class Solution:
    """The best motion of each problem; leading axes are those of q0 without its last.

    q (..., knots + 1, nq), rad, m and unit quaternions; qd (..., knots + 1, nv), rad/s or m/s; tau (..., knots, nv),
    N m or N: what the solver ended with. gains (..., knots, nv, 2 nv): near it the torques are tau + gains (x - x̄),
    with x = (q, q̇); of configurations - is `dynagate.difference`, as a `Rollout` with feedback has it.
    cost (...). costs (..., iterations + 1): before each iteration and after the last one, then NaN.
    iterations (...): those that a problem took. converged (...): the cost's expected fall is within the tolerance.
    failed (...): the rollout of the guess is not finite, or no regularization up to the largest one leads further. Then
    the motion is the best until there, and NaN where there is none. regularization (...): the last one.
    beyond (..., 2 nv): how far each position and speed is beyond `joint_bounds` at most, at any state but the first,
    rad or m, rad/s or m/s; 0 without them. cold (...): the warm start of the problem was not finite, so it began with
    the torques that hold the robot instead; False without a warm start.
    """

    q: Array
    qd: Array
    tau: Array
    gains: Array
    cost: Array
    costs: Array
    iterations: Array
    converged: Array
    failed: Array
    regularization: Array
    beyond: Array
    cold: Array

    def shifted(self, knots: int = 1) -> Solution:
        """The motion from a later knot on, whose last torques and gains stay: the guess of the next problem, where a
        controller solves one after the other. Raises ValueError: it has not so many knots."""
        axes = {"q": -2, "qd": -2, "tau": -2, "gains": -3}
        return replace(self, **{name: after(getattr(self, name), knots, axis) for name, axis in axes.items()})

    def __repr__(self) -> str:
        shape = self.cost.shape
        counts = f"{int(self.converged.sum())} converged, {int(self.failed.sum())} failed"
        return f"<Solution of {shape or 'one'}, {self.tau.shape[-2]} knots, {counts}>"


answering(
    Solution,
    {
        **dict.fromkeys(("u", "us", "control", "controls", "torque", "torques"), "solution.tau"),
        **dict.fromkeys(("x", "xs", "state", "states", "trajectory"), "solution.q and solution.qd"),
        **dict.fromkeys(("k", "ks", "feedback"), "solution.gains"),
        **dict.fromkeys(("v", "vs", "qvel", "qdot"), "solution.qd"),
        **dict.fromkeys(("qs", "qpos"), "solution.q"),
        **dict.fromkeys(("success", "status"), "solution.converged or solution.failed"),
    },
)


def after(array: Array, knots: int, axis: int) -> Array:
    """What comes after so many knots along an axis, whose last entries stay. Raises ValueError: there are not so
    many."""
    size = array.shape[axis]
    if not is_whole(knots) or not 0 <= knots < size:
        raise ArgumentError(f"shifted by {knots!r}; expected 0 to {size - 1} knots")
    return np.take(array, np.minimum(np.arange(size) + knots, size - 1), axis=axis)
