"""A step of a robot whose points meet rigid ground: forces that only press, and a round cone of dry friction.

Newton-Euler steps of velocities after Stewart & Trinkle (1996), semi-implicit. With the free velocity v + dt q̈, the
points' Jacobian J in axes of their planes (normal, tangent, tangent), W = J M⁻¹ Jᵀ + c and the impulses r,

    v⁺ = v + dt q̈ + M⁻¹ Jᵀ r,    u = W r + b,    0 ≤ u_n ⟂ r_n ≥ 0,    |r_t| ≤ μ r_n, against u_t,

where b is the free velocity of the points, and in normal direction more by gap / dt of a point above its plane, so that
it arrives and does not pass, or less by a share of how deep it is. The conditions are r = P(r - u / ρ) with the
projection P on half-line and disc, as in `friction_cone`; sweeps of Gauss and Seidel over the points find r.

A step is a graph that begins it, a loop of sweeps that ends for each sample by itself, and a graph that ends it, so
that it runs on every backend of `graph.loop.Loop`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynagate.base.arguments import check_time_step, is_number, is_whole
from dynagate.base.explained import explained
from dynagate.base.largest import MAX_ITERATIONS
from dynagate.base.naming import label, scope
from dynagate.dynamics.configuration import advance
from dynagate.dynamics.frames import Poses, poses
from dynagate.dynamics.inverse_dynamics import inverse_dynamics
from dynagate.dynamics.mass_matrix import check_invertible, factorise, inwards, mass_matrix, outwards
from dynagate.dynamics.spatial import Array, Scalar, array, select, sqrt, zeros
from dynagate.dynamics.tree import Tree
from dynagate.forces.contact import ContactError, Plane, Point, check_points
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop, Until
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.integrators.equations_vjp import AFTER, RESIDUAL, Equations
from dynagate.integrators.step import StepOptions, StepRecording
from dynagate.robot import Robot

CORRECTED = 0.2
"""Share of a depth that a step takes back."""

IMPULSE = "impulse"
"""The field of `Trajectories` that has the impulses r."""

LEAST = 1e-30
"""Beside the square of a tangential impulse: of no impulse there is a direction too."""


@explained
@dataclass(frozen=True)
class RigidContact:
    """Points of links that rigid planes stop.

    points: those that may touch. planes: of obstacles. friction: μ of Coulomb's law, the same in all directions and at
    rest. compliance: c in 1/kg: a point gives way with a velocity of c times its impulse, which shares a load among
    points that could carry it in many ways. tolerance: m/s, by how much the last sweep may move a point. sweeps: most
    of them in a step.

    Raises ContactError: there are no points or planes, or a number is negative or not finite.
    """

    points: Sequence[Point]
    planes: Sequence[Plane] = (Plane(),)
    friction: float = 0.8
    compliance: float = 1e-6
    tolerance: float = 1e-7
    sweeps: int = 400

    def __post_init__(self) -> None:
        for name, kind in (("points", Point), ("planes", Plane)):
            items = getattr(self, name)
            if not (isinstance(items, Sequence) and items and all(isinstance(item, kind) for item in items)):
                raise ContactError(
                    f"rigid contact has {name} {items!r:.60}; expected a sequence of one {kind.__name__} or more"
                )
            object.__setattr__(self, name, tuple(items))
        for name, least in (("friction", "0 or more"), ("compliance", "0 or more"), ("tolerance", "more than 0")):
            value = getattr(self, name)
            if not (
                is_number(value) and math.isfinite(value) and (value > 0.0 or (value == 0.0 and least == "0 or more"))
            ):
                raise ContactError(f"rigid contact has {name} {value!r}; expected a finite number, {least}")
        if not (is_whole(self.sweeps) and self.sweeps >= 1):
            raise ContactError(f"rigid contact has sweeps {self.sweeps!r}; expected a whole number of 1 or more")
        if self.sweeps > MAX_ITERATIONS:
            raise ContactError(f"rigid contact has sweeps {self.sweeps!r}; expected at most {MAX_ITERATIONS}")

    @property
    def pairs(self) -> int:
        """Points times planes: three impulses each."""
        return len(self.points) * len(self.planes)


def contact_loop(robot: Robot, contact: RigidContact, dt: float, *, every: int = 1) -> Loop:
    """The loop of a rollout: q (nq,), qd (nv,), r (3 pairs,), the impulses in the step before in N s, and tau (nv,) of
    each step, N m or N, to q_next, qd_next, swept, its impulses, and counted, its sweeps, of every so many steps, and
    failed (), how many steps have not converged until then.

    The impulses of a pair are normal and tangents (`axes_of`), point after point, of a point plane after plane. A step
    that took all sweeps has not reached the tolerance.
    dt: s. Raises RobotError: joints that mimic others, or no M⁻¹; ContactError: a point on no link of the robot;
    ValueError: dt.
    """
    check_time_step(dt)
    robot.check_uncoupled("a step with rigid contact")
    check_invertible(Tree(robot))
    links = check_points(robot, contact.points, balls=True)
    return Loop(
        f"contact{f'_every_{every}' if every > 1 else ''}",
        robot.name,
        (_begin(robot, contact, links, dt), _search(robot, contact), _end(robot, contact, dt)),
        {"q_next": "q", "qd_next": "qd", "swept": "r", "failed_next": "failed"},
        Count(),
        per_turn=("tau",),
        kept=("q_next", "qd_next", "swept", "counted", "failed_next"),
        every=every,
    )


@explained
def axes_of(plane: Plane) -> np.ndarray:
    """Rows (3, 3): the plane's normal and two tangents, in base axes."""
    normal = np.array(plane.normal)
    first = np.zeros(3)
    first[np.argmin(np.abs(normal))] = 1.0
    tangent = np.cross(normal, first)
    tangent /= np.linalg.norm(tangent)
    return np.stack([normal, tangent, np.cross(normal, tangent)]) + 0.0


