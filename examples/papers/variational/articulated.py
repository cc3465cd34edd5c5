"""M⁻¹ e in linear time as loops over links: articulated inertias once a configuration, then any number of right-hand
sides (Featherstone 2008, §7.3, at rest and without gravity)."""

from __future__ import annotations

import numpy as np
from dynagate.integrators import vectors
from dynagate.integrators.vectors import Matrix, Vector, cross, dot, minus, plus, scaled, times, transposed_times

from examples.papers.compiled import callable_in_loops, fused
from examples.papers.variational.links import Links

callable_in_loops(*vectors.ALL)


@fused
def vector(array: np.ndarray, i: int) -> Vector:
    """Row i of an array (links, 3 or more) as a tuple."""
    return (array[i, 0], array[i, 1], array[i, 2])


@fused
def lower(array: np.ndarray, i: int) -> Vector:
    """Entries 3 to 5 of row i of an array (links, 6)."""
    return (array[i, 3], array[i, 4], array[i, 5])


@fused
def matrix(array: np.ndarray, i: int) -> Matrix:
    """Row i of an array (links, 9) as a tuple."""
    return (
        array[i, 0],
        array[i, 1],
        array[i, 2],
        array[i, 3],
        array[i, 4],
        array[i, 5],
        array[i, 6],
        array[i, 7],
        array[i, 8],
    )


@fused
def put(array: np.ndarray, i: int, upper: Vector, lower: Vector) -> None:
    """Writes row i of an array (links, 6)."""
    array[i, 0], array[i, 1], array[i, 2] = upper
    array[i, 3], array[i, 4], array[i, 5] = lower


@fused
def add(array: np.ndarray, i: int, upper: Vector, lower: Vector) -> None:
    """Adds to row i of an array (links, 6)."""
    for k in range(3):
        array[i, k] += upper[k]
        array[i, 3 + k] += lower[k]


@fused
def pose(links: Links, q: np.ndarray, rotation: np.ndarray, offset: np.ndarray) -> None:
    """Poses of links in their parents at q (links,): rotation (links, 9), offset (links, 3)."""
    for i in range(len(q)):
        fixed = links.rotation[i]
        if links.slides[i]:
            for k in range(3):
                offset[i, k] = links.offset[i, k] + fixed[3 * k + 2] * q[i]
            rotation[i] = fixed
        else:
            c, s = np.cos(q[i]), np.sin(q[i])
            offset[i] = links.offset[i]
            for k in range(0, 9, 3):
                rotation[i, k] = fixed[k] * c + fixed[k + 1] * s
                rotation[i, k + 1] = fixed[k + 1] * c - fixed[k] * s
                rotation[i, k + 2] = fixed[k + 2]


@fused
def to_link(r: Matrix, t: Vector, angular: Vector, linear: Vector) -> tuple[Vector, Vector]:
    """A motion of the parent seen from the link, whose pose in it is r, t."""
    return transposed_times(r, angular), transposed_times(r, minus(linear, cross(t, angular)))


@fused
def product(a: Matrix, b: Matrix) -> Matrix:
    """a b."""
    c0 = times(a, (b[0], b[3], b[6]))
    c1 = times(a, (b[1], b[4], b[7]))
    c2 = times(a, (b[2], b[5], b[8]))
    return (c0[0], c1[0], c2[0], c0[1], c1[1], c2[1], c0[2], c1[2], c2[2])


@fused
def transposed(a: Matrix) -> Matrix:
    return (a[0], a[3], a[6], a[1], a[4], a[7], a[2], a[5], a[8])


@fused
def _add_in_parent(inertia: np.ndarray, i: int, p: int, r: Matrix, t: Vector) -> None:
    """Adds the articulated inertia of link i, turned and moved, to that of its parent p. inertia: (links, 27), each
    moment = A ω + H v, force = Hᵀ ω + M v; moved: H' = H + t× M, A' = A - H' t× + t× Hᵀ."""
    back = transposed(r)
    a = product(product(r, matrix(inertia[:, 0:9], i)), back)
    h = product(product(r, matrix(inertia[:, 9:18], i)), back)
    m = product(product(r, matrix(inertia[:, 18:27], i)), back)
    skew = (0.0, -t[2], t[1], t[2], 0.0, -t[0], -t[1], t[0], 0.0)
    tm, th = product(skew, m), product(skew, transposed(h))
    for k in range(9):
        inertia[p, 9 + k] += h[k] + tm[k]
        inertia[p, 18 + k] += m[k]
    moved = (
        h[0] + tm[0],
        h[1] + tm[1],
        h[2] + tm[2],
        h[3] + tm[3],
        h[4] + tm[4],
        h[5] + tm[5],
        h[6] + tm[6],
        h[7] + tm[7],
        h[8] + tm[8],
    )
    down = product(moved, skew)
    for k in range(9):
        inertia[p, k] += a[k] - down[k] + th[k]


