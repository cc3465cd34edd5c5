"""Rigid contact that opens and closes: against closed forms of boxes on slopes, statics, and the laws themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import dynagate
import mujoco
import numpy as np
import pinocchio
import pytest
from click.testing import CliRunner
from dynagate import Region, Rollout, evaluate, neutral, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.bench.mujoco_peer import model_text
from dynagate.cli import main
from dynagate.forces.contact import ContactError
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.loop import Loop, evaluate_loop
from dynagate.integrators import Plane, Point, RigidContact
from dynagate.integrators.implicit.contact import contact_loop
from dynagate.integrators.implicit.contact_pair_solution import EASED
from dynagate.native.gpu_loop import GpuLoop

from tests.constrained_robots import FEET, LOCAL, pair
from tests.contact_bodies import BALL, BOX, CENTER, CORNERS, on_slope
from tests.fuzz.contacts import Scene
from tests.kkt import OfRobot
from tests.oracle import pinocchio_of
from tests.played_card import ON_HOST

GRAVITY = 9.81


@lru_cache(maxsize=4)
def feet() -> tuple[Point, ...]:
    hyq = robots.load("hyq", floating_base=True)
    frames = [hyq.frame(foot) for foot in FEET]
    return tuple(Point(hyq.links[frame.link].name, frame.translation) for frame in frames)


def slide(degrees: float, speed: float, steps: int, **options: Any) -> dynagate.host.rollouts.Trajectories:
    rollout = Rollout(BOX, steps=steps, dt=1e-3, contacts=RigidContact(CORNERS, (Plane.slope(degrees),), **options))
    q0, qd0 = on_slope(degrees)[None], np.array([[speed, 0.0, 0.0, 0.0, 0.0, 0.0]])
    return rollout(q0, qd0, np.zeros((1, steps, 6)))


@pytest.mark.parametrize("mu", [0.3, pytest.param(0.8, marks=pytest.mark.long)])
def test_a_box_slides_beyond_the_angle_of_friction(mu: float) -> None:
    """tan of it is μ: 0.05° less and it stays, as much more and it has g (sin - μ cos)."""
    threshold = np.degrees(np.arctan(mu))
    below, above = (slide(threshold + off, 0.0, 300, friction=mu).qd[0, -1] for off in (-0.05, 0.05))
    assert np.abs(below).max() < 1e-5
    angle = np.radians(threshold + 0.05)
    np.testing.assert_allclose(above[0], 0.3 * GRAVITY * (np.sin(angle) - mu * np.cos(angle)), rtol=1e-2)
    assert np.abs(above[1:]).max() < 1e-6


@pytest.mark.parametrize("along", [(1.0, 0.0), (0.6, 0.8), pytest.param((1.0, 1.0), marks=pytest.mark.long)])
def test_a_box_is_slowed_down_by_friction_alike_in_all_directions(along: tuple[float, float]) -> None:
    """μ g against the motion: the cone is round. Then it rests."""
    rollout = Rollout(BOX, steps=400, dt=1e-3, contacts=RigidContact(CORNERS, friction=0.4))
    direction = np.array(along) / np.linalg.norm(along)
    qd0 = np.array([[*direction, 0.0, 0.0, 0.0, 0.0]])
    result = rollout(on_slope(0.0)[None], qd0, np.zeros((1, 400, 6)))
    speed = result.qd[0, :, :2] @ direction
    np.testing.assert_allclose(speed[0] - speed[100], 0.4 * GRAVITY * 0.1, rtol=1e-2)
    np.testing.assert_allclose(result.qd[0, 100, :2], speed[100] * direction, atol=1e-3)
    assert np.abs(result.qd[0, -1]).max() < 1e-5
    np.testing.assert_allclose(result.q[0, -1, :2] @ direction, 1.0 / (2.0 * 0.4 * GRAVITY), rtol=1e-2)


def test_impulses_press_and_stay_in_their_cones() -> None:
    """Boxes thrown at the ground in all attitudes: what their corners get, and that they stay above it."""
    contact = RigidContact(CORNERS, friction=0.6)
    rollout = Rollout(BOX, steps=1500, dt=1e-3, contacts=contact)
    random = np.random.default_rng(1)
    q0, qd0 = np.zeros((32, 7)), random.uniform(-2.0, 2.0, (32, 6))
    q0[:, 2], q0[:, 3:] = 0.4, random.normal(size=(32, 4))
    q0[:, 3:] /= np.linalg.norm(q0[:, 3:], axis=1, keepdims=True)
    result = rollout(q0, qd0, np.zeros((32, 1500, 6)))
    assert (result.diverged == -1).all()
    assert result.impulse is not None
    assert result.iterations is not None
    normal, tangents = result.impulse[..., 0], np.linalg.norm(result.impulse[..., 1:], axis=-1)
    assert normal.min() >= 0.0
    assert (tangents <= 0.6 * normal + 1e-12).all()
    rest = normal[:, -50:].sum(axis=2).mean(axis=1) / 1e-3
    assert (np.abs(rest - 2.0 * GRAVITY) < 0.05 * 2.0 * GRAVITY).mean() > 0.8  # some tumble still
    assert (result.iterations >= contact.sweeps).mean() < 0.02
    lowest = dynagate.evaluate(trace(BOX, "link_positions"), {"q": result.q.reshape(-1, 7)})["link_positions"]
    assert lowest[:, 0, 2].min() > 0.04


def test_a_standing_quadruped_has_the_forces_of_statics() -> None:
    """Torques that carry it decide all twelve of them."""
    hyq = robots.load("hyq", floating_base=True)
    for foot in FEET:
        hyq = hyq.with_contact(foot)
    q = neutral(hyq)
    q[[8, 11, 14, 17]], q[[9, 12, 15, 18]] = [0.6, 0.6, -0.6, -0.6], [-1.2, -1.2, 1.2, 1.2]
    heights = [evaluate(trace(hyq, f"frame_pose_{foot}"), {"q": q[None]})["frame_position"][0, 2] for foot in FEET]
    q[2] -= min(heights)
    still = {"q": q[None], "qd": np.zeros((1, 18)), "qdd": np.zeros((1, 18)), "active": np.ones((1, 4))}
    statics = evaluate(trace(hyq, "constrained_inverse_dynamics"), still)
    assert np.abs(statics["tau"][0, :6]).max() < 1e-6 * GRAVITY * sum(link.mass for link in hyq.links)
    rollout = Rollout(hyq, steps=20, dt=1e-3, contacts=RigidContact(feet(), friction=1.0))
    result = rollout(q[None], np.zeros((1, 18)), np.repeat(statics["tau"][:, None], 20, axis=1))
    assert result.impulse is not None
    forces = result.impulse[0, -1] / 1e-3
    expected = statics["force"].reshape(4, 3)
    np.testing.assert_allclose(forces[:, 0], expected[:, 2], rtol=5e-2)
    np.testing.assert_allclose(np.linalg.norm(forces, axis=1), np.linalg.norm(expected, axis=1), rtol=5e-2)
    assert np.abs(result.qd[0, -1]).max() < 1e-2


FALL, REST = 800, 50
"""Steps of 1 ms from 2 cm above the ground, and the last of them."""


@lru_cache(maxsize=1)
def standing() -> np.ndarray:
    hyq = robots.load("hyq", floating_base=True)
    q = neutral(hyq)
    q[[8, 11, 14, 17]], q[[9, 12, 15, 18]] = [0.6, 0.6, -0.6, -0.6], [-1.2, -1.2, 1.2, 1.2]
    heights = [evaluate(trace(hyq, f"frame_pose_{foot}"), {"q": q[None]})["frame_position"][0, 2] for foot in FEET]
    q[2] = 0.02 - min(heights)
    return q


def servo(joints: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(6), 2000.0 * (standing()[7:] - joints) - 20.0 * speeds])


@lru_cache(maxsize=1)
def fallen() -> tuple[np.ndarray, np.ndarray]:
    """q after the fall, and the forces of the feet in each step (steps, 4, 3), normal ones first."""
    hyq = robots.load("hyq", floating_base=True)
    rollout = Rollout(hyq, steps=1, dt=1e-3, contacts=RigidContact(feet(), friction=1.0))
    at, speed, forces = standing(), np.zeros(18), []
    for _ in range(FALL):
        result = rollout(at, speed, servo(at[7:], speed[6:])[None])
        assert result.impulse is not None
        at, speed = result.q[-1], result.qd[-1]
        forces.append(result.impulse[-1] / 1e-3)
    return at, np.array(forces)


def test_a_falling_quadruped_comes_to_rest_as_in_mujoco() -> None:
    """From 2 cm, with servos at its joints: its feet's forces at rest, and where it stands."""
    hyq = robots.load("hyq", floating_base=True)
    q, weight = standing(), GRAVITY * sum(link.mass for link in hyq.links)
    at, forces = fallen()
    model = mujoco.MjModel.from_xml_string(model_text(hyq, 1e-3, contacts=RigidContact(feet(), friction=1.0)))
    data = mujoco.MjData(model)
    data.qpos[:] = np.concatenate([q[:3], q[[6, 3, 4, 5]], q[7:]])
    for _ in range(FALL):
        data.qfrc_applied[:] = servo(data.qpos[7:], data.qvel[6:])
        mujoco.mj_step(model, data)
    mujoco.mj_forward(model, data)
    pressed = np.zeros((data.ncon, 6))
    for k, row in enumerate(pressed):
        mujoco.mj_contactForce(model, data, k, row)
    assert data.ncon == 4
    ours = forces[-REST:].mean(axis=0)[:, 0]
    np.testing.assert_allclose(ours.sum(), weight, rtol=1e-2)
    np.testing.assert_allclose(np.sort(ours), np.sort(pressed[:, 0]), rtol=5e-2)
    np.testing.assert_allclose(at[7:], data.qpos[7:], atol=0.02)
    assert forces[:, :, 0].sum(axis=1).max() > 1.5 * weight  # it fell


