"""Random numbers of environments: each episode of each environment has its own, whatever the others do.

The numbers are a function of the seed, the environment and its episode (`base.philox`), so a reset by the same seed
repeats every episode exactly, for any number of environments next to it.
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
"""Kinds of variable parameters whose entries may be drawn one by one."""

STIFFNESS_GAIN, DAMPING_GAIN, PUSH = "stiffness", "damping", "push"
"""Names of factors of the gains, and of pushes, in `randomize=`."""

PER_EPISODE = 1 << 16
"""Largest number of draws in an episode, pushes in its steps included."""


def uniform(seed: int, environments: npt.NDArray[np.int64], draws: npt.NDArray[np.int64]) -> Array:
    """Return numbers from 0 to 1 for pairs of an environment and a draw, which broadcast."""
    first, _ = philox(environments, np.mod(draws, 1 << 32), seed)
    return (first.astype(np.float64) + 0.5) * 2.0**-32


@dataclass(frozen=True)
class Randomization:
    """Differences between environments, drawn anew for each episode.

    low, high: ends of the ranges of the robot's variable parameters, one after the other, (entries,). shapes: of the
    parameters by input. gains: ranges of the factors of stiffness and damping. push: seconds between pushes and their
    speed in m/s; None for no pushes.
    """

    robot: Robot
    low: Array
    high: Array
    shapes: Mapping[str, tuple[int, ...]]
    gains: tuple[tuple[float, float], tuple[float, float]]
    push: tuple[float, float] | None

    @classmethod
    def of(cls, robot: Robot, ranges: Mapping[str, Any]) -> Randomization:
        """Check the argument `randomize=`: names of variable parameters, "stiffness", "damping" or "push".

        Raises:
            RobotError: The robot has no such parameter, or a range has numbers that it cannot have.
            ArgumentError: A range is no range.
        """
        own = {name: value for name, value in ranges.items() if name not in (STIFFNESS_GAIN, DAMPING_GAIN, PUSH)}
        varied = robot.with_variable(*own)
        for variable in varied.variables:
            if variable.kind not in DRAWN:
                raise ArgumentError(
                    f"randomize has '{variable.name}'{nearest(variable.kind, DRAWN)}; expected a name that ends in one "
                    f"of {', '.join(DRAWN)}, such as '{robot.links[0].name}.mass'"
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
        """Return how many numbers of an episode `values` takes."""
        return len(self.low) + len(self.gains)

    def values(self, draws: Array) -> tuple[dict[str, Array], Array, Array]:
        """Return parameters by input and factors of stiffness and damping, from numbers (batch, size) from 0 to 1."""
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
        raise ArgumentError(f"randomize has '{name}' {shown(value)}; expected (low, high), factors of the gains")
    return float(low), float(high)
