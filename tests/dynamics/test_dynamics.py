"""Every algorithm against Pinocchio, on every shipped robot and on random trees, and against physics itself."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from dynagate import Robot, evaluate, robots, trace
from dynagate.dynamics import FUNCTIONS, Tree
from dynagate.dynamics.recursions.prefix import along
from dynagate.graph import reference_gradient
from dynagate.graph.reference_gradient import relative_errors

from tests import tolerances
from tests.oracle import GRADIENT_FRAMES, compare
from tests.robots import RANDOM_SEEDS, SHIPPED, random_robot
from tests.samples import inputs_of, states

FEW_SEEDS = (1, 6, 24, 35)
"""Each frame with the default form and with every one, with branches, chains and slides: those that are quick to
trace."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name == "hyq" else name for name in SHIPPED]
)
def test_shipped_robot_agrees_with_pinocchio(name: str) -> None:
    compare(robots.load(name), robots.path(name), count=20)


@pytest.mark.parametrize(
    "seed", [s if s in FEW_SEEDS else pytest.param(s, marks=pytest.mark.long) for s in RANDOM_SEEDS]
)
def test_random_tree_agrees_with_pinocchio(seed: int, tmp_path: Path) -> None:
    robot, path = random_robot(seed, tmp_path)
    compare(robot, path, count=3, frames=[GRADIENT_FRAMES[seed % 3]], every_form=seed % 4 == 0)


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.long) for s in (8, 16, 24, 33))])
def test_random_tree_under_external_forces_agrees_with_pinocchio(seed: int, tmp_path: Path) -> None:
    robot, path = random_robot(seed, tmp_path)
    compare(robot, path, count=3, external_forces=True)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "two_joint_arm" else [pytest.mark.long]) for name in SHIPPED]
)
def test_shipped_robot_under_external_forces_agrees_with_pinocchio(name: str) -> None:
    compare(robots.load(name), robots.path(name), count=3, frames=GRADIENT_FRAMES[:1], external_forces=True)


def test_external_forces_are_refused_where_they_do_not_enter() -> None:
    with pytest.raises(ValueError, match="mass_matrix does not depend on external forces"):
        trace(robots.load("iiwa14"), "mass_matrix", external_forces=True)


def test_the_comparison_notices_a_wrong_robot(tmp_path: Path) -> None:
    text = robots.path("two_joint_arm").read_text()
    path = tmp_path / "heavier.urdf"
    path.write_text(text.replace('mass value="1.2"', 'mass value="1.2001"'))
    with pytest.raises(AssertionError, match="two_joint_arm inverse_dynamics"):
        compare(robots.load("two_joint_arm"), path, count=2)


@pytest.fixture(scope="module", params=["iiwa14", "hyq", "random"])
def robot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Robot:
    if request.param == "random":
        return random_robot(8, tmp_path_factory.mktemp("robot"))[0]
    return robots.load(request.param)


def energy(robot: Robot, q: np.ndarray, qd: np.ndarray) -> float:
    """½ Σ m |ċ|² + ωᵀ I ω over the links, from their poses alone: nothing of the mass matrix."""
    tree = robot.aligned()
    poses: list[tuple[np.ndarray, np.ndarray]] = []
    velocities: list[tuple[np.ndarray, np.ndarray]] = []  # angular, of the origin; base axes
    total = 0.0
    for i, link in enumerate(tree.links):
        turn, point = poses[link.parent] if link.parent >= 0 else (np.eye(3), np.zeros(3))
        omega, speed = velocities[link.parent] if link.parent >= 0 else (np.zeros(3), np.zeros(3))
        origin = point + turn @ np.array(link.joint.translation)
        fixed = turn @ np.array(link.joint.rotation)
        slides = link.joint.type == "prismatic"
        c, s = (1.0, 0.0) if slides else (np.cos(q[i]), np.sin(q[i]))
        rotation = fixed @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        if slides:
            origin = origin + fixed[:, 2] * q[i]
            speed = speed + fixed[:, 2] * qd[i]
        else:
            omega_i = omega + rotation[:, 2] * qd[i]
        speed = speed + np.cross(omega, origin - point)
        omega = omega if slides else omega_i
        poses.append((rotation, origin))
        velocities.append((omega, speed))
        at_com = speed + np.cross(omega, rotation @ np.array(link.com))
        inertia = rotation @ np.array(link.inertia) @ rotation.T
        total += 0.5 * link.mass * at_com @ at_com + 0.5 * omega @ inertia @ omega
    return total


