"""A step as the minimum of an energy, by Levenberg-Marquardt: Equation 5 of Pan & Manocha (2018), 6 of 2019."""

from __future__ import annotations

import numpy as np
from dynagate.integrators.implicit.root_finders import ENERGY

from examples.papers.compiled import compiled
from examples.papers.position_based.inertia import (
    add_curvature,
    add_inertia,
    add_products,
    eliminate,
    gather,
    paired,
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
    fill_poses,
    forces_left,
    largest,
    potential,
    total_energy,
)

LEAST_DAMPING, FIRST_DAMPING, MOST_DAMPING, SHRINK = ENERGY


@compiled
def energy_and_slope(
    problem: Problem,
    q: Floats,
    poses: Floats,
    terms: Floats,
    twist: Floats,
    load: Floats,
    stiffness: Floats,
    gradient: Floats,
) -> float:
    """E(q) of Equation 5 in J, from where the potential is at the step's begin, and its gradient (nv,).

    poses (3, links, 3, 4): those of the last step's begin, of this step's, and room for those at q. terms (2, nv): as
    `joint_terms`. twist, load, stiffness: filled in.
    """
    links, settings = problem.links, problem.settings
    place(links, q, poses[2], twist)
    field = np.empty_like(load)
    field_of(links, settings.second[0], poses, settings.dt, field)
    energy = forces_left(problem, field, poses[2], twist, poses[1], load, stiffness, gradient)
    energy += add_joints(problem.joints, q, terms[0], terms[1], gradient)
    for i in range(len(links.parent)):
        for r in range(3):
            field[i, r, 3] += links.gravity[r]
    inertial = 0.5 * settings.dt**2 * paired(links, field, field)
    return energy + inertial + potential(links, poses[2], poses[1])


@compiled
def solve_symmetric(matrix: Floats, gradient: Floats, step: Floats) -> bool:
    """step = -matrix⁻¹ gradient by UᵀDU of the upper half, overwritten; False where the matrix is not positive."""
    n = len(gradient)
    for k in range(n):
        step[k] = -gradient[k]
    for k in range(n):
        if not matrix[k, k] > 0.0:
            return False
        for i in range(k + 1, n):
            factor = matrix[k, i] / matrix[k, k]
            if factor != 0.0:
                step[i] -= factor * step[k]
                for j in range(i, n):
                    matrix[i, j] -= factor * matrix[k, j]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            step[k] -= matrix[k, j] * step[j]
        step[k] /= matrix[k, k]
    return True


@compiled
def mean_of_diagonal(problem: Problem, pose: Floats, twist: Floats, stiffness: Floats) -> float:
    """What λ is counted in: the mean of the diagonal of the Hessian's part that is a square's."""
    links, total = problem.links, stiffness.copy()
    add_inertia(links, pose, pose, 1.0 / problem.settings.dt**2, total)
    gather(links, total)
    mean = 0.0
    for d in range(len(twist)):
        for r in range(6):
            for c in range(6):
                mean += twist[d, r] * total[links.link_of[d], r, c] * twist[d, c]
    return mean / len(twist)


@compiled
def newton_step(
    problem: Problem,
    diagonal: Floats,
    pose: Floats,
    twist: Floats,
    load: Floats,
    stiffness: Floats,
    gradient: Floats,
    step: Floats,
) -> bool:
    """step = -(H + diag)⁻¹ gradient: by articulated bodies in O(n), H the square's part, or by the full Hessian. False
    where that is not positive."""
    links, y = problem.links, stiffness.copy()
    add_inertia(links, pose, pose, 1.0 / problem.settings.dt**2, y)
    if not problem.settings.exact:
        eliminate(links, twist, y, diagonal, gradient, step)
        return True
    gather(links, y)
    hessian = np.diag(diagonal)
    add_products(links, twist, twist, y, hessian)
    add_curvature(links, twist, load, True, hessian)
    return solve_symmetric(hessian, gradient, step)


@compiled
def run_energy(
    problem: Problem,
    before: Floats,
    tau: Floats,
    target: Floats,
    record: Record,
) -> None:
    """A trajectory of order 2. before (nq,): the configuration one step before the start. tau, target (steps, nv)."""
    links, settings = problem.links, problem.settings
    nb, n = len(links.parent), len(links.link_of)
    poses, trial_poses = np.empty((3, nb, 3, 4)), np.empty((3, nb, 3, 4))
    twist, trial_twist = np.empty((n, 6)), np.empty((n, 6))
    load, trial_load = np.empty((nb, 3, 4)), np.empty((nb, 3, 4))
    stiff, trial_stiff = np.empty((nb, 6, 6)), np.empty((nb, 6, 6))
    slope, trial_slope, step, terms = np.empty(n), np.empty(n), np.empty(n), np.empty((2, n))
    q, trial, last, guess = np.empty(len(before)), np.empty(len(before)), before.copy(), np.empty((1, len(before)))
    place(links, last, poses[0], twist)
    place(links, record.q[0], poses[1], twist)
    for k in range(len(tau)):
        start = record.q[k]
        begin_step(problem, start, last, tau[k], target[k], terms, guess)
        fill(q, guess[0])
        energy = energy_and_slope(problem, q, poses, terms, twist, load, stiff, slope)
        left, damping, count = largest(slope, settings.scale), 0.0, 0
        mean = mean_of_diagonal(problem, poses[2], twist, stiff)
        noise = 1e-13 * (abs(energy) + np.sum(np.abs(settings.scale)))
        fill_poses(trial_poses[0], poses[0])
        fill_poses(trial_poses[1], poses[1])
        while left > 1.0 and count < settings.most and damping < MOST_DAMPING:
            count += 1
            better = False
            diagonal = terms[0] + damping * mean
            if newton_step(problem, diagonal, poses[2], twist, load, stiff, slope, step):
                move(links, q, step, trial)
                value = energy_and_slope(
                    problem, trial, trial_poses, terms, trial_twist, trial_load, trial_stiff, trial_slope
                )
                rest = largest(trial_slope, settings.scale)
                better = value < energy or rest <= 1.0 or (value <= energy + noise and rest < left)
            if better:
                energy, left = value, rest
                q, trial, slope, trial_slope = trial, q, trial_slope, slope
                poses, trial_poses, twist, trial_twist = trial_poses, poses, trial_twist, twist
                load, trial_load, stiff, trial_stiff = trial_load, load, trial_stiff, stiff
                damping = SHRINK * damping if damping > LEAST_DAMPING else 0.0
            else:
                damping = max(5.0 * damping, FIRST_DAMPING)
        fill(last, start)
        fill(record.q[k + 1], q)
        record.energy[k + 1] = total_energy(links, settings.first, poses, settings.dt)
        record.iterations[k], record.residual[k] = count, left
        fill_poses(poses[0], poses[1])
        fill_poses(poses[1], poses[2])
