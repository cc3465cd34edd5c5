"""Base parameters: the combinations of dynamic parameters that torques depend on.

Gautier, "Numerical calculation of the base inertial parameters of robots", 1991: columns of the regressor at random
states that depend on the columns before them are removed, and their parameters are grouped with these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.explained import explained
from dynagate.dynamics.configuration import integrate, neutral
from dynagate.identification.columns import ALL, Columns, columns_of, combination, decimals
from dynagate.identification.measured import regressors, triangle_of
from dynagate.robot.checked import RobotOrName, robot_of

RANK = 1e-9
"""Part of a column's length below which what is left of it without the columns before it is rounding."""

SEED, MARGIN = 0, 3
"""Seed of the random states, and equations for each parameter."""


@explained
@dataclass(frozen=True)
class BaseParameters:
    """The combinations of parameters that torques depend on. Print it to see them.

    Attributes:
        parameters: Names of all parameters (count,), in the order of the columns.
        independent: Numbers (base,) of the parameters that each combination is named by and has with factor 1.
        matrix: Factors (base, count): the combinations are matrix @ parameters.
        values: The combinations (base,) of the robot's own numbers.
        scale: Root mean square (count,) of the parameters' columns at the random states.
    """

    parameters: tuple[str, ...]
    independent: tuple[int, ...]
    matrix: Array
    values: Array
    scale: Array

    @property
    def combinations(self) -> tuple[str, ...]:
        """Return each combination in words."""
        return tuple(combination(self.parameters, row) for row in self.matrix)

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Return the names of the parameters that no torque depends on."""
        used = np.abs(self.matrix).sum(axis=0)
        return tuple(name for name, size in zip(self.parameters, used, strict=True) if not size)

    def __str__(self) -> str:
        head = f"{len(self.independent)} base parameters of {len(self.parameters)}"
        rows = [f"  {value: .6g} = {text}" for value, text in zip(self.values, self.combinations, strict=True)]
        return "\n".join([head, *rows])


@explained
def base_parameters(robot: RobotOrName, parameters: Sequence[str] = ALL) -> BaseParameters:
    """Return the combinations of dynamic parameters that torques depend on.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        parameters: Names of links, for their ten inertial parameters, and of joints with .armature, .damping or
            .friction, as `Robot.with_variable` accepts them. All of them unless given.

    Raises:
        ArgumentError: Torques are not linear in such a parameter, or there is no name.
        RobotError: The robot has no such parameter.

    Example:
        >>> base = dynagate.base_parameters("two_joint_arm", ["*"])
        >>> len(base.parameters), len(base.independent)
        (20, 5)
    """
    return base_of(columns_of(robot_of(robot), parameters))


def base_of(columns: Columns) -> BaseParameters:
    """Return the base parameters of some columns."""
    try:
        return _cached(columns)
    except TypeError:  # a link was made with a list
        return _computed(columns)


@lru_cache(maxsize=16)
def _cached(columns: Columns) -> BaseParameters:
    return _computed(columns)


def _computed(columns: Columns) -> BaseParameters:
    rows = _random_rows(columns)
    scale = np.sqrt((rows**2).mean(axis=0))
    used = np.flatnonzero(scale > RANK * max(scale.max(), 1e-300))
    matrix = np.zeros((0, len(scale)))
    independent = used
    if len(used):
        unit = rows[:, used] / np.linalg.norm(rows[:, used], axis=0)
        diagonal = np.abs(np.diag(triangle_of(unit)))
        first, others = used[diagonal > RANK], used[diagonal <= RANK]
        factors = np.linalg.lstsq(rows[:, first] / scale[first], rows[:, others] / scale[others], rcond=None)[0]
        independent, matrix = first, np.zeros((len(first), len(scale)))
        matrix[np.arange(len(first)), first] = 1.0
        matrix[:, others] = np.where(np.abs(factors) < RANK, 0.0, factors) * scale[others] / scale[first][:, None]
        matrix = decimals(matrix)
    return BaseParameters(columns.names, tuple(map(int, independent)), matrix, matrix @ columns.values, scale)


def _random_rows(columns: Columns) -> Array:
    """Return the columns of the regressor at random states, (equations, count)."""
    robot, random = columns.robot, np.random.default_rng(SEED)
    count = MARGIN * len(columns.places) // robot.nv + 8
    q = integrate(robot, neutral(robot), random.uniform(-2.0, 2.0, (count, robot.nv)))
    qd, qdd = random.normal(size=(2, count, robot.nv))
    chunks = [rows[:, :, list(columns.places)] for _, rows in regressors(columns, {"q": q, "qd": qd, "qdd": qdd})]
    return np.concatenate(chunks).reshape(-1, len(columns.places))
