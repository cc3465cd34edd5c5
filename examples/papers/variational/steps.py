"""Steps of the variational integrator: the root of the discrete Euler-Lagrange equation by RIQN (Algorithm 3), Newton
(Algorithm 1) or Broyden, over three residuals, as compiled loops for one trajectory.

Every residual evaluation counts as an iteration, the one that ends the step included.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from dynagate.integrators.implicit.variational import EXTRAPOLATED, EXTRAPOLATION

from examples.papers.compiled import fused
from examples.papers.variational.articulated import bias, factorize, pose, project, solve
from examples.papers.variational.links import Links
from examples.papers.variational.loops import displace, kinetic, potential, prepare, residual, start
from examples.papers.variational.newton import jacobian
from examples.papers.variational.printed import printed_residual
from examples.papers.variational.state import CONVERGED, TURNED, UNSOLVED
from examples.papers.variational.svi import discrete_momenta, midpoint_jacobian

RESIDUALS = {"increment": 0, "printed": 1, "svi": 2}
SOLVERS = {"riqn": 0, "newton": 1, "broyden": 2}
INCREMENT, PRINTED, SVI = RESIDUALS.values()
RIQN, NEWTON, BROYDEN = SOLVERS.values()

SINGULAR = 0.9999
"""sin²(θ/2) of the widest turn in a step: θ = 178.9 degrees."""

HOPELESS = 1e300
"""A residual in N m s at which a step has failed at once, as NaN has."""


@fused
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


@fused
def project_forces(
    links: Links, rotation: np.ndarray, offset: np.ndarray, external: np.ndarray, load: np.ndarray
) -> None:
    """Adds to load (links,) the joint forces that forces on the links (links, 6) amount to."""
    project(links, rotation, offset, external.copy(), load)


@fused
def broyden_update(inverse: np.ndarray, change: np.ndarray, moved: np.ndarray) -> None:
    """The good Broyden update of an inverse Jacobian: f changed so when q moved so."""
    image = inverse @ change
    size = np.dot(moved, image)
    if size != 0.0:
        row = moved @ inverse
        for i in range(len(moved)):
            for j in range(len(moved)):
                inverse[i, j] += (moved[i] - image[i]) * row[j] / size


class Method(NamedTuple):
    """How steps are taken. kind, solver: numbers of `RESIDUALS` and `SOLVERS`; guess: 1 to 4; dt in s; tolerance in
    N m s; most: residual evaluations in a step."""

    kind: int
    solver: int
    guess: int
    dt: float
    tolerance: float
    most: int


class Work(NamedTuple):
    """Arrays that a step overwrites."""

    rotation: np.ndarray
    offset: np.ndarray
    next_rotation: np.ndarray
    next_offset: np.ndarray
    u: np.ndarray
    d: np.ndarray
    load: np.ndarray
    impulse: np.ndarray
    force: np.ndarray
    moved: np.ndarray
    brought: np.ndarray
    delta: np.ndarray
    f: np.ndarray
    right: np.ndarray
    update: np.ndarray
    before: np.ndarray
    square: np.ndarray


@fused
def workspace(n: int, solver: int) -> Work:
    """Arrays for n links."""
    size = 0 if solver == RIQN else n
    return Work(
        np.empty((n, 9)),
        np.empty((n, 3)),
        np.empty((n, 9)),
        np.empty((n, 3)),
        np.empty((n, 6)),
        np.empty(n),
        np.empty((n, 6)),
        np.empty(n),
        np.empty((n, 6)),
        np.empty((n, 7)),
        np.empty((n, 6)),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty((size, size)),
    )


@fused
def evaluate(links: Links, kind: int, q: np.ndarray, dt: float, work: Work) -> float:
    """The residual at work.delta into work.f. Returns the largest |e|² where the kind knows it, else 0."""
    w = work
    if kind == INCREMENT:
        return residual(links, w.rotation, w.offset, w.delta, w.load, w.impulse, dt, w.moved, w.f, w.brought, w.force)
    if kind == PRINTED:
        printed_residual(links, q, w.rotation, w.offset, w.delta, w.load, w.impulse, dt, w.f, w.brought, w.force)
    else:
        discrete_momenta(links, q, w.delta, dt, w.f, w.right)
        w.f[:] -= w.impulse
    return 0.0


@fused
def find_update(links: Links, kind: int, solver: int, first: bool, q: np.ndarray, dt: float, work: Work) -> None:
    """What to subtract from work.delta, into work.update. first: whether this is the step's first update."""
    w = work
    if solver == RIQN:
        solve(links, w.rotation, w.offset, w.u, w.d, w.f, w.update, w.force)
    elif solver == NEWTON:
        if kind == SVI:
            midpoint_jacobian(links, q, w.delta, dt, w.square)
        else:
            if kind == PRINTED:
                displace(links, w.rotation, w.offset, w.delta, w.moved)
            pose(links, q + w.delta, w.next_rotation, w.next_offset)
            jacobian(links, w.rotation, w.offset, w.next_rotation, w.next_offset, w.moved, dt, w.square)
        w.update[:] = np.linalg.solve(w.square, w.f)
    else:
        if first:
            for j in range(len(q)):
                w.before[:] = 0.0
                w.before[j] = 1.0
                solve(links, w.rotation, w.offset, w.u, w.d, w.before, w.update, w.force)
                w.square[:, j] = w.update
        else:
            broyden_update(w.square, w.f - w.before, -w.update)
        w.before[:] = w.f
        w.update[:] = w.square @ w.f


