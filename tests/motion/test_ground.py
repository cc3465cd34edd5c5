"""Rigid contact with restitution, terrains and between links: against steps with Pinocchio and numpy alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import dynagate
import numpy as np
import pinocchio
import pytest
from dynagate import Robot, Rollout, robots
from dynagate.dynamics.recursions.poses import poses
from dynagate.dynamics.tree import tree_of
from dynagate.forces import Capsule, GroundBox, GroundSphere, HeightField, Stops
from dynagate.forces.contact import ContactError
from dynagate.integrators import Plane, Point, RigidContact
from dynagate.integrators.implicit.contact_pairs import contact_rows, links_of
from dynagate.robot import Joint, Link, Mimic
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from tests.contact_bodies import BALL, BOX, CENTER, CORNERS, on_slope
from tests.oracle import pinocchio_of

Array = np.ndarray
Distance = Callable[[Array], float]
"""Signed distance from a place (3,) in base axes to a surface, m."""


class Touch(NamedTuple):
    """A ball of a link that may touch a surface. radius: m. distance: of places from the surface. normal: at a place;
    the slope of the distance unless given."""

    link: str
    at: tuple[float, float, float]
    radius: float
    distance: Distance
    normal: Callable[[Array], Array] | None = None


class Crossing(NamedTuple):
    """Two lines of links that may touch each other: link, ends and radius of each."""

    first: tuple[str, Sequence[Sequence[float]], float]
    second: tuple[str, Sequence[Sequence[float]], float]


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

    def _seen(self, touch: Touch | Crossing) -> tuple[Array, float, Array]:
        """Return the normal, the gap, and how the touching places move apart by q̇ (3, nv)."""
        if isinstance(touch, Touch):
            center, _ = self._at(touch.link, touch.at)
            normal = touch.normal(center) if touch.normal else slope_of(touch.distance, center)
            return (
                normal,
                touch.distance(center) - touch.radius,
                self._moves(touch.link, center - touch.radius * normal),
            )
        lines = [[self._at(link, end)[0] for end in ends] for link, ends, _ in (touch.first, touch.second)]
        here, there = nearest(*lines)
        gap = np.linalg.norm(here - there)
        normal = (here - there) / gap
        (first, _, radius), (second, _, other) = touch
        moves = self._moves(first, here - radius * normal) - self._moves(second, there + other * normal)
        return normal, gap - radius - other, moves

    def _moves(self, link: str, place: Array) -> Array:
        return self._at(link, self.data.oMi[self.joints[link]].actInv(place))[1]

    def meeting(self) -> tuple[Array, Array]:
        """Return J (3 touches, nv), normals first, and the gaps."""
        rows, gaps = [], []
        for touch in self.touches:
            normal, gap, moves = self._seen(touch)
            rows.append(np.linalg.qr(np.column_stack([normal, np.eye(3)]))[0].T @ moves)
            rows[-1][0] = normal @ moves
            gaps.append(gap)
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


def nearest(line: Sequence[Array], other: Sequence[Array]) -> tuple[Array, Array]:
    """Return the nearest places of two lines, by a search in boxes."""
    ends = [np.array(line)[[0, -1]], np.array(other)[[0, -1]]]
    places = lambda x: [a + t * (b - a) for (a, b), t in zip(ends, x, strict=True)]  # noqa: E731
    apart = lambda x: float(((places(x)[0] - places(x)[1]) ** 2).sum())  # noqa: E731
    starts = [(s, t) for s in (0.1, 0.9) for t in (0.1, 0.9)]
    found = [minimize(apart, x, bounds=[(0, 1)] * 2, options={"ftol": 1e-18, "gtol": 1e-13}) for x in starts]
    here, there = places(min(found, key=lambda result: result.fun).x)
    return here, there


def block(size: Sequence[float], center: Sequence[float], turn: Array) -> Distance:
    def distance(place: Array) -> float:
        beyond = np.abs(turn.T @ (place - np.array(center))) - 0.5 * np.array(size)
        return float(np.linalg.norm(np.maximum(beyond, 0.0)) + min(beyond.max(), 0.0))

    return distance


def patch(field: HeightField) -> Callable[[Array], tuple[float, Array]]:
    """Return the height of a field at a place, and its unit normal, by the cell that holds the place."""
    heights = np.array(field.heights)
    counts = np.array(heights.shape) - 1
    cell = np.array(field.size) / counts

    def at(place: Array) -> tuple[float, Array]:
        raw = (place[:2] - np.array(field.center) + 0.5 * np.array(field.size)) / cell
        u = np.clip(raw, 0.0, counts)
        i, j = np.clip(np.ceil(u).astype(int) - 1, 0, counts - 1)
        s, t = u - (i, j)
        low, high = heights[i, j : j + 2], heights[i + 1, j : j + 2]
        inside = (raw > 0.0) & (raw <= counts)
        by_x = inside[0] * ((1 - t) * (high - low)[0] + t * (high - low)[1]) / cell[0]
        by_y = inside[1] * ((1 - s) * (low[1] - low[0]) + s * (high[1] - high[0])) / cell[1]
        height = (1 - s) * ((1 - t) * low[0] + t * low[1]) + s * ((1 - t) * high[0] + t * high[1])
        return height, np.array([-by_x, -by_y, 1.0]) / np.sqrt(1.0 + by_x**2 + by_y**2)

    return at


ARM = robots.load("two_joint_arm")
TIP, ELBOW = (0.0, 0.0, 0.3), ARM.links[1].joint.translation
LAW = {"friction": 0.4, "compliance": 1e-2}
EXACT = {"tolerance": 1e-12, "sweeps": 20000}


def compared(robot: Robot, contact: RigidContact, touches: Sequence[Touch], q: Array, qd: Array, steps: int) -> Any:
    """Compare a rollout under random torques with steps that are computed here, and return it."""
    law = {"friction": contact.friction, "compliance": contact.compliance, "restitution": contact.restitution}
    law["least"] = contact.bounce_speed
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


IIWA = robots.load("iiwa14")
HAND = IIWA.links[-1].name
TURN = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
TURN *= np.linalg.det(TURN)
HILLS = HeightField(np.random.default_rng(4).uniform(-0.1, 0.1, (4, 5)), (1.0, 1.2), (0.2, -0.1))
SURFACES = {
    "box": GroundBox((0.4, 0.5, 0.3), (0.1, 0.0, 0.2), TURN),
    "sphere": GroundSphere((0.1, -0.2, 0.3), 0.4),
    "height field": HILLS,
}
DISTANCES = {
    "box": block((0.4, 0.5, 0.3), (0.1, 0.0, 0.2), TURN),
    "sphere": lambda place: float(np.linalg.norm(place - [0.1, -0.2, 0.3]) - 0.4),
    "height field": lambda place: float((place[2] - patch(HILLS)(place)[0]) * patch(HILLS)(place)[1][2]),
}


@pytest.mark.parametrize("name", SURFACES)
def test_distances_and_normals_of_surfaces(name: str) -> None:
    """At random places, and at corners, edges, lines of the grid, beyond its border, and deep inside."""
    surface, distance = SURFACES[name], DISTANCES[name]
    random = np.random.default_rng(3)
    for place in random.uniform(-0.9, 0.9, (200, 3)):
        gap, normal = surface.gap(np.array(place.tolist(), object), 0.1)
        normal = normal.astype(float)
        np.testing.assert_allclose(gap, distance(place) - 0.1, rtol=1e-12, atol=1e-14)
        expected = patch(HILLS)(place)[1] if name == "height field" else slope_of(distance, place)
        np.testing.assert_allclose(normal, expected, atol=1e-6)


SPECIAL_PLACES = [
    (GroundBox((0.2, 0.4, 0.6)), (0.1, 0.2, 0.3), 0.0, (1, 0, 0)),  # on a corner
    (GroundBox((0.2, 0.4, 0.6)), (0.2, 0.3, 0.0), np.hypot(0.1, 0.1), (0.5**0.5, 0.5**0.5, 0)),  # beyond an edge
    (GroundBox((0.2, 0.2, 0.2)), (0.0, 0.0, 0.0), -0.1, (-1, 0, 0)),  # in the middle
    (GroundSphere((0.1, 0.2, 0.3), 0.5), (0.1, 0.2, 0.3), -0.5, (0, 0, 1)),  # at the center
    (HeightField([[0, 0], [1, 1], [1, 1]], (2, 1)), (0.0, 0.0, 1.0), 0.0, (-(0.5**0.5), 0, 0.5**0.5)),  # on a line
    (HeightField([[0, 0], [1, 1], [1, 1]], (2, 1)), (-3.0, 9.0, 0.5), 0.5, (0, 0, 1)),  # beyond the border
]


@pytest.mark.parametrize("case", range(len(SPECIAL_PLACES)))
def test_distances_at_special_places(case: int) -> None:
    surface, place, gap, normal = SPECIAL_PLACES[case]
    found, direction = surface.gap(np.array(place, object))
    np.testing.assert_allclose(found, gap, atol=1e-12)
    np.testing.assert_allclose(direction.astype(float), normal, atol=1e-12)


@pytest.mark.parametrize("name", SURFACES)
def test_an_arm_meets_a_surface_as_by_steps_in_numpy(name: str) -> None:
    """The hand of a spatial arm is pressed against the surface, with restitution and friction."""
    q = np.array([0.3, 1.2, 0.1, -1.2, 0.2, 0.7, 0.0])
    place = dynagate.evaluate(dynagate.trace(IIWA, "link_positions"), {"q": q[None]})["link_positions"][0, -1]
    surface = {
        "box": GroundBox((0.4, 0.4, 0.3), tuple(place - [0.1, 0.1, 0.24])),
        "sphere": GroundSphere(tuple(place - [0.0, 0.1, 0.4]), 0.3),
        "height field": HeightField(
            np.array(HILLS.heights) + place[2] - 0.1, (1.0, 1.2), (place[0] + 0.1, place[1] + 0.2)
        ),
    }[name]
    distances: dict[str, Distance] = {
        "box": block((0.4, 0.4, 0.3), place - [0.1, 0.1, 0.24], np.eye(3)),
        "sphere": lambda x: float(np.linalg.norm(x - (place - [0.0, 0.1, 0.4])) - 0.3),
    }
    point = Point(HAND, (0.02, 0.0, 0.01), 0.05)
    if name == "height field":
        at = patch(surface)
        touch = Touch(HAND, point.position, 0.05, lambda x: (x[2] - at(x)[0]) * at(x)[1][2], lambda x: at(x)[1])
    else:
        touch = Touch(HAND, point.position, 0.05, distances[name])
    contact = RigidContact([point], [surface], restitution=0.3, bounce_speed=0.05, **LAW, **EXACT)
    motion = compared(IIWA, contact, [touch], q, np.zeros(7), 120)
    assert motion.impulse[..., 0].any()


FOREARM = Capsule("forearm", (0.0, 0.0, 0.05), TIP, 0.04)


def test_capsules_and_links_have_the_gaps_of_a_search() -> None:
    """And they move apart by q̇ as Pinocchio's Jacobians of the nearest places have it, in all random configurations."""
    lower, upper = Capsule(IIWA.links[5].name, (0.0, 0.0, -0.1), (0.0, 0.02, 0.1), 0.05), IIWA.links[2].name
    thigh, ball = Capsule(upper, (0.0, 0.0, -0.2), (0.0, 0.0, 0.2), 0.06), Point(HAND, (0.0, 0.0, 0.1), 0.04)
    center = (0.4, 0.1, 0.5)
    ground = [Plane((0.1, 0.2, 1.0), 0.1), GroundSphere(center, 0.1)]
    contact = RigidContact([lower], ground, between=[(lower, thigh), (ball, thigh), (thigh, ball)])
    shapes = [(x.link, (x.begin, x.end), x.radius) for x in (lower, thigh)] + [(HAND, (ball.position,) * 2, 0.04)]
    touches: list[Touch | Crossing] = [
        *(Touch(lower.link, end, 0.05, above((0.1, 0.2, 1.0), 0.1)) for end in (lower.begin, lower.end)),
        *(Crossing(shapes[a], shapes[b]) for a, b in ((0, 1), (2, 1), (1, 2))),
    ]
    tree, links, other = tree_of(IIWA), links_of(IIWA, contact), Steps(IIWA, touches, 1e-3, **LAW)
    for q in np.random.default_rng(7).uniform(-1.5, 1.5, (20, 7)):
        jacobian, gaps = contact_rows(tree, contact, links, poses(tree, q.tolist(), "base"))
        pinocchio.computeJointJacobians(other.model, other.data, q)
        expected, apart = other.meeting()
        line = [other._at(lower.link, end)[0] for end in (lower.begin, lower.end)]
        here, there = nearest(line, [np.array(center)] * 2)
        np.testing.assert_allclose(gaps[2], np.linalg.norm(here - there) - 0.15, atol=1e-9)
        np.testing.assert_allclose(np.delete(np.array(gaps, float), 2), apart, atol=1e-9)
        rows = np.delete(jacobian.astype(float).reshape(-1, 3, 7), 2, axis=0)
        expected = expected.reshape(-1, 3, 7)
        np.testing.assert_allclose(rows[:, 0], expected[:, 0], atol=1e-4)
        across, wanted = (np.einsum("cki,ckj->cij", x[:, 1:], x[:, 1:]) for x in (rows, expected))
        np.testing.assert_allclose(across, wanted, atol=1e-4)


