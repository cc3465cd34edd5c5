"""Position-based steps: derivatives, energies, friction, what is refused, and the papers' figures in short forms."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from dynagate import evaluate, trace
from dynagate.dynamics.configuration import neutral
from dynagate.integrators.contact import Contact, Plane, corners
from dynagate.integrators.drag import Drag, drag_points
from dynagate.integrators.position_based import PositionBased, PositionBasedWarning
from dynagate.integrators.position_based_energy import energy_and_slope, newton_step
from dynagate.integrators.position_based_inertia import (
    add_curvature,
    add_inertia,
    add_products,
    gather_loads,
    gather_stiffness,
    load_of,
    paired,
    slope,
)
from dynagate.integrators.position_based_kinematics import move, place, subtract
from dynagate.integrators.position_based_newton_euler import accelerations, mechanical_energy
from dynagate.integrators.position_based_residual import forces_and_jacobian
from dynagate.integrators.position_based_robots import chain, rod
from dynagate.robot import Robot
from dynagate.robot.model import Joint

GROUND = Contact(corners("link1", (1.0, 0.0, 0.4)), (Plane(offset=3.0), Plane((0.1, 0.2, 1.0), 2.5)), 200.0, 300.0)


def tree() -> Robot:
    """Two branches with every type of joint."""
    joints = [
        Joint("free", "floating", translation=(0.1, 0.2, 0.3)),
        Joint("turn", "revolute", translation=(1.0, 0.0, 0.2), axis=(0.6, 0.0, 0.8)),
        Joint("ball", "spherical", translation=(0.9, 0.1, 0.0)),
        Joint("slide", "prismatic", translation=(0.5, 0.0, 0.1), axis=(0.0, 0.8, 0.6)),
    ]
    parents = (-1, 0, 1, 0)
    return Robot("tree", tuple(rod(f"link{i}", p, joints[i], 1.0, 1.0 + i, 0.1) for i, p in enumerate(parents)))


def random_q(robot: Robot, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    q = np.empty(robot.nq)
    move(PositionBased(robot, 0.1)._links, neutral(robot), rng.uniform(-1.0, 1.0, robot.nv), q)
    return q


class Mechanics:
    """The terms of a step at configurations near random ones, for differences."""

    def __init__(self, **options: Any) -> None:
        self.robot = tree()
        self.sim = PositionBased(self.robot, 0.05, **options)
        self.links, n = self.sim._links, self.robot.nv
        rng = np.random.default_rng(0)
        self.q = random_q(self.robot, 1)
        self.poses = np.empty((4, len(self.robot.links), 3, 4))
        self.twist = np.empty((n, 6))
        near = np.empty(self.robot.nq)
        for pose in self.poses:
            move(self.links, self.q, rng.uniform(-0.1, 0.1, n), near)
            place(self.links, near, pose, self.twist)
        self.load, self.stiffness = np.empty((4, 3, 4)), np.empty((4, 6, 6))
        self.terms = rng.uniform(0.0, 5.0, (2, n)) * (self.sim._joints.place >= 0)

    def at(self, v: np.ndarray) -> np.ndarray:
        moved = np.empty(self.robot.nq)
        move(self.links, self.q, v, moved)
        return moved

    def energy(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.empty(self.robot.nv)
        parts = (self.links, self.sim._points, self.sim._joints, self.sim._settings, self.at(v), self.poses[:3])
        value = energy_and_slope(*parts, self.terms, self.twist, self.load, self.stiffness, gradient)
        return value, gradient

    def forces(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u, n = len(self.sim._settings.second), self.robot.nv
        q = np.array([self.at(v[a * n : (a + 1) * n]) for a in range(u)])
        forces, jacobian = np.empty(u * n), np.empty((u * n, u * n))
        twists = np.empty((u, n, 6))
        parts = (self.links, self.sim._points, self.sim._joints, self.sim._settings, q, self.poses[: u + 2].copy())
        forces_and_jacobian(*parts, self.terms, twists, forces, jacobian)
        return forces, jacobian


def differences(function: Any, n: int, h: float = 1e-6) -> np.ndarray:
    """∂/∂v at 0, columns last."""
    return np.stack([(function(h * e) - function(-h * e)) / (2.0 * h) for e in np.eye(n)], axis=-1)


def relative(value: np.ndarray, reference: np.ndarray) -> float:
    return float(np.abs(value - reference).max() / np.abs(reference).max())


def test_move_and_subtract_are_inverse() -> None:
    m = Mechanics()
    v = np.random.default_rng(3).uniform(-1.0, 1.0, m.robot.nv)
    back = np.empty(m.robot.nv)
    subtract(m.links, m.at(v), m.q, back)
    assert np.abs(back - v).max() < 1e-14


def test_algorithms_1_to_3() -> None:
    """∂I/∂q_b, ∂²I/∂q_b² and ∂²I/∂q_a∂q_b of a tree with every joint."""
    m = Mechanics()
    n = m.robot.nv
    other, twists = m.poses[0], np.empty((n, 6))
    qa = random_q(m.robot, 5)

    def first(v: np.ndarray) -> np.ndarray:
        return gradient(m.at(v), other)

    def gradient(q: np.ndarray, a: np.ndarray) -> np.ndarray:
        pose, load, result = np.empty_like(other), np.zeros_like(other), np.empty(n)
        place(m.links, q, pose, twists)
        load_of(m.links, a, pose, load)
        gather_loads(m.links, load)
        slope(m.links, twists, load, result)
        return result

    def value(v: np.ndarray) -> float:
        pose = np.empty_like(other)
        place(m.links, m.at(v), pose, np.empty((n, 6)))
        return paired(m.links, other, pose)

    def of_a(v: np.ndarray) -> np.ndarray:
        moved, pose = np.empty(m.robot.nq), np.empty_like(other)
        move(m.links, qa, v, moved)
        place(m.links, moved, pose, np.empty((n, 6)))
        return gradient(m.q, pose)

    pose, load, hessian, mean = np.empty_like(other), np.zeros_like(other), np.zeros((n, n)), np.zeros((n, n))
    place(m.links, m.q, pose, m.twist)
    load_of(m.links, other, pose, load)
    gather_loads(m.links, load)
    add_curvature(m.links, m.twist, load, False, hessian)
    add_curvature(m.links, m.twist, load, True, mean)
    assert relative(gradient(m.q, other), differences(value, n)) < 1e-8
    assert relative(hessian, differences(first, n)) < 1e-8
    assert relative(mean, 0.5 * (hessian + hessian.T)) < 1e-14
    pose_a, twist_a, mixed, stiffness = np.empty_like(other), np.empty((n, 6)), np.zeros((n, n)), np.zeros((4, 6, 6))
    place(m.links, qa, pose_a, twist_a)
    add_inertia(m.links, pose_a, pose, 1.0, stiffness)
    gather_stiffness(m.links, stiffness)
    add_products(m.links, twist_a, m.twist, stiffness, mixed)
    assert relative(mixed, differences(of_a, n).T) < 1e-8


def test_hessian_is_the_mass_matrix() -> None:
    """The part of Equation 5's Hessian that is a square's is M/dt², M by the project's own algorithm."""
    robot = chain(3)
    links = PositionBased(robot, 0.1)._links
    q = np.random.default_rng(0).uniform(-1.0, 1.0, robot.nq)
    pose, twist = np.empty((6, 3, 4)), np.empty((6, 6))
    stiffness, hessian = np.zeros((6, 6, 6)), np.zeros((6, 6))
    place(links, q, pose, twist)
    add_inertia(links, pose, pose, 1.0, stiffness)
    gather_stiffness(links, stiffness)
    add_products(links, twist, twist, stiffness, hessian)
    mass = evaluate(trace(robot, "mass_matrix"), {"q": q[None]})["m"][0]
    assert relative(hessian, mass) < 1e-12