def _begin(robot: Robot, contact: RigidContact, links: Sequence[int], dt: float) -> Graph:
    """q, qd, tau to the free velocity, answer M⁻¹ Jᵀ, W, b, 1 / ρ, and no sweeps yet."""
    tree, rows = Tree(robot), 3 * contact.pairs
    recording, sizes = Recording("begin_contact", robot.name), typical_sizes(tree)
    quaternions = tuple((part.start, part.stop) for part in robot.quaternions())
    q = recording.input("q", (robot.nq,), sizes["q"], unit_vectors=quaternions)
    qd, tau = (recording.input(name, (robot.nv,), sizes[name]) for name in ("qd", "tau"))
    bias = inverse_dynamics(tree, list(q), list(qd), [0.0] * tree.nv)
    factor = factorise(tree, mass_matrix(tree, list(q)))
    with scope("solve"):
        pushed = inwards(tree, factor, [t - b for t, b in zip(tau, bias, strict=True)])
        free = qd + array(outwards(tree, factor, pushed)) * dt
    jacobian, gaps = _rows(tree, contact, links, poses(tree, list(q), "base"))
    with scope("delassus"):
        halves = [inwards(tree, factor, row) for row in jacobian]
        answer = array([outwards(tree, factor, half) for half in halves])
        scaled = [array(half) * array(factor.inverse_d) for half in halves]
        w = zeros(rows, rows)
        for a in range(rows):
            for b in range(a, rows):
                w[a, b] = w[b, a] = scaled[a] @ array(halves[b])
            w[a, a] = w[a, a] + contact.compliance
        velocity = jacobian @ free
        for c, gap in enumerate(gaps):
            velocity[3 * c] = velocity[3 * c] + _closing(gap, dt)
    inverse = _inverse_steepness(w)
    return recording.graph(
        {"free": free, "answer": answer, "w": w, "b": velocity, "inverse": inverse, "count": zeros()}
    )


def _rows(tree: Tree, contact: RigidContact, links: Sequence[int], where: Poses) -> tuple[Array, list[Scalar]]:
    """J (3 pairs, nv) in axes of the planes, and the gaps of the pairs in m."""
    result, gaps = zeros(3 * contact.pairs, tree.nv), []
    place = 0
    for point, link in zip(contact.points, links, strict=True):
        with scope("constraint", f"link{link}"):
            at = where.position[link] + where.rotation[link] @ tree.point(link, point.position)
            columns = _columns(tree, link, where, at)
            for plane in contact.planes:
                axes = array(axes_of(plane))
                if point.radius:
                    columns = _columns(tree, link, where, at - axes[0] * point.radius)
                result[place : place + 3] = axes @ columns
                gaps.append(label(axes[0] @ at - (plane.offset + point.radius), "gap"))
                place += 3
    return result, gaps


def _closing(gap: Scalar, dt: float) -> Scalar:
    """m/s: what a step may close of a gap, or is to take back of a depth."""
    return select(gap, gap, gap * CORRECTED) * (1.0 / dt)


def _columns(tree: Tree, link: int, where: Poses, at: Array) -> Array:
    """∂velocity/∂q̇ (3, nv) of the point of a link that is at a place (3,)."""
    columns = zeros(3, tree.nv)
    for d in tree.support[link]:
        j = tree.link_of[d]
        columns[:, d] = tree.axis_at(d, where.rotation[j], where.position[j] - at).linear
    return columns


