"""Forces on robots: each against what is computed another way, and all of them in rollouts, with their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Robot, Rollout, evaluate, robots, trace
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.design.files import load
from dynagate.design.rebuilt import formatted_of
from dynagate.dynamics.configuration import integrate, normalized
from dynagate.forces import (
    FORCES,
    CompliantContact,
    Contact,
    ContactError,
    Damping,
    Drag,
    Force,
    ForceContext,
    ForceError,
    Forces,
    Friction,
    Limits,
    Plane,
    Point,
    Servo,
    ServoError,
    as_text,
    of_text,
)
from dynagate.forces.options import StepOptions
from dynagate.graph.reference_gradient import STEP
from dynagate.integrators.design_graph import graph_of
from dynagate.integrators.linearized import linearized_step_graph
from dynagate.integrators.step import step_graph

from examples.papers.position_based.drag_points import drag_points
from tests.mimic_hand import hand
from tests.mimic_hand import read_hand as read
from tests.robots import floating_robot, hopper

DT = 0.01


@pytest.fixture(params=["arm", "floating", "mimic"])
def robot(request: pytest.FixtureRequest, tmp_path: Path) -> Robot:
    made: dict[str, Callable[[], Robot]] = {
        "arm": lambda: robots.load("two_joint_arm"),
        "floating": lambda: floating_robot(4, tmp_path),
        "mimic": lambda: read(hand(), tmp_path),
    }
    return made[request.param]()


def states(robot: Robot, count: int = 4) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    return normalized(robot, random.normal(size=(count, robot.nq))), random.normal(size=(count, robot.nv))


def force_of(robot: Robot, force: Force, q: np.ndarray, qd: np.ndarray, **given: list[float]) -> np.ndarray:
    """(states, nv), by numbers instead of a trace."""
    forces = Forces(robot, [force])
    rows = zip(q.tolist(), qd.tolist(), strict=True)
    return np.array([forces.torque(a, b, DT, given) for a, b in rows]).astype(float)


Law = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Place, velocity and the link's rotation to a force, in the base frame."""


def through_jacobians(
    robot: Robot, links: list[int], points: np.ndarray, law: Callable[[int], Law], q: np.ndarray, qd: np.ndarray
) -> np.ndarray:
    """The generalized force of a law for each point of links, by the listed functions' poses and Jacobians."""
    total = np.zeros(qd.shape)
    (jacobians,) = evaluate(trace(robot, "link_jacobians"), {"q": q}).values()
    for k, (i, point) in enumerate(zip(links, points, strict=True)):
        position, rotation = evaluate(trace(robot, f"frame_pose_{robot.links[i].name}"), {"q": q}).values()
        for s in range(len(q)):
            angular, linear = jacobians[s, i, :3], jacobians[s, i, 3:]
            turn = rotation[s]
            arm = turn @ point
            of_point = linear - np.cross(arm, angular, axisb=0, axisc=0)
            total[s] += of_point.T @ law(k)(position[s] + arm, of_point @ qd[s], turn)
    return total


def test_contact_is_a_spring_a_damper_and_friction(robot: Robot) -> None:
    q, qd = states(robot)
    names = [robot.links[0].name, robot.links[-1].name]
    points = [Point(name, (0.1, -0.2, 0.3)) for name in names]
    contact = CompliantContact(
        points, [Plane.slope(20.0), Plane((0.0, 0.0, 1.0), 0.4)], 200.0, 0.7, friction=0.5, speed=0.1, exponent=2.0
    )

    def law(place: np.ndarray, velocity: np.ndarray, turn: np.ndarray) -> np.ndarray:
        total = np.zeros(3)
        for plane in contact.planes:
            n = np.array(plane.normal)
            depth = max(plane.offset - n @ place, 0.0)
            press = 200.0 * depth**2 * max(1.0 - 0.7 * (n @ velocity), 0.0)
            along = velocity - n * (n @ velocity)
            total += press * (n - 0.5 * along / np.hypot(np.linalg.norm(along), 0.1))
        return total

    place = {link.name: i for i, link in enumerate(robot.links)}
    positions = np.array([point.position for point in points])
    expected = through_jacobians(robot, [place[name] for name in names], positions, lambda k: law, q, qd)
    assert np.abs(expected).max() > 1.0  # it touches
    np.testing.assert_allclose(force_of(robot, contact, q, qd), expected, atol=1e-9 * np.abs(expected).max())