@pytest.mark.parametrize("contact", [None, "pbd"])
def test_energy_and_its_derivatives(contact: str | None) -> None:
    law = contact and Contact(GROUND.points, GROUND.planes, 200.0, 300.0, beta=1.5, gamma=1.2, model="pbd")
    m = Mechanics(contact=law or None, drag=Drag((30.0, 80.0)), method="lm-full")
    n = m.robot.nv
    gradient = differences(lambda v: m.energy(v)[0], n)
    assert relative(m.energy(np.zeros(n))[1], gradient) < 1e-7
    hessian = differences(lambda v: m.energy(v)[1], n)
    hessian = 0.5 * (hessian + hessian.T)
    _, slope_at = m.energy(np.zeros(n))
    step = np.empty(n)
    assert newton_step(
        m.links, m.sim._settings, m.terms[0] + 1e4, m.poses[2], m.twist, m.load, m.stiffness, slope_at, step
    )
    assert relative(-(hessian + 1e4 * np.eye(n)) @ step, slope_at) < 1e-6


@pytest.mark.parametrize(
    ("order", "law"),
    [(2, {}), (2, {"printed_exponent": True}), (2, {"model": "pbd"}), (2, {"beta": 1.5}), (3, None), (4, None)],
)
def test_forces_and_their_jacobian(order: int, law: dict[str, Any] | None) -> None:
    contact = None if law is None else Contact(GROUND.points, GROUND.planes, 200.0, 300.0, **law)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositionBasedWarning)
        m = Mechanics(order=order, contact=contact, objective="forces")
    n = m.robot.nv * (order - 1)
    m.poses = np.concatenate([m.poses, m.poses])
    forces, jacobian = m.forces(np.zeros(n))
    assert relative(jacobian, differences(lambda v: m.forces(v)[0], n)) < 1e-7
    if order == 2 and law == {"model": "pbd"}:
        energy = Mechanics(contact=contact, objective="energy")
        assert relative(forces, energy.energy(np.zeros(n))[1]) < 1e-12


