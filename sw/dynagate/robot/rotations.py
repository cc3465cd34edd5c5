"""Rounding of rotations in files to exact right angles, with a record of the largest correction.

A file may write π/2 as 1.5708. The entries of 3.7e-6 that should be 0 would then cost products in every algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]

NEAR = 2e-3
"""Largest distance from a right angle, rad, that is taken for a rounding error: 3.14 is 1.6e-3 from π, and 1.57 is 8e-4
from π/2.
"""

NOISE = 1e-15
"""Largest rounding error of a zero in a product of rotations."""

QUARTERS = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))
"""Cosine and sine of 0, 1, 2 and 3 right angles."""


class Rounding:
    """Rounding of rotations to right angles within a given angle.

    Args:
        within: Largest correction, rad.

    Attributes:
        largest_correction: Largest correction that was applied, rad.
        uncorrected: By the name of a joint or body: the distance from a right angle, rad, that was within NEAR but not
            corrected.
    """

    def __init__(self, within: float) -> None:
        self.within = within
        self.largest_correction = 0.0
        self.uncorrected: dict[str, float] = {}

    def _rounds(self, distance: float, where: str) -> bool:
        """Return whether a distance from a right angle is to be corrected, and record it if it is not."""
        if distance <= max(self.within, NOISE):
            return True
        if distance <= NEAR:
            self.uncorrected[where] = max(distance, self.uncorrected.get(where, 0.0))
        return False

    def cos_sin(self, angle: float, where: str) -> tuple[float, float]:
        """Return cosine and sine of an angle, exact if the angle is a multiple of a right angle or rounded to one."""
        distance = math.remainder(angle, math.pi / 2)
        if self._rounds(abs(distance), where):
            return QUARTERS[round((angle - distance) / (math.pi / 2)) % 4]
        return math.cos(angle), math.sin(angle)

    def from_rpy(self, angles: Sequence[float], where: str) -> Matrix:
        """Return the rotation (3, 3) for roll, pitch and yaw about fixed axes."""
        rounded = _from_rpy([self.cos_sin(angle, where) for angle in angles])
        self._note(_from_rpy([(math.cos(angle), math.sin(angle)) for angle in angles]), rounded)
        return self.rotation(rounded, where)

    def about_axis(self, axis: Matrix, angle: float, where: str) -> Matrix:
        """Return the rotation (3, 3) by an angle about a unit vector (Rodrigues' formula)."""
        x, y, z = axis
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        exact, rounded = (
            np.eye(3) + sine * cross + (1.0 - cosine) * cross @ cross
            for cosine, sine in ((math.cos(angle), math.sin(angle)), self.cos_sin(angle, where))
        )
        self._note(exact, rounded)
        return self.rotation(rounded, where)

    def axis(self, vector: Matrix, where: str) -> Matrix:
        """Return the unit vector, moved into a coordinate plane or axis that is near it."""
        unit = vector / np.linalg.norm(vector)
        small = np.abs(unit) <= max(self.within, NOISE)
        rounded = np.where(small, 0.0, unit)
        rounded /= np.linalg.norm(rounded)
        self.largest_correction = max(self.largest_correction, float(np.linalg.norm(unit[small])))
        self._rounds(float(np.linalg.norm(np.delete(rounded, np.argmax(np.abs(rounded))))), where)
        return rounded

    def rotation(self, matrix: Matrix, where: str) -> Matrix:
        """Return a rotation (3, 3) with its right angles made exact: all of them, or those of one coordinate axis.

        The result is a rotation to 1e-15.
        """
        rounded = np.rint(matrix) + 0.0  # adding 0 removes negative zeros
        if not _is_rotation(rounded) or not self._rounds(_angle_between(matrix, rounded), where):
            i, j = np.unravel_index(np.argmax(np.abs(matrix)), (3, 3))
            tilt = math.hypot(*np.delete(matrix[:, j], i))
            rounded = _about_one_axis(matrix, int(i), int(j)) if self._rounds(tilt, where) else matrix.copy()
            rounded[np.abs(rounded) <= NOISE] = 0.0
        self._note(matrix, rounded)
        return rounded

    def _note(self, before: Matrix, after: Matrix) -> None:
        angle = _angle_between(before, after)
        self.largest_correction = max(self.largest_correction, angle if angle > NOISE else 0.0)


def _from_rpy(cos_sin: Sequence[tuple[float, float]]) -> Matrix:
    """Return the rotation (3, 3) for the cosines and sines of roll, pitch and yaw."""
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
    """Return the angle between two rotations, rad, accurate for small angles."""
    return 2.0 * math.asin(min(float(np.linalg.norm(a - b)) / math.sqrt(8.0), 1.0))


def _about_one_axis(matrix: Matrix, i: int, j: int) -> Matrix:
    """Return the nearest rotation that takes coordinate axis j to axis i or its opposite."""
    rounded = np.zeros((3, 3))
    rounded[i, j] = math.copysign(1.0, matrix[i, j])
    rows, columns = np.delete(np.arange(3), i), np.delete(np.arange(3), j)
    (a, b), (c, d) = matrix[np.ix_(rows, columns)]
    mirrors = rounded[i, j] * (-1.0) ** (i + j)  # sign that gives a determinant of 1
    cosine, sine = a + mirrors * d, c - mirrors * b
    cosine, sine = (cosine / math.hypot(cosine, sine), sine / math.hypot(cosine, sine))
    rounded[np.ix_(rows, columns)] = [[cosine, -mirrors * sine], [sine, mirrors * cosine]]
    return rounded + 0.0


def matrix_of(quaternion: npt.NDArray[np.float64]) -> Matrix:
    """Return the rotation matrix (3, 3) of a quaternion (w, x, y, z) in MuJoCo's order."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )
