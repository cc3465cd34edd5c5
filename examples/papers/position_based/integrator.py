"""Position-based steps of articulated bodies (Pan & Manocha 2018, 2019) by all orders, optimizers and objectives.

`dynagate.Rollout(robot, integrator="position_based")` takes order 2 by Levenberg-Marquardt, on every device.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from dynagate.forces.contact import Contact
from dynagate.forces.drag import Drag
from dynagate.forces.servo import Servo
from dynagate.integrators.implicit.collocation import collocation
from dynagate.integrators.limits import warn_beyond_limits
from dynagate.robot import Robot

from examples.papers.position_based.equation_5 import run_energy
from examples.papers.position_based.equation_7 import run_residual
from examples.papers.position_based.inputs import (
    Inputs,
    PositionBasedError,
    PositionBasedWarning,
    check_inputs,
    check_kind,
    check_positive,
    check_servo,
    check_whole,
)
from examples.papers.position_based.joints import joints_of
from examples.papers.position_based.kinematics import move
from examples.papers.position_based.links import Floats, Integers, links_of
from examples.papers.position_based.newton_euler import accelerations, body_acceleration, mechanical_energy
from examples.papers.position_based.points import points_of
from examples.papers.position_based.state import Problem, Record, Settings

METHODS = ("lm", "lm-full", "lbfgs")
LONGEST_STEP_OF_ORDER_3 = 0.005
"""s; at 0.01 and above, steps of order 3 of a chain of ten 1 m links were seen to stick."""


FREEDOMS_THAT_STICK = 200
"""With so many degrees of freedom, a few steps of order 3 stick at 0.0025 s too."""

ROUNDING = 1e-17
"""Beside the weight, float64's rounding of positions was seen to leave forces of this times the reach over g dt²."""


@dataclass(frozen=True)
class Trajectory:
    """What `PositionBased.run` returns; a batch of starts has its axis in front.

    times (steps + 1,) in s; q (..., steps + 1, nq); energy (..., steps + 1): kinetic and potential in J;
    iterations (..., steps); residual (..., steps): largest force left, over the tolerance; 1 or less has converged.
    """

    times: Floats
    q: Floats
    energy: Floats
    iterations: Integers
    residual: Floats

    @property
    def converged(self) -> npt.NDArray[np.bool_]:
        """(..., steps)."""
        return self.residual <= 1.0


