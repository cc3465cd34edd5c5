"""A scene: the triangles of a robot's bodies, where they are in each frame, arrows, ground and camera.

All writers of pictures draw this: `pixels` (PNG and GIF), `vector` (SVG) and `page` (a web page).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import real
from dynagate.base.arrays import Floats
from dynagate.base.errors import ArgumentError
from dynagate.base.nearest import nearest
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.robot import Robot
from dynagate.views.scene.bodies import BASE, SceneBody, bodies_of, size_of
from dynagate.views.scene.camera import Camera, framed
from dynagate.views.scene.solids import Color, Solid, cone, cylinder, frame_along, joined

MAX_ROBOTS = 16
"""Largest number of motions that are drawn in one scene."""
TINTS: tuple[Color, ...] = ((222, 226, 232), (86, 180, 233), (230, 159, 0), (0, 158, 115), (204, 121, 167))
"""Colors of the capsules of several robots in one scene, by Okabe and Ito."""
FORCE: Color = (213, 94, 0)
TARGET: Color = (0, 158, 115)
FURTHEST = 1e9
"""Largest distance of a robot from its base, in multiples of its size."""
ARROW = 0.45
"""Length of the largest force's arrow, as a fraction of the robot's size."""
THIN, HEAD = 0.011, 0.077
"""Radius of an arrow and length of its head, as fractions of the robot's size."""


@dataclass(frozen=True)
class Scene:
    """A robot, or several, in a number of frames.

    Attributes:
        solid: The triangles of all bodies, each in the frame of its carrier.
        carrier: The carrier of each triangle, (n,).
        body: A number for each triangle, (n,). An outline is drawn between different numbers.
        poses: For each frame and carrier, a map (3, 4) from the carrier's frame to the base in m,
            (frames, carriers, 3, 4).
        dt: Time from one frame to the next, s.
        ground: Height of the ground, m.
        size: How far the robot reaches, m.
        camera: The camera that follows the robot.
        title: What the scene shows.
    """

    solid: Solid
    carrier: npt.NDArray[np.int64]
    body: npt.NDArray[np.int64]
    poses: Floats
    dt: float
    ground: float
    size: float
    camera: Camera
    title: str

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.poses)

    @property
    def moves(self) -> bool:
        """Whether the frames differ."""
        return self.frames > 1 and bool(np.ptp(self.poses, axis=0).max() > 1e-12)

    def placed(self, frame: int) -> tuple[Floats, Floats]:
        """Return the corners (n, 3, 3) in m and normals (n, 3, 3) of all triangles in the base frame."""
        return mapped(self.solid.corners, self.solid.normals, self.poses[frame][self.carrier])


def mapped(corners: Floats, normals: Floats, maps: Floats) -> tuple[Floats, Floats]:
    """Return corners (n, 3, 3) and normals (n, 3, 3) after the map (n, 3, 4) of each triangle."""
    turn = maps[:, :, :3].swapaxes(1, 2)
    turned = normals @ turn
    length = np.sqrt((turned * turned).sum(axis=2, keepdims=True))
    return corners @ turn + maps[:, None, :, 3], turned / np.maximum(length, 1e-300)


def scene_of(
    robot: Robot,
    q: npt.ArrayLike,
    *,
    dt: float,
    file: Path | None = None,
    meshes: Path | None = None,
    targets: npt.ArrayLike | None = None,
    forces: Mapping[str, npt.ArrayLike] | None = None,
    most: int = 200,
) -> Scene:
    """Return the scene of a motion.

    Args:
        robot: The robot.
        q: Configurations (nq,), (steps, nq) or (batch, steps, nq), rad, m and unit quaternions. Motions with numbers
            that are not finite are left out, and all after the first `MAX_ROBOTS`.
        dt: Time between steps, s.
        file, meshes: As `bodies_of` takes them.
        targets: Points to mark, (3,), (targets, 3) or (steps, targets, 3), in m in the base frame.
        forces: Forces by the link or frame that they act on, (3,) or (steps, 3), in N in the base frame.
        most: Largest number of frames. Of a longer motion, every k-th step is kept.

    Raises:
        ArgumentError: An array has another shape, or no motion is finite, or a frame has an unknown name.
    """
    motions = _motions(robot, q)
    steps = motions.shape[1]
    marks = _targets(targets, steps)
    pushes = _forces(robot, forces or {}, steps)
    every = max(1, math.ceil(steps / most))
    size = size_of(robot)
    parts, poses = _robots(robot, bodies_of(robot, file, meshes), motions[:, ::every])
    corners = _outline(parts, poses)
    arrows = _arrows(marks[::every], [(place, push[::every]) for place, push in pushes], poses, size)
    ends = [own[:, None] for start, vector, _ in arrows for own in (start, start + vector)]
    shown = np.concatenate([corners, *ends], axis=1)
    if not float(np.abs(shown).max()) < FURTHEST * size:
        far = f"further than {FURTHEST:g} times the robot's size"
        raise ArgumentError(
            f"q or targets lead {far}; expected configurations and points near the base", code="DG-VIEW-018"
        )
    camera = framed(shown)
    for start, vector, color in arrows:
        shaft, head = _arrow_maps(start, vector, size)
        parts.append((cylinder(THIN * size, 1.0, color).placed(np.eye(3), np.array([0.0, 0.0, 0.5])), len(poses)))
        parts.append((cone(2.6 * THIN * size, HEAD * size, color), len(poses) + 1))
        poses += [shaft, head]
    sizes = [len(solid.corners) for solid, _ in parts]
    carrier = np.repeat([carrier for _, carrier in parts], sizes)
    number = np.repeat(np.arange(len(parts)), sizes)
    solid, level = joined([solid for solid, _ in parts]), _ground(corners, size)
    return Scene(solid, carrier, number, np.stack(poses, axis=1), dt * every, level, size, camera, robot.name)


