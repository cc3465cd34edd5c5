"""Frames of a scene as pixels: shaded bodies with outlines on a ground with their shadow."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Floats
from dynagate.views.scene.camera import FIELD
from dynagate.views.scene.look import LIGHT, Theme, brightness, key_light
from dynagate.views.scene.raster import Seen, covered, seen, to_pixels
from dynagate.views.scene.scene import Scene

Bytes = npt.NDArray[np.uint8]
Pixels = npt.NDArray[np.float32]

FINE = 2
"""Pixels are computed at this many times the width and height, which smooths edges."""
FAR = 3.4
"""Radius of the visible ground, in multiples of the distance that the picture shows."""
SOFT = 2
"""Reach of the blur of shadows, as a percentage of the picture's height."""


class Layers(NamedTuple):
    """The visible surfaces of the bodies in a part of the picture.

    seen: The pixels of that part. left, top, width, height: The part, in pixels. body, diffuse, shine, edge: The body
    and the lights of each pixel, and whether it belongs to an outline.
    """

    seen: Seen
    left: int
    top: int
    width: int
    height: int
    body: npt.NDArray[np.int64]
    diffuse: Floats
    shine: Floats
    edge: npt.NDArray[np.bool_]


def layers(scene: Scene, frame: int, width: int, height: int, *, thick: int = 1) -> Layers:
    """Return what is seen of the bodies in a frame. thick: width of outlines in pixels."""
    corners, normals = scene.placed(frame)
    flat, depth = to_pixels(scene.camera, frame, corners, width, height)
    limits = np.array([width, height])
    low = np.clip(flat.min(axis=(0, 1)) // FINE * FINE, 0, limits - FINE).astype(int)
    high = np.clip(-(-flat.max(axis=(0, 1)) // FINE) * FINE, low + FINE, limits).astype(int)
    wide, tall = (int(x) for x in high - low)
    pixels = seen(flat - low, depth, wide, tall, one_sided=np.full(len(flat), scene.solid.closed))
    normal = np.einsum("nk,nki->ni", pixels.weights, normals[pixels.triangle])
    normal /= np.maximum(np.sqrt(np.einsum("ni,ni->n", normal, normal)), 1e-300)[:, None]
    rotation = scene.camera.rotation
    diffuse, shine = brightness(normal, rotation[2], key_light(rotation))
    body = scene.body[pixels.triangle]
    edge = _edges(pixels, body, wide, tall, 0.04 * scene.size, thick)
    return Layers(pixels, int(low[0]), int(low[1]), wide, tall, body, diffuse, shine, edge)


def _edges(
    pixels: Seen, body: npt.NDArray[np.int64], width: int, height: int, jump: float, thick: int
) -> npt.NDArray[np.bool_]:
    """Return the pixels (n,) at the border of a body, on the side that is nearer to the camera. jump: difference of
    depths in m that is a border, too."""
    number = np.zeros((height, width), np.int32)
    depth = np.full((height, width), 1e30, np.float32)
    number.flat[pixels.pixel], depth.flat[pixels.pixel] = body + 1, pixels.depth
    edge = np.zeros((height, width), bool)
    for one, other in (
        ((slice(None, -1), slice(None)), (slice(1, None), slice(None))),
        ((slice(None), slice(None, -1)), (slice(None), slice(1, None))),
    ):
        differs = (number[one] != number[other]) | (np.abs(depth[one] - depth[other]) > jump)
        nearer = depth[one] < depth[other]
        edge[one] |= differs & nearer
        edge[other] |= differs & ~nearer
    for _ in range(thick - 1):
        wide = edge.copy()
        wide[1:] |= edge[:-1]
        wide[:, 1:] |= edge[:, :-1]
        edge = wide
    return np.asarray(edge.flat[pixels.pixel])


def picture(scene: Scene, frame: int, width: int, height: int, theme: Theme = LIGHT) -> Bytes:
    """Return a frame as pixels (height, width, 3)."""
    image = ground(scene, frame, width, height, theme)
    own = layers(scene, frame, FINE * width, FINE * height, thick=FINE)
    color = scene.solid.colors[own.seen.triangle] * own.diffuse[:, None] + 255.0 * own.shine[:, None]
    color = np.where(own.edge[:, None], 0.75 * np.array(theme.ink) + 0.1 * color, np.minimum(color, 255.0))
    fine = np.zeros((own.height * own.width, 4), np.float32)
    fine[own.seen.pixel, :3] = color
    fine[own.seen.pixel, 3] = 1.0
    grid = fine.reshape(own.height // FINE, FINE, own.width // FINE, FINE, 4)
    coarse = sum(grid[:, i, :, j] for i in range(FINE) for j in range(FINE)) / np.float32(FINE * FINE)
    left, top = own.left // FINE, own.top // FINE
    part = image[top : top + own.height // FINE, left : left + own.width // FINE]
    part *= 1.0 - coarse[..., 3:]
    part += coarse[..., :3]
    return np.clip(np.round(image), 0, 255).astype(np.uint8)


def ground(scene: Scene, frame: int, width: int, height: int, theme: Theme) -> Pixels:
    """Return the ground with its lines and the robot's shadow, (height, width, 3)."""
    camera = scene.camera
    place = tuple(float(x) for x in camera.target[frame])
    bare, strength = _floor(camera.rotation.tobytes(), place, camera.distance, scene.ground, (width, height), theme)
    shade = shadow(scene, frame, width, height)
    shade *= strength
    return np.asarray(bare + shade[..., None] * (np.array(theme.shadow, np.float32) - bare))


@lru_cache(maxsize=4)
def _floor(
    rotation: bytes,
    target: tuple[float, ...],
    distance: float,
    level: float,
    size: tuple[int, int],
    theme: Theme,
) -> tuple[Pixels, Pixels]:
    """Return the ground without shadows (height, width, 3), and how strong shadows are on it (height, width)."""
    width, height = size
    right, above, back = np.frombuffer(rotation).reshape(3, 3)
    tangent = math.tan(FIELD / 2.0)
    across = (np.arange(width) + 0.5 - 0.5 * width) / (0.5 * height) * tangent
    up = (0.5 * height - np.arange(height) - 0.5) / (0.5 * height) * tangent
    fall = (up * above[2] - back[2])[:, None] + across * right[2]
    below = np.where(fall < -1e-6, fall, -1e-6)
    away = (level - target[2] - distance * back[2]) / below
    ahead = fall < -1e-6
    direction = up[:, None, None] * above[:2] + across[:, None] * right[:2] - back[:2]
    place = np.array(target[:2]) + distance * back[:2] + away[:, :, None] * direction
    half = distance * tangent
    radius = np.sqrt(((place - target[:2]) ** 2).sum(axis=2)) / (FAR * half)
    strength = np.where(ahead, np.clip(1.0 - radius, 0.0, 1.0) ** 1.5, 0.0)
    cell = cell_of(half)
    blur = np.maximum(away * tangent / (0.5 * height), 1e-9) / np.sqrt(np.maximum(-below, 0.08))
    line = np.zeros((height, width))
    for axis in range(2):
        off = np.abs(place[..., axis] / cell - np.round(place[..., axis] / cell)) * cell
        line = np.maximum(line, np.clip(1.3 - off / blur, 0.0, 1.0))
    paper, floor, lines = (np.array(color, np.float64) for color in (theme.paper, theme.ground, theme.lines))
    color = paper + strength[..., None] * (floor - paper)
    color += (strength * line)[..., None] * (lines - color)
    return color.astype(np.float32), np.minimum(1.6 * strength, 1.0).astype(np.float32)


def cell_of(half: float) -> float:
    """Return the distance between lines of the ground, a round number of m, for half the visible distance in m."""
    power = 10.0 ** math.floor(math.log10(half / 2.0))
    return next(factor * power for factor in (5.0, 2.0, 1.0) if factor * power <= half / 2.0)


def shadow_corners(scene: Scene, frame: int) -> Floats:
    """Return the corners (n, 3, 3), m, of all triangles where their shadows fall on the ground."""
    corners, _ = scene.placed(frame)
    light = key_light(scene.camera.rotation)
    height = np.maximum(corners[..., 2] - scene.ground, 0.0)
    return np.asarray(corners - (height / light[2])[..., None] * light)


def shadow(scene: Scene, frame: int, width: int, height: int) -> Pixels:
    """Return how dark the shadow is in each pixel, (height, width), 0 to 1. It is computed at half the resolution."""
    wide, tall = -(-width // 2), -(-height // 2)
    flat, _ = to_pixels(scene.camera, frame, shadow_corners(scene, frame), width, height)
    dark = covered(0.5 * flat, wide, tall).astype(np.float32)
    reach = max(1, tall * SOFT // 200)
    for _ in range(2):
        dark = _blurred(_blurred(dark, reach).T, reach).T
    return np.repeat(np.repeat(dark, 2, axis=0), 2, axis=1)[:height, :width]


def _blurred(values: Pixels, reach: int) -> Pixels:
    padded = np.pad(values, ((reach + 1, reach), (0, 0)), mode="edge")
    total = padded.cumsum(axis=0)
    return np.asarray((total[2 * reach + 1 :] - total[: -2 * reach - 1]) / np.float32(2 * reach + 1))