@pytest.mark.parametrize(("depth", "dt"), [(0.005, 1e-4), (0.01, 1e-3)])
def test_a_body_below_the_ground_is_lifted_without_speed(depth: float, dt: float) -> None:
    for robot, points, height in ((BALL, CENTER, 0.1), (BOX, CORNERS, 0.05)):
        rollout = Rollout(robot, steps=100, dt=dt, contacts=RigidContact(points, friction=0.3))
        result = rollout(on_slope(0.0, height - depth), np.zeros(6), np.zeros((100, 6)))
        assert np.abs(result.qd).max() < 1e-5
        assert result.lift is not None
        assert result.lift[0].max() > 0.0
        np.testing.assert_allclose(result.q[1, 2], height - 0.8 * depth, atol=1e-6)
        np.testing.assert_allclose(result.q[-1, 2], height, atol=1e-6)


def test_convergence_is_of_the_residual_and_not_of_the_count() -> None:
    flying = Rollout(BOX, steps=2, dt=1e-3, contacts=RigidContact(CORNERS, sweeps=1), device="numpy")
    high, fast = on_slope(0.0, 1.0), np.array([0.3, 0.2, 0.1, 1.0, 2.0, 3.0])
    result = flying(high, fast, np.zeros((2, 6)))
    assert result.converged.all()
    assert np.isfinite(flying.vjp(result, np.zeros((2, 6)), np.ones((3, 6)), np.ones((3, 6)))["qd0"]).all()
    low, slow = on_slope(0.0, 0.0499), np.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    needed = Rollout(BOX, steps=1, dt=1e-3, contacts=RigidContact(CORNERS))(low, slow, np.zeros((1, 6))).iterations
    assert needed is not None
    for sweeps, right in ((int(needed[0]), True), (int(needed[0]) - 1, False)):
        short = Rollout(BOX, steps=1, dt=1e-3, contacts=RigidContact(CORNERS, sweeps=sweeps), device="numpy")
        assert short(low, slow, np.zeros((1, 6))).converged.all() == right


