"""Forces: functions from a robot's state, over any scalar, to a generalized force.

A force does not depend on an integrator or a device. It is traced into the graphs of the step, so it runs on the same
executors and has the same derivatives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from dynagate.base.arguments import FINITE, is_number, shown
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.explained import explained
from dynagate.base.naming import scope
from dynagate.dynamics.mimic import MimicMap
from dynagate.dynamics.recursions.poses import Places, places, transmit
from dynagate.dynamics.spatial import Array, Scalar, SpatialMotion, array, cross, zeros
from dynagate.dynamics.spatial import SpatialForce as SpatialForce
from dynagate.dynamics.tree import Tree
from dynagate.forces.checks import ForceError
from dynagate.robot import Robot

Scalars = Sequence[Scalar] | Array


@explained
class Force(ABC):
    """A force on a robot. A force of your own is a frozen dataclass of its parameters that derives from
    this class.
    """

    once: ClassVar[bool] = False
    """Whether a motion may have only one force of this class."""
    after_steps: ClassVar[bool] = False
    """Whether the force acts by `after_step` instead of a torque."""
    before_steps: ClassVar[bool] = False
    """Whether the force is an `Actuator`, which acts on the commanded torque before a step."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of values (nv,) that it takes at every step besides the state."""
        return ()

    @property
    def name(self) -> str:
        """In errors and scopes."""
        return type(self).__name__

    def check(self, robot: Robot) -> None:  # noqa: B027  # most forces have a meaning for every robot
        """Raise an error if the force is not defined for this robot."""

    @abstractmethod
    def torque(self, now: ForceContext) -> Array:
        """Return the generalized force (nv,), N m or N, at a robot's state."""

    def after_step(self, robot: Robot, q: Array, qd: Array) -> tuple[Array, Array]:
        """Return the state, q (nq,) and qd (nv,), that replaces the state at the end of a step."""
        return q, qd


class Wrench(NamedTuple):
    """A force on a link and its moment about the base's origin, in base axes."""

    moment: Array
    force: Array

    @classmethod
    def at(cls, place: Array, force: Array) -> Wrench:
        """Return the wrench of a force (3,) at a place (3,)."""
        return cls(cross(place, force), force)


class ForceContext:
    """The state at which forces act, over any scalar.

    Attributes:
        robot: The robot, with its mimic joints.
        q: Configuration (nq,), in rad, m and unit quaternions.
        qd: Velocity (nv,), in rad/s or m/s.
        dt: The time step in which the force acts, in s.
        inputs: Inputs of forces by name, (nv,) each.
        parameters: Values of the robot's variable parameters by input; None for the robot's own numbers.
        tree: The tree of links as in the robot's file, in which mimic joints are independent.
    """

    def __init__(
        self,
        robot: Robot,
        q: Scalars,
        qd: Scalars,
        dt: Scalar,
        inputs: Mapping[str, Array] | Mapping[str, Scalars] | None = None,
        parameters: Mapping[str, Array] | None = None,
    ) -> None:
        self.robot, self.q, self.qd, self.dt, self.inputs = robot, q, qd, dt, inputs or {}
        self._parameters = parameters

    @cached_property
    def tree(self) -> Tree:
        return Tree(self.robot, values=self._parameters).unreduced

    @cached_property
    def _mimic(self) -> MimicMap:
        return MimicMap(self.robot)

    @cached_property
    def joint_rates(self) -> Scalars:
        """Velocities of all joints, including mimic joints."""
        rates: Scalars = self._mimic.rates(self.qd)
        return rates

    def of_joints(self, torques: Sequence[Scalar]) -> Array:
        """Return the generalized force (nv,) of torques at all joints, including mimic joints."""
        return array(list(self._mimic.torques(torques)))

    @cached_property
    def poses(self) -> Places:
        """R (3, 3) and p (3,) of every link, m, in the base frame."""
        return places(self.tree, self._mimic.configuration(list(self.q)))

    @cached_property
    def motions(self) -> list[SpatialMotion]:
        """The velocity of each link at the base's origin, in base axes, in rad/s and m/s."""
        tree, motions = self.tree, list[SpatialMotion]()
        for i in tree.links:
            with scope("moving", f"link{i}"):
                parent = tree.parents[i]
                motion = motions[parent] if parent >= 0 else SpatialMotion(zeros(3), zeros(3))
                for d in tree.dofs[i]:
                    rate = self.joint_rates[d]
                    axis = tree.axis_at(d, *self.poses[i])
                    motion = SpatialMotion(
                        motion.angular + _times(axis.angular, rate), motion.linear + _times(axis.linear, rate)
                    )
                motions.append(motion)
        return motions

    def velocity(self, i: int, place: Array) -> Array:
        """Return the velocity, m/s, of the point of link i that is at a place (3,) in the base frame."""
        return self.motions[i].linear + cross(self.motions[i].angular, place)

    def pushed(self, wrenches: Iterable[tuple[int, Wrench]]) -> Array:
        """Return the generalized force (nv,) of wrenches on links."""
        tree = self.tree
        own = [SpatialForce(zeros(3), zeros(3)) for _ in tree.links]
        for i, wrench in wrenches:
            own[i] = own[i] + SpatialForce(*wrench)
        torques = transmit(tree, self.poses, own, "pushed")
        return self.of_joints(list(torques))


