"""A robot's motion as pictures: links as lines from joint to joint, in an SVG that moves, a GIF, or an array."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_positive, real
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.extras import brought_by
from dynagate.dynamics.configuration import neutral
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName, robot_of

if TYPE_CHECKING:
    from PIL import Image

Array = npt.NDArray[Any]
NAMESPACE = "http://www.w3.org/2000/svg"
INK, PAPER = "#1b2530", "#ffffff"
RED, GREEN, BLUE = "#d55e00", "#009e73", "#0072b2"
"""Okabe and Ito's, which color-blind readers tell apart: of x, y and z."""
WIDTH, HEIGHT, MARGIN = 640, 480, 30
AZIMUTH, ELEVATION = math.radians(-60.0), math.radians(20.0)
"""Where it is seen from: turned about z from x, and above the ground."""
FRAMES = 200
"""Pictures of a motion at most; of a longer one some are left out."""
MOST_ROBOTS = 16
"""Motions that are drawn on one another."""
SUFFIXES = (".svg", ".gif", ".png")


class Lines(NamedTuple):
    """segments (frames, robots, segments, 2, 2) and axes (3, 2, 2): ends of lines in pixels; seconds: of a frame."""

    segments: Array
    axes: Array
    seconds: float


def skeleton(robot: RobotOrName, q: npt.ArrayLike) -> Array:
    """Lines (..., segments, 2, 3) in m in the base, of a robot at q (..., nq): from each link's origin to that of its
    parent, and from those of the last links to twice the way to their center of mass."""
    robot = robot_of(robot)
    robot_with, tips = _with_tips(robot)
    configurations = real("q", q)
    if configurations.shape[-1:] != (robot.nq,):
        raise ArgumentError(f"q has shape {configurations.shape}; expected (..., {robot.nq})")
    graph = trace(robot_with, ["link_positions", *(f"frame_pose_{tip}" for tip in tips.values())])
    flat = configurations.reshape(-1, robot.nq).astype(np.float64)
    place = evaluate(graph, {"q": flat})
    origins = place["link_positions"]
    ends = [
        (origins[:, link.parent] if link.parent >= 0 else np.zeros((len(flat), 3)), origins[:, i])
        for i, link in enumerate(robot.links)
    ]
    ends += [(origins[:, i], place[f"frame_position_{tip}"]) for i, tip in tips.items()]
    lines = np.stack([np.stack(pair, axis=1) for pair in ends], axis=1)
    return lines.reshape(*configurations.shape[:-1], *lines.shape[1:])


def _with_tips(robot: Robot) -> tuple[Robot, dict[int, str]]:
    """The robot with a frame beyond the center of mass of each link that carries none, and the frames by link."""
    tips: dict[int, str] = {}
    carried = set(robot.parents)
    for i, link in enumerate(robot.links):
        if i not in carried and any(link.com):
            tips[i] = f"drawn_tip_{i}"
            robot = robot.with_frame(tips[i], link.name, tuple(2.0 * x for x in link.com))
    return robot, tips


def sweep(robot: RobotOrName, steps: int = 24) -> Array:
    """A motion (steps · joints, nq) that shows what each joint does: one after the other goes half of its range to both
    sides, at most a radian or 0.3 m, and comes back."""
    robot = robot_of(robot)
    rest = np.clip(neutral(robot), robot.lower, robot.upper)
    wave = np.sin(np.linspace(0.0, 2.0 * np.pi, steps, endpoint=False))
    frames = []
    for joint, at, _ in robot.moving():
        if joint.has_quaternion:
            continue
        most = 0.3 if joint.type == "prismatic" else 1.0
        room = min(most, 0.5 * float(robot.upper[at.start] - robot.lower[at.start]))
        part = np.tile(rest, (steps, 1))
        part[:, at.start] = np.clip(rest[at.start] + room * wave, robot.lower[at.start], robot.upper[at.start])
        frames.append(part)
    return np.concatenate(frames) if frames else rest[None]


