"""The bodies of a robot: the shapes and meshes of its URDF file, or else capsules along its links."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.base.errors import MissingExtraError
from dynagate.base.warned import warn
from dynagate.robot import Link, Robot, RobotError, RobotWarning
from dynagate.robot.visuals import GRAY, Visual, folder_of, visuals
from dynagate.views.scene.meshes import read_meshes
from dynagate.views.scene.solids import Color, Solid, box, cylinder, frame_along, joined, rounded_hull

BASE = -1
"""Number of the link that carries bodies that do not move."""
SHELL: Color = (222, 226, 232)
"""Color of capsules."""
JOINT: Color = (0, 114, 178)
"""Color of the cylinders at joints that rotate."""
PLATE: Color = (88, 98, 110)
"""Color of the base and of prismatic joints."""
DENSITY = 1200.0
"""Density in kg/m³ from which a link's mass gives the thickness of its capsule."""
THINNEST, THICKEST = 0.014, 0.065
"""Smallest and largest radius of a capsule, as fractions of the robot's size."""
MAX_TRIANGLES = 40_000
"""Largest number of triangles of a robot in a picture. Meshes that have more are reduced."""


@dataclass(frozen=True)
class SceneBody:
    """A solid in the frame of the link that carries it. link: the link's number, or `BASE`."""

    link: int
    solid: Solid


def bodies_of(robot: Robot, file: Path | None, meshes: Path | None) -> list[SceneBody]:
    """Return the bodies of a robot.

    Args:
        robot: The robot.
        file: Its URDF file, whose shapes and meshes are taken. None if there is no such file.
        meshes: The folder in which mesh files must lie. None for the robot's package, or the file's own folder.

    A robot without shapes in a file, and a link whose meshes cannot be read, gets capsules. A RobotWarning names the
    first such mesh.
    """
    shown = [] if file is None else _visual_bodies(robot, file, meshes)
    return shown or capsules(robot)


def _visual_bodies(robot: Robot, file: Path, meshes: Path | None) -> list[SceneBody]:
    """Return bodies for the shapes in a URDF file, one for each link and color."""
    places = _places(robot)
    carried = [(places[visual.link], visual) for visual in visuals(file) if visual.link in places]
    named = dict.fromkeys(visual.file for _, visual in carried if visual.shape == "mesh")
    try:
        loaded = read_meshes(file, list(named), folder_of(file) if meshes is None else meshes) if named else {}
    except MissingExtraError as error:
        loaded = dict.fromkeys(named, RobotError(str(error), code="DG-VIEW-001"))
    failed = [mesh.text for mesh in loaded.values() if isinstance(mesh, RobotError)]
    if failed:
        more = f"; so are {len(failed) - 1} others" if len(failed) > 1 else ""
        warn(
            f"{failed[0]}{more}; capsules are drawn for the links with missing meshes", RobotWarning, code="DG-VIEW-002"
        )
    by_link: dict[int, list[Solid]] = {}
    broken: set[int] = set()
    for (link, rotation, translation), visual in carried:
        mesh = loaded.get(visual.file)
        if isinstance(mesh, RobotError):
            broken.add(link)
        else:
            solid = _solid(visual, mesh).placed(rotation, translation)
            by_link.setdefault(link, []).append(solid)
    total = sum(len(solid.corners) for solids in by_link.values() for solid in solids)
    share = min(1.0, MAX_TRIANGLES / max(total, 1))
    bodies = [
        SceneBody(link, joined([solid.reduced(max(int(share * len(solid.corners)), 200)) for solid in solids]))
        for link, solids in by_link.items()
    ]
    return bodies + [body for body in capsules(robot) if body.link in broken and body.link not in by_link]


def _places(robot: Robot) -> dict[str | None, tuple[int, Floats, Floats]]:
    """Return the link that carries each link or frame of the file, with its pose there. None is the base."""
    here = (np.eye(3), np.zeros(3))
    places: dict[str | None, tuple[int, Floats, Floats]] = {None: (BASE, *here)}
    places |= {
        frame.name: (frame.link, np.array(frame.rotation), np.array(frame.translation)) for frame in robot.frames
    }
    return places | {link.name: (i, *here) for i, link in enumerate(robot.links)}


def _solid(visual: Visual, mesh: Solid | None) -> Solid:
    """Return a shape in the frame of the part that carries it. mesh: of its file, if it has one."""
    if visual.shape == "mesh":
        assert mesh is not None
        scale = np.array(visual.size)
        corners, normals = mesh.corners * scale, mesh.normals / np.where(scale == 0.0, 1.0, scale)
        if np.prod(scale) < 0.0:
            corners, normals = corners[:, ::-1], normals[:, ::-1]
        normals = normals / np.maximum(np.linalg.norm(normals, axis=2, keepdims=True), 1e-300)
        own = replace(mesh, corners=corners, normals=normals)
        if (mesh.colors == GRAY).all():
            own = replace(own, colors=np.tile(np.array(visual.color, np.uint8), (len(corners), 1)))
    elif visual.shape == "box":
        own = box(np.array(visual.size), visual.color)
    elif visual.shape == "cylinder":
        own = cylinder(visual.size[0], visual.size[1], visual.color)
    else:
        own = rounded_hull(np.zeros((1, 3)), visual.size[0], visual.color)
    return own.placed(visual.rotation, visual.translation)


