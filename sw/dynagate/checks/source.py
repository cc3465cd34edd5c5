"""Content of a URDF file that checks need in addition to the robot: bodies, sizes of shapes, and line numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.robot.errors import RobotError
from dynagate.robot.geometry import origin_of, sizes_of
from dynagate.robot.inertia import check_size
from dynagate.robot.parts import Link
from dynagate.robot.robot_xml import number, numbers, parse
from dynagate.robot.rotations import Rounding
from dynagate.robot.visuals import folder_of, mesh_bytes

ENTRIES = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
"""Attributes of an <inertia> element, in the order of the upper triangle."""
HEADER = 84
"""Number of bytes before the triangles of a binary STL file."""
TRIANGLE = 50
"""Number of bytes of a triangle in a binary STL file."""


@dataclass(frozen=True)
class UrdfBody:
    """Mass distribution of a link as the file states it."""

    name: str
    """Name of the link."""
    line: int | None
    """Line of its <inertial>; None if it is unknown."""
    mass: float
    """Mass, kg."""
    com: Floats
    """Center of mass (3,) in the link's frame, m."""
    inertia: Floats
    """Inertia (3, 3) about the center of mass, in axes that the file chose, kg m²."""
    lower: Floats | None = None
    """Lower corner (3,) of the bounding box of the link's shapes, in the link's frame, m; None if it is unknown."""
    upper: Floats | None = None
    """Upper corner (3,) of that box, m."""

    @property
    def place(self) -> str:
        """The link, as findings name it."""
        return f"link '{self.name}'"

    @property
    def size(self) -> float | None:
        """Length of the diagonal of the bounding box, m."""
        return None if self.lower is None or self.upper is None else float(np.linalg.norm(self.upper - self.lower))


def bodies_of(links: tuple[Link, ...]) -> list[UrdfBody]:
    """Return the bodies of a robot that was not read from a URDF file."""
    return [UrdfBody(link.name, None, link.mass, np.array(link.com), np.array(link.inertia)) for link in links]


class RobotSource:
    """Content of a URDF file as it is written.

    Attributes:
        bodies: Links whose <inertial> can be read.
        joints: <joint> elements by name.
    """

    def __init__(self, path: Path) -> None:
        root, _ = parse(path, lax=True)
        self.path = path
        self.joints: dict[str, Any] = {str(each.get("name")): each for each in root.findall("joint")}
        self.bodies: list[UrdfBody] = []
        self._meshes: dict[str, Floats | None] = {}
        for link in root.findall("link"):
            inertial = link.find("inertial")
            if inertial is None:
                continue
            try:
                self.bodies.append(self._body(link, inertial))
            except RobotError:
                continue  # the URDF parser reports this error

    def line(self, joint: str) -> int | None:
        """Return the line of a joint, or None if the file does not have it."""
        element = self.joints.get(joint)
        return None if element is None else int(element.sourceline)

    def _body(self, link: Any, inertial: Any) -> UrdfBody:
        """Return the body of a link. Raise RobotError if its <inertial> cannot be read."""
        where = f"link '{link.get('name')}'"
        entries = inertial.find("inertia")
        mass = inertial.find("mass")
        if entries is None or mass is None:
            raise RobotError(f"{where} has no mass or no inertia; expected both", code="DG-ROBOT-003")
        xx, xy, xz, yy, yz, zz = (number(entries, key, where) for key in ENTRIES)
        _, com = origin_of(inertial, where, Rounding(0.0))
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        check_size(where, number(mass, "value", where), com, inertia)
        corners = [self._corners(shape) for tag in ("collision", "visual") for shape in link.findall(tag)]
        points = [corner for corner in corners if corner is not None]
        known = bool(points) and len(points) == len(corners)  # a mesh that is missing may be the largest shape
        lower, upper = (np.concatenate(points).min(0), np.concatenate(points).max(0)) if known else (None, None)
        line = int(inertial.sourceline)
        return UrdfBody(str(link.get("name")), line, number(mass, "value", where), com, inertia, lower, upper)

    def _corners(self, shape: Any) -> Floats | None:
        """Return the corners (8, 3) of a shape's bounding box in the link's frame, or None if its size is unknown."""
        try:
            rotation, translation = origin_of(shape, "shape", Rounding(0.0))
            lower, upper = self._extent(shape.find("geometry"))
        except (RobotError, TypeError):
            return None
        grid = np.stack(np.meshgrid(*zip(lower, upper, strict=True), indexing="ij"), -1).reshape(-1, 3)
        return np.asarray(grid @ rotation.T + translation)

    def _extent(self, geometry: Any) -> tuple[Floats, Floats]:
        """Return the lower and upper corner of a shape in its own frame. Raise RobotError if they are unknown."""
        for element in () if geometry is None else geometry.iterchildren("*"):
            if element.tag == "mesh":
                scale = numbers(element, "scale", "mesh", 3) if element.get("scale") else np.ones(3)
                ends = self._mesh_ends(element.get("filename", ""))
                if ends is None:
                    break
                return (ends * scale).min(0), (ends * scale).max(0)
            sizes = sizes_of(element, "shape") if element.tag in ("box", "sphere", "cylinder", "capsule") else None
            if sizes is None:
                break
            half = np.array(sizes) / 2.0 if element.tag == "box" else np.full(3, sizes[0])
            if element.tag in ("cylinder", "capsule"):
                half[2] = sizes[1] / 2.0 + (sizes[0] if element.tag == "capsule" else 0.0)
            return -half, half
        raise RobotError("the size of a shape is unknown", code="DG-ROBOT-004")

    def _mesh_ends(self, name: str) -> Floats | None:
        """Return the lower and upper corner (2, 3) of a mesh, or None if its size is unknown. Files are read once."""
        if name not in self._meshes:
            content, kind = mesh_bytes(self.path, name, folder_of(self.path))
            points = stl_points(content) if kind == "stl" else None
            self._meshes[name] = None if points is None else np.stack([points.min(0), points.max(0)])
        return self._meshes[name]


def stl_points(content: bytes) -> Floats | None:
    """Return the corners (n, 3) of the triangles of a binary STL file, or None if the content is something else."""
    count = int.from_bytes(content[HEADER - 4 : HEADER], "little")
    if not count or len(content) != HEADER + TRIANGLE * count:
        return None
    triangles = np.frombuffer(content, np.uint8, offset=HEADER).reshape(count, TRIANGLE)
    points = triangles[:, 12:48].copy().view("<f4").reshape(-1, 3).astype(float)
    return points if np.isfinite(points).all() else None
