"""Draw a robot's motion as SVG, GIF, PNG or a web page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_positive
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.explained import explained
from dynagate.base.extras import brought_by
from dynagate.dynamics.configuration import neutral
from dynagate.robot import Robot, RobotError, robots
from dynagate.robot.checked import RobotOrName, robot_of
from dynagate.views.scene.look import Theme, theme_of
from dynagate.views.scene.page import page
from dynagate.views.scene.pixels import picture
from dynagate.views.scene.scene import Scene, scene_of
from dynagate.views.scene.vector import svg

WIDTH, HEIGHT = 640, 480
FRAMES = {".svg": 48, ".gif": 100, ".png": 1, ".html": 2000}
"""Largest number of frames of a motion in each kind of file. Of a longer motion, every k-th step is drawn."""
SUFFIXES = tuple(FRAMES)


@dataclass(frozen=True)
class Shapes:
    """The files that the shapes of a robot are read from, for `dynagate.draw` and `dynagate.view`.

    urdf: the URDF file of the robot, whose shapes and meshes are drawn. None for the robot's own file, if it is passed
    by name or path. meshes: the folder in which mesh files must lie. None for the folder of the nearest package.xml
    above the URDF file, or the file's own.
    """

    urdf: str | PathLike[str] | None = None
    meshes: str | PathLike[str] | None = None


@explained
class Picture:
    """A drawn picture of a motion. A notebook shows it, and it can be passed wherever a file's path is expected.

    Attributes:
        path: The file; None for a picture that was only drawn for a notebook.
        data: The content of the file.
        suffix: ".svg", ".gif", ".png" or ".html".
    """

    def __init__(self, path: Path | None, data: bytes, suffix: str) -> None:
        self.path, self.data, self.suffix = path, data, suffix

    def __fspath__(self) -> str:
        if self.path is None:
            raise ArgumentError("this picture has no file; expected draw(robot, q, file)", code="DG-VIEW-013")
        return fspath(self.path)

    def __str__(self) -> str:
        return "a picture without a file" if self.path is None else str(self.path)

    def __repr__(self) -> str:
        return f"<Picture {self}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return what a notebook shows."""
        if self.suffix == ".svg":
            return {"image/svg+xml": self.data.decode(), "text/plain": repr(self)}
        if self.suffix == ".html":
            frame = f'<iframe width="{WIDTH}" height="{HEIGHT}" style="border:0" srcdoc="{escape(self.data.decode())}">'
            return {"text/html": f"{frame}</iframe>", "text/plain": repr(self)}
        kind = self.suffix[1:]
        return {f"image/{kind}": b64encode(self.data).decode(), "text/plain": repr(self)}


@explained
def draw(
    robot: RobotOrName,
    q: npt.ArrayLike,
    file: str | PathLike[str] | None = None,
    *,
    dt: float = 0.02,
    theme: str = "auto",
    targets: npt.ArrayLike | None = None,
    forces: Mapping[str, npt.ArrayLike] | None = None,
    shapes: Shapes | None = None,
) -> Picture:
    """Draw a robot's motion: as .svg, .gif, .png of the first configuration, or .html to be turned and played.

    A robot is drawn with the shapes and meshes of its URDF file, or else with capsules along its links.

    Args:
        robot: A name or a path, whose file's shapes are drawn; or a Robot, of which capsules are drawn, unless `shapes`
            has its file.
        q: Configurations in rad, m and unit quaternions: (nq,) for a still picture, (steps, nq) for a motion such as
            `Trajectories.q` of one, or (batch, steps, nq) for up to 16 motions in one picture. Motions with numbers
            that are not finite are left out.
        file: The file to write, whose name ends in .svg, .gif, .png or .html. None for a picture that a notebook shows.
        dt: Time between steps, s.
        theme: "light", "dark", or "auto", which follows the reader's browser in .svg and .html, and is light elsewhere.
        targets: Points to mark, (3,), (targets, 3) or (steps, targets, 3), in m in the base frame.
        forces: Forces to draw as arrows, by the link or frame that they act on: (3,) or (steps, 3), in N in the base
            frame. The largest has an arrow of half the robot's size.
        shapes: The robot's URDF file and the folder of its meshes, `dynagate.Shapes(urdf, meshes)`.

    Returns:
        The picture, which can be passed on as the file's path.

    Raises:
        ArgumentError: An array has another shape or nothing to draw, an option is not among those above, or the file
            has another suffix or cannot be written.
        MissingExtraError: Pillow, which .gif and .png need, is not installed (extra `view`).

    Example:
        >>> dynagate.draw("iiwa14", motion.q, "motion.gif", dt=0.01, theme="dark")
    """
    check_positive("dt", dt, "seconds between steps, more than 0")
    colors = theme_of(theme)
    path = None if file is None else Path(file)
    suffix = ".svg" if path is None else path.suffix
    if suffix not in SUFFIXES:
        raise ArgumentError(f"{path}; expected a name that ends in {', '.join(SUFFIXES)}", code="DG-VIEW-014")
    known, source, folder = sources(robot, shapes)
    scene = scene_of(known, q, dt=dt, file=source, meshes=folder, targets=targets, forces=forces, most=FRAMES[suffix])
    if suffix in (".svg", ".html"):
        data = (page(scene, theme) if suffix == ".html" else svg(scene, WIDTH, HEIGHT, theme)).encode()
    else:
        data = _encoded(scene, suffix, colors)
    if path is not None:
        with _writing(path):
            path.write_bytes(data)
    return Picture(path, data, suffix)