def _robots(robot: Robot, bodies: Sequence[SceneBody], motions: Floats) -> tuple[list[tuple[Solid, int]], list[Floats]]:
    """Return the solids of robots with their carriers, and the poses (frames, 3, 4) of these carriers.

    motions: (robots, frames, nq). Carriers are the links of the first robot and its base, then those of the second.
    """
    parts: list[tuple[Solid, int]] = []
    poses: list[Floats] = []
    for k, motion in enumerate(motions):
        for body in bodies:
            own = len(robot.links) if body.link == BASE else body.link
            parts.append((_tinted(body, k, len(motions)), len(poses) + own))
        poses += [*link_maps(robot, motion).swapaxes(0, 1), np.tile(np.eye(3, 4), (motions.shape[1], 1, 1))]
    return parts, poses


def _arrows(
    marks: Floats, pushes: Sequence[tuple[tuple[int, Floats], Floats]], poses: Sequence[Floats], size: float
) -> list[tuple[Floats, Floats, Color]]:
    """Return the start, the vector (frames, 3) in m, and the color of each arrow: for targets, then for forces."""
    above = np.tile([0.0, 0.0, 0.5 * ARROW * size], (len(marks), 1))
    arrows = [(marks[:, k] + above, -above, TARGET) for k in range(marks.shape[1])]
    largest = max((float(np.linalg.norm(push, axis=1).max()) for _, push in pushes), default=0.0) or 1.0
    fixed = np.tile(np.eye(3, 4), (len(marks), 1, 1))
    for (link, offset), push in pushes:
        own = poses[link] if link >= 0 else fixed
        arrows.append((own[:, :, :3] @ offset + own[:, :, 3], ARROW * size * push / largest, FORCE))
    return arrows


def configurations(robot: Robot, q: npt.ArrayLike) -> Floats:
    """Return one motion (steps, nq) of finite numbers. Raises ArgumentError."""
    own = real("q", q)
    if own.ndim not in (1, 2) or own.shape[-1] != robot.nq or not own.size:
        raise ArgumentError(
            f"q has shape {own.shape}; expected ({robot.nq},) or (steps, {robot.nq})", code="DG-VIEW-019"
        )
    motion = np.atleast_2d(own).astype(np.float64)
    if not (finite := np.isfinite(motion).all(axis=1)).all():
        raise ArgumentError(
            f"q is not finite at step {int(np.argmin(finite))}; expected finite numbers", code="DG-VIEW-020"
        )
    return motion


def with_motion(scene: Scene, robot: Robot, q: Floats) -> Scene:
    """Return a scene of one robot with another motion (steps, nq), without arrows. The camera keeps its distance."""
    carriers = len(robot.links) + 1
    links = link_maps(robot, q)
    poses = np.zeros((len(q), *scene.poses.shape[1:]))
    poses[:, : carriers - 1], poses[:, carriers - 1] = links, np.eye(3, 4)
    offset = scene.camera.target[0] - scene.poses[0, :carriers, :, 3].mean(axis=0)
    target = poses[:, :carriers, :, 3].mean(axis=1) + offset
    if float(np.abs(target - scene.camera.target[0]).max()) < scene.size:
        target[:] = scene.camera.target[0]
    return replace(scene, poses=poses, camera=replace(scene.camera, target=target))


def _motions(robot: Robot, q: npt.ArrayLike) -> Floats:
    """Return finite motions (batch, steps, nq). Raises ArgumentError."""
    own = real("q", q)
    n = robot.nq
    if own.ndim not in (1, 2, 3) or own.shape[-1] != n:
        raise ArgumentError(
            f"q has shape {own.shape}; expected ({n},), (steps, {n}) or (batch, steps, {n})", code="DG-VIEW-021"
        )
    motions = np.asarray(own, np.float64).reshape(*[1] * (3 - own.ndim), *own.shape)[:MAX_ROBOTS]
    motions = motions[np.isfinite(motions).all(axis=(1, 2))]
    if not motions.size:
        raise ArgumentError(
            f"q of shape {own.shape} has no motion whose numbers are all finite; expected one or more",
            code="DG-VIEW-022",
        )
    return motions


