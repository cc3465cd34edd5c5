"""Position-based steps by SciPy's L-BFGS, on the energy or on half the square of the forces."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from examples.papers.position_based.equation_5 import energy_and_slope
from examples.papers.position_based.equation_7 import forces_and_jacobian
from examples.papers.position_based.kinematics import move, place
from examples.papers.position_based.links import Floats
from examples.papers.position_based.state import Problem, Record, begin_step, largest, total_energy

CORRECTIONS = 10
"""Pairs of steps and gradients that the approximation of the Hessian remembers."""


def run_lbfgs(
    problem: Problem,
    before: Floats,
    tau: Floats,
    target: Floats,
    record: Record,
    *,
    energy: bool,
) -> None:
    """As `run_energy` or `run_residual`. The unknown is the tangent from the guess; a step ends where no entry of the
    gradient is above its scale (for the forces: where no force is)."""
    links, settings = problem.links, problem.settings
    nb, n, u = len(links.parent), len(links.link_of), len(settings.second)
    poses, twists, terms = np.empty((u + 2, nb, 3, 4)), np.empty((u, n, 6)), np.empty((2, n))
    load, stiffness, gradient = np.empty((nb, 3, 4)), np.empty((nb, 6, 6)), np.empty(n)
    forces, jacobian = np.empty(u * n), np.empty((u * n, u * n))
    guess, q, last = np.empty((u, len(before))), np.empty((u, len(before))), before.copy()
    place(links, last, poses[0], twists[0])
    place(links, record.q[0], poses[1], twists[0])

    def moved(x: Floats) -> None:
        for a in range(u):
            move(links, guess[a], x[a * n : (a + 1) * n], q[a])

    def value(x: Floats) -> tuple[float, Floats]:
        moved(x)
        if energy:
            level = energy_and_slope(problem, q[0], poses, terms, twists[0], load, stiffness, gradient)
            return level, gradient.copy()
        forces_and_jacobian(problem, q, poses, terms, twists, forces, jacobian)
        return 0.5 * float(forces @ forces), jacobian.T @ forces

    def ends(_: Floats) -> None:
        if largest(gradient if energy else forces, settings.scale) <= 1.0:
            raise StopIteration

    for k in range(len(tau)):
        start = record.q[k]
        begin_step(problem, start, last, tau[k], target[k], terms, guess)
        options = {
            "maxcor": CORRECTIONS,
            "maxiter": settings.most,
            "maxfun": 20 * settings.most,
            "gtol": 0.0,
            "ftol": 0.0,
        }
        answer = minimize(value, np.zeros(u * n), jac=True, method="L-BFGS-B", callback=ends, options=options)
        value(answer.x)
        last[:] = q[u - 2] if u > 1 else start
        record.q[k + 1] = q[u - 1]
        record.energy[k + 1] = total_energy(links, settings.first, poses, settings.dt)
        record.iterations[k] = answer.nit
        record.residual[k] = largest(gradient if energy else forces, settings.scale)
        poses[0], poses[1] = poses[u].copy(), poses[u + 1].copy()