def some(cases: Mapping[str, Any], *quick: str) -> list[Any]:
    """Return parameters for the names of all cases. Those that are not in `quick` are marked long."""
    assert {*quick} <= {*cases}
    return [pytest.param(name, marks=() if name in quick else pytest.mark.long) for name in cases]


SPECIAL = {
    "in the air at rest": (BOX, CORNERS, 0.4, 5.0, 0.0, None),
    "at rest below": (BOX, CORNERS, 0.4, 0.049, 0.0, None),
    "at rest at 0": (BALL, CENTER, 0.4, 0.1, 0.0, -1.0),
    "at rest at 0, no friction": (BALL, CENTER, 0.0, 0.1, 0.0, -1.0),
    "no friction below": (BALL, CENTER, 0.0, 0.099, 0.0, None),
    "rolls": (BALL, CENTER, 0.4, 0.099, 1.0, None),
}


@pytest.mark.parametrize("name", some(SPECIAL, "at rest at 0", "rolls"))
def test_gradients_at_special_states_are_differences_of_one_side(name: str) -> None:
    """side: of the height, where the motion has a kink there; None where both sides agree."""
    robot, points, friction, height, speed, side = SPECIAL[name]
    contact = RigidContact(points, friction=friction, compliance=1e-2, tolerance=1e-11, sweeps=20000)
    rollout, still = Rollout(robot, steps=2, dt=1e-3, contacts=contact), np.zeros((2, 6))
    q0, qd0 = on_slope(0.0, height), speed * np.array([0.5, 0.0, 0.0, 0.0, 5.0, 0.0])
    out = rollout(q0, qd0, still)
    cost_q, cost_qd = np.random.default_rng(0).normal(size=(2, 3, 6))
    cost_q[:-1] = cost_qd[:-1] = 0.0
    got = rollout.vjp(out, still, cost_q, cost_qd)
    assert out.converged.all()

    def cost(q: np.ndarray, qd: np.ndarray) -> float:
        end = rollout(q, qd, still)
        return float(
            cost_q[-1] @ dynagate.difference(robot, out.q[-1], end.q[-1]) + cost_qd[-1] @ (end.qd - out.qd)[-1]
        )

    for k, way in enumerate(1e-7 * np.eye(6)):
        for sign in (1.0, -1.0) if side is None or k != 2 else (side,):
            by_q = sign * cost(dynagate.integrate(robot, q0, sign * way), qd0) / 1e-7
            by_qd = sign * cost(q0, qd0 + sign * way) / 1e-7
            np.testing.assert_allclose(got["q0"][k], by_q, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(got["qd0"][k], by_qd, rtol=1e-4, atol=1e-4)


PLATE = [Point("box", (x, y, 0.0)) for x in (-0.15, 0.15) for y in (-0.1, 0.1)]
"""The corners of a plate through the box's center of mass. A force there loads all four in the same way."""
WEIGHT = np.array([0.0, 0.0, 2.0 * GRAVITY, 0.0, 0.0, 0.0])
JUST = 0.5 * 2.0 * GRAVITY * np.array([0.6, 0.8, 0.0, 0.0, 0.0, 0.0])
"""The largest force along the ground, in N, that friction with a coefficient of 0.5 holds."""
ASIDE = np.array([0.6, 0.8, 0.0, 0.0, 0.0, 0.0])
UP = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
STEP = 1e-6
"""rad, m, rad/s or m/s, of a one-sided difference."""
KINKS = {
    "pressed at a gap of 0, lower": (0.0, 0.0 * JUST, -UP),
    "held without a load at a gap of 0, higher": (0.0, WEIGHT, UP),
    "on the border of the cone, at a gap of 0, lower and pushed less": (0.0, JUST, -UP - ASIDE),
    "on the border of the cone, below the ground, pushed less": (-1e-3, JUST, -ASIDE),
    "slides, where both sides agree": (-1e-3, 2.0 * JUST, ASIDE),
}


@pytest.mark.parametrize("name", some(KINKS, "pressed at a gap of 0, lower", "slides, where both sides agree"))
def test_gradients_at_kinks_are_those_of_the_side_that_the_docs_state(name: str) -> None:
    """One-sided differences along ways by height, speed and force that lead to that side at every corner."""
    height, push, side = KINKS[name]
    contact = RigidContact(PLATE, friction=0.5, compliance=0.2, tolerance=1e-11, sweeps=2000)
    rollout = Rollout(BOX, steps=2, dt=1e-3, contacts=contact, device="numpy")
    random, tau = np.random.default_rng(6), np.tile(push, (2, 1))
    q0, qd0 = on_slope(0.0, height), np.zeros(6)
    cost_q, cost_qd = random.normal(size=(2, 3, 6))
    cost_q[:-1] = cost_qd[:-1] = 0.0
    out = rollout(q0, qd0, tau)
    got = rollout.vjp(out, tau, cost_q, cost_qd)
    assert out.converged.all()
    by_q, by_qd, by_tau = random.uniform(0.5, 1.5, (3, 18, 1)) * (side + random.uniform(-0.2, 0.2, (3, 18, 6)))
    by_tau *= [1e3, 1e3, 1e3, 10.0, 10.0, 10.0]  # N and N m that change speeds as much in a step of 1 ms
    starts = dynagate.integrate(BOX, np.tile(q0, (18, 1)), STEP * by_q)
    ends = rollout(starts, STEP * by_qd, np.repeat((push + STEP * by_tau)[:, None], 2, axis=1))
    change = dynagate.difference(BOX, np.tile(out.q[-1], (18, 1)), ends.q[:, -1]) @ cost_q[-1]
    change += (ends.qd[:, -1] - out.qd[-1]) @ cost_qd[-1]
    slopes = by_q @ got["q0"] + by_qd @ got["qd0"] + by_tau @ got["tau"].sum(axis=0)
    np.testing.assert_allclose(slopes, change / STEP, rtol=1e-4, atol=1e-4)


def test_contacts_without_a_load_have_no_slope() -> None:
    """A robot at rest that its own torques carry touches the ground: rounding leaves loads and gaps of either sign."""
    arm, rng = robots.load("two_joint_arm"), np.random.default_rng(3)
    tip, still = (0.0, 0.0, 0.3), np.zeros(2)
    placed = arm.with_frame("tip", on="forearm", translation=tip)
    for q in rng.uniform(-1.0, 1.0, (6, 2)):
        height = evaluate(trace(placed, "frame_pose_tip"), {"q": q[None]})["frame_position"][0, 2]
        carried = evaluate(trace(arm, "gravity_torque"), {"q": q[None]})["gravity_torque"]
        weights = rng.normal(size=(2, 3, 2))
        for friction in (0.0, 0.5):
            ground = RigidContact([Point("forearm", tip)], [Plane((0.0, 0.0, 1.0), height)], friction=friction)
            slopes = []
            for options in ({"contacts": ground}, {}):
                rollout = Rollout(arm, steps=2, dt=1e-3, device="numpy", **options)
                slopes.append(
                    rollout.vjp(rollout(q, still, np.tile(carried, (2, 1))), np.tile(carried, (2, 1)), *weights)
                )
            for name in ("q0", "qd0", "tau"):
                np.testing.assert_allclose(slopes[0][name], slopes[1][name], rtol=1e-9, atol=1e-9)


class PinocchiosSteps:
    """Steps of HyQ as `contact_step` has them, with Pinocchio's dynamics, Jacobians and solvers of contact."""

    def __init__(self, solver: str) -> None:
        hyq = robots.load("hyq", floating_base=True)
        self.model = pinocchio_of(hyq)
        self.data = self.model.createData()
        in_q, in_v = hyq.permutation([self.model.names[i] for i in range(1, self.model.njoints)])
        self.q, self.qd = standing()[in_q], np.zeros(18)
        self.to, self.back = in_v, (np.argsort(in_q), np.argsort(in_v))
        joints = {link.name: self.model.getJointId(link.joint.name) for link in hyq.links}
        places = [pinocchio.SE3(np.eye(3), np.array(foot.position)) for foot in feet()]
        self.feet = [(joints[foot.link], place) for foot, place in zip(feet(), places, strict=True)]
        self.models, self.datas = pinocchio.StdVec_ConstraintModel(), pinocchio.StdVec_ConstraintData()
        for joint, place in self.feet:
            own = pinocchio.PointContactConstraintModel(self.model, joint, place)
            own.setFriction(1.0)
            self.models.append(pinocchio.ConstraintModel(own))
        for own in self.models:
            self.datas.append(own.createData())
        self.solver, self.result, self.settings = (
            getattr(pinocchio, f"{solver}{part}")() for part in ("ConstraintSolver", "SolverResult", "SolverSettings")
        )
        self.settings.max_iterations = 4000
        for kind in ("absolute", "relative"):
            for what in ("feasibility", "complementarity"):
                setattr(self.settings, f"{kind}_{what}_tol", 1e-9)

    def seen(self) -> tuple[np.ndarray, np.ndarray]:
        """J (12, 18) of the feet along the axes of the world, and their heights."""
        pinocchio.computeJointJacobians(self.model, self.data, self.q)
        rows, heights = [], []
        for joint, place in self.feet:
            own = place.toActionMatrixInverse() @ pinocchio.getJointJacobian(self.model, self.data, joint, LOCAL)
            at = self.data.oMi[joint] * place
            rows.append(at.rotation @ own[:3])
            heights.append(at.translation[2])
        return np.vstack(rows), np.array(heights)

    def step(self, dt: float) -> np.ndarray:
        """The forces of the feet (4, 3) along the axes of the world."""
        to_q, to_v = self.back
        tau = servo(self.q[to_q][7:], self.qd[to_v][6:])[self.to]
        free = self.qd + dt * pinocchio.aba(self.model, self.data, self.q, self.qd, tau)
        upper = np.triu(pinocchio.crba(self.model, self.data, self.q))
        j, heights = self.seen()
        across = np.linalg.solve(upper + np.triu(upper, 1).T, j.T)
        matrix = pinocchio.DelassusOperatorDense(j @ across + 1e-6 * np.eye(12))
        before = j @ free
        before[2::3] += np.where(heights > 0.0, heights, 0.0) / dt
        assert self.solver.solve(matrix, before, self.models, self.datas, self.settings, self.result)
        impulse = np.ravel(self.result.retrieveConstraintImpulses())
        self.qd = free + across @ impulse
        self.q = pinocchio.integrate(self.model, self.q, dt * self.qd)
        return impulse.reshape(4, 3) / dt


@pytest.mark.parametrize("solver", ["PGS", "ADMM"])
def test_a_falling_quadruped_comes_to_rest_as_by_pinocchios_solvers(solver: str) -> None:
    if not hasattr(pinocchio, f"{solver}ConstraintSolver"):
        pytest.skip("Pinocchio has these solvers from 4.0 on")
    other = PinocchiosSteps(solver)
    forces = np.array([other.step(1e-3) for _ in range(FALL)])
    at, ours = fallen()
    expected, found = (each[-REST:].mean(axis=0) for each in (forces, ours))
    np.testing.assert_allclose(found[:, 0], expected[:, 2], rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.linalg.norm(expected, axis=1), rtol=1e-5)
    np.testing.assert_allclose(ours[:, :, 0].sum(axis=1).max(), forces[:, :, 2].sum(axis=1).max(), rtol=1e-5)
    np.testing.assert_allclose(at[7:], other.q[other.back[0]][7:], atol=1e-6)


def inputs_of(loop: Loop, batch: int, steps: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    rows = next(port.shape[0] for port in loop.inputs if port.name == "r")
    q = np.tile(on_slope(0.0, 0.06), (batch, 1))
    q[:, 2] += random.uniform(0.0, 0.05, batch)
    qd = random.uniform(-1.0, 1.0, (batch, 6))
    return {
        "q": q,
        "qd": qd,
        "r": np.zeros((batch, rows)),
        "failed": np.zeros(batch),
        "tau": random.uniform(-1.0, 1.0, (batch, steps, 6)),
    }


def test_every_backend_takes_the_same_steps(tmp_path: Path) -> None:
    """C against numpy, and CUDA's text as host code."""
    contact = RigidContact(CORNERS[:4], friction=0.5)
    loop = contact_loop(BOX, contact, StepOptions(2e-3))
    inputs = inputs_of(loop, 5, 30)
    expected = evaluate_loop(loop, inputs)
    assert expected["swept"].max() > 0.0
    card = GpuLoop(loop, np.float64, 30, folder=tmp_path, toolchain=ON_HOST)
    outputs = card.new_outputs(5)
    card(inputs, outputs)
    card.close()
    for name in ("q_next", "qd_next", "swept"):
        np.testing.assert_allclose(outputs[name], expected[name], atol=1e-9)
    state = inputs["q"], inputs["qd"], inputs["tau"]
    for device in ("cpu", "numpy"):
        result = Rollout(BOX, steps=30, dt=2e-3, contacts=contact, device=device)(*state)
        np.testing.assert_allclose(result.q[:, 1:], expected["q_next"], atol=1e-9)
    every = Rollout(BOX, steps=30, dt=2e-3, contacts=contact, every=10)(*state)
    np.testing.assert_allclose(every.q[:, 1:], expected["q_next"][:, 9::10], atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"friction": -0.1}, "rigid contact has friction -0.1; expected a finite number, 0 or more"),
        ({"compliance": float("nan")}, "rigid contact has compliance nan; expected a finite number, 0 or more"),
        ({"tolerance": 0.0}, "rigid contact has tolerance 0.0; expected a finite number above 0"),
        ({"sweeps": 0}, "rigid contact has sweeps=0; expected a whole number of 1 or more"),
        ({"points": []}, "rigid contact has points []; expected a sequence of one Point or Capsule or more"),
        ({"ground": [1.0]}, "rigid contact has ground [1.0]; expected a sequence of one Plane or GroundBox or"),
    ],
)
def test_contacts_that_mean_nothing(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ContactError, match=re.escape(message)):
        RigidContact(**{"points": CORNERS, **options})


