"""Position-based steps: derivatives, energies, friction, what is refused, and the papers' figures in short forms."""

from __future__ import annotations

import argparse
import importlib
import json
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import evaluate, trace
from dynagate.base.errors import Error
from dynagate.dynamics.configuration import neutral
from dynagate.forces import Contact, Drag, Plane, Point, Servo
from dynagate.forces.contact import corners
from dynagate.robot import Robot
from dynagate.robot.parts import Joint

from examples.papers.position_based.complementarity import StewartTrinkle
from examples.papers.position_based.drag_points import drag_points, printed
from examples.papers.position_based.equation_5 import energy_and_slope, newton_step
from examples.papers.position_based.equation_7 import forces_and_jacobian
from examples.papers.position_based.inertia import (
    add_curvature,
    add_inertia,
    add_products,
    gather,
    load_of,
    paired,
    slope,
)
from examples.papers.position_based.integrator import PositionBased, PositionBasedWarning
from examples.papers.position_based.kinematics import move, place, subtract
from examples.papers.position_based.newton_euler import NewtonEuler, accelerations, mechanical_energy
from examples.papers.position_based.printed import PrintedContact
from examples.papers.position_based.robots import bent, chain, planar_box, rod, swimmer
from examples.papers.position_based.state import Problem

pytestmark = pytest.mark.long  # Numba compiles for half a minute

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
    move(PositionBased(robot, 0.1).links, neutral(robot), rng.uniform(-1.0, 1.0, robot.nv), q)
    return q


