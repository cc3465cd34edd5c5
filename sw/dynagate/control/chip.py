"""Solvers as a processor's program computes them: a call is a turn, whose torques lie in memory until the next call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.control.cost import Cost, Input
from dynagate.control.forward import recorded
from dynagate.control.ilqr import FIRST, RETRIES, IlqrOptions, begin, ilqr_loop
from dynagate.control.riccati_blocks import LARGEST_UNROLLED
from dynagate.dynamics.spatial import chosen
from dynagate.graph import Graph
from dynagate.graph.blocks import Blocks, renamed
from dynagate.graph.evaluate import evaluate
from dynagate.graph.loop import Count, Loop, OfGraph, evaluate_turn, mapped
from dynagate.native.sums import chained
from dynagate.robot import Robot

Array = npt.NDArray[Any]

MANY = 1500
"""Nodes of a graph whose sums become chains."""
CALL = ("q", "qd", "guess", "warm")
"""What every call takes: a state, the torques of all knots to begin with, and whether the last call's are taken."""


@dataclass(frozen=True)
class ChipSolver(ABC):
    """The loop over calls of a solver on a chip: each takes q (nq,), qd (nv,), `guess` (nv,), the torques of all knots
    to begin with, `warm` (), above 0 where it begins with the last call's torques, one knot later, instead; and the
    inputs of the cost but those that have a default.

    retries: loops in it that try again. plan: what stays in memory, and what the next call takes it for. blocks: the
    loop.
    """

    retries: ClassVar[tuple[str, ...]] = ()
    plan: ClassVar[Mapping[str, str]]

    robot: Robot
    options: Any
    blocks: Blocks

    @property
    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Its options, as a design's file has them."""

    @abstractmethod
    def reach(self) -> dict[str, float]:
        """Values that may become larger than a sample of problems shows, and how large."""

    @abstractmethod
    def solved(self, values: Mapping[str, Array]) -> Array:
        """Which problems have a solution, (batch,), from the values of a call."""

    @abstractmethod
    def after(self, inputs: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, Array]:
        """What the next call takes otherwise than this one, of a robot that does what was planned."""


RESULTS = {
    "u_first": "tau",
    "gain_first": "gain",
    "cost_new": "cost",
    "taken_new": "turns",
    "at_end": "converged",
    "good": "solved",
    "reg_used": "regularisation",
}
"""Values of a call that leave the chip, and their names there."""
OTHER = {"cost": "cost_before", "converged": "at_end"}
"""Names of the solver that results have on a chip -> others."""


@dataclass(frozen=True)
class ChipIlqr(ChipSolver):
    """iLQR. It gives what RESULTS says: tau (nv,) and gain (nv, 2 nv) of the first knot, ..."""

    retries = RETRIES
    plan: ClassVar[Mapping[str, str]] = {
        **{"us_new": "us_before", "qs_new": "qs", "qds_new": "qds"},
        **{"gains_new": "gains", "feeds_new": "feeds"},
    }

    options: IlqrOptions

    @classmethod
    def of(cls, robot: Robot, cost: Cost, options: IlqrOptions) -> ChipIlqr:
        """Raises ValueError: an input of every knot, or too many joints."""
        options = replace(options, integers=True)
        asked = asked_of(robot, cost)
        if 2 * robot.nv > LARGEST_UNROLLED:
            raise ArgumentError(
                f"{robot.name} has {robot.nv} joints; expected at most {LARGEST_UNROLLED // 2} for a solver on a chip"
            )
        # where a knot has more products than units take while one waits for another, fewer instructions are faster
        inner = mapped(renamed(ilqr_loop(robot, cost, options), OTHER), lambda g: chained(g) if len(g) > MANY else g)
        names = {port.name for port in inner.inputs}
        asked = {name: each for name, each in asked.items() if name in names}
        n = robot.nv
        shapes = {**dict.fromkeys(RESULTS, ()), **dict(zip(FIRST, ((n,), (n, 2 * n)), strict=True))}

        def results(x: Mapping[str, Array]) -> Mapping[str, Any]:
            return {own: -x[name] if name == FIRST[1] else x[name] for name, own in RESULTS.items()}

        named = recorded("results", robot.name, shapes, results)
        steps = (begins(robot, asked, ("q_last", "qd_last")), ahead(robot, options.knots, ("us",)), inner, named)
        loop = of_calls("ilqr", robot, steps, cls.plan, asked)
        first = {OTHER.get(name, name): value for name, value in {**begin(options), "taken": 0.0}.items()}
        inputs = {port.name for port in loop.inputs}
        return cls(robot, options, Blocks(loop, {k: float(v) for k, v in first.items() if k in inputs}))

    @property
    def described(self) -> dict[str, Any]:
        o = self.options
        numbers = {"knots": o.knots, "dt": o.step.dt, "iterations": o.iterations, "tolerance": o.tolerance}
        return {**numbers, "integrator": o.step.integrator, "regularisation": [o.smallest, o.largest]}

    def reach(self) -> dict[str, float]:
        turns = float(self.options.iterations + 1)
        return {"reg": self.options.largest, "reg_now": self.options.largest, "length": 1.0, "taken": turns}

    def solved(self, values: Mapping[str, Array]) -> Array:
        return np.asarray(values["solved"] > 0.0)

    def after(self, inputs: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, Array]:
        return {"q": values["qs_new"][:, 1], "qd": values["qds_new"][:, 1]}


