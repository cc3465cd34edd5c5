"""Actuators: forces that replace the commanded torque of a step by the torque that a motor delivers.

An actuator acts at the state before a step, and its torque is constant during the step, as that of a controller in
discrete time. It may keep states of its own from step to step.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from dynagate.base.arguments import Accepted, one_or_each, shown
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.naming import scope
from dynagate.dynamics.spatial import Array, Scalar, array, zeros
from dynagate.forces.checks import ForceError
from dynagate.forces.force import Force, ForceContext, check_entries
from dynagate.robot import Robot

Numbers = float | Sequence[float]
"""One number for all joints of an actuator, or one for each."""


class ActuatorState(NamedTuple):
    """A state that an actuator keeps from step to step: one number or several for each of its joints."""

    size: int
    """Count of numbers."""
    like: str = "tau"
    """The quantity whose typical magnitudes it has: "tau", "delta_q" or "qd"."""


class Drive(NamedTuple):
    """Result of an actuator at the state before a step."""

    torque: Array
    """Torque (joints,) that it delivers during the step, N m or N."""
    states: Mapping[str, Array] = {}
    """Its states after the step, by name."""


@explained
@dataclass(frozen=True)
class Actuator(Force):
    """Change the commanded torque of a step into the torque that joints of one degree of freedom receive.

    Actuators in `forces=` form a chain in their order: the first receives `tau` of the call, or the torque of
    `feedback=`, and each of the others the torque of the one before it. An actuator of your own derives from this
    class.

    Args:
        joints: Names of the joints; all joints of one degree of freedom unless given.

    Raises:
        ForceError: A name is that of no such joint, or a count of numbers is wrong.
    """

    joints: tuple[str, ...] | None = field(default=None, kw_only=True)

    once: ClassVar[bool] = True
    before_steps: ClassVar[bool] = True
    of_joints: ClassVar[Mapping[str, Accepted]] = {}
    """Accepted numbers of each parameter that is one number or one for each joint. A default of None is no limit."""

    def __post_init__(self) -> None:
        if self.joints is not None:
            names = self.joints
            if not isinstance(names, tuple | list) or not names or not all(isinstance(name, str) for name in names):
                raise ForceError(
                    f"{self.name} has joints {shown(names)}; expected a tuple of names", code="DG-FORCE-021"
                )
            if len(set(names)) < len(names):
                raise ForceError(
                    f"{self.name} has joints {shown(names)}; expected each joint once", code="DG-FORCE-022"
                )
            object.__setattr__(self, "joints", tuple(names))
        for name, accepted in self.of_joints.items():
            value = getattr(self, name)
            if value is not None or type(self).__dataclass_fields__[name].default is not None:
                value = one_or_each(f"{self.name} has {name} ", value, accepted, ForceError)
                object.__setattr__(self, name, value)

    def check(self, robot: Robot) -> None:
        """Raise ForceError if a joint or a count of numbers does not fit the robot."""
        self.each_joint(robot)

    def places(self, robot: Robot) -> list[tuple[int, int]]:
        """Return the indices in q and in the velocity of each joint that the actuator drives, in its order."""
        known = {joint.name: (iq.start, iv.start) for joint, iq, iv in robot.moving() if joint.nv == 1}
        for name in self.joints or ():
            if name not in known:
                raise ForceError(
                    f"{self.name} has joint '{name}', which is no revolute or prismatic joint of robot "
                    f"'{robot.name}'; expected some of {', '.join(known) or 'none'}",
                    code="DG-FORCE-023",
                )
        return [known[name] for name in (known if self.joints is None else self.joints)]

    def each(self, robot: Robot, name: str) -> list[float]:
        """Return a parameter for each joint (joints,); infinity for a limit of None."""
        value, count = getattr(self, name), len(self.places(robot))
        value = np.inf if value is None else value
        if isinstance(value, tuple) and len(value) != count:
            raise ForceError(
                f"{self.name} has {len(value)} numbers as {name}; expected one, or {count}", code="DG-FORCE-024"
            )
        return list(value) if isinstance(value, tuple) else [float(value)] * count

    def each_joint(self, robot: Robot) -> list[tuple[float, ...]]:
        """Return the parameters `of_joints` of each joint, in their order."""
        columns = [self.each(robot, name) for name in self.of_joints]
        return list(zip(*columns, strict=True))

    def states(self, robot: Robot) -> dict[str, ActuatorState]:
        """Return the states that the actuator keeps, by name. They are 0 before the first step unless a call has
        others.
        """
        return {}

    def largest_step(self, robot: Robot) -> float:
        """Return the largest time step, s, for which the actuator by itself is stable."""
        return np.inf

    @abstractmethod
    def drive(self, now: ForceContext, command: list[Scalar], states: Mapping[str, Array]) -> Drive:
        """Return the torques of the actuator's joints during a step.

        Args:
            now: The robot's state before the step.
            command: Commanded torque of each joint of `places`, N m or N.
            states: The actuator's states before the step, by name.
        """

    def torque(self, now: ForceContext) -> Array:
        """Return zeros (nv,): an actuator acts before a step."""
        return zeros(now.robot.nv)


class Actuators:
    """The chain of the actuators among forces.

    Args:
        robot: The robot.
        forces: Forces, of which the actuators count.

    Raises:
        ForceError: An actuator does not fit the robot, or two of them have a state of the same name.
    """

    def __init__(self, robot: Robot, forces: Sequence[Force]) -> None:
        self.robot = robot
        self.chain = tuple(force for force in forces if isinstance(force, Actuator))
        self.states: dict[str, ActuatorState] = {}
        for actuator in self.chain:
            actuator.check(robot)
            if not actuator.places(robot):
                raise ForceError(
                    f"{actuator.name} drives no joint of robot '{robot.name}', which has no joint of one degree of "
                    "freedom",
                    code="DG-FORCE-025",
                )
            for name, state in actuator.states(robot).items():
                if name in self.states:
                    raise ForceError(
                        f"{actuator.name} has the state '{name}', as another actuator has; expected one",
                        code="DG-FORCE-026",
                    )
                self.states[name] = state
        self.inputs = tuple(dict.fromkeys(name for actuator in self.chain for name in actuator.inputs))

    def __bool__(self) -> bool:
        return bool(self.chain)

    def check_step(self, dt: float | None) -> None:
        """Raise ArgumentError if an actuator is not stable with a time step."""
        for actuator in self.chain:
            most = actuator.largest_step(self.robot)
            if dt is not None and dt > most:
                raise ArgumentError(
                    f"dt={dt:g} makes {actuator.name} unstable; expected at most {most:.3g} s, or another actuator",
                    code="DG-FORCE-027",
                )

    def drive(self, now: ForceContext, command: Array, states: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
        """Return the torques (nv,) of a step, and the states after it."""
        after: dict[str, Array] = {}
        torque: Array = array(list(command))
        for k, actuator in enumerate(self.chain):
            with scope("actuators", f"{actuator.name}{k}"):
                at = [place for _, place in actuator.places(self.robot)]
                own = {name: states[name] for name in actuator.states(self.robot)}
                result = actuator.drive(now, [torque[i] for i in at], own)
                torque[at] = check_entries(f"the torque of actuator {actuator.name}", result.torque, len(at))
                for name, state in actuator.states(self.robot).items():
                    if name not in result.states:
                        raise ForceError(
                            f"actuator {actuator.name} returns no state '{name}'; expected it", code="DG-FORCE-028"
                        )
                    text = f"the state '{name}' of actuator {actuator.name}"
                    after[name] = check_entries(text, result.states[name], state.size)
        return torque, after