def test_contact_of_displacements_is_that_of_velocities_times_the_step(robot: Robot) -> None:
    q, qd = states(robot)
    contact = Contact([Point(robot.links[-1].name, (0.1, -0.2, 0.3))], [Plane((0.0, 0.0, 1.0), 1.0)], 50.0, 70.0)

    def law(place: np.ndarray, velocity: np.ndarray, turn: np.ndarray) -> np.ndarray:
        depth = max(1.0 - place[2], 0.0)
        x = velocity * DT * [1.0, 1.0, 0.0]
        return np.array([0.0, 0.0, 50.0 * depth**2]) - 2.0 * 70.0 * x * depth**2

    expected = through_jacobians(robot, [len(robot.links) - 1], np.array([[0.1, -0.2, 0.3]]), lambda k: law, q, qd)
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(force_of(robot, contact, q, qd), expected, atol=1e-9 * np.abs(expected).max())


def test_drag_is_the_sum_over_points_with_the_links_moments(robot: Robot) -> None:
    q, qd = states(robot)
    drag = Drag((3.0, 7.0), density=500.0, direction=(0.6, 0.0, 0.8))
    links, points, matrices = drag_points(robot, drag)

    def law(k: int) -> Law:
        return lambda place, velocity, turn: -(turn @ matrices[k] @ turn.T @ velocity)

    expected = through_jacobians(robot, links, points, law, q, qd)
    np.testing.assert_allclose(force_of(robot, drag, q, qd), expected, atol=1e-12 * np.abs(expected).max())


def test_forces_at_joints(robot: Robot) -> None:
    q, qd = states(robot)
    on_joints = np.concatenate([np.full(joint.nv, joint.type != "floating") for joint, _, _ in robot.moving()])
    np.testing.assert_allclose(force_of(robot, Damping(0.3), q, qd), -0.3 * qd * on_joints)
    rubbing = -0.3 * qd / np.sqrt(qd**2 + 0.01)
    np.testing.assert_allclose(force_of(robot, Friction(0.3, 0.1), q, qd), rubbing * on_joints)
    np.testing.assert_allclose(force_of(robot, Friction([0.3] * robot.nv, 0.1), q, qd), rubbing)
    each = tuple(np.arange(robot.nv) * 0.1)
    np.testing.assert_allclose(force_of(robot, Damping(each), q, qd), -np.array(each) * qd)
    servo, limits = Servo(3.0, 0.5), Limits(40.0, 0.8)
    target = np.linspace(-1.0, 1.0, robot.nv)
    pulled, stopped = np.zeros(qd.shape), np.zeros(qd.shape)
    for joint, iq, iv in robot.moving():
        if joint.nv != 1:
            continue
        x, v = q[:, iq.start], qd[:, iv.start]
        pulled[:, iv.start] = 3.0 * (target[iv.start] - x) - 0.5 * v
        low, high = robot.reach(joint)
        if low is not None:
            stopped[:, iv.start] += 40.0 * np.maximum(low - x, 0.0) * np.maximum(1.0 - 0.8 * v, 0.0)
        if high is not None:
            stopped[:, iv.start] -= 40.0 * np.maximum(x - high, 0.0) * np.maximum(1.0 + 0.8 * v, 0.0)
    np.testing.assert_allclose(force_of(robot, servo, q, qd, target=target.tolist()), pulled)
    np.testing.assert_allclose(force_of(robot, limits, q, qd), stopped)


def several(robot: Robot) -> list[Force]:
    points = [Point(robot.links[-1].name, (0.0, 0.1, 0.3))]
    return [
        Limits(50.0),
        Friction(0.3, 0.1),
        Drag((3.0, 5.0)),
        Servo(3.0, 1.0),
        CompliantContact(points, [Plane((0.0, 0.0, 1.0), 0.3)], 50.0),
        Contact(points, stiffness=100.0, friction=50.0),
        Damping(0.2),
    ]


