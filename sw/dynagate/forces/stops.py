"""Hard stops at the position limits of joints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dynagate.base.explained import explained
from dynagate.dynamics.spatial import Array, select, zeros
from dynagate.forces.force import Force, ForceContext
from dynagate.robot import Robot


@explained
@dataclass(frozen=True)
class Stops(Force):
    """Stop every joint at its position limits, where it loses its velocity.

    At the end of a step, a joint beyond a limit is moved back to the limit. The explicit integrators accept `Stops`,
    with every time step. `Limits` is a spring instead, which every integrator accepts.
    """

    once: ClassVar[bool] = True
    after_steps: ClassVar[bool] = True

    def torque(self, now: ForceContext) -> Array:
        """Return zeros (nv,): stops act at the end of a step."""
        return zeros(now.robot.nv)

    def after_step(self, robot: Robot, q: Array, qd: Array) -> tuple[Array, Array]:
        """Return the state with every joint within its limits; a joint that was outside has velocity 0."""
        q, qd = q.copy(), qd.copy()
        for joint, iq, iv in robot.moving():
            for limit, sign in zip(robot.reach(joint), (-1.0, 1.0), strict=True):
                if limit is not None:
                    a, b = iq.start, iv.start
                    beyond = (q[a] - limit) * sign
                    q[a], qd[b] = select(beyond, limit, q[a]), select(beyond, 0.0, qd[b])
        return q, qd
