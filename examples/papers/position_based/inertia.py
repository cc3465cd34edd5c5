"""The inertia of a step that is written in positions: I(q_a, q_b), its derivatives, and sums over subtrees.

I(q_a, q_b) = ∫ P(q_a)ᵀ P(q_b) dm = Σ tr(T_a M̃ T_bᵀ) over the links, Equation 8 of Pan & Manocha (2018). Its derivatives
are sums over subtrees of the matrices T_a M̃ T_bᵀ, read along the dofs' twists: Algorithms 1 to 3 in closed form.

A load (links, 3, 4) is (N | f) = X M̃ Tᵀ for a field X of forces, with f its resultant and the axial part of N its
moment about the world's origin. A stiffness (links, 6, 6) is a quadratic form of two twists.
"""

from __future__ import annotations

import numpy as np

from examples.papers.compiled import compiled
from examples.papers.position_based.links import Floats, Links


@compiled
def paired(links: Links, a: Floats, b: Floats) -> float:
    """I(q_a, q_b) in kg m², from the poses at both configurations."""
    total = 0.0
    for i in range(len(links.parent)):
        if links.massive[i]:
            for r in range(3):
                for c in range(4):
                    row = 0.0
                    for e in range(4):
                        row += links.moment[i, c, e] * b[i, r, e]
                    total += a[i, r, c] * row
    return total


@compiled
def weighted(x: Floats, m: Floats) -> tuple[float, float, float, float]:
    """xᵀ M̃, a row x (4,) of a field or a pose."""
    x0, x1, x2, x3 = x
    return (
        x0 * m[0, 0] + x1 * m[1, 0] + x2 * m[2, 0] + x3 * m[3, 0],
        x0 * m[0, 1] + x1 * m[1, 1] + x2 * m[2, 1] + x3 * m[3, 1],
        x0 * m[0, 2] + x1 * m[1, 2] + x2 * m[2, 2] + x3 * m[3, 2],
        x0 * m[0, 3] + x1 * m[1, 3] + x2 * m[2, 3] + x3 * m[3, 3],
    )


@compiled
def load_of(links: Links, field: Floats, pose: Floats, load: Floats) -> None:
    """Adds X M̃ Tᵀ of every link to its load, X the field (links, 3, 4) and T the pose."""
    for i in range(len(links.parent)):
        if not links.massive[i]:
            continue
        for r in range(3):
            y0, y1, y2, y3 = weighted(field[i, r], links.moment[i])
            for c in range(3):
                load[i, r, c] += y0 * pose[i, c, 0] + y1 * pose[i, c, 1] + y2 * pose[i, c, 2] + y3 * pose[i, c, 3]
            load[i, r, 3] += y3


@compiled
def gather(links: Links, parts: Floats) -> None:
    """Sums of loads or of stiffnesses over subtrees, in place."""
    flat = parts.reshape(len(parts), parts.shape[1] * parts.shape[2])
    for i in range(len(parts) - 1, -1, -1):
        parent = links.parent[i]
        if parent >= 0:
            for e in range(flat.shape[1]):
                flat[parent, e] += flat[i, e]


@compiled
def slope(links: Links, twist: Floats, load: Floats, gradient: Floats) -> None:
    """∂/∂q (nv,), Algorithm 1: moment and force of each dof's subtree along its twist. Loads are gathered."""
    for d in range(len(links.link_of)):
        n, s = load[links.link_of[d]], twist[d]
        turning = s[0] * (n[2, 1] - n[1, 2]) + s[1] * (n[0, 2] - n[2, 0]) + s[2] * (n[1, 0] - n[0, 1])
        gradient[d] = turning + s[3] * n[0, 3] + s[4] * n[1, 3] + s[5] * n[2, 3]


@compiled
def add_curvature(links: Links, twist: Floats, load: Floats, symmetric: bool, hessian: Floats) -> None:
    """Adds what ∂²T/∂q² contributes to a Hessian (nv, nv), Algorithm 2: ω_j · (Nᵀω_k - tr(N) ω_k + v_k × f) for j at or
    above k. Loads are gathered.

    The axes of a joint with a quaternion turn with its link. So the derivative of the gradient depends there on the
    order of two dofs of the joint, and is what this adds, rows first; `symmetric` adds the mean of both orders, the
    second derivative along a screw.
    """
    bent = np.empty((len(links.link_of), 3))
    for k in range(len(links.link_of)):
        n, s = load[links.link_of[k]], twist[k]
        trace = n[0, 0] + n[1, 1] + n[2, 2]
        for a in range(3):
            bent[k, a] = n[0, a] * s[0] + n[1, a] * s[1] + n[2, a] * s[2] - trace * s[a]
        bent[k, 0] += s[4] * n[2, 3] - s[5] * n[1, 3]
        bent[k, 1] += s[5] * n[0, 3] - s[3] * n[2, 3]
        bent[k, 2] += s[3] * n[1, 3] - s[4] * n[0, 3]
    for k in range(len(links.link_of)):
        j = k
        while j >= 0:
            value = twist[j, 0] * bent[k, 0] + twist[j, 1] * bent[k, 1] + twist[j, 2] * bent[k, 2]
            back = value
            if j != k and links.link_of[j] == links.link_of[k]:
                back = twist[k, 0] * bent[j, 0] + twist[k, 1] * bent[j, 1] + twist[k, 2] * bent[j, 2]
                if symmetric:
                    value = back = 0.5 * (value + back)
            hessian[k, j] += value
            if j != k:
                hessian[j, k] += back
            j = links.above[j]


