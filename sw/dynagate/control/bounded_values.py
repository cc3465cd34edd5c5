"""Values of a motion that an augmented Lagrangian keeps within bounds: coordinates of joints, and functions of users.

Each bounded value x of a knot has a shift s, its multiplier over the weight w. The cost has ½ w d² besides, where d is
how far x + s is beyond the bounds. An equality has equal bounds, so that d = x + s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.arrays import Array
from dynagate.control.joint_bounds import EASE, FIRST_WEIGHT, SHIFT, WEIGHT, JointBounds, of_last
from dynagate.dynamics.spatial import array, both_signs, largest, select
from dynagate.graph import Graph
from dynagate.graph.derivatives import Derivative, output_values
from dynagate.graph.evaluate import evaluate
from dynagate.graph.recorder import Recording
from dynagate.robot import Robot

STATE = ("q", "qd", "tau")
"""Inputs of a user's function besides those of the call."""


FIRST_CONSTRAINT_WEIGHT = 0.01
"""First weight with constraints, as a part of the cost of the guess: functions of users bend, so steps are shorter."""


class Slopes(NamedTuple):
    """Derivatives of bounded values by the state, (n, 2 nv), and by torques, (n, nv)."""

    by_x: Array
    by_u: Array


@dataclass(frozen=True)
class BoundedValues:
    """The bounded values of a knot, or of the last state: n of joints, then m of the functions of users.

    Attributes:
        robot: The robot.
        last: Whether they are those of the last state, which has no torques.
        joints: Bounds of joints, or None.
        graph: From the state, torques and inputs of the call to the m values, or None.
        low: Lowest values (m,) of functions, infinite for none.
        high: Highest values (m,) of functions.
        scale: Units (m,) in which functions are measured.
    """

    robot: Robot
    last: bool
    joints: JointBounds | None
    graph: Graph | None
    low: Array
    high: Array
    scale: Array

    @property
    def of_joints(self) -> int:
        """Return the number of bounded coordinates of joints."""
        return len(self.joints.places) if self.joints else 0

    @property
    def count(self) -> int:
        """Return the number of bounded values."""
        return self.of_joints + len(self.low)

    @property
    def widths(self) -> Array:
        """Return the units (count,) that violations are measured in: ranges of joints, then `scale`."""
        return np.append(self.joints.widths, self.scale) if self.joints else self.scale

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the inputs of the augmented Lagrangian."""
        shapes: dict[str, tuple[int, ...]] = {of_last(SHIFT, self.last): (self.count,)}
        if self.joints:
            shapes[of_last(EASE, self.last)] = (self.of_joints,)
        return {**shapes, WEIGHT: ()}

    @property
    def reads(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the state, torques and inputs of the call that the values depend on."""
        shapes: dict[str, tuple[int, ...]] = {"q": (self.robot.nq,), "qd": (self.robot.nv,)}
        ports = self.graph.inputs if self.graph else ()
        return shapes | {port.name: port.shape for port in ports}

    def shifted(self, recording: Recording, values: Mapping[str, Array]) -> Array:
        """Return how far the values with their shifts are beyond the bounds, (count,), in a recording."""
        shift, n = values[of_last(SHIFT, self.last)], self.of_joints
        parts = []
        if self.joints:
            x = self.joints.of_state(values["q"], values["qd"]) + shift[:n]
            parts.append(self.joints.outside(x, values[of_last(EASE, self.last)]))
        if self.graph:
            (own,) = output_values(self.graph.outputs, recording.replay(self.graph, values)).values()
            ends = zip(own + shift[n:], self.low.tolist(), self.high.tolist(), strict=True)
            parts.append(array([outside(*each) for each in ends]))
        return np.concatenate(parts)

    def slopes(self, recording: Recording, values: Mapping[str, Array]) -> Slopes:
        """Return the derivatives of the values of functions, in a recording."""
        nv, m = self.robot.nv, len(self.low)
        names = [name for name in STATE if name in values]
        assert self.graph is not None
        nodes = recording.replay(self.graph, values)
        present = {port.name for port in self.graph.inputs}
        columns = Derivative(self.graph, self.robot).columns(nodes, [name for name in names if name in present])
        parts = [columns[name]["values"].reshape(m, nv) for name in names]
        return Slopes(np.concatenate(parts[:2], axis=1), parts[2] if len(parts) > 2 else np.zeros((m, 0)))

    def cost(self, outside: Array, weight: Any) -> Any:
        """Return ½ w d² (), relative to the units."""
        relative = outside * (1.0 / self.widths)
        return (relative @ relative) * weight * 0.5

    def largest(self, x: Array, least: Any) -> Any:
        """Return the largest size of values (count,), relative to the units, and of `least`."""
        return largest(both_signs(x * (1.0 / self.widths)), least)


