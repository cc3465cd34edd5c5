"""MPPI for a program of the small processor: one sample after another, whose torques are kept until its cost is known.

The mean is a running mean (West, "Updating mean and variance estimates", 1979) with weights exp(-(cost - least) /
temperature), where `least` is the smallest cost so far. When a smaller cost appears, the previous weights are scaled by
the difference. Samples are added in the order of their numbers. This order defines the integers, whether a program
computes one sample at a time or several in parallel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dynagate.base.arguments import check_count, check_positive
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.philox import DEVIATION, FRAC
from dynagate.base.upper_limits import MAX_SAMPLES
from dynagate.control.chip import CALL, ChipSolver, ahead, apart, begins, chip_inputs, of_calls
from dynagate.control.cost import Cost, CostGraphs
from dynagate.control.forward import bounded, carried, recorded, stepped, with_cost
from dynagate.control.knot_step import KnotStep
from dynagate.control.training_problems import check_solved
from dynagate.dynamics.spatial import array, chosen, exp, noise, select
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.blocks import Blocks
from dynagate.graph.evaluate import evaluate
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording
from dynagate.integrators.step import step_graph
from dynagate.native.noise import NoiseLines
from dynagate.robot import Robot

RESULTS = {"mean_first": "tau", "mean_cost_next": "cost", "least_next": "least", "weight_next": "weight"}
"""Values of a call that leave the chip -> names of the results: torques of the first knot, the weighted mean of the
costs, the least cost, and the sum of the weights, where the least cost has weight 1.
"""
DRAWN = ("draw", "seed")
"""Inputs of a call that number its noise."""
LOWEST = 16.0
"""Number of temperatures above the least cost from which all samples have the same weight, e**-LOWEST."""


@dataclass(frozen=True)
class MppiOptions:
    """Options of MPPI.

    Raises:
        ArgumentError: A number is not accepted, there are more nodes than knots, or one node for several knots.
    """

    knots: int
    """Number of steps of `step.dt` seconds with constant torques."""
    step: StepOptions
    """Options of the step from knot to knot."""
    samples: int
    """Number of rollouts in a call, the first of which has the initial torques."""
    temperature: float
    """Difference of cost that reduces the weight by a factor of e."""
    spread: Array
    """Standard deviation of the torques, (nv,), in N m or N."""
    nodes: int = 0
    """Number of points of the horizon at which torques are drawn, with linear interpolation between them; 0 for every
    knot.
    """
    bounds: tuple[Array, Array] | None = None
    """Lower and upper torques, (nv,) each, as `host.solver.bounds_of` returns them; None for no bounds."""
    scale: Array = field(init=False)
    """Factor of the random numbers, (nv,)."""

    def __post_init__(self) -> None:
        for name in ("knots", "samples"):
            check_count(name, getattr(self, name), MAX_SAMPLES)
        check_positive("temperature", self.temperature, "a cost of more than 0")
        object.__setattr__(self, "nodes", self.nodes or self.knots)
        object.__setattr__(
            self, "scale", NoiseLines(self.nodes, self.knots, self.spread * (2.0**FRAC / DEVIATION)).left[0]
        )

    @property
    def line(self) -> tuple[str, ...]:
        """Names of what a knot between nodes has besides numbers of its own."""
        return ("after", "ticks") if self.nodes < self.knots else ()


@dataclass(frozen=True)
class ChipMppi(ChipSolver):
    """MPPI. A call also takes `draw` () and `seed` () of the noise, whole numbers below 2**(word - 2): of it number
    (sample * nodes + node) * nv + joint. It gives what RESULTS says."""

    samples: ClassVar[str] = "samples"
    carried: ClassVar[Mapping[str, str]] = {"mean_new": "us_before"}

    options: MppiOptions

    @classmethod
    def of(cls, robot: Robot, cost: Cost, options: MppiOptions) -> ChipMppi:
        """Return the solver for a robot, a cost and options.

        Raises:
            ArgumentError: An input is not accepted on a chip, or spread or bounds have another shape.
        """
        for name, each in (("spread", [options.spread]), ("bounds", options.bounds or [])):
            if any(np.shape(x) != (robot.nv,) for x in each):
                raise ArgumentError(
                    f"{name} of {robot.name} on a chip; expected shape ({robot.nv},)", code="DG-SOLVER-006"
                )
        cost_inputs = chip_inputs(robot, cost, options.step, (*CALL, *DRAWN, *RESULTS.values()))
        samples = _samples(robot, CostGraphs(robot, cost, options.step.dt or 0.0), options)
        names = {port.name for port in samples.inputs}
        cost_inputs = {name: each for name, each in cost_inputs.items() if each.at(name, False) in names}
        shapes = {**dict.fromkeys(RESULTS, ()), "mean_first": (robot.nv,)}
        named = recorded("results", robot.name, shapes, lambda x: {own: x[name] for name, own in RESULTS.items()})
        steps = (
            begins(robot, cost_inputs),
            ahead(robot, options.knots, ("us", "mean")),
            samples,
            named,
        )
        loop, moved = apart(of_calls("mppi", robot, steps, cls.carried, cost_inputs, DRAWN), cost_inputs)
        starts = ("total", *options.line, *STATE.values())
        return cls(robot, options, Blocks(loop, {moved.get(name, name): 0.0 for name in starts}), moved)

    @property
    def described(self) -> dict[str, Any]:
        """Options of the solver for a record."""
        o = self.options
        numbers = {"knots": o.knots, "dt": o.step.dt, "samples": o.samples, "temperature": o.temperature}
        more = {"nodes": o.nodes, "bounds": None if o.bounds is None else [x.tolist() for x in o.bounds]}
        return {
            **numbers,
            "integrator": o.step.method,
            "implicit_damping": o.step.implicit_damping,
            "spread": o.spread.tolist(),
            **more,
        }

    def reach(self, word: int) -> dict[str, float]:
        """Return values that may exceed those in sampled problems, and their largest magnitude."""
        most = 2 ** (word - 2) - 1
        counted = (self.options.samples + 1) * self.options.nodes * self.robot.nv
        if counted > most:
            raise ArgumentError(
                f"{self.options.samples} samples of {self.options.nodes} nodes take {counted} numbers; expected "
                f"{most} at most with words of {word} bits",
                code="DG-SOLVER-007",
            )
        return {"draw": float(most), "seed": float(most)}

    def solved(self, values: Mapping[str, Array]) -> Array:
        """Return which problems have a solution, (batch,)."""
        return np.isfinite(values["cost"])

    def check_solved(self, solved: Array, problems: Mapping[str, Array]) -> None:
        """Check that enough problems have a solution in float64."""
        check_solved(solved, problems["q"], self.robot, self.options.step)

    def after(self, inputs: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs of the next call: the state after the first step, and the next draw."""
        now = {"q": inputs["q"], "qd": inputs["qd"], "tau": values["tau"]}
        moved = evaluate(step_graph(self.robot, self.options.step), now)
        return {"q": moved["q_next"], "qd": moved["qd_next"], "draw": inputs["draw"] + 1.0}


