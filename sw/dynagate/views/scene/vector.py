"""Frames of a scene as SVG: what the pixels show, as flat regions of a few tones, with lines between bodies."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.views.scene.camera import FIELD
from dynagate.views.scene.contours import contours
from dynagate.views.scene.look import DARK, LIGHT, Theme
from dynagate.views.scene.pixels import FAR, Layers, cell_of, layers, shadow_corners
from dynagate.views.scene.raster import covered, to_pixels
from dynagate.views.scene.scene import Scene
from dynagate.views.scene.solids import Color

NAMESPACE = "http://www.w3.org/2000/svg"
UNITS = 10
"""Units of the file's coordinates in a pixel, so that they are short whole numbers."""
TONES = (0.62, 0.76, 0.88, 0.98)
"""Diffuse light above which a part of a body has the next brighter tone."""
LIGHTS = (0.54, 0.69, 0.83, 0.95, 1.05)
"""Light of each tone."""
FEW_TONES, FEW_LIGHTS = (0.66, 0.9), (0.58, 0.79, 1.0)
"""The same for motions, whose files would be large."""
GLINT = 0.1
"""Reflection above which a part of a body is white."""
TOLERANCE, COARSE = 0.45, 0.8
"""How far a region's border may be from the pixels', in pixels, in a still picture and in a motion."""


def svg(scene: Scene, width: int, height: int, theme: str = "auto") -> str:
    """Return an SVG, which moves if the scene does. theme: "light", "dark", or "auto" as the reader's browser has."""
    box = {"viewBox": f"0 0 {UNITS * width} {UNITS * height}", "width": str(width), "height": str(height)}
    root = ElementTree.Element("svg", {"xmlns": NAMESPACE, **box, "role": "img"})
    ElementTree.SubElement(root, "title").text = scene.title
    frames = range(scene.frames if scene.moves else 1)
    fine, tones, lights = (1, FEW_TONES, FEW_LIGHTS) if len(frames) > 1 else (2, TONES, LIGHTS)
    ElementTree.SubElement(root, "style").text = _style(theme, len(frames), scene.dt)
    _fade(root, scene, width, height)
    size = {"width": str(UNITS * width), "height": str(UNITS * height)}
    ElementTree.SubElement(root, "rect", {"class": "p", **size})
    ElementTree.SubElement(root, "rect", {"class": "g", "mask": "url(#f)", **size})
    still = bool(np.ptp(scene.camera.target, axis=0).max() < 1e-9)
    if still:
        _lines(root, scene, 0, width, height)
    for k in frames:
        group = ElementTree.SubElement(root, "g", _timing(k, len(frames), scene.dt))
        if not still:
            _lines(group, scene, k, width, height)
        _shadow(group, scene, k, width, height)
        _bodies(group, scene, layers(scene, k, fine * width, fine * height), fine, tones, lights)
    return ElementTree.tostring(root, encoding="unicode")


def _hex(color: Color | Floats) -> str:
    return "#" + "".join(f"{round(min(max(float(x), 0.0), 255.0)):02x}" for x in color)


def _rules(theme: Theme) -> str:
    """Return the CSS rules of a theme's colors."""
    return (
        f".p{{fill:{_hex(theme.paper)}}}.g{{fill:{_hex(theme.ground)}}}.l{{stroke:{_hex(theme.lines)}}}"
        f".s{{fill:{_hex(theme.shadow)};opacity:.75}}.b{{stroke:{_hex(theme.ink)}}}"
    )


def _style(theme: str, frames: int, dt: float) -> str:
    """Return the style sheet of a picture: colors and the timing of frames."""
    rules = _rules(DARK if theme == "dark" else LIGHT)
    if theme == "auto":
        rules += f"@media (prefers-color-scheme:dark){{{_rules(DARK)}}}"
    rules += (
        f".l{{stroke-width:{UNITS};fill:none}}.b{{stroke-width:{UNITS};stroke-linejoin:round}}path{{fill-rule:evenodd}}"
    )
    if frames > 1:
        # a frame is visible during the first 1/frames of its own cycle, which begins with a delay
        part = 100.0 / frames
        rules += (
            f".m{{visibility:hidden;animation:m {frames * dt:.6g}s step-end infinite}}"
            f"@keyframes m{{0%{{visibility:visible}}{part:.6g}%{{visibility:hidden}}}}"
        )
    return rules


def _timing(k: int, frames: int, dt: float) -> dict[str, str]:
    """Return the attributes of a frame's group. A frame begins in the past, so that each is shown once in a cycle."""
    return {"class": "m", "style": f"animation-delay:{(k - frames) * dt:.6g}s"} if frames > 1 else {}