def test_kinetic_energy_is_half_v_m_v(robot: Robot) -> None:
    state = states(robot, 5, seed=3)
    m = evaluate(trace(robot, "mass_matrix"), {"q": state["q"]})["m"]
    for q, qd, matrix in zip(state["q"], state["qd"], m, strict=True):
        expected = energy(robot, q, qd)
        assert abs(0.5 * qd @ matrix @ qd - expected) <= tolerances.IDENTITY * expected


def test_torque_is_linear_in_acceleration_with_slope_m(robot: Robot) -> None:
    state = states(robot, 5, seed=4)
    graph = trace(robot, "inverse_dynamics")
    m = evaluate(trace(robot, "mass_matrix"), {"q": state["q"]})["m"]
    for k in range(robot.nv):
        step = np.zeros(robot.nv)
        step[k] = 1.0
        moved = {**inputs_of("inverse_dynamics", state), "qdd": state["qdd"] + step}
        slope = evaluate(graph, moved)["tau"] - state["tau"]
        assert np.abs(slope - m[:, :, k]).max() <= tolerances.IDENTITY * np.abs(state["tau"]).max()


def test_forward_dynamics_undoes_inverse_dynamics(robot: Robot) -> None:
    state = states(robot, 5, seed=5)
    qdd = evaluate(trace(robot, "forward_dynamics"), inputs_of("forward_dynamics", state))["qdd"]
    assert relative_errors(qdd, state["qdd"]).max() <= tolerances.IDENTITY


def test_mass_matrix_times_its_inverse_is_one(robot: Robot) -> None:
    q = {"q": states(robot, 5, seed=6)["q"]}
    product = evaluate(trace(robot, "mass_matrix"), q)["m"] @ evaluate(trace(robot, "mass_matrix_inverse"), q)["minv"]
    assert np.abs(product - np.eye(robot.nv)).max() <= tolerances.IDENTITY


def test_m_dot_minus_twice_coriolis_is_skew(robot: Robot) -> None:
    """q̇ᵀ (Ṁ - 2C) q̇ = 0 with C q̇ = ID(q, q̇, 0) - ID(q, 0, 0), Ṁ by a complex step along q̇."""
    state = states(robot, 5, seed=7)
    q, qd, still = state["q"], state["qd"], np.zeros_like(state["q"])
    torque = trace(robot, "inverse_dynamics")
    m_dot = evaluate(trace(robot, "mass_matrix"), {"q": q + 1e-30j * qd})["m"].imag / 1e-30
    coriolis = (
        evaluate(torque, {"q": q, "qd": qd, "qdd": still})["tau"]
        - evaluate(torque, {"q": q, "qd": still, "qdd": still})["tau"]
    )
    power = np.einsum("bi,bij,bj->b", qd, m_dot, qd) - 2.0 * np.einsum("bi,bi->b", qd, coriolis)
    scale = np.abs(np.einsum("bi,bij,bj->b", qd, np.abs(m_dot), np.abs(qd))).max()
    assert np.abs(power).max() <= tolerances.IDENTITY * scale


@pytest.mark.parametrize("name", SHIPPED)
def test_gradients_equal_the_complex_step(name: str) -> None:
    robot = robots.load(name)
    state = states(robot, 10, seed=8)
    inputs = inputs_of("forward_dynamics_gradient", state)
    expected = reference_gradient.forward_dynamics_gradient(robot, inputs)
    for output, got in evaluate(trace(robot, "forward_dynamics_gradient"), inputs).items():
        assert relative_errors(got, expected[output]).max() <= tolerances.COMPLEX_STEP, output


@pytest.mark.parametrize("name", [name for name, row in FUNCTIONS.items() if not row.derivative_of])
def test_algorithm_on_floats_equals_its_graph(name: str) -> None:
    robot = robots.load("iiwa14")
    state = states(robot, 1, seed=9)
    state["minv"] = evaluate(trace(robot, "mass_matrix_inverse"), {"q": state["q"]})["minv"]
    inputs = inputs_of(name, state)
    function = FUNCTIONS[name]
    plain = function(Tree(robot), *(inputs[argument.name][0] for argument in function.inputs))
    graph = evaluate(trace(robot, name), inputs)
    for argument, value in zip(function.outputs, plain, strict=True):
        assert relative_errors(graph[argument.name], [np.array(value, dtype=float)]).max() <= tolerances.SAME_FORMULA


