"""Surfaces that points may touch, besides planes: the signed distance to each, and its normal, over any scalar.

A surface has `gap(place, radius)`: how far a ball of this radius is from it, negative inside, and the unit normal
towards the ball. Special places have one of the neighbouring normals: the upward direction at the center of a sphere,
the first of several faces that are equally near inside a box, and the cell of the lower index on a line of a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dynagate.base.arguments import ABOVE_ZERO, FINITE, numbers, real
from dynagate.base.explained import explained
from dynagate.dynamics.spatial import Array, Scalar, array, is_zero, select, sqrt, zeros
from dynagate.forces.checks import check_numbers
from dynagate.forces.contact import ContactError
from dynagate.robot.vectors import Vector3, vector3

MOST_HEIGHTS = 4096
"""Largest number of heights of a field: each is an operation of every point in every step."""

ORTHOGONAL = 1e-6
"""Largest entry of RᵀR - 1 of a rotation R."""

UPWARD = (0.0, 0.0, 1.0)

AS_THEY_ARE = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
"""The rotation of a body along the base axes."""


class Surface(Protocol):
    """A surface that points may touch."""

    def gap(self, place: Array, radius: float = 0.0) -> tuple[Scalar, Array]:
        """Return the signed distance of a ball in m, and the unit normal (3,) towards it. place: its center (3,), m."""


def length_and_direction(vector: Array) -> tuple[Scalar, Array]:
    """Return the length of a vector (3,) and the unit vector along it, upwards for a length of 0."""
    square = vector @ vector
    length = sqrt(select(square, square, 1.0))  # not of 0, where its slope is infinite
    unit = [select(square, x * (1.0 / length), up) for x, up in zip(vector, UPWARD, strict=True)]
    return select(square, length, 0.0), array(unit)


@explained
@dataclass(frozen=True)
class GroundSphere:
    """A ball that stays where it is.

    Args:
        center: Its center (3,) in base axes, m.
        radius: Its radius, m.

    Raises:
        ContactError: A number is not finite, or the radius is not above 0.
    """

    center: Vector3
    radius: float

    def __post_init__(self) -> None:
        center = numbers("sphere has center ", self.center, (3,), FINITE, ContactError)
        object.__setattr__(self, "center", vector3(center))
        check_numbers(self, "sphere", ContactError, radius=ABOVE_ZERO)

    def gap(self, place: Array, radius: float = 0.0) -> tuple[Scalar, Array]:
        """Return the signed distance of a ball in m, and the unit normal (3,) towards it."""
        distance, normal = length_and_direction(place - array(list(self.center)))
        return distance - (self.radius + radius), normal


@explained
@dataclass(frozen=True)
class GroundBox:
    """A box that stays where it is, such as a step.

    Args:
        size: Lengths (3,) of its edges, m.
        center: Its center (3,) in base axes, m.
        rotation: Rotation matrix (3, 3) from its axes to the base's.

    Raises:
        ContactError: A number is not finite, a length is not above 0, or the matrix is no rotation.
    """

    size: Vector3
    center: Vector3 = (0.0, 0.0, 0.0)
    rotation: Sequence[Sequence[float]] = AS_THEY_ARE

    def __post_init__(self) -> None:
        size = numbers("box has size ", self.size, (3,), ABOVE_ZERO, ContactError)
        center = numbers("box has center ", self.center, (3,), FINITE, ContactError)
        turn = numbers("box has rotation ", self.rotation, (3, 3), FINITE, ContactError)
        if np.abs(turn.T @ turn - np.eye(3)).max() > ORTHOGONAL or np.linalg.det(turn) < 0.0:
            raise ContactError(
                f"box has rotation {turn.tolist()}; expected a rotation matrix (3, 3)", code="DG-FORCE-009"
            )
        object.__setattr__(self, "size", vector3(size))
        object.__setattr__(self, "center", vector3(center))
        object.__setattr__(self, "rotation", tuple(tuple(row) for row in turn.tolist()))

    def gap(self, place: Array, radius: float = 0.0) -> tuple[Scalar, Array]:
        """Return the signed distance of a ball in m, and the unit normal (3,) towards it."""
        turn = array(np.array(self.rotation))
        local = turn.T @ (place - array(list(self.center)))
        sides = [select(x, 1.0, -1.0) for x in local]
        beyond = [x * side - 0.5 * length for x, side, length in zip(local, sides, self.size, strict=True)]
        outside = array([select(over, over * side, 0.0) for over, side in zip(beyond, sides, strict=True)])
        distance, away = length_and_direction(outside)
        deepest, face = beyond[0], array([sides[0], 0.0, 0.0])
        for k in (1, 2):
            nearer = beyond[k] - deepest
            own = zeros(3)
            own[k] = sides[k]
            face = array([select(nearer, a, b) for a, b in zip(own, face, strict=True)])
            deepest = select(nearer, beyond[k], deepest)
        normal = turn @ array([select(deepest, a, b) for a, b in zip(away, face, strict=True)])
        return select(deepest, distance, deepest) - radius, normal


@explained
@dataclass(frozen=True)
class HeightField:
    """A grid of heights with bilinear patches between them.

    The distance is that from the plane which touches the surface above or below the point. Outside the grid, the ground
    continues level across its border. On a line of the grid, the slope is that of the cell with the lower index.

    Args:
        heights: Heights (rows, columns), m: rows along x, columns along y, evenly spaced.
        size: Lengths (2,) of the grid along x and y, m.
        center: Place (2,) of its middle, m.

    Raises:
        ContactError: There are fewer than two rows or columns or too many heights, a height is not finite, or a length
            is not above 0.
        ArgumentTypeError: The heights are no array of numbers.
    """

    heights: Sequence[Sequence[float]]
    size: tuple[float, float]
    center: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        heights = real("heights", self.heights).astype(np.float64)
        if heights.ndim != 2 or min(heights.shape) < 2:
            raise ContactError(
                f"height field has heights of shape {heights.shape}; expected two rows and two columns or more",
                code="DG-FORCE-010",
            )
        if heights.size > MOST_HEIGHTS:
            raise ContactError(
                f"height field has {heights.size} heights; expected at most {MOST_HEIGHTS}: a coarser grid, or several "
                "boxes",
                code="DG-FORCE-011",
            )
        holes = np.argwhere(~np.isfinite(heights))
        if len(holes):
            row, column = holes[0].tolist()
            raise ContactError(
                f"height field has a hole: heights[{row}, {column}] is {heights[row, column]}; expected finite heights",
                code="DG-FORCE-012",
            )
        for name, accepted in (("size", ABOVE_ZERO), ("center", FINITE)):
            pair = numbers(f"height field has {name} ", getattr(self, name), (2,), accepted, ContactError)
            object.__setattr__(self, name, tuple(pair.tolist()))
        object.__setattr__(self, "heights", tuple(tuple(row) for row in heights.tolist()))

    def gap(self, place: Array, radius: float = 0.0) -> tuple[Scalar, Array]:
        """Return the signed distance of a ball in m, and the unit normal (3,) towards it."""
        height, slopes = self.height(place)
        steepness = array([-slopes[0], -slopes[1], 1.0])
        shorter = 1.0 / sqrt(slopes @ slopes + 1.0)
        return (place[2] - height) * shorter - radius, steepness * shorter

    def height(self, place: Array) -> tuple[Scalar, Array]:
        """Return the height of the ground in m and its slopes (2,) along x and y. place: (2,) or more, m."""
        heights = array(np.array(self.heights))
        shares, rates = zip(*(self._cells(place[k], k) for k in range(2)), strict=True)
        rises = heights[1:] - heights[:-1]  # along x
        line = heights[0] + _weighted(shares[0], rises)
        tilt = _weighted(rates[0], rises)
        height = line[0] + _weighted(shares[1], line[1:] - line[:-1])
        by_x = tilt[0] + _weighted(shares[1], tilt[1:] - tilt[:-1])
        return height, array([by_x, _weighted(rates[1], line[1:] - line[:-1])])

    def _cells(self, at: Scalar, axis: int) -> tuple[list[Scalar], list[Scalar]]:
        """Return the share of each cell along an axis that lies before a place, and its derivative in 1/m."""
        count = np.array(self.heights).shape[axis] - 1
        length = self.size[axis] / count
        along = (at - (self.center[axis] - 0.5 * self.size[axis])) * (1.0 / length)
        shares, rates = [], []
        for k in range(count):
            begun, ended = along - float(k), along - float(k + 1)
            shares.append(select(begun, select(ended, 1.0, begun), 0.0))
            rates.append(select(begun, select(ended, 0.0, 1.0 / length), 0.0))
        return shares, rates


def _weighted(weights: Sequence[Scalar], rows: Array) -> Any:
    """Return the weighted sum of rows (n, ...)."""
    total = rows[0] * weights[0]
    for weight, row in zip(weights[1:], rows[1:], strict=True):
        if np.ndim(row) or not is_zero(row):
            total = total + row * weight
    return total
