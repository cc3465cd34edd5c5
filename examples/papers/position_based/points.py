"""Forces on points of links, from contact and drag, with their derivatives by positions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from dynagate.forces.contact import Contact, check_points
from dynagate.forces.drag import Drag
from dynagate.robot import Robot

from examples.papers.compiled import compiled
from examples.papers.position_based.drag_points import drag_points
from examples.papers.position_based.links import Floats, Integers


class Points(NamedTuple):
    """Points in contact and points in a fluid, as arrays for compiled loops.

    link (points,), position (points, 3): candidates of contact; normal (planes, 3), offset (planes,).
    law (6,): C⊥, C∥, alpha, beta, gamma, and the exponent of |x| in the force along the plane. coupled: Equation 11.
    wet (points,), place (points, 3), viscous (points, 3, 3): points of drag in their links' frames, N s/m.
    """

    link: Integers
    position: Floats
    normal: Floats
    offset: Floats
    law: Floats
    coupled: bool
    wet: Integers
    place: Floats
    viscous: Floats


def points_of(robot: Robot, contact: Contact | None, drag: Drag | None) -> Points:
    """The points of a contact and a drag. Raises ContactError: a point on a link that the robot has not."""
    link: list[int] = check_points(robot, contact.points) if contact else []
    planes = contact.planes if contact else ()
    law = np.zeros(6)
    if contact:
        law[:] = contact.stiffness, contact.friction, contact.alpha, contact.beta, contact.gamma, contact.sliding
    wet, place, viscous = drag_points(robot, drag) if drag else ([], np.zeros((0, 3)), np.zeros((0, 3, 3)))
    positions = [point.position for point in contact.points] if contact else []
    return Points(
        link=np.array(link, np.int64),
        position=np.array(positions, float).reshape(-1, 3),
        normal=np.array([plane.normal for plane in planes], float).reshape(-1, 3),
        offset=np.array([plane.offset for plane in planes], float),
        law=law,
        coupled=bool(contact and contact.model == "pbd"),
        wet=np.array(wet, np.int64),
        place=place,
        viscous=viscous,
    )


@compiled
def position_of(pose: Floats, local: Floats, world: Floats) -> None:
    """A link's point in the world (3,)."""
    for a in range(3):
        world[a] = pose[a, 3] + pose[a, 0] * local[0] + pose[a, 1] * local[1] + pose[a, 2] * local[2]


@compiled
def _push(p: Floats, force: Floats, load: Floats) -> None:
    """Takes a force at p from a link's load."""
    for r in range(3):
        for c in range(3):
            load[r, c] -= force[r] * p[c]
        load[r, 3] -= force[r]


@compiled
def _stiffen(p: Floats, matrix: Floats, stiffness: Floats) -> None:
    """Adds Jᵀ C J with J = (-[p]×, 1) to a link's stiffness (6, 6), C not always symmetric."""
    side = np.zeros((3, 6))
    jacobian = np.zeros((3, 6))
    jacobian[0, 1], jacobian[0, 2] = p[2], -p[1]
    jacobian[1, 0], jacobian[1, 2] = -p[2], p[0]
    jacobian[2, 0], jacobian[2, 1] = p[1], -p[0]
    jacobian[0, 3] = jacobian[1, 4] = jacobian[2, 5] = 1.0
    for r in range(3):
        for c in range(6):
            side[r, c] = matrix[r, 0] * jacobian[0, c] + matrix[r, 1] * jacobian[1, c] + matrix[r, 2] * jacobian[2, c]
    for r in range(6):
        for c in range(6):
            stiffness[r, c] += jacobian[0, r] * side[0, c] + jacobian[1, r] * side[1, c] + jacobian[2, r] * side[2, c]


