"""Position-based steps of small robots as a loop of graphs: Equation 5 of Pan & Manocha (2018) by Levenberg-Marquardt,
on every backend that computes loops.

A trajectory is a loop of steps; a step is a graph that begins it and a loop of iterations that ends by itself for each
trajectory. What `position_based_energy` has as loops over links is here one operation after the other, so it is for
robots of few links: revolute and prismatic joints, no contact, drag or servo.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.base.naming import scope
from dynagate.dynamics.mass_matrix import factorise, mass_matrix, solve
from dynagate.dynamics.spatial import Array, Scalar, array, select, zeros
from dynagate.dynamics.tree import Tree
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop, Until
from dynagate.graph.recorder import Recording
from dynagate.integrators.position_based_energy import FIRST_DAMPING, LEAST_DAMPING
from dynagate.robot import Robot

FAR = 1e30
"""J: the energy before the first iteration, which therefore accepts its guess."""

Poses = list[tuple[Array, Array]]
"""Per link R (3, 3) and p (3,), in the world or sums of such."""


def trajectory_loop(robot: Robot, dt: float, scale: Sequence[float], iterations: int) -> Loop:
    """A loop over the steps of a trajectory.

    Inputs: q and before (nq,), the configurations at the start and one step before; tau (nv,) of each step, N m or N.
    Kept of every step: best (nq,), the configuration at its end; counted (), its iterations; left (), the largest
    force left over its scale: 1 or less has converged.
    dt: s. scale (nv,): as in `Settings`. iterations: most of them a step.
    Raises ValueError: a joint with a quaternion.
    """
    for link in robot.links:
        if link.joint.has_quaternion:
            raise ArgumentError(
                f"joint '{link.joint.name}' of robot '{robot.name}' is {link.joint.type}; a loop of position-based "
                "steps takes revolute and prismatic joints"
            )
    search = Loop(
        "search",
        robot.name,
        (_evaluation(robot, dt), _decision(robot, scale), _step(robot, dt)),
        {
            "next": "trial",
            "best": "held",
            "least": "lowest",
            "slope": "gradient",
            "relaxed": "damping",
            "counted": "count",
        },
        Until("left", 1.0, iterations + 1),
        last=("best", "counted", "left"),
    )
    return Loop(
        "position_based",
        robot.name,
        (_begin(robot, dt), search),
        {"best": "q", "start": "before"},
        Count(),
        per_turn=("tau",),
        kept=("best", "counted", "left"),
    )


def _begin(robot: Robot, dt: float) -> Graph:
    """What stays the same in a step, and where its search begins: q, before, tau to trial, past (links, 12), linear."""
    tree = Tree(robot).as_given
    recording = Recording("begin", robot.name)
    q, before, tau = (recording.input(name, (robot.nq,)) for name in ("q", "before", "tau"))
    here, last = _poses(tree, q), _poses(tree, before)
    past = zeros(len(tree.links), 12)
    for i, ((r, p), (r0, p0)) in enumerate(zip(here, last, strict=True)):
        past[i, :9], past[i, 9:] = np.ravel(r0 - 2.0 * r), p0 - 2.0 * p
    linear = array(
        [
            -(tree.damping[d] / dt) * q[d] - (tree.armature[d] / dt**2) * (2.0 * q[d] - before[d]) - tau[d]
            for d in range(tree.nv)
        ]
    )
    nothing = zeros(robot.nq)
    return recording.graph(
        {
            "trial": 2.0 * q - before,
            "start": array(list(q)),
            "past": past,
            "linear": linear,
            "held": nothing,
            "gradient": nothing.copy(),
            "lowest": np.array(FAR, dtype=object),
            "damping": np.array(0.0, dtype=object),
            "count": np.array(-1.0, dtype=object),  # the guess is none
        }
    )


def _evaluation(robot: Robot, dt: float) -> Graph:
    """trial (nv,), past, linear to energy () and trial_slope (nv,)."""
    tree = Tree(robot).as_given
    recording = Recording("evaluation", robot.name)
    trial, linear = (recording.input(name, (robot.nq,)) for name in ("trial", "linear"))
    past = recording.input("past", (len(tree.links), 12))
    energy, slope = _energy(tree, trial, past, linear, dt)
    return recording.graph({"energy": _scalar(energy), "trial_slope": slope})


def _decision(robot: Robot, scale: Sequence[float]) -> Graph:
    """Which is the best so far, and the next damping: a trial is accepted as `run_energy` does.

    A graph of its own: passes drop a term that is negligible in random states, as a tolerance is beside the forces of
    such.
    """
    recording = Recording("decision", robot.name)
    vectors = ("trial", "held", "trial_slope", "gradient")
    trial, held, trial_slope, gradient = (recording.input(name, (robot.nq,)) for name in vectors)
    scalars = ("energy", "lowest", "damping", "count")
    energy, lowest, damping, count = (recording.input(name, ())[()] for name in scalars)
    left, before = _left(trial_slope, scale), _left(gradient, scale)
    lower = select(lowest - energy, 1.0, 0.0)
    within = select(left - 1.0, 0.0, 1.0)
    noise = 1e-13 * _size(energy)
    as_low = select((lowest - energy) + noise, select(before - left, 1.0, 0.0), 0.0)
    better = lower + within + as_low
    halved = select(damping - LEAST_DAMPING, 0.5 * damping, 0.0)
    raised = select(5.0 * damping - FIRST_DAMPING, 5.0 * damping, FIRST_DAMPING)
    return recording.graph(
        {
            "best": array([select(better, a, b) for a, b in zip(trial, held, strict=True)]),
            "slope": array([select(better, a, b) for a, b in zip(trial_slope, gradient, strict=True)]),
            "least": _scalar(select(better, energy, lowest)),
            "relaxed": _scalar(select(better, halved, raised)),
            "left": _scalar(select(better, left, before)),
            "counted": _scalar(count + 1.0),
        }
    )


def _step(robot: Robot, dt: float) -> Graph:
    """best, slope, relaxed to next: best - (M/dt² + λ)⁻¹ slope, λ beside the mean of the diagonal."""
    tree = Tree(robot)
    recording = Recording("step", robot.name)
    best, slope = (recording.input(name, (robot.nq,)) for name in ("best", "slope"))
    relaxed = recording.input("relaxed", ())[()]
    hessian = mass_matrix(tree, list(best)) * (1.0 / dt**2)
    for d in range(tree.nv):
        hessian[d, d] = hessian[d, d] + tree.damping[d] / dt
    damping = relaxed * (sum(hessian[d, d] for d in range(tree.nv)) * (1.0 / tree.nv))
    for d in range(tree.nv):
        hessian[d, d] = hessian[d, d] + damping
    return recording.graph({"next": best - array(solve(tree, factorise(tree, hessian), list(slope)))})


def _scalar(value: Scalar) -> Array:
    result = np.empty((), dtype=object)
    result[()] = value
    return result


def _size(x: Scalar) -> Scalar:
    return select(x, x, -x)


def _left(slope: Array, scale: Sequence[float]) -> Scalar:
    """The largest force over its scale."""
    largest: Scalar = 0.0
    for g, s in zip(slope, scale, strict=True):
        ratio = _size(g) * (1.0 / s)
        largest = select(ratio - largest, ratio, largest)
    return largest


def _poses(tree: Tree, q: Array) -> Poses:
    """Every link in the world."""
    poses: Poses = []
    for i, joint in enumerate(tree.transforms(list(q))):
        with scope("place", f"link{i}"):
            parent = tree.parents[i]
            r, p = poses[parent] if parent >= 0 else (array(np.eye(3)), zeros(3))
            poses.append((joint.after(r), p + r @ joint.translation))
    return poses


def _energy(tree: Tree, q: Array, past: Array, linear: Array, dt: float) -> tuple[Scalar, Array]:
    """E(q) of Equation 5 in J, and its gradient (nv,). past (links, 12): T_{k-1} - 2 T_k of every link."""
    poses = _poses(tree, q)
    gravity = array([-a for a in tree.base_acceleration])
    moments, forces = [], []
    total: Scalar = 0.0
    for i, (r, p) in enumerate(poses):
        with scope("energy", f"link{i}"):
            inertia = tree.inertias[i]
            turn = (r + past[i, :9].reshape(3, 3)) * (1.0 / dt**2)  # (turn | shift): the link's acceleration
            shift = (p + past[i, 9:]) * (1.0 / dt**2)
            weighted = turn @ inertia.second + np.outer(shift, inertia.first)
            pushed = turn @ inertia.first + shift * inertia.mass
            inertial = sum(np.ravel(weighted * turn)) + sum(pushed * shift)
            first = r @ inertia.first
            total = total + (0.5 * dt**2) * inertial - gravity @ (first + p * inertia.mass)
            force = pushed - gravity * inertia.mass
            n = (weighted - np.outer(gravity, inertia.first)) @ r.T + np.outer(force, p)
            moments.append(array([n[2, 1] - n[1, 2], n[0, 2] - n[2, 0], n[1, 0] - n[0, 1]]))
            forces.append(force)
    slope = zeros(tree.nv)
    for i in reversed(tree.links):
        with scope("slope", f"link{i}"):
            parent, (r, p) = tree.parents[i], poses[i]
            for d in tree.dofs[i]:
                motion = tree.axis_at(d, r, p)
                square = tree.damping[d] / dt + tree.armature[d] / dt**2
                slope[d] = motion.angular @ moments[i] + motion.linear @ forces[i] + square * q[d] + linear[d]
                total = total + (0.5 * square * q[d] + linear[d]) * q[d]
            if parent >= 0:
                moments[parent] = moments[parent] + moments[i]
                forces[parent] = forces[parent] + forces[i]
    return total, slope