@pytest.mark.parametrize("restitution", [0.0, 0.5])
def test_an_arm_folds_onto_itself_as_by_steps_in_numpy(restitution: float) -> None:
    arm, ball = Capsule(ARM.links[0].name, (0.0, 0.0, 0.0), (0.0, 0.0, 0.3), 0.05), Point("forearm", TIP, 0.03)
    contact = RigidContact([], between=[(ball, arm)], restitution=restitution, **LAW, **EXACT)
    crossing = Crossing(("forearm", (TIP, TIP), 0.03), (arm.link, (arm.begin, arm.end), 0.05))
    motion = compared(ARM, contact, [crossing], np.array([0.2, 2.6]), np.array([0.0, 2.0]), 120)
    assert motion.impulse[..., 0].any()


def test_momentum_of_two_bodies_that_touch_is_kept() -> None:
    """Two bodies in flight push each other apart: what one loses, the other has."""
    body = Link("a", -1, Joint("first", "floating"), 2.0, (0.0, 0.0, 0.0), np.diag([0.02, 0.03, 0.04]).tolist())
    other = replace(body, name="b", joint=Joint("second", "floating"), mass=0.5)
    two = Robot("two", (body, other), gravity=(0.0, 0.0, 0.0))
    contact = RigidContact([], between=[(Point("a", (0.0, 0, 0), 0.2), Point("b", (0.1, 0, 0), 0.1))], restitution=1.0)
    q0, qd0, tau = np.zeros(14), np.zeros(12), np.zeros((400, 12))
    q0[[6, 13]], q0[7:10], qd0[6:9] = 1.0, (1.0, 0.05, 0.1), (-3.0, 0.0, 0.0)
    motion = Rollout(two, 400, 1e-3, contacts=contact)(q0, qd0, tau)
    assert motion.impulse.any()
    turns = [Rotation.from_quat(motion.q[:, k : k + 4]) for k in (3, 10)]
    total = 2.0 * turns[0].apply(motion.qd[:, :3]) + 0.5 * turns[1].apply(motion.qd[:, 6:9])
    np.testing.assert_allclose(total, np.tile([-1.5, 0.0, 0.0], (401, 1)), atol=1e-9)


