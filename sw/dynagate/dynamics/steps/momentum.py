"""First-order steps of floating joints that conserve momentum in free flight.

The velocity of a floating joint is expressed in the rotating axes of its link. Forward dynamics therefore contains the
term -ω × v, which exists only because the axes rotate. Euler's rule applied to this term makes a spinning body faster
in each step. A step here has three parts instead. It adds the acceleration along the axes as they are before the step.
It moves the link's center of mass along a straight line and rotates the link about it. It expresses the velocity in the
axes after the step.

For a single body (a floating link on the base that carries no other link), the angular momentum I ω is rotated in the
same way, so both momenta are exact to rounding. The rotation uses the angular velocity in the middle of the step,
which keeps the energy of a tumbling body to second order in the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dynagate.dynamics.configuration import advance
from dynagate.dynamics.joint_motions import FloatingMotion, motion_of
from dynagate.dynamics.spatial import Array, Scalar, array, cross, zeros
from dynagate.robot import Robot
from dynagate.robot.variable import COM, INERTIA, INERTIAL, PAYLOAD, check_constant

LARGEST_CONDITION = 1e12
"""Largest condition number of an inertia for which a step rotates the angular momentum."""


class _Floating(NamedTuple):
    """A floating joint, its part of q and q̇, and its body."""

    motion: FloatingMotion
    in_q: slice
    """Slice of the joint in q."""
    in_v: slice
    """Slice of the joint in q̇."""
    center: Array
    """Center of mass (3,) in the link's axes, m; zeros if the link carries other links."""
    inertia: Array | None
    """Inertia (3, 3) about the center of mass, kg m²; None if the link carries other links."""
    inverse: Array | None
    """Inverse of the inertia, or None."""

    def gyration(self, rate: Array) -> Array:
        """Return I⁻¹ (ω × I ω), rad/s²: the loss of angular velocity of a body without torque."""
        assert self.inertia is not None
        assert self.inverse is not None
        return np.asarray(self.inverse @ cross(rate, self.inertia @ rate))


def _floating(robot: Robot) -> Iterator[_Floating]:
    """Yield the floating joints of a robot."""
    carrying = {link.parent for link in robot.links}
    for index, (link, in_q, in_v) in enumerate(robot.slices()):
        motion = motion_of(link.joint.type)
        if not isinstance(motion, FloatingMotion):
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
        robot: The robot.
        qd: Velocity (nv,) before the step, rad/s or m/s.
        qdd: Acceleration (nv,) from forward dynamics, rad/s² or m/s².

    Returns:
        The rate (nv,). The robot moves with the velocity `qd + rate * dt` during the step. For a floating joint, its
        angular
        part is the mean over the step, and its linear part gives the center of mass the velocity after the step.
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
    """Return the configuration (nq,) after a step: `advance`, with the center of mass of floating joints on a straight
    line.

    Args:
        robot: The robot.
        q: Configuration (nq,) before the step.
        displacement: Velocity times time (nv,), rad or m, along the axes before the step.
    """
    moved = advance(robot, q, displacement)
    for joint in _floating(robot):
        own, step = q[joint.in_q], displacement[joint.in_v]
        line = step[:3]
        if joint.center.any():
            turned = joint.motion.rotated(step, joint.center)
            line = line + cross(step[3:], joint.center) + joint.center - turned
        moved[joint.in_q.start : joint.in_q.start + 3] = own[:3] + joint.motion.rotation(own) @ line
    return moved


def along_new_axes(robot: Robot, qd: Array, velocity: Array, displacement: Array, dt: Scalar) -> Array:
    """Return the velocity (nv,) after a step, expressed in the axes after the step.

    Args:
        robot: The robot.
        qd: Velocity (nv,) before the step.
        velocity: `qd + rate_along_held_axes(robot, qd, qdd) * dt` (nv,), plus the impulses of contacts.
        displacement: The displacement (nv,) that `displaced` applied.
        dt: The time step, s.
    """
    after = velocity
    for joint in _floating(robot):
        after = after.copy() if after is velocity else after
        own, step = velocity[joint.in_v], displacement[joint.in_v]
        rate, linear = own[3:], own[:3] + cross(own[3:], joint.center)
        if joint.inertia is not None:
            assert joint.inverse is not None
            whole = rate + joint.gyration(qd[joint.in_v][3:]) * (dt * 0.5)
            rate = joint.inverse @ joint.motion.rotated_back(step, joint.inertia @ whole)
            after[joint.in_v.start + 3 : joint.in_v.stop] = rate
        linear = joint.motion.rotated_back(step, linear) - cross(rate, joint.center)
        after[joint.in_v.start : joint.in_v.start + 3] = linear
    return after
