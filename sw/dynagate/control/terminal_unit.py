"""Scale the cost in the first step of a backward pass, so that its numbers fit the formats of the other steps.

If torques cost little compared with their effect, the value of a state falls within one step from the final cost to
about the cost of a knot, by a factor of some hundreds. A format holds the largest number of all knots, so all other
knots would lose as many bits. Gains do not depend on the unit of the cost, and scaling by a power of two is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dynagate.base.arrays import Array
from dynagate.control.cost import CostGraphs, Expansion
from dynagate.control.forward import with_cost
from dynagate.control.riccati import CostToGo, Gains
from dynagate.dynamics.spatial import symmetric
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.graph.recorder import Recording
from dynagate.integrators.linearized import linearized_step_graph

Solve = Callable[[Expansion, Any], tuple[CostToGo, Gains]]

CHEAP = 1e-3
"""Torques cost little if their curvature is below this fraction of the curvature that the final cost has through a
step.
"""
MOST_BITS = 12
"""Largest number of bits by which the last knot's format may be shorter than others."""
STATES = 8
"""Number of random states at which curvatures are compared."""
CARRY = {"unit_next": "unit", "back_next": "back"}
"""Values carried from knot to knot: the unit, and the factor that restores the unit 1."""


def unit_of_last(costs: CostGraphs, step: StepOptions, driven: Array) -> float:
    """Return the unit of the last knot, a power of two up to 1.

    It is about the curvature of a knot's cost divided by that of the final cost if all torques cost little, else 1.

    Args:
        costs: The cost.
        step: Options of the step from knot to knot.
        driven: Indices of the joints with motors.
    """
    running, final = _curvatures(costs, last=False), _curvatures(costs, last=True)
    linear = linearized_step_graph(costs.robot, step)
    pushed = np.einsum("bij,bi->bj", evaluate(linear, _drawn(linear))["b"] ** 2, final["x"])
    if not (running["u"] < CHEAP * pushed)[:, driven].all():
        return 1.0
    knot, end = running["x"].sum(axis=1), final["x"].sum(axis=1)
    ratio = float(np.median(end / np.maximum(knot, end * 2.0**-MOST_BITS)))
    return 2.0 ** -max(0, math.floor(math.log2(ratio)))


def _curvatures(costs: CostGraphs, *, last: bool) -> dict[str, Array]:
    """Return second derivatives of a cost at random states: with respect to the state, x (STATES, 2 nv), and u (STATES,
    nv).
    """

    def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
        cost = (costs.final if last else costs.running).expansion(recording, values)
        return {"x": np.diag(cost.by_xx), **({} if last else {"u": np.diag(cost.by_uu)})}

    graph = with_cost(costs, "curvatures", last, record)
    return evaluate(graph, _drawn(graph))


def _drawn(graph: Graph) -> dict[str, Array]:
    """Draw inputs of a graph with their typical magnitudes."""
    random, drawn = np.random.default_rng(0), dict[str, Array]()
    for port in graph.inputs:
        sizes = np.reshape(port.sizes or 1.0, port.shape if port.sizes else ())
        drawn[port.name] = random.uniform(-1.0, 1.0, (STATES, *port.shape)) * sizes
        for start, stop in port.unit_vectors:
            part = drawn[port.name][:, start:stop]
            part /= np.linalg.norm(part, axis=1, keepdims=True)
    return drawn


@dataclass(frozen=True)
class OneUnit:
    """The same unit of the cost for all knots."""

    carry: ClassVar[Mapping[str, str]] = {}

    def begun(self, value: CostToGo) -> dict[str, Any]:
        """Return the value of the last state, as `back` reads it."""
        return {"slope": value.slope, "curvature": value.curvature}

    def back(self, recording: Recording, solve: Solve, cost: Expansion, reg: Any) -> tuple[dict[str, Any], Gains]:
        """Return the value of a knot, as the knot before reads it, and the knot's gains.

        Args:
            recording: Recording of the knot's graph.
            solve: Riccati step of a cost and a regularization.
            cost: The knot's cost.
            reg: Regularization.
        """
        value, gains = solve(cost, reg)
        return {"slope_next": value.slope, "curvature_next": value.curvature}, gains


@dataclass(frozen=True)
class LastUnit(OneUnit):
    """A unit of the cost for the last knot, which is a power of two below 1."""

    unit: float

    carry: ClassVar[Mapping[str, str]] = CARRY

    def begun(self, value: CostToGo) -> dict[str, Any]:
        """Return the initial values of the backward pass, in the unit of the last knot."""
        scaled = {"slope": value.slope * self.unit, "curvature": value.curvature * self.unit}
        return {**scaled, "unit": self.unit, "back": 1.0 / self.unit}

    def back(self, recording: Recording, solve: Solve, cost: Expansion, reg: Any) -> tuple[dict[str, Any], Gains]:
        """Return the values of a knot in the unit 1, and its gains."""
        unit, back = (recording.input(name, ())[()] for name in CARRY.values())
        value, gains = solve(Expansion(*(part * unit for part in cost)), reg * unit)
        curvature = symmetric(lambda i, j: value.curvature[i, j] * back, len(value.slope))
        values = {"slope_next": value.slope * back, "curvature_next": curvature, "unit_next": 1.0, "back_next": 1.0}
        return values, gains._replace(fall=gains.fall * back)


def units_of(costs: CostGraphs, step: StepOptions, driven: Array) -> OneUnit:
    """Return the units of the cost for formats of integers, as `unit_of_last` determines them."""
    unit = unit_of_last(costs, step, driven)
    return OneUnit() if unit == 1.0 else LastUnit(unit)
