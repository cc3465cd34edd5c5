"""Solids as triangles with normals: boxes, cylinders, cones, rounded hulls, and surfaces from mesh files."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Floats

Bytes = npt.NDArray[np.uint8]
Color = tuple[int, int, int]

AROUND = 32
"""Number of flat faces around a cylinder."""
RINGS = 16
"""Number of rings of a sphere from pole to pole. It is even, so that a sphere stretched to a capsule has straight
sides."""
CREASE = 0.75
"""Cosine of the angle between two faces of a mesh up to which their common edge is drawn smooth."""


@dataclass(frozen=True)
class Solid:
    """Triangles of one surface.

    Attributes:
        corners: Corners of the triangles, (n, 3 corners, 3), m, counter-clockwise as seen from outside.
        normals: Unit normals at the corners, (n, 3 corners, 3).
        colors: Red, green and blue of each triangle, (n, 3), 0 to 255.
        closed: Whether only the outside can be seen, so that triangles that face away may be left out.
    """

    corners: Floats
    normals: Floats
    colors: Bytes
    closed: bool = True

    def placed(self, rotation: Floats, translation: Floats) -> Solid:
        """Return the solid after a rotation (3, 3) and a translation (3,) in m."""
        return replace(self, corners=self.corners @ rotation.T + translation, normals=self.normals @ rotation.T)

    def reduced(self, most: int) -> Solid:
        """Return a solid of at most about this many triangles. Corners that are close to each other are joined."""
        if len(self.corners) <= most:
            return self
        low = self.corners.min(axis=(0, 1))
        extent = float(np.ptp(self.corners.reshape(-1, 3), axis=0).max()) or 1.0
        reduced, cells = self, int(np.sqrt(most))
        while len(reduced.corners) > most and cells > 2:
            reduced = self._clustered(low, extent / cells)
            cells = int(cells * 0.85)
        return _smoothed(reduced.corners, reduced.colors)

    def _clustered(self, low: Floats, cell: float) -> Solid:
        """Return the solid with corners merged that lie in the same cell of a grid."""
        keys = np.floor((self.corners - low) / cell).astype(np.int64)
        _, owner = np.unique(keys.reshape(-1, 3), axis=0, return_inverse=True)
        owner = owner.reshape(-1)
        counts = np.bincount(owner)
        means = np.stack([np.bincount(owner, self.corners.reshape(-1, 3)[:, i]) / counts for i in range(3)], axis=1)
        triangles = owner.reshape(-1, 3)
        a, b, c = triangles.T
        kept = (a != b) & (b != c) & (a != c)
        _, first = np.unique(np.sort(triangles[kept], axis=1), axis=0, return_index=True)
        chosen = np.flatnonzero(kept)[np.sort(first)]
        return replace(self, corners=means[triangles[chosen]], normals=self.normals[chosen], colors=self.colors[chosen])


def _colored(corners: Floats, normals: Floats, color: Color) -> Solid:
    used = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) > 1e-14
    return Solid(corners[used], normals[used], np.tile(np.array(color, np.uint8), (int(used.sum()), 1)))


def _quads(points: Floats, normals: Floats, color: Color) -> Solid:
    """Return the surface on a grid of points (rows, columns, 3), whose rows are closed."""
    following = np.roll(np.arange(points.shape[1]), -1)

    def triangles(values: Floats) -> Floats:
        a, b = values[:-1], values[:-1][:, following]
        c, d = values[1:][:, following], values[1:]
        return np.concatenate([np.stack([a, b, c], axis=2), np.stack([a, c, d], axis=2)]).reshape(-1, 3, 3)

    return _colored(triangles(points), triangles(normals), color)


def box(size: tuple[float, float, float] | Floats, color: Color) -> Solid:
    """Return a box around the origin. size: its three edges in m."""
    half = 0.5 * np.asarray(size, np.float64)
    corners, normals = [], []
    for axis in range(3):
        u, v = np.eye(3)[(axis + 1) % 3], np.eye(3)[(axis + 2) % 3]
        for side in (1.0, -1.0):
            n = side * np.eye(3)[axis]
            square = [n - u - v, n + u - v, n + u + v, n - u + v][:: int(side)]
            corners += [[square[0], square[1], square[2]], [square[0], square[2], square[3]]]
            normals += [[n] * 3] * 2
    return _colored(np.array(corners) * half, np.array(normals), color)


def cylinder(radius: float, length: float, color: Color) -> Solid:
    """Return a cylinder around the origin along z, with edges that are rounded a little. radius, length: m."""
    bevel = min(0.12 * radius, 0.2 * length)
    across = np.array([0.0, radius - bevel, radius, radius, radius - bevel, 0.0])
    along = np.array([0.5 * length, 0.5 * length, 0.5 * length - bevel, bevel - 0.5 * length, *[-0.5 * length] * 2])
    return _turned(across, along, color)


def cone(radius: float, length: float, color: Color) -> Solid:
    """Return a cone along z with its base at the origin. radius, length: m."""
    return _turned(np.array([0.0, radius, radius, 0.0]), np.array([length, 0.0, 0.0, 0.0]), color)


def _turned(across: Floats, along: Floats, color: Color) -> Solid:
    """Return the surface that a profile from the upper to the lower end makes when it rotates about z."""
    angle = 2.0 * np.pi * np.arange(AROUND) / AROUND
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros(AROUND)], axis=1)
    parts = []
    for k in range(len(across) - 1):
        run, fall = across[k + 1] - across[k], along[k] - along[k + 1]
        length = float(np.hypot(run, fall))
        if length <= 0.0:
            continue
        normal = (fall * circle + run * np.array([0.0, 0.0, 1.0])) / length
        points = np.stack([across[i] * circle + [0.0, 0.0, along[i]] for i in (k + 1, k)])
        parts.append(_quads(points, np.stack([normal, normal]), color))
    return joined(parts)


def rounded_hull(points: Floats, radius: float, color: Color) -> Solid:
    """Return the convex hull of balls: a sphere for one point, a capsule for two. points: (n, 3), m. radius: m."""
    points = np.atleast_2d(points)
    centered = points - points.mean(axis=0)
    pole = np.linalg.svd(centered, full_matrices=True)[2][0] if len(points) > 1 else np.array([0.0, 0.0, 1.0])
    turn = frame_along(pole)
    polar = np.pi * np.arange(RINGS + 1) / RINGS
    polar[RINGS // 2] -= 1e-3  # the equator has two rings, which become the two ends of a capsule
    polar = np.insert(polar, RINGS // 2 + 1, np.pi / 2 + 1e-3)
    angle = 2.0 * np.pi * np.arange(AROUND) / AROUND
    directions = np.stack(
        [
            np.sin(polar)[:, None] * np.cos(angle),
            np.sin(polar)[:, None] * np.sin(angle),
            np.repeat(np.cos(polar)[:, None], AROUND, axis=1),
        ],
        axis=2,
    )[::-1]
    directions = directions @ turn.T
    furthest = (directions @ points.T).argmax(axis=2)
    return _quads(points[furthest] + radius * directions, directions, color)


def frame_along(axis: Floats) -> Floats:
    """Return a rotation (3, 3) that takes z to an axis (3,)."""
    z = np.asarray(axis, np.float64) / np.linalg.norm(axis)
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


def surface(vertices: Floats, faces: npt.NDArray[np.int64], colors: Bytes) -> Solid:
    """Return the surface of a mesh. Edges between faces that meet at less than about 40 degrees are smooth.

    Args:
        vertices: (n, 3), m.
        faces: Indices of vertices, (m, 3).
        colors: Red, green and blue of each face, (m, 3).
    """
    return _smoothed(vertices[faces], colors)


def _smoothed(corners: Floats, colors: Bytes) -> Solid:
    """Return a surface of triangles (n, 3, 3) with normals that are smooth over edges that are nearly flat."""
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(cross, axis=1)
    used = area > 0.0
    corners, cross, area, colors = corners[used], cross[used], area[used], colors[used]
    flat = cross / area[:, None]
    extent = float(np.ptp(corners.reshape(-1, 3), axis=0).max(initial=0.0)) or 1.0
    _, place = np.unique(np.round(corners.reshape(-1, 3) / (1e-6 * extent)), axis=0, return_inverse=True)
    normals = _smooth(place.reshape(-1), flat, cross)
    return Solid(corners, normals.reshape(-1, 3, 3), colors, closed=False)


def _smooth(place: npt.NDArray[np.int64], flat: Floats, weighted: Floats) -> Floats:
    """Return a normal for each corner: the mean over the faces at its place that are nearly parallel to its own face.

    place: Number of the vertex at each corner, (3 m,). flat, weighted: unit and area-weighted normals of faces, (m, 3).
    """
    order = np.argsort(place, kind="stable")
    counts = np.bincount(place)
    start = np.cumsum(counts) - counts
    normals = np.zeros((len(place), 3))
    sizes = np.minimum(counts[place], 32)
    for step in range(int(sizes.max(initial=0))):
        corner = np.flatnonzero(sizes > step)
        other = order[start[place[corner]] + step] // 3
        near = (flat[corner // 3] * flat[other]).sum(axis=1) > CREASE
        normals[corner[near]] += weighted[other[near]]
    length = np.linalg.norm(normals, axis=1)
    own = np.repeat(flat, 3, axis=0)
    return np.where(length[:, None] > 0.0, normals / np.maximum(length, 1e-300)[:, None], own)


def joined(solids: list[Solid]) -> Solid:
    """Return several solids as one."""
    return Solid(
        np.concatenate([solid.corners for solid in solids]),
        np.concatenate([solid.normals for solid in solids]),
        np.concatenate([solid.colors for solid in solids]),
        all(solid.closed for solid in solids),
    )
