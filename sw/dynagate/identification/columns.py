"""Which dynamic parameters of a robot are estimated: columns of its regressor, by the names of `with_variable`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynagate.base.arguments import names_of
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.dynamics.parameters import NAMES
from dynagate.robot import Robot
from dynagate.robot.dynamic_parameters import OF_JOINT
from dynagate.robot.variable import COUNT, DYNAMIC, INERTIAL, variables_of

ALL = ("*", *(f"*.{kind}" for kind in OF_JOINT))
"""Names of all parameters that torques are linear in."""


@dataclass(frozen=True)
class Columns:
    """Estimated parameters of a robot.

    Attributes:
        robot: The robot, with constants only.
        places: Numbers (count,) of the columns of the flattened regressor (nv, links * 13), in order.
    """

    robot: Robot
    places: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the name of each parameter, such as "forearm.m" or "elbow.damping"."""
        return tuple(parameter_names(self.robot)[place] for place in self.places)

    @property
    def links(self) -> tuple[int, ...]:
        """Return the links whose ten inertial parameters are estimated."""
        return tuple(place // DYNAMIC for place in self.places if place % DYNAMIC == 0)

    @property
    def values(self) -> Array:
        """Return the robot's own numbers (count,)."""
        return self.robot.dynamic_parameters.ravel()[list(self.places)]


def parameter_names(robot: Robot) -> list[str]:
    """Return the names of all dynamic parameters (links * 13,)."""
    return [
        name
        for link in robot.links
        for name in (*(f"{link.name}.{each}" for each in NAMES), *(f"{link.joint.name}.{kind}" for kind in OF_JOINT))
    ]


def columns_of(robot: Robot, parameters: Sequence[str]) -> Columns:
    """Return the columns of parameters by their names.

    Raises:
        ArgumentError: There is no name, or torques are not linear in such a parameter.
        RobotError: The robot has no such parameter, or one is named twice.
    """
    names = names_of("parameters", parameters)
    if not names:
        raise ArgumentError(
            f"parameters={parameters!r}; expected names such as {', '.join(map(repr, ALL))}", code="DG-IDENT-001"
        )
    robot = replace(robot, variable=())
    places: list[int] = []
    for variable in variables_of(replace(robot, variable=names)):
        if variable.kind == INERTIAL:
            own = range(COUNT)
        elif variable.kind in OF_JOINT:
            own = range(COUNT + OF_JOINT.index(variable.kind), COUNT + OF_JOINT.index(variable.kind) + 1)
        else:
            raise ArgumentError(
                f"parameter '{variable.name}'; expected links, for their ten inertial parameters, or joints with "
                f"{', '.join(f'.{kind}' for kind in OF_JOINT)}: torques are linear in these",
                code="DG-IDENT-002",
            )
        places += [i * DYNAMIC + k for i in variable.owners for k in own]
    twice = {place for place in places if places.count(place) > 1}
    if twice:
        raise ArgumentError(
            f"parameter '{parameter_names(robot)[min(twice)]}' is named twice; expected it once", code="DG-IDENT-003"
        )
    return Columns(robot, tuple(sorted(places)))


def combination(names: Sequence[str], factors: Array) -> str:
    """Return a sum of parameters in words, such as "link_1.i_zz + 0.2 link_2.m"."""
    text = ""
    for name, factor in zip(names, factors, strict=True):
        if factor:
            size = "" if abs(factor) == 1.0 else f"{abs(factor):.6g} "
            sign = ("- " if factor < 0.0 else "+ ") if text else ("-" if factor < 0.0 else "")
            text += f"{' ' if text else ''}{sign}{size}{name}"
    return text or "0"


def decimals(values: Array) -> Array:
    """Return numbers with what is rounding of zeros and ones removed."""
    near = np.round(values)
    return np.where(np.abs(values - near) < 1e-9, near, values)
