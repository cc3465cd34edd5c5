"""Conversion between the joint order of a robot and that of another library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dynagate.base.errors import ArgumentTypeError
from dynagate.robot.errors import RobotError
from dynagate.robot.tree import RobotTree


def permutation(robot: RobotTree, names: Sequence[str], *, w_first: bool) -> tuple[np.ndarray, np.ndarray]:
    """Implement `Robot.permutation`."""
    if (
        isinstance(names, str | np.ma.MaskedArray)
        or not isinstance(names, Iterable)
        or not all(isinstance(name, str) for name in names)
    ):
        raise ArgumentTypeError(f"names={names!r}; expected the names of joints, one text each", code="DG-ROBOT-057")
    names = list(names)
    places: dict[str, tuple[list[int], list[int]]] = {}
    for link, in_q, in_v in robot.slices():
        q, v = list(range(in_q.start, in_q.stop)), list(range(in_v.start, in_v.stop))
        if w_first and link.joint.has_quaternion:
            q = [*q[:-4], q[-1], *q[-4:-1]]
        if link.joint.name in places:
            _refuse(robot, [link.joint.name], "several joints have the name")
        places[link.joint.name] = (q, v)
    _refuse(robot, [name for name in names if name not in places], "it has no joint")
    _refuse(robot, sorted({name for name in names if names.count(name) > 1}), "the order lists twice")
    moving = [link.joint.name for link in robot.links if link.joint.nv]
    _refuse(robot, [name for name in moving if name not in names], "the order lacks")
    q_index, v_index = ([i for name in names for i in places[name][k]] for k in (0, 1))
    return np.array(q_index, dtype=np.intp), np.array(v_index, dtype=np.intp)


def _refuse(robot: RobotTree, names: Sequence[str], fault: str) -> None:
    """Raise RobotError with a description of the error if there are such names."""
    if names:
        named = ", ".join(f"'{name}'" for name in names)
        expected = ", ".join(robot.joint_names)
        raise RobotError(
            f"another order of the joints of robot '{robot.name}': {fault} {named}; expected {expected}",
            code="DG-ROBOT-058",
        )
