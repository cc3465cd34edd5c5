"""The semi-implicit Euler method as a loop over links: what the variational integrator is compared with."""

from __future__ import annotations

import numpy as np

from dynagate.integrators.articulated_loops import bias, factorise, pose, project, solve
from dynagate.integrators.compiled import fused
from dynagate.integrators.links import Links
from dynagate.integrators.variational_loops import potential, start


@fused
def semi_implicit_euler(links: Links, q: np.ndarray, qd: np.ndarray, dt: float, energy: np.ndarray) -> None:
    """Steps q, qd (links,) in place without joint forces: q̇ += dt q̈, then q += dt q̇. energy (steps,): kinetic plus
    potential after each step, in J."""
    n = len(q)
    rotation, offset, u, d = np.empty((n, 9)), np.empty((n, 3)), np.empty((n, 6)), np.empty(n)
    load, qdd, work = np.empty(n), np.empty(n), np.empty((n, 6))
    pose(links, q, rotation, offset)
    for k in range(len(energy)):
        factorise(links, rotation, offset, u, d)
        bias(links, rotation, offset, qd, load)
        solve(links, rotation, offset, u, d, -load, qdd, work)
        qd += dt * qdd
        q += dt * qd
        pose(links, q, rotation, offset)
        start(links, rotation, offset, qd, work)
        momentum = links.armature * qd
        project(links, rotation, offset, work, momentum)
        energy[k] = 0.5 * np.dot(qd, momentum) + potential(links, rotation, offset)