@fused
def factorize(links: Links, rotation: np.ndarray, offset: np.ndarray, u: np.ndarray, d: np.ndarray) -> None:
    """u (links, 6): U = I S of each joint, d (links,): 1 / (Sᵀ U + armature), with poses as `pose` writes them."""
    n = len(d)
    inertia = np.zeros((n, 27))
    for i in range(n):
        h, m = links.first[i], links.mass[i]
        inertia[i, 0:9] = links.inertia[i]
        inertia[i, 10], inertia[i, 11], inertia[i, 12] = -h[2], h[1], h[2]
        inertia[i, 14], inertia[i, 15], inertia[i, 16] = -h[0], -h[1], h[0]
        inertia[i, 18] = inertia[i, 22] = inertia[i, 26] = m
    for i in range(n - 1, -1, -1):
        a, h, m = inertia[i, 0:9], inertia[i, 9:18], inertia[i, 18:27]
        if links.slides[i]:
            moment, force = (h[2], h[5], h[8]), (m[2], m[5], m[8])
            pivot = m[8] + links.armature[i]
        else:
            moment, force = (a[2], a[5], a[8]), (h[6], h[7], h[8])
            pivot = a[8] + links.armature[i]
        d[i] = 1.0 / pivot
        put(u, i, moment, force)
        p = links.parent[i]
        if p >= 0:
            n_d, f_d = scaled(moment, d[i]), scaled(force, d[i])
            for row in range(3):
                for column in range(3):
                    k = 3 * row + column
                    a[k] -= n_d[row] * moment[column]
                    h[k] -= n_d[row] * force[column]
                    m[k] -= f_d[row] * force[column]
            _add_in_parent(inertia, i, p, matrix(rotation, i), vector(offset, i))


@fused
def solve(
    links: Links,
    rotation: np.ndarray,
    offset: np.ndarray,
    u: np.ndarray,
    d: np.ndarray,
    e: np.ndarray,
    x: np.ndarray,
    work: np.ndarray,
) -> None:
    """x (links,) with M x = e, after `factorize`. work: (links, 6)."""
    n = len(d)
    work[:] = 0.0
    for i in range(n - 1, -1, -1):
        x[i] = e[i] - (work[i, 5] if links.slides[i] else work[i, 2])
        p = links.parent[i]
        if p >= 0:
            s, r = x[i] * d[i], matrix(rotation, i)
            moment = times(r, plus(vector(work, i), scaled(vector(u, i), s)))
            force = times(r, plus(lower(work, i), scaled(lower(u, i), s)))
            add(work, p, plus(moment, cross(vector(offset, i), force)), force)
    for i in range(n):
        p, r = links.parent[i], matrix(rotation, i)
        turn, move = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        if p >= 0:
            turn, move = to_link(r, vector(offset, i), vector(work, p), lower(work, p))
        x[i] = (x[i] - dot(turn, vector(u, i)) - dot(move, lower(u, i))) * d[i]
        put(work, i, turn, move)
        work[i, 5 if links.slides[i] else 2] += x[i]


@fused
def bias(links: Links, rotation: np.ndarray, offset: np.ndarray, qd: np.ndarray, tau: np.ndarray) -> None:
    """tau (links,): joint forces at velocity qd (links,) without acceleration, gravity and damping included: recursive
    Newton-Euler."""
    n = len(qd)
    velocity, acceleration, force = np.zeros((n, 6)), np.zeros((n, 6)), np.zeros((n, 6))
    up = (-links.gravity[0], -links.gravity[1], -links.gravity[2])
    for i in range(n):
        p, r, t = links.parent[i], matrix(rotation, i), vector(offset, i)
        w, v = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        wd, a = (0.0, 0.0, 0.0), transposed_times(r, up)
        if p >= 0:
            w, v = to_link(r, t, vector(velocity, p), lower(velocity, p))
            wd, a = to_link(r, t, vector(acceleration, p), lower(acceleration, p))
        rate = (0.0, 0.0, qd[i])
        if links.slides[i]:
            a, v = plus(a, cross(w, rate)), plus(v, rate)
        else:
            wd, a, w = plus(wd, cross(w, rate)), plus(a, cross(v, rate)), plus(w, rate)
        put(velocity, i, w, v)
        put(acceleration, i, wd, a)
        first, about, mass = vector(links.first, i), matrix(links.inertia, i), links.mass[i]
        moment, push = plus(times(about, w), cross(first, v)), minus(scaled(v, mass), cross(first, w))
        put(
            force,
            i,
            plus(plus(times(about, wd), cross(first, a)), plus(cross(w, moment), cross(v, push))),
            plus(minus(scaled(a, mass), cross(first, wd)), cross(w, push)),
        )
    for i in range(n):
        tau[i] = links.damping[i] * qd[i]
    project(links, rotation, offset, force, tau)


@fused
def project(links: Links, rotation: np.ndarray, offset: np.ndarray, force: np.ndarray, tau: np.ndarray) -> None:
    """Adds to tau (links,) the joint forces that carry forces on the links, (links, 6) in their own frames; force is
    overwritten by what each joint transmits."""
    for i in range(len(tau) - 1, -1, -1):
        tau[i] += force[i, 5] if links.slides[i] else force[i, 2]
        p = links.parent[i]
        if p >= 0:
            r = matrix(rotation, i)
            push = times(r, lower(force, i))
            add(force, p, plus(times(r, vector(force, i)), cross(vector(offset, i), push)), push)