def test_damping_adds_to_torque_and_to_its_gradient(tmp_path: Path) -> None:
    text = robots.path("two_joint_arm").read_text()
    path = tmp_path / "damped.urdf"
    path.write_text(text.replace("<axis", '<dynamics damping="0.7"/><axis'))
    damped, plain = Robot.from_urdf(path), robots.load("two_joint_arm")
    state = states(plain, 4, seed=1)
    inputs = inputs_of("inverse_dynamics", state)
    torque = [evaluate(trace(robot, "inverse_dynamics"), inputs)["tau"] for robot in (damped, plain)]
    np.testing.assert_allclose(torque[0] - torque[1], 0.7 * state["qd"], atol=1e-12)
    by_qd = [evaluate(trace(robot, "inverse_dynamics_gradient"), inputs)["dtau_dqd"] for robot in (damped, plain)]
    np.testing.assert_allclose(by_qd[0] - by_qd[1], np.broadcast_to(0.7 * np.eye(2), (4, 2, 2)), atol=1e-12)
    gradient = trace(damped, "forward_dynamics_gradient")
    inputs = inputs_of("forward_dynamics_gradient", state)
    expected = reference_gradient.forward_dynamics_gradient(damped, inputs)
    for output, got in evaluate(gradient, inputs).items():
        assert relative_errors(got, expected[output]).max() <= tolerances.COMPLEX_STEP


def test_gravity_is_a_parameter() -> None:
    path = robots.path("iiwa14")
    weightless = Robot.from_urdf(path, gravity=(0.0, 0.0, 0.0))
    q = {"q": np.ones((1, 7)), "qd": np.zeros((1, 7)), "qdd": np.zeros((1, 7))}
    assert np.all(evaluate(trace(weightless, "inverse_dynamics"), q)["tau"] == 0.0)
    sideways = Robot.from_urdf(path, gravity=(9.81, 0.0, 0.0))
    assert np.abs(evaluate(trace(sideways, "inverse_dynamics"), q)["tau"][0, 0]) > 1.0


@pytest.mark.parametrize("count", [1, 2, 5, 8, 13])
def test_prefix_sums_take_the_logarithm_of_the_levels(count: int) -> None:
    levels: dict[str, int] = {}

    def joined(a: str, b: str) -> str:
        levels[a + b] = 1 + max(levels.get(a, 0), levels.get(b, 0))
        return a + b

    items = [chr(ord("a") + k) for k in range(count)]
    scopes = [("sum",)] * count
    expected = ["".join(items[: k + 1]) for k in range(count)]
    assert along(range(-1, count - 1), items, joined, scopes, prefix=True) == expected
    assert max(levels.values(), default=0) == math.ceil(math.log2(count))
    levels.clear()
    assert along(range(-1, count - 1), items, joined, scopes, prefix=False) == expected
    assert max(levels.values(), default=0) == len(levels) == count - 1


def test_prefix_sums_shorten_the_longest_path() -> None:
    robot = robots.load("iiwa14")
    plain, prefix = (
        trace(robot, "forward_dynamics_gradient_given_minv", prefix=chosen).counts() for chosen in (False, True)
    )
    assert prefix.depth < plain.depth
    assert prefix.products <= 1.01 * plain.products


def test_unknown_frames_are_refused() -> None:
    robot = robots.load("hyq")
    with pytest.raises(ValueError, match="frame 'tip'; expected base, middle, sparsest, fewest, accurate, a link"):
        trace(robot, "inverse_dynamics_gradient", frame="tip")
    with pytest.raises(ValueError, match="frame 12; expected a link index from 0 to 11"):
        trace(robot, "inverse_dynamics_gradient", frame=12)
    with pytest.raises(ValueError, match="expected the first link of a chain and a link of that chain"):
        trace(robot, "inverse_dynamics_gradient", frame={0: 5})
    with pytest.raises(ValueError, match="mass 'none'; expected 'body' or 'shared'"):
        trace(robot, "forward_dynamics_gradient", mass="none")