def test_elimination_is_the_dense_solution() -> None:
    """O(n) steps on a tree with floating and spherical joints, drag and contact, beside M/dt² + JᵀCJ."""
    drag = Drag((30.0, 80.0))
    law = Contact(GROUND.points, GROUND.planes, 200.0, 300.0, model="pbd")
    m = Mechanics(drag=drag, contact=law)
    n = m.robot.nv
    _, gradient = m.energy(np.zeros(n))
    step, y, dense = np.empty(n), m.stiffness.copy(), np.diag(m.terms[0])
    add_inertia(m.links, m.poses[2], m.poses[2], 1.0 / 0.05**2, y)
    gather_stiffness(m.links, y)
    add_products(m.links, m.twist, m.twist, y, dense)
    newton_step(m.links, m.sim._settings, m.terms[0], m.poses[2], m.twist, m.load, m.stiffness, gradient, step)
    assert np.linalg.eigvalsh(dense)[0] > 0.0
    assert relative(step, -np.linalg.solve(dense, gradient)) < 1e-10


def test_forward_dynamics_are_the_projects() -> None:
    robot = tree()
    sim = PositionBased(robot, 0.1)
    rng = np.random.default_rng(2)
    q, qd, tau = random_q(robot, 4), rng.uniform(-1, 1, robot.nv), rng.uniform(-1, 1, robot.nv)
    qdd = evaluate(trace(robot, "forward_dynamics"), {"q": q[None], "qd": qd[None], "tau": tau[None]})["qdd"][0]
    assert relative(accelerations(sim._links, sim._joints, q, qd, tau), qdd) < 1e-11
    kinetic = evaluate(trace(robot, "kinetic_energy"), {"q": q[None], "qd": qd[None]})["kinetic_energy"]
    rest = mechanical_energy(sim._links, q, np.zeros(robot.nv))
    assert np.isclose(mechanical_energy(sim._links, q, qd) - rest, kinetic[0], rtol=1e-12)


def test_drag_is_the_papers_integral() -> None:
    """Equal drag in all directions: D/dt² (I(b, b) - 2 I(a, b) + I(a, a)) with M̃ of the volume."""
    robot = tree()
    coefficient, dt, density = 7.0, 0.05, 800.0
    drag = Drag.printed(coefficient, dt, density)
    m = Mechanics(drag=drag)
    dry = Mechanics()
    extra = m.energy(np.zeros(robot.nv))[0] - dry.energy(np.zeros(robot.nv))[0]
    a, b = m.poses[1], m.poses[2]
    integral = paired(m.links, b, b) - 2.0 * paired(m.links, a, b) + paired(m.links, a, a)
    assert np.isclose(extra, coefficient / dt**2 * integral / density, rtol=1e-12)
    assert len(drag_points(robot, drag)[0]) == 24
