"""Collision shapes of the links in a robot file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.base.arguments import check_flags, names_of
from dynagate.base.explained import explained
from dynagate.base.nearest import nearest
from dynagate.base.warned import warn
from dynagate.robot.arguments import path_of
from dynagate.robot.errors import RobotError, RobotWarning
from dynagate.robot.geometry import SIZES, origin_of, sizes_of
from dynagate.robot.mjcf import collision_geoms
from dynagate.robot.model import Robot
from dynagate.robot.parts import Frame
from dynagate.robot.robot_xml import is_mjcf, only, parse
from dynagate.robot.rotations import Rounding
from dynagate.robot.vectors import IDENTITY, Matrix3, Vector3, matrix3, vector3


@explained
@dataclass(frozen=True)
class Shape:
    """A collision shape on a moving link."""

    link: str
    """Name of the moving link."""
    part: str
    """Name of the link in the file that has the shape; it may be fixed to the moving link."""
    kind: str
    """"box", "sphere", "cylinder" or "capsule". A cylinder and a capsule extend along z."""
    size: tuple[float, ...]
    """Sizes in m: the edges of a box, else the radius and, for a cylinder or capsule, the length without caps."""
    translation: Vector3 = (0.0, 0.0, 0.0)
    """Center (3,) in the moving link's frame, m."""
    rotation: Matrix3 = IDENTITY
    """Rotation (3, 3) in the moving link's frame."""


@explained
def collision_shapes(
    path: str | PathLike[str], robot: Robot, parts: Sequence[str] | None = None, *, trust: bool = False
) -> tuple[Shape, ...]:
    """Return the collision shapes in a robot's file: <collision> in URDF, <geom> in MJCF.

    Args:
        path: The file that the robot was read from.
        robot: The robot.
        parts: Names of the file's links or bodies to include; all moving ones by default.
        trust: Accept MJCF, whose files MuJoCo opens.

    Returns:
        The shapes in the file's order. A RobotWarning reports how many meshes and other kinds are left out.

    Raises:
        RobotError: The file cannot be read or is MJCF without `trust=True`; a part is not a moving link of the file; or
            a shape has an unsupported kind or sizes that are not above 0.
        MissingExtraError: The file is MJCF, and MuJoCo is not installed.
    """
    path = path_of(path, "collision_shapes")
    parts = None if parts is None else names_of("parts", parts)
    check_flags(trust=trust)
    mjcf = is_mjcf(path)
    if mjcf and not trust:
        raise RobotError(
            f"{path.name} is MJCF, which names files that MuJoCo opens; expected trust=True for a file that you trust",
            code="DG-ROBOT-065",
        )
    try:
        shapes, left_out = (_of_mjcf if mjcf else _of_urdf)(path, robot, parts)
    except RobotError as error:
        raise RobotError(f"{path.name}: {error}", code="DG-ROBOT-066") from None
    if left_out:
        named = ", ".join(f"{left_out.count(kind)} of kind {kind}" for kind in sorted({*left_out}))
        text = f"{path.name}: collision shapes are left out: {named}; expected boxes, spheres, cylinders or capsules"
        warn(text, RobotWarning, code="DG-ROBOT-067")
    return tuple(shapes)


def _check_parts(parts: Sequence[str] | None, known: Sequence[str]) -> None:
    """Raise RobotError if a name is not that of a moving link."""
    for part in parts or ():
        if part not in known:
            raise RobotError(
                f"no link '{part}' that moves{nearest(part, known)}; expected some of {list(known)}",
                code="DG-ROBOT-068",
            )


def _of_urdf(path: Path, robot: Robot, parts: Sequence[str] | None) -> tuple[list[Shape], list[str]]:
    """Return the shapes of a URDF file, and the kinds of those that are left out."""
    root, _ = parse(path, lax=True)
    elements = {str(element.get("name")): element for element in root.findall("link")}
    places = {link.name: Frame(link.name, i) for i, link in enumerate(robot.links)}
    places |= {frame.name: frame for frame in robot.frames if frame.link >= 0}
    _check_parts(parts, [name for name in elements if name in places])
    read = [
        _shape(collision, robot, places[name])
        for name in (elements if parts is None else parts)
        if name in places
        for collision in elements[name].findall("collision")
    ]
    return [shape for shape in read if shape], ["mesh"] * read.count(None)


def _of_mjcf(path: Path, robot: Robot, parts: Sequence[str] | None) -> tuple[list[Shape], list[str]]:
    """Return the shapes of an MJCF file, and the kinds of those that are left out."""
    links = {link.name for link in robot.links}
    geoms = collision_geoms(path)
    _check_parts(parts, list(dict.fromkeys(geom.body for geom in geoms if geom.link in links)))
    taken = [geom for geom in geoms if parts is None or geom.body in parts]
    shapes = []
    for geom in taken:
        if geom.size and geom.link not in links:
            raise RobotError(
                f"body '{geom.body}' is on link '{geom.link}', which the robot has not; expected the robot of this "
                "file without lock=, or parts on its links",
                code="DG-ROBOT-069",
            )
        if geom.size:
            pose = vector3(geom.translation), matrix3(geom.rotation)
            shapes.append(Shape(geom.link, geom.body, geom.kind, geom.size, *pose))
    return shapes, [geom.kind for geom in taken if not geom.size]


def _shape(collision: Any, robot: Robot, place: Frame) -> Shape | None:
    """Return one collision shape, or None for a mesh."""
    where = f"a collision of link '{place.name}'"
    geometry = only(collision, "geometry", where)
    kinds = [] if geometry is None else [child.tag for child in geometry if isinstance(child.tag, str)]
    if kinds == ["mesh"]:
        return None
    if len(kinds) != 1 or kinds[0] not in SIZES:
        raise RobotError(
            f"{where} is {' and '.join(kinds) or 'nothing'}; expected one of {', '.join(SIZES)}, mesh",
            code="DG-ROBOT-070",
        )
    element = only(geometry, kinds[0], where)
    size = sizes_of(element, where)
    if not min(size) > 0.0:
        raise RobotError(
            f"{where} is a {kinds[0]} with sizes {size}; expected numbers above 0 (m)", code="DG-ROBOT-071"
        )
    rotation, translation = origin_of(collision, where, Rounding(1e-9))
    turn = np.array(place.rotation)
    translation = np.array(place.translation) + turn @ translation
    link = robot.links[place.link].name
    return Shape(link, place.name, kinds[0], size, vector3(translation), matrix3(turn @ rotation))