def _times(vector: Array, rate: Scalar) -> Array:
    """Return a vector times a scalar, which may carry derivatives if the vector's entries are numbers."""
    return array([rate * x for x in vector])


class Forces:
    """The sum of the forces that act by torques. Raises ValueError: a force has no meaning for this robot."""

    def __init__(self, robot: Robot, forces: Sequence[Force]) -> None:
        for force in forces:
            force.check(robot)
            if force.before_steps:
                raise ForceError(
                    f"the actuator {force.name} has no place here; expected dynagate.Rollout(robot, forces=[...])",
                    code="DG-FORCE-029",
                )
        self.robot = robot
        self.forces = tuple(force for force in forces if not force.after_steps)
        self.inputs = tuple(dict.fromkeys(name for force in forces for name in force.inputs))

    def torque(
        self,
        q: Scalars,
        qd: Scalars,
        dt: Scalar,
        inputs: Mapping[str, Array] | Mapping[str, Scalars],
        parameters: Mapping[str, Array] | None = None,
    ) -> Array:
        """Return the sum of the forces (nv,), N m or N, at a state.

        Args:
            q: Configuration (nq,).
            qd: Velocity (nv,).
            dt: Time step in s.
            inputs: Inputs of forces by name, (nv,) each.
            parameters: Values of variable parameters by input; None for the robot's own numbers.
        """
        now, total = ForceContext(self.robot, q, qd, dt, inputs, parameters), zeros(self.robot.nv)
        for k, force in enumerate(self.forces):
            with scope("forces", f"{force.name}{k}"):
                total = total + _torque_of(force, now)
        return total


def _torque_of(force: Force, now: ForceContext) -> Array:
    """Return the torque of a force. Raise ForceError if it is not nv numbers, or a number is known and not finite."""
    return check_entries(
        f"the torque of force {force.name}", force.torque(now), now.robot.nv, ", one for each velocity"
    )


def check_entries(what: str, result: object, count: int, meaning: str = "") -> Array:
    """Return a result of a force as an array of scalars.

    Args:
        what: The result in the words of an error.
        result: The result.
        count: Count of its entries.
        meaning: Text after the expected shape.

    Raises:
        ForceError: It has another shape, or an entry is no number, or is known and not finite.
    """
    values = np.asarray(result, dtype=object)
    if isinstance(result, np.ma.MaskedArray) or values.shape != (count,):
        has = "is masked" if isinstance(result, np.ma.MaskedArray) else f"has shape {values.shape}"
        raise ForceError(f"{what} {has}; expected ({count},){meaning}", code="DG-FORCE-003")
    for k, value in enumerate(values):
        is_kind = is_number(value) or (hasattr(value, "__mul__") and not isinstance(value, FOREIGN))
        if not is_kind or (is_number(value) and not FINITE.holds(value)):
            raise ForceError(f"{what} is {shown(value)} at {k}; expected a finite number", code="DG-FORCE-004")
    return values


FOREIGN = (bool, np.bool_, complex, str, bytes, list, tuple)
"""Classes of entries that are not accepted as scalars of torques, although Python can multiply them."""


def check_forces(forces: object) -> tuple[Force, ...]:
    """Return the forces as a tuple.

    Raises:
        ArgumentTypeError: An entry is not a force.
        ArgumentError: The forces are not a sequence, or two are of a class that acts once.
    """
    if isinstance(forces, Force) or not isinstance(forces, Sequence):
        raise ArgumentError(
            f"forces={forces!r:.60}; expected a sequence of forces, such as [Servo(100.0)]", code="DG-FORCE-005"
        )
    for force in forces:
        if not isinstance(force, Force):
            raise ArgumentTypeError(
                f"forces has {force!r:.60}; expected a Force, such as dynagate.forces.Servo", code="DG-FORCE-006"
            )
    for force in forces:
        same = [each for each in forces if type(each) is type(force)]
        if force.once and len(same) > 1:
            listed = " and ".join(f"{each!r:.60}" for each in same)
            raise ArgumentError(
                f"forces has {len(same)} of {force.name}: {listed}; expected at most one", code="DG-FORCE-007"
            )
    return tuple(forces)
