"""The shapes that a URDF file gives its links for collisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from dynagate.base.arguments import names_of
from dynagate.base.explained import explained
from dynagate.base.nearest import nearest
from dynagate.base.warned import warn
from dynagate.robot.arguments import path_of
from dynagate.robot.errors import RobotError, RobotWarning
from dynagate.robot.geometry import SIZES, origin_of, sizes_of
from dynagate.robot.markup import only, parse
from dynagate.robot.model import Robot
from dynagate.robot.parts import Frame
from dynagate.robot.rotations import Rounding
from dynagate.robot.vectors import IDENTITY, Matrix3, Vector3, matrix3, vector3


@explained
@dataclass(frozen=True)
class Shape:
    """A body around its own frame's origin, on a link that moves.

    link: that link's name. part: the link of the file whose shape it is, which may be bolted to it. kind: "box",
    "sphere", "cylinder" or "capsule", these two along their own z. size: m; of a box its sides, else the radius and,
    of a cylinder or capsule, the length without a capsule's caps. translation (m), rotation: pose in the link's frame.
    """

    link: str
    part: str
    kind: str
    size: tuple[float, ...]
    translation: Vector3 = (0.0, 0.0, 0.0)
    rotation: Matrix3 = IDENTITY


@explained
def collision_shapes(path: str | PathLike[str], robot: Robot, parts: Sequence[str] | None = None) -> tuple[Shape, ...]:
    """The <collision> shapes of a URDF file on the links of the robot that was read from it, in the file's order.

    parts: names of the file's links to take; None for all that move. A RobotWarning says how many meshes are left out.
    Raises RobotError: the file cannot be read, a part is none of its links or moves not, or a shape has another
    kind than those of `Shape` or sizes that are not above 0.
    """
    path = path_of(path, "collision_shapes")
    parts = None if parts is None else names_of("parts", parts)
    try:
        root, _ = parse(path, lax=True)
        elements = {str(element.get("name")): element for element in root.findall("link")}
        places = {link.name: Frame(link.name, i) for i, link in enumerate(robot.links)}
        places |= {frame.name: frame for frame in robot.frames if frame.link >= 0}
        for part in parts or ():
            if part not in elements or part not in places:
                known = [name for name in elements if name in places]
                raise RobotError(f"no link '{part}' that moves{nearest(part, known)}; expected some of {known}")
        shapes: list[Shape] = []
        meshes = 0
        for name in elements if parts is None else parts:
            if name in places:
                shapes_of_part = [_shape(each, robot, places[name]) for each in elements[name].findall("collision")]
                shapes += [shape for shape in shapes_of_part if shape]
                meshes += shapes_of_part.count(None)
    except RobotError as error:
        raise RobotError(f"{path.name}: {error}") from None
    if meshes:
        text = f"{path.name}: {meshes} collision meshes are left out; expected boxes, spheres, cylinders or capsules"
        warn(text, RobotWarning)
    return tuple(shapes)


def _shape(collision: Any, robot: Robot, place: Frame) -> Shape | None:
    """None for a mesh."""
    where = f"a collision of link '{place.name}'"
    geometry = only(collision, "geometry", where)
    kinds = [] if geometry is None else [child.tag for child in geometry if isinstance(child.tag, str)]
    if kinds == ["mesh"]:
        return None
    if len(kinds) != 1 or kinds[0] not in SIZES:
        raise RobotError(f"{where} is {' and '.join(kinds) or 'nothing'}; expected one of {', '.join(SIZES)}, mesh")
    element = only(geometry, kinds[0], where)
    size = sizes_of(element, where)
    if not min(size) > 0.0:
        raise RobotError(f"{where} is a {kinds[0]} with sizes {size}; expected numbers above 0 (m)")
    rotation, translation = origin_of(collision, where, Rounding(1e-9))
    turn = np.array(place.rotation)
    translation = np.array(place.translation) + turn @ translation
    link = robot.links[place.link].name
    return Shape(link, place.name, kinds[0], size, vector3(translation), matrix3(turn @ rotation))