STATE = {f"{name}_next": f"{name}_before" for name in ("live", "number", "least", "weight", "mean_cost")}
"""State that a sample passes to the next sample, besides the mean."""


def _samples(robot: Robot, costs: CostGraphs, options: MppiOptions) -> Loop:
    """Return the loop over samples, from the state q0, qd0 and the torques of all knots to the weighted mean."""
    knots, name = options.knots, robot.name
    step = KnotStep(robot, options.step)
    step.check_on_chip()
    carry = carried(step)
    drawn = {f"{value}_next": value for value in ("drawn", "at", *options.line)}
    forward = Loop(
        "forward",
        name,
        (_torques(robot, options), *stepped(costs, step, "u_try")),
        {**carry, **drawn},
        Count(knots),
        ("us",),
        ("u_try",),
        tuple(carry),
    )
    blend = Loop(
        "blend",
        name,
        (_blended(robot),),
        {},
        Count(knots),
        ("u_try", "mean"),
        ("mean_new",),
        ("mean_first",),
        backwards=True,
    )
    last = ("mean_new", "mean_first", *(value for value in STATE if value in RESULTS))
    steps = (_first(robot, options), forward, _weighed(costs, options), blend)
    return Loop(ChipMppi.samples, name, steps, {"mean_new": "mean", **STATE}, Count(options.samples), last=last)


