"""The moment after an action, over any scalar: the argument of observations, rewards and end conditions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.explained import explained
from dynagate.control.cost import Knot
from dynagate.dynamics.spatial import Scalar
from dynagate.graph.recorder import Recording
from dynagate.robot import Robot


@explained
class Moment(Knot):
    """The state of a robot after an action. `moment["command"]` is the input of the environment with this name.

    Attributes:
        q: Configuration (nq,), rad, m and unit quaternions.
        qd: Velocity (nv,), rad/s or m/s.
        tau: Torques (nv,) in the last step of the simulation, N m or N.
        action: Action (actions,) that led here, from -1 to 1.
        last_action: Action before it; zeros after a reset.
        loads: Normal forces (feet,) on the feet in the last step of the simulation, N.
        stance: Configuration (nq,) that episodes begin near and targets are relative to.
    """

    def __init__(
        self, robot: Robot, recording: Recording, values: Mapping[str, Array], loads: Array, stance: Array
    ) -> None:
        super().__init__(robot, recording, values, last=False)
        self.action, self.last_action, self.loads, self.stance = values["action"], values["last_action"], loads, stance

    @cached_property
    def joints(self) -> Array:
        """Positions of the joints with one degree of freedom, relative to the stance, rad or m."""
        places = [iq.start for joint, iq, _ in self.robot.moving() if joint.nv == 1]
        return self.q[places] - self.stance[places]

    @cached_property
    def rates(self) -> Array:
        """Velocities of the joints with one degree of freedom, rad/s or m/s."""
        return self.qd[[iv.start for joint, _, iv in self.robot.moving() if joint.nv == 1]]

    @cached_property
    def _base(self) -> str:
        return self.robot.links[0].name

    @cached_property
    def _axes(self) -> Array:
        return self.rotation(self._base)

    @cached_property
    def _motion(self) -> Array:
        return self.velocity(self._base)

    @property
    def base_height(self) -> Scalar:
        """Height of the first link's origin, m."""
        return self.position(self._base)[2]

    @property
    def base_up(self) -> Array:
        """The upward direction (3,) in the axes of the first link: (0, 0, 1) if it is level."""
        return self._axes[2]

    @property
    def base_velocity(self) -> Array:
        """Velocity (3,) of the first link's origin in its own axes, m/s."""
        return self._axes.T @ self._motion[3:]

    @property
    def base_spin(self) -> Array:
        """Angular velocity (3,) of the first link in its own axes, rad/s."""
        return self._axes.T @ self._motion[:3]


def flat(value: object) -> Array:
    """Return the value of a function of a moment as a vector of scalars."""
    return np.asarray(value, dtype=object).reshape(-1)
