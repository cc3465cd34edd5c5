"""Show a robot and its motion in the browser, on this machine only."""

from __future__ import annotations

import json
import threading
import webbrowser
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import numpy.typing as npt

from dynagate.base.arguments import check_positive, is_whole
from dynagate.base.arrays import Floats
from dynagate.base.errors import ArgumentError, Error
from dynagate.base.explained import explained
from dynagate.base.warned import warn
from dynagate.robot import Robot, RobotWarning
from dynagate.robot.checked import RobotOrName
from dynagate.views.scene.guard import is_foreign
from dynagate.views.scene.look import theme_of
from dynagate.views.scene.page import motion, page
from dynagate.views.scene.pictures import Shapes, sources
from dynagate.views.scene.scene import Scene, configurations, scene_of, with_motion

HOST = "127.0.0.1"
"""Address that the page is served at. Other machines of the network cannot reach it."""
PORTS_TRIED = 20
"""Number of ports after the requested one that are tried if others are in use."""
MAX_FRAMES = 2000
"""Largest number of frames that the page plays. Of a longer motion, every k-th step is shown."""
ANSWER_SECONDS = 20.0
"""Longest time that a request for a later motion waits."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
NO_BROWSER = (
    "no browser could be opened here; open {url} by hand, from another machine through `ssh -L {port}:{host}:{port}`"
)


class ViewError(Error, RuntimeError):
    """A view could not be opened. The text says why and what to do."""


@explained
class View:
    """A robot in the browser until `close`. `dynagate.view` makes it. Use it as a context.

    Args:
        robot: The robot.
        scene: Bodies, ground and camera.
        q: Configurations (nq,) or (steps, nq), rad, m and unit quaternions.
        theme: "light", "dark" or "auto".
        port: Port on this machine, 0 for a free one.

    Attributes:
        url: Address of the page, for this machine only.
        port: Its port.
        opened: Whether a browser was opened with it.
    """

    def __init__(self, robot: Robot, scene: Scene, q: Floats, theme: str, port: int) -> None:
        self._robot, self._scene, self._q, self._theme = robot, scene, q, theme
        self._version = 0
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._server = _serve(port, self)
        self.port = int(self._server.server_address[1])
        self.url, self.opened = f"http://{HOST}:{self.port}", False
        threading.Thread(target=self._server.serve_forever, name="dynagate view", daemon=True).start()

    @property
    def q(self) -> Floats:
        """The motion that plays, (steps, nq), in rad, m and unit quaternions.

        Assign another motion, or one configuration (nq,), to show that. Raises ArgumentError if it has another shape or
        is not finite.
        """
        return self._q

    @q.setter
    def q(self, q: npt.ArrayLike) -> None:
        own = configurations(self._robot, q)
        scene = with_motion(self._scene, self._robot, own[:: -(-len(own) // MAX_FRAMES)])
        with self._changed:
            self._q, self._scene = own, scene
            self._version += 1
            self._changed.notify_all()

    def _page(self) -> str:
        with self._changed:
            return page(self._scene, self._theme, self._version)

    def _after(self, version: int) -> str | None:
        """Return a motion that is later than this version as JSON; None if no later version appears for some time."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > version or self._closed.is_set(), ANSWER_SECONDS)
            if self._version <= version:
                return None
            return json.dumps({**motion(self._scene), "version": self._version})

    def wait(self) -> None:
        """Return when the view is closed, as another thread or Ctrl-C does."""
        self._closed.wait()

    def close(self) -> None:
        """Stop serving the page."""
        if not self._closed.is_set():
            self._closed.set()
            with self._changed:
                self._changed.notify_all()
            self._server.shutdown()
            self._server.server_close()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<View of {self._robot.name} at {self.url}>"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True  # the port of a closed view is free at once; a port in use is still refused
    view: View


def _serve(port: int, view: View) -> _Server:
    """Return a server at the first of some ports that is free. Raises ViewError."""
    problem: OSError | None = None
    for number in range(port, min(port + PORTS_TRIED, 65536)):
        try:
            server = _Server((HOST, number), _Handler)
        except OSError as error:
            problem = error
        else:
            server.view = view
            return server
    reason = (problem.strerror if problem else None) or problem
    raise ViewError(f"no view at {HOST}:{port} ({reason}); expected another port", code="DG-VIEW-003")


class _Handler(BaseHTTPRequestHandler):
    """Answers the page's requests, and refuses those of other pages."""

    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 60.0

    def do_GET(self) -> None:
        if is_foreign(self.headers):
            self._answer(403, "text/plain", "this page is for its own machine\n")
            return
        parts = urlsplit(self.path)
        if parts.path == "/":
            self._answer(200, "text/html; charset=utf-8", self.server.view._page())
        elif parts.path == "/motion":
            after = parse_qs(parts.query).get("after", [""])[0]
            later = self.server.view._after(int(after)) if after.isdecimal() and len(after) < 16 else None
            self._answer(204 if later is None else 200, "application/json", later or "")
        else:
            self._answer(404, "text/plain", "no such page\n")

    def _answer(self, status: int, kind: str, text: str) -> None:
        """Send an HTTP response."""
        content = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **HEADERS}.items():
            if status != 204 or not name.startswith("Content-Length"):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *values: object) -> None:
        """Print nothing."""


@explained
def view(
    robot: RobotOrName,
    q: npt.ArrayLike,
    *,
    dt: float = 0.02,
    theme: str = "auto",
    targets: npt.ArrayLike | None = None,
    forces: Mapping[str, npt.ArrayLike] | None = None,
    shapes: Shapes | None = None,
    port: int = 8080,
    browser: bool = True,
) -> View:
    """Show a robot and its motion in the browser, on this machine only, until the view is closed or the program ends.

    The page plays the motion at a speed that you choose. Drag to rotate the robot, scroll to zoom.

    Args:
        robot, dt, targets, forces, shapes: As `dynagate.draw` takes them.
        q: Configurations in rad, m and unit quaternions, (nq,) or (steps, nq).
        theme: "light", "dark", or "auto" as the browser has.
        port: Port of the page, or the next one that is free.
        browser: Whether to open a browser. If none can be opened, a RobotWarning says what to do.

    Raises:
        ArgumentError: An array has another shape or is not finite, or an option is not among those above.
        RobotError: There is no such robot or folder.
        ViewError: No port is free.
    """
    check_positive("dt", dt, "seconds between steps, more than 0")
    theme_of(theme)
    if not is_whole(port) or not 1 <= port <= 65535:
        raise ArgumentError(f"port={port!r}; expected a number from 1 to 65535", code="DG-VIEW-004")
    known, source, folder = sources(robot, shapes)
    own = configurations(known, q)
    scene = scene_of(known, own, dt=dt, file=source, meshes=folder, targets=targets, forces=forces, most=MAX_FRAMES)
    shown = View(known, scene, own, theme, int(port))
    if browser:
        shown.opened = _opened(shown.url)
        if not shown.opened:
            text = NO_BROWSER.format(url=shown.url, port=shown.port, host=HOST)
            warn(text, RobotWarning, code="DG-VIEW-005")
    return shown


def _opened(url: str) -> bool:
    """Open a browser at an address, and return whether that worked."""
    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False