def _fade(root: ElementTree.Element, scene: Scene, width: int, height: int) -> None:
    """Add the mask with which the ground fades towards the horizon."""
    camera = scene.camera
    half = camera.distance * math.tan(FIELD / 2.0)
    centre = np.array([*camera.target[0][:2], scene.ground])
    across = centre + FAR * half * camera.rotation[0]
    back = np.array([*camera.rotation[2][:2], 0.0])
    back /= np.linalg.norm(back)
    points = np.stack([centre, across, centre - FAR * half * back])
    (x, y), (right, _), (_, top) = UNITS * to_pixels(camera, 0, points, width, height)[0]
    definitions = ElementTree.SubElement(root, "defs")
    shape = {"cx": "0", "cy": "0", "r": "1", "gradientUnits": "userSpaceOnUse"}
    turn = {"gradientTransform": f"translate({x:.0f} {y:.0f}) scale({right - x:.0f} {y - top:.0f})"}
    gradient = ElementTree.SubElement(definitions, "radialGradient", {"id": "r", **shape, **turn})
    for offset in (0.0, 0.25, 0.5, 0.75, 1.0):
        stop = {"offset": f"{offset:g}", "stop-color": "#fff", "stop-opacity": f"{(1.0 - offset) ** 1.5:.3g}"}
        ElementTree.SubElement(gradient, "stop", stop)
    mask = ElementTree.SubElement(definitions, "mask", {"id": "f"})
    size = {"width": str(UNITS * width), "height": str(UNITS * height)}
    ElementTree.SubElement(mask, "rect", {"fill": "url(#r)", **size})


def _lines(parent: ElementTree.Element, scene: Scene, frame: int, width: int, height: int) -> None:
    """Add the lines of the ground."""
    camera = scene.camera
    half = camera.distance * math.tan(FIELD / 2.0)
    cell, reach = cell_of(half), FAR * half
    centre = camera.target[frame][:2]
    # no line passes behind the camera, where it has no picture
    most = min(reach, 0.9 * camera.distance * float(np.hypot(*camera.rotation[2][:2])))
    pieces = []
    for axis in range(2):
        for k in range(math.ceil((centre[axis] - reach) / cell), math.floor((centre[axis] + reach) / cell) + 1):
            off = k * cell - centre[axis]
            along = math.sqrt(max(reach**2 - off**2, 0.0))
            ends = np.zeros((2, 3))
            ends[:, axis], ends[:, 1 - axis], ends[:, 2] = k * cell, centre[1 - axis], scene.ground
            ends[:, 1 - axis] += [-min(along, most), min(along, most)]
            flat, depth = to_pixels(camera, frame, ends, width, height)
            if depth.min() > 0.05 * camera.distance:
                (x, y), (to_x, to_y) = np.round(UNITS * flat).astype(int)
                pieces.append(f"M{x} {y}L{to_x} {to_y}")
    ElementTree.SubElement(parent, "path", {"class": "l", "mask": "url(#f)", "d": "".join(pieces)})


def _shadow(parent: ElementTree.Element, scene: Scene, frame: int, width: int, height: int) -> None:
    flat, _ = to_pixels(scene.camera, frame, shadow_corners(scene, frame), width, height)
    if loops := contours(covered(flat, width, height), COARSE):
        ElementTree.SubElement(parent, "path", {"class": "s", "d": _path(loops, 1, 0, 0)})


def _bodies(
    parent: ElementTree.Element,
    scene: Scene,
    own: Layers,
    fine: int,
    tones: tuple[float, ...],
    lights: tuple[float, ...],
) -> None:
    """Add a region for each visible part of a body with one color, and in it those of brighter tones.

    fine: Pixels of `own` in a pixel of the picture. tones, lights: as `TONES` and `LIGHTS`.
    """
    colors = scene.solid.colors[own.seen.triangle]
    tone = np.searchsorted(np.array(tones), own.diffuse)
    tone = np.where(own.shine > GLINT, len(lights), tone)
    code = (own.body << 24) | (colors @ np.array([65536, 256, 1]))
    order = np.argsort(code, kind="stable")
    row, column = np.divmod(own.seen.pixel, own.width)
    parts = np.split(order, np.flatnonzero(np.diff(code[order])) + 1) if len(order) else []
    for part in parts:
        color = colors[part[0]].astype(np.float64)
        y, x, its_tone = row[part], column[part], tone[part]
        top, left = int(y.min()), int(x.min())
        bright = np.full((int(y.max()) - top + 1, int(x.max()) - left + 1), -1)
        bright[y - top, x - left] = its_tone
        for i, level in enumerate(np.unique(its_tone)):
            loops = contours(bright >= level, fine * TOLERANCE if fine > 1 else COARSE)
            if not loops:
                continue
            light = color + 60.0 if level == len(lights) else lights[int(level)] * color
            attributes = {} if i else {"class": "b"}
            path = _path(loops, fine, own.left + left, own.top + top)
            ElementTree.SubElement(parent, "path", {**attributes, "fill": _hex(light), "d": path})


def _path(loops: list[Floats], fine: int, left: int, top: int) -> str:
    """Return loops as the data of a path. fine: Pixels of the loops in a pixel of the picture."""
    pieces = []
    for loop in loops:
        points = np.round((loop + np.array([left, top])) * (UNITS / fine)).astype(int)
        steps = np.diff(points, axis=0)
        steps = steps[(steps != 0).any(axis=1)]
        listed = " ".join(f"{x} {y}" for x, y in steps).replace(" -", "-")
        pieces.append(f"M{points[0, 0]} {points[0, 1]}l{listed}z")
    return "".join(pieces)
