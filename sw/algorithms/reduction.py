"""The fewest numbers that make a robot's joint torques: link frames moved along their axes, inertias regrouped.

A frame may lie anywhere on its joint's axis: where neighbouring axes meet, nothing lies between their frames. And what
a joint does not feel of its link, the parent may carry (Gautier & Khalil, "Direct calculation of minimum set of
inertial parameters of serial robots", IEEE Trans. Robotics and Automation 6(3), 1990). Torques, M and their derivatives
stay what they are; where links and their masses are does not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from dynagate.robot import Link, Robot, vector3, without_noise
from dynagate.spatial import Inertia, array

Vector = npt.NDArray[np.float64]
TURNING = ("revolute", "continuous")
Z = np.array([0.0, 0.0, 1.0])


def moved_frames(robot: Robot) -> tuple[Robot, list[float]]:
    """The aligned robot with the frames of turning links moved along z, and how far each was, in m: the choice of
    places with the fewest numbers between the frames, nearest to where they were."""
    places = _places(robot)
    # by link and place: numbers below it, metres moved, and the children's places; leaves first
    best: list[dict[float, tuple[int, float, dict[int, float]]]] = [{} for _ in robot.links]
    for i in reversed(range(len(robot.links))):
        children = [k for k, parent in enumerate(robot.parents) if parent == i]
        for place in places[i]:
            numbers, metres, chosen = 0, abs(place), {}
            for k in children:
                below = {
                    s: (int(np.count_nonzero(_translation(robot.links[k], place, s))) + best[k][s][0], best[k][s][1])
                    for s in places[k]
                }
                chosen[k] = min(below, key=lambda s: below[s])
                numbers += below[chosen[k]][0]
                metres += below[chosen[k]][1]
            best[i][place] = numbers, metres, chosen
    found = [0.0] * len(robot.links)
    for i, parent in enumerate(robot.parents):
        if parent < 0:
            found[i] = min(best[i], key=lambda s: best[i][s][:2])
        for k, place in best[i][found[i]][2].items():
            found[k] = place
    links = []
    for link, place in zip(robot.links, found, strict=True):
        above = found[link.parent] if link.parent >= 0 else 0.0
        joint = replace(link.joint, translation=vector3(_translation(link, above, place)))
        links.append(replace(link, joint=joint, com=vector3(np.array(link.com) - place * Z)))
    return replace(robot, links=tuple(links)), found


def _places(robot: Robot) -> list[list[float]]:
    """Where on its axis each link's frame may lie: where it is, and nearest to a neighbour's axis."""
    found = [[0.0] for _ in robot.links]
    far = 2.0 * max(float(np.linalg.norm(link.joint.translation)) for link in robot.links)
    for i, link in enumerate(robot.links):
        p = link.parent
        if p < 0 or link.joint.type not in TURNING or robot.links[p].joint.type not in TURNING:
            continue
        t, axis = np.array(link.joint.translation), np.array(link.joint.rotation)[:, 2]
        between = 1.0 - axis[2] ** 2
        if between < 1e-9:  # parallel: any place on one axis has its nearest on the other
            found[i].append(-float(t @ axis))
            found[p].append(float(t[2]))
        else:
            along = axis[2] * t[2] - t @ axis
            found[i].append(float(along / between))
            found[p].append(float((t[2] - axis[2] * (t @ axis)) / between))
    return [[s for k, s in enumerate(some) if k == 0 or 0.0 < abs(s) <= far] for some in found]


def _translation(link: Link, above: float, place: float) -> Vector:
    """From the parent's frame, moved by `above`, to the link's, moved by `place`."""
    axis = np.array(link.joint.rotation)[:, 2]
    t = np.array(link.joint.translation) + place * axis - above * Z
    size = np.abs(link.joint.translation).max() + abs(place) + abs(above)
    t[np.abs(t) <= 1e-14 * size] = 0.0
    return t


def regrouped(robot: Robot) -> list[Inertia]:
    """The inertias of the aligned robot's links without what their joints do not feel, which is added to the parent's.

    A joint turning about z does not feel mass on z: m, h_z and Σ_zz. A spherical one does not feel mass at its centre.
    A sliding one does not feel Σ, of which nothing but the rotational inertia is left when m and h stay behind.
    """
    mass = [link.mass for link in robot.links]
    first = [np.array(link.first_moment()) for link in robot.links]
    second = [np.array(link.second_moment()) for link in robot.links]
    for i in reversed(range(len(robot.links))):
        m, h, s = 0.0, np.zeros(3), np.zeros((3, 3))
        kind = robot.links[i].joint.type
        if kind in TURNING:
            m, h[2], s[2, 2] = mass[i], first[i][2], second[i][2, 2]
        elif kind == "spherical":
            m = mass[i]
        elif kind == "prismatic":
            s = second[i]
        mass[i], first[i], second[i] = mass[i] - m, first[i] - h, second[i] - s
        if (p := robot.parents[i]) >= 0:
            joint = robot.links[i].joint
            turn, t = np.array(joint.rotation), np.array(joint.translation)
            seen = turn @ h
            mass[p] += m
            first[p] = without_noise(first[p] + seen + m * t)
            moved = turn @ s @ turn.T + np.outer(seen, t) + np.outer(t, seen) + m * np.outer(t, t)
            second[p] = without_noise(second[p] + 0.5 * (moved + moved.T))
    return [Inertia(m, array(h), array(s)) for m, h, s in zip(mass, first, second, strict=True)]
