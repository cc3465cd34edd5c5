"""Solvers as a processor's program computes them: a call is an iteration, whose torques lie in memory until the next
call.
"""

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

CALL = ("q", "qd", "guess", "warm")
"""Inputs of every call: a state, the torques of all knots to begin with, and whether the last call's torques are
used.
"""


@dataclass(frozen=True)
class ChipSolver(ABC):
    """The loop over calls of a solver on a chip: each takes q (nq,), qd (nv,), `guess` (nv,), the torques of all knots
    to begin with, `warm` (), above 0 where it begins with the last call's torques, one knot later, instead; and the
    inputs of the cost but those that have a default.

    retries: loops in it that try again. samples: the loop in it over samples, whose iterations may run in parallel;
    empty where it has none. carried: the plan, by the solver's names. blocks: the loop. names: values of the solver
    that have another name in the loop, because an input of the cost has theirs.
    """

    retries: ClassVar[tuple[str, ...]] = ()
    samples: ClassVar[str] = ""
    carried: ClassVar[Mapping[str, str]]

    robot: Robot
    options: Any
    blocks: Blocks
    names: Mapping[str, str] = field(default_factory=dict)

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
        """Values that may become larger than a sample of problems shows, and how large, in words of this many bits.
        Raises ValueError: they do not fit."""

    @abstractmethod
    def solved(self, values: Mapping[str, Array]) -> Array:
        """Which problems have a solution, (batch,), from the values of a call."""

    @abstractmethod
    def after(self, inputs: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs of the next call that differ from this one, for a robot that follows the plan."""


def asked_of(robot: Robot, cost: Cost, step: StepOptions, reserved: Collection[str]) -> dict[str, Input]:
    """The inputs of a cost on a chip. reserved: names of other inputs and of results of a call. Raises ValueError:
    every knot has its own, one has such a name, or a step has such inputs, or no length."""
    if step.dt is None:
        raise ArgumentError("dt=None of a solver on a chip; expected the seconds of a knot")
    if inputs := step_inputs(robot, step):
        raise ArgumentError(
            f"steps of {robot.name} take '{inputs[0]}' of each knot; expected forces without inputs, and no "
            "constraints, on a chip"
        )
    asked = cost.inputs_of(robot)
    for name, each in asked.items():
        if name in reserved:
            raise ArgumentError(
                f"the cost has an input '{name}', which each call on a chip has too; expected a name other than "
                f"{', '.join(reserved)}"
            )
        if each.each:
            raise ArgumentError(f"the cost has an input '{name}' of each knot; expected one of all on a chip")
    return asked


def of_calls(
    name: str,
    robot: Robot,
    steps: tuple[Graph | Loop, ...],
    plan: Mapping[str, str],
    asked: Mapping[str, Input],
    more: Sequence[str] = (),
) -> Loop:
    """The loop over calls. steps: of which the last one names the results. asked: inputs of the cost. more: that a call
    takes."""
    own = (each.at(name, False) for name, each in asked.items() if each.default is None)
    kept = tuple(port.name for port in steps[-1].outputs)
    return Loop(name, robot.name, steps, plan, Count(), per_iteration=(*CALL, *more, *own), kept=kept)


def apart(loop: Loop, asked: Mapping[str, Input]) -> tuple[Loop, dict[str, str]]:
    """Return a loop over calls whose inputs of the cost have the names that users gave them, and the names that values
    of the solver have now, if they had one of these."""
    names = {name: f"solver.{name}" for name in asked}
    return loop.renamed(names | {each.at(name, False): name for name, each in asked.items()}), names


def begins(
    robot: Robot, asked: Mapping[str, Input], last: Sequence[str] = (), numbers: Mapping[str, float] | None = None
) -> Graph:
    """The state, what lies behind the last knot, and inputs that are constant. last: names of the last knot's q and
    qd, where something takes them. numbers: what else the call begins with."""
    shapes: dict[str, tuple[int, ...]] = {"q": (robot.nq,), "qd": (robot.nv,), "guess": (robot.nv,)}
    constants = {
        x.at(name, False): np.broadcast_to(x.default, x.shape) for name, x in asked.items() if x.default is not None
    }

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        state = {"q0": x["q"], "qd0": x["qd"], **dict(zip(last, (x["q"], x["qd"]), strict=False)), "ahead": x["guess"]}
        return {**state, **{name: value.astype(object) for name, value in constants.items()}, **(numbers or {})}

    return recorded("begin", robot.name, shapes, record)


def ahead(robot: Robot, knots: int, names: tuple[str, ...]) -> Loop:
    """The torques to begin with, by these names: the guess, or those of the knots behind each; 0 of joints without a
    motor."""
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
    """Inputs and all values, in float64, of this many calls of each problem (batch, ·), from states that the robot
    reaches by the plans. of_graph: what computes the graphs."""
    loop, batch = solver.blocks.loop, len(problems["q"])
    starts = solver.blocks.starts
    state = {port.name: np.full((batch, *port.shape), starts.get(port.name, 0.0)) for port in loop.inputs}
    inputs = {name: np.asarray(problems[name], np.float64) for name in loop.per_iteration if name != "warm"}
    inputs["warm"] = np.zeros(batch)
    calls = []
    for _ in range(count):
        with np.errstate(all="ignore"):
            now = {**state, **inputs}
            values = evaluate_iteration(loop, now, of_graph)
        calls.append((inputs, values))
        state |= {name: values[value] for value, name in solver.plan.items()}
        inputs = {**inputs, **solver.after(inputs, values), "warm": np.ones(batch)}
    return calls