class PositionBased:
    """A robot's time steps as an optimization over positions.

    robot: a tree of revolute, prismatic, spherical and floating joints. dt: s.
    order: K. 2 is implicit and loses energy; 3 is of second order and keeps it at small steps; 4 and above are unstable
    for some frequencies, which a warning says.
    objective: "energy" minimizes Equation 5 (6 with contact), "forces" the square of its gradient, Equation 7 (13).
    None: the energy where there is one, which is at order 2 and without "pbfd" contact.
    method: "lm", Levenberg-Marquardt on the part of the Hessian that is a square's: for the energy that is M/dt²,
    solved in O(n); "lm-full", with the full Hessian of the energy; "lbfgs", SciPy's.
    contact, drag, servo: forces; at order 2. tolerance: largest force left in a step, beside the robot's weight (and,
    for torques, its reach); a robot without gravity counts 9.81 m/s². iterations: most of them a step.
    threads: None for one per processor; trajectories of a batch are shared among them.

    Raises PositionBasedError: options that do not go together; ContactError: a point on no link of the robot.
    """

    def __init__(
        self,
        robot: Robot,
        dt: float,
        *,
        order: int = 2,
        method: Literal["lm", "lm-full", "lbfgs"] = "lm",
        objective: Literal["energy", "forces"] | None = None,
        contact: Contact | None = None,
        drag: Drag | None = None,
        servo: Servo | None = None,
        tolerance: float = 1e-7,
        iterations: int = 1000,
        threads: int | None = None,
    ) -> None:
        self.links = links_of(robot)
        check_kind("contact", contact, Contact)
        check_kind("drag", drag, Drag)
        damped = any(link.joint.damping or link.joint.armature for link in robot.links)
        self.objective = _check(
            dt, order, method, objective, contact, bool(drag or servo or damped), tolerance, iterations, threads
        )
        _warn_of_order(order, dt, robot.nv)
        self.robot, self.dt, self.order, self.method, self.tolerance = robot, dt, order, method, tolerance
        self.threads = threads or os.cpu_count() or 1
        self.points = points_of(robot, contact, drag)
        self.joints = joints_of(robot, servo)
        weights = collocation(order)
        pull = float(np.linalg.norm(robot.gravity)) or 9.81
        weight = pull * sum(link.mass for link in robot.links)
        if weight == 0.0:
            raise PositionBasedError(f"robot '{robot.name}' has no mass; expected some")
        self._rounding = ROUNDING * float(self.links.size.max()) / pull / dt**2
        _warn_of_rounding(self._rounding, tolerance, dt)
        self.settings = Settings(
            dt=float(dt),
            scale=tolerance * weight * self.links.size,
            most=iterations,
            exact=method == "lm-full" or self.objective == "forces",
            second=weights.second,
            first=weights.first[-1],
            times=weights.times,
        )

    def run(
        self,
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike | None = None,
        steps: int = 1,
        *,
        tau: npt.ArrayLike | None = None,
        target: npt.ArrayLike | None = None,
    ) -> Trajectory:
        """Steps from q0 (nq,) or (batch, nq) and qd0 (nv,) or (batch, nv), at rest by default.

        tau: torques (N m, N) at revolute and prismatic joints, target: angles or distances that the servo holds; both
        (nv,), (steps, nv) or (batch, steps, nv), 0 by default. Warns if a step has not converged, and of joints that
        pass their limits. Raises PositionBasedError: shapes, numbers that are not finite, torques or targets at joints
        with quaternions, targets without a servo.
        """
        inputs = check_inputs(self.robot, q0, qd0, steps, tau=tau, target=target)
        check_servo(self.joints, inputs.target)
        batch = len(inputs.q0)
        record = Record(
            q=np.empty((batch, steps + 1, self.robot.nq)),
            energy=np.empty((batch, steps + 1)),
            iterations=np.zeros((batch, steps), np.int64),
            residual=np.zeros((batch, steps)),
        )
        record.q[:, 0] = inputs.q0
        for b in range(batch):
            record.energy[b, 0] = mechanical_energy(self.links, inputs.q0[b], inputs.qd0[b])
        self._each(inputs, record)
        self._warn_of_stuck(record)
        warn_beyond_limits(self.robot, record.q)
        if inputs.single:
            record = Record(*(values[0] for values in record))
        times: Floats = self.dt * np.arange(steps + 1, dtype=np.float64)
        return Trajectory(times, record.q, record.energy, record.iterations, record.residual)

    def _each(self, inputs: Inputs, record: Record) -> None:
        """Fills in the record, trajectory by trajectory."""
        batch = len(inputs.q0)
        waiting = deque(range(batch))  # a thread that has done a trajectory takes the next

        def work() -> None:
            while True:
                try:
                    b = waiting.popleft()
                except IndexError:
                    return
                start, speed, torque = inputs.q0[b], inputs.qd0[b], inputs.tau[b]
                part = Record(*(values[b] for values in record))
                self._march(self._before(start, speed, torque), torque, inputs.target[b], part)

        if min(self.threads, batch) == 1 or self.method == "lbfgs":
            work()
        else:
            with ThreadPoolExecutor(min(self.threads, batch)) as pool:
                for future in [pool.submit(work) for _ in range(min(self.threads, batch))]:
                    future.result()

    def _march(self, before: Floats, torques: Floats, targets: Floats, record: Record) -> None:
        parts = (Problem(self.links, self.points, self.joints, self.settings), before, torques, targets, record)
        if self.method == "lbfgs":
            from examples.papers.position_based.lbfgs import run_lbfgs

            run_lbfgs(*parts, energy=self.objective == "energy")
        else:
            (run_energy if self.objective == "energy" else run_residual)(*parts)

    def _before(self, q0: Floats, qd0: Floats, tau: Floats) -> Floats:
        """The configuration at the collocation's node before the start: to first order where the steps are, else to
        second, by forward dynamics."""
        time = self.settings.times[0] * self.dt
        tangent = time * qd0
        if self.order > 2:
            qdd = accelerations(self.links, self.joints, q0, qd0, tau[0])
            tangent = tangent + 0.5 * time**2 * body_acceleration(self.links, qd0, qdd)
        before = np.empty_like(q0)
        move(self.links, q0, tangent, before)
        return before

    def _warn_of_stuck(self, record: Record) -> None:
        stuck = record.residual > 1.0
        if np.any(stuck):
            b, k = np.argwhere(stuck)[0]
            advice = f"take a smaller dt than {self.dt:g} s, or more iterations than {self.settings.most}"
            if self._rounding > self.tolerance:
                advice = f"rounding hides smaller ones; take a larger tolerance than {self.tolerance:g}, or a larger dt"
            where = f" of trajectory {b}" if len(stuck) > 1 else ""
            warnings.warn(
                f"{np.count_nonzero(stuck)} of {stuck.size} steps did not converge, the first of them step {k}{where}, "
                f"whose largest force is {record.residual[b, k]:.3g} times the tolerance; {advice}",
                PositionBasedWarning,
                stacklevel=3,
            )


