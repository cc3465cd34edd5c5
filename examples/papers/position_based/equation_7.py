"""A step as a root of forces, by Levenberg-Marquardt: Equation 7 of Pan & Manocha (2018), 13 of 2019."""

from __future__ import annotations

import numpy as np
from dynagate.integrators.implicit.root_finders import FORCES, MEMORY

from examples.papers.compiled import compiled
from examples.papers.position_based.inertia import (
    add_curvature,
    add_inertia,
    add_products,
    gather,
)
from examples.papers.position_based.kinematics import move, place
from examples.papers.position_based.links import Floats
from examples.papers.position_based.state import (
    Problem,
    Record,
    add_joints,
    begin_step,
    field_of,
    fill,
    fill_nodes,
    fill_poses,
    forces_left,
    largest,
    total_energy,
)

LEAST_DAMPING, FIRST_DAMPING, MOST_DAMPING, SHRINK = FORCES


@compiled
def forces_and_jacobian(
    problem: Problem,
    q: Floats,
    poses: Floats,
    terms: Floats,
    twists: Floats,
    forces: Floats,
    jacobian: Floats,
) -> None:
    """Fills in the forces (u nv,) left at the u = K - 1 nodes and their Jacobian (u nv, u nv).

    q (u, nq). poses (u + 2, links, 3, 4): two known ones, and room for those at q. twists (u, nv, 6): filled in.
    """
    links, settings = problem.links, problem.settings
    u, n, dt = len(q), len(links.link_of), settings.dt
    for a in range(u):
        place(links, q[a], poses[a + 2], twists[a])
    field, load = np.empty_like(poses[0]), np.empty_like(poses[0])
    stiffness, block = np.empty((len(links.parent), 6, 6)), np.empty((n, n))
    for a in range(u):
        rows = forces[a * n : (a + 1) * n]
        field_of(links, settings.second[a], poses, dt, field)
        forces_left(problem, field, poses[a + 2], twists[a], poses[1], load, stiffness, rows)
        add_joints(problem.joints, q[a], terms[0], terms[1], rows)
        for b in range(u):
            block[:] = 0.0
            if a == b:
                add_curvature(links, twists[a], load, False, block)
                for d in range(n):
                    block[d, d] += terms[0, d]
                y = stiffness.copy()
            else:
                y = np.zeros_like(stiffness)
            add_inertia(links, poses[a + 2], poses[b + 2], settings.second[a, b + 2] / dt**2, y)
            gather(links, y)
            add_products(links, twists[a], twists[b], y, block)
            for d in range(n):
                fill(jacobian[a * n + d, b * n : (b + 1) * n], block[d])


@compiled
def run_residual(
    problem: Problem,
    before: Floats,
    tau: Floats,
    target: Floats,
    record: Record,
) -> None:
    """A trajectory. before (nq,): the configuration at the first of the collocation's nodes, before the start.
    tau, target (steps, nv)."""
    links, settings = problem.links, problem.settings
    nb, n, u, nq = len(links.parent), len(links.link_of), len(settings.second), len(before)
    poses, trial_poses, twists = np.empty((u + 2, nb, 3, 4)), np.empty((u + 2, nb, 3, 4)), np.empty((u, n, 6))
    forces, trial_forces = np.empty(u * n), np.empty(u * n)
    jacobian, trial_jacobian = np.empty((u * n, u * n)), np.empty((u * n, u * n))
    q, trial, best = np.empty((u, nq)), np.empty((u, nq)), np.empty((u, nq))
    last, terms = before.copy(), np.empty((2, n))
    farthest = np.max(settings.scale) / settings.scale  # in an iteration: 1 rad, or the robot's reach
    place(links, last, poses[0], twists[0])
    place(links, record.q[0], poses[1], twists[0])
    for k in range(len(tau)):
        start = record.q[k]
        begin_step(problem, start, last, tau[k], target[k], terms, q)
        forces_and_jacobian(problem, q, poses, terms, twists, forces, jacobian)
        left, value, damping, count = largest(forces, settings.scale), np.dot(forces, forces), 0.0, 0
        least, recent = value, np.full(MEMORY, value)
        fill_nodes(best, q)
        fill_poses(trial_poses[0], poses[0])
        fill_poses(trial_poses[1], poses[1])
        while left > 1.0 and count < settings.most and damping < MOST_DAMPING:
            count += 1
            try:
                step = _step(jacobian, forces, damping)
            except Exception:  # a singular Jacobian; Numba can name no narrower one
                damping = max(5.0 * damping, FIRST_DAMPING)
                continue
            better = largest(step, farthest) < 1.0
            if better:
                for a in range(u):
                    move(links, q[a], step[a * n : (a + 1) * n], trial[a])
                forces_and_jacobian(problem, trial, trial_poses, terms, twists, trial_forces, trial_jacobian)
                value, rest = np.dot(trial_forces, trial_forces), largest(trial_forces, settings.scale)
                better = value < np.max(recent) or rest <= 1.0
            if better:
                left, recent[count % MEMORY] = rest, value
                q, trial, forces, trial_forces = trial, q, trial_forces, forces
                jacobian, trial_jacobian, poses, trial_poses = trial_jacobian, jacobian, trial_poses, poses
                damping = SHRINK * damping if damping > LEAST_DAMPING else 0.0
                if value < least:
                    least = value
                    fill_nodes(best, q)
            else:
                damping = max(5.0 * damping, FIRST_DAMPING)
        if left > 1.0:
            fill_nodes(q, best)
            forces_and_jacobian(problem, q, poses, terms, twists, forces, jacobian)
            left = largest(forces, settings.scale)
        fill(last, q[u - 2] if u > 1 else start)
        fill(record.q[k + 1], q[u - 1])
        record.energy[k + 1] = total_energy(links, settings.first, poses, settings.dt)
        record.iterations[k], record.residual[k] = count, left
        fill_poses(poses[0], poses[u])
        fill_poses(poses[1], poses[u + 1])


@compiled
def solve_dense(matrix: Floats, right: Floats) -> Floats:
    return np.linalg.solve(matrix, right)  # type: ignore[return-value]


@compiled
def _step(jacobian: Floats, forces: Floats, damping: float) -> Floats:
    """-(JᵀJ + λ)⁻¹ Jᵀ forces; without damping -J⁻¹ forces, which is the same and better conditioned."""
    n = len(forces)
    if damping == 0.0:
        return solve_dense(jacobian, -forces)
    square = jacobian.T @ jacobian
    mean = np.trace(square) / n
    for d in range(n):
        square[d, d] += damping * mean
    return solve_dense(square, -(jacobian.T @ forces))
