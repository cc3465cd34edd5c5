"""Small loops, and steps of robots to put into loops."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from dynagate import Robot, evaluate, neutral, robots
from dynagate.dynamics.configuration import integrate
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.loop import ITERATIONS, Count, Loop, Until
from dynagate.graph.recorder import Recording
from dynagate.graph.reference_gradient import STEP
from dynagate.integrators.linearized import linearized_step_graph
from dynagate.integrators.step import step_graph

from tests.robots import floating, random_urdf


def square_root(name: str = "root") -> Loop:
    """√a by Newton's iteration, from x: each sample ends when x² is a to within 1e-12 of it."""
    recording = Recording("newton", "none")
    a, x = (recording.input(n, ())[()] for n in ("a", "x"))
    better = (x + a * (1.0 / x)) * 0.5
    graph = recording.graph({"better": better, "residual_of": (better * better - a) * (1.0 / a)})
    return Loop(name, "none", (graph,), {"better": "x"}, Until("residual_of", 1e-12, 20), last=("better",))


def swapping() -> Loop:
    """Two values that change places, of which one grows by what comes in."""
    recording = Recording("swap", "none")
    a, b, more = (recording.input(n, (3,)) for n in ("a", "b", "more"))
    graph = recording.graph({"next_a": b + more, "next_b": a * 1.0, "both": a + b})
    return Loop("swap", "none", (graph,), {"next_a": "a", "next_b": "b"}, Count(), ("more",), ("both",), ("next_a",))


def accumulated_roots() -> Loop:
    """A loop within a loop: each iteration adds the root of what comes in, by Newton's iteration from 1."""
    recording = Recording("start", "none")
    given = recording.input("number", ())[()]
    start = recording.graph({"a": given * 1.0 + 0.0, "x": given * 0.5 + 0.5})
    recording = Recording("add", "none")
    total, root = recording.input("total", ())[()], recording.input("better", ())[()]
    add = recording.graph({"sum": total + root})
    body = (start, square_root("newton"), add)
    return Loop("roots", "none", body, {"sum": "total"}, Count(), ("number",), ("sum", "better"), ())


def robot_of(name: str, folder: Path) -> Robot:
    if name == "floating":
        return floating(folder)
    if name == "prismatic":
        path = folder / "prismatic.urdf"
        path.write_text(random_urdf(35))
        return Robot.from_urdf(path)
    return robots.load(name)


def states_of(robot: Robot, batch: int, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slow enough that two units in the last place do not grow to more than tolerances allow."""
    random = np.random.default_rng(2)
    q = integrate(robot, np.tile(neutral(robot), (batch, 1)), random.uniform(-1.0, 1.0, (batch, robot.nv)))
    return q, random.uniform(-1.0, 1.0, (batch, robot.nv)), random.uniform(-1.0, 1.0, (batch, steps, robot.nv))


def check_linearization(robot: Robot, step: StepOptions) -> None:
    plain, linear = step_graph(robot, step), linearized_step_graph(robot, step)
    q, qd, tau = states_of(robot, 3, 1)
    state = {"q": q, "qd": qd, "tau": tau[:, 0]}
    if step.constrained:
        state["active"] = np.ones((3, len(robot.constraints)))
    result = evaluate(linear, state)
    after = evaluate(plain, state)
    for output, value in after.items():
        np.testing.assert_allclose(result[output], value, rtol=1e-12, atol=1e-12)
    n = robot.nv
    for k in range(3 * n):
        moved = {key: value.astype(complex) for key, value in state.items()}
        unit = 1j * STEP * np.eye(n)[k % n]
        kind = ("q", "qd", "tau")[k // n]
        moved[kind] = integrate(robot, q, unit) if kind == "q" else state[kind] + unit
        stepped = evaluate(plain, moved)
        column = result["a"][:, :, k] if k < 2 * n else result["b"][:, :, k - 2 * n]
        np.testing.assert_allclose(column[:, n:], stepped["qd_next"].imag / STEP, rtol=1e-10, atol=1e-10)
        for row in range(3):
            along = integrate(robot, after["q_next"][row], 1j * STEP * column[row, :n]).imag
            np.testing.assert_allclose(along / STEP, stepped["q_next"][row].imag / STEP, rtol=1e-10, atol=1e-10)


def sums(name: str, terms: Mapping[str, Mapping[str, float]]) -> Graph:
    """A graph of numbers: output -> input -> factor."""
    recording = Recording(name, "none")
    inputs = {read: recording.input(read, ())[()] for read in dict.fromkeys(r for row in terms.values() for r in row)}
    outputs = {
        output: np.array(sum(inputs[r] * f for r, f in row.items()), dtype=object) for output, row in terms.items()
    }
    return recording.graph(outputs)


def equal_names() -> Loop:
    """A program whose scopes all have values `x` and `y`, and in which `y` is computed twice."""
    deep = Loop("deep", "none", (sums("g", {"y": {"x": 0.5, "k": 0.25}}),), {"y": "x"}, Count(2), last=("y",))
    rest = sums("h", {"left": {"left_before": 0.3}, "z": {"x": 0.5, "y": 0.125, "w": 0.25}})
    inner = Loop("inner", "none", (deep, rest), {"left": "left_before", "z": "w"}, Until("left", 0.1, 6), last=("z",))
    first = sums("first", {"y": {"x": 0.75, "u": 0.5}, "w": {"x": 0.1}, "left_before": {"u": 1.0}})
    again = sums("again", {"y": {"y": 0.5, "z": 0.5, ITERATIONS: 0.0625}})
    last = sums("last", {"next": {"y": 0.5, "x": 0.25, "k": 0.125}})
    return Loop("outer", "none", (first, inner, again, last), {"next": "x"}, Count(), ("u",), ("y", "next"))
