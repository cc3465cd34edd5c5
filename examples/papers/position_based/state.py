"""What a compiled trajectory reads and writes, and the mechanics that its steps share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from examples.papers.compiled import compiled
from examples.papers.position_based.inertia import gather, load_of, paired, slope
from examples.papers.position_based.joints import Joints
from examples.papers.position_based.kinematics import move, subtract
from examples.papers.position_based.links import Floats, Integers, Links
from examples.papers.position_based.points import Points, add_points


class Settings(NamedTuple):
    """dt in s. scale (nv,): the force at each dof below which a step has converged, in N m or N. most: iterations a
    step. exact: the full Hessian and not the part of it that is a square's. second (K - 1, K + 1), first (K + 1,),
    times (K + 1,): weights and nodes of the collocation."""

    dt: float
    scale: Floats
    most: int
    exact: bool
    second: Floats
    first: Floats
    times: Floats


class Problem(NamedTuple):
    """What stays the same from step to step."""

    links: Links
    points: Points
    joints: Joints
    settings: Settings


class Record(NamedTuple):
    """What a trajectory of some steps leaves. q (steps + 1, nq), of which row 0 is the start; energy (steps + 1,) in J,
    kinetic and potential; iterations (steps,); residual (steps,): largest force left, over `Settings.scale`."""

    q: Floats
    energy: Floats
    iterations: Integers
    residual: Floats


@compiled
def fill(target: Floats, source: Floats) -> None:
    """target[:] = source, of one axis. Numba takes seconds to compile that, for the text of an error."""
    for k in range(len(target)):
        target[k] = source[k]


@compiled
def fill_nodes(target: Floats, source: Floats) -> None:
    """target[:] = source, both (nodes, nq)."""
    for a in range(len(target)):
        fill(target[a], source[a])


@compiled
def fill_poses(target: Floats, source: Floats) -> None:
    """target[:] = source, both (links, 3, 4)."""
    for i in range(len(target)):
        for r in range(3):
            for c in range(4):
                target[i, r, c] = source[i, r, c]


@compiled
def joint_terms(
    joints: Joints, dt: float, q: Floats, before: Floats, tau: Floats, target: Floats, square: Floats, linear: Floats
) -> None:
    """Fills in what the forces at joints add to an energy, ½ square q² + linear q of each dof's number in q.
    tau, target: (nv,); q, before: configurations of this step's begin and of the last step's."""
    for d in range(len(joints.place)):
        k = joints.place[d]
        square[d] = linear[d] = 0.0
        if k >= 0:
            rotor, damper = joints.armature[d] / dt**2, joints.damping[d] / dt
            square[d] = joints.stiffness[d] + damper + rotor
            linear[d] = -joints.stiffness[d] * target[d] - damper * q[k] - rotor * (2.0 * q[k] - before[k]) - tau[d]


@compiled
def begin_step(
    problem: Problem, start: Floats, last: Floats, tau: Floats, target: Floats, terms: Floats, guess: Floats
) -> None:
    """Fills in the joints' terms (2, nv) of a step and the guess (K - 1, nq) at its nodes, which goes on as the motion
    went. last (nq,): the node before start. tau, target (nv,)."""
    links, times = problem.links, problem.settings.times
    joint_terms(problem.joints, problem.settings.dt, start, last, tau, target, terms[0], terms[1])
    tangent = np.empty(len(links.link_of))
    subtract(links, start, last, tangent)
    for a in range(len(guess)):
        move(links, start, tangent * (times[a + 2] / -times[0]), guess[a])


@compiled
def field_of(links: Links, weights: Floats, poses: Floats, dt: float, field: Floats) -> None:
    """Fills in Σ h''_j T_j / dt² less gravity, (links, 3, 4): poses (nodes, links, 3, 4), weights (nodes,)."""
    for i in range(len(links.parent)):
        for r in range(3):
            for c in range(4):
                total = 0.0
                for j in range(len(weights)):
                    total += weights[j] * poses[j, i, r, c]
                field[i, r, c] = total / dt**2
            field[i, r, 3] -= links.gravity[r]


@compiled
def potential(links: Links, pose: Floats, origin: Floats) -> float:
    """-Σ m g · c in J, from where it is at the poses `origin`."""
    total = 0.0
    for i in range(len(links.parent)):
        for r in range(3):
            for c in range(4):
                total -= links.gravity[r] * links.moment[i, c, 3] * (pose[i, r, c] - origin[i, r, c])
    return total


@compiled
def total_energy(links: Links, weights: Floats, poses: Floats, dt: float) -> float:
    """Kinetic and potential energy in J at a step's end, velocities by the weights (nodes,) of the poses; 0 of the
    potential is where every center of mass is at the world's origin."""
    rate = np.zeros_like(poses[0])
    for j in range(len(weights)):
        for i in range(len(links.parent)):
            for r in range(3):
                for c in range(4):
                    rate[i, r, c] += weights[j] * poses[j, i, r, c] / dt
    last = poses[len(weights) - 1]
    return 0.5 * paired(links, rate, rate) + potential(links, last, np.zeros_like(last))


@compiled
def forces_left(
    problem: Problem,
    field: Floats,
    pose: Floats,
    twist: Floats,
    before: Floats,
    load: Floats,
    stiffness: Floats,
    gradient: Floats,
) -> float:
    """Fills in the generalized forces (nv,) that a field and the points leave, the gathered loads behind them, and the
    points' stiffness. Returns the points' energy in J."""
    links, settings = problem.links, problem.settings
    load[:] = 0.0
    stiffness[:] = 0.0
    load_of(links, field, pose, load)
    energy = add_points(problem.points, pose, before, settings.dt, settings.exact, load, stiffness)
    gather(links, load)
    slope(links, twist, load, gradient)
    return energy


@compiled
def largest(gradient: Floats, scale: Floats) -> float:
    """The largest entry, over its scale; infinite where one is not a number."""
    value = 0.0
    for d in range(len(gradient)):
        ratio = abs(gradient[d]) / scale[d % len(scale)]
        if not np.isfinite(ratio):
            return np.inf
        value = max(value, ratio)
    return value


@compiled
def add_joints(joints: Joints, q: Floats, square: Floats, linear: Floats, gradient: Floats) -> float:
    """Adds the joints' forces to the gradient; returns their energy in J."""
    energy = 0.0
    for d in range(len(joints.place)):
        k = joints.place[d]
        if k >= 0:
            gradient[d] += square[d] * q[k] + linear[d]
            energy += (0.5 * square[d] * q[k] + linear[d]) * q[k]
    return energy
