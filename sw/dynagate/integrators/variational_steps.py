"""Steps of the variational integrator: the root of the discrete Euler-Lagrange equation by RIQN (Algorithm 3), Newton
(Algorithm 1) or Broyden, over three residuals, as compiled loops for one trajectory.

Every residual evaluation counts as an iteration, the one that ends the step included.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from dynagate.integrators.articulated_loops import bias, factorise, pose, project, solve
from dynagate.integrators.links import Links, compiled
from dynagate.integrators.variational_graphs import EXTRAPOLATED, EXTRAPOLATION
from dynagate.integrators.variational_loops import kinetic, potential, prepare, residual, start
from dynagate.integrators.variational_newton import jacobian
from dynagate.integrators.variational_printed import printed_residual
from dynagate.integrators.variational_svi import discrete_momenta, midpoint_jacobian

RESIDUALS = {"increment": 0, "printed": 1, "svi": 2}
SOLVERS = {"riqn": 0, "newton": 1, "broyden": 2}
INCREMENT, PRINTED, SVI = RESIDUALS.values()
RIQN, NEWTON, BROYDEN = SOLVERS.values()

CONVERGED, UNSOLVED, TURNED = 0, 1, 2
"""Status of a step: its residual is within the tolerance; it is not after all iterations; or a link turns by almost π,
where the logarithm is singular."""

SINGULAR = 0.9999
"""sin²(θ/2) of the widest turn in a step: θ = 178.9 degrees."""


@compiled
def guess_increment(
    links: Links,
    guess: int,
    rotation: np.ndarray,
    offset: np.ndarray,
    u: np.ndarray,
    d: np.ndarray,
    past: np.ndarray,
    age: int,
    tau: np.ndarray,
    external: np.ndarray,
    dt: float,
    delta: np.ndarray,
    work: np.ndarray,
) -> None:
    """δ to begin with: 0 (IG1), the last one (IG2), that of a semi-implicit Euler step (IG3), or the last ones
    extrapolated (IG4), which needs four steps before it."""
    last = past[0]
    if guess == 1:
        delta[:] = 0.0
    elif guess == 2:
        delta[:] = last
    elif guess == EXTRAPOLATED and age >= len(past):
        delta[:] = 0.0
        for k in range(len(past)):
            delta += EXTRAPOLATION[k] * past[k]
    else:
        load = np.empty_like(last)
        bias(links, rotation, offset, last / dt, load)
        load = tau - load
        if len(external):
            project_forces(links, rotation, offset, external, load)
        solve(links, rotation, offset, u, d, load, delta, work)
        delta *= dt * dt
        delta += last


@compiled
def project_forces(
    links: Links, rotation: np.ndarray, offset: np.ndarray, external: np.ndarray, load: np.ndarray
) -> None:
    """Adds to load (links,) the joint forces that forces on the links (links, 6) amount to."""
    project(links, rotation, offset, external.copy(), load)


@compiled
def broyden_update(inverse: np.ndarray, change: np.ndarray, moved: np.ndarray) -> None:
    """The good Broyden update of an inverse Jacobian: f changed so when q moved so."""
    image = inverse @ change
    size = np.dot(moved, image)
    if size != 0.0:
        row = moved @ inverse
        for i in range(len(moved)):
            for j in range(len(moved)):
                inverse[i, j] += (moved[i] - image[i]) * row[j] / size


@compiled
def step(
    links: Links,
    kind: int,
    solver: int,
    guess: int,
    q: np.ndarray,
    past: np.ndarray,
    age: int,
    momentum: np.ndarray,
    tau: np.ndarray,
    external: np.ndarray,
    dt: float,
    tolerance: float,
    most: int,
    errors: np.ndarray,
) -> tuple[int, int]:
    """One step. q (links,), past (4, links) and momentum (links, 6) are advanced in place if it converges. kind,
    solver: numbers of `RESIDUALS` and `SOLVERS`; guess: 1 to 4; past: the last increments, the latest first; age: steps
    since the start; errors (most,): receives the norm of each residual in N m s. Returns the status and the number of
    residual evaluations."""
    n, last = len(q), past[0]
    share = 1.0 if age else 0.5
    rotation, offset, u, d = np.empty((n, 9)), np.empty((n, 3)), np.empty((n, 6)), np.empty(n)
    next_rotation, next_offset = np.empty((n, 9)), np.empty((n, 3))
    load, impulse, work = np.zeros((n, 6)), np.empty(n), np.empty((n, 6))
    delta, f, right, moved, brought = np.empty(n), np.empty(n), np.empty(n), np.empty((n, 7)), np.empty((n, 6))
    update, before, inverse = np.empty(n), np.empty(n), np.empty((0, 0))
    pose(links, q, rotation, offset)
    factorise(links, rotation, offset, u, d)
    guess_increment(links, guess, rotation, offset, u, d, past, age, tau, external, dt, delta, work)
    if kind == SVI:
        impulse[:] = momentum[:, 0] + share * dt * dt * tau
        if len(external):
            load[0, :] = 0.0
            update[:] = 0.0
            project_forces(links, rotation, offset, external, update)
            impulse += share * dt * dt * update
    else:
        prepare(links, rotation, offset, last, momentum, tau, external, dt, share, load, impulse)
    for count in range(1, most + 1):
        widest = 0.0
        if kind == INCREMENT:
            widest = residual(links, rotation, offset, delta, load, impulse, dt, moved, f, brought, work)
        elif kind == PRINTED:
            printed_residual(links, q, rotation, offset, delta, load, impulse, dt, f, brought, work)
        else:
            discrete_momenta(links, q, delta, dt, f, right)
            f -= impulse
        error = sqrt(np.dot(f, f)) / dt
        errors[count - 1] = error
        if not error < 1e300:
            return UNSOLVED, count
        if error <= tolerance:
            if widest > SINGULAR:
                return TURNED, count
            q += delta
            past[1:] = past[:-1].copy()
            past[0] = delta
            if kind == SVI:
                momentum[:, 0] = right
            else:
                momentum[:] = brought
            return CONVERGED, count
        if solver == RIQN:
            solve(links, rotation, offset, u, d, f, update, work)
        elif solver == NEWTON:
            if kind == SVI:
                square = np.empty((n, n))
                midpoint_jacobian(links, q, delta, dt, square)
            else:
                square = np.empty((n, n))
                if kind == PRINTED:
                    residual(links, rotation, offset, delta, load, impulse, dt, moved, before, brought, work)
                pose(links, q + delta, next_rotation, next_offset)
                jacobian(links, rotation, offset, next_rotation, next_offset, moved, dt, square)
            update[:] = np.linalg.solve(square, f)
        else:
            if count == 1:
                inverse = np.empty((n, n))
                for j in range(n):
                    before[:] = 0.0
                    before[j] = 1.0
                    solve(links, rotation, offset, u, d, before, update, work)
                    inverse[:, j] = update
            else:
                broyden_update(inverse, f - before, -update)
            before[:] = f
            update[:] = inverse @ f
        delta -= update
    return UNSOLVED, most


@compiled
def begin(links: Links, kind: int, q: np.ndarray, last: np.ndarray, momentum: np.ndarray) -> None:
    """Writes momentum (links, 6) at configuration q and velocity last / dt. Of SVI column 0 holds p = M q̇ dt."""
    n = len(q)
    rotation, offset = np.empty((n, 9)), np.empty((n, 3))
    pose(links, q, rotation, offset)
    start(links, rotation, offset, last, momentum)
    if kind == SVI:
        p = links.armature * last
        project(links, rotation, offset, momentum, p)
        momentum[:, 0] = p


@compiled
def advance(
    links: Links,
    kind: int,
    solver: int,
    guess: int,
    q: np.ndarray,
    past: np.ndarray,
    age: int,
    momentum: np.ndarray,
    tau: np.ndarray,
    external: np.ndarray,
    dt: float,
    tolerance: float,
    most: int,
    configurations: np.ndarray,
    iterations: np.ndarray,
    errors: np.ndarray,
) -> int:
    """Steps until one fails or all are done: as many as configurations (steps, links), iterations and errors (steps,)
    have rows, which are written. tau (steps or 1, links), external (steps or 1, links, 6) or (1, 0, 6). q, past and
    momentum are advanced. Returns the status of the last step."""
    norms = np.empty(most)
    for k in range(len(iterations)):
        row, at = min(k, len(tau) - 1), min(k, len(external) - 1)
        status, count = step(
            links, kind, solver, guess, q, past, age + k, momentum, tau[row], external[at], dt, tolerance, most, norms
        )
        iterations[k], errors[k] = count, norms[count - 1]
        if status != CONVERGED:
            return status
        configurations[k] = q
    return CONVERGED


@compiled
def energies(links: Links, q: np.ndarray, dt: float, kinetic_energy: np.ndarray, potential_energy: np.ndarray) -> None:
    """Of a trajectory q (steps + 1, links): kinetic (steps,) over the intervals, potential (steps + 1,)."""
    n = q.shape[1]
    rotation, offset, moved = np.empty((n, 9)), np.empty((n, 3)), np.empty((n, 7))
    for k in range(len(q)):
        pose(links, q[k], rotation, offset)
        potential_energy[k] = potential(links, rotation, offset)
        if k + 1 < len(q):
            kinetic_energy[k] = kinetic(links, rotation, offset, q[k + 1] - q[k], dt, moved)