def test_rollouts_that_know_no_rigid_contact() -> None:
    contact = RigidContact(CORNERS)
    for options, message in (
        (
            {"device": "fixed"},
            "device 'fixed' takes no contacts=; expected 'cpu', 'cuda' or 'numpy', or a program: "
            "dynagate.build(robot, 'rollout', units=4, contacts=...), opened on device 'fixed'",
        ),
        ({"integrator": "rk4"}, "contacts= with integrator='rk4'; expected only contacts="),
        ({"form": "inverse"}, "contacts= takes no form; expected none"),
    ):
        with pytest.raises(ArgumentError, match=re.escape(message)):
            Rollout(BOX, **{"steps": 2, "dt": 1e-3, "contacts": contact, **options})
    with pytest.raises(ArgumentError, match=re.escape("contacts=1; expected RigidContact(points), with points such")):
        Rollout(BOX, steps=2, dt=1e-3, contacts=1)  # type: ignore[arg-type]
    with pytest.raises(ContactError, match="contact point on link 'box', which robot 'two_joint_arm' has not"):
        Rollout("two_joint_arm", steps=2, dt=1e-3, contacts=contact)
    rollout = Rollout(BOX, steps=2, dt=1e-3, contacts=contact, dtype=np.float32)
    result = rollout(on_slope(0.0), np.zeros(6), np.zeros((2, 6)))
    text = "dtype float32 of a gradient through contacts=; expected Rollout(..., dtype='float64')"
    with pytest.raises(ArgumentError, match=re.escape(text)):
        rollout.vjp(result, np.zeros((2, 6)), np.zeros((3, 6)), np.zeros((3, 6)))
    with pytest.raises(ArgumentError, match=re.escape("active= of a rollout without constraints")):
        rollout(on_slope(0.0), np.zeros(6), np.zeros((2, 6)), active=[1.0])


