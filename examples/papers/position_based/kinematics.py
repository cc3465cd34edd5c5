"""Where links are in the world, how dofs move them, and steps from one configuration to another.

A pose (3, 4) is (R | p). A dof's twist (6,) is (ω, v): it moves the point x of its link, and of all links beyond, with
velocity v + ω × x, both in the world's axes.
"""

from __future__ import annotations

import numpy as np

from examples.papers.compiled import compiled
from examples.papers.position_based.links import Floats, Links


@compiled
def _turn(link: int, links: Links, q: Floats, turn: Floats) -> None:
    """The rotation by which joint `link` turns, in its joint frame."""
    kind = links.kind[link]
    turn[:] = 0.0
    if kind == 1:
        turn[0, 0] = turn[1, 1] = turn[2, 2] = 1.0
    elif kind == 0:
        x, y, z = links.axis[link]
        angle = q[links.first_q[link]]
        c, s = np.cos(angle), np.sin(angle)
        k = 1.0 - c
        turn[0, 0], turn[0, 1], turn[0, 2] = c + k * x * x, k * x * y - s * z, k * x * z + s * y
        turn[1, 0], turn[1, 1], turn[1, 2] = k * x * y + s * z, c + k * y * y, k * y * z - s * x
        turn[2, 0], turn[2, 1], turn[2, 2] = k * x * z - s * y, k * y * z + s * x, c + k * z * z
    else:
        first = links.first_q[link] + (3 if kind == 3 else 0)
        x, y, z, w = q[first], q[first + 1], q[first + 2], q[first + 3]
        turn[0, 0], turn[0, 1], turn[0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)
        turn[1, 0], turn[1, 1], turn[1, 2] = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
        turn[2, 0], turn[2, 1], turn[2, 2] = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)


@compiled
def place(links: Links, q: Floats, pose: Floats, twist: Floats) -> None:
    """Fills in every link's pose (links, 3, 4) and every dof's twist (nv, 6) at configuration q (nq,)."""
    turn = np.empty((3, 3))
    base = np.empty((3, 3))
    for i in range(len(links.parent)):
        parent, kind, first = links.parent[i], links.kind[i], links.first_v[i]
        _turn(i, links, q, turn)
        for a in range(3):  # the joint frame in the world
            for b in range(3):
                if parent < 0:
                    base[a, b] = links.rotation[i, a, b]
                else:
                    base[a, b] = 0.0
                    for c in range(3):
                        base[a, b] += pose[parent, a, c] * links.rotation[i, c, b]
            pose[i, a, 3] = links.translation[i, a]
            if parent >= 0:
                pose[i, a, 3] = pose[parent, a, 3]
                for c in range(3):
                    pose[i, a, 3] += pose[parent, a, c] * links.translation[i, c]
        for a in range(3):
            for b in range(3):
                pose[i, a, b] = base[a, 0] * turn[0, b] + base[a, 1] * turn[1, b] + base[a, 2] * turn[2, b]
            if kind == 1:
                along = base[a, 0] * links.axis[i, 0] + base[a, 1] * links.axis[i, 1] + base[a, 2] * links.axis[i, 2]
                pose[i, a, 3] += along * q[links.first_q[i]]
                twist[first, a], twist[first, 3 + a] = 0.0, along
            elif kind == 3:
                for c in range(3):
                    pose[i, a, 3] += base[a, c] * q[links.first_q[i] + c]
                    twist[first + c, a], twist[first + c, 3 + a] = 0.0, pose[i, a, c]
        if kind == 0:
            for a in range(3):
                axis = links.axis[i]
                twist[first, a] = base[a, 0] * axis[0] + base[a, 1] * axis[1] + base[a, 2] * axis[2]
            _about_origin(twist, first, pose[i])
        elif kind >= 2:
            for c in range(3):
                d = first + c + (3 if kind == 3 else 0)
                for a in range(3):
                    twist[d, a] = pose[i, a, c]
                _about_origin(twist, d, pose[i])


@compiled
def _about_origin(twist: Floats, d: int, pose: Floats) -> None:
    """The linear half of a dof that turns about an axis through the pose's origin: p × ω."""
    twist[d, 3] = pose[1, 3] * twist[d, 2] - pose[2, 3] * twist[d, 1]
    twist[d, 4] = pose[2, 3] * twist[d, 0] - pose[0, 3] * twist[d, 2]
    twist[d, 5] = pose[0, 3] * twist[d, 1] - pose[1, 3] * twist[d, 0]


@compiled
def move(links: Links, q: Floats, v: Floats, moved: Floats) -> None:
    """Fills in the configuration `moved` (nq,) reached from q (nq,) by the tangent v (nv,): angles and distances add,
    quaternions are multiplied from the right by exp(ω/2), and a floating joint's origin moves along its own axes."""
    turn = np.empty((3, 3))
    for i in range(len(links.parent)):
        kind, iq, iv = links.kind[i], links.first_q[i], links.first_v[i]
        if kind < 2:
            moved[iq] = q[iq] + v[iv]
            continue
        if kind == 3:
            _turn(i, links, q, turn)
            for a in range(3):
                moved[iq + a] = q[iq + a] + turn[a, 0] * v[iv] + turn[a, 1] * v[iv + 1] + turn[a, 2] * v[iv + 2]
            iq, iv = iq + 3, iv + 3
        angle = np.sqrt(v[iv] ** 2 + v[iv + 1] ** 2 + v[iv + 2] ** 2)
        s = np.sin(0.5 * angle) / angle if angle > 1e-9 else 0.5
        x, y, z, w = v[iv] * s, v[iv + 1] * s, v[iv + 2] * s, np.cos(0.5 * angle)
        a, b, c, d = q[iq], q[iq + 1], q[iq + 2], q[iq + 3]
        e = d * x + w * a + b * z - c * y
        f = d * y + w * b + c * x - a * z
        g = d * z + w * c + a * y - b * x
        h = d * w - a * x - b * y - c * z
        norm = np.sqrt(e * e + f * f + g * g + h * h)
        moved[iq], moved[iq + 1], moved[iq + 2], moved[iq + 3] = e / norm, f / norm, g / norm, h / norm


@compiled
def subtract(links: Links, target: Floats, q: Floats, v: Floats) -> None:
    """Fills in the tangent v (nv,) that `move` takes from q to target, turns below π."""
    turn = np.empty((3, 3))
    for i in range(len(links.parent)):
        kind, iq, iv = links.kind[i], links.first_q[i], links.first_v[i]
        if kind < 2:
            v[iv] = target[iq] - q[iq]
            continue
        if kind == 3:
            _turn(i, links, q, turn)
            for a in range(3):
                v[iv + a] = 0.0
                for b in range(3):
                    v[iv + a] += turn[b, a] * (target[iq + b] - q[iq + b])
            iq, iv = iq + 3, iv + 3
        a, b, c, d = -q[iq], -q[iq + 1], -q[iq + 2], q[iq + 3]
        x, y, z, w = target[iq], target[iq + 1], target[iq + 2], target[iq + 3]
        e = d * x + w * a + b * z - c * y
        f = d * y + w * b + c * x - a * z
        g = d * z + w * c + a * y - b * x
        h = d * w - a * x - b * y - c * z
        sine = np.sqrt(e * e + f * f + g * g)
        if h < 0.0:
            e, f, g, h = -e, -f, -g, -h
        scale = 2.0 * np.arctan2(sine, h) / sine if sine > 1e-9 else 2.0
        v[iv], v[iv + 1], v[iv + 2] = e * scale, f * scale, g * scale
