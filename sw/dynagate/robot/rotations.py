"""Rotations of a file that are right angles but for its decimals: made exact, and how far that turned them.

A file writes π/2 as 1.5708. What then is 3.7e-6 instead of 0 costs products in everything that is computed of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]

NEAR = 2e-3
"""rad: what is farther from a right angle is meant so. 3.14 is 1.6e-3 short of π, 1.57 8e-4 of π/2."""

NOISE = 1e-15
"""Largest rounding error of a zero in a product of rotations."""

QUARTERS = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))
"""Cosine and sine of 0, 1, 2 and 3 right angles."""


class Rounding:
    """Turns what is within this many radians of a right angle to it.

    turned: the largest angle, in rad, by which a rotation or axis was turned. missed: by name of what has it, how far
    from a right angle a rotation is that was left as it is though it is within NEAR.
    """

    def __init__(self, within: float) -> None:
        self.within = within
        self.turned = 0.0
        self.missed: dict[str, float] = {}

    def _rounds(self, off: float, where: str) -> bool:
        """Whether what is off by this angle is to be turned; notes what is missed."""
        if off <= max(self.within, NOISE):
            return True
        if off <= NEAR:
            self.missed[where] = max(off, self.missed.get(where, 0.0))
        return False

    def cos_sin(self, angle: float, where: str) -> tuple[float, float]:
        """Exact where the angle is a multiple of a right angle or is taken for one."""
        off = math.remainder(angle, math.pi / 2)
        if self._rounds(abs(off), where):
            return QUARTERS[round((angle - off) / (math.pi / 2)) % 4]
        return math.cos(angle), math.sin(angle)

    def from_rpy(self, angles: Sequence[float], where: str) -> Matrix:
        """Roll, pitch and yaw about fixed axes."""
        rounded = _from_rpy([self.cos_sin(angle, where) for angle in angles])
        self._note(_from_rpy([(math.cos(angle), math.sin(angle)) for angle in angles]), rounded)
        return self.rotation(rounded, where)

    def about(self, axis: Matrix, angle: float, where: str) -> Matrix:
        """Return the rotation by an angle about a unit vector (Rodrigues)."""
        x, y, z = axis
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        exact, rounded = (
            np.eye(3) + sine * cross + (1.0 - cosine) * cross @ cross
            for cosine, sine in ((math.cos(angle), math.sin(angle)), self.cos_sin(angle, where))
        )
        self._note(exact, rounded)
        return self.rotation(rounded, where)

    def axis(self, vector: Matrix, where: str) -> Matrix:
        """The unit vector, in a coordinate plane or on a coordinate axis where it is near to it."""
        unit = vector / np.linalg.norm(vector)
        small = np.abs(unit) <= max(self.within, NOISE)
        rounded = np.where(small, 0.0, unit)
        rounded /= np.linalg.norm(rounded)
        self.turned = max(self.turned, float(np.linalg.norm(unit[small])))
        self._rounds(float(np.linalg.norm(np.delete(rounded, np.argmax(np.abs(rounded))))), where)
        return rounded

    def rotation(self, matrix: Matrix, where: str) -> Matrix:
        """The rotation, with its right angles made exact: all, or those of one axis that it leaves where it was or
        takes to another. The result is a rotation to 1e-15."""
        rounded = np.rint(matrix) + 0.0  # no zeros with a sign
        if not _is_rotation(rounded) or not self._rounds(_angle_between(matrix, rounded), where):
            i, j = np.unravel_index(np.argmax(np.abs(matrix)), (3, 3))
            tilt = math.hypot(*np.delete(matrix[:, j], i))
            rounded = _about_one_axis(matrix, int(i), int(j)) if self._rounds(tilt, where) else matrix.copy()
            rounded[np.abs(rounded) <= NOISE] = 0.0
        self._note(matrix, rounded)
        return rounded

    def _note(self, before: Matrix, after: Matrix) -> None:
        angle = _angle_between(before, after)
        self.turned = max(self.turned, angle if angle > NOISE else 0.0)


def _from_rpy(cos_sin: Sequence[tuple[float, float]]) -> Matrix:
    (cr, sr), (cp, sp), (cy, sy) = cos_sin
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def _is_rotation(matrix: Matrix) -> bool:
    """Return whether a matrix of -1, 0 and 1 is a rotation."""
    return bool(np.all(matrix @ matrix.T == np.eye(3)) and np.linalg.det(matrix) > 0.0)


def _angle_between(a: Matrix, b: Matrix) -> float:
    """rad, of two rotations; exact for small ones."""
    return 2.0 * math.asin(min(float(np.linalg.norm(a - b)) / math.sqrt(8.0), 1.0))


def _about_one_axis(matrix: Matrix, i: int, j: int) -> Matrix:
    """The rotation near to this one that takes coordinate axis j to axis i or its opposite."""
    rounded = np.zeros((3, 3))
    rounded[i, j] = math.copysign(1.0, matrix[i, j])
    rows, columns = np.delete(np.arange(3), i), np.delete(np.arange(3), j)
    (a, b), (c, d) = matrix[np.ix_(rows, columns)]
    mirrors = rounded[i, j] * (-1.0) ** (i + j)  # what the other two axes must do for a determinant of 1
    cosine, sine = a + mirrors * d, c - mirrors * b
    cosine, sine = (cosine / math.hypot(cosine, sine), sine / math.hypot(cosine, sine))
    rounded[np.ix_(rows, columns)] = [[cosine, -mirrors * sine], [sine, mirrors * cosine]]
    return rounded + 0.0


def matrix_of(quaternion: npt.NDArray[np.float64]) -> Matrix:
    """The matrix (3, 3) of MuJoCo's (w, x, y, z)."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )
