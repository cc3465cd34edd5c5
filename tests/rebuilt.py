"""Robots with other numbers: what a robot with variable parameters must compute the same as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from dynagate import Robot
from dynagate.robot import Frame, Joint, Link
from dynagate.robot.variable import KINDS, MOMENTS


def rotation(quaternion: np.ndarray) -> np.ndarray:
    x, y, z, w = quaternion
    across = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + 2.0 * (w * across + across @ across)


def symmetric(moments: np.ndarray) -> np.ndarray:
    matrix = np.empty((3, 3))
    for value, (a, b) in zip(moments, MOMENTS, strict=True):
        matrix[a, b] = matrix[b, a] = value
    return matrix


def _tuples(matrix: np.ndarray) -> Any:
    return tuple(map(tuple, matrix.tolist()))


def _body(ten: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, center of mass and inertia about it."""
    mass, center = float(ten[0]), ten[1:4] / ten[0]
    return mass, center, symmetric(ten[4:]) - mass * (center @ center * np.eye(3) - np.outer(center, center))


def _link(link: Link, kind: str, x: np.ndarray) -> Link:
    if kind == "payload":
        if not x.any():
            return link
        mass, center, inertia = _body(x)
        return link.joined(mass, tuple(center), _tuples(inertia))
    if kind == "inertial":
        mass, center, inertia = _body(x)
        return replace(link, mass=mass, com=tuple(center.tolist()), inertia=_tuples(inertia))
    if kind == "mass":
        return replace(link, mass=float(x))
    return replace(link, com=tuple(x.tolist())) if kind == "com" else replace(link, inertia=_tuples(symmetric(x)))


def _placed(part: Joint | Frame, kind: str, x: np.ndarray) -> Any:
    changes: dict[str, Any] = {}
    if kind in ("placement", "position"):
        changes["translation"] = tuple(x[:3].tolist())
    if kind in ("placement", "rotation"):
        changes["rotation"] = _tuples(rotation(x[-4:]))
    return replace(part, **changes)


def rebuilt(robot: Robot, values: Mapping[str, np.ndarray]) -> Robot:
    """The robot with these numbers of its variable parameters as constants. values: of one sample, by input."""
    result = replace(robot, variable=())
    if any(each.kind == "friction" for each in robot.variables) and not robot.friction_speed:
        result = result.with_friction(0.0)
    last = {"payload": 1}
    for variable in sorted(robot.variables, key=lambda each: last.get(each.kind, 0)):
        kind, count = KINDS[variable.kind], len(robot.links)
        rows = np.asarray(values[variable.input]).reshape(len(variable.owners), *kind.shape)
        for i, x in zip(variable.owners, rows, strict=True):
            links, frames = list(result.links), list(result.frames)
            if variable.kind == "gravity":
                result = replace(result, gravity=tuple(x.tolist()))
                continue
            if i >= count:
                frames[i - count] = _placed(frames[i - count], variable.kind, x)
            elif kind.owner == "link":
                links[i] = _link(links[i], variable.kind, x)
            elif variable.kind in ("placement", "position", "rotation"):
                links[i] = replace(links[i], joint=_placed(links[i].joint, variable.kind, x))
            else:
                links[i] = replace(links[i], joint=replace(links[i].joint, **{variable.kind: float(x)}))
            result = replace(result, links=tuple(links), frames=tuple(frames))
    return result
