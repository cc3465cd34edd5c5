"""The camera: it looks at the robot from the side and above, keeps all of it in the picture and follows it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dynagate.base.arrays import Floats

AZIMUTH, ELEVATION = math.radians(-55.0), math.radians(16.0)
"""Direction to the camera: the angle about z from x, and the angle above the ground."""
FIELD = math.radians(28.0)
"""Vertical field of view."""
FILLED = 0.86
"""Part of the picture's width or height that the robot fills."""
FOLLOWED = 1.6
"""The camera follows a robot that travels further than this, in multiples of its extent in one frame."""
ASPECT = 4.0 / 3.0
"""Width of a picture over its height."""


@dataclass(frozen=True)
class Camera:
    """A camera with a fixed direction.

    Attributes:
        rotation: Rows are the directions to the right, up and towards the camera, (3, 3).
        target: The point in the middle of the picture in each frame, (frames, 3), m.
        distance: From the target to the camera, m.
    """

    rotation: Floats
    target: Floats
    distance: float

    def eye(self, frame: int) -> Floats:
        """Return the position of the camera, (3,), m."""
        return np.asarray(self.target[frame] + self.distance * self.rotation[2])

    def seen(self, points: Floats, frame: int) -> tuple[Floats, Floats]:
        """Project points (..., 3), m, into a frame's picture.

        Returns:
            Positions (..., 2) to the right and up from the middle, in half heights of the picture, and depths (...) in
            m.
        """
        local = (points - self.eye(frame)) @ self.rotation.T
        depth = -local[..., 2]
        scale = 1.0 / (math.tan(FIELD / 2.0) * np.maximum(depth, 1e-9))
        return local[..., :2] * scale[..., None], depth


def rotation_from(azimuth: float, elevation: float) -> Floats:
    """Return rows to the right, up and towards a camera in this direction, (3, 3). Angles in rad."""
    back = [math.cos(azimuth) * math.cos(elevation), math.sin(azimuth) * math.cos(elevation), math.sin(elevation)]
    right = [-math.sin(azimuth), math.cos(azimuth), 0.0]
    return np.array([right, np.cross(back, right), back])


def framed(points: Floats) -> Camera:
    """Return the camera that keeps points (frames, points, 3), m, in the picture."""
    rotation = rotation_from(AZIMUTH, ELEVATION)
    low, high = points.min(axis=1), points.max(axis=1)
    centers = 0.5 * (low + high)
    own = float((high - low).max()) or 1.0
    travel = float(np.ptp(centers, axis=0).max())
    if travel > FOLLOWED * own:
        path = _smoothed(centers)
        path[:, 2] = centers[:, 2].mean() if float(np.ptp(centers[:, 2])) < own else path[:, 2]
    else:
        path = np.tile(0.5 * (low.min(axis=0) + high.max(axis=0)), (len(points), 1))
    camera = Camera(rotation, path, 4.0 * own)
    for _ in range(8):
        low, high = _bounds(camera, points)
        middle = 0.5 * (low + high)
        shift = middle * camera.distance * math.tan(FIELD / 2.0)
        extent = max(float((high[0] - low[0]) / ASPECT), float(high[1] - low[1])) / 2.0
        camera = Camera(rotation, camera.target + shift @ rotation[:2], camera.distance * max(extent / FILLED, 0.05))
    return camera


def _bounds(camera: Camera, points: Floats) -> tuple[Floats, Floats]:
    flat = np.stack([camera.seen(own, k)[0] for k, own in enumerate(points)]).reshape(-1, 2)
    return flat.min(axis=0), flat.max(axis=0)


def _smoothed(path: Floats) -> Floats:
    """Return a path (frames, 3) without its fast parts: the mean over a quarter of the frames around each."""
    reach = max(1, len(path) // 8)
    padded = np.concatenate([np.repeat(path[:1], reach, axis=0), path, np.repeat(path[-1:], reach, axis=0)])
    total = np.cumsum(np.concatenate([np.zeros((1, 3)), padded]), axis=0)
    width = 2 * reach + 1
    return (total[width:] - total[:-width]) / width
