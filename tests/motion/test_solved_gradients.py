"""Gradients through methods that solve equations: slopes of motions, and one step by the implicit function theorem in
numpy, of equations that share nothing with the method's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Robot, Rollout, difference, integrate, neutral, robots
from dynagate.base.errors import ArgumentError
from dynagate.forces import CompliantContact, Damping, Force, Friction, Limits, Plane, Point, Servo
from dynagate.forces.options import StepOptions
from dynagate.integrators import RigidContact
from dynagate.integrators.explicit_method import ExplicitIntegrator
from dynagate.integrators.implicit.position_based_method import PositionBasedIntegrator
from dynagate.integrators.implicit.variational_method import VariationalIntegrator
from dynagate.integrators.motion import Integrator, Motion
from dynagate.robot import Joint, Link

from tests.jointed_bodies import action, ball
from tests.played_card import play_card

TIGHT = {
    "variational": VariationalIntegrator(tolerance=1e-12),
    "position_based": PositionBasedIntegrator(tolerance=1e-12),
}
TIGHT["order 3"] = PositionBasedIntegrator(tolerance=1e-12, order=3)
STEPS, BATCH = 4, 2


def arm() -> Robot:
    return robots.load("two_joint_arm")


def forces_on(robot: Robot) -> list[Force]:
    """A servo with a target of each step, limits that are passed, contact and friction."""
    point = Point(robot.links[-1].name, (0.0, 0.0, 0.2))
    contact = CompliantContact([point], [Plane((0.0, 0.0, 1.0), 1.0)], 40.0, speed=1.0)
    joint = robot.links[-1].joint.name
    return [Servo(20.0, 1.0, joints=(joint,)), Limits(50.0), Damping(0.3), Friction(0.2, 0.3), contact]


def start(rollout: Rollout) -> list[np.ndarray]:
    robot, random = rollout.robot, np.random.default_rng(3)
    q0 = integrate(robot, np.tile(neutral(robot), (BATCH, 1)), 0.5 * random.normal(size=(BATCH, robot.nv)))
    return [q0, random.normal(size=(BATCH, robot.nv)), random.normal(size=(BATCH, rollout.steps, robot.nv))]


def slopes(rollout: Rollout, **inputs: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of a cost of all states along a random direction of q0, qd0 and tau each: the gradient's, and the motion's."""
    robot, random, call = rollout.robot, np.random.default_rng(4), start(rollout)
    n, h = robot.nv, 2e-4
    motion = rollout(*call, **inputs)
    cost = random.normal(size=(2, BATCH, rollout.steps + 1, n))
    gradient = rollout.vjp(motion, call[2], *cost, **inputs)

    def moved(along: dict[str, np.ndarray], h: float) -> np.ndarray:
        start = integrate(robot, call[0], h * along["q0"]), call[1] + h * along["qd0"], call[2] + h * along["tau"]
        got = rollout(*start, **inputs)
        assert got.converged.all()
        return (cost[0] * difference(robot, motion.q, got.q) + cost[1] * (got.qd - motion.qd)).sum(axis=(1, 2))

    results = []
    for part, value in ((part, gradient[part]) for part in ("q0", "qd0", "tau")):
        along = {name: np.zeros(each.shape) for name, each in gradient.items()}
        along[part] = random.normal(size=value.shape)
        ends = {k: moved(along, k * h) for k in (-2, -1, 1, 2)}
        slope = (8.0 * (ends[1] - ends[-1]) - (ends[2] - ends[-2])) / (12.0 * h)
        results.append(((value * along[part]).reshape(BATCH, -1).sum(axis=1), slope))
    return results