@pytest.mark.parametrize("floating", [False, True])
def test_mimic_joints_and_constraints_move_alike_on_the_ground(floating: bool) -> None:
    """A joint that mimics another, and a constraint that makes it do so, with impacts."""
    robot = ARM
    if floating:
        inertia = ((0.02, 0.0, 0.0), (0.0, 0.03, 0.0), (0.0, 0.0, 0.04))
        base = Link("base", -1, Joint("root", "floating"), 3.0, (0.0, 0.0, 0.0), inertia)
        moved = [replace(link, parent=link.parent + 1) for link in ARM.links]
        robot = Robot("walker", (base, *moved))
    follower = replace(robot.links[-1].joint, mimic=Mimic(robot.links[-2].joint.name, -0.8, 0.2))
    mimic = replace(robot, links=(*robot.links[:-1], replace(robot.links[-1], joint=follower)))
    equal = robot.with_joint_equality(robot.links[-1].joint.name, robot.links[-2].joint.name, (0.2, -0.8))
    base = [0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 1.0] if floating else []
    q, qd = np.array([*base, 2.6]), np.array([*([0.1, 0.2, -0.5, 0.3, 0.2, 0.1] if floating else []), 0.8])
    placed = equal.with_frame("tip", on="forearm", translation=TIP)
    start = np.array([*q, 0.2 - 0.8 * q[-1]])
    tip = dynagate.evaluate(dynagate.trace(placed, "frame_pose_tip"), {"q": start[None]})["frame_position"][0, 2]
    contact = RigidContact([Point("forearm", TIP, 0.02)], [Plane(offset=tip - 0.04)], 0.4, 0.1, 1e-11, 20000)
    tau = np.random.default_rng(0).normal(size=(150, len(qd) + 1))
    tau[:, -1] = 0.0
    own = Rollout(mimic, 150, 1e-3, contacts=contact)(q, qd, tau[:, :-1])
    other = Rollout(equal, 150, 1e-3, contacts=contact, constrained=True)
    both = other(start, np.array([*qd, -0.8 * qd[-1]]), tau)
    assert own.impulse.any()
    assert own.converged.all()
    assert both.converged.all()
    np.testing.assert_allclose(both.q[:, :-1], own.q, atol=1e-6)
    np.testing.assert_allclose(both.qd[:, -1], -0.8 * own.qd[:, -1], atol=1e-5)
    np.testing.assert_allclose(both.impulse, own.impulse, atol=1e-5)


