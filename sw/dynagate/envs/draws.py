"""Random numbers of environments, independent for each episode of each environment.

The numbers are a function of the seed, the environment and its episode (`base.philox`). A reset with the same seed
therefore repeats every episode exactly, for any number of environments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import AT_LEAST_ZERO, numbers, shown
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.nearest import nearest
from dynagate.base.philox import philox
from dynagate.graph.parameter_ranges import bounds_of, check_ranges
from dynagate.robot import Robot
from dynagate.robot.variable import (
    ARMATURE,
    COM,
    DAMPING,
    FRICTION,
    GRAVITY,
    GROUND_FRICTION,
    GROUND_RESTITUTION,
    MASS,
)

DRAWN = (MASS, COM, ARMATURE, DAMPING, FRICTION, GRAVITY, GROUND_FRICTION, GROUND_RESTITUTION)
"""Kinds of variable parameters whose entries can be drawn independently."""

STIFFNESS_GAIN, DAMPING_GAIN, PUSH = "stiffness", "damping", "push"
"""Names of factors of the gains, and of pushes, in `randomize=`."""

PER_EPISODE = 1 << 16
"""Largest number of random draws in an episode, including pushes."""


def uniform(seed: int, environments: npt.NDArray[np.int64], draws: npt.NDArray[np.int64]) -> Array:
    """Return numbers from 0 to 1 for pairs of an environment and a draw, which are broadcast."""
    first, _ = philox(environments, np.mod(draws, 1 << 32), seed)
    return (first.astype(np.float64) + 0.5) * 2.0**-32


@dataclass(frozen=True)
class Randomization:
    """Differences between environments, drawn for each episode."""

    robot: Robot
    """The robot, with variable parameters for the ones that differ."""
    low: Array
    """Lower ends of the parameters' ranges, concatenated (entries,)."""
    high: Array
    """Upper ends of the parameters' ranges, concatenated (entries,)."""
    shapes: Mapping[str, tuple[int, ...]]
    """Shape of each parameter, by input."""
    gains: tuple[tuple[float, float], tuple[float, float]]
    """Ranges of the factors of stiffness and damping."""
    push: tuple[float, float] | None
    """Seconds between pushes and their speed in m/s; None for no pushes."""

    @classmethod
    def of(cls, robot: Robot, ranges: Mapping[str, Any]) -> Randomization:
        """Check the option `randomize=`: ranges by the names of variable parameters, "stiffness", "damping" or "push".

        Raises:
            RobotError: The robot has no such parameter, or a range contains invalid values.
            ArgumentError: A range is not a range.
        """
        own = {name: value for name, value in ranges.items() if name not in (STIFFNESS_GAIN, DAMPING_GAIN, PUSH)}
        varied = robot.with_variable(*own)
        for variable in varied.variables:
            if variable.kind not in DRAWN:
                raise ArgumentError(
                    f"randomize has '{variable.name}'{nearest(variable.kind, DRAWN)}; expected a name that ends in one "
                    f"of {', '.join(DRAWN)}, such as '{robot.links[0].name}.mass'",
                    code="DG-ENV-003",
                )
        chosen = check_ranges(varied, {name: value for name, value in own.items() if value is not True})
        bounds = [bound for variable in varied.variables for bound in bounds_of(varied, variable, chosen)]
        low, high = np.array(bounds).reshape(-1, 2).T
        gains = tuple(_factor(name, ranges.get(name, (1.0, 1.0))) for name in (STIFFNESS_GAIN, DAMPING_GAIN))
        push = ranges.get(PUSH)
        if push is not None:
            interval, speed = numbers("randomize has 'push' ", push, (2,), AT_LEAST_ZERO)
            push = float(interval), float(speed)
        shapes = {variable.input: variable.shape for variable in varied.variables}
        return cls(varied, low, high, shapes, (gains[0], gains[1]), push)

    @property
    def size(self) -> int:
        """Number of random numbers that `values` needs for an episode."""
        return len(self.low) + len(self.gains)

    def values(self, draws: Array) -> tuple[dict[str, Array], Array, Array]:
        """Return parameters by input, and factors of stiffness and damping, from numbers (batch, size) from 0 to 1."""
        count = len(self.low)
        entries = self.low + draws[:, :count] * (self.high - self.low)
        factors = [low + draws[:, count + k] * (high - low) for k, (low, high) in enumerate(self.gains)]
        parameters, place = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape, dtype=int))
            parameters[name] = entries[:, place : place + size].reshape(-1, *shape)
            place += size
        return parameters, factors[0], factors[1]


def _factor(name: str, value: Sequence[float]) -> tuple[float, float]:
    low, high = numbers(f"randomize has '{name}' ", value, (2,), AT_LEAST_ZERO)
    if low > high:
        raise ArgumentError(
            f"randomize has '{name}' {shown(value)}; expected (low, high), factors of the gains", code="DG-ENV-004"
        )
    return float(low), float(high)