@pytest.mark.parametrize("method", ["semi_implicit_euler", "rk2"])
def test_derivatives_of_steps_under_forces(method: str, tmp_path: Path) -> None:
    robot, steps = robots.load("two_joint_arm"), 6
    random = np.random.default_rng(1)
    (q0, qd0), tau, target = states(robot), random.normal(size=(4, steps, 2)), random.normal(size=(4, steps, 2))
    options = {"dt": DT, "integrator": method, "forces": several(robot)}
    linear = Rollout(robot, steps=steps, device="numpy", linearize=True, **options)
    slow = linear(q0, qd0, tau, target=target)
    rollout = Rollout(robot, steps=steps, **options)
    fast = rollout(q0, qd0, tau, target=target)
    np.testing.assert_allclose(fast.q, slow.q, atol=1e-12)
    np.testing.assert_allclose(fast.qd, slow.qd, atol=1e-12)
    body = step_graph(robot, linear.options)

    def after(x: np.ndarray) -> np.ndarray:
        state = {"q": x[:, :2], "qd": x[:, 2:4], "tau": x[:, 4:], "target": target[:, 0]}
        result = evaluate(body, state)
        return np.concatenate([result["q_next"], result["qd_next"]], axis=1)

    at = np.concatenate([q0, qd0, tau[:, 0]], axis=1)
    columns = [(after(at + e) - after(at - e)) / 2e-6 for e in 1e-6 * np.eye(6)]
    jacobian = np.stack(columns, axis=-1)
    np.testing.assert_allclose(slow.a[:, 0], jacobian[:, :, :4], atol=1e-7)
    np.testing.assert_allclose(slow.b[:, 0], jacobian[:, :, 4:], atol=1e-7)
    cost_q, cost_qd = random.normal(size=(2, 4, steps + 1, 2))
    back = rollout.vjp(fast, tau, cost_q, cost_qd, target=target)
    lam = np.concatenate([cost_q[:, -1], cost_qd[:, -1]], axis=1)
    for k in reversed(range(steps)):
        by_tau = np.einsum("bi,bij->bj", lam, slow.b[:, k])
        lam = np.einsum("bi,bij->bj", lam, slow.a[:, k]) + np.concatenate([cost_q[:, k], cost_qd[:, k]], axis=1)
        np.testing.assert_allclose(back["tau"][:, k], by_tau, atol=1e-12)
    np.testing.assert_allclose(np.concatenate([back["q0"], back["qd0"]], axis=1), lam, atol=1e-11)


def test_derivatives_on_a_floating_base(tmp_path: Path) -> None:
    robot = hopper(tmp_path)
    q, qd = states(robot)
    point = Point(robot.links[0].name, (0.1, 0.0, -0.2))
    options = {"dt": DT, "forces": [CompliantContact([point], [Plane((0.0, 0.0, 1.0), 2.0)], 50.0), Drag((3.0, 5.0))]}
    tau = np.zeros((len(q), 1, robot.nv))
    linear = Rollout(robot, steps=1, device="numpy", linearize=True, **options)(q, qd, tau)
    plain = Rollout(robot, steps=1, device="numpy", **options)
    for j in range(robot.nv):
        e = 1e-6 * np.eye(robot.nv)[j]
        ends = [plain(integrate(robot, q, sign * e), qd, tau).qd[:, 1] for sign in (1.0, -1.0)]
        column = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(linear.a[:, 0, robot.nv :, j], column, atol=1e-6 * max(1.0, np.abs(column).max()))
    random = np.random.default_rng(2)
    cost_q, cost_qd = random.normal(size=(2, len(q), 2, robot.nv))
    back = plain.vjp(plain(q, qd, tau), tau, cost_q, cost_qd)
    lam = np.concatenate([cost_q[:, 1], cost_qd[:, 1]], axis=1)
    by_state = np.einsum("bi,bij->bj", lam, linear.a[:, 0]) + np.concatenate([cost_q[:, 0], cost_qd[:, 0]], axis=1)
    got = np.concatenate([back["q0"], back["qd0"]], axis=1)
    np.testing.assert_allclose(got, by_state, atol=1e-9 * np.abs(by_state).max())