class Mechanics:
    """The terms of a step at configurations near random ones, for differences."""

    def __init__(self, **options: Any) -> None:
        self.robot = tree()
        self.sim = PositionBased(self.robot, 0.05, **options)
        self.links, n = self.sim.links, self.robot.nv
        self.problem = Problem(self.links, self.sim.points, self.sim.joints, self.sim.settings)
        rng = np.random.default_rng(0)
        self.q = random_q(self.robot, 1)
        self.poses = np.empty((4, len(self.robot.links), 3, 4))
        self.twist = np.empty((n, 6))
        near = np.empty(self.robot.nq)
        for pose in self.poses:
            move(self.links, self.q, rng.uniform(-0.1, 0.1, n), near)
            place(self.links, near, pose, self.twist)
        self.load, self.stiffness = np.empty((4, 3, 4)), np.empty((4, 6, 6))
        self.terms = rng.uniform(0.0, 5.0, (2, n)) * (self.sim.joints.place >= 0)

    def at(self, v: np.ndarray) -> np.ndarray:
        moved = np.empty(self.robot.nq)
        move(self.links, self.q, v, moved)
        return moved

    def energy(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.empty(self.robot.nv)
        value = energy_and_slope(
            self.problem, self.at(v), self.poses[:3], self.terms, self.twist, self.load, self.stiffness, gradient
        )
        return value, gradient

    def forces(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u, n = len(self.sim.settings.second), self.robot.nv
        q = np.array([self.at(v[a * n : (a + 1) * n]) for a in range(u)])
        forces, jacobian = np.empty(u * n), np.empty((u * n, u * n))
        twists = np.empty((u, n, 6))
        forces_and_jacobian(self.problem, q, self.poses[: u + 2].copy(), self.terms, twists, forces, jacobian)
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
        gather(m.links, load)
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
    gather(m.links, load)
    add_curvature(m.links, m.twist, load, False, hessian)
    add_curvature(m.links, m.twist, load, True, mean)
    assert relative(gradient(m.q, other), differences(value, n)) < 1e-8
    assert relative(hessian, differences(first, n)) < 1e-8
    assert relative(mean, 0.5 * (hessian + hessian.T)) < 1e-14
    pose_a, twist_a, mixed, stiffness = np.empty_like(other), np.empty((n, 6)), np.zeros((n, n)), np.zeros((4, 6, 6))
    place(m.links, qa, pose_a, twist_a)
    add_inertia(m.links, pose_a, pose, 1.0, stiffness)
    gather(m.links, stiffness)
    add_products(m.links, twist_a, m.twist, stiffness, mixed)
    assert relative(mixed, differences(of_a, n).T) < 1e-8


def test_hessian_is_the_mass_matrix() -> None:
    """The part of Equation 5's Hessian that is a square's is M/dt², M by the project's own algorithm."""
    robot = chain(3)
    links = PositionBased(robot, 0.1).links
    q = np.random.default_rng(0).uniform(-1.0, 1.0, robot.nq)
    pose, twist = np.empty((6, 3, 4)), np.empty((6, 6))
    stiffness, hessian = np.zeros((6, 6, 6)), np.zeros((6, 6))
    place(links, q, pose, twist)
    add_inertia(links, pose, pose, 1.0, stiffness)
    gather(links, stiffness)
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
    assert newton_step(m.problem, m.terms[0] + 1e4, m.poses[2], m.twist, m.load, m.stiffness, slope_at, step)
    assert relative(-(hessian + 1e4 * np.eye(n)) @ step, slope_at) < 1e-6


@pytest.mark.parametrize(
    ("order", "law"),
    [(2, {}), (2, {"of": PrintedContact}), (2, {"model": "pbd"}), (2, {"beta": 1.5}), (3, None), (4, None)],
)
def test_forces_and_their_jacobian(order: int, law: dict[str, Any] | None) -> None:
    contact = None if law is None else contact_of(GROUND.points, GROUND.planes, 200.0, 300.0, **law)
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
    gather(m.links, y)
    add_products(m.links, m.twist, m.twist, y, dense)
    newton_step(m.problem, m.terms[0], m.poses[2], m.twist, m.load, m.stiffness, gradient, step)
    assert np.linalg.eigvalsh(dense)[0] > 0.0
    assert relative(step, -np.linalg.solve(dense, gradient)) < 1e-10


def test_forward_dynamics_are_the_projects() -> None:
    robot = tree()
    sim = PositionBased(robot, 0.1)
    rng = np.random.default_rng(2)
    q, qd, tau = random_q(robot, 4), rng.uniform(-1, 1, robot.nv), rng.uniform(-1, 1, robot.nv)
    qdd = evaluate(trace(robot, "forward_dynamics"), {"q": q[None], "qd": qd[None], "tau": tau[None]})["qdd"][0]
    assert relative(accelerations(sim.links, sim.joints, q, qd, tau), qdd) < 1e-11
    kinetic = evaluate(trace(robot, "kinetic_energy"), {"q": q[None], "qd": qd[None]})["kinetic_energy"]
    rest = mechanical_energy(sim.links, q, np.zeros(robot.nv))
    assert np.isclose(mechanical_energy(sim.links, q, qd) - rest, kinetic[0], rtol=1e-12)


def test_drag_is_the_papers_integral() -> None:
    """Equal drag in all directions: D/dt² (I(b, b) - 2 I(a, b) + I(a, a)) with M̃ of the volume."""
    robot = tree()
    coefficient, dt, density = 7.0, 0.05, 800.0
    drag = printed(coefficient, dt, density)
    m = Mechanics(drag=drag)
    dry = Mechanics()
    extra = m.energy(np.zeros(robot.nv))[0] - dry.energy(np.zeros(robot.nv))[0]
    a, b = m.poses[1], m.poses[2]
    integral = paired(m.links, b, b) - 2.0 * paired(m.links, a, b) + paired(m.links, a, a)
    assert np.isclose(extra, coefficient / dt**2 * integral / density, rtol=1e-12)
    assert len(drag_points(robot, drag)[0]) == 24


def lying(robot: Robot) -> float:
    """E0 - Emin in J of a chain that lies flat: it may fall until it hangs."""
    lengths = [2.0 * link.com[0] for link in robot.links if link.mass]
    return 9.81 * sum(sum(lengths[:i]) + 0.5 * length for i, length in enumerate(lengths))


def test_order_2_loses_energy_and_order_3_keeps_it() -> None:
    """Figure 2 (a) of 2018: after 5 s, a fifth is lost at order 2 and half a percent is never missed at order 3."""
    robot = chain(10)
    change = {}
    for order in (2, 3):
        track = PositionBased(robot, 0.0025, order=order).run(bent(robot), None, 2000)
        assert track.converged.all()
        change[order] = (track.energy - track.energy[0]) / lying(robot)
    assert -0.22 < change[2][-1] < -0.20
    assert change[2].max() < 1e-5
    assert abs(change[3][-1]) < 0.002
    assert np.abs(change[3]).max() < 0.005


def test_explicit_schemes_gain_energy() -> None:
    robot = chain(10)
    motions = {name: NewtonEuler(robot, 0.0025, name).run(bent(robot), None, 2000) for name in ("euler", "rk2", "rk3")}
    euler = motions["euler"]
    assert 1700 < euler.steps < 2000
    assert np.isnan(euler.q[-1]).all()
    for name, bound in (("rk2", 0.002), ("rk3", 2e-4)):
        assert np.abs(motions[name].energy - motions[name].energy[0]).max() / lying(robot) < bound
    semi = NewtonEuler(robot, 0.0025).run(bent(robot), None, 2000)
    assert semi.energy[-1] - semi.energy[0] > 0.5 * lying(robot)


@pytest.mark.parametrize("method", ["lm", "lm-full"])
def test_energy_is_stable_at_large_steps(method: Any) -> None:
    """Equation 5 to dt 0.128: no energy comes in."""
    robot = chain(10)
    for dt in (0.016, 0.05, 0.128):
        track = PositionBased(robot, dt, method=method).run(bent(robot), None, round(5.0 / dt))
        assert (track.energy - track.energy[0]).max() < 0.005 * lying(robot)
        assert track.converged.mean() > 0.98


def test_methods_reach_the_same_configuration() -> None:
    """All optimizers and both objectives, on a floating chain in drag."""
    robot = chain(2, floating=True, length=0.5, joint="hinge")
    q0, qd0 = neutral(robot), np.linspace(-1.0, 1.0, robot.nv)
    ends = []
    for options in (
        {"method": "lm"},
        {"method": "lm-full"},
        {"method": "lbfgs"},
        {"method": "lm", "objective": "forces"},
    ):
        sim = PositionBased(robot, 0.01, drag=Drag((1e3, 3e3)), tolerance=1e-6, **options)  # type: ignore[arg-type]
        track = sim.run(q0, qd0, 3)
        assert track.converged.all(), options
        ends.append(track.q[-1])
    assert np.abs(np.array(ends) - ends[0]).max() < 1e-6


def test_steps_pass_through_larger_forces() -> None:
    """Newton's iterations on long chains converge, but not monotonically: a bound that fell with each of them left
    steps without a solution and took seven times the iterations."""
    robot = chain(40)
    track = PositionBased(robot, 0.05, objective="forces").run(bent(robot), None, 60)
    assert track.converged.all()
    assert track.iterations.mean() < 12.0


def test_a_batch_is_its_trajectories() -> None:
    robot = chain(3)
    q0 = np.random.default_rng(0).uniform(-0.5, 0.5, (5, robot.nq))
    sim = PositionBased(robot, 0.05, threads=2)
    batch = sim.run(q0, None, 4)
    assert batch.q.shape == (5, 5, robot.nq)
    for b, start in enumerate(q0):
        alone = sim.run(start, None, 4)
        assert np.array_equal(alone.q, batch.q[b])
        assert np.array_equal(alone.iterations, batch.iterations[b])


def test_limits_follow_newton_euler() -> None:
    """Small steps of order 2 and of order 3 approach a fine Runge-Kutta solution at orders 1 and 2."""
    robot, span = chain(3), 0.2
    q0 = np.random.default_rng(1).uniform(-0.5, 0.5, robot.nq)
    qd0 = np.random.default_rng(2).uniform(-1.0, 1.0, robot.nv)
    exact = NewtonEuler(robot, 1e-4, "rk3").run(q0, qd0, 2000).q[-1]
    for order, ratio in ((2, 2.0), (3, 4.0)):
        errors = [
            np.abs(
                PositionBased(robot, dt, order=order, tolerance=1e-9).run(q0, qd0, round(span / dt)).q[-1] - exact
            ).max()
            for dt in (0.004, 0.002)
        ]
        assert 0.8 * ratio < errors[0] / errors[1] < 1.25 * ratio


BOX = corners("box", (1.0, 0.0, 0.5))


def contact_of(*args: Any, of: type[Contact] = Contact, **law: Any) -> Contact:
    return of(*args, **law)


def slide(friction: float, dt: float = 0.05, **law: Any) -> float:
    """Meters that a box slides which begins at 1 m/s."""
    contact = contact_of(BOX, stiffness=1e4, friction=friction, **law)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositionBasedWarning)
        sim = PositionBased(planar_box(), dt, contact=contact, objective="forces")
        depth = (9.81 / 2.0 / 1e4) ** 0.5
        return float(sim.run([0.0, 0.25 - depth, 0.0], [1.0, 0.0, 0.0], 400).q[-1, 0])


def test_a_box_slides_as_far_as_the_closed_form() -> None:
    """Figure 5 of 2019: s = v0 C⊥ / (2 g C∥ dt) within 1 % until the box rocks, monotone; PBD's rises again."""
    frictions = [1e4, 3e4, 1e5, 3e5, 1e6]
    pbfd = [slide(c) for c in frictions]
    assert np.allclose(pbfd[:4], [1e4 / (2.0 * 9.81 * c * 0.05) for c in frictions[:4]], rtol=0.01)
    pbd = [slide(c, model="pbd") for c in frictions]
    assert pbd[1] > pbfd[1] * 1.05
    assert np.diff(pbfd).max() < 0.0 < np.diff(pbd).max()


def test_the_printed_exponent_is_drag() -> None:
    assert slide(1e5, of=PrintedContact) > 10.0 * slide(1e5)


def test_dry_friction_by_complementarity() -> None:
    """v0²/(2 μ g), less v0 dt/2 of a step whose velocity comes first."""
    for mu in (0.1, 0.5):
        track = StewartTrinkle(planar_box(), 0.01, BOX, mu=mu).run(
            np.array([0.0, 0.25, 0.0]), np.array([1.0, 0, 0]), 200
        )
        assert track.solved.all()
        assert np.isclose(track.q[-1, 0], 1.0 / (2.0 * mu * 9.81) - 0.005, atol=1e-3)
        assert np.abs(track.q[:, 1] - 0.25).max() < 1e-6
    deep = StewartTrinkle(planar_box(), 0.01, BOX).run(np.array([0.0, 0.24, 0.0]), None, 100)
    assert np.abs(deep.q[-1, 1] - 0.25) < 1e-6  # a penetration goes, a fifth of it a step


def test_equal_drag_moves_no_swimmer() -> None:
    """A gait in drag equal in all directions leaves the center of mass where it is; in unequal drag it swims."""
    robot = swimmer()
    times = 0.05 * np.arange(1, 41)
    target = np.zeros((40, robot.nv))
    target[:, 6:] = 0.6 * np.sin(2.0 * np.pi * times[:, None] - 1.2 * np.arange(3))
    ways = {}
    for viscosity in ((1e4, 1e4), (1e3, 1e4)):
        track = PositionBased(robot, 0.05, drag=Drag(viscosity), servo=Servo(50.0, 1.0)).run(
            neutral(robot), None, 40, target=target
        )
        center = evaluate(trace(robot, "center_of_mass"), {"q": track.q})["center_of_mass"]
        ways[viscosity] = np.linalg.norm(center[-1] - center[0])
    assert ways[1e4, 1e4] < 1e-4
    assert ways[1e3, 1e4] > 0.1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dt": 0.0}, "dt is 0; expected a finite number above 0"),
        ({"dt": "0.01"}, "dt is '0.01'; expected a finite number above 0"),
        ({"order": 2.5}, "order is 2.5; expected a whole number, 2 or more"),
        ({"threads": 1.5}, "threads is 1.5; expected a whole number, 1 or more"),
        ({"contact": BOX}, r"contact is \[Point.*; expected a Contact or None"),
        ({"drag": (1.0, 1.0)}, r"drag is \(1.0, 1.0\); expected a Drag or None"),
        ({"servo": 50.0}, "servo is 50.0; expected a Servo or None"),
        ({"robot": "arm.urdf"}, "robot is a str; expected a dynagate.Robot"),
        ({"order": 1}, "order is 1; expected a whole number, 2 or more"),
        ({"iterations": 0}, "iterations is 0; expected a whole number, 1 or more"),
        ({"method": "newton"}, "method 'newton'; expected one of lm, lm-full, lbfgs"),
        ({"objective": "work"}, "objective 'work'; expected 'energy' or 'forces'"),
        ({"order": 3, "objective": "energy"}, "order 3 has no energy; take objective 'forces', or order 2"),
        ({"order": 3, "drag": Drag((1.0, 1.0))}, "order 3 takes no contact, drag, servo, damping or armature"),
        ({"contact": GROUND, "objective": "energy"}, "'pbfd' contact has no energy"),
        ({"contact": GROUND, "method": "lm-full"}, "method 'lm-full' would need third derivatives"),
        ({"contact": Contact(BOX)}, "contact point on link 'box', which robot 'tree' has not; expected one of link0"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(Error, match=text):
        PositionBased(**{"robot": tree(), "dt": 0.01} | options)


def test_inputs_that_are_refused() -> None:
    robot = tree()
    sim, q0 = PositionBased(robot, 0.01), neutral(robot)
    for inputs, text in (
        ({"q0": q0[1:]}, r"q0 has shape \(12,\); expected \(1, 13\)"),
        ({"q0": q0 * np.nan}, "q0 has a number that is not finite"),
        ({"q0": q0 * 2.0}, r"q0\[3:7\] is a quaternion whose length is not 1"),
        ({"q0": q0, "tau": np.ones(robot.nv)}, "tau is not 0 at a spherical or floating joint"),
        ({"q0": q0, "steps": 0}, "steps is 0; expected a whole number, 1 or more"),
        ({"q0": q0, "qd0": 1.0}, r"qd0 has shape \(\); expected \(1, 11\)"),
        ({"q0": "zero"}, "q0 has dtype <U4; expected real numbers"),
        ({"q0": np.zeros((0, robot.nq))}, r"q0 has shape \(0, 13\); expected one start or more"),
        ({"q0": q0, "target": np.eye(robot.nv)[6]}, "target is not 0 and there is no servo"),
    ):
        with pytest.raises(Error, match=text):
            sim.run(**inputs)  # type: ignore[arg-type]
    for text, call in (
        ("servo has stiffness -1; expected a finite number, 0 or more", lambda: Servo(-1.0)),
        ("servo has joints 'knee'; expected a tuple of names", lambda: Servo(1.0, joints="knee")),  # type: ignore[arg-type]
        ("servo has joints 3; expected a tuple of names", lambda: Servo(1.0, joints=3)),  # type: ignore[arg-type]
        (r"servo has joints \('x', 1\); expected a", lambda: Servo(1.0, joints=("x", 1))),  # type: ignore[arg-type]
        (
            "servo has joint 'knee', which is no revolute or prismatic joint of robot 'planar box'; expected some of "
            "pitch, x, z",
            lambda: PositionBased(planar_box(), 0.01, servo=Servo(1.0, joints=("knee",))),
        ),
        (
            "servo has joint 'free', which is no .*; expected some of z1, z2, z3",
            lambda: PositionBased(swimmer(), 0.01, servo=Servo(1.0, joints=("free",))),
        ),
        ("drag has density 0", lambda: Drag((1.0, 1.0), 0.0)),
        (r"drag has viscosity \(1.0,\); expected two", lambda: Drag((1.0,))),  # type: ignore[arg-type]
        ("dt is 0; expected a finite number above 0", lambda: printed(1.0, 0.0)),
        ("plane with normal", lambda: Plane((0.0, 0.0, 0.0))),
        ("contact point on link 'box' is at .* expected three", lambda: Point("box", (np.nan, 0.0, 0.0))),
        (r"contact point on link 'box' is at \(0.0, 1.0\)", lambda: Point("box", (0.0, 1.0))),  # type: ignore[arg-type]
        ("scheme 'rk5'; expected one of euler, semi-implicit, rk2, rk3, rk4", lambda: NewtonEuler(robot, 0.01, "rk5")),
        (r"q0 has shape \(12,\)", lambda: NewtonEuler(robot, 0.01).run(q0[1:], None, 1)),
    ):
        with pytest.raises(Error, match=text):
            call()


def test_a_servo_holds_its_own_joints() -> None:
    """A box at two meters beside its servo's target: the height is held, x is free, a target for x is refused."""
    sim = PositionBased(planar_box(), 0.01, servo=Servo(1e4, 100.0, ["z"]))
    track = sim.run([2.0, 1.0, 0.0], [1.0, 0.0, 0.5], 100, target=[0.0, 1.0, 0.0])
    assert track.converged.all()
    np.testing.assert_allclose(track.q[-1], [3.0, 1.0 - 9.81 / 1e4, 0.5], atol=1e-3)
    with pytest.raises(Error, match="target is not 0 at degree of freedom 2, which no servo holds; expected 0 there"):
        sim.run([2.0, 1.0, 0.0], steps=2, target=[0.0, 1.0, 0.1])
    with pytest.raises(Error, match="target is not 0 and there is no servo"):
        PositionBased(planar_box(), 0.01, servo=Servo(1.0, joints=())).run(np.zeros(3), target=np.ones(3))


def test_dry_friction_that_is_refused() -> None:
    sim = StewartTrinkle(planar_box(), 0.01, BOX)
    q0 = [0.0, 0.25, 0.0]
    for inputs, text in (
        ({"q0": q0[:2]}, r"q0 has shape \(2,\)"),
        ({"q0": [q0, q0]}, r"q0 has shape \(2, 3\); expected \(3,\), one start"),
        ({"q0": q0, "steps": 0}, "steps is 0; expected a whole number, 1 or more"),
        ({"q0": q0, "target": np.ones(3)}, "target is not 0 and there is no servo"),
    ):
        with pytest.raises(Error, match=text):
            sim.run(**inputs)  # type: ignore[arg-type]
    with pytest.raises(Error, match="mu is 'a'; expected a finite number, 0 or more"):
        StewartTrinkle(planar_box(), 0.01, BOX, mu="a")  # type: ignore[arg-type]
    with pytest.warns(PositionBasedWarning, match="3 of 3 steps have no solution, the first of them step 0"):
        sim.run(q0, [1e9, 0.0, 0.0], 3)


def test_measured_limits_are_warned_of() -> None:
    robot = chain(1)
    with pytest.warns(
        PositionBasedWarning, match="order 3 at dt 0.01 s: .* seen to stick from 0.01 s on, none at 0.005"
    ):
        PositionBased(robot, 0.01, order=3)
    with pytest.warns(PositionBasedWarning, match="order 3 with 200 degrees of freedom: .* 2 of 400 steps were seen"):
        PositionBased(chain(100), 0.0025, order=3)
    with pytest.warns(PositionBasedWarning, match="order 4 is experimental: .* grow for 0.026 < ω dt < 6.84"):
        PositionBased(robot, 0.001, order=4)
    with pytest.warns(
        PositionBasedWarning, match="tolerance 1e-07 at dt 1e-06 s: the rounding .* of about 6e-07 beside"
    ):
        PositionBased(robot, 1e-6)
    lazy = PositionBased(chain(3), 0.05, iterations=1, tolerance=1e-12)
    with pytest.warns(PositionBasedWarning, match="2 of 2 steps did not converge, the first of them step 0, whose"):
        lazy.run(bent(chain(3)), None, 2)


FOLDER = Path(__file__).parents[2] / "examples" / "papers" / "position_based"
FIGURES = ("energy", "cost", "optimizers", "batches", "sliding_box", "slope", "swimmer", "motion")


@pytest.mark.parametrize("name", FIGURES)
def test_figures_in_short(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--short", "--folder", str(tmp_path)])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    data = json.loads((tmp_path / f"{name}.json").read_text())
    assert data
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    if name == "swimmer":
        assert data["best by generation (m)"][-1] > data["best by generation (m)"][0]
    if name == "cost":
        assert all(row["energy gained"] < 1.0 for row in data["methods"]["JTJ-LM, energy"])


def test_lines_of_a_robot() -> None:
    """Each step has its own lines: those of a chain that lies, then hangs."""
    pictures = importlib.import_module("examples.papers.position_based.pictures")
    robot = chain(2, joint="hinge", length=0.5)
    lines = pictures.skeleton(robot, [[0.0, 0.0], [-np.pi / 2, 0.0]], pictures.ABOVE)
    assert np.allclose(lines[0, :, :, 1], 0.0)
    assert np.allclose(lines[1, :, :, 0], 0.0)
    assert np.isclose(lines[1, :, :, 1].min(), -1.0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--jobs", "0"], "argument --jobs: '0'; expected a whole number, 1 or more"),
        (["--cluster", "here"], "--cluster here is of the backend ray; expected --backend ray beside it"),
    ],
)
def test_options_of_rollouts_that_are_refused(
    options: list[str], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rollouts = importlib.import_module("examples.papers.position_based.rollouts")
    parser = argparse.ArgumentParser()
    for option, settings in rollouts.OPTIONS.items():
        parser.add_argument(f"--{option}", **settings)

    def connect() -> None:
        chosen = parser.parse_args(options)
        rollouts.connect(chosen.backend, chosen.cluster)

    with pytest.raises(SystemExit) as ended:
        connect()
    assert text in f"{ended.value}{capsys.readouterr().err}"
