"""MPPI as a processor's program computes it: one sample after the other, and nothing of a sample is kept.

The mean is a running one (West, "Updating mean and variance estimates", 1979) of weights exp(-(cost - least) /
temperature), where the least cost is the one so far: what was weighed by another one is weighed again by the
difference. The noise of a sample is drawn twice, for its rollout and for its part of the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dynagate.base.philox import DEVIATION, FRAC
from dynagate.control.chip import ChipSolver, ahead, asked_of, begins, of_calls
from dynagate.control.cost import Cost, CostGraphs
from dynagate.control.forward import CARRY, recorded, stepped, with_cost
from dynagate.dynamics.spatial import array, exp, noise, select
from dynagate.graph import Graph
from dynagate.graph.blocks import Blocks
from dynagate.graph.evaluate import evaluate
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording
from dynagate.integrators.step import StepOptions, step_graph
from dynagate.robot import Robot

Array = npt.NDArray[Any]

RESULTS = {"mean_first": "tau", "mean_cost_next": "cost", "least_next": "least", "weight_next": "weight"}
"""Values of a call that leave the chip, and their names there: torques of the first knot, the weighted mean of the
costs, the least of them, and the sum of the weights, where the least has 1."""
LOWEST = 16.0
"""Temperatures above the least cost from which on all samples have the same weight, e**-LOWEST."""
DRAWS = 2**16 - 1
"""The largest draw and seed."""
NUMBERS = ("live_before", "draw", "seed")
"""What random torques need besides their count. live_before: 0 in the first sample, which is the mean."""


@dataclass(frozen=True)
class MppiOptions:
    """knots: steps of torques, of `step.dt` seconds. samples: rollouts of a call, of which the first is the torques to
    begin with. temperature: how much more cost gives 1 / e of the weight. spread: standard deviation of the torques of
    each knot (nv,), N m or N."""

    knots: int
    step: StepOptions
    samples: int
    temperature: float
    spread: Array


@dataclass(frozen=True)
class ChipMppi(ChipSolver):
    """MPPI. A call also takes `draw` () and `seed` () of the noise, whole numbers up to DRAWS: number
    (sample * knots + knot) * nv + joint of it. It gives what RESULTS says."""

    plan: ClassVar[Mapping[str, str]] = {"mean_new": "us_before"}

    options: MppiOptions

    @classmethod
    def of(cls, robot: Robot, cost: Cost, options: MppiOptions) -> ChipMppi:
        """Raises ValueError: the cost has an input of every knot."""
        asked = asked_of(robot, cost)
        samples = _samples(robot, CostGraphs(robot, cost, options.step.dt or 0.0), options)
        names = {port.name for port in samples.inputs}
        asked = {name: each for name, each in asked.items() if name in names}
        shapes = {**dict.fromkeys(RESULTS, ()), "mean_first": (robot.nv,)}
        named = recorded("results", robot.name, shapes, lambda x: {own: x[name] for name, own in RESULTS.items()})
        steps = (
            begins(robot, asked, numbers={"number": 0.0}),
            ahead(robot, options.knots, ("us", "mean")),
            samples,
            named,
        )
        loop = of_calls("mppi", robot, steps, cls.plan, asked, ("draw", "seed"))
        return cls(robot, options, Blocks(loop, dict.fromkeys(("total", *STATE.values()), 0.0)))

    @property
    def described(self) -> dict[str, Any]:
        o = self.options
        numbers = {"knots": o.knots, "dt": o.step.dt, "samples": o.samples, "temperature": o.temperature}
        return {**numbers, "integrator": o.step.integrator, "spread": o.spread.tolist()}

    def reach(self) -> dict[str, float]:
        return {"draw": float(DRAWS), "seed": float(DRAWS)}

    def solved(self, values: Mapping[str, Array]) -> Array:
        return np.isfinite(values["cost"])

    def after(self, inputs: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, Array]:
        now = {"q": inputs["q"], "qd": inputs["qd"], "tau": values["tau"]}
        moved = evaluate(step_graph(self.robot, self.options.step), now)
        return {"q": moved["q_next"], "qd": moved["qd_next"], "draw": (inputs["draw"] + 1.0) % (DRAWS + 1.0)}


STATE = {f"{name}_next": f"{name}_before" for name in ("live", "least", "weight", "mean_cost")}
"""What a sample hands to the next one, besides the mean."""


def _samples(robot: Robot, costs: CostGraphs, options: MppiOptions) -> Loop:
    """From the state q0, qd0 and torques `us` and `mean` of all knots to the weighted mean."""
    knots, name = options.knots, robot.name
    forward = Loop(
        "forward",
        name,
        (_drawn(robot, options), *stepped(costs, options.step, "u_try")),
        {**CARRY, "number_next": "number"},
        Count(knots),
        ("us",),
        (),
        (*CARRY, "number_next"),
    )
    blend = Loop(
        "blend",
        name,
        (_blended(robot, options),),
        {"number_now": "number_next"},
        Count(knots),
        ("us", "mean"),
        ("mean_new",),
        ("mean_first",),
        backwards=True,
    )
    carry = {"mean_new": "mean", "number_next": "number", **STATE}
    last = ("mean_new", "mean_first", *(value for value in STATE if value in RESULTS))
    return Loop("samples", name, (forward, _weighed(costs, options), blend), carry, Count(options.samples), last=last)


def _torques(robot: Robot, options: MppiOptions, x: Mapping[str, Array], first: Any) -> Array:
    """Those of a knot, about `us`, and 0 of joints without a motor. first: the count of its first number."""
    live, draw, seed = (x[name][()] for name in NUMBERS)
    scale = (options.spread * (2.0**FRAC / DEVIATION)).tolist()
    drawn = [select(live, noise(first + float(j), draw, seed), 0.0) for j in range(robot.nv)]
    torques = array([u + k * z for u, k, z in zip(x["us"], scale, drawn, strict=True)])
    torques[robot.undriven] = 0.0
    return torques


def _drawn(robot: Robot, options: MppiOptions) -> Graph:
    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        number = x["number"][()]
        return {"u_try": _torques(robot, options, x, number), "number_next": number + float(robot.nv)}

    return recorded("torques", robot.name, {"us": (robot.nv,), **dict.fromkeys(("number", *NUMBERS), ())}, record)


def _blended(robot: Robot, options: MppiOptions) -> Graph:
    """The mean with a sample's part of it. Knots come from the last to the first, so counts go down."""

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        number, mean = x["number_next"][()] - float(robot.nv), x["mean"]
        blended = mean + (_torques(robot, options, x, number) - mean) * x["share"][()]
        return {"mean_new": blended, "mean_first": blended, "number_now": number}

    names = ("number_next", "share", *NUMBERS)
    return recorded("blend", robot.name, {"us": (robot.nv,), "mean": (robot.nv,), **dict.fromkeys(names, ())}, record)


def _weighed(costs: CostGraphs, options: MppiOptions) -> Graph:
    """A sample's share of the weights of all so far, from its cost."""

    def weight_of(above: Any) -> Any:
        """above: minus the cost that is more."""
        scaled = above * (1.0 / options.temperature)
        return exp(select(scaled + LOWEST, scaled, -LOWEST))

    def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
        names = ("total_next", *STATE.values())
        total, live, least, weight, mean = (recording.input(name, ())[()] for name in names)
        cost = total + costs.final.value(recording, values)
        lower = select(live, select(least - cost, cost, least), cost)
        own = weight_of(lower - cost)
        together = weight * weight_of(select(live, lower - least, 0.0)) + own
        share = own * (1.0 / together)
        mean = mean + share * (cost - mean)
        return {
            "share": share,
            **{"live_next": 1.0, "least_next": lower, "weight_next": together, "mean_cost_next": mean},
        }

    return with_cost(costs, "weigh", True, record).named({"q": "q_end", "qd": "qd_end"}, {})
