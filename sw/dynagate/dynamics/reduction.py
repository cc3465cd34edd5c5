"""Reduction of a robot's constants to the fewest that determine its joint torques.

Two freedoms are used. A link's frame may lie anywhere on its joint's axis; if neighboring axes intersect, no distance
between their frames remains. And the part of a link's inertia that does not load its joint can be moved to the parent.
Torques, M and their derivatives are preserved. The positions and masses of links are not.

Reference:
    Gautier & Khalil, "Direct calculation of minimum set of inertial parameters of serial robots", IEEE Trans. Robotics
    and Automation 6(3), 1990.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.exact import exact, written
from dynagate.dynamics.joint_motions import Z, motion_of
from dynagate.dynamics.spatial import Array, Inertia, array, exact_rotation, zeros
from dynagate.robot.model import Robot
from dynagate.robot.parts import Link
from dynagate.robot.vectors import summed, vector3

Vector = npt.NDArray[np.float64]


class Varied(NamedTuple):
    """Properties of links that are inputs, in the tree's frames."""

    inertias: Mapping[int, Inertia] = MappingProxyType({})
    """Inertia that is an input, by link."""
    placed: frozenset[int] = frozenset()
    """Links whose joint has an input for its pose in the parent."""
    turned: frozenset[int] = frozenset()
    """The links of `placed` whose rotation is an input."""
    gravity: bool = False
    """Whether gravity is an input."""


NO_INPUTS = Varied()
"""No property is an input."""


def moved_frames(robot: Robot, placed: Collection[int] = ()) -> tuple[Robot, list[float]]:
    """Move the frames of rotating links along their axes so that the fewest nonzero numbers lie between neighboring
    frames.

    Among equal choices, frames stay nearest to where they were.

    Args:
        robot: The robot with every joint axis aligned to z.
        placed: Links whose frame stays, because the pose of their joint is an input.

    Returns:
        The robot with moved frames, and the distance by which each frame was moved along z, m.
    """
    places = _places(robot, placed)
    # for each link and candidate position: nonzero numbers below, meters moved, the children's positions; leaves first
    best: list[dict[float, tuple[int, float, dict[int, float]]]] = [{} for _ in robot.links]
    children: list[list[int]] = [[] for _ in robot.links]
    for k, parent in enumerate(robot.parents):
        if parent >= 0:
            children[parent].append(k)
    for i in reversed(range(len(robot.links))):
        for place in places[i]:
            numbers, meters, chosen = 0, abs(place), {}
            for k in children[i]:
                below = {
                    s: (int(np.count_nonzero(_translation(robot.links[k], place, s))) + best[k][s][0], best[k][s][1])
                    for s in places[k]
                }
                chosen[k] = min(below, key=lambda s: below[s])
                numbers += below[chosen[k]][0]
                meters += below[chosen[k]][1]
            best[i][place] = numbers, meters, chosen
    shifts = [0.0] * len(robot.links)
    for i, parent in enumerate(robot.parents):
        if parent < 0:
            shifts[i] = min(best[i], key=lambda s: best[i][s][:2])
        for k, place in best[i][shifts[i]][2].items():
            shifts[k] = place
    links = []
    for link, place in zip(robot.links, shifts, strict=True):
        above = shifts[link.parent] if link.parent >= 0 else 0.0
        joint = replace(link.joint, translation=vector3(_translation(link, above, place)))
        links.append(replace(link, joint=joint, com=vector3(summed(link.com, -place * Z))))
    return replace(robot, links=tuple(links)), shifts


def _places(robot: Robot, placed: Collection[int] = ()) -> list[list[float]]:
    """Return the candidate positions of each link's frame on its axis, m: 0, and the points nearest to neighboring
    axes. A link in `placed` has the candidate 0 only.
    """
    places = [[0.0] for _ in robot.links]
    far = 2.0 * max(float(np.linalg.norm(link.joint.translation)) for link in robot.links)
    for i, link in enumerate(robot.links):
        p = link.parent
        if p < 0 or i in placed or not (link.joint.kind.turning and robot.links[p].joint.kind.turning):
            continue
        t, axis = np.array(link.joint.translation), np.array(link.joint.rotation)[:, 2]
        between = 1.0 - axis[2] ** 2
        if between < 1e-9:  # parallel axes: every point has a nearest one on the other axis
            places[i].append(-float(t @ axis))
            places[p].append(float(t[2]))
        else:
            along = axis[2] * t[2] - t @ axis
            places[i].append(float(along / between))
            places[p].append(float((t[2] - axis[2] * (t @ axis)) / between))
    return [
        [s for k, s in enumerate(some) if k == 0 or (i not in placed and 0.0 < abs(s) <= far)]
        for i, some in enumerate(places)
    ]