@pytest.mark.parametrize("count", [10_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_compliant_contact_is_finite_and_its_derivatives_exact(count: int, tmp_path: Path) -> None:
    """In random states far above and far below the ground, at rest and at 100 m/s; derivatives by complex steps."""
    robot = floating_robot(4, tmp_path)
    points = [Point(link.name, (0.1, 0.0, -0.2)) for link in robot.links[:3]]
    contact = CompliantContact(points, [Plane((0.3, 0.0, 1.0))], 1e4, exponent=2)
    rollout = Rollout(robot, steps=1, dt=1e-4, forces=[contact])
    random = np.random.default_rng(5)
    for start in range(0, count, 100_000):
        n = min(100_000, count - start)
        q, qd = normalized(robot, random.normal(size=(n, robot.nq))), random.normal(size=(n, robot.nv))
        q[::4, :3], qd[1::4] = 0.0, 0.0  # at the ground, and at rest
        qd[2::4] *= 100.0
        after = rollout(q, qd, np.zeros((n, 1, robot.nv)))
        assert np.isfinite(after.qd).all()
        assert np.isfinite(after.q).all()
    q, qd, tau = q[:64], qd[:64], np.zeros((64, robot.nv))
    options = StepOptions(1e-4, forces=(contact,))
    exact = evaluate(linearized_step_graph(robot, options), {"q": q, "qd": qd, "tau": tau})["a"]
    body = step_graph(robot, options)
    for j in range(2 * robot.nv):
        unit = 1j * STEP * np.eye(2 * robot.nv)[j]
        moved = {"q": integrate(robot, q, unit[: robot.nv]), "qd": qd + unit[robot.nv :], "tau": tau}
        column = evaluate(body, moved)["qd_next"].imag / STEP
        np.testing.assert_allclose(exact[:, robot.nv :, j], column, rtol=1e-8, atol=1e-8 * np.abs(column).max())


@dataclass(frozen=True)
class Wind(Force):
    """A force of one's own."""

    push: float

    def torque(self, now: object) -> np.ndarray:
        return np.full(2, self.push, dtype=object)


def test_a_force_of_ones_own() -> None:
    q0, tau = np.array([0.1, 0.2]), np.zeros((3, 2))
    blown = Rollout("two_joint_arm", steps=3, dt=DT, forces=[Wind(0.7)])(q0, q0, tau)
    pushed = Rollout("two_joint_arm", steps=3, dt=DT)(q0, q0, tau + 0.7)
    np.testing.assert_allclose(blown.q, pushed.q, rtol=1e-13)


@dataclass(frozen=True)
class Own(Force):
    """A force whose torque is whatever its function returns."""

    of: Callable[[ForceContext], Any]

    def torque(self, now: ForceContext) -> Any:
        return self.of(now)


WRONG_TORQUES: dict[str, tuple[Callable[[ForceContext], Any], str]] = {
    "a number": (lambda now: 1.0, r"has shape \(\); expected \(2,\)"),
    "one of two": (lambda now: np.array([1.0]), r"has shape \(1,\); expected \(2,\)"),
    "three": (lambda now: [0.0, 1.0, 2.0], r"has shape \(3,\); expected \(2,\)"),
    "a row": (lambda now: np.zeros((1, 2)), r"has shape \(1, 2\); expected"),
    "nothing": (lambda now: None, r"has shape \(\); expected"),
    "truth values": (lambda now: np.array([True, False]), "is True at 0; expected a finite number"),
    "texts": (lambda now: ["1", "2"], "is '1' at 0; expected a finite number"),
    "not a number": (lambda now: [0.0, np.nan], "is nan at 1; expected a finite number"),
    "infinite": (lambda now: [now.q[0] * 2.0, np.inf], "is inf at 1; expected a finite number"),
    "complex": (lambda now: [0.0, 1j], "is 1j at 1; expected a finite number"),
    "masked": (lambda now: np.ma.array([1.0, 2.0], mask=[True, False]), "is masked; expected"),
}


@pytest.mark.parametrize("case", WRONG_TORQUES)
def test_the_torque_of_an_own_force_is_one_finite_number_for_each_velocity(case: str) -> None:
    of, message = WRONG_TORQUES[case]
    with pytest.raises(ForceError, match=message):
        Rollout("two_joint_arm", steps=4, dt=DT, forces=[Own(of)], device="numpy")


def test_the_torque_of_an_own_force_may_be_a_list() -> None:
    q0, tau = np.zeros(2), np.zeros((4, 2))
    listed = Rollout("two_joint_arm", steps=4, dt=DT, forces=[Own(lambda now: [now.qd[0] * -2.0, 1])], device="numpy")
    damped = Rollout("two_joint_arm", steps=4, dt=DT, forces=[Damping((2.0, 0.0))], device="numpy")
    np.testing.assert_allclose(listed(q0, q0, tau).q, damped(q0, q0, tau + np.array([0.0, 1.0])).q, rtol=1e-12)


def test_a_term_behind_two_selections_stays() -> None:
    """Its slope is not zero where both have chosen something else, which hid a term beside it from the probes."""
    arm = robots.load("iiwa14")
    contact = CompliantContact([Point(arm.links[-1].name, (0.0, 0.0, 0.1))])
    Rollout(arm, steps=1, dt=DT, forces=[contact], linearize=True, device="numpy")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Limits(0.0), ForceError, r"limits has stiffness 0.0; expected a finite number above 0"),
        (lambda: Limits(1.0, -1.0), ForceError, r"limits has dissipation -1.0; expected a finite number, 0 or more"),
        (
            lambda: Damping(float("nan")),
            ForceError,
            "damping has coefficient nan; expected a finite number, 0",
        ),
        (lambda: Friction(-1.0), ArgumentError, r"friction has force -1.0; expected True, or numbers of 0 or more"),
        (lambda: Friction(1.0, 0.0), ArgumentError, r"friction has speed 0.0; expected a speed of more than 0"),
        (
            lambda: CompliantContact([]),
            ContactError,
            r"contact has points \[\]; expected a sequence of one Point",
        ),
        (
            lambda: CompliantContact([Point("l", (0.0, 0.0, 0.0))], exponent=1.5),
            ForceError,
            r"contact has exponent 1.5; expected a whole number, 1 or more",
        ),
    ],
)
def test_what_a_force_refuses(make: Callable[[], Force], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"forces": Servo(1.0)}, ArgumentError, r"forces=Servo\(.*; expected a sequence of forces, such as \[Servo"),
        (
            {"forces": ["drag"]},
            ArgumentTypeError,
            "forces has 'drag'; expected a Force, such as dynagate.forces",
        ),
        ({"forces": [Damping((1.0,))]}, ArgumentError, "damping has 1 numbers; expected one, or 2"),
        ({"forces": [Servo(1.0, joints=("hip",))]}, ServoError, "servo has joint 'hip', which is no revolute"),
        (
            {"forces": [CompliantContact([Point("foot", (0.0, 0.0, 0.0))])]},
            ContactError,
            "contact point on link 'foot', which robot 'two_joint_arm' has not; expected one of",
        ),
        (
            {"forces": [Contact([Point("upper_arm", (0.0, 0.0, 0.0))], alpha=1.5)]},
            ContactError,
            "contact has alpha 1.5, beta 1, gamma 1; a graph takes whole numbers as alpha and gamma and an odd one as",
        ),
    ],
)
def test_what_a_rollout_refuses_of_forces(options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Rollout("two_joint_arm", steps=2, dt=DT, device="numpy", **options)


def test_inputs_of_forces_are_checked() -> None:
    rollout = Rollout("two_joint_arm", steps=2, dt=DT, device="numpy", forces=[Servo(1.0)])
    q, tau = np.zeros(2), np.zeros((2, 2))
    with pytest.raises(ArgumentError, match=r"target has shape \(3,\); expected \(2, 2\)"):
        rollout(q, q, tau, target=np.zeros(3))
    with pytest.raises(ArgumentError, match="input 'aim' is no force's; expected target"):
        rollout(q, q, tau, aim=np.zeros(2))
    with pytest.raises(ArgumentError, match="input 'target' is no force's; expected a force with it, as a Servo has"):
        Rollout("two_joint_arm", steps=2, dt=DT, device="numpy")(q, q, tau, target=q)
    held, same = rollout(q, q, tau, target=np.ones(2)), rollout(q, q, tau, target=np.ones((2, 2)))
    assert (held.q == same.q).all()
    assert (held.q[-1] != rollout(q, q, tau, target=q).q[-1]).any()


ON_CHIP = [Limits(20.0, 0.5), Friction(0.2, 0.1), Servo(2.0, 0.4, target=(0.3, -0.2)), Drag((3.0, 5.0)), Damping(0.1)]


def test_a_chip_has_forces_in_its_datapath(designs: Path) -> None:
    """The simulated ring is its integers, also those of the design's file, and they are near float64."""
    arm = robots.load("two_joint_arm")
    point = Point(arm.links[-1].name, (0.0, 0.0, 0.3))
    forces = [*ON_CHIP, CompliantContact([point], [Plane((0.0, 0.0, 1.0), 0.3)], 30.0)]
    options = {"steps": 4, "dt": 5e-3, "forces": forces}
    (q0, qd0), tau = states(arm), np.random.default_rng(4).normal(size=(4, 4, 2))
    q0, qd0 = 0.5 * q0, 0.3 * qd0
    exact = Rollout(arm, device="numpy", **options)(q0, qd0, tau)
    integers = Rollout(arm, device="fixed", **options)(q0, qd0, tau)
    built = dynagate.build(arm, "rollout", ii=16, dt=5e-3, forces=list(map(as_text, forces)), folder=designs)
    simulated = dynagate.open(built)(q0, qd0, tau)
    assert (simulated.q == integers.q).all()
    assert (simulated.qd == integers.qd).all()
    assert (integers.diverged == -1).all()
    np.testing.assert_allclose(integers.q, exact.q, atol=2e-5)
    design = built.design
    assert [of_text(text) for text in design.options["forces"]] == forces
    again = formatted_of(load(built.folder), built.folder, graph_of)
    assert len(again.graph.nodes) == len(design.body.nodes)


def test_forces_as_text() -> None:
    for force in [*several(robots.load("two_joint_arm")), *ON_CHIP, Servo(1.0, joints=("elbow",)), Friction(True)]:
        assert of_text(as_text(force)) == force
    assert of_text("Limits(100)") == Limits(100.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Magnet(1.0)", r"force 'Magnet\(1.0\)': 'Magnet' is not known; expected one of CompliantContact, Contact"),
        ("__import__('os').getcwd()", "'__import__.'os'..getcwd' is not known; expected one of"),
        ("Limits(", "force 'Limits.': .* expected a force such as 'Limits.stiffness=100.0.'"),
        ("Limits(stiff=1.0)", "unexpected keyword argument 'stiff' .did you mean 'stiffness'"),
        ("Limits(-1.0)", "limits has stiffness -1.0; expected a finite number above 0; expected a force such as"),
        ("3.0", "force '3.0' is none; expected a force such as"),
    ],
)
def test_what_a_text_refuses(text: str, message: str) -> None:
    with pytest.raises(ForceError, match=message):
        of_text(text)


