"""What the passes may merge and drop: nothing that counts at any value of an input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynagate import FUNCTIONS, Robot, evaluate, robots, trace
from dynagate.dynamics.configuration import integrate
from dynagate.dynamics.spatial import select
from dynagate.graph import Graph, GraphError, identities, passes
from dynagate.graph.derivatives import jacobian, jvp, vjp
from dynagate.graph.kept import Kept
from dynagate.graph.loop import Loop
from dynagate.graph.ops import BEYOND
from dynagate.graph.recorder import Recording
from dynagate.graph.truth import relative_errors
from dynagate.integrators.linearised import linearised_step_graph
from dynagate.integrators.position_based_method import PositionBasedMethod
from dynagate.integrators.step import StepOptions, step_graph
from dynagate.integrators.step_vjp import step_vjp_graph
from dynagate.robot.model import Joint, Link

from tests.robots import hopper


def finger(links: int, mass: float, inertia: float) -> Robot:
    """Light links in a row: their inertias are far below the numbers of their coordinates."""
    one = tuple(tuple(inertia if i == j else 0.0 for j in range(3)) for i in range(3))
    along = [(0.0, 0.0, 0.03 * (k > 0)) for k in range(links)]
    limits = {"axis": (0.0, 1.0, 0.0), "lower": -2.0, "upper": 2.0, "velocity": 5.0, "effort": 1.0}
    joints = [Joint(f"j{k}", "revolute", translation=place, **limits) for k, place in enumerate(along)]
    return Robot("finger", tuple(Link(f"l{k}", k - 1, j, mass, (0.0, 0.0, 0.015), one) for k, j in enumerate(joints)))


def ball() -> Robot:
    inertia = ((0.02, 0.0, 0.0), (0.0, 0.03, 0.0), (0.0, 0.0, 0.04))
    return Robot("ball", (Link("a", -1, Joint("j", "spherical"), 1.0, (0.0, 0.0, 0.1), inertia),))


STAGES = {
    "rk3": ([[0.5], [-1.0, 2.0]], [1 / 6, 4 / 6, 1 / 6]),
    "rk4": ([[0.5], [0.0, 0.5], [0.0, 0.0, 1.0]], [1 / 6, 2 / 6, 2 / 6, 1 / 6]),
}


def own_step(
    robot: Robot, integrator: str, dt: float, q: np.ndarray, qd: np.ndarray, tau: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One step by the stages of the textbook, with M and the bias torque of inverse dynamics in its spatial form."""
    graph = trace(robot, "inverse_dynamics", form="spatial")

    def torque(q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> np.ndarray:
        return evaluate(graph, {"q": q, "qd": qd, "qdd": qdd})["tau"]

    def acceleration(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        still = torque(q, 0 * qd, 0 * qd)
        columns = [torque(q, 0 * qd, 0 * qd + unit) - still for unit in np.eye(robot.nv)]
        return np.linalg.solve(np.stack(columns, axis=2), (tau - torque(q, qd, 0 * qd))[..., None])[..., 0]

    def after(weights: list[float]) -> tuple[np.ndarray, np.ndarray]:
        moved = sum(w * v for w, v in zip(weights, speeds, strict=True))
        return integrate(robot, q, dt * moved), qd + dt * sum(w * a for w, a in zip(weights, slopes, strict=True))

    speeds, slopes = [qd], [acceleration(q, qd)]
    stages, weights = STAGES[integrator]
    for stage in stages:
        here, speed = after(stage)
        speeds.append(speed)
        slopes.append(acceleration(here, speed))
    return after(weights)


@pytest.mark.parametrize("robot", [finger(2, 0.02, 1e-6), finger(3, 0.005, 1e-7)], ids=["20 g", "5 g"])
@pytest.mark.parametrize("integrator", ["rk3", "rk4"])
@pytest.mark.parametrize("dt", [None, 1e-3])
def test_a_step_of_light_links(robot: Robot, integrator: str, dt: float | None) -> None:
    random = np.random.default_rng(1)
    state = {"q": random.uniform(-1.0, 1.0, (4, robot.nv)), "qd": random.uniform(-0.5, 0.5, (4, robot.nv))}
    state["tau"] = random.uniform(-1e-4, 1e-4, (4, robot.nv))
    expected = own_step(robot, integrator, 1e-3, **state)
    got = evaluate(step_graph(robot, StepOptions(dt, integrator)), state if dt else {**state, "dt": np.full(4, 1e-3)})
    assert relative_errors(got["q_next"], expected[0]).max() < 1e-11
    assert relative_errors(got["qd_next"], expected[1]).max() < 1e-9


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_a_step_of_a_quaternion_has_length_1_with_any_dt(integrator: str) -> None:
    robot = ball()
    state = {"q": np.array([[0.0, 0.0, 0.0, 1.0]]), "qd": np.full((1, 3), 0.5), "tau": np.zeros((1, 3))}
    given = evaluate(step_graph(robot, StepOptions(None, integrator)), {**state, "dt": np.array([0.01])})
    constant = evaluate(step_graph(robot, StepOptions(0.01, integrator)), state)
    assert np.linalg.norm(given["q_next"]) == pytest.approx(1.0, abs=1e-14)
    assert given["q_next"] == pytest.approx(constant["q_next"], abs=1e-14)


def test_friction_at_rest_and_near_it() -> None:
    """Friction below its speed is friction × q̇ / speed to first order: 0.1 N m at a tenth of it."""
    robot = robots.load("two_joint_arm")
    state = {"q": np.tile([0.1, 0.2], (2, 1)), "qd": np.array([[0.0, 0.0], [1e-7, 1e-7]]), "tau": np.zeros((2, 2))}
    smooth = evaluate(trace(robot, "forward_dynamics", friction=1.0, friction_speed=1e-6), state)["qdd"]
    pulled = {**state, "tau": -state["qd"] / np.sqrt(state["qd"] ** 2 + 1e-12)}
    assert smooth == pytest.approx(evaluate(trace(robot, "forward_dynamics"), pulled)["qdd"], rel=1e-9)


def graph_of(formula: Callable[..., object], sizes: Sequence[float] = (1.0, 1.0)) -> Graph:
    recording = Recording("formula", "none")
    inputs = [recording.input(f"x{k}", (), size)[()] for k, size in enumerate(sizes)]
    return recording.graph({"y": np.array(formula(*inputs), dtype=object)})


@pytest.mark.parametrize(
    ("formula", "x", "expected"),
    [
        pytest.param(lambda a, b: a + 1e-20 * b, (0.0, 2.0), 2e-20, id="a term beside one that may be zero"),
        pytest.param(lambda a, b: (a * a + 1e-13 * b) - a * a, (1e-6, 1.0), 1e-13, id="a tolerance"),
        pytest.param(lambda a, b: select(a, b, 1e30) - 1.0, (1.0, 3.0), 2.0, id="a bound beside a choice"),
        pytest.param(lambda a, b: 1.0 / (a * a + 1e-12) + 0.0 * b, (0.0, 0.0), 1e12, id="a smoothed square"),
        pytest.param(lambda a, b: a * (1.0 + b * 1e6) - a, (2.0, 1e-6), 2.0, id="a small input"),
    ],
)  # fmt: skip
def test_a_term_that_counts_somewhere_stays(
    formula: Callable[..., object], x: tuple[float, float], expected: float
) -> None:
    inputs = {f"x{k}": np.array([value]) for k, value in enumerate(x)}
    assert evaluate(graph_of(formula), inputs)["y"] == pytest.approx([expected], rel=1e-3)


def test_the_question_whether_a_number_is_finite_stays() -> None:
    graph = graph_of(lambda a, b: select(BEYOND - a, 1.0, 0.0) + 2.0 * select(BEYOND - b, 1.0, 0.0))
    numbers = np.array([1.0, np.inf, np.nan])
    asked = evaluate(graph, {"x0": np.repeat(numbers, 3), "x1": np.tile(numbers, 3)})["y"]
    np.testing.assert_array_equal(asked, [3.0, 1.0, 1.0, 2.0, 0.0, 0.0, 2.0, 0.0, 0.0])


def test_a_pass_that_changes_a_function_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "TOLERANCE", 1e-3)
    monkeypatch.setattr(identities, "PROBES", identities.PLAIN)
    monkeypatch.setattr(identities, "ENOUGH", identities.PLAIN)
    told = r"graph 'formula' of 'none': entry 0 of output 'y' is .* where its recording has .* changed the function"
    with pytest.raises(GraphError, match=told):
        graph_of(lambda a, b: a + 1e-9 * b)
    monkeypatch.undo()

    def twice(*rebuilt: object) -> object:
        raw, inputs, outputs = balanced(*rebuilt)
        return replace_first(raw), inputs, outputs

    def replace_first(raw):  # the first sum becomes a difference
        nodes = list(raw.nodes)
        k = next(i for i, node in enumerate(nodes) if node.op == "add")
        nodes[k] = nodes[k]._replace(op="sub")
        return raw._replace(nodes=nodes)

    balanced = passes.balance_sums
    monkeypatch.setattr(passes, "balance_sums", twice)
    monkeypatch.setattr(sys.modules["dynagate.graph.trace"], "_KEPT", Kept())
    with pytest.raises(GraphError, match="output 'qdd'"):
        trace(robots.load("two_joint_arm"), "forward_dynamics")


def test_every_graph_of_a_robot_knows_the_sizes_of_its_inputs(tmp_path: Path) -> None:
    """What no path gives a size has that of a number around 1: so do the arm's angles, which this leaves out."""
    arm, legged = robots.load("two_joint_arm"), hopper(tmp_path)
    options = StepOptions(None, "rk2")
    graphs = [trace(legged, name) for name, function in FUNCTIONS.items() if not function.derivative_of]
    forward = trace(legged, "forward_dynamics")
    graphs += [vjp(forward, robot=legged), jvp(forward, robot=legged), jacobian(forward, robot=legged)]
    graphs += [make(legged, options) for make in (step_graph, linearised_step_graph, step_vjp_graph)]
    searched: list[Graph | Loop] = [PositionBasedMethod().motion(arm, StepOptions(0.01)).loop]
    while searched:
        body = searched.pop()
        if isinstance(body, Loop):
            searched.extend(body.steps)
        else:
            graphs.append(body)
    for graph in graphs:
        for port in graph.inputs:
            assert len(port.sizes) == len(port.nodes), (graph.name, port.name)
        sizes = {port.name: port.sizes for port in graph.inputs}
        for name in {"qd", "tau", "dt", "lam_qd", "delta_tau", "trial_slope"} & set(sizes):
            assert sizes[name] != (1.0,) * len(sizes[name]), (graph.name, name)


def test_a_product_of_a_product_keeps_its_names_apart() -> None:
    robot = robots.load("two_joint_arm")
    product = trace(robot, "forward_dynamics_vjp")
    with pytest.raises(ValueError, match="forward_dynamics_vjp_vjp has the input 'lam_qdd' already"):
        vjp(product, ["qdd"], ["q"], robot=robot)
    with pytest.raises(
        ValueError, match=r"would have two outputs 'vjp_q': .* expected outputs= without 'vjp_q', or jacobian"
    ):
        vjp(product, ["vjp_q"], ["q"], robot=robot)
    assert [port.name for port in vjp(product, ["vjp_q"], ["qd"], robot=robot).outputs] == ["vjp_q", "vjp_qd"]


def test_a_joint_stops_and_wraps_at_either_end() -> None:
    (link,) = finger(1, 1.0, 0.01).links
    state = {"qd": np.array([[30.0], [-30.0], [1.0]]), "tau": np.zeros((3, 1))}
    stops = step_graph(Robot("stops", (link,)), StepOptions(0.1, stops=True))
    got = evaluate(stops, {**state, "q": np.array([[1.5], [-1.5], [0.0]])})
    assert got["q_next"][:2, 0].tolist() == [2.0, -2.0]
    assert got["qd_next"][:2, 0].tolist() == [0.0, 0.0]
    assert got["q_next"][2, 0] > 0.0
    assert got["qd_next"][2, 0] > 0.5
    turning = Robot(
        "turns", (replace(link, joint=replace(link.joint, type="continuous", lower=None, upper=None)),), (0.0, 0.0, 0.0)
    )
    wraps = evaluate(step_graph(turning, StepOptions(0.1, wrap=True)), {**state, "q": np.array([[3.0], [-3.0], [0.0]])})
    assert wraps["q_next"][:, 0] == pytest.approx([6.0 - 2.0 * np.pi, 2.0 * np.pi - 6.0, 0.1])