@dataclass(frozen=True)
class MotionBounds:
    """All that an augmented Lagrangian keeps of a motion.

    Attributes:
        joints: Bounds of joints, or None.
        knot: Bounded values of each knot.
        end: Bounded values of the last state.
        each: Inputs of the call that each knot has its own value of, by their names in loops.
        owners: Number of the constraint that each value of a knot is of, and each value of the last state.
    """

    joints: JointBounds | None
    knot: BoundedValues
    end: BoundedValues
    each: tuple[str, ...] = ()
    owners: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @classmethod
    def of_joints(cls, robot: Robot, joints: JointBounds) -> MotionBounds:
        """Return the bounds of joints only."""
        none = np.zeros(0)
        knot, end = (BoundedValues(robot, last, joints, None, none, none, none) for last in (False, True))
        return cls(joints, knot, end)

    @property
    def first_weight(self) -> float:
        """Return the first weight, as a part of the cost of the guess."""
        return FIRST_WEIGHT if self.knot.graph is None and self.end.graph is None else FIRST_CONSTRAINT_WEIGHT

    def of(self, last: bool) -> BoundedValues:
        """Return the bounded values of the last state or of a knot."""
        return self.end if last else self.knot

    def violation(self, motion: Mapping[str, Array], inputs: Mapping[str, Array], count: int) -> Array:
        """Return the largest violation (batch, count) of each constraint.

        Args:
            motion: q and qd (batch, knots + 1, ...) and tau (batch, knots, nv).
            inputs: Inputs of the call (batch, ...) or (1, ...) by their names in loops.
            count: Number of constraints.
        """
        batch, knots = motion["tau"].shape[:2]
        result = np.zeros((batch, count))
        for last in (False, True):
            own = self.of(last)
            if own.graph is None or not batch:
                continue
            x: dict[str, Array] = {}
            for port in own.graph.inputs:
                if port.name in motion:
                    value = motion[port.name]
                    x[port.name] = value[:, -1] if last else value[:, :knots].reshape(-1, *port.shape)
                    continue
                value = np.broadcast_to(inputs[port.name], (batch, *inputs[port.name].shape[1:]))
                x[port.name] = value if last else _on_knots(value, knots, port.name in self.each)
            values = evaluate(own.graph, x)["values"].reshape(batch, -1, len(own.low))
            beyond = np.where(own.low == own.high, np.abs(values), np.maximum(values, 0.0)).max(axis=1)
            for k, owner in enumerate(self.owners[last]):
                result[:, owner] = np.maximum(result[:, owner], beyond[:, k])
        return result

    @property
    def of_each(self) -> tuple[str, ...]:
        """Return the inputs of the augmented Lagrangian that each knot has its own values of."""
        names = (SHIFT, EASE) if self.joints else (SHIFT,)
        return names if self.knot.count else ()


def _on_knots(x: Array, knots: int, is_each: bool) -> Array:
    """Return values (batch, ...) for all knots as (batch * knots, ...); they are per knot if `is_each`."""
    spread = x if is_each else np.repeat(x[:, None], knots, axis=1)
    return spread.reshape(-1, *spread.shape[2:])


def outside(x: Any, low: float, high: float) -> Any:
    """Return how far a scalar is beyond bounds, below 0 at the lower end."""
    if low == high:
        return x - low if low else x
    result: Any = 0.0
    if math.isfinite(low):
        result = select(low - x, x - low, result)
    if math.isfinite(high):
        result = select(x - high, x - high, result)
    return result
