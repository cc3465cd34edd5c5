"""Rollouts with their cost: the graphs of a knot that all solvers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.naming import scope
from dynagate.control.cost import CostGraphs
from dynagate.control.knot_step import KnotStep, Steps
from dynagate.dynamics.spatial import array, clipped, zeros
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import output_values
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording
from dynagate.robot import Robot

TOTAL = {"total_next": "total"}
"""The sum of the running cost, which is carried from knot to knot."""


def stepped(costs: CostGraphs, step: KnotStep, torque: str) -> Steps:
    """Return the step from q0 and qd0 to q_end and qd_end, and the graph that adds its running cost.

    Args:
        costs: The cost.
        step: The step.
        torque: Name of the torques.

    Returns:
        The parts of the step, and the graph from `total` to `total_next`.
    """

    def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
        total = recording.input("total", ())[()]
        return {"total_next": total + costs.running.value(recording, values)}

    running = with_cost(costs, "running", False, record)
    return *step.steps(torque), running.named({"q": "q0", "qd": "qd0", "tau": torque}, {})


def carried(step: KnotStep) -> dict[str, str]:
    """Return the values that are carried from knot to knot: those of the step, and the sum of the running cost."""
    return {**step.carry, **TOTAL}


def joined_states(step: KnotStep, values: Mapping[str, Array]) -> Array:
    """Return the states of actuators before a step, (numbers,), from values by the names of the step."""
    return np.concatenate([np.zeros(0).astype(object), *(values[name] for name, _ in step.states.values())])


def split_states(step: KnotStep, joined: str) -> tuple[Graph, ...]:
    """Return the graph that splits the states of actuators of `joined_states`; none without such states.

    Args:
        step: The step.
        joined: Name of the states, (numbers,).
    """
    if not step.states:
        return ()
    sizes = [size for _, size in step.states.values()]
    names = [name for name, _ in step.states.values()]
    ends = np.cumsum(sizes)[:-1].tolist()
    shapes = {joined: (sum(sizes),)}

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        return dict(zip(names, np.split(x[joined], ends), strict=True))

    return (recorded("states", step.robot.name, shapes, record),)


def bounded(torques: Array, bounds: tuple[Array, Array] | None) -> Array:
    """Return torques (nv,) clipped to lower and upper bounds (nv,)."""
    if bounds is None:
        return torques
    low, high = (bound.tolist() for bound in bounds)
    return array([a if a == b else clipped(x, a, b) for x, a, b in zip(torques, low, high, strict=True)])


def holding_loop(robot: Robot) -> Loop:
    """Return the loop from q0 (nq,) and the robot's variable parameters to the torques tau (nv,) that hold the robot at
    rest there.
    """
    inverse = trace(robot, "inverse_dynamics")
    recording = Recording("holding", robot.name)
    ports = [port for port in inverse.inputs if port.name == "q" or port.parameter]
    still = zeros(robot.nv)
    inputs = {port.name: recording.input_like(port) for port in ports}
    values = recording.replay(inverse, {**inputs, "qd": still, "qdd": still})
    graph = recording.graph({"tau": output_values(inverse.outputs, values)["tau"]}).named({"q": "q0"}, {})
    return Loop("holding", robot.name, (graph,), {}, Count(1), last=("tau",))


def recorded(
    name: str,
    robot: str,
    shapes: Mapping[str, tuple[int, ...]],
    record: Callable[[Mapping[str, Array]], Mapping[str, Any]],
    within: str = "",
) -> Graph:
    """Return a graph that is recorded by a function of its inputs.

    Args:
        name: Name of the graph.
        robot: Name of the robot.
        shapes: Shapes of the inputs by name.
        record: Computes the outputs from the inputs.
        within: Scope of its nodes; "" for the name of the graph.
    """
    recording = Recording(name, robot)
    values = {each: recording.input(each, shape) for each, shape in shapes.items()}
    with scope(within or name):
        outputs = record(values)
    return recording.graph({each: np.asarray(value, dtype=object) for each, value in outputs.items()})


def with_cost(
    costs: CostGraphs, name: str, last: bool, record: Callable[[Recording, dict[str, Array]], Mapping[str, Any]]
) -> Graph:
    """Return a graph with the inputs of a cost.

    Args:
        costs: The cost.
        name: Name of the graph.
        last: Whether it belongs to the last state.
        record: Computes the outputs from the recording and the inputs of the cost.
    """
    recording = Recording(name, costs.robot.name)
    values = costs.record(recording, last)
    with scope(name):
        outputs = record(recording, values)
    return recording.graph({each: np.asarray(value, dtype=object) for each, value in outputs.items()})
