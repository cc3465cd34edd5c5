"""Bounds of joint positions and speeds in iLQR: when a problem has converged, and which values iterations carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.control.bounded_values import MotionBounds
from dynagate.control.joint_bounds import EASE, SETTLED, SHIFT, WEIGHT, of_last
from dynagate.control.multipliers import multipliers, shifts_of
from dynagate.control.numbers import Floats, Shapes
from dynagate.dynamics.spatial import select
from dynagate.graph import Graph
from dynagate.graph.loop import Loop


@dataclass(frozen=True)
class FreeStates:
    """No bounds of positions and speeds. The cost of a motion is the user's."""

    flat: ClassVar[str] = "converged"
    """Name of the flag that is set when the expected decrease of the cost is below the tolerance."""
    cost: ClassVar[str] = "cost_new"
    """Name of the result with the user's cost."""

    @property
    def carry(self) -> dict[str, str]:
        """Further values that the next iteration begins with, and the inputs that they are."""
        return {}

    @property
    def ends(self) -> tuple[str, ...]:
        """Results besides those of the plan."""
        return ()

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

    def steps(self, knots: int, within: float, iterations: int) -> tuple[Graph | Loop, ...]:
        """Return the steps of an iteration that judge bounds."""
        return ()

    def eases(self, q0: Array, qd0: Array, knots: int) -> dict[str, Array]:
        """Return how much wider the bounds of starts (batch, ...) are, (batch, knots + 1, n), by the input's name."""
        return {}

    def ease_sizes(self) -> dict[str, int]:
        """Return the number n of bounded coordinates by the name of the input that `eases` returns."""
        return {}

    def shift_shapes(self, knots: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the shifts of a problem by the names of inputs."""
        return {}

    def beyond(self, q: Array, qd: Array) -> Array:
        """Return the largest violation (..., 2 nv) of states q (..., knots + 1, nq) and qd (..., knots + 1, nv)."""
        return np.zeros((*q.shape[:-2], 2 * qd.shape[-1]))

    def check_integers(self) -> None:
        """Raise ArgumentError if there are bounds, which fixed point does not keep."""


@dataclass(frozen=True)
class BoundedStates(FreeStates):
    """Bounds and constraints that an augmented Lagrangian keeps (`bounded_values`)."""

    kept: MotionBounds

    flat: ClassVar[str] = "flat"
    cost: ClassVar[str] = "paid"

    @property
    def carry(self) -> dict[str, str]:
        return {**shifts_of(self.kept), "weight_new": WEIGHT, "missed_new": "missed"}

    @property
    def ends(self) -> tuple[str, ...]:
        return ("paid", *shifts_of(self.kept), "weight_new")

    def begin(self, knots: int) -> dict[str, Any]:
        shifts: dict[str, Any] = {name: np.zeros(shape) for name, shape in self.shift_shapes(knots).items()}
        return shifts | dict.fromkeys((WEIGHT, "penalty", "miss", "missed"), 0.0)

    def shapes(self, numbers: Floats, iterations: int) -> Shapes:
        """Return no further inputs."""
        return {}

    def judged(self, numbers: Floats, x: Mapping[str, Array], reached: Any, fall: Any, flat: Any) -> dict[str, Any]:
        """Return the cost, and whether the problem has nearly converged. `steps` decide the rest."""
        settled = select(x["fresh"][()], 0.0, select(reached * SETTLED - fall * 0.5, 1.0, flat))
        return {"merit": reached, "settled": settled}

    def steps(self, knots: int, within: float, iterations: int) -> tuple[Graph | Loop, ...]:
        return multipliers(self.kept, knots, within, iterations)

    def shift_shapes(self, knots: int) -> dict[str, tuple[int, ...]]:
        shapes = {SHIFT: (knots, self.kept.knot.count), of_last(SHIFT, True): (self.kept.end.count,)}
        return {name: shape for name, shape in shapes.items() if shape[-1]}

    def eases(self, q0: Array, qd0: Array, knots: int) -> dict[str, Array]:
        return {EASE: self.kept.joints.eases(q0, qd0, knots)} if self.kept.joints else {}

    def ease_sizes(self) -> dict[str, int]:
        return {EASE: self.kept.knot.of_joints} if self.kept.joints else {}

    def beyond(self, q: Array, qd: Array) -> Array:
        return self.kept.joints.largest_beyond(q, qd) if self.kept.joints else super().beyond(q, qd)

    def check_integers(self) -> None:
        if self.kept.joints:
            raise self.kept.joints.refused()
        raise ArgumentError(
            "constraints in fixed point; expected none, or a cost of their violation", code="DG-SOLVER-028"
        )


def states_of(kept: MotionBounds | None) -> FreeStates:
    """Return iLQR's handling of joint bounds; `FreeStates` for no bounds."""
    return FreeStates() if kept is None else BoundedStates(kept)
