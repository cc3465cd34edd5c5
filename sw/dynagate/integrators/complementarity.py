"""Dry friction by complementarity (Stewart & Trinkle 1996): Newton-Euler steps of velocities, each a linear
complementarity problem that quantecon's Lemke solves. What position-based friction is compared with."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import MissingExtraError
from dynagate.integrators.compiled import compiled
from dynagate.integrators.contact import Contact, ContactError, Plane, Point
from dynagate.integrators.position_based_inertia import add_inertia, add_products, gather
from dynagate.integrators.position_based_inputs import (
    PositionBasedWarning,
    check_positive,
    check_single,
    is_finite,
    shown,
)
from dynagate.integrators.position_based_joints import Joints, Servo, check_servo, joints_of
from dynagate.integrators.position_based_kinematics import move, place
from dynagate.integrators.position_based_links import Floats, Integers, Links, links_of
from dynagate.integrators.position_based_newton_euler import bias, mechanical_energy
from dynagate.integrators.position_based_points import Points, points_of, position_of
from dynagate.robot import Robot

try:
    from quantecon.optimize import lcp_lemke
except ImportError as error:
    raise MissingExtraError("dry friction needs quantecon: pip install 'dynagate[integrators]'") from error

SOFT = 1e-6
"""Compliance of contacts beside a point's own mobility."""

CORRECTED = 0.2
"""Share of a penetration that a step takes back."""


class Slide(NamedTuple):
    """q (steps + 1, nq); qd (nv,): at the end; energy (steps + 1,) in J; contacts, pivots (steps,): points in contact
    and Lemke's pivots; solved (steps,): whether Lemke ended in a solution. Rows after the last finite one are NaN."""

    q: Floats
    qd: Floats
    energy: Floats
    contacts: Integers
    pivots: Integers
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
    """Fills in the generalised forces (5, nv) of unit forces at a point: the normal, two tangents, and minus these."""
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
    rows[3], rows[4] = -rows[1], -rows[2]


@compiled
def _solves(lcp: Floats, right: Floats, z: Floats) -> bool:
    """Whether z ≥ 0, w = lcp z + right ≥ 0 and z · w = 0. Where points share their forces in many ways, Lemke's
    algorithm may end without its sign of success at a solution."""
    w, small = lcp @ z + right, 1e-9 * (1.0 + np.max(np.abs(right)))
    return np.min(z) >= -small and np.min(w) >= -small and np.max(np.abs(z * w)) <= small


@compiled
def _march(
    links: Links, joints: Joints, points: Points, dt: float, mu: float, slide: Slide, v: Floats, target: Floats
) -> None:
    nb, n = len(links.parent), len(v)
    pose, twist = np.empty((nb, 3, 4)), np.empty((n, 6))
    room = len(points.link) * len(points.offset)
    which, gap, five = np.empty((room, 2), np.int64), np.empty(room), np.empty((5, n))
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
        m = _touching(points, pose, dt * (1.0 + np.max(np.abs(v)) * dt), which, gap)
        if m > 0:
            rows = np.empty((5 * m, n))
            for c in range(m):
                _directions(links, points, pose, twist, which[c, 0], which[c, 1], five)
                rows[c] = five[0]
                for a in range(4):
                    rows[m + 4 * c + a] = five[1 + a]
            answer = np.linalg.solve(mass, np.ascontiguousarray(rows.T))
            lcp = np.zeros((6 * m, 6 * m))
            lcp[: 5 * m, : 5 * m] = rows @ answer
            for c in range(5 * m):  # points on a line share their forces in many ways; Lemke needs one
                lcp[c, c] *= 1.0 + SOFT
            right = np.zeros(6 * m)
            right[: 5 * m] = rows @ free
            for c in range(m):
                right[c] += gap[c] / dt if gap[c] > 0.0 else CORRECTED * gap[c] / dt
                lcp[5 * m + c, c] = mu
                for a in range(4):
                    lcp[m + 4 * c + a, 5 * m + c] = 1.0
                    lcp[5 * m + c, m + 4 * c + a] = -1.0
            solution = lcp_lemke(lcp, right)
            free = free + answer @ solution.z[: 5 * m]
            slide.pivots[step] = solution.num_iter
            slide.solved[step] = 1 if solution.success or _solves(lcp, right, solution.z) else 0
        slide.contacts[step] = m
        v[:] = free
        move(links, slide.q[step], dt * v, slide.q[step + 1])
        slide.energy[step + 1] = mechanical_energy(links, slide.q[step + 1], v)
        if not np.max(np.abs(v)) < 1e6:
            return


class StewartTrinkle:
    """Semi-implicit Newton-Euler steps with dry friction of coefficient mu, its cone a pyramid of four sides, and
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
        if not (is_finite(mu) and mu >= 0.0):
            raise ContactError(f"mu is {shown(mu)}; expected a finite number, 0 or more")
        self.robot, self.dt, self.mu = robot, dt, mu
        self._links, self._joints = links_of(robot), joints_of(robot, servo)
        self._points = points_of(robot, Contact(points, planes), None)

    def run(
        self,
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike | None = None,
        steps: int = 1,
        *,
        target: npt.ArrayLike | None = None,
    ) -> Slide:
        """q0 (nq,), qd0 (nv,) or None for rest, target (nv,): what the servo holds, 0 by default.

        Warns of steps without a solution. Raises PositionBasedError: shapes, numbers that are not finite, targets
        without a servo.
        """
        inputs = check_single(self.robot, q0, qd0, steps, target=target)
        check_servo(self._joints, inputs.target)
        v = inputs.qd0.copy()
        slide = Slide(
            qd=v,
            q=np.full((steps + 1, self.robot.nq), np.nan),
            energy=np.full(steps + 1, np.nan),
            contacts=np.zeros(steps, np.int64),
            pivots=np.zeros(steps, np.int64),
            solved=np.ones(steps, np.int64),
        )
        slide.q[0] = inputs.q0
        slide.energy[0] = mechanical_energy(self._links, slide.q[0], v)
        _march(self._links, self._joints, self._points, self.dt, self.mu, slide, v, inputs.target[0])
        self._warn(slide)
        return slide

    def _warn(self, slide: Slide) -> None:
        lost = np.flatnonzero(~np.isfinite(slide.energy))
        unsolved = np.flatnonzero(slide.solved == 0)
        reason = "the motion is not finite any more" if lost.size else "Lemke's algorithm ended without contact forces"
        if lost.size or unsolved.size:
            first, count = (lost[0] - 1, lost.size) if lost.size else (unsolved[0], unsolved.size)
            warnings.warn(
                f"{count} of {len(slide.solved)} steps have no solution, the first of them step {first}: {reason}; "
                f"take a smaller dt than {self.dt:g} s, or fewer points of contact",
                PositionBasedWarning,
                stacklevel=3,
            )