def sources(robot: RobotOrName, shapes: Shapes | None = None) -> tuple[Robot, Path | None, Path | None]:
    """Return a robot, its URDF file and the folder of its meshes; None if there is no such file or no folder is passed.

    Raises:
        RobotError: There is no such robot, file or folder.
        ArgumentTypeError: The shapes are not a `Shapes`.
    """
    known = robot_of(robot)
    if not isinstance(shapes, Shapes | None):
        raise ArgumentTypeError(
            f"shapes={shapes!r:.60}; expected a Shapes, such as dynagate.Shapes(urdf='robot.urdf')", code="DG-VIEW-015"
        )
    urdf, meshes = (None, None) if shapes is None else (shapes.urdf, shapes.meshes)
    folder = None if meshes is None else Path(meshes)
    if folder is not None and not folder.is_dir():
        raise RobotError(f"{folder} is no folder; expected the one in which the robot's meshes lie", code="DG-VIEW-016")
    if urdf is None and not isinstance(robot, Robot):
        urdf = robots.file_of(robot)
    file = None if urdf is None else Path(urdf)
    return known, file if file is not None and file.suffix == ".urdf" else None, folder


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raise ArgumentError if the file cannot be written. A name with a null byte is a ValueError of Python's."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise ArgumentError(
            f"cannot write {path}: {reason}; expected a file in a folder that exists", code="DG-VIEW-017"
        ) from None


def _encoded(scene: Scene, suffix: str, theme: Theme) -> bytes:
    """Return a scene as a GIF or PNG."""
    if suffix == ".gif":
        return gif(scene, WIDTH, HEIGHT, theme)
    with brought_by("view", "a picture of pixels"):
        from PIL import Image
    buffer = BytesIO()
    Image.fromarray(picture(scene, 0, WIDTH, HEIGHT, theme)).save(buffer, "PNG")
    return buffer.getvalue()


def gif(scene: Scene, width: int, height: int, theme: Theme, *, colors: int = 255, comment: str = "") -> bytes:
    """Return a scene as a GIF.

    All frames have the same colors, which are chosen from a few of them, so that nothing flickers.

    Args:
        scene: The scene.
        width, height: Size in pixels.
        theme: Its colors.
        colors: Number of colors, at most 255. Fewer make a smaller file.
        comment: Text to keep in the file, such as the date and the license of a robot.

    Raises:
        MissingExtraError: Pillow is not installed (extra `view`).
    """
    with brought_by("view", "a picture of pixels"):
        from PIL import Image
    frames = scene.frames if scene.moves else 1
    shown = [picture(scene, k, width, height, theme) for k in range(frames)]
    sample = Image.fromarray(np.concatenate(shown[:: -(-frames // 4)]))
    palette = sample.quantize(colors, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    entries = [*theme.paper, *(palette.getpalette() or [])[: 3 * 255]]
    palette = Image.new("P", (1, 1))
    palette.putpalette(entries)

    def indexed(frame: npt.NDArray[np.uint8]) -> Image.Image:
        """Return a frame in these colors. Pillow's nearest color is near enough, except for the paper."""
        index = np.array(Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE))
        index[(frame == theme.paper).all(axis=2)] = 0
        image = Image.fromarray(index, "P")
        image.putpalette(entries)
        return image

    first, *others = [indexed(frame) for frame in shown]
    step = max(20, round(100.0 * scene.dt) * 10)
    more: dict[str, Any] = {"comment": comment.encode()} if comment else {}
    buffer = BytesIO()
    first.save(buffer, "GIF", save_all=True, append_images=others, duration=step, loop=0, optimize=False, **more)
    return buffer.getvalue()


def pixels(robot: RobotOrName, q: npt.ArrayLike, width: int = WIDTH, height: int = HEIGHT) -> npt.NDArray[np.uint8]:
    """Return a picture (height, width, 3) of a robot at q (nq,), rad or m. Raises as `draw`."""
    known, source, folder = sources(robot)
    return picture(scene_of(known, q, dt=1.0, file=source, meshes=folder, most=1), 0, width, height)


def sweep(robot: RobotOrName, steps: int = 24) -> Array:
    """Return a motion (steps · joints, nq), rad or m, that shows what each joint does.

    The joints move one after the other: by half of the range to both sides, at most a radian or 0.3 m, and back.
    """
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