@compiled
def _contact(law: Floats, coupled: bool, exact: bool, n: Floats, d: float, x: Floats, f: Floats, c: Floats) -> float:
    """Fills in the force (3,) at depth d and displacement x along the plane, and minus its derivative (3, 3), or the
    part of it that is a square's (`exact` False). Returns the energy of the forces that have one."""
    alpha, beta, gamma, e = law[2], law[3], law[4], law[5]
    square = x[0] * x[0] + x[1] * x[1] + x[2] * x[2]
    length = max(np.sqrt(square), 1e-12)
    press = law[0] * d**alpha
    yields = law[0] * alpha * d ** (alpha - 1.0)
    rub = (beta + 1.0) * law[1] * length**e
    deep, deeper = d**gamma, d ** (gamma + 1.0)
    radial = e / square if e != 0.0 and square > 0.0 else 0.0
    across = rub * (gamma + 1.0) * deep  # ∂/∂n of the force along x
    back, lift, lifting = 0.0, 0.0, 0.0
    if coupled:
        lift = (gamma + 1.0) * law[1] * length ** (beta + 1.0) * deep
        lifting = (gamma + 1.0) * gamma * law[1] * length ** (beta + 1.0) * d ** (gamma - 1.0)
        back = across
        if not exact:
            radial = ((beta - 1.0) + 0.25 * (beta - 1.0) ** 2) / square if square > 0.0 else 0.0
            rub *= 2.0 / (beta + 1.0)
            across = back = law[1] * length ** (beta - 1.0) * deep * 0.5 * (gamma + 1.0) * (beta + 1.0)
            lifting = 0.5 * (gamma + 1.0) ** 2 * law[1] * length ** (beta + 1.0) * d ** (gamma - 1.0)
    force = (beta + 1.0) * law[1] * length**e * deeper
    for r in range(3):
        f[r] = (press + lift) * n[r] - force * x[r]
        for k in range(3):
            along = (1.0 if r == k else 0.0) - n[r] * n[k] + radial * x[r] * x[k]
            c[r, k] = (
                rub * deeper * along - across * x[r] * n[k] - back * n[r] * x[k] + (yields + lifting) * n[r] * n[k]
            )
    energy = law[0] / (alpha + 1.0) * d ** (alpha + 1.0)
    return energy + (law[1] * length ** (beta + 1.0) * deeper if coupled else 0.0)


@compiled
def add_points(
    points: Points, pose: Floats, before: Floats, dt: float, exact: bool, load: Floats, stiffness: Floats
) -> float:
    """Adds the forces on points to the loads (links, 3, 4) and their derivatives to the stiffness (links, 6, 6), at
    poses (links, 3, 4) that a step reaches from `before`. Returns the energy in J of the forces that have one."""
    energy = 0.0
    p, x, f, c = np.empty(3), np.empty(3), np.empty(3), np.empty((3, 3))
    for k in range(len(points.link)):
        i = points.link[k]
        position_of(pose[i], points.position[k], p)
        for s in range(len(points.offset)):
            n = points.normal[s]
            depth = points.offset[s] - n[0] * p[0] - n[1] * p[1] - n[2] * p[2]
            if depth > 0.0:
                position_of(before[i], points.position[k], x)
                for a in range(3):
                    x[a] = p[a] - x[a]
                off = n[0] * x[0] + n[1] * x[1] + n[2] * x[2]
                for a in range(3):
                    x[a] -= off * n[a]
                energy += _contact(points.law, points.coupled, exact, n, depth, x, f, c)
                _push(p, f, load[i])
                _stiffen(p, c, stiffness[i])
    for k in range(len(points.wet)):
        i = points.wet[k]
        position_of(pose[i], points.place[k], p)
        position_of(before[i], points.place[k], x)
        for a in range(3):
            x[a] = p[a] - x[a]
        for a in range(3):
            f[a] = 0.0
            for b in range(3):
                total = 0.0  # R C Rᵀ at the step's begin
                for u in range(3):
                    for v in range(3):
                        total += before[i, a, u] * points.viscous[k, u, v] * before[i, b, v]
                c[a, b] = total / dt
                f[a] -= c[a, b] * x[b]
            energy -= 0.5 * f[a] * x[a]
        _push(p, f, load[i])
        _stiffen(p, c, stiffness[i])
    return energy