def _targets(targets: npt.ArrayLike | None, steps: int) -> Floats:
    """Return points (steps, targets, 3). Raises ArgumentError."""
    if targets is None:
        return np.zeros((steps, 0, 3))
    own = np.asarray(real("targets", targets), np.float64)
    if own.ndim not in (1, 2, 3) or own.shape[-1:] != (3,) or (own.ndim == 3 and own.shape[0] != steps):
        raise ArgumentError(
            f"targets has shape {own.shape}; expected (3,), (targets, 3) or ({steps}, targets, 3)", code="DG-VIEW-023"
        )
    if not np.isfinite(own).all():
        raise ArgumentError("targets is not finite; expected finite numbers in m", code="DG-VIEW-024")
    return np.broadcast_to(np.atleast_2d(own), (steps, *np.atleast_2d(own).shape[-2:]))


def _forces(robot: Robot, forces: Mapping[str, npt.ArrayLike], steps: int) -> list[tuple[tuple[int, Floats], Floats]]:
    """Return, for each force, its link and the point on it, and its values (steps, 3). Raises ArgumentError."""
    if not isinstance(forces, Mapping):
        raise ArgumentError(
            f"forces is a {type(forces).__name__}; expected a dict from a link or frame to its force",
            code="DG-VIEW-025",
        )
    places = {link.name: (i, np.zeros(3)) for i, link in enumerate(robot.links)}
    places |= {frame.name: (frame.link, np.array(frame.translation)) for frame in robot.frames}
    listed = []
    for name, force in forces.items():
        if name not in places:
            raise ArgumentError(
                f"forces has '{name}', which is no link or frame{nearest(str(name), list(places))}", code="DG-VIEW-026"
            )
        own = np.asarray(real(f"forces['{name}']", force), np.float64)
        if own.shape not in ((3,), (steps, 3)):
            raise ArgumentError(
                f"forces['{name}'] has shape {own.shape}; expected (3,) or ({steps}, 3)", code="DG-VIEW-027"
            )
        if not np.isfinite(own).all():
            raise ArgumentError(f"forces['{name}'] is not finite; expected finite numbers in N", code="DG-VIEW-028")
        listed.append((places[name], np.broadcast_to(own, (steps, 3))))
    return listed


def link_maps(robot: Robot, q: Floats) -> Floats:
    """Return the poses of all links, (steps, links, 3, 4): rotation and position, m. q: (steps, nq)."""
    names = [link.name for link in robot.links]
    place = evaluate(trace(robot, [f"frame_pose_{name}" for name in names]), {"q": q})
    ends = [f"_{name}" for name in names] if len(names) > 1 else [""]
    maps = [
        np.concatenate([place[f"frame_rotation{end}"], place[f"frame_position{end}"][:, :, None]], axis=2)
        for end in ends
    ]
    return np.stack(maps, axis=1)


def _tinted(body: SceneBody, k: int, robots: int) -> Solid:
    """Return the solid of a body of robot k. Gray bodies have a color of their own for each of several robots."""
    solid = body.solid
    if robots == 1:
        return solid
    gray = np.ptp(solid.colors.astype(int), axis=1) < 24
    colors = np.where(gray[:, None], np.array(TINTS[k % len(TINTS)], np.uint8), solid.colors)
    return Solid(solid.corners, solid.normals, colors, solid.closed)


def _outline(parts: Sequence[tuple[Solid, int]], poses: Sequence[Floats]) -> Floats:
    """Return points (frames, points, 3), m, between which all bodies lie: the furthest corners of each carrier's bodies
    in a number of directions."""
    by_carrier: dict[int, list[Floats]] = {}
    for solid, carrier in parts:
        by_carrier.setdefault(carrier, []).append(solid.corners.reshape(-1, 3))
    points = []
    for carrier, corners in by_carrier.items():
        own = np.concatenate(corners)
        along = own @ _DIRECTIONS.T
        chosen = own[np.unique([along.argmax(axis=0), along.argmin(axis=0)])]
        points.append(chosen @ poses[carrier][:, :, :3].swapaxes(1, 2) + poses[carrier][:, None, :, 3])
    return np.concatenate(points, axis=1)


_DIRECTIONS = np.array(
    [[x, y, z] for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if (x, y, z) > (0, 0, 0)], np.float64
)


def _ground(corners: Floats, size: float) -> float:
    """Return the height of the ground: 0, or that of the lowest point of a robot that passes through 0."""
    low = float(corners[..., 2].min())
    return 0.0 if low >= -0.03 * size else low


def _arrow_maps(start: Floats, vector: Floats, size: float) -> tuple[Floats, Floats]:
    """Return maps (frames, 3, 4) for the shaft and the head of an arrow. start, vector: (frames, 3), m."""
    length = np.linalg.norm(vector, axis=1)
    head = HEAD * size
    shaft, tip = np.zeros((2, len(start), 3, 4))
    for k, (at, along, long) in enumerate(zip(start, vector, length, strict=True)):
        shaft[k, :, 3] = tip[k, :, 3] = at
        if long < 1e-6 * size:
            continue
        turn = frame_along(along)
        small = min(1.0, long / (1.5 * head))
        shaft[k, :, :3] = turn * [small, small, long - small * head]
        tip[k, :, :3] = small * turn
        tip[k, :, 3] = at + turn[:, 2] * (long - small * head)
    return shaft, tip
