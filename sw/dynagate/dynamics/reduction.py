"""The fewest numbers that make a robot's joint torques: link frames moved along their axes, inertias regrouped.

A frame may lie anywhere on its joint's axis: where neighboring axes meet, nothing lies between their frames. And what
a joint does not feel of its link, the parent may carry (Gautier & Khalil, "Direct calculation of minimum set of
inertial parameters of serial robots", IEEE Trans. Robotics and Automation 6(3), 1990). Torques, M and their derivatives
stay what they are; where links and their masses are does not.
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
    """Properties of the links that are inputs, in the tree's frames.

    inertias: by link. placed: links whose joint's placement is an input. turned: those of them with another rotation.
    gravity: whether gravity is an input.
    """

    inertias: Mapping[int, Inertia] = MappingProxyType({})
    placed: frozenset[int] = frozenset()
    turned: frozenset[int] = frozenset()
    gravity: bool = False


NOTHING = Varied()


def moved_frames(robot: Robot, placed: Collection[int] = ()) -> tuple[Robot, list[float]]:
    """The aligned robot with the frames of turning links moved along z, and how far each was, in m: the choice of
    places with the fewest numbers between the frames, nearest to where they were. placed: links that stay, because the
    placement of their joint is an input."""
    places = _places(robot, placed)
    # by link and place: numbers below it, meters moved, and the children's places; leaves first
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
    """Return the candidate positions of each link's frame on its axis: the position itself, and the nearest one to a
    neighbor's axis.
    """
    places = [[0.0] for _ in robot.links]
    far = 2.0 * max(float(np.linalg.norm(link.joint.translation)) for link in robot.links)
    for i, link in enumerate(robot.links):
        p = link.parent
        if p < 0 or i in placed or not (link.joint.kind.turning and robot.links[p].joint.kind.turning):
            continue
        t, axis = np.array(link.joint.translation), np.array(link.joint.rotation)[:, 2]
        between = 1.0 - axis[2] ** 2
        if between < 1e-9:  # parallel: any place on one axis has its nearest on the other
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
    """From the parent's frame, moved by `above`, to the link's, moved by `place`."""
    axis = np.array(link.joint.rotation)[:, 2]
    return summed(link.joint.translation, place * axis, -above * Z, within=1e-14)


class Dipole(NamedTuple):
    """Mass distribution without mass: second moment Σ = spread 1 + point firstᵀ + first pointᵀ, first moment `first`.

    Spread and point are in kg m² and m, `first` in kg m. Any turning link can be written so, in the seven numbers that
    its joints feel, because its mass and what lies on its axis may be carried by the parent. About another origin,
    p away, the point is p + point and the rest stays.
    """

    spread: float
    first: Array
    point: Array

    def inertia(self) -> Inertia:
        h, p = array(self.first), array(self.point)
        products = np.multiply.outer(p, h)
        return Inertia(0.0, h, array(np.eye(3)) * self.spread + products + products.T)


Body = Inertia | Dipole


class Given(NamedTuple):
    """A link of an aligned robot in exact numbers, with all of its own mass.

    mass: kg. first: first moment (3,), kg m. second: second moment (3, 3), kg m². rotation (3, 3) and translation (3,),
    m: from the link's frame to the parent's.
    """

    mass: float
    first: Array
    second: Array
    rotation: Array
    translation: Array


def given_links(robot: Robot) -> list[Given]:
    """Return the links of the aligned robot for `bodies`, which is called once per choice of dipoles."""
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


def regrouped(robot: Robot, varied: Varied = NOTHING) -> list[Inertia]:
    """`bodies`, none as a dipole."""
    return [body for body in bodies(robot, [False] * len(robot.links), varied) if isinstance(body, Inertia)]


def bodies(
    robot: Robot,
    as_dipole: Sequence[bool],
    varied: Varied = NOTHING,
    constants: Sequence[Given] | None = None,
) -> list[Body]:
    """The bodies of the aligned robot's links without what their joints do not feel, which is added to the parent's.

    A joint turning about z does not feel mass on z: m, h_z and Σ_zz. A spherical one does not feel mass at its center.
    A sliding one does not feel Σ, of which nothing but the rotational inertia is left when m and h stay behind.
    A link that can turn about one direction only feels of Σ no more than the inertia about it. A link that turns
    about a vertical axis of the base does not even feel where its mass is.

    varied: what is an input. Parents carry nothing of a link whose inertia or whose place on them is an input.
    as_dipole: per link, whether to write it as a Dipole, where it turns and takes no large numbers so.
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
        body: Body = _felt(joint.type, mass[i], first[i], second[i])
        if i in planar:
            about_axis = second[i][0, 0] + second[i][1, 1]
            felt = planar[i] * first[i] * (1.0 - Z)
            if as_dipole[i]:
                body = Dipole(0.5 * about_axis, array(felt), zeros(3))
            else:
                body = Inertia(0.0, array(felt), np.diag([about_axis, 0.0, 0.0]))
        elif joint.kind.turning and as_dipole[i]:
            body = _dipole(first[i], second[i]) or body
        bodies_upwards.append(body)
        if p >= 0:
            kept = body.inertia() if isinstance(body, Dipole) else body
            m = mass[i] - kept.mass
            h, s = first[i] - kept.first, second[i] - kept.second
            if joint.kind.turning:  # the rest is rounding, or not felt by the parent either
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
    """`Link.second_moment` in exact numbers."""
    inertia, com = written(link.inertia), written(link.com)
    half = (inertia[0, 0] + inertia[1, 1] + inertia[2, 2]) * 0.5
    return _cleaned(array(np.eye(3)) * half, -inertia, np.multiply.outer(com, com) * written(link.mass)[()])


def _cleaned(*terms: Array) -> Array:
    """The sum of arrays of exact numbers (`base.exact`), with 0 where `summed` has 0."""
    kept = summed(*terms) != 0.0
    return np.where(kept, sum(terms[1:], terms[0]), exact(0.0))


def _felt(kind: str, mass: float, first: Array, second: Array) -> Inertia:
    """Return the inertia of a body that a joint of this kind feels."""
    mass, first, second = motion_of(kind).felt(mass, first, second)
    return Inertia(mass, array(first), array(second))


def _planar(robot: Robot, varied: Varied) -> dict[int, float]:
    """The turning links that can turn about no other direction than their joint's, as seen from the base. 0 where not
    even the first moment is felt: on the base, about the direction of gravity; else 1.

    varied: with an input rotation a link turns about an unknown direction, unless nothing above turns."""
    directions: list[Vector | None] = []  # per link: the one direction it turns about, zero where it only slides
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
"""The numbers of a dipole, multiplied, may exceed the largest second moment that they stand for by this factor."""


def _dipole(first: Array, second: Array) -> Dipole | None:
    """The body of a turning link as a dipole, up to what its joint does not feel; None where that takes large numbers.

    In axes along and across (h_x, h_y) in the plane, spread and point solve Σ but for Σ_zz; h_z is free. These axes are
    not scaled to length 1, so the numbers are rational functions of those of the body.
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