def capsules(robot: Robot) -> list[SceneBody]:
    """Return a rounded body along each link, from its joint to the joints and frames that it carries, and a cylinder at
    each joint that rotates. The thickness follows from the mass."""
    points = [_points(robot, i) for i in range(len(robot.links))]
    size = size_of(robot)
    radii = [_radius(link.mass, own, size) for link, own in zip(robot.links, points, strict=True)]
    bodies: list[SceneBody] = []
    for i, (link, own, radius) in enumerate(zip(robot.links, points, radii, strict=True)):
        solids = [rounded_hull(own, radius, SHELL)]
        parent = radius if link.parent < 0 else radii[link.parent]
        thick = max(radius, min(parent, 1.35 * radius))
        if link.joint.type in ("revolute", "continuous"):
            turn = frame_along(np.array(link.joint.axis))
            twists = _is_along(np.array(link.joint.axis), own)
            solids.append(cylinder(1.12 * thick, (1.0 if twists else 2.5) * thick, JOINT).placed(turn, np.zeros(3)))
        elif link.joint.type == "prismatic":
            turn = frame_along(np.array(link.joint.axis))
            solids.append(box(thick * np.array([2.6, 2.6, 2.2]), PLATE).placed(turn, np.zeros(3)))
            bodies.append(SceneBody(link.parent, _rail(link, 0.4 * radius, size)))
        bodies += [SceneBody(i, solid) for solid in solids]
    return [*_base(robot, radii), *bodies]


def _rail(link: Link, radius: float, size: float) -> Solid:
    """Return the rail of a prismatic joint in the frame of the link or base that carries it."""
    joint = link.joint
    reach = [
        side * size if limit is None or not abs(limit) < 2.0 * size else limit
        for side, limit in ((-1.0, joint.lower), (1.0, joint.upper))
    ]
    axis = np.array(joint.rotation) @ np.array(joint.axis)
    return rounded_hull(np.array(joint.translation) + np.outer(reach, axis), radius, PLATE)


def _is_along(axis: Floats, points: Floats) -> bool:
    """Return whether the body through these points lies along the axis of its joint, so that the joint twists it."""
    furthest = points[np.linalg.norm(points, axis=1).argmax()]
    return bool(abs(furthest @ axis) > 0.9 * np.linalg.norm(furthest) > 0.0)


def _base(robot: Robot, radii: list[float]) -> list[SceneBody]:
    """Return a plate at the base's origin and a capsule from there to each joint that is mounted on the base."""
    solids: list[Solid] = []
    for link, radius in zip(robot.links, radii, strict=True):
        if link.parent >= 0 or link.joint.type == "floating":
            continue
        mount = np.array(link.joint.translation)
        if np.linalg.norm(mount) > radius:
            foot = mount * min(1.0, 0.9 * radius / float(np.linalg.norm(mount)))
            solids.append(rounded_hull(np.stack([foot, mount]), 0.9 * radius, PLATE))
        if not solids or len(solids) == 1:
            plate = cylinder(2.0 * radius, 0.5 * radius, PLATE)
            solids.append(plate.placed(np.eye(3), np.array([0.0, 0.0, 0.25 * radius])))
    return [SceneBody(BASE, joined(solids))] if solids else []


def _points(robot: Robot, i: int) -> Floats:
    """Return the points that a link's rounded body connects, (n, 3) in m in the link's frame: its joint, and the joints
    of its children or else its tip.
    """
    link = robot.links[i]
    children = [np.array(child.joint.translation) for child in robot.links if child.parent == i]
    points = [np.zeros(3), *children]
    if not children:
        tips = [np.array(frame.translation) for frame in robot.frames if frame.link == i]
        tips = [tip for tip in tips if np.linalg.norm(tip) > 0.0] or [2.0 * np.array(link.com)]
        points.append(max(tips, key=lambda tip: float(np.linalg.norm(tip))))
    distinct: list[Floats] = []
    for point in points:
        if all(np.linalg.norm(point - other) > 1e-9 for other in distinct):
            distinct.append(point)
    return np.array(distinct)


def size_of(robot: Robot) -> float:
    """Return how far the robot reaches from its first joint, m, with every joint in its middle position."""
    reach = [0.0] * len(robot.links)
    for i in reversed(range(len(robot.links))):
        own = _points(robot, i)
        furthest = max(reach[i], float(np.linalg.norm(own, axis=1).max(initial=0.0)))
        reach[i] = furthest
        parent, step = robot.links[i].parent, float(np.linalg.norm(robot.links[i].joint.translation))
        if parent >= 0:
            reach[parent] = max(reach[parent], step + furthest)
    heavy = max((link.mass for link in robot.links), default=0.0)
    ball = (3.0 * heavy / (4.0 * math.pi * DENSITY)) ** (1.0 / 3.0)
    return max(max(reach, default=0.0), 2.0 * ball) or 1.0


def _radius(mass: float, points: Floats, size: float) -> float:
    """Return the radius in m of a capsule through these points that has this mass, within the limits for a picture."""
    length = float(np.ptp(points, axis=0).max(initial=0.0))
    low, high = THINNEST * size, THICKEST * size
    if len(points) == 1:
        high *= 2.0
    volume = mass / DENSITY
    for _ in range(40):
        middle = 0.5 * (low + high)
        if math.pi * middle**2 * (length + 4.0 / 3.0 * middle) < volume:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
