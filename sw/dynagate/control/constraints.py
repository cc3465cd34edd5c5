"""Constraints of motions: functions of users that stay below 0, or at 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dynagate.base.arguments import ABOVE_ZERO, number, shown
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.explained import explained
from dynagate.control.bounded_values import BoundedValues, MotionBounds
from dynagate.control.cost import Cost, Input, Knot, check_inputs, knot_graph
from dynagate.control.joint_bounds import JointBounds
from dynagate.graph import Graph
from dynagate.robot import Robot

PLACES = ("knots", "end", "all")


@explained
@dataclass(frozen=True)
class Constraint:
    """A constraint of a motion: a function of a knot whose values stay at 0 or below, or are 0.

    Args:
        function: Function of a `Knot` that returns a value, or several (m,). It may use the state, torques, frames and
            inputs of the call, and has derivatives.
        equal: Whether the values are 0. Otherwise they are 0 or less.
        at: Where it holds: "knots", at each knot with torques, the first included; "end", at the last state, whose
            `tau` is 0; or "all".
        scale: Size of the values that counts as large, in their unit. The solver tolerates `within` times it.
        inputs: Shape or `Input` of each value that calls pass, by name, besides those of the cost.

    Raises:
        ArgumentTypeError: The function is no function, or `equal` no flag.
        ArgumentError: There is no such place, the scale is not above 0, or an input has no shape.

    Example:
        >>> floor = dynagate.control.Constraint(lambda knot: 0.1 - knot.position("tool0")[2], at="all")
    """

    function: Callable[[Knot], Any]
    equal: bool = False
    at: Literal["knots", "end", "all"] = "knots"
    scale: float = 1.0
    inputs: Mapping[str, tuple[int, ...] | Input] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ArgumentTypeError(
                f"constraint of {shown(self.function)}; expected a function of a knot", code="DG-SOLVER-008"
            )
        if not isinstance(self.equal, bool):
            raise ArgumentTypeError(f"equal={shown(self.equal)}; expected True or False", code="DG-SOLVER-009")
        if self.at not in PLACES:
            raise ArgumentError(f"at={shown(self.at)}; expected 'knots', 'end' or 'all'", code="DG-SOLVER-010")
        number("a constraint has scale ", self.scale, ABOVE_ZERO)
        check_inputs("constraint", self.inputs)

    def holds(self, last: bool) -> bool:
        """Return whether it holds at the last state, or at the knots before."""
        return self.at in (("end", "all") if last else ("knots", "all"))


def checked(constraints: Any) -> tuple[Constraint, ...]:
    """Return constraints as a tuple. Raise ArgumentTypeError if one is no `Constraint`."""
    listed = (constraints,) if isinstance(constraints, Constraint) else constraints
    if not isinstance(listed, Sequence) or not all(isinstance(each, Constraint) for each in listed):
        raise ArgumentTypeError(
            f"constraints={shown(constraints)}; expected a list of dynagate.control.Constraint(function)",
            code="DG-SOLVER-011",
        )
    return tuple(listed)


def with_inputs(cost: Cost, constraints: Sequence[Constraint]) -> Cost:
    """Return the cost with the inputs of constraints. Raise ArgumentError if an input has two shapes."""
    inputs = dict(cost.inputs)
    for constraint in constraints:
        for name, each in constraint.inputs.items():
            if name in inputs and inputs[name] != each:
                raise ArgumentError(
                    f"input '{name}' of a constraint is {each}, and of another one or of the cost {inputs[name]}; "
                    "expected the same, or another name",
                    code="DG-SOLVER-012",
                )
            inputs[name] = each
    return Cost(cost.running, cost.final, inputs)


def motion_bounds(
    robot: Robot, cost: Cost, joints: JointBounds | None, constraints: Sequence[Constraint]
) -> MotionBounds | None:
    """Return all that a solver keeps of a motion, None for nothing. cost: with the inputs of the constraints."""
    if not constraints:
        return None if joints is None else MotionBounds.of_joints(robot, joints)
    inputs = cost.inputs_of(robot)
    (knot, of_knot), (end, of_end) = (_values(robot, inputs, joints, constraints, last) for last in (False, True))
    each = tuple(known.at(name, False) for name, known in inputs.items() if known.each)
    return MotionBounds(joints, knot, end, each, (of_knot, of_end))


def _values(
    robot: Robot, inputs: Mapping[str, Input], joints: JointBounds | None, constraints: Sequence[Constraint], last: bool
) -> tuple[BoundedValues, tuple[int, ...]]:
    """Return the bounded values of a knot or of the last state, and the constraint that each function's value is of."""
    numbers = [k for k, constraint in enumerate(constraints) if constraint.holds(last)]
    own = [constraints[k] for k in numbers]
    if not own:
        none = np.zeros(0)
        return BoundedValues(robot, last, joints, None, none, none, none), ()
    counts: list[int] = []

    def rows(knot: Knot) -> Array:
        parts = [np.atleast_1d(np.asarray(constraint.function(knot), dtype=object)) for constraint in own]
        counts.extend(part.size for part in parts)
        if any(part.ndim > 1 for part in parts):
            raise ArgumentTypeError(
                "a constraint returned an array of several axes; expected a value, or several (m,)",
                code="DG-SOLVER-013",
            )
        return np.concatenate(parts)

    graph: Graph = knot_graph("constraints", robot, inputs, rows, last, "values")
    if not sum(counts):
        raise ArgumentError("a constraint returned no values; expected one, or several (m,)", code="DG-SOLVER-014")
    equal = np.repeat([constraint.equal for constraint in own], counts)
    scale = np.repeat([float(constraint.scale) for constraint in own], counts)
    values = BoundedValues(robot, last, joints, graph, np.where(equal, 0.0, -np.inf), np.zeros(len(equal)), scale)
    return values, tuple(np.repeat(numbers, counts).tolist())