def _projected(robot: Robot, q: npt.ArrayLike, dt: float, width: int, height: int) -> Lines:
    """Raises ValueError: q has another shape, or no configuration that is finite."""
    own = real("q", q)
    if own.ndim not in (1, 2, 3):
        n = robot.nq
        raise ArgumentError(f"q has shape {own.shape}; expected ({n},), (steps, {n}) or (batch, steps, {n})")
    motions = own.reshape(*[1] * (3 - own.ndim), *own.shape)
    every = -(-motions.shape[1] // FRAMES) if motions.size else 1
    motions = motions[:MOST_ROBOTS, ::every]
    motions = motions[np.isfinite(motions).all(axis=(1, 2))]
    if not motions.size:
        raise ArgumentError(f"q of shape {own.shape} has no motion whose numbers are all finite; expected one or more")
    lines = skeleton(robot, motions)
    size = float(np.ptp(lines.reshape(-1, 3), axis=0).max()) or 1.0
    axes = np.stack([np.zeros((3, 3)), 0.15 * size * np.eye(3)], axis=1)
    right = [-math.sin(AZIMUTH), math.cos(AZIMUTH), 0.0]
    up = [-math.cos(AZIMUTH) * math.sin(ELEVATION), -math.sin(AZIMUTH) * math.sin(ELEVATION), math.cos(ELEVATION)]
    flat, flat_axes = lines @ np.array([right, up]).T, axes @ np.array([right, up]).T
    everything = np.concatenate([flat.reshape(-1, 2), flat_axes.reshape(-1, 2)])
    low, high = everything.min(axis=0), everything.max(axis=0)
    room = np.array([width, height]) - 2.0 * MARGIN
    scale = float((room / np.maximum(high - low, 1e-9)).min())
    shift = np.array([width, height]) / 2.0

    def pixels(points: Array) -> Array:
        centered = (points - (low + high) / 2.0) * scale
        return centered * [1.0, -1.0] + shift

    return Lines(pixels(flat).swapaxes(0, 1), pixels(flat_axes), dt * every)


@explained
def draw(robot: RobotOrName, q: npt.ArrayLike, file: str | PathLike[str], *, dt: float = 0.02) -> Path:
    """Draw a robot's motion into a file: .svg, which moves in a browser, .gif, or .png of its first configuration.

    robot: also a name or a path. q: rad or m, (nq,) of a still picture, (steps, nq) of a motion, as `Trajectories.q` of
    one, or (batch, steps, nq) of several on one another, at most MOST_ROBOTS; motions with numbers that are not finite
    are left out. dt: s between steps. Returns the file's path.
    Raises ValueError: q has another shape or nothing to draw, or the file another suffix, or it cannot be written;
    MissingExtraError: .gif and .png without Pillow (extra `view`).
    """
    check_positive("dt", dt, "seconds between steps, more than 0")
    path, known = Path(file), robot_of(robot)
    if path.suffix not in SUFFIXES:
        raise ArgumentError(f"{path}; expected a name that ends in {', '.join(SUFFIXES)}")
    lines = _projected(known, q, dt, WIDTH, HEIGHT)
    if path.suffix == ".svg":
        text = _svg(lines, known.name)
        with _writing(path):
            path.write_text(text)
        return path
    first, *others = [_image(lines, k) for k in range(len(lines.segments) if path.suffix == ".gif" else 1)]
    more: dict[str, Any] = {
        "save_all": True,
        "append_images": others,
        "duration": max(20, round(1e3 * lines.seconds)),
        "loop": 0,
    }
    with _writing(path):
        first.save(path, **(more if path.suffix == ".gif" else {}))
    return path


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raise ArgumentError if the file cannot be written. A name with a null byte is a ValueError of Python's."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise ArgumentError(f"cannot write {path}: {reason}; expected a file in a folder that exists") from None


def pixels(robot: RobotOrName, q: npt.ArrayLike, width: int = WIDTH, height: int = HEIGHT) -> npt.NDArray[np.uint8]:
    """A picture (height, width, 3) of a robot at q (nq,), rad or m. Raises as `draw`."""
    return np.asarray(_image(_projected(robot_of(robot), q, 1.0, width, height), 0, width, height))


def _image(lines: Lines, k: int, width: int = WIDTH, height: int = HEIGHT) -> Image.Image:
    """A frame, drawn at twice its size, which smooths its lines."""
    with brought_by("view", "a picture of pixels"):
        from PIL import Image, ImageDraw
    image = Image.new("RGB", (2 * width, 2 * height), PAPER)
    canvas = ImageDraw.Draw(image)
    for ends, color in zip(lines.axes, (RED, GREEN, BLUE), strict=True):
        canvas.line([tuple(2.0 * x) for x in ends], fill=color, width=3)
    for ends in lines.segments[k].reshape(-1, 2, 2):
        canvas.line([tuple(2.0 * x) for x in ends], fill=INK, width=9)
        for x, y in 2.0 * ends:
            canvas.ellipse([x - 6, y - 6, x + 6, y + 6], fill=BLUE)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _svg(lines: Lines, name: str) -> str:
    box = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "width": str(WIDTH), "height": str(HEIGHT)}
    root = ElementTree.Element("svg", {"xmlns": NAMESPACE, **box, "role": "img"})
    ElementTree.SubElement(root, "title").text = f"{name} in motion"
    ElementTree.SubElement(root, "rect", {"width": str(WIDTH), "height": str(HEIGHT), "fill": PAPER})
    for ends, color in zip(lines.axes, (RED, GREEN, BLUE), strict=True):
        ElementTree.SubElement(root, "polyline", {"points": _points(ends), "stroke": color, "stroke-width": "1.5"})
    still = {"stroke": INK, "stroke-width": "5", "stroke-linecap": "round"}
    seconds = lines.seconds * len(lines.segments)
    for moving in lines.segments.reshape(len(lines.segments), -1, 2, 2).swapaxes(0, 1):
        values = [_points(ends) for ends in moving]
        line = ElementTree.SubElement(root, "polyline", {"points": values[0], **still})
        if len(set(values)) > 1:
            motion = {"attributeName": "points", "values": ";".join(values), "dur": f"{seconds:.3f}s"}
            ElementTree.SubElement(line, "animate", {**motion, "repeatCount": "indefinite"})
    return ElementTree.tostring(root, encoding="unicode")


def _points(ends: Sequence[Any]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in ends)