@pytest.mark.parametrize("method", ["variational", pytest.param("position_based", marks=pytest.mark.long), "order 3"])
def test_gradients_are_the_slopes_of_motions(method: str) -> None:
    robot = ball() if method == "variational" else arm()
    rollout = Rollout(robot, steps=STEPS, dt=0.02, integrator=TIGHT[method], device="numpy", forces=forces_on(robot))
    target = 0.3 * np.random.default_rng(5).normal(size=(STEPS, robot.nv))
    for got, expected in slopes(rollout, target=target):
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(
    ("method", "device"),
    [
        ("variational", "cpu"),
        *(pytest.param(method, "cuda", marks=pytest.mark.long) for method in ("position_based", "order 3")),
    ],
)
def test_devices_agree(method: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_card(monkeypatch, tmp_path)
    random = np.random.default_rng(0)
    q0, qd0, tau, cost = (random.normal(size=shape) for shape in ((3, 2), (3, 2), (3, STEPS, 2), (2, 3, STEPS + 1, 2)))
    slow, fast = (
        Rollout(arm(), steps=STEPS, dt=0.01, integrator=TIGHT[method], device=each) for each in ("numpy", device)
    )
    motion = fast(q0, qd0, tau)
    expected, got = slow.vjp(motion, tau, *cost), fast.vjp(motion, tau, *cost)
    for part, value in expected.items():
        np.testing.assert_allclose(got[part], value, rtol=1e-10, atol=1e-10)


def test_a_step_by_the_implicit_function_theorem_in_numpy() -> None:
    """The weights of a step's torques are dt μ with μᵀ ∂p/∂q⁺ = λᵀ, where p is the momentum at its begin: minus the
    derivative of the action, whose mixed ones are differences of `action`."""
    robot, dt, h = ball(), 0.02, 2e-3
    rollout = Rollout(robot, steps=2, dt=dt, integrator=TIGHT["variational"], device="numpy")
    random, tau = np.random.default_rng(1), np.zeros((2, robot.nv))
    motion = rollout(*(x[0] for x in start(rollout)[:2]), tau)
    weights = np.concatenate([np.zeros((2, robot.nv)), random.normal(size=(1, robot.nv))])
    mu = rollout.vjp(motion, tau, weights, np.zeros((3, robot.nv)))["tau"][1] / dt

    def mixed(along: np.ndarray, a: float) -> float:
        """∂²action/∂q∂q⁺ along μ and this direction, by a step of a h."""
        four = [(r * s, a * h * r * mu, a * h * s * along) for r in (1, -1) for s in (1, -1)]
        ends = ((sign, integrate(robot, motion.q[1], u), integrate(robot, motion.q[2], w)) for sign, u, w in four)
        return sum(sign * action(robot, q, after, dt) for sign, q, after in ends) / (2.0 * a * h) ** 2

    size = np.abs(mu).max()
    mu /= size
    got = [-size * (4.0 * mixed(unit, 1.0) - mixed(unit, 2.0)) / 3.0 for unit in np.eye(robot.nv)]
    np.testing.assert_allclose(got, weights[2], rtol=1e-6, atol=1e-6)


def sledge() -> Robot:
    """A body on two rails that may lift and turn about them."""
    inertia = ((0.02, 0.0, 0.0), (0.0, 0.03, 0.0), (0.0, 0.0, 0.04))
    links = (
        Link("along", -1, Joint("along", "prismatic", axis=(1.0, 0.0, 0.0)), 0.4, (0.0, 0.0, 0.0), inertia),
        Link("up", 0, Joint("up", "prismatic", axis=(0.0, 0.0, 1.0)), 0.6, (0.0, 0.0, 0.0), inertia),
        Link("body", 1, Joint("turn", "revolute", axis=(0.0, 1.0, 0.0)), 2.0, (0.01, 0.0, 0.02), inertia),
    )
    return Robot("sledge", links)


def test_gradient_of_contact_that_is_open_sticks_and_slides() -> None:
    """One sample each: in the air, both feet at rest, both sliding, one foot down."""
    robot, steps, h = sledge(), 3, 1e-6
    feet = [Point("body", (x, 0.0, -0.05)) for x in (-0.15, 0.15)]
    ground = RigidContact(feet, friction=0.4, compliance=3e-2, tolerance=1e-12, sweeps=20000)
    rollout = Rollout(robot, steps=steps, dt=1e-3, contacts=ground)
    call = [np.zeros((4, 3)), np.zeros((4, 3)), 0.1 * np.random.default_rng(0).normal(size=(4, steps, 3))]
    call[0][:, 1] = [0.3, 0.04999, 0.04999, 0.064715]
    call[0][3, 2], call[1][[0, 2, 3], 0] = 0.1, 0.5
    motion, random = rollout(*call), np.random.default_rng(1)
    assert motion.impulse is not None
    pressed = motion.impulse[..., 0] > 0.0
    assert pressed.sum(axis=-1).tolist() == [[0] * 3, [2] * 3, [2] * 3, [1] * 3]
    sliding = np.abs(motion.qd[:, 1:, 0]) > 1e-4
    assert sliding.tolist() == [[True] * 3, [False] * 3, [True] * 3, [True] * 3]
    cost = random.normal(size=(2, 4, steps + 1, 3))
    gradient = rollout.vjp(motion, call[2], *cost)
    names = ("q0", "qd0", "tau")
    for k, name in enumerate(names):
        along = random.normal(size=call[k].shape)

        def costs(size: float, k: int = k, along: np.ndarray = along) -> np.ndarray:
            got = rollout(*(x + size * along if j == k else x for j, x in enumerate(call)))
            return (cost[0] * (got.q - motion.q) + cost[1] * (got.qd - motion.qd)).sum(axis=(1, 2))

        slope = (costs(h) - costs(-h)) / (2.0 * h)
        got = (gradient[name] * along).reshape(4, -1).sum(axis=1)
        np.testing.assert_allclose(got, slope, rtol=1e-5, atol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize("feedback", [False, True])
def test_gradient_of_order_3_on_a_ball(feedback: bool) -> None:
    """The middle of the step before is a part of the state, here of a joint with a quaternion."""
    robot, random = ball(), np.random.default_rng(6)
    rollout = Rollout(
        robot, steps=STEPS, dt=0.02, integrator=TIGHT["order 3"], feedback=feedback, forces=forces_on(robot)
    )
    n, closed = robot.nv, {}
    if feedback:
        closed = {"gain": 0.1 * random.normal(size=(n, 2 * n)), "q_ref": neutral(robot), "qd_ref": np.ones(n)}
    for got, expected in slopes(rollout, **closed):
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-7)


def test_steps_that_have_not_converged_have_no_gradient() -> None:
    tau = np.zeros((2, 3, 2))
    hanging_and_thrown = np.array([[np.pi, 0.0], [0.3, 0.4]]), np.array([[0.0, 0.0], [9.0, -9.0]])
    rollout = Rollout(arm(), steps=3, dt=0.02, integrator=PositionBasedIntegrator(iterations=2), device="numpy")
    motion = rollout(*hanging_and_thrown, tau)
    assert motion.converged.all(axis=1).tolist() == [True, False]
    gradient = rollout.vjp(motion, tau, motion.qd, motion.qd)
    for value in gradient.values():
        assert np.isfinite(value[0]).all()
        assert np.isnan(value[1]).all()


def test_a_method_that_does_not_say_what_it_solves() -> None:
    class Own(Integrator):
        name = "own"

        def motion(self, robot: Robot, options: StepOptions, *, linearize: bool = False, every: int = 1) -> Motion:
            return ExplicitIntegrator("euler").motion(robot, options, every=every)

    rollout = Rollout(arm(), steps=2, dt=0.01, integrator=Own(), device="numpy")
    motion = rollout(np.zeros(2), np.zeros(2), np.zeros((2, 2)))
    with pytest.raises(ArgumentError, match="integrator 'own' has no reverse sweep; expected one with equations"):
        rollout.vjp(motion, np.zeros((2, 2)), motion.q, motion.qd)
