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

STIFFNESS_GAIN, DAMPING_GAIN, PUSH, DELAY = "stiffness", "damping", "push", "delay"
"""Names of factors of the gains, of pushes and of the delay of actions, in `randomize=`."""

PER_EPISODE = 1 << 16
"""Largest number of random draws in an episode."""

PUSH_PHASE, PUSHES = "push_phase", "pushes"
"""Names of an episode's offset of its pushes, in actions, and of the velocities (pushes, 2) that they add, m/s."""


def uniform(seed: int, environments: npt.NDArray[np.int64], draws: npt.NDArray[np.int64]) -> Array:
    """Return numbers from 0 to 1 for pairs of an environment and a draw, which are broadcast."""
    first, _ = philox(environments, np.mod(draws, 1 << 32), seed)
    return (first.astype(np.float64) + 0.5) * 2.0**-32


@dataclass(frozen=True)
class Pushes:
    """Horizontal velocities that are added to the base, in random directions, at a regular interval."""

    interval: float
    """Time between pushes, s. The time of the first push is drawn from the first interval."""
    low: float
    """Lowest speed, m/s."""
    high: float
    """Highest speed, m/s."""

    def actions(self, period: float) -> int:
        """Return the number of actions between pushes. period: Time between actions, s."""
        return max(1, round(self.interval / period))

    def drawn(self, draws: Any, period: float) -> dict[str, Any]:
        """Return the pushes of episodes from random numbers (batch, 1 + 2 pushes) from 0 to 1.

        PUSH_PHASE is (batch,), and PUSHES are (batch, pushes, 2), along x and y of the world.
        """
        library = namespace(draws)
        phase = library.floor(draws[:, 0] * self.actions(period))
        speed = self.low + draws[:, 1::2] * (self.high - self.low)
        angle = 2.0 * np.pi * draws[:, 2::2]
        velocities = library.stack([speed * library.cos(angle), speed * library.sin(angle)], -1)
        return {PUSH_PHASE: phase, PUSHES: velocities}


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
    pushes: Pushes | None
    """Pushes of the base; None for no pushes."""
    delay: tuple[float, float] | None
    """Range of the delay of actions, s; None for no delay."""

    @classmethod
    def of(cls, robot: Robot, ranges: Mapping[str, Any]) -> Randomization:
        """Check the option `randomize=`: ranges by the names of variable parameters, and "stiffness", "damping",
        "push" and "delay".

        Raises:
            RobotError: The robot has no such parameter, or a range contains invalid values.
            ArgumentError: A range is not a range, or pushes of a robot without a floating base are requested.
        """
        others = (STIFFNESS_GAIN, DAMPING_GAIN, PUSH, DELAY)
        own = {name: value for name, value in ranges.items() if name not in others}
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
        gains = tuple(
            _range(name, ranges.get(name, (1.0, 1.0)), "factors of the gains")
            for name in (STIFFNESS_GAIN, DAMPING_GAIN)
        )
        delay = None if ranges.get(DELAY) is None else _range(DELAY, ranges[DELAY], "seconds")
        shapes = {variable.input: variable.shape for variable in varied.variables}
        return cls(varied, low, high, shapes, (gains[0], gains[1]), _pushes(robot, ranges.get(PUSH)), delay)

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


def namespace(array: Any) -> Any:
    """Return the module with the functions of an array: numpy, or the one of another framework."""
    own = getattr(array, "__array_namespace__", None)
    return np if own is None else own()


def _range(name: str, value: Sequence[float], what: str) -> tuple[float, float]:
    """Return a range of numbers that are at least 0."""
    low, high = numbers(f"randomize has '{name}' ", value, (2,), AT_LEAST_ZERO)
    if low > high:
        raise ArgumentError(f"randomize has '{name}' {shown(value)}; expected (low, high), {what}", code="DG-ENV-004")
    return float(low), float(high)


def _pushes(robot: Robot, value: Any) -> Pushes | None:
    """Return pushes from (interval, speed) or (interval, lowest speed, highest speed)."""
    if value is None:
        return None
    joint = robot.links[0].joint
    if not joint.kind.free:
        raise ArgumentError(
            f"randomize has 'push', but the base of robot '{robot.name}' cannot move freely: its first joint "
            f"'{joint.name}' is {joint.type}; expected a floating base, or no pushes",
            code="DG-ENV-023",
        )
    count = 3 if np.shape(value) == (3,) else 2
    interval, low, *high = numbers("randomize has 'push' ", value, (count,), AT_LEAST_ZERO).tolist()
    highest = high[0] if high else low
    if interval == 0.0 or low > highest:
        raise ArgumentError(
            f"randomize has 'push' {shown(value)}; expected seconds between pushes, above 0, and a speed in m/s, or "
            "the lowest and the highest speed",
            code="DG-ENV-024",
        )
    return Pushes(interval, low, highest)
