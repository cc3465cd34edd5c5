"""A robot and its motion in a browser, to be turned and played, with viser: the shapes of the robot's file, or lines
from joint to joint."""

from __future__ import annotations

import io
import threading
import webbrowser
from contextlib import redirect_stdout
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_positive, is_whole, real
from dynagate.base.errors import ArgumentError, Error
from dynagate.base.explained import explained
from dynagate.base.extras import brought_by
from dynagate.base.warned import warn
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.integrators.guard import GuardError, own_pages_only, without_sharing
from dynagate.integrators.meshes import read_meshes
from dynagate.integrators.pictures import skeleton
from dynagate.robot import Robot, RobotError, RobotWarning, robots
from dynagate.robot.checked import RobotOrName, robot_of
from dynagate.robot.visuals import Visual, folder_of, visuals

Array = npt.NDArray[np.float64]
BLUE, INK = (0, 114, 178), (70, 80, 92)
HOST = "127.0.0.1"
"""Others on the network see nothing."""
THIN = 0.02
"""Thickness of lines, of the robot's size."""
NO_BROWSER = (
    "no browser could be opened here; open {url} by hand, from another machine through `ssh -L {port}:{host}:{port}`"
)


class ViewError(Error, RuntimeError):
    """A view could not be opened; the text says why and what to do."""


@explained
class View:
    """A robot in the browser until `close`; `dynagate.view` makes it. Use it as a context.

    robot, file, meshes, dt, port: as `dynagate.view` has them; file and meshes None for none, dt in s. url: of the
    page, for this machine alone. opened: whether a browser was opened with it.
    Raises ViewError: the port cannot be had; MissingExtraError: viser is not installed.
    """

    def __init__(self, robot: Robot, file: Path | None, meshes: Path | None, dt: float, port: int) -> None:
        with brought_by("browser", "a view in the browser"):
            import viser
        try:
            with redirect_stdout(io.StringIO()), own_pages_only():  # viser prints a frame with its address
                self._server = viser.ViserServer(host=HOST, port=port, label=f"dynagate: {robot.name}", verbose=False)
            without_sharing(self._server)
        except GuardError as error:
            self._server.stop()
            raise ViewError(str(error)) from None
        except OSError as error:
            raise ViewError(f"no view at {HOST}:{port} ({error.strerror or error}); expected another port") from None
        self.port = self._server.get_port()
        self.url, self.opened = f"http://{HOST}:{self.port}", False
        self._robot, self._dt = robot, dt
        self._lock, self._closed = threading.RLock(), threading.Event()
        self._q = self._lines = np.zeros((0, robot.nq))
        scene = self._server.scene
        scene.set_up_direction("+z")
        scene.add_grid("/ground", 4.0, 4.0, cell_size=0.25)
        shapes, whole = ([], False) if file is None else shapes_of(robot, file, meshes)
        self._bones = None if whole else _Bones(scene, robot)
        carriers = dict.fromkeys(name for name, _ in shapes)
        self._links = {name: scene.add_frame(f"/{name}", show_axes=False) for name in carriers}
        for k, (name, shape) in enumerate(shapes):
            scene.add_mesh_trimesh(f"/{name}/{k}", shape)
        self._step: Any = self._server.gui.add_slider("step", 0, 1, 1, 0)
        self._playing = self._server.gui.add_checkbox("play", True)
        self._step.on_update(lambda _: self._show(int(self._step.value)))
        self._thread = threading.Thread(target=self._play, name="dynagate view", daemon=True)

    @property
    def q(self) -> Array:
        """The motion that plays, (steps, nq), rad, m and unit quaternions. Assign another, or one configuration (nq,),
        to show that. Raises ValueError: it has another shape, or is not finite."""
        return self._q

    @q.setter
    def q(self, q: npt.ArrayLike) -> None:
        motion = _motion(self._robot, q)
        poses = _poses(self._robot, list(self._links), motion)
        lines = skeleton(self._robot, motion) if self._bones else motion
        with self._lock:
            self._q, self._poses, self._lines = motion, poses, lines
            self._step.max = max(len(motion) - 1, 1)
            self._show(0)
            if len(motion) > 1 and not self._thread.is_alive():
                self._thread.start()

    def _show(self, step: int) -> None:
        with self._lock, self._server.atomic():
            step = min(step, len(self._q) - 1)
            for name, frame in self._links.items():
                frame.position, frame.wxyz = (part[step] for part in self._poses[name])
            if self._bones:
                self._bones.show(self._lines[step])

    def _play(self) -> None:
        while not self._closed.wait(self._dt):
            with self._lock:
                if self._playing.value and not self._closed.is_set():
                    self._step.value = (int(self._step.value) + 1) % len(self._q)
                    self._show(int(self._step.value))

    def wait(self) -> None:
        """Returns when the view is closed, as another thread or Ctrl-C does."""
        self._closed.wait()

    def close(self) -> None:
        """Ends the page's server."""
        with self._lock:
            if not self._closed.is_set():
                self._closed.set()
                with redirect_stdout(io.StringIO()):
                    self._server.stop()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<View of {self._robot.name} at {self.url}>"


class _Bones:
    """Lines from joint to joint with a thickness, and balls where they meet."""

    def __init__(self, scene: Any, robot: Robot) -> None:
        from dynagate.dynamics.configuration import neutral

        lines = skeleton(robot, neutral(robot))
        thick = THIN * (float(np.ptp(lines.reshape(-1, 3), axis=0).max()) or 1.0)
        self._scene, self._thick = scene, thick
        self.show(lines)

    def show(self, lines: Array) -> None:
        """lines: (segments, 2, 3), m."""
        self._scene.add_line_segments("/bones", lines.astype(np.float32), INK, thickness=self._thick)
        points = lines.reshape(-1, 3).astype(np.float32)
        size = 1.2 * self._thick
        self._scene.add_point_cloud("/joints", points, BLUE, point_size=size, point_shape="circle", precision="float32")