def _translation(link: Link, above: float, place: float) -> Vector:
    """Return the translation from the parent's frame, moved by `above`, to the link's frame, moved by `place`, m."""
    axis = np.array(link.joint.rotation)[:, 2]
    return summed(link.joint.translation, place * axis, -above * Z, within=1e-14)


class Dipole(NamedTuple):
    """A mass distribution without mass: first moment h, and second moment Σ = spread 1 + point hᵀ + h pointᵀ.

    Any rotating link can be written in this form, in the seven numbers that load its joint, because the parent may
    carry its mass and the mass on its axis. About an origin at distance p, the point becomes p + point and the rest
    stays.
    """

    spread: float
    """Isotropic part of the second moment, kg m²."""
    first: Array
    """First moment h (3,), kg m."""
    point: Array
    """Point (3,), m."""

    def inertia(self) -> Inertia:
        h, p = array(self.first), array(self.point)
        products = np.multiply.outer(p, h)
        return Inertia(0.0, h, array(np.eye(3)) * self.spread + products + products.T)


Body = Inertia | Dipole


class Given(NamedTuple):
    """A link of an aligned robot in exact numbers, with its complete mass."""

    mass: float
    """Mass, kg."""
    first: Array
    """First moment (3,) about the link's origin, kg m."""
    second: Array
    """Second moment (3, 3) about the link's origin, kg m²."""
    rotation: Array
    """Rotation (3, 3) from the link's axes to the parent's."""
    translation: Array
    """Origin (3,) of the link in the parent's frame, m."""


def given_links(robot: Robot) -> list[Given]:
    """Return the links of the aligned robot for `bodies`, so that several calls with different dipoles can share
    them.
    """
    return [
        Given(
            (mass := written(link.mass)[()]),
            written(link.com) * mass,
            _second_moment(link),
            exact_rotation(link.joint.rotation),
            written(link.joint.translation),
        )
        for link in robot.links
    ]


def regrouped(robot: Robot, varied: Varied = NO_INPUTS) -> list[Inertia]:
    """Return the result of `bodies` without dipoles."""
    return [body for body in bodies(robot, [False] * len(robot.links), varied) if isinstance(body, Inertia)]


def bodies(
    robot: Robot,
    as_dipole: Sequence[bool],
    varied: Varied = NO_INPUTS,
    constants: Sequence[Given] | None = None,
) -> list[Body]:
    """Return the bodies of the aligned robot's links without the part that does not load their joints; parents carry
    that part.

    A joint that rotates about z is not loaded by mass on z: m, h_z and Σ_zz. A spherical joint is not loaded by mass at
    its center. A sliding joint is not loaded by Σ: if m and h stay, only the rotational inertia moves to the parent. A
    link that can rotate about one direction only is loaded by no more of Σ than the inertia about that direction. A
    link that rotates about a vertical axis of the base is not loaded by its first moment either.

    Args:
        robot: The robot with every joint axis aligned to z.
        as_dipole: For each link, whether to write it as a Dipole, if it rotates and the numbers do not become large.
        varied: Properties that are inputs. Parents carry nothing of a link whose inertia or pose is an input.
        constants: `given_links(robot)`, if the caller has it.
    """
    constants = given_links(robot) if constants is None else constants
    mass, first, second = [g.mass for g in constants], [g.first for g in constants], [g.second for g in constants]
    planar = _planar(robot, varied)
    for i in varied.inertias:
        mass[i], first[i], second[i] = exact(0.0), zeros(3), zeros(3, 3)
    bodies_upwards: list[Body] = []
    for i in reversed(range(len(robot.links))):
        if i in varied.inertias or i in varied.placed:
            carried = Inertia(mass[i], array(first[i]), array(second[i]))
            bodies_upwards.append(varied.inertias[i] + carried if i in varied.inertias else carried)
            continue
        joint, p = robot.links[i].joint, robot.parents[i]
        body: Body = _loading_part(joint.type, mass[i], first[i], second[i])
        if i in planar:
            about_axis = second[i][0, 0] + second[i][1, 1]
            loading_part = planar[i] * first[i] * (1.0 - Z)
            if as_dipole[i]:
                body = Dipole(0.5 * about_axis, array(loading_part), zeros(3))
            else:
                body = Inertia(0.0, array(loading_part), np.diag([about_axis, 0.0, 0.0]))
        elif joint.kind.turning and as_dipole[i]:
            body = _dipole(first[i], second[i]) or body
        bodies_upwards.append(body)
        if p >= 0:
            kept = body.inertia() if isinstance(body, Dipole) else body
            m = mass[i] - kept.mass
            h, s = first[i] - kept.first, second[i] - kept.second
            if joint.kind.turning:  # the rest is rounding, or loads no joint
                h, s = h * Z, s * np.outer(Z, Z)
            turn, t = constants[i].rotation, constants[i].translation
            seen = turn @ h
            mass[p] += m
            moved = np.multiply.outer(seen, t)
            first[p] = _cleaned(first[p], seen, t * m)
            second[p] = _cleaned(second[p], turn @ s @ turn.T, moved + moved.T, np.multiply.outer(t, t) * m)
            second[p] = (second[p] + second[p].T) * 0.5
    return bodies_upwards[::-1]