def swinging(steps: int, **options: Any) -> Rollout:
    """A two-joint arm whose tip may be held."""
    arm = robots.load("two_joint_arm").with_frame("tip", "forearm", (0.0, 0.0, 0.3))
    arm = arm.with_contact("tip", compliance=1e-3, damping=2.0)
    return Rollout(arm, steps=steps, dt=2e-3, constrained=True, **options)


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_constrained_rollouts_are_steps_of_the_function(integrator: str) -> None:
    rollout = swinging(20, integrator=integrator)
    random = np.random.default_rng(2)
    q0, qd0, tau = (random.uniform(-0.5, 0.5, shape) for shape in ((3, 2), (3, 2), (3, 20, 2)))
    active = np.repeat(random.integers(0, 2, (3, 4, 1)).astype(float), 5, axis=1)
    result = rollout(q0, qd0, tau, active=active)
    graph = trace(rollout.robot, "constrained_forward_dynamics")
    q, qd = q0, qd0
    for k in range(20):

        def acceleration(q: np.ndarray, qd: np.ndarray, k: int = k) -> np.ndarray:
            return evaluate(graph, {"q": q, "qd": qd, "tau": tau[:, k], "active": active[:, k]})["qdd"]

        h = 2e-3
        if integrator == "rk4":
            a1 = acceleration(q, qd)
            a2 = acceleration(q + h / 2 * qd, qd + h / 2 * a1)
            a3 = acceleration(q + h / 2 * (qd + h / 2 * a1), qd + h / 2 * a2)
            a4 = acceleration(q + h * (qd + h / 2 * a2), qd + h * a3)
            q, qd = q + h * qd + h * h / 6 * (a1 + a2 + a3), qd + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        else:
            qd = qd + h * acceleration(q, qd)
            q = q + h * qd
    np.testing.assert_allclose(result.q[:, -1], q, atol=1e-10)
    held = rollout(q0, qd0, tau)
    np.testing.assert_allclose(held.q, rollout(q0, qd0, tau, active=[1.0]).q, atol=0.0)
    assert np.abs(held.q - result.q).max() > 1e-3


