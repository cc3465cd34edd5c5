"""First-order steps of floating joints that keep momentum in free flight.

The velocity of a floating joint is written along the axes of its link, which turn. Forward dynamics gives the rate of
these numbers, -ω × v of it only because the axes turn; Euler's rule for that part makes a spinning body faster with
each step. A step therefore has three parts. It adds the acceleration along axes that stay as they are before the
step. It moves the center of mass of the link along a straight line and turns the link about it. It writes the velocity
along the axes after the step, by the rotation of the step itself.

For a single body (a floating link on the base that carries no other link) the angular momentum I ω is turned in the
same way, so both momenta are exact to rounding. The rotation takes the angular velocity in the middle of the step,
which keeps the energy of a tumbling body to second order of the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dynagate.dynamics.configuration import advance
from dynagate.dynamics.joint_motions import Free, motion_of
from dynagate.dynamics.spatial import Array, Scalar, array, cross, zeros
from dynagate.robot import Robot
from dynagate.robot.variable import COM, INERTIA, INERTIAL, PAYLOAD, check_constant

LARGEST_CONDITION = 1e12
"""Condition number of an inertia, from which on a step does not turn its angular momentum."""


class _Floating(NamedTuple):
    """A floating joint: where its numbers are, and its body.

    center: (3,) of the mass, m in the link's axes; zeros if the link carries other links.
    inertia, inverse: (3, 3) about the center, kg m², and its inverse; None if the link carries other links.
    """

    motion: Free
    in_q: slice
    in_v: slice
    center: Array
    inertia: Array | None
    inverse: Array | None

    def gyration(self, rate: Array) -> Array:
        """Return I⁻¹ (ω × I ω), rad/s²: what a body without torque loses of its angular velocity."""
        assert self.inertia is not None
        assert self.inverse is not None
        return np.asarray(self.inverse @ cross(rate, self.inertia @ rate))


def _floating(robot: Robot) -> Iterator[_Floating]:
    carrying = {link.parent for link in robot.links}
    for index, (link, in_q, in_v) in enumerate(robot.slices()):
        motion = motion_of(link.joint.type)
        if not isinstance(motion, Free):
            continue
        alone = link.parent < 0 and index not in carrying
        if alone:
            check_constant(
                robot, "a first-order step of a body in free flight", (INERTIAL, COM, INERTIA, PAYLOAD), index
            )
        inertia = np.array(link.inertia, dtype=np.float64)
        turns = alone and np.linalg.cond(inertia) < LARGEST_CONDITION
        yield _Floating(
            motion,
            in_q,
            in_v,
            array(list(link.com)) if alone else zeros(3),
            array(inertia) if turns else None,
            array(np.linalg.inv(inertia)) if turns else None,
        )


def rate_along_held_axes(robot: Robot, qd: Array, qdd: Array) -> Array:
    """Return the rate (nv,) of the velocity along axes that stay as they are before a step.

    Args:
        robot: the robot.
        qd: (nv,) velocity before the step, rad/s or m/s.
        qdd: (nv,) acceleration from forward dynamics, rad/s² or m/s².

    Returns:
        (nv,). The velocity `qd + rate * dt` is the one that a step moves with: of a floating joint its turn is the mean
        of the step, and with it the center of mass has the velocity after the step.
    """
    rates = qdd
    for joint in _floating(robot):
        rates = rates.copy() if rates is qdd else rates
        speed, rate = qd[joint.in_v][:3], qd[joint.in_v][3:]
        linear = cross(rate, speed + cross(rate, joint.center))
        if joint.inertia is not None:
            half = joint.gyration(rate) * 0.5
            rates[joint.in_v.start + 3 : joint.in_v.stop] = qdd[joint.in_v][3:] + half
            linear = linear - cross(half, joint.center)
        rates[joint.in_v.start : joint.in_v.start + 3] = qdd[joint.in_v][:3] + linear
    return rates


def displaced(robot: Robot, q: Array, displacement: Array) -> Array:
    """Return the configuration (nq,) after a step. displacement: (nv,), velocity times time, rad or m, along the axes
    before the step. It is `advance`, but for floating joints, whose center of mass moves along a straight line."""
    moved = advance(robot, q, displacement)
    for joint in _floating(robot):
        own, step = q[joint.in_q], displacement[joint.in_v]
        line = step[:3]
        if joint.center.any():
            turned = joint.motion.carried(step, joint.center)
            line = line + cross(step[3:], joint.center) + joint.center - turned
        moved[joint.in_q.start : joint.in_q.start + 3] = own[:3] + joint.motion.rotation(own) @ line
    return moved


def along_new_axes(robot: Robot, qd: Array, velocity: Array, displacement: Array, dt: Scalar) -> Array:
    """Return the velocity (nv,) after a step, along the axes after it.

    Args:
        robot: the robot.
        qd: (nv,) velocity before the step.
        velocity: (nv,) `qd + rate_along_held_axes(robot, qd, qdd) * dt`, and more by the impulses of contacts.
        displacement: (nv,) with which `displaced` has moved the robot.
        dt: s.
    """
    after = velocity
    for joint in _floating(robot):
        after = after.copy() if after is velocity else after
        own, step = velocity[joint.in_v], displacement[joint.in_v]
        rate, linear = own[3:], own[:3] + cross(own[3:], joint.center)
        if joint.inertia is not None:
            assert joint.inverse is not None
            whole = rate + joint.gyration(qd[joint.in_v][3:]) * (dt * 0.5)
            rate = joint.inverse @ joint.motion.carried_back(step, joint.inertia @ whole)
            after[joint.in_v.start + 3 : joint.in_v.stop] = rate
        linear = joint.motion.carried_back(step, linear) - cross(rate, joint.center)
        after[joint.in_v.start : joint.in_v.start + 3] = linear
    return after