def _check(
    dt: float,
    order: int,
    method: str,
    objective: str | None,
    contact: Contact | None,
    other_forces: bool,
    tolerance: float,
    iterations: int,
    threads: int | None,
) -> str:
    """The objective. Raises PositionBasedError."""
    check_positive("dt", dt)
    check_positive("tolerance", tolerance)
    check_whole("order", order, 2)
    check_whole("iterations", iterations)
    check_whole("threads", 1 if threads is None else threads)
    if method not in METHODS:
        raise PositionBasedError(f"method '{method}'; expected one of {', '.join(METHODS)}")
    pbfd = contact is not None and contact.model == "pbfd"
    if objective not in (None, "energy", "forces"):
        raise PositionBasedError(f"objective '{objective}'; expected 'energy' or 'forces'")
    objective = objective or ("forces" if order > 2 or pbfd else "energy")
    if order > 2 and objective == "energy":
        raise PositionBasedError(f"order {order} has no energy; take objective 'forces', or order 2")
    if order > 2 and (contact or other_forces):
        raise PositionBasedError(f"order {order} takes no contact, drag, servo, damping or armature; take order 2")
    if pbfd and objective == "energy":
        raise PositionBasedError("'pbfd' contact has no energy; take objective 'forces', or contact model 'pbd'")
    if method == "lm-full" and objective == "forces":
        raise PositionBasedError("method 'lm-full' would need third derivatives of the energy; take 'lm' or 'lbfgs'")
    return objective


def _warn_of_order(order: int, dt: float, nv: int) -> None:
    if order == 3 and nv >= FREEDOMS_THAT_STICK:
        warnings.warn(
            f"order 3 with {nv} degrees of freedom: of a chain of 100 links of 0.2 m, with {FREEDOMS_THAT_STICK}, "
            "2 of 400 steps were seen to stick at dt 0.0025 s; watch `converged`, or take order 2",
            PositionBasedWarning,
            stacklevel=3,
        )
    elif order == 3 and dt > LONGEST_STEP_OF_ORDER_3:
        warnings.warn(
            f"order 3 at dt {dt:g} s: steps of a chain of ten 1 m links were seen to stick from 0.01 s on, none at "
            f"{LONGEST_STEP_OF_ORDER_3:g} s; watch `converged`",
            PositionBasedWarning,
            stacklevel=3,
        )
    if order >= 4:
        limits = (
            "0.026 < ω dt < 6.84, by up to 1.28 a step" if order == 4 else "ranges of ω dt, order 5 by up to 2.3 a step"
        )
        warnings.warn(
            f"order {order} is experimental: oscillations of frequency ω grow for {limits}; take order 2 or 3",
            PositionBasedWarning,
            stacklevel=3,
        )


def _warn_of_rounding(rounding: float, tolerance: float, dt: float) -> None:
    if rounding > tolerance:
        warnings.warn(
            f"tolerance {tolerance:g} at dt {dt:g} s: the rounding of positions was seen to leave forces of about "
            f"{rounding:.1g} beside the weight; take a larger tolerance or dt",
            PositionBasedWarning,
            stacklevel=3,
        )
