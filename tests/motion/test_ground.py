"""Rigid contact that bounces: against steps that are computed with Pinocchio and numpy alone, and closed forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import dynagate
import numpy as np
import pinocchio
import pytest
from dynagate import Robot, Rollout, robots
from dynagate.forces.contact import ContactError
from dynagate.integrators import Plane, Point, RigidContact

from tests.motion.test_contact_step import BALL, BOX, CENTER, CORNERS, on_slope
from tests.oracle import pinocchio_of

Array = np.ndarray
Distance = Callable[[Array], float]
"""Signed distance from a place (3,) in base axes to a surface, m."""


class Touch(NamedTuple):
    """A ball of a link that may touch a surface. radius: m. distance: of places from the surface."""

    link: str
    at: tuple[float, float, float]
    radius: float
    distance: Distance


def slope_of(distance: Distance, place: Array) -> Array:
    """Return the unit normal (3,) of a surface near a place by differences."""
    way = 1e-7 * np.eye(3)
    normal = np.array([distance(place + w) - distance(place - w) for w in way])
    return normal / np.linalg.norm(normal)


class Steps:
    """Steps of a robot on a fixed base whose joints turn, with Pinocchio's dynamics and impulses found here."""

    def __init__(self, robot: Robot, touches: Sequence[Touch], dt: float, **law: float) -> None:
        self.model, self.touches, self.dt, self.law = pinocchio_of(robot), touches, dt, law
        self.data = self.model.createData()
        self.joints = {link.name: self.model.getJointId(link.joint.name) for link in robot.links}

    def _at(self, link: str, at: Sequence[float]) -> tuple[Array, Array]:
        """Return the place (3,) of a point of a link, and how it moves by q̇ (3, nv)."""
        joint = self.joints[link]
        place = self.data.oMi[joint] * np.array(at)
        own = pinocchio.getJointJacobian(self.model, self.data, joint, pinocchio.LOCAL_WORLD_ALIGNED)
        arm = place - self.data.oMi[joint].translation
        return place, own[:3] - pinocchio.skew(arm) @ own[3:]

    def meeting(self) -> tuple[Array, Array]:
        """Return J (3 touches, nv), normals first, and the gaps."""
        rows, gaps = [], []
        for touch in self.touches:
            center, _ = self._at(touch.link, touch.at)
            normal = slope_of(touch.distance, center)
            inside = self.data.oMi[self.joints[touch.link]].actInv(center - touch.radius * normal)
            _, moves = self._at(touch.link, inside)
            rows.append(np.linalg.qr(np.column_stack([normal, np.eye(3)]))[0].T @ moves)
            rows[-1][0] = normal @ moves
            gaps.append(touch.distance(center) - touch.radius)
        return np.concatenate(rows), np.array(gaps)

    def step(self, q: Array, qd: Array, tau: Array) -> tuple[Array, Array]:
        """Return q and q̇ after a step."""
        pinocchio.computeJointJacobians(self.model, self.data, q)
        jacobian, gaps = self.meeting()
        free = qd + self.dt * pinocchio.aba(self.model, self.data, q, qd, tau)
        upper = np.triu(pinocchio.crba(self.model, self.data, q))
        answer = np.linalg.solve(upper + np.triu(upper, 1).T, jacobian.T)
        w = jacobian @ answer + self.law["compliance"] * np.eye(len(jacobian))
        closing, normal = -(jacobian @ qd)[::3], (jacobian @ free)[::3]
        bounces = (gaps + self.dt * normal <= 0.0) & (closing > self.law.get("least", 0.1))
        leaves = np.where(bounces, self.law.get("restitution", 0.0) * closing, 0.0)
        b = jacobian @ free
        b[::3] += np.where(bounces & (leaves > 0.0), -leaves, np.maximum(gaps, 0.0) / self.dt)
        r = self._impulses(w, b)
        after = (w @ r + b)[::3] * (r[::3] <= 0.0)
        s = _pressed(w[::3, ::3], after + leaves + 0.2 / self.dt * np.minimum(gaps, 0.0))
        velocity = free + answer @ r
        return q + self.dt * (velocity + answer[:, ::3] @ s), velocity

    def _impulses(self, w: Array, b: Array) -> Array:
        r = np.zeros(len(b))
        for _ in range(20000):
            before = r.copy()
            for n in range(0, len(r), 3):
                r[n] = max(0.0, r[n] - (w[n] @ r + b[n]) / w[n, n])
                t = slice(n + 1, n + 3)
                wish = r[t] - (w[t] @ r + b[t]) / np.trace(w[t, t])
                r[t] = wish * min(1.0, self.law["friction"] * r[n] / max(1e-300, np.linalg.norm(wish)))
            if np.abs(r - before).max() < 1e-15 * max(1.0, np.abs(r).max()):
                break
        return r