def test_what_a_chip_refuses_of_forces() -> None:
    with pytest.raises(ArgumentError, match=r"force 'Servo' takes the input 'target' .*; expected Servo\(target="):
        Rollout("two_joint_arm", steps=2, dt=DT, device="fixed", forces=[Servo(1.0)])
    with pytest.raises(ForceError, match=r"force Wind\(push=1.0\) is none of CompliantContact, .* a design can name"):
        dynagate.build("two_joint_arm", "rollout", dt=DT, ii=8, forces=[Wind(1.0)])
    with pytest.raises(ServoError, match="servo has 3 numbers as target; expected 2"):
        Rollout("two_joint_arm", steps=2, dt=DT, device="numpy", forces=[Servo(1.0, target=(0.0, 0.0, 0.0))])


def test_a_force_of_a_user_in_integers() -> None:
    """Only a design's folder needs a force that it can name."""
    state = np.array([[0.3, -0.5]]), np.array([[0.2, 0.1]]), np.zeros((1, 3, 2))
    fixed, reference = (
        Rollout("two_joint_arm", steps=3, dt=DT, device=device, forces=[Wind(1.0)])(*state)
        for device in ("fixed", "numpy")
    )
    without = Rollout("two_joint_arm", steps=3, dt=DT, device="numpy")(*state)
    np.testing.assert_allclose(fixed.q, reference.q, atol=1e-5)
    assert abs(reference.q - without.q).max() > 1e-2


def test_every_force_is_listed() -> None:
    assert set(FORCES.values()) >= {type(force) for force in several(robots.load("two_joint_arm"))}
