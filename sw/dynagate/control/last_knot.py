"""The unit of the cost in which a backward pass takes its first step, so that formats of integers fit the others too.

If torques cost little compared with their effect, the value of a state falls within one step from the final cost to
about what a knot costs: by some hundreds. A format holds the largest number of all knots, so all but the last would
lose as many bits. Gains do not depend on the unit of the cost, and a power of two is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.control.cost import CostGraphs, Expansion
from dynagate.control.forward import with_cost
from dynagate.control.riccati import Value
from dynagate.dynamics.spatial import symmetric
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.graph.recorder import Recording
from dynagate.integrators.linearized import linearized_step_graph

CHEAP = 1e-3
"""Torques cost little whose curvature is below this part of what the final cost gives them through a step."""
MOST_BITS = 12
"""Largest number of bits by which the last knot's format may be shorter than others."""
STATES = 8
"""Random ones, at which curvatures are compared."""
CARRY = {"unit_next": "unit", "back_next": "back"}
"""From knot to knot: the unit, and what brings the value back to that of the others, 1."""


def unit_of_last(costs: CostGraphs, step: StepOptions, driven: Array) -> float:
    """A power of two up to 1: about the curvature of a knot's cost divided by that of the final one, where all torques
    (driven,) cost little; 1 where one does not."""
    running, final = _curvatures(costs, last=False), _curvatures(costs, last=True)
    linear = linearized_step_graph(costs.robot, step)
    pushed = np.einsum("bij,bi->bj", evaluate(linear, _drawn(linear))["b"] ** 2, final["x"])
    if not (running["u"] < CHEAP * pushed)[:, driven].all():
        return 1.0
    knot, end = running["x"].sum(axis=1), final["x"].sum(axis=1)
    ratio = float(np.median(end / np.maximum(knot, end * 2.0**-MOST_BITS)))
    return 2.0 ** -max(0, math.floor(math.log2(ratio)))


def _curvatures(costs: CostGraphs, *, last: bool) -> dict[str, Array]:
    """Return the second derivatives of a cost at random states: by each entry of the state, x (STATES, 2 nv), and of
    the torques, u (STATES, nv).
    """

    def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
        cost = (costs.final if last else costs.running).expansion(recording, values)
        return {"x": np.diag(cost.by_xx), **({} if last else {"u": np.diag(cost.by_uu)})}

    graph = with_cost(costs, "curvatures", last, record)
    return evaluate(graph, _drawn(graph))


def _drawn(graph: Graph) -> dict[str, Array]:
    """Inputs of their typical sizes."""
    random, drawn = np.random.default_rng(0), dict[str, Array]()
    for port in graph.inputs:
        sizes = np.reshape(port.sizes or 1.0, port.shape if port.sizes else ())
        drawn[port.name] = random.uniform(-1.0, 1.0, (STATES, *port.shape)) * sizes
        for start, stop in port.unit_vectors:
            part = drawn[port.name][:, start:stop]
            part /= np.linalg.norm(part, axis=1, keepdims=True)
    return drawn


def begun(value: Value, unit: float) -> dict[str, Any]:
    """The value of the last state in its unit, and what CARRY carries to the knot before it."""
    return {"slope": value.slope * unit, "curvature": value.curvature * unit, "unit": unit, "back": 1.0 / unit}


def in_unit(cost: Expansion, unit: Any) -> Expansion:
    """A knot's cost in this unit."""
    return Expansion(*(part * unit for part in cost))


def brought_back(value: Value, back: Any) -> dict[str, Any]:
    """The value in the unit of all other knots, for the next one."""
    curvature = symmetric(lambda i, j: value.curvature[i, j] * back, len(value.slope))
    return {"slope_next": value.slope * back, "curvature_next": curvature, "unit_next": 1.0, "back_next": 1.0}
