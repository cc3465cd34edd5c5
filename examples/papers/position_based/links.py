"""A robot as arrays, which compiled loops over links read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.integrators.implicit.position_based_links import Floats as Floats
from dynagate.integrators.implicit.position_based_links import Integers as Integers
from dynagate.integrators.implicit.position_based_links import check_robot, sizes
from dynagate.robot.model import Robot

KINDS = {"revolute": 0, "continuous": 0, "prismatic": 1, "spherical": 2, "floating": 3}
"""Joint type -> its number in `Links.kind`."""


class Links(NamedTuple):
    """A robot's links, parents first, and its degrees of freedom (dofs). Frames are those of the robot's file.

    parent[i]: -1 for the base. kind[i]: as in KINDS. first_q[i], first_v[i]: where joint i's part of q and of v begins.
    rotation (links, 3, 3), translation (links, 3): the joint frame in the parent's. axis (links, 3).
    moment (links, 4, 4): ∫ (r, 1)(r, 1)ᵀ dm over the link, M̃ of the papers, in kg m², kg m and kg.
    massive[i]: whether the link has mass. link_of[d]: the link that dof d moves. above[d]: the dof next nearer to the
    base, or -1. gravity (3,) in m/s². size (nv,): 1 for a distance, the robot's reach in m for an angle.
    """

    parent: Integers
    kind: Integers
    first_q: Integers
    first_v: Integers
    rotation: Floats
    translation: Floats
    axis: Floats
    moment: Floats
    massive: npt.NDArray[np.bool_]
    link_of: Integers
    above: Integers
    gravity: Floats
    size: Floats


def links_of(robot: Robot) -> Links:
    """The robot's links as arrays. Raises ArgumentTypeError, ArgumentError: no robot, or one that cannot move;
    RobotError: joints that move no mass."""
    check_robot(robot)
    links = robot.links
    link_of = [i for i, link in enumerate(links) for _ in range(link.joint.nv)]
    last = np.full(len(links), -1)  # the last dof at or above each link
    above = np.full(robot.nv, -1)
    first_q, first_v = [], []
    for i, (link, iq, iv) in enumerate(robot.slices()):
        first_q.append(iq.start)
        first_v.append(iv.start)
        before = last[link.parent] if link.parent >= 0 else -1
        above[iv] = [before, *range(iv.start, iv.stop - 1)]
        last[i] = iv.stop - 1
    moment = np.zeros((len(links), 4, 4))
    for matrix, link in zip(moment, links, strict=True):
        matrix[:3, :3] = link.second_moment()
        matrix[:3, 3] = matrix[3, :3] = link.first_moment()
        matrix[3, 3] = link.mass
    return Links(
        parent=np.array(robot.parents, np.int64),
        kind=np.array([KINDS[link.joint.type] for link in links], np.int64),
        first_q=np.array(first_q, np.int64),
        first_v=np.array(first_v, np.int64),
        rotation=np.array([link.joint.rotation for link in links], float),
        translation=np.array([link.joint.translation for link in links], float),
        axis=np.array([link.joint.axis for link in links], float),
        moment=moment,
        massive=np.array([bool(np.any(matrix)) for matrix in moment]),
        link_of=np.array(link_of, np.int64),
        above=above.astype(np.int64),
        gravity=np.array(robot.gravity, float),
        size=sizes(robot),
    )