def _pressed(w: Array, b: Array) -> Array:
    """Return s with 0 ≤ w s + b ⟂ s ≥ 0."""
    s = np.zeros(len(b))
    for _ in range(20000):
        before = s.copy()
        for k in range(len(s)):
            s[k] = max(0.0, s[k] - (w[k] @ s + b[k]) / w[k, k])
        if np.abs(s - before).max() < 1e-16:
            break
    return s


def above(normal: Sequence[float], offset: float) -> Distance:
    unit = np.array(normal) / np.linalg.norm(normal)
    return lambda place: float(unit @ place - offset)


ARM = robots.load("two_joint_arm")
TIP = (0.0, 0.0, 0.3)
LAW = {"friction": 0.4, "compliance": 1e-2}
EXACT = {"tolerance": 1e-12, "sweeps": 20000}


def compared(robot: Robot, contact: RigidContact, touches: Sequence[Touch], q: Array, qd: Array, steps: int) -> Any:
    """Compare a rollout under random torques with steps that are computed here, and return it."""
    law = {"friction": contact.friction, "compliance": contact.compliance, "restitution": contact.restitution}
    other = Steps(robot, touches, 1e-3, **law)
    tau = np.random.default_rng(1).uniform(-2.0, 2.0, (steps, robot.nv))
    motion = Rollout(robot, steps, 1e-3, contacts=contact)(q, qd, tau)
    assert motion.converged.all()
    for k in range(steps):
        q, qd = other.step(q, qd, tau[k])
        np.testing.assert_allclose(motion.q[k + 1], q, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(motion.qd[k + 1], qd, rtol=1e-6, atol=1e-6)
    return motion


@pytest.mark.parametrize("restitution", [0.0, 0.6])
def test_an_arm_bounces_as_by_steps_in_numpy(restitution: float) -> None:
    """The forearm's tip and its middle fall on the ground, one after the other."""
    planes = (Plane(offset=-0.4), Plane((0.5, 0.0, 1.0), -0.45))
    points = [Point("forearm", TIP, 0.02), Point("forearm", (0.0, 0.0, 0.15))]
    touches = [
        Touch(p.link, p.position, p.radius, above(plane.normal, plane.offset)) for p in points for plane in planes
    ]
    contact = RigidContact(points, planes, restitution=restitution, **LAW, **EXACT)
    motion = compared(ARM, contact, touches, np.array([2.4, 0.3]), np.array([1.0, 0.5]), 150)
    assert motion.impulse[..., 0].any()


def test_a_ball_bounces_to_the_heights_of_the_closed_form() -> None:
    """e² of each height, to first order of the step; then it rests."""
    heights = []
    for dt in (2e-3, 1e-3):
        steps = round(4.0 / dt)
        contact = RigidContact(CENTER, restitution=0.7)
        motion = Rollout(BALL, steps, dt, contacts=contact)(on_slope(0.0, 1.1), np.zeros(6), np.zeros((steps, 6)))
        z = motion.q[:, 2] - 0.1
        tops = z[1:-1][(z[1:-1] > z[:-2]) & (z[1:-1] >= z[2:])]
        heights.append(np.abs(tops[:3] / 0.49 ** np.arange(1, 4) - 1.0).max())
        assert np.abs(motion.qd[-1]).max() < 1e-6
        np.testing.assert_allclose(z[-1], 0.0, atol=1e-6)
    assert heights[0] < 2e-2
    assert heights[1] < 1e-2


def test_a_point_that_is_no_faster_than_the_threshold_does_not_bounce() -> None:
    for speed, after in ((0.1, 0.0), (0.1 + 1e-6, 0.08)):
        contact = RigidContact(CENTER, restitution=0.8, compliance=0.0)
        fall = np.array([0.0, 0.0, -speed, 0.0, 0.0, 0.0])
        motion = Rollout(BALL, 1, 1e-3, contacts=contact)(on_slope(0.0, 0.1), fall, np.zeros((1, 6)))
        np.testing.assert_allclose(motion.qd[1, 2], after, atol=1e-6)


@pytest.mark.parametrize(("height", "restitution"), [(0.1005, 0.5), (0.1, 0.5), (0.0999, 0.0), (0.0999, 1.0)])
def test_restitution_is_an_input_with_a_gradient(height: float, restitution: float) -> None:
    """Above the ground, at a gap of 0, and below; at the ends of its range the difference is of one side."""
    robot = BALL.with_variable("ground.restitution")
    rollout = Rollout(robot, 3, 1e-3, contacts=RigidContact(CENTER, **LAW, **EXACT), device="numpy")
    q0, qd0, tau = on_slope(0.0, height), np.array([0.3, 0.1, -1.0, 0.5, 0.2, 0.1]), np.zeros((3, 6))
    out = rollout(q0, qd0, tau, ground_restitution=restitution)
    fixed = RigidContact(CENTER, restitution=restitution, **LAW, **EXACT)
    np.testing.assert_array_equal(out.q, Rollout(BALL, 3, 1e-3, contacts=fixed, device="numpy")(q0, qd0, tau).q)
    weights = np.random.default_rng(0).normal(size=(2, 4, 6))
    got = rollout.vjp(out, tau, *weights, ground_restitution=restitution)

    def cost(qd: Array, value: float) -> float:
        end = rollout(q0, qd, tau, ground_restitution=value)
        away = dynagate.difference(robot, out.q, end.q)
        return float((weights[0] * away).sum() + (weights[1] * end.qd).sum())

    ends = max(0.0, restitution - 1e-7), min(1.0, restitution + 1e-7)
    by_value = (cost(qd0, ends[1]) - cost(qd0, ends[0])) / (ends[1] - ends[0])
    np.testing.assert_allclose(got["ground_restitution"], by_value, rtol=1e-5)
    by_speed = [(cost(qd0 + way, restitution) - cost(qd0 - way, restitution)) / 2e-7 for way in 1e-7 * np.eye(6)]
    np.testing.assert_allclose(got["qd0"], by_speed, rtol=1e-5, atol=1e-6)


def test_a_box_that_bounces_on_its_corners_loses_energy() -> None:
    """Without friction, restitution 1 keeps the energy of impacts, and less takes some, whatever corners meet."""
    energies = []
    for restitution in (1.0, 0.5):
        contact = RigidContact(CORNERS, friction=0.0, restitution=restitution, compliance=0.0)
        start = on_slope(0.0, 0.3)
        start[3:] = np.array([0.3, 0.2, 0.1, 0.9]) / np.linalg.norm([0.3, 0.2, 0.1, 0.9])
        thrown = np.array([0.3, 0.0, -2.0, 2.0, 1.0, 0.5])
        motion = Rollout(BOX, 2000, 1e-4, contacts=contact)(start, thrown, np.zeros((2000, 6)))
        spin = 0.5 * np.einsum("ti,ij,tj->t", motion.qd[:, 3:], np.array(BOX.links[0].inertia), motion.qd[:, 3:])
        moves = 0.5 * 2.0 * (motion.qd[:, :3] ** 2).sum(axis=1) + 2.0 * 9.81 * motion.q[:, 2]
        assert motion.impulse.any()
        energies.append((spin + moves)[[0, -1]])
    np.testing.assert_allclose(energies[0][1], energies[0][0], rtol=1e-2)
    assert energies[1][1] < 0.9 * energies[1][0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"restitution": 1.5}, "rigid contact has restitution 1.5; expected a number from 0 to 1"),
        ({"restitution": float("nan")}, "rigid contact has restitution nan; expected a number from 0 to 1"),
        ({"bounce_speed": -1.0}, "rigid contact has bounce_speed -1.0; expected a finite number, 0 or more"),
    ],
)
def test_ground_that_means_nothing(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ContactError, match=re.escape(message)):
        RigidContact(**{"points": CORNERS, **options})


def test_a_restitution_that_no_ground_has() -> None:
    robot = BALL.with_variable("ground.restitution")
    rollout = Rollout(robot, 1, 1e-3, contacts=RigidContact(CENTER), device="numpy")
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        rollout(on_slope(0.0, 0.1), np.zeros(6), np.zeros((1, 6)), ground_restitution=1.1)
