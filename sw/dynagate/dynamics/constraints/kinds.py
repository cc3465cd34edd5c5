"""The rows of each kind of constraint: the directions of motion that it fixes for a frame.

A row fixes T · angular + P · linear velocity of the frame, relative to the other frame for a loop, with T and P (rows,
3). A point and a fixed frame have unit vectors. A plane has its normal, in base axes. A hinge has the x and y axes of
the frame, which can rotate about z. A distance has the vector from the other frame to the frame, divided by its length.
If T and P rotate, the derivative of a row has a velocity term in addition to the acceleration.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynagate.dynamics.spatial import Array, Scalar, array, cross, zeros

ZERO, UNIT = np.zeros((3, 3)), np.eye(3)


class FramePoses(NamedTuple):
    """Poses of a constraint's two frames in common axes."""

    turn: Array
    """Rotation (3, 3) of the frame."""
    at: Array
    """Origin (3,) of the frame, m."""
    to_turn: Array
    """Rotation (3, 3) of the other frame of a loop."""
    to_at: Array
    """Origin (3,) of the other frame of a loop, m."""
    up: Array
    """Normal (3,) of a plane."""


class Directions(NamedTuple):
    """The directions that a constraint fixes."""

    turning: Array
    """T (rows, 3), for angular velocities."""
    moving: Array
    """P (rows, 3), for linear velocities."""

    def of(self, turning: Array, moving: Array) -> Array:
        """Return the rows (rows, ...) of an angular and a linear vector (3, ...)."""
        rows: Array = self.turning @ turning + self.moving @ moving
        return rows

    def push(self, force: Array) -> tuple[Array, Array]:
        """Return the moment and force (3,) on the frame for constraint forces (rows,)."""
        return self.turning.T @ force, self.moving.T @ force


def vector_rows(kind: str) -> list[slice]:
    """Return the slices of a kind's rows that are vectors in common axes."""
    starts = {"point": (0,), "fixed": (0, 3), "hinge": (2,)}.get(kind, ())
    return [slice(k, k + 3) for k in starts]


def directions(kind: str, ends: FramePoses, length: float) -> Directions:
    """Return T and P for a kind of constraint. `length` is the length of a distance constraint, m."""
    if kind == "point":
        return Directions(array(ZERO), array(UNIT))
    if kind == "fixed":
        return Directions(array(np.vstack([UNIT, ZERO])), array(np.vstack([ZERO, UNIT])))
    if kind == "plane":
        return Directions(zeros(1, 3), ends.up.reshape(1, 3))
    if kind == "hinge":
        turning = np.concatenate([ends.turn.T[:2], array(ZERO)])
        return Directions(turning, np.concatenate([zeros(2, 3), array(UNIT)]))
    return Directions(zeros(1, 3), ((ends.at - ends.to_at) * (1.0 / length)).reshape(1, 3))


def direction_rates(kind: str, ends: FramePoses, length: float, spin: Array, relative: tuple[Array, Array]) -> Array:
    """Return Ṫ · angular + Ṗ · linear velocity (rows,): the accelerations due to the rotation of the directions.

    Args:
        kind: Kind of the constraint.
        ends: Poses of its frames.
        length: Length of a distance constraint, m.
        spin: Angular velocity (3,) of the frame, rad/s.
        relative: Angular and linear velocity (3,) of the frame relative to the other frame.
    """
    turning, moving = relative
    if kind == "hinge":
        rates: list[Scalar] = [cross(spin, ends.turn[:, k]) @ turning for k in range(2)]
        return array([*rates, 0.0, 0.0, 0.0])
    if kind == "distance":
        return array([(moving @ moving) * (1.0 / length)])
    return zeros({"point": 3, "fixed": 6}.get(kind, 1))


def opening(kind: str, ends: FramePoses, length: float) -> Array:
    """Return the opening (rows,) of a loop: the distance of its frames, and their angle to third order as ½ Σ b × a.

    The sum is over the axes that the constraint keeps together. A distance constraint has the excess of its length.
    """
    apart = ends.at - ends.to_at
    if kind == "distance":
        return array([(apart @ apart) * (0.5 / length) - 0.5 * length])
    if kind == "point":
        return apart
    a, b = ends.turn.T, ends.to_turn.T
    if kind == "hinge":
        swung = cross(b[2], a[2])
        return np.concatenate([array([a[0] @ swung, a[1] @ swung]), apart])
    angle = (cross(b[0], a[0]) + cross(b[1], a[1]) + cross(b[2], a[2])) * 0.5
    return np.concatenate([angle, apart])


def is_still(kind: str) -> bool:
    """Return whether T and P of a kind of constraint have constant directions."""
    return kind in ("point", "fixed", "plane")