@explained
def view(
    robot: RobotOrName,
    q: npt.ArrayLike,
    *,
    dt: float = 0.02,
    file: str | PathLike[str] | None = None,
    meshes: str | PathLike[str] | None = None,
    port: int = 8080,
    browser: bool = True,
) -> View:
    """Show a robot and its motion in the browser, on this machine alone, until the view is closed or the program ends.

    robot: a name or path, whose file's shapes are shown; or a Robot, of which lines from joint to joint are, unless
    `file` is its URDF file. Lines are also shown where there are no shapes, or some cannot be had; a RobotWarning then
    names the first. q: rad or m, (nq,) or (steps, nq). dt: s between steps.
    meshes: the folder in which mesh files must lie; unless given that of the nearest package.xml above the robot's
    file, or the file's own. port: of the page, or the next that is free. browser: whether to open one; where none can
    be opened, a RobotWarning says what to do.
    Raises ValueError: q has another shape or is not finite, or an option is none; RobotError: there is no such robot or
    folder; ViewError: the port cannot be had; MissingExtraError: viser is not installed (extra `browser`).
    """
    check_positive("dt", dt, "seconds between steps, more than 0")
    if not is_whole(port) or not 1 <= port <= 65535:
        raise ArgumentError(f"port={port!r}; expected a number from 1 to 65535")
    folder = None if meshes is None else Path(meshes)
    if folder is not None and not folder.is_dir():
        raise RobotError(f"{folder} is no folder; expected the one in which the robot's meshes lie")
    known = robot_of(robot)
    if file is None and not isinstance(robot, Robot):
        file = robots.file_of(robot)
    motion = _motion(known, q)
    shown = View(known, None if file is None else Path(file), folder, dt, int(port))
    shown.q = motion
    if browser:
        shown.opened = _opened(shown.url)
        if not shown.opened:
            text = NO_BROWSER.format(url=shown.url, port=shown.port, host=HOST)
            warn(text, RobotWarning)
    return shown


def _opened(url: str) -> bool:
    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False


def _motion(robot: Robot, q: npt.ArrayLike) -> Array:
    own = real("q", q)
    if own.ndim not in (1, 2) or own.shape[-1] != robot.nq or not own.size:
        raise ArgumentError(f"q has shape {own.shape}; expected ({robot.nq},) or (steps, {robot.nq})")
    motion = np.atleast_2d(own).astype(np.float64)
    if not (finite := np.isfinite(motion).all(axis=1)).all():
        raise ArgumentError(f"q is not finite at step {int(np.argmin(finite))}; expected finite numbers")
    return motion


def _poses(robot: Robot, names: list[str], q: Array) -> dict[str, tuple[Array, Array]]:
    """Positions (steps, 3) in m and quaternions (steps, 4), (w, x, y, z), of links and frames by name."""
    from viser.transforms import SO3

    moving = [name for name in names if name != BASE]
    poses = {BASE: (np.zeros((len(q), 3)), np.tile([1.0, 0.0, 0.0, 0.0], (len(q), 1)))}
    if moving:
        place = evaluate(trace(robot, [f"frame_pose_{name}" for name in moving]), {"q": q})
        several = len(moving) > 1
        for name in moving:
            end = f"_{name}" if several else ""
            rotation = place[f"frame_rotation{end}"]
            poses[name] = place[f"frame_position{end}"], SO3.from_matrix(rotation).wxyz
    return poses


BASE = "base of the robot"
"""What carries shapes that do not move."""


def shapes_of(robot: Robot, file: Path, meshes: Path | None) -> tuple[list[tuple[str, Any]], bool]:
    """The shapes in a robot's file, with the link or frame that carries each, as trimesh's; and whether there are some
    and none is missing. A RobotWarning names the first that cannot be had. meshes: the folder they must lie in."""
    folder = folder_of(file) if meshes is None else meshes
    known = {link.name for link in robot.links} | {frame.name for frame in robot.frames}
    carried, missing = [], []
    for visual in visuals(file):
        carrier = BASE if visual.link is None and visual.link not in known else visual.link
        if carrier is not None and (carrier == BASE or carrier in known):
            carried.append((carrier, visual))
    named = dict.fromkeys(visual.file for _, visual in carried if visual.shape == "mesh")
    loaded = read_meshes(file, list(named), folder)
    shapes = []
    for carrier, visual in carried:
        mesh = loaded.get(visual.file)
        if isinstance(mesh, RobotError):
            missing.append(str(mesh))
        else:
            shapes.append((carrier, _shape(visual, mesh)))
    if missing:
        more = f"; so are {len(missing) - 1} others" if len(missing) > 1 else ""
        warn(f"{missing[0]}{more}; lines are drawn instead", RobotWarning)
    return shapes, bool(shapes) and not missing


def _shape(visual: Visual, mesh: Any) -> Any:
    """Return the shape in the frame of what carries it. mesh: of its file, if it has one."""
    import trimesh

    shape: Any
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = visual.rotation, visual.translation
    if visual.shape == "mesh":
        shape = mesh.copy()
        shape.apply_scale(visual.size)
    elif visual.shape == "box":
        shape = trimesh.creation.box(visual.size)
    elif visual.shape == "cylinder":
        shape = trimesh.creation.cylinder(visual.size[0], visual.size[1])
    else:
        shape = trimesh.creation.icosphere(3, visual.size[0])
    if shape.visual.kind is None:
        shape.visual.face_colors = [*visual.color, 255]
    return shape.apply_transform(pose)
