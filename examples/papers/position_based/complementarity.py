"""Dry friction by complementarity (Stewart & Trinkle 1996): Newton-Euler steps of velocities, each a complementarity
problem, with a round cone in place of their pyramid. What position-based friction is compared with."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.base.arguments import AT_LEAST_ZERO, number
from dynagate.forces.contact import Contact, ContactError, Plane, Point
from dynagate.forces.servo import Servo
from dynagate.integrators.limits import warn_beyond_limits
from dynagate.robot import Robot

from examples.papers.compiled import compiled
from examples.papers.position_based.friction_cone import impulses
from examples.papers.position_based.inertia import add_inertia, add_products, gather
from examples.papers.position_based.inputs import (
    PositionBasedWarning,
    check_positive,
    check_servo,
    check_single,
)
from examples.papers.position_based.joints import Joints, joints_of
from examples.papers.position_based.kinematics import move, place
from examples.papers.position_based.links import Floats, Integers, Links, links_of
from examples.papers.position_based.newton_euler import bias, mechanical_energy
from examples.papers.position_based.points import Points, points_of, position_of

CORRECTED = 0.2
"""Share of a penetration that a step takes back."""

FASTEST = 1e6
"""rad/s or m/s: a motion that is faster has no meaning any more."""


class Slide(NamedTuple):
    """q (steps + 1, nq); qd (nv,): at the end; energy (steps + 1,) in J; contacts, iterations (steps,): points in
    contact, and how often their impulses were improved; solved (steps,): whether the step was taken. The motion ends
    before the first step that was not: then qd is that of the last state, and rows after it are NaN."""

    q: Floats
    qd: Floats
    energy: Floats
    contacts: Integers
    iterations: Integers
    solved: Integers


@compiled
def _touching(points: Points, pose: Floats, margin: float, which: Integers, gap: Floats) -> int:
    """Fills in pairs of point and plane nearer than the margin, and their gaps; returns their number."""
    count, p = 0, np.empty(3)
    for k in range(len(points.link)):
        position_of(pose[points.link[k]], points.position[k], p)
        for s in range(len(points.offset)):
            distance = np.dot(points.normal[s], p) - points.offset[s]
            if distance < margin:
                which[count, 0], which[count, 1], gap[count] = k, s, distance
                count += 1
    return count


@compiled
def _directions(links: Links, points: Points, pose: Floats, twist: Floats, k: int, s: int, rows: Floats) -> None:
    """Fills in the generalized forces (3, nv) of unit forces at a point: the normal and two tangents."""
    p, n = np.empty(3), points.normal[s]
    position_of(pose[points.link[k]], points.position[k], p)
    first = np.zeros(3)
    first[np.argmin(np.abs(n))] = 1.0
    t = np.cross(n, first)
    t /= np.sqrt(np.dot(t, t))
    sides = np.empty((3, 3))
    sides[0], sides[1], sides[2] = n, t, np.cross(n, t)
    d = len(links.link_of) - 1
    while d >= 0 and links.link_of[d] > points.link[k]:
        d -= 1
    wrench = np.empty(6)
    rows[:] = 0.0
    for a in range(3):
        wrench[:3], wrench[3:] = np.cross(p, sides[a]), sides[a]
        e = d
        while e >= 0:
            rows[a, e] = np.dot(wrench, twist[e])
            e = links.above[e]


@compiled
def _march(
    links: Links, joints: Joints, points: Points, dt: float, mu: float, slide: Slide, v: Floats, target: Floats
) -> int:
    """Returns the steps taken: all, or as many as there are until contacts have no impulses or the motion is not finite
    any more."""
    nb, n = len(links.parent), len(v)
    pose, twist = np.empty((nb, 3, 4)), np.empty((n, 6))
    room = len(points.link) * len(points.offset)
    which, gap, held = np.empty((room, 2), np.int64), np.empty(room), np.zeros((room, 3))
    for step in range(len(slide.contacts)):
        place(links, slide.q[step], pose, twist)
        inertia = np.zeros((nb, 6, 6))
        add_inertia(links, pose, pose, 1.0, inertia)
        force = -bias(links, twist, inertia, v) - joints.damping * v
        for d in range(n):
            if joints.place[d] >= 0:
                force[d] -= joints.stiffness[d] * (slide.q[step, joints.place[d]] + dt * v[d] - target[d])
        gather(links, inertia)
        mass = np.diag(joints.armature + dt * joints.damping + dt**2 * joints.stiffness)  # both act at the step's end
        add_products(links, twist, twist, inertia, mass)
        free = v + dt * np.linalg.solve(mass, force)
        slide.contacts[step] = m = _touching(points, pose, dt * (1.0 + np.max(np.abs(v)) * dt), which, gap)
        if m > 0:
            rows, r, near = np.empty((3 * m, n)), np.empty(3 * m), np.zeros((room, 3))
            for c in range(m):
                _directions(links, points, pose, twist, which[c, 0], which[c, 1], rows[3 * c : 3 * c + 3])
                r[3 * c : 3 * c + 3] = held[which[c, 0] * len(points.offset) + which[c, 1]]
            answer = np.linalg.solve(mass, np.ascontiguousarray(rows.T))
            velocity = rows @ free
            for c in range(m):
                velocity[3 * c] += gap[c] / dt if gap[c] > 0.0 else CORRECTED * gap[c] / dt
            slide.iterations[step] = impulses(rows @ answer, velocity, mu, r)
            if slide.iterations[step] < 0:
                return step
            free = free + answer @ r
            for c in range(m):
                near[which[c, 0] * len(points.offset) + which[c, 1]] = r[3 * c : 3 * c + 3]
            held = near
        if not np.max(np.abs(free)) < FASTEST:
            return step
        v[:] = free
        move(links, slide.q[step], dt * v, slide.q[step + 1])
        slide.energy[step + 1] = mechanical_energy(links, slide.q[step + 1], v)
        slide.solved[step] = 1
    return len(slide.solved)


class StewartTrinkle:
    """Semi-implicit Newton-Euler steps with dry friction of coefficient mu, the same in all directions, and
    inelastic contacts. Damping and the servo act at the step's end.

    Raises PositionBasedError: dt; ContactError: mu or points that have no meaning; ServoError: see `joints_of`."""

    def __init__(
        self,
        robot: Robot,
        dt: float,
        points: Sequence[Point],
        planes: Sequence[Plane] = (Plane(),),
        mu: float = 0.5,
        servo: Servo | None = None,
    ) -> None:
        check_positive("dt", dt)
        number("mu is ", mu, AT_LEAST_ZERO, ContactError)
        self.robot, self.dt, self.mu = robot, dt, mu
        self.links, self.joints = links_of(robot), joints_of(robot, servo)
        self.points = points_of(robot, Contact(points, planes), None)

    def run(
        self,
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike | None = None,
        steps: int = 1,
        *,
        target: npt.ArrayLike | None = None,
    ) -> Slide:
        """q0 (nq,), qd0 (nv,) or None for rest, target (nv,): what the servo holds, 0 by default.

        Warns of a step without a solution, before which the motion ends, and of joints that pass their limits. Raises
        PositionBasedError: shapes, numbers that are not finite, targets without a servo.
        """
        inputs = check_single(self.robot, q0, qd0, steps, target=target)
        check_servo(self.joints, inputs.target)
        v = inputs.qd0.copy()
        slide = Slide(
            qd=v,
            q=np.full((steps + 1, self.robot.nq), np.nan),
            energy=np.full(steps + 1, np.nan),
            contacts=np.zeros(steps, np.int64),
            iterations=np.zeros(steps, np.int64),
            solved=np.zeros(steps, np.int64),
        )
        slide.q[0] = inputs.q0
        slide.energy[0] = mechanical_energy(self.links, slide.q[0], v)
        taken = _march(self.links, self.joints, self.points, self.dt, self.mu, slide, v, inputs.target[0])
        if taken < steps:
            lost = slide.iterations[taken] < 0
            reason = "contacts have no impulses" if lost else "the motion is not finite any more"
            warnings.warn(
                f"{steps - taken} of {steps} steps have no solution, the first of them step {taken}: {reason}; "
                f"take a smaller dt than {self.dt:g} s, or fewer points of contact",
                PositionBasedWarning,
                stacklevel=2,
            )
        warn_beyond_limits(self.robot, slide.q)
        return slide