def test_gradients_of_constrained_rollouts() -> None:
    """By one sweep back, and by the steps' own Jacobians."""
    rollout = swinging(12)
    random = np.random.default_rng(4)
    q0, qd0, tau = (random.uniform(-0.5, 0.5, shape) for shape in ((2, 2), (2, 2), (2, 12, 2)))
    active = np.repeat(np.array([[[0.0], [1.0], [1.0]]]), 4, axis=1)
    result = rollout(q0, qd0, tau, active=active)
    weights = random.normal(size=(2, 2, 13, 2))
    got = rollout.vjp(result, tau, *weights, active=active)
    linear = swinging(12, linearize=True)(q0, qd0, tau, active=active)
    assert linear.a is not None
    assert linear.b is not None
    lam = np.concatenate([weights[0], weights[1]], axis=2)
    back = lam[:, -1]
    for k in reversed(range(12)):
        np.testing.assert_allclose(got["tau"][:, k], np.einsum("bi,bij->bj", back, linear.b[:, k]), atol=1e-10)
        back = lam[:, k] + np.einsum("bi,bij->bj", back, linear.a[:, k])
    np.testing.assert_allclose(np.concatenate([got["q0"], got["qd0"]], axis=1), back, rtol=1e-9)
    eps = 1e-5
    moved = [
        rollout(q0, qd0, tau + s * eps * (np.arange(12) == 3)[:, None] * [1.0, 0.0], active=active) for s in (1, -1)
    ]
    cost = [np.sum(weights[0] * m.q, axis=(1, 2)) + np.sum(weights[1] * m.qd, axis=(1, 2)) for m in moved]
    np.testing.assert_allclose((cost[0] - cost[1]) / (2 * eps), got["tau"][:, 3, 0], rtol=1e-4)