def _inverse_steepness(w: Array) -> Array:
    """1 / ρ (pairs, 2): of the normal, and of twice the larger tangent's."""
    result = zeros(len(w) // 3, 2)
    for c in range(len(result)):
        n, t = 3 * c, 3 * c + 1
        mean, half = (w[t, t] + w[t + 1, t + 1]) * 0.5, (w[t, t] - w[t + 1, t + 1]) * 0.5
        result[c, 0] = 1.0 / w[n, n]
        result[c, 1] = 1.0 / (mean + sqrt(half * half + w[t, t + 1] * w[t, t + 1]))
    return result


def _search(robot: Robot, contact: RigidContact) -> Loop:
    return Loop(
        "sweeps",
        robot.name,
        (_sweep(robot, contact),),
        {"swept": "r", "counted": "count"},
        Until("moved", contact.tolerance, contact.sweeps),
        last=("swept", "counted"),
    )


def _sweep(robot: Robot, contact: RigidContact) -> Graph:
    """Each pair's conditions in turn, the others' impulses as they are. moved: the largest change of an impulse times
    its ρ, m/s."""
    rows = 3 * contact.pairs
    recording = Recording("sweep", robot.name)
    w = recording.input("w", (rows, rows), symmetric=True)
    b, r = recording.input("b", (rows,)), recording.input("r", (rows,))
    inverse, count = recording.input("inverse", (contact.pairs, 2)), recording.input("count", ())
    r = r.copy()
    moved: Scalar = 0.0
    for c in range(contact.pairs):
        n = 3 * c
        before = r[n : n + 3].copy()
        u = w[n] @ r + b[n]
        normal = r[n] - u * inverse[c, 0]
        r[n] = select(normal, normal, 0.0)
        x, y = (r[k] - (w[k] @ r + b[k]) * inverse[c, 1] for k in (n + 1, n + 2))
        r[n + 1], r[n + 2] = _in_disc(x, y, r[n] * contact.friction)
        steepness = 1.0 / inverse[c, 0], 1.0 / inverse[c, 1], 1.0 / inverse[c, 1]
        for k, rho in enumerate(steepness):
            change = (r[n + k] - before[k]) * rho
            change = select(change, change, -change)
            moved = select(change - moved, change, moved)
    return recording.graph({"swept": r, "moved": moved, "counted": count[()] + 1.0})


def _in_disc(x: Scalar, y: Scalar, radius: Scalar) -> tuple[Scalar, Scalar]:
    """The nearest point of a disc to (x, y)."""
    square = x * x + y * y
    part = select(square - radius * radius, radius * (1.0 / sqrt(square + LEAST)), 1.0)
    return part * x, part * y


def contact_equations(robot: Robot, contact: RigidContact, dt: float) -> Equations:
    """What v⁺ and r of a step solve: M (v⁺ - v) = dt (τ - bias) + Jᵀ r and r = P(r - u / ρ), any ρ > 0.

    The derivative of P holds which pairs are open, stick and slide, as they are at the solution.
    """
    step = StepRecording(robot, StepOptions(dt), "contact_step", far=True)
    tree, after = Tree(robot), step.velocities(AFTER, "qd")
    r = step.recording.input(IMPULSE, (3 * contact.pairs,))
    links = check_points(robot, contact.points, balls=True)
    jacobian, gaps = _rows(tree, contact, links, poses(tree, list(step.q), "base"))
    forces = inverse_dynamics(tree, list(step.q), list(step.qd), list((after - step.qd) * (1.0 / dt)))
    mass = sum(link.mass for link in robot.links)
    u = jacobian @ after + r * contact.compliance
    left = r.copy()
    for c, gap in enumerate(gaps):
        n = 3 * c
        u[n] = u[n] + _closing(gap, dt)
        normal, x, y = r[n : n + 3] - u[n : n + 3] * mass
        normal = select(normal, normal, 0.0)
        left[n : n + 3] = r[n : n + 3] - array([normal, *_in_disc(x, y, r[n] * contact.friction)])
    balance = (array(forces) - step.tau) * dt - jacobian.T @ r
    outputs = {RESIDUAL: np.concatenate([balance, left]), "q_next": advance(robot, step.q, after * dt)}
    return Equations(step.graph(outputs), (AFTER, IMPULSE))


def _end(robot: Robot, contact: RigidContact, dt: float) -> Graph:
    rows = 3 * contact.pairs
    recording, sizes = Recording("end_contact", robot.name), typical_sizes(Tree(robot))
    quaternions = tuple((part.start, part.stop) for part in robot.quaternions())
    q = recording.input("q", (robot.nq,), sizes["q"], unit_vectors=quaternions)
    free = recording.input("free", (robot.nv,), sizes["qd"])
    answer = recording.input("answer", (rows, robot.nv))
    swept = recording.input("swept", (rows,))
    velocity = free + swept @ answer
    counted, failed = (recording.input(name, ())[()] for name in ("counted", "failed"))
    failed = failed + select(counted - (contact.sweeps - 0.5), 1.0, 0.0)
    outputs = {"q_next": advance(robot, list(q), list(velocity * dt)), "qd_next": velocity}
    return recording.graph({**outputs, "failed_next": array(failed).reshape(())})
