"""A motion forwards with its cost: the graphs of a knot, which every solver has in its loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.naming import scope
from dynagate.control.cost import CostGraphs
from dynagate.dynamics.spatial import array, select, zeros
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import output_values
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording
from dynagate.integrators.step import step_graph
from dynagate.robot import Robot

CARRY = {"q_end": "q0", "qd_end": "qd0", "total_next": "total"}
"""The state from knot to knot, and the sum of the running cost."""


def stepped(costs: CostGraphs, options: StepOptions, torque: str) -> tuple[Graph, Graph]:
    """The step from q0 and qd0 to q_end and qd_end under the torques of this name, and the running cost of it, which is
    added to `total` in `total_next`."""
    step = step_graph(costs.robot, options)
    names = {"q": "q0", "qd": "qd0", "tau": torque}

    def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
        total = recording.input("total", ())[()]
        return {"total_next": total + costs.running.value(recording, values)}

    running = with_cost(costs, "running", False, record)
    return step.named(names, {"q_next": "q_end", "qd_next": "qd_end"}), running.named(names, {})


def bounded(torques: Array, bounds: tuple[Array, Array] | None) -> Array:
    """Torques (nv,) cut to lowest and highest ones (nv,) each."""
    if bounds is None:
        return torques

    def cut(x: Any, low: float, high: float) -> Any:
        if low == high:
            return low
        x = select(x - high, high, x) if math.isfinite(high) else x
        return select(low - x, low, x) if math.isfinite(low) else x

    low, high = (bound.tolist() for bound in bounds)
    return array([cut(x, a, b) for x, a, b in zip(torques, low, high, strict=True)])


def holding_loop(robot: Robot) -> Loop:
    """From q0 (nq,) to the torques tau (nv,) that hold the robot at rest there."""
    inverse = trace(robot, "inverse_dynamics")
    recording = Recording("holding", robot.name)
    (place,) = (port for port in inverse.inputs if port.name == "q")
    still = zeros(robot.nv)
    values = recording.replay(inverse, {"q": recording.input_like(place), "qd": still, "qdd": still})
    graph = recording.graph({"tau": output_values(inverse.outputs, values)["tau"]}).named({"q": "q0"}, {})
    return Loop("holding", robot.name, (graph,), {}, Count(1), last=("tau",))


def recorded(
    name: str,
    robot: str,
    shapes: Mapping[str, tuple[int, ...]],
    record: Callable[[Mapping[str, Array]], Mapping[str, Any]],
    within: str = "",
) -> Graph:
    """A graph of inputs of these shapes and what it records of them. within: its scope, unless that is `name`."""
    recording = Recording(name, robot)
    values = {each: recording.input(each, shape) for each, shape in shapes.items()}
    with scope(within or name):
        outputs = record(values)
    return recording.graph({each: np.asarray(value, dtype=object) for each, value in outputs.items()})


def with_cost(
    costs: CostGraphs, name: str, last: bool, record: Callable[[Recording, dict[str, Array]], Mapping[str, Any]]
) -> Graph:
    """A graph of the inputs of a cost, of the last knot or of others, and of what it records besides."""
    recording = Recording(name, costs.robot.name)
    values = costs.record(recording, last)
    with scope(name):
        outputs = record(recording, values)
    return recording.graph({each: np.asarray(value, dtype=object) for each, value in outputs.items()})