def test_active_of_rollouts_is_checked() -> None:
    rollout = swinging(4)
    state = np.zeros(2), np.zeros(2), np.zeros((4, 2))
    with pytest.raises(ArgumentError, match=re.escape("active has shape (3,); expected (4, 1), or its last axes")):
        rollout(*state, active=np.ones(3))
    with pytest.raises(ArgumentError, match="active has numbers other than 0 and 1; expected 1 where a constraint"):
        rollout(*state, active=[0.5])
    with pytest.raises(dynagate.RobotError, match="robot 'two_joint_arm' has no contacts and no loops"):
        Rollout("two_joint_arm", steps=4, dt=1e-3, constrained=True)


def test_constraints_of_integers_hold_where_they_are_active() -> None:
    options = {"integrator": "rk4", "region": Region.of(swinging(1).robot, velocity=4.0, acceleration=80.0)}
    rollout, exact = swinging(6, device="fixed", **options), swinging(6, integrator="rk4")
    state = np.array([0.3, -0.4]), np.array([0.2, 0.1]), np.tile([1.0, 0.2], (6, 1))
    for active in (None, [[1], [1], [0], [0], [1], [0]]):
        got, expected = rollout(*state, active=active), exact(*state, active=active)
        np.testing.assert_allclose(got.q, expected.q, atol=2e-5)
        np.testing.assert_allclose(got.qd, expected.qd, atol=2e-3)
    with pytest.raises(ArgumentError, match="active has numbers other than 0 and 1; expected 1 where a constraint"):
        rollout(*state, active=[0.5])


def test_a_chip_without_constraints_takes_no_active() -> None:
    rollout = Rollout("two_joint_arm", steps=2, dt=1e-3, device="fixed")
    assert rollout.chip is not None
    with pytest.raises(ArgumentError, match="active= of a design without constraints; expected it left out, or"):
        rollout.chip(np.zeros(2), np.zeros(2), np.zeros((2, 2)), active=np.ones(1))