def test_stops_act_after_impulses() -> None:
    limited = replace(ARM.links[1].joint, lower=-0.5, upper=0.5)
    arm = replace(ARM, links=(ARM.links[0], replace(ARM.links[1], joint=limited)))
    contact = RigidContact([Point("forearm", TIP)], [Plane(offset=-0.4)], **LAW)
    rollout = Rollout(arm, 200, 1e-3, contacts=contact, forces=[Stops()])
    motion = rollout(np.array([2.4, 0.3]), np.array([1.0, 0.5]), np.zeros((200, 2)))
    assert motion.impulse.any()
    assert motion.q[:, 1].min() == -0.5
    assert (motion.qd[motion.q[:, 1] == -0.5, 1] == 0.0).all()


def test_pairs_that_always_overlap_are_refused() -> None:
    upper = ARM.links[0].name
    elbow = (Capsule(upper, (0.0, 0.0, 0.0), ELBOW, 0.05), Capsule("forearm", (0.0, 0.0, 0.0), TIP, 0.05))
    text = (
        f"links '{upper}' and 'forearm' of robot 'two_joint_arm' overlap by 0.1 m or more in all of 64 configurations"
    )
    with pytest.raises(ContactError, match=re.escape(text)):
        Rollout(ARM, 1, 1e-3, contacts=RigidContact([], between=[elbow]))
    with pytest.raises(ContactError, match="a pair of link 'forearm' with itself, which never moves apart"):
        RigidContact([], between=[(Point("forearm", TIP, 0.1), FOREARM)])
    with pytest.raises(ContactError, match="without a radius; expected pairs of balls and capsules of two links"):
        RigidContact([], between=[(Point("forearm", TIP), Point(upper, TIP))])
    with pytest.raises(ContactError, match="contact point on link 'leg', which robot 'two_joint_arm' has not"):
        Rollout(ARM, 1, 1e-3, contacts=RigidContact([], between=[(Point("leg", TIP, 0.1), FOREARM)]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"restitution": 1.5}, "rigid contact has restitution 1.5; expected a number from 0 to 1"),
        ({"restitution": float("nan")}, "rigid contact has restitution nan; expected a number from 0 to 1"),
        ({"bounce_speed": -1.0}, "rigid contact has bounce_speed -1.0; expected a finite number, 0 or more"),
        ({"points": []}, "rigid contact has points []; expected a sequence of one Point or Capsule or more"),
        ({"ground": []}, "rigid contact has ground []; expected a sequence of one Plane or GroundBox or GroundSphere"),
        ({"ground": Plane()}, "rigid contact has ground Plane("),
        ({"between": [1]}, "rigid contact has between 1; expected pairs of balls and capsules of two links"),
        ({"between": "ab"}, "rigid contact has between 'ab'; expected pairs of balls and capsules of two links"),
        (
            {"points": [FOREARM], "ground": [GroundBox((1.0, 1.0, 1.0))]},
            "capsule on link 'forearm' against a GroundBox; expected planes or spheres for capsules, or balls along it",
        ),
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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HeightField([[0.0, 1.0]], (1, 1)), "heights of shape (1, 2); expected two rows and two columns"),
        (lambda: HeightField([1.0, 2.0], (1, 1)), "heights of shape (2,); expected two rows and two columns or more"),
        (lambda: HeightField([[0, 1], [np.nan, 1]], (1, 1)), "a hole: heights[1, 0] is nan; expected finite heights"),
        (lambda: HeightField([[0, 1], [1, np.inf]], (1, 1)), "a hole: heights[1, 1] is inf; expected finite heights"),
        (lambda: HeightField(np.zeros((65, 64)), (1, 1)), "has 4160 heights; expected at most 4096: a coarser grid"),
        (lambda: HeightField(np.zeros((2, 2)), (1, np.inf)), "height field has size (1, inf); expected"),
        (lambda: HeightField(np.zeros((2, 2)), (1, 0)), "height field has size (1, 0); expected"),
        (lambda: HeightField(np.ma.masked_equal([[0, 1], [1, 0]], 1), (1, 1)), "heights is a masked array"),
        (lambda: HeightField([[0, 1j], [1, 0]], (1, 1)), "heights has dtype complex128; expected real numbers"),
        (lambda: HeightField([[True, True]] * 2, (1, 1)), "heights has"),
        (lambda: GroundBox((1.0, 0.0, 1.0)), "box has size"),
        (lambda: GroundBox((1.0, 1.0, 1.0), rotation=np.diag([1, 1, -1])), "expected a rotation matrix (3, 3)"),
        (lambda: GroundSphere((0, 0, np.nan), 1.0), "sphere has center"),
        (lambda: GroundSphere((0, 0, 0), -1.0), "sphere has radius -1.0; expected a finite number above 0"),
        (
            lambda: Capsule("forearm", TIP, TIP, 0.1),
            "has equal ends (0.0, 0.0, 0.3); expected a Point with this radius",
        ),
        (lambda: Capsule("forearm", TIP, (0, 0, 1), 0.0), "has radius 0.0; expected a finite number above 0"),
    ],
)
def test_surfaces_that_mean_nothing(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((ContactError, TypeError), match=re.escape(message)):
        make()
