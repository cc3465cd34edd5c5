"""Solvers for a program of the small processor: each iteration of its loop is a call, and torques stay in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.control.cost import Cost, Input
from dynagate.control.forward import recorded
from dynagate.dynamics.spatial import chosen
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.blocks import Blocks
from dynagate.graph.evaluate import evaluate
from dynagate.graph.loop import Count, Loop, OfGraph, evaluate_iteration
from dynagate.integrators.explicit_method import step_inputs
from dynagate.robot import Robot
from dynagate.robot.variable import check_constant

WARM = "warm"
CALL = ("q", "qd", "guess", WARM)
"""Inputs of every call of optimal control: the state, the initial torques of all knots, and whether to start from the
last call's torques.
"""


@dataclass(frozen=True)
class ChipSolver(ABC):
    """The loop over the calls of a solver on a chip.

    A call of optimal control takes q (nq,), qd (nv,), the guess of the torques of all knots `guess` (nv,), the switch
    `warm` (), and the inputs of the cost without a default. With warm > 0 it starts from the last call's torques,
    shifted by one knot. Other solvers take their own inputs and keep no plan.
    """

    retries: ClassVar[tuple[str, ...]] = ()
    """Inner loops that repeat until they succeed."""
    samples: ClassVar[str] = ""
    """Inner loop over samples, whose iterations may run in parallel; "" without such a loop."""
    carried: ClassVar[Mapping[str, str]]
    """Values of the plan that the next call starts from, by the solver's names."""

    robot: Robot
    options: Any
    blocks: Blocks
    """The loop over calls."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Values of the solver -> names in the loop, if an input of the cost has the solver's name."""

    @property
    def plan(self) -> dict[str, str]:
        """Return which values stay in memory, and under which input names the next call reads them."""
        return {self.named(value): self.named(name) for value, name in self.carried.items()}

    def named(self, name: str) -> str:
        """Return the name in the loop of a value of the solver."""
        return self.names.get(name, name)

    @property
    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Its options, as a design's file has them."""

    @abstractmethod
    def reach(self, word: int) -> dict[str, float]:
        """Return values that may exceed those in sampled problems, and their largest magnitude.

        Args:
            word: Word length in bits.

        Raises:
            ArgumentError: A value does not fit the word.
        """

    @abstractmethod
    def solved(self, values: Mapping[str, Array]) -> Array:
        """Return which problems have a solution, (batch,), from the values of a call."""

    @abstractmethod
    def check_solved(self, solved: Array, problems: Mapping[str, Array]) -> None:
        """Check that enough problems have a solution in float64.

        Args:
            solved: Whether each problem has one, (batch,).
            problems: Inputs of the problems, (batch, ·).

        Raises:
            ArgumentError: Too few have one.
        """

    @abstractmethod
    def after(self, inputs: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs of the next call that differ from this one, for a robot that follows the plan."""


def chip_inputs(robot: Robot, cost: Cost, step: StepOptions, reserved: Collection[str]) -> dict[str, Input]:
    """Return the inputs of a cost on a chip.

    Args:
        robot: The robot.
        cost: The cost.
        step: Options of the step from knot to knot.
        reserved: Names of other inputs and of the results of a call.

    Raises:
        ArgumentError: An input differs between knots or has a reserved name, or a step has inputs or no length.
    """
    if step.dt is None:
        raise ArgumentError("dt=None of a solver on a chip; expected the seconds of a knot", code="DG-SOLVER-001")
    check_constant(robot, "a solver on a chip")
    if inputs := step_inputs(robot, step):
        raise ArgumentError(
            f"steps of {robot.name} take '{inputs[0]}' of each knot; expected forces without inputs, and no "
            "constraints, on a chip",
            code="DG-SOLVER-002",
        )
    cost_inputs = cost.inputs_of(robot)
    for name, each in cost_inputs.items():
        if name in reserved:
            raise ArgumentError(
                f"the cost has an input '{name}', which each call on a chip has too; expected a name other than "
                f"{', '.join(reserved)}",
                code="DG-SOLVER-003",
            )
        if each.each:
            raise ArgumentError(
                f"the cost has an input '{name}' of each knot; expected one of all on a chip", code="DG-SOLVER-004"
            )
    return cost_inputs


def of_calls(
    name: str,
    robot: Robot,
    steps: tuple[Graph | Loop, ...],
    plan: Mapping[str, str],
    cost_inputs: Mapping[str, Input],
    more: Sequence[str] = (),
) -> Loop:
    """Return the loop over calls.

    Args:
        name: Name of the loop.
        robot: The robot.
        steps: Steps of a call, the last of which names the results.
        plan: Value -> input of the next call that it becomes.
        cost_inputs: Inputs of the cost.
        more: Further inputs of a call.
    """
    own = (each.at(name, False) for name, each in cost_inputs.items() if each.default is None)
    kept = tuple(port.name for port in steps[-1].outputs)
    return Loop(name, robot.name, steps, plan, Count(), per_iteration=(*CALL, *more, *own), kept=kept)


def apart(loop: Loop, cost_inputs: Mapping[str, Input]) -> tuple[Loop, dict[str, str]]:
    """Return the loop with the user's names for inputs of the cost, and a map from the solver's names to new ones.

    A value of the solver gets another name if an input of the cost has its name.
    """
    names = {name: f"solver.{name}" for name in cost_inputs}
    return loop.renamed(names | {each.at(name, False): name for name, each in cost_inputs.items()}), names


def begins(
    robot: Robot, cost_inputs: Mapping[str, Input], last: Sequence[str] = (), numbers: Mapping[str, float] | None = None
) -> Graph:
    """Return the first graph of a call: the state, the values after the last knot, and constant inputs.

    Args:
        robot: The robot.
        cost_inputs: Inputs of the cost.
        last: Names of the last knot's q and qd, if a step takes them.
        numbers: Further initial numbers of a call.
    """
    shapes: dict[str, tuple[int, ...]] = {"q": (robot.nq,), "qd": (robot.nv,), "guess": (robot.nv,)}
    constants = {
        x.at(name, False): np.broadcast_to(x.default, x.shape)
        for name, x in cost_inputs.items()
        if x.default is not None
    }

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        state = {"q0": x["q"], "qd0": x["qd"], **dict(zip(last, (x["q"], x["qd"]), strict=False)), "ahead": x["guess"]}
        return {**state, **{name: value.astype(object) for name, value in constants.items()}, **(numbers or {})}

    return recorded("begin", robot.name, shapes, record)


def ahead(robot: Robot, knots: int, names: tuple[str, ...]) -> Loop:
    """Return the loop that sets the initial torques: the guess, or those of the next knot in the last call's plan.

    Joints without a motor have torque 0.

    Args:
        robot: The robot.
        knots: Number of knots.
        names: Names of the torques.
    """
    shapes = {"us_before": (robot.nv,), "ahead": (robot.nv,), "guess": (robot.nv,), "warm": ()}

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        us = chosen(x["warm"][()], x["ahead"], x["guess"])
        us[robot.undriven] = 0.0
        return {**dict.fromkeys(names, us), "ahead_next": x["us_before"]}

    graph = recorded("ahead", robot.name, shapes, record)
    carry, per_iteration = {"ahead_next": "ahead"}, ("us_before",)
    return Loop("ahead", robot.name, (graph,), carry, Count(knots), per_iteration, names, backwards=True)


def calls_of(
    solver: ChipSolver, problems: Mapping[str, Array], count: int, of_graph: OfGraph = evaluate
) -> list[tuple[dict[str, Array], dict[str, Array]]]:
    """Simulate calls in float64, each from the state that the robot reaches by the previous plan.

    Args:
        solver: The solver.
        problems: Inputs of the problems, (batch, ·).
        count: Number of calls of each problem.
        of_graph: Evaluates graphs.

    Returns:
        Inputs and all values of each call.
    """
    loop = solver.blocks.loop
    batch = len(next(iter(problems.values())))
    starts = solver.blocks.starts
    state = {port.name: np.full((batch, *port.shape), starts.get(port.name, 0.0)) for port in loop.inputs}
    first, later = ({WARM: np.full(batch, x)} if WARM in loop.per_iteration else {} for x in (0.0, 1.0))
    inputs = {name: np.asarray(problems[name], np.float64) for name in loop.per_iteration if name != WARM} | first
    calls = []
    for _ in range(count):
        with np.errstate(all="ignore"):
            now = {**state, **inputs}
            values = evaluate_iteration(loop, now, of_graph)
        calls.append((inputs, values))
        state |= {name: values[value] for value, name in solver.plan.items()}
        inputs = {**inputs, **solver.after(inputs, values), **later}
    return calls