@pytest.mark.long
def test_the_command_holds_constraints(tmp_path: Path) -> None:
    how = "--function rollout --units 4 --constrained --contact forearm --compliance 1e-3 --steps 3 --states 6"
    done = CliRunner().invoke(main, ["run", "two_joint_arm", *how.split(), "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1].startswith("PASS: ")
    done = CliRunner().invoke(main, ["build", "two_joint_arm", "--constrained", "--folder", str(tmp_path)])
    assert "forward_dynamics_gradient has no option --constrained; expected it left out" in done.output


def swept(w: np.ndarray, b: np.ndarray, recovery: np.ndarray, r: np.ndarray, s: np.ndarray, mu: float) -> Any:
    """Return impulses and lifts after one sweep of Gauss and Seidel, and the largest velocity that they change, m/s."""
    r, s, moved = r.copy(), s.copy(), 0.0
    for c in range(len(s)):
        n, own = 3 * c, slice(3 * c, 3 * c + 3)
        block, steep = w[own, own], steepness(w)[c]
        before, u = r[own].copy(), w[own] @ r + b[own]
        without = u - block @ before
        sticking = before - np.linalg.solve(block, u)
        wish = before[1:] - u[1:] / steep[1]
        way = wish / max(1e-300, np.linalg.norm(wish))
        pressing, length, slip = block[0, 0] + mu * block[0, 1:] @ way, np.linalg.norm(wish), mu * before[0]
        slides = pressing > block[0, 0] / 8 and length > slip
        excess = u[0] + block[0, 1:] @ (slip * way - before[1:])
        normal = max(0.0, before[0] - (excess / pressing if slides else u[0] / steep[0]))
        if without[0] >= 0.0:
            r[own] = 0.0
        elif sticking[0] > 0.0 and np.linalg.norm(sticking[1:]) < mu * sticking[0]:
            r[own] = sticking
        else:
            r[own] = [normal, *(way * min(length, mu * normal))]
        leaving, lift = 0.0 if r[n] > 0.0 else w[n] @ r + b[n], s[c]
        s[c] = max(0.0, s[c] - (w[n, ::3] @ s + leaving + recovery[c]) / steep[0])
        moved = max(moved, *np.abs(block @ (r[own] - before)), abs(s[c] - lift) * steep[0])
    return r, s, moved


def steepness(w: np.ndarray) -> np.ndarray:
    """Return ρ (..., pairs, 2) of W (..., 3 pairs, 3 pairs): of the normal, and the largest of all tangents."""
    own = blocks(w)
    return np.stack([own[..., 0, 0], np.linalg.eigvalsh(own[..., 1:, 1:])[..., -1]], axis=-1)


def blocks(w: np.ndarray) -> np.ndarray:
    """Return the diagonal blocks (..., pairs, 3, 3) of W (..., 3 pairs, 3 pairs)."""
    pairs = np.arange(w.shape[-1] // 3)
    own = w.reshape(*w.shape[:-2], len(pairs), 3, len(pairs), 3)[..., pairs, :, pairs, :]
    return np.moveaxis(own, 0, -3)


def test_a_step_begins_with_what_sweeps_solve() -> None:
    """Two bodies above and below two planes: M⁻¹ Jᵀ, J M⁻¹ Jᵀ + c, and what the points have without impulses."""
    robot, dt, planes = pair(), 2e-3, [Plane.slope(20.0), Plane((0.6, 0.0, 0.8), -0.1)]
    points: list[dict[str, Any]] = [
        {"link": "a", "at": (0.1, -0.2, 0.3), "radius": 0.15},
        {"link": "b", "at": (-0.1, 0.4, 0.2)},
    ]
    contact = RigidContact([Point(*point.values()) for point in points], planes, compliance=0.01)
    reference = OfRobot(robot)
    scene = Scene(reference, points, planes, 0.0, 0.01)
    begin = contact_loop(robot, contact, StepOptions(dt)).steps[0]
    assert isinstance(begin, Graph)
    random = np.random.default_rng(5)
    q = dynagate.integrate(robot, np.tile(neutral(robot), (20, 1)), random.uniform(-0.3, 0.3, (20, robot.nv)))
    q[:, 2] -= random.uniform(0.0, 0.8, 20)
    qd, tau = random.uniform(-1.0, 1.0, (2, 20, robot.nv))
    got = evaluate(begin, {"q": q, "qd": qd, "tau": tau})
    meetings = [scene.meeting(row) for row in q]
    gaps = np.array([gap for _, gap in meetings])
    assert (gaps > 0.0).any(axis=0).all()
    assert (gaps < 0.0).any(axis=0).all()
    for i, (jacobian, gap) in enumerate(meetings):
        free = reference.pushed_step(q[i], qd[i], tau[i], dt, 0.0 * qd[i], 0.0 * qd[i])[2]
        answer = np.linalg.solve(reference.mass(q[i]), jacobian.T)
        w, b = jacobian @ answer + 0.01 * np.eye(12), jacobian @ free
        b[::3] += np.maximum(gap, 0.0) / dt
        expected = {
            "free": free,
            "answer": answer.T,
            "w": w,
            "b": b,
            "inverse": 1.0 / steepness(w),
            "stiff": np.linalg.inv(blocks(w) + EASED * np.einsum("...cii->...c", blocks(w))[:, None, None] * np.eye(3)),
        }
        expected["recovery"] = 0.2 / dt * np.minimum(gap, 0.0)
        for name, value in expected.items():
            np.testing.assert_allclose(got[name][i], value, rtol=1e-8, atol=1e-9, err_msg=name)
    assert not got["s"].any()
    assert not got["count"].any()


def test_a_sweep_is_one_of_gauss_and_seidel() -> None:
    """Pressed, open, sliding, sticking and lifted points, with all impulses and with none before."""
    random, mu = np.random.default_rng(7), 0.5
    loop = contact_loop(BOX, RigidContact(CORNERS[:3], friction=mu), StepOptions(1e-3))
    search = loop.steps[1]
    assert isinstance(search, Loop)
    (sweep,) = search.steps
    assert isinstance(sweep, Graph)
    half = random.normal(size=(200, 9, 12))
    half[:, ::3] *= 3.0
    scale = random.choice([0.1, 1.0, 10.0], size=(200, 1, 1))
    w = scale * half @ np.swapaxes(half, 1, 2)
    b, recovery = random.normal(size=(200, 9)), -random.uniform(0.0, 1.0, (200, 3))
    r, s = random.uniform(0.0, 0.3, (200, 9)), random.uniform(0.0, 0.3, (200, 3))
    r[:50], s[:50] = 0.0, 0.0
    state = {"w": w, "b": b, "recovery": recovery, "r": r, "s": s, "count": np.arange(200.0)}
    got = evaluate(sweep, {**state, "inverse": 1.0 / steepness(w), "stiff": np.linalg.inv(blocks(w))})
    expected = [swept(*row, mu) for row in zip(w, b, recovery, r, s, strict=True)]
    for name, rows in zip(("swept", "lifted", "moved"), zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(got[name], rows, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(got["counted"], np.arange(1.0, 201.0))
