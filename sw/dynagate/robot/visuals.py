"""Visual shapes of links in a URDF file: boxes, cylinders, spheres and mesh files. The dynamics do not use them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.base.storage import read_file
from dynagate.robot.errors import RobotError
from dynagate.robot.geometry import origin_of, sizes_of
from dynagate.robot.robot_xml import numbers, parse
from dynagate.robot.rotations import Rounding

PACKAGE = "package.xml"
"""Name of the file that marks the folder of a ROS package, to which `package://` refers."""

MOST_BYTES = 64 * 2**20
"""Largest size of a mesh file, in bytes."""
MOST_VISUALS = 2000
"""Largest number of shapes that are read."""
SUFFIXES = (".stl", ".obj", ".ply", ".glb", ".dae")
"""Formats of mesh files."""
GRAY = (176, 180, 184)
"""Color of shapes without one: red, green and blue to 255."""
KINDS = ("box", "cylinder", "sphere", "mesh")
"""Kinds of visual shapes."""


class Visual(NamedTuple):
    """A visual shape on a link or on the base."""

    link: str | None
    """Name of the link; None for the base."""
    shape: str
    """"box", "cylinder" (along z), "sphere" or "mesh"."""
    size: tuple[float, ...]
    """Sizes in m: the three edges, (radius, length) or (radius,); for a mesh its scale along each axis."""
    rotation: Floats
    """Rotation (3, 3) in the link's frame."""
    translation: Floats
    """Origin (3,) in the link's frame, m."""
    color: tuple[int, int, int]
    """Red, green and blue to 255."""
    file: str = ""
    """Path of a mesh, as the URDF file writes it."""


def visuals(path: str | PathLike[str]) -> list[Visual]:
    """Return the visual shapes of a URDF file, with links in the file's order.

    Shapes that cannot be interpreted are left out, because only pictures need them.

    Raises:
        RobotError: The file is missing or is not a URDF file.
    """
    root, _ = parse(Path(path), lax=True)
    colors = {material.get("name"): color for material in root.iter("material") if (color := _color(material))}
    carried = {child.get("link") for child in root.findall("joint/child")}
    shown: list[Visual] = []
    for link in root.findall("link"):
        for visual in link.findall("visual"):
            if len(shown) < MOST_VISUALS and (shape := _shape(visual)) is not None:
                material = visual.find("material")
                color = None if material is None else _color(material) or colors.get(material.get("name"))
                name = link.get("name", "")
                link_of = name if name in carried else None
                shown.append(Visual(link_of, *shape[:2], *_pose(visual), color or GRAY, shape[2]))
    return shown


def _shape(visual: Any) -> tuple[str, tuple[float, ...], str] | None:
    """Return the kind, sizes and mesh file of a <visual> element, or None if it cannot be interpreted."""
    try:
        for kind in KINDS:
            shape = visual.find(f"geometry/{kind}")
            if shape is None:
                continue
            if kind == "mesh":
                scale = numbers(shape, "scale", "mesh", 3) if shape.get("scale") else np.ones(3)
                return kind, tuple(map(float, scale)), shape.get("filename", "")
            sizes = sizes_of(shape, kind)
            return (kind, sizes, "") if all(0.0 < x < math.inf for x in sizes) else None
    except RobotError:
        pass
    return None


def _pose(visual: Any) -> tuple[Floats, Floats]:
    """Return the rotation and translation of a shape, or the identity if the file's cannot be interpreted."""
    try:
        return origin_of(visual, "visual", Rounding(0.0))
    except RobotError:
        return np.eye(3), np.zeros(3)


def _color(material: Any) -> tuple[int, int, int] | None:
    """Return the color of a <material> element, or None if it has none."""
    color = material.find("color")
    try:
        rgba = None if color is None else numbers(color, "rgba", "color", 4)
    except RobotError:
        return None
    if rgba is None or not np.isfinite(rgba).all():
        return None
    red, green, blue = (round(255.0 * min(max(float(x), 0.0), 1.0)) for x in rgba[:3])
    return red, green, blue


def folder_of(path: Path) -> Path:
    """Return the folder in which a robot's meshes must lie: that of the nearest `package.xml` above the file, or the
    file's.
    """
    own = path.resolve().parent
    return next((folder for folder in (own, *own.parents) if os.path.isfile(folder / PACKAGE)), own)


def mesh_bytes(robot: Path, name: str, folder: Path) -> tuple[bytes, str]:
    """Return the content of a mesh file, and its format.

    Args:
        robot: The URDF file.
        name: The mesh as the URDF file names it: a path from the URDF file, or `package://PACKAGE/PATH`.
        folder: The folder in which the file must lie after all links are resolved.

    Raises:
        RobotError: The file lies elsewhere, is missing, is larger than `MOST_BYTES`, or has another format.
    """
    path = next((place for place in _places(robot, name, folder) if os.path.isfile(place)), None)
    if path is None:
        raise RobotError(
            f"mesh {name:.200} is missing in {folder}; expected the robot's package, or --meshes FOLDER",
            code="DG-ROBOT-124",
        )
    if not path.resolve().is_relative_to(folder.resolve()):
        raise RobotError(
            f"mesh {name:.200} lies outside {folder}; expected a file in there, or --meshes FOLDER", code="DG-ROBOT-125"
        )
    if path.suffix.lower() not in SUFFIXES:
        raise RobotError(f"mesh {name:.200}; expected a file that ends in {', '.join(SUFFIXES)}", code="DG-ROBOT-126")
    if path.stat().st_size > MOST_BYTES:
        raise RobotError(f"mesh {name:.200} has more than {MOST_BYTES} bytes and is refused", code="DG-ROBOT-127")
    try:
        return read_file(path, MOST_BYTES), path.suffix.lower()[1:]
    except OSError as error:
        raise RobotError(
            f"mesh {name:.200} cannot be read ({error.strerror}); expected a file", code="DG-ROBOT-128"
        ) from None


def _places(robot: Path, name: str, folder: Path) -> Iterator[Path]:
    """Yield possible paths of a mesh. Network addresses yield none."""
    scheme, divided, rest = name.partition("://")
    if "\0" in name or (divided and scheme not in ("package", "model", "file")):
        return
    if scheme == "file" and divided:
        yield Path(unquote(rest))
    elif divided:
        package, _, inside = rest.partition("/")
        yield from (folder / inside, folder / package / inside)
        yield from (place / inside for place in folder.parents if place.name == package)
    else:
        yield from (robot.resolve().parent / name, folder / name)
