"""The result of an optimal control solver."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynagate.base.arguments import is_whole
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.foreign_names import answering


@explained
@dataclass(frozen=True, slots=True)
class Solution:
    """The best motion of each problem. The leading axes are those of q0 without its last."""

    q: Array
    """Configurations (..., knots + 1, nq), rad, m and unit quaternions."""
    qd: Array
    """Velocities (..., knots + 1, nv), rad/s or m/s."""
    tau: Array
    """Torques (..., knots, nv), N m or N."""
    gains: Array
    """Gains (..., knots, nv, nx). Near the motion the torques are tau + gains (x ⊖ x̄), with x = (q, q̇, states of
    actuators) and `dynagate.difference` for ⊖ of configurations; nx is 2 nv without such states.
    """
    cost: Array
    """Cost (...) of the motion."""
    costs: Array
    """Costs (..., iterations + 1) before each iteration and after the last one, then NaN."""
    iterations: Array
    """Iterations (...) that the problem took."""
    converged: Array
    """Whether the expected decrease of the cost is within the tolerance, (...)."""
    failed: Array
    """Whether the rollout of the guess is not finite, or no regularization lowers the cost, (...). The motion is then
    the best one found, and NaN if no motion is finite.
    """
    regularization: Array
    """Last regularization (...)."""
    beyond: Array
    """Largest violation (..., 2 nv) of each joint bound at any state but the first, rad or m, rad/s or m/s; 0 without
    `joint_bounds`.
    """
    cold: Array
    """Whether the warm start was not finite, so that the problem began with torques that hold the robot, (...)."""
    violation: Array
    """Largest violation (..., constraints) of each constraint of the solver at any knot, in its own unit."""
    multipliers: Array
    """Multipliers (..., knots, n) of each knot, bounds of joints first, then constraints: cost per unit of the bounded
    value. A call goes on with them by `warm=`.
    """
    end_multipliers: Array
    """Multipliers (..., m) of the last state."""
    weight: Array
    """Weight (...) of squared violations, relative to the ranges of joints and the scales of constraints."""
    actuators: Array
    """States of actuators (..., knots, nx - 2 nv) before each knot, in the order of `forces=`."""
    gap: Array
    """Largest entry (...) of the gaps between knots, rad or m, rad/s or m/s; 0 with `shooting="single"`."""

    def shifted(self, knots: int = 1) -> Solution:
        """Return the motion from a later knot on, as the guess of the next problem. The last torques and gains are
        repeated.

        Args:
            knots: Number of knots that have passed.

        Returns:
            The motion.

        Raises:
            ArgumentError: The horizon has fewer knots.
        """
        axes = {"q": -2, "qd": -2, "tau": -2, "gains": -3, "multipliers": -2, "actuators": -2}
        return replace(self, **{name: shifted_by(getattr(self, name), knots, axis) for name, axis in axes.items()})

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


def shifted_by(array: Array, knots: int, axis: int) -> Array:
    """Shift an array by a number of knots and repeat its last entry.

    Args:
        array: The array.
        knots: Number of knots.
        axis: Axis of the knots.

    Returns:
        An array of the same shape.

    Raises:
        ArgumentError: The array has fewer knots.
    """
    size = array.shape[axis]
    if not is_whole(knots) or not 0 <= knots < size:
        raise ArgumentError(f"shifted by {knots!r}; expected 0 to {size - 1} knots", code="DG-SOLVER-050")
    return np.take(array, np.minimum(np.arange(size) + knots, size - 1), axis=axis)