def asked_of(robot: Robot, cost: Cost) -> dict[str, Input]:
    """The inputs of a cost on a chip. Raises ValueError: every knot has its own."""
    asked = cost.inputs_of(robot)
    for name, each in asked.items():
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
    own = (name for name, each in asked.items() if each.default is None)
    kept = tuple(port.name for port in steps[-1].outputs)
    return Loop(name, robot.name, steps, plan, Count(), per_turn=(*CALL, *more, *own), kept=kept)


def begins(
    robot: Robot, asked: Mapping[str, Input], last: Sequence[str] = (), numbers: Mapping[str, float] | None = None
) -> Graph:
    """The state, what lies behind the last knot, and inputs that are constant. last: names of the last knot's q and
    qd, where something takes them. numbers: what else the call begins with."""
    shapes: dict[str, tuple[int, ...]] = {"q": (robot.nq,), "qd": (robot.nv,), "guess": (robot.nv,)}
    constants = {k: np.broadcast_to(x.default, x.shape) for k, x in asked.items() if x.default is not None}

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        state = {"q0": x["q"], "qd0": x["qd"], **dict(zip(last, (x["q"], x["qd"]), strict=False)), "ahead": x["guess"]}
        return {**state, **{name: value.astype(object) for name, value in constants.items()}, **(numbers or {})}

    return recorded("begin", robot.name, shapes, record)


def ahead(robot: Robot, knots: int, names: tuple[str, ...]) -> Loop:
    """The torques to begin with, by these names: the guess, or those of the knots behind each."""
    shapes = {"us_before": (robot.nv,), "ahead": (robot.nv,), "guess": (robot.nv,), "warm": ()}

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        us = chosen(x["warm"][()], x["ahead"], x["guess"])
        return {**dict.fromkeys(names, us), "ahead_next": x["us_before"]}

    graph = recorded("ahead", robot.name, shapes, record)
    carry, per_turn = {"ahead_next": "ahead"}, ("us_before",)
    return Loop("ahead", robot.name, (graph,), carry, Count(knots), per_turn, names, backwards=True)


def calls_of(
    solver: ChipSolver, problems: Mapping[str, Array], count: int, of_graph: OfGraph = evaluate
) -> list[tuple[dict[str, Array], dict[str, Array]]]:
    """Inputs and all values, in float64, of so many calls of each problem (batch, ·), from states that the robot
    reaches by the plans. of_graph: what computes the graphs."""
    loop, batch = solver.blocks.loop, len(problems["q"])
    state = {port.name: np.zeros((batch, *port.shape)) for port in loop.inputs}
    state |= {name: np.full(batch, value) for name, value in solver.blocks.starts.items()}
    inputs = {name: np.asarray(problems[name], np.float64) for name in loop.per_turn if name != "warm"}
    inputs["warm"] = np.zeros(batch)
    calls = []
    for _ in range(count):
        with np.errstate(all="ignore"):
            now = {**state, **inputs}
            values = evaluate_turn(loop, now, of_graph)
        calls.append((inputs, values))
        state |= {name: values[value] for value, name in solver.plan.items()}
        inputs = {**inputs, **solver.after(inputs, values), "warm": np.ones(batch)}
    return calls
