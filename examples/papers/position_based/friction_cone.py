"""Impulses of rigid contacts with Coulomb friction, whose cone is round.

The unknowns r are a normal impulse r_n and two tangential ones r_t for each contact. The contacts' velocities are
u = W r + b, with W = J M⁻¹ Jᵀ and the normal entries of b moved by the gaps. The conditions of a contact are
0 ≤ u_n ⟂ r_n ≥ 0, |r_t| ≤ mu r_n, and r_t opposes u_t with all of mu r_n where the point slides. They hold where
r = P(r - u/ρ), where P takes r_n to the nearest number of 0 or more and r_t to the nearest point of the disc of radius
mu r_n. Sweeps of Gauss and Seidel come near a solution. Newton's method on this equation finishes it (Alart & Curnier,
"A mixed formulation for frictional contact problems prone to Newton like solution methods", 1991).
"""

from __future__ import annotations

import numpy as np

from examples.papers.compiled import compiled
from examples.papers.position_based.links import Floats

COMPLIANCE = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Compliance of contacts beside a point's own mobility. Points that share their forces in many ways need one. The first
with which there is a solution is taken."""

TOLERANCE = 1e-8
"""m/s: of the conditions, times one more than the largest velocity without impulses."""

ROUNDS, SWEEPS, NEWTON = 3, 50, 12
"""Per compliance: rounds, each of so many sweeps and then at most so many steps of Newton's."""


@compiled
def impulses(mobility: Floats, velocity: Floats, mu: float, r: Floats) -> int:
    """Fills in the impulses r (3 m,), from a guess of them: normal, tangent, tangent of each contact.

    mobility: W (3 m, 3 m); velocity: b (3 m,). Returns the steps of Newton's and rounds that it took, or -1 where the
    conditions are not met: r is of no use then."""
    n, taken = len(velocity), 0
    w, steep = np.empty((n, n)), np.empty(n)
    start, residual, slope = r.copy(), np.empty(n), np.empty((n, n))
    enough = TOLERANCE * (1.0 + np.max(np.abs(velocity)))
    for compliance in COMPLIANCE:
        _softened(mobility, compliance, w, steep)
        r[:] = start
        for _ in range(ROUNDS):
            taken += 1
            for _ in range(SWEEPS):
                _sweep(w, velocity, mu, steep, r)
            before = r.copy()
            error = _residual(w, velocity, mu, steep, r, residual, slope)
            for _ in range(NEWTON):
                if error <= enough or not np.isfinite(error):
                    break
                try:
                    r -= np.linalg.solve(slope, residual)
                except Exception:  # of a slope without an inverse; Numba knows no narrower one
                    break
                taken += 1
                error = _residual(w, velocity, mu, steep, r, residual, slope)
            if error <= enough:
                return taken
            r[:] = before
    return -1


@compiled
def _softened(mobility: Floats, compliance: float, w: Floats, steep: Floats) -> None:
    """Fills in W with a compliance and ρ (3 m,): of the normal, and twice the larger of both tangents."""
    w[:] = mobility
    largest = 0.0
    for i in range(len(w)):
        largest = max(largest, w[i, i])
    for c in range(0, len(w), 3):
        own = max(w[c, c], w[c + 1, c + 1], w[c + 2, c + 2], 1e-6 * largest)
        for i in range(c, c + 3):
            w[i, i] += compliance * own
        a, b, across = w[c + 1, c + 1], w[c + 2, c + 2], w[c + 1, c + 2]
        steep[c] = w[c, c]
        steep[c + 1] = steep[c + 2] = 0.5 * (a + b) + np.sqrt(0.25 * (a - b) ** 2 + across**2)


@compiled
def _sweep(w: Floats, b: Floats, mu: float, steep: Floats, r: Floats) -> None:
    """Each contact's conditions in turn, the others' impulses as they are."""
    n = len(b)
    for c in range(0, n, 3):
        u = b[c]
        for k in range(n):
            u += w[c, k] * r[k]
        r[c] = max(0.0, r[c] - u / steep[c])
        x, y = b[c + 1], b[c + 2]
        for k in range(n):
            x += w[c + 1, k] * r[k]
            y += w[c + 2, k] * r[k]
        x, y = r[c + 1] - x / steep[c + 1], r[c + 2] - y / steep[c + 2]
        size, radius = np.sqrt(x * x + y * y), mu * r[c]
        part = radius / size if size > radius else 1.0
        r[c + 1], r[c + 2] = part * x, part * y


@compiled
def _residual(w: Floats, b: Floats, mu: float, steep: Floats, r: Floats, residual: Floats, slope: Floats) -> float:
    """Fills in ρ (r - P(r - u/ρ)), m/s, and its derivative by r; returns the largest entry."""
    u = w @ r + b
    slope[:] = 0.0
    for c in range(0, len(b), 3):
        rho = steep[c]
        if r[c] - u[c] / rho > 0.0:
            residual[c], slope[c] = u[c], w[c]
        else:
            residual[c], slope[c, c] = rho * r[c], rho
        rho = steep[c + 1]
        x, y = r[c + 1] - u[c + 1] / rho, r[c + 2] - u[c + 2] / rho
        size, radius = np.sqrt(x * x + y * y), mu * max(r[c], 0.0)
        if size <= radius:  # it sticks
            residual[c + 1], residual[c + 2] = u[c + 1], u[c + 2]
            slope[c + 1], slope[c + 2] = w[c + 1], w[c + 2]
            continue
        x, y, part = x / size, y / size, radius / size
        residual[c + 1], residual[c + 2] = rho * (r[c + 1] - radius * x), rho * (r[c + 2] - radius * y)
        xx, xy, yy = part * (1.0 - x * x), -part * x * y, part * (1.0 - y * y)
        slope[c + 1] = xx * w[c + 1] + xy * w[c + 2]
        slope[c + 2] = xy * w[c + 1] + yy * w[c + 2]
        slope[c + 1, c + 1] += rho * (1.0 - xx)
        slope[c + 1, c + 2] -= rho * xy
        slope[c + 2, c + 1] -= rho * xy
        slope[c + 2, c + 2] += rho * (1.0 - yy)
        if r[c] > 0.0:
            slope[c + 1, c] -= rho * mu * x
            slope[c + 2, c] -= rho * mu * y
    return np.max(np.abs(residual))
