"""Directions that each kind of constraint fixes for a frame, a row for each direction.

A row fixes T · angular + P · linear velocity of the frame, minus those of the other frame for a loop, with T and P
(rows, 3). For a point and a fixed frame these are unit vectors. A plane has its normal, in base axes. A hinge has the x
and y axes of the frame, which is free about z. A distance has the vector from the other frame to the frame, divided by
its length. If T and P rotate, the derivative of a row has a term of velocities in addition to the acceleration.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynagate.dynamics.spatial import Array, Scalar, array, cross, zeros

NOTHING, UNIT = np.zeros((3, 3)), np.eye(3)


class Ends(NamedTuple):
    """The frames of a constraint in one set of axes. turn (3, 3), at (3,): the frame's pose; to_turn, to_at: that of
    the other one of a loop. up (3,): normal of a plane."""

    turn: Array
    at: Array
    to_turn: Array
    to_at: Array
    up: Array


class Directions(NamedTuple):
    """T and P (rows, 3)."""

    turning: Array
    moving: Array

    def of(self, turning: Array, moving: Array) -> Array:
        """The rows (rows, ...) of two vectors (3, ...)."""
        rows: Array = self.turning @ turning + self.moving @ moving
        return rows

    def push(self, force: Array) -> tuple[Array, Array]:
        """Moment and force (3,) that numbers of the rows are."""
        return self.turning.T @ force, self.moving.T @ force


def threes(kind: str) -> list[slice]:
    """The rows of a kind that are vectors in the axes of all."""
    starts = {"point": (0,), "fixed": (0, 3), "hinge": (2,)}.get(kind, ())
    return [slice(k, k + 3) for k in starts]


def directions(kind: str, ends: Ends, length: float) -> Directions:
    """T and P of a kind. length: of a distance, m."""
    if kind == "point":
        return Directions(array(NOTHING), array(UNIT))
    if kind == "fixed":
        return Directions(array(np.vstack([UNIT, NOTHING])), array(np.vstack([NOTHING, UNIT])))
    if kind == "plane":
        return Directions(zeros(1, 3), ends.up.reshape(1, 3))
    if kind == "hinge":
        turning = np.concatenate([ends.turn.T[:2], array(NOTHING)])
        return Directions(turning, np.concatenate([zeros(2, 3), array(UNIT)]))
    return Directions(zeros(1, 3), ((ends.at - ends.to_at) * (1.0 / length)).reshape(1, 3))


def turned(kind: str, ends: Ends, length: float, spin: Array, relative: tuple[Array, Array]) -> Array:
    """Ṫ · turning + Ṗ · moving (rows,). spin (3,): of the frame; relative: how it turns and moves relative to the
    other.
    """
    turning, moving = relative
    if kind == "hinge":
        rates: list[Scalar] = [cross(spin, ends.turn[:, k]) @ turning for k in range(2)]
        return array([*rates, 0.0, 0.0, 0.0])
    if kind == "distance":
        return array([(moving @ moving) * (1.0 / length)])
    return zeros({"point": 3, "fixed": 6}.get(kind, 1))


def opening(kind: str, ends: Ends, length: float) -> Array:
    """How far a loop is open (rows,): the distance of its frames, and ½ Σ b × a over the axes that it holds together,
    which is the angle between them to third order; of a distance, by how much it is too long."""
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
    """Whether T and P of a kind do not turn."""
    return kind in ("point", "fixed", "plane")