def _numbers(robot: Robot, x: Mapping[str, Array], first: Any) -> Array:
    """Return a random number for each joint at a node; `first` is the index of the first number."""
    return array([noise(first + float(j), x["draw"][()], x["seed"][()]) for j in range(robot.nv)])


def _first(robot: Robot, options: MppiOptions) -> Graph:
    """Return the graph with the initial values of a sample: its first random numbers, their scale, and counts.

    The scale is 0 in the sample that is the mean.
    """
    n = robot.nv

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        number, live = x["number_before"][()], x["live_before"][()]
        return {
            "drawn": _numbers(robot, x, number),
            "at": number + float(n),
            "scale": array([select(live, each, 0.0) for each in options.scale.tolist()]),
            "number_next": number + float(options.nodes * n),
            "live_next": 1.0,
        }

    names = ("number_before", "live_before", "draw", "seed")
    return recorded("first", robot.name, dict.fromkeys(names, ()), record)


def _torques(robot: Robot, options: MppiOptions) -> Graph:
    """Record the torques of a knot about `us`, 0 for joints without a motor, and the random numbers of the next
    knot, so that no knot waits for its own.
    """
    n, parts = robot.nv, float(options.knots - 1)

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        now, at = x["drawn"], x["at"][()]
        if not options.line:
            about, more = now, {"drawn_next": _numbers(robot, x, at), "at_next": at + float(n)}
        else:
            after, ticks = x["after"], x["ticks"][()]
            about = now + (after - now) * (ticks * (1.0 / parts))
            ticks = ticks + float(options.nodes - 1)
            beyond = ticks - (parts - 0.5)  # the next knot is behind the other node
            at = at + select(beyond, float(n), 0.0)
            more = {
                "drawn_next": chosen(beyond, after, now),
                "after_next": _numbers(robot, x, at),
                "ticks_next": select(beyond, ticks - parts, ticks),
                "at_next": at,
            }
        torques = bounded(x["us"] + x["scale"] * about, options.bounds)
        torques[robot.undriven] = 0.0
        return {"u_try": torques, **more}

    shapes: dict[str, tuple[int, ...]] = {**dict.fromkeys(("us", "scale", "drawn"), (n,))}
    shapes |= dict.fromkeys(("at", "draw", "seed"), ())
    if options.line:
        shapes |= {"after": (n,), "ticks": ()}
    return recorded("torques", robot.name, shapes, record)


def _blended(robot: Robot) -> Graph:
    """Return the graph that updates the mean torques of a knot by the torques of a sample with the weight `share`.

    Knots are processed from the last to the first, so the last result, `mean_first`, is that of the first knot.
    """

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        mean = x["mean"] * x["rest"][()] + x["u_try"] * x["share"][()]
        return {"mean_new": mean, "mean_first": mean}

    n = robot.nv
    return recorded("blend", robot.name, {"u_try": (n,), "mean": (n,), "share": (), "rest": ()}, record)


def _weighed(costs: CostGraphs, options: MppiOptions) -> Graph:
    """Return the graph that adds a sample's weight to the sum of weights, and returns its share of that sum."""

    def weight_of(above: Any) -> Any:
        """above: minus the cost that is more."""
        scaled = above * (1.0 / options.temperature)
        return exp(select(scaled + LOWEST, scaled, -LOWEST))

    def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
        names = ("total_next", "live_before", "least_before", "weight_before", "mean_cost_before")
        total, live, least, weight, mean = (recording.input(name, ())[()] for name in names)
        cost = total + costs.final.value(recording, values)
        lower = select(live, select(least - cost, cost, least), cost)
        own = weight_of(lower - cost)
        together = weight * weight_of(select(live, lower - least, 0.0)) + own
        share = own * (1.0 / together)
        mean = mean + share * (cost - mean)
        parts = {"share": share, "rest": 1.0 - share}
        return {**parts, "least_next": lower, "weight_next": together, "mean_cost_next": mean}

    return with_cost(costs, "weigh", True, record).named({"q": "q_end", "qd": "qd_end"}, {})
