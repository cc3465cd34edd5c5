"""Check whether a motion excites the parameters that it is to identify."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Array
from dynagate.base.explained import explained
from dynagate.identification.columns import ALL, columns_of
from dynagate.identification.combinations import BaseParameters, base_of
from dynagate.identification.measured import equations, measured
from dynagate.robot.checked import RobotOrName, robot_of

STILL = 1e-6
"""Part of a column's size at random states, and of the largest singular value, below which data do not excite it."""

TAKES_PART = 0.1
"""Part of a parameter in a direction that data do not excite, from which it is named."""


@explained
@dataclass(frozen=True)
class Excitation:
    """The parameters that a motion excites, and how well.

    Attributes:
        base: The combinations that torques depend on.
        condition: Ratio of the largest to the smallest singular value of the columns of the base parameters, each of
            length 1; infinite if data do not excite some. Below 100 is good, above 1000 errors grow large.
        unexcited: Names of the base parameters that the motion does not excite.
    """

    base: BaseParameters
    condition: float
    unexcited: tuple[str, ...]

    def __str__(self) -> str:
        named = f"; not excited: {', '.join(self.unexcited)}" if self.unexcited else ""
        return f"condition {self.condition:.3g} of {len(self.base.independent)} base parameters{named}"


@explained
def excitation(
    robot: RobotOrName,
    q: npt.ArrayLike,
    qd: npt.ArrayLike,
    qdd: npt.ArrayLike,
    parameters: Sequence[str] = ALL,
) -> Excitation:
    """Return how well a motion excites the parameters of a robot.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        q: Configurations (..., nq), rad, m and unit quaternions.
        qd: Velocities (..., nv), rad/s or m/s.
        qdd: Accelerations (..., nv), rad/s² or m/s².
        parameters: Names as of `base_parameters`.

    Raises:
        ArgumentError: An array has another shape, is not finite or empty, or a name is not right.
        RobotError: The robot has no such parameter.
    """
    columns = columns_of(robot_of(robot), parameters)
    states = measured(columns.robot, q=q, qd=qd, qdd=qdd)
    system = equations(columns, {**states, "tau": np.zeros_like(states["qd"])})
    matrix, _ = system.weighted(np.ones(columns.robot.nv))
    return excited_by(matrix, system.samples * columns.robot.nv, base_of(columns))


def excited_by(matrix: Array, rows: int, base: BaseParameters) -> Excitation:
    """Return the excitation of a condensed matrix (·, count) of this many equations."""
    independent = np.array(base.independent, dtype=int)
    names = np.array(base.parameters)[independent]
    own = matrix[:, independent]
    sizes = np.linalg.norm(own, axis=0)
    still = sizes <= STILL * base.scale[independent] * np.sqrt(rows)
    if still.all():
        return Excitation(base, float("inf"), tuple(names))
    _, singular, directions = np.linalg.svd(own[:, ~still] / sizes[~still], full_matrices=True)
    singular = np.append(singular, np.zeros(len(directions) - len(singular)))
    lost = singular <= STILL * singular[0]
    takes_part = (np.abs(directions[lost]) > TAKES_PART).any(axis=0)
    unexcited = still.copy()
    unexcited[np.flatnonzero(~still)[takes_part]] = True
    condition = float("inf") if unexcited.any() else float(singular[0] / singular[-1])
    return Excitation(base, condition, tuple(map(str, names[unexcited])))
