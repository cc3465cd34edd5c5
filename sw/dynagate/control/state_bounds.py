"""Bounds of joint positions and speeds in iLQR: when a problem has converged, and which values iterations carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dynagate.base.arrays import Array
from dynagate.control.joint_bounds import EASE, SETTLED, SHIFT, WEIGHT, JointBounds, of_last
from dynagate.control.multipliers import CARRY, multipliers
from dynagate.control.numbers import Floats, Shapes
from dynagate.dynamics.spatial import select
from dynagate.graph import Graph
from dynagate.graph.loop import Loop
from dynagate.robot import Robot


@dataclass(frozen=True)
class FreeStates:
    """No bounds of positions and speeds. The cost of a motion is the user's."""

    carry: ClassVar[Mapping[str, str]] = {}
    ends: ClassVar[tuple[str, ...]] = ()
    """Names of results in addition to the plan."""
    flat: ClassVar[str] = "converged"
    """Name of the flag that is set when the expected decrease of the cost is below the tolerance."""
    cost: ClassVar[str] = "cost_new"
    """Name of the result with the user's cost."""

    def begin(self, knots: int) -> dict[str, Any]:
        """Return the inputs of the first iteration besides the plan's."""
        return {}

    def shapes(self, numbers: Floats, iterations: int) -> Shapes:
        """Return the inputs of `judged` besides the plan's."""
        return numbers.cost_shapes(iterations)

    def judged(self, numbers: Floats, x: Mapping[str, Array], reached: Any, fall: Any, flat: Any) -> dict[str, Any]:
        """Return the cost of the accepted motion.

        Args:
            numbers: Arithmetic of the solver.
            x: Inputs of the graph by name.
            reached: Cost of the accepted motion, bounds included.
            fall: Expected fall of the cost.
            flat: 1 if the expected fall is below the tolerance, else 0.
        """
        return {"cost_new": reached, **numbers.costs(x, reached)}

    def steps(self, robot: Robot, knots: int, within: float, iterations: int) -> tuple[Graph | Loop, ...]:
        """Return the steps of an iteration that judge bounds."""
        return ()

    def eases(self, q0: Array, qd0: Array, knots: int) -> dict[str, Array]:
        """Return how much wider the bounds of starts (batch, ...) are, (batch, knots + 1, n), by the input's name."""
        return {}

    def ease_sizes(self) -> dict[str, int]:
        """Return the number n of bounded coordinates by the name of the input that `eases` returns."""
        return {}

    def beyond(self, q: Array, qd: Array) -> Array:
        """Return the largest violation (..., 2 nv) of states q (..., knots + 1, nq) and qd (..., knots + 1, nv)."""
        return np.zeros((*q.shape[:-2], 2 * qd.shape[-1]))

    def check_integers(self) -> None:
        """Raise ArgumentError if there are bounds, which fixed point does not keep."""


@dataclass(frozen=True)
class BoundedStates(FreeStates):
    """Bounds that an augmented Lagrangian keeps (`joint_bounds`)."""

    joints: JointBounds

    carry: ClassVar[Mapping[str, str]] = CARRY
    ends: ClassVar[tuple[str, ...]] = ("paid",)
    flat: ClassVar[str] = "flat"
    cost: ClassVar[str] = "paid"

    def begin(self, knots: int) -> dict[str, Any]:
        """Return the initial shifts and weight."""
        n = len(self.joints.places)
        shifts: dict[str, Any] = {SHIFT: np.zeros((knots, n)), of_last(SHIFT, True): np.zeros(n)}
        return shifts | dict.fromkeys((WEIGHT, "penalty", "miss", "missed"), 0.0)

    def shapes(self, numbers: Floats, iterations: int) -> Shapes:
        """Return no further inputs."""
        return {}

    def judged(self, numbers: Floats, x: Mapping[str, Array], reached: Any, fall: Any, flat: Any) -> dict[str, Any]:
        """Return the cost, and whether the problem has nearly converged. `steps` decide the rest."""
        settled = select(x["fresh"][()], 0.0, select(reached * SETTLED - fall * 0.5, 1.0, flat))
        return {"merit": reached, "settled": settled}

    def steps(self, robot: Robot, knots: int, within: float, iterations: int) -> tuple[Graph | Loop, ...]:
        """Return the steps that update shifts and weights."""
        return multipliers(robot, self.joints, knots, within, iterations)

    def eases(self, q0: Array, qd0: Array, knots: int) -> dict[str, Array]:
        """Return the relaxation of the bounds for a start beyond them."""
        return {EASE: self.joints.eases(q0, qd0, knots)}

    def ease_sizes(self) -> dict[str, int]:
        return {EASE: len(self.joints.places)}

    def beyond(self, q: Array, qd: Array) -> Array:
        """Return the largest violation of the bounds."""
        return self.joints.largest_beyond(q, qd)

    def check_integers(self) -> None:
        raise self.joints.refused()


def states_of(joints: JointBounds | None) -> FreeStates:
    """Return what iLQR does about bounds of joints; None for no bounds."""
    return FreeStates() if joints is None else BoundedStates(joints)