def _second_moment(link: Link) -> Array:
    """Return `Link.second_moment` in exact numbers."""
    inertia, com = written(link.inertia), written(link.com)
    half = (inertia[0, 0] + inertia[1, 1] + inertia[2, 2]) * 0.5
    return _cleaned(array(np.eye(3)) * half, -inertia, np.multiply.outer(com, com) * written(link.mass)[()])


def _cleaned(*terms: Array) -> Array:
    """Return the sum of arrays of exact numbers (`base.exact`), with 0 wherever `summed` finds only rounding."""
    kept = summed(*terms) != 0.0
    return np.where(kept, sum(terms[1:], terms[0]), exact(0.0))


def _loading_part(kind: str, mass: float, first: Array, second: Array) -> Inertia:
    """Return the part of a body's inertia that loads a joint of this kind."""
    mass, first, second = motion_of(kind).loading_part(mass, first, second)
    return Inertia(mass, array(first), array(second))


def _planar(robot: Robot, varied: Varied) -> dict[int, float]:
    """Return the rotating links whose only axis of rotation, seen from the base, is that of their joint.

    The value is 0 if the first moment does not load the joint either (on the base, about the direction of gravity),
    else 1.

    Args:
        robot: The robot with every joint axis aligned to z.
        varied: Properties that are inputs. An input rotation makes the axis unknown, unless no link above rotates.
    """
    directions: list[Vector | None] = []  # each link's only axis of rotation; 0: none; None: several
    planar = {}
    for i, link in enumerate(robot.links):
        above = np.zeros(3) if link.parent < 0 else directions[link.parent]
        turn = np.array(link.joint.rotation)
        seen = None if above is None else turn.T @ above
        if i in varied.turned and seen is not None and seen.any():
            seen = None
        if link.joint.kind.turning and seen is not None and not seen[:2].any():
            planar[i] = 1.0
            if link.parent < 0:
                pull = summed(turn.T @ np.array(robot.gravity))
                planar[i] = float(pull[:2].any() or varied.gravity or i in varied.turned)
            directions.append(Z)
        else:
            directions.append(seen if link.joint.kind.sliding else None)
    return planar


LARGER = 2.0
"""Largest ratio between the products of a dipole's numbers and the largest second moment that they represent."""


def _dipole(first: Array, second: Array) -> Dipole | None:
    """Return the body of a rotating link as a dipole, up to the part that does not load its joint; None if numbers get
    large.

    In axes along and across (h_x, h_y) in the plane, spread and point solve Σ except Σ_zz, and h_z is free. The axes
    are not scaled to length 1, so the results are rational functions of the body's numbers.
    """
    largest, squared = float(np.abs(second).max()), first[0] * first[0] + first[1] * first[1]
    if squared == 0.0 or largest == 0.0:
        return None
    length = math.sqrt(squared)
    along, across = first[:2], array([-first[1], first[0]])
    flat = second[:2, :2]
    spread = (across @ flat @ across) / squared
    half, aside = ((along @ flat @ along) / squared - spread) * 0.5, (along @ flat @ across) / squared
    to_axis = array([along @ second[:2, 2], across @ second[:2, 2]])
    small = 1e-14 * largest
    if abs(aside) <= small:
        aside = exact(0.0)
    if abs(to_axis[1]) <= small * length:
        h_z = exact(0.0)
    elif aside == 0.0:
        return None
    else:
        h_z = to_axis[1] / aside
    plane = (along * half + across * aside) * (1.0 / squared)
    point = array([*plane, (to_axis[0] - half * h_z) / squared])
    if np.linalg.norm(point.astype(float)) * math.hypot(length, h_z) > LARGER * largest:
        return None
    return Dipole(spread, array([first[0], first[1], h_z]), _cleaned(point))