@fused
def step(
    links: Links,
    method: Method,
    q: np.ndarray,
    past: np.ndarray,
    age: int,
    momentum: np.ndarray,
    tau: np.ndarray,
    external: np.ndarray,
    errors: np.ndarray,
    work: Work,
) -> tuple[int, int]:
    """One step. q (links,), past (4, links) and momentum (links, 6) are advanced in place if it converges. past: the
    last increments, the latest first; age: steps since the start; errors (most,): receives the norm of each residual
    in N m s. Returns the status and the number of residual evaluations."""
    w, n = work, len(q)
    kind, dt = method.kind, method.dt
    share = 1.0 if age else 0.5
    pose(links, q, w.rotation, w.offset)
    factorize(links, w.rotation, w.offset, w.u, w.d)
    guess_increment(links, method.guess, w.rotation, w.offset, w.u, w.d, past, age, tau, external, dt, w.delta, w.force)
    if kind == SVI:
        w.update[:] = tau
        if len(external):
            project_forces(links, w.rotation, w.offset, external, w.update)
        w.impulse[:] = momentum[:, 0] + share * dt * dt * w.update
    else:
        prepare(links, w.rotation, w.offset, past[0], momentum, tau, external, dt, share, w.load, w.impulse)
    for count in range(1, method.most + 1):
        widest = evaluate(links, kind, q, dt, w)
        squared = 0.0
        for i in range(n):
            squared += w.f[i] * w.f[i]
        error = sqrt(squared) / dt
        errors[count - 1] = error
        if not error < HOPELESS:
            return UNSOLVED, count
        if error <= method.tolerance:
            if widest > SINGULAR:
                return TURNED, count
            for i in range(n):
                q[i] += w.delta[i]
                for k in range(len(past) - 1, 0, -1):
                    past[k, i] = past[k - 1, i]
                past[0, i] = w.delta[i]
            if kind == SVI:
                momentum[:, 0] = w.right
            else:
                momentum[:] = w.brought
            return CONVERGED, count
        find_update(links, kind, method.solver, count == 1, q, dt, w)
        for i in range(n):
            w.delta[i] -= w.update[i]
    return UNSOLVED, method.most


@fused
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


@fused
def advance(
    links: Links,
    method: Method,
    q: np.ndarray,
    past: np.ndarray,
    age: int,
    momentum: np.ndarray,
    tau: np.ndarray,
    external: np.ndarray,
    configurations: np.ndarray,
    iterations: np.ndarray,
    errors: np.ndarray,
) -> int:
    """Steps until one fails or all are done: as many as configurations (steps, links), iterations and errors (steps,)
    have rows, which are written. tau (steps or 1, links), external (steps or 1, links, 6) or (1, 0, 6). q, past and
    momentum are advanced. Returns the status of the last step."""
    norms, work = np.empty(method.most), workspace(len(q), method.solver)
    for k in range(len(iterations)):
        row, at = min(k, len(tau) - 1), min(k, len(external) - 1)
        status, count = step(links, method, q, past, age + k, momentum, tau[row], external[at], norms, work)
        iterations[k], errors[k] = count, norms[count - 1]
        if status != CONVERGED:
            return status
        configurations[k] = q
    return CONVERGED


@fused
def energies(links: Links, q: np.ndarray, dt: float, kinetic_energy: np.ndarray, potential_energy: np.ndarray) -> None:
    """Of a trajectory q (steps + 1, links): kinetic (steps,) over the intervals, potential (steps + 1,)."""
    n = q.shape[1]
    rotation, offset, moved = np.empty((n, 9)), np.empty((n, 3)), np.empty((n, 7))
    for k in range(len(q)):
        pose(links, q[k], rotation, offset)
        potential_energy[k] = potential(links, rotation, offset)
        if k + 1 < len(q):
            kinetic_energy[k] = kinetic(links, rotation, offset, q[k + 1] - q[k], dt, moved)