@compiled
def add_inertia(links: Links, a: Floats, b: Floats, factor: float, stiffness: Floats) -> None:
    """Adds to each link's stiffness (links, 6, 6) the form whose value at twists s of q_a and t of q_b is
    factor · tr((Ξ_s T_a) M̃ (Ξ_t T_b)ᵀ), what Algorithm 3 sums. At equal poses it is the spatial inertia."""
    for i in range(len(links.parent)):
        if not links.massive[i]:
            continue
        y, m = stiffness[i], links.moment[i]
        mass = factor * m[3, 3]
        trace = 0.0
        for r in range(3):
            y0, y1, y2, y3 = weighted(a[i, r], m)
            for c in range(3):
                value = factor * (y0 * b[i, c, 0] + y1 * b[i, c, 1] + y2 * b[i, c, 2] + y3 * b[i, c, 3])
                y[c, r] -= value
                if r == c:
                    trace += value
            p, n = (r + 1) % 3, (r + 2) % 3
            y[n, 3 + p] += factor * y3  # [f_a]×, f_a = T_a M̃ e_4
            y[p, 3 + n] -= factor * y3
            z = factor * (m[3, 0] * b[i, r, 0] + m[3, 1] * b[i, r, 1] + m[3, 2] * b[i, r, 2] + m[3, 3] * b[i, r, 3])
            y[3 + n, p] -= z  # -[f_b]×
            y[3 + p, n] += z
            y[3 + r, 3 + r] += mass
        for r in range(3):
            y[r, r] += trace


@compiled
def add_products(links: Links, left: Floats, right: Floats, stiffness: Floats, hessian: Floats) -> None:
    """Adds leftᵀ Y right of the twists (nv, 6) of two configurations to a matrix (nv, nv), Y the gathered stiffness of
    the farther dof's link. Dofs on different branches have no product."""
    for k in range(len(links.link_of)):
        y = stiffness[links.link_of[k]]
        down, up = np.zeros(6), np.zeros(6)
        for r in range(6):
            for c in range(6):
                down[r] += y[r, c] * right[k, c]
                up[c] += left[k, r] * y[r, c]
        j = k
        while j >= 0:
            value = 0.0
            for r in range(6):
                value += left[j, r] * down[r]
            hessian[j, k] += value
            if j != k:
                value = 0.0
                for r in range(6):
                    value += up[r] * right[j, r]
                hessian[k, j] += value
            j = links.above[j]


@compiled
def eliminate(links: Links, twist: Floats, stiffness: Floats, diagonal: Floats, gradient: Floats, step: Floats) -> None:
    """Solves (Sᵀ Y S + diag) step = -gradient in O(n), by articulated bodies in the world's frame.

    stiffness (links, 6, 6): symmetric, of each link alone; overwritten. diagonal, gradient, step: (nv,).
    """
    n = len(links.link_of)
    u, inverse, carried = np.empty((n, 6)), np.empty(n), np.zeros((len(links.parent), 6))
    d = n - 1
    for i in range(len(links.parent) - 1, -1, -1):
        y, p = stiffness[i], carried[i]
        while d >= 0 and links.link_of[d] == i:
            pivot, force = diagonal[d], -gradient[d]
            for r in range(6):
                total = 0.0
                for c in range(6):
                    total += y[r, c] * twist[d, c]
                u[d, r] = total
                pivot += twist[d, r] * total
                force -= twist[d, r] * p[r]
            inverse[d] = 1.0 / pivot
            step[d] = force
            for r in range(6):
                yielding = u[d, r] * inverse[d]
                p[r] += yielding * force
                for c in range(6):
                    y[r, c] -= yielding * u[d, c]
            d -= 1
        parent = links.parent[i]
        if parent >= 0:
            for r in range(6):
                carried[parent, r] += p[r]
                for c in range(6):
                    stiffness[parent, r, c] += y[r, c]
    d = 0
    for i in range(len(links.parent)):
        motion, parent = carried[i], links.parent[i]
        for r in range(6):
            motion[r] = carried[parent, r] if parent >= 0 else 0.0
        while d < n and links.link_of[d] == i:
            total = step[d]
            for r in range(6):
                total -= u[d, r] * motion[r]
            step[d] = total * inverse[d]
            for r in range(6):
                motion[r] += twist[d, r] * step[d]
            d += 1
