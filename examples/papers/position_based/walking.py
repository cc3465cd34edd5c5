"""A legged robot's task of walking, for many of them at once: what actions do, what is seen, what is earned."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate import Rollout
from dynagate.base.arguments import AT_LEAST_ZERO, FINITE, Accepted, number, shown
from dynagate.base.errors import ArgumentError
from dynagate.forces.contact import Contact, Plane
from dynagate.forces.servo import Servo
from dynagate.integrators import RigidContact
from dynagate.integrators.implicit.position_based_method import PositionBasedIntegrator
from dynagate.integrators.limits import LimitWatch
from dynagate.robot import Robot

from examples.papers.position_based.complementarity import StewartTrinkle
from examples.papers.position_based.inputs import PositionBasedWarning, check_positive
from examples.papers.position_based.integrator import PositionBased
from examples.papers.position_based.kinematics import move, subtract
from examples.papers.position_based.legged import LEGGED
from examples.papers.position_based.links import Floats, links_of

CONTROL = 0.05
"""s that an action holds."""

DEPTH, GRIP, MU = 0.01, 3.0, 0.8
"""Contact: how deep all feet rest, m, which gives C⊥; C∥ dt / C⊥ in s/m, so μ = 1 at 0.33 m/s; the coefficient of dry
friction. Twice the grip leaves some steps of the spider without a solution."""

MOVES, SWEEPS = 1e-4, 2000
"""Of rigid contact: m/s by which the last sweep may move a point, and most sweeps of a step. Points of one foot share a
load in many ways, among which sweeps are slow to choose."""

Simulator = Literal["pbfd", "newton-euler", "contact"]
STEPS: dict[Simulator, float] = {"pbfd": 0.025, "newton-euler": 0.0025, "contact": 0.0025}
"""Simulator -> its time step in s."""

FORWARD = 5.0
"""Reward of 1 m/s beside that of standing. At 2.0 the walker learned to stand still."""

OPTIONS = {"push": 0.0, "noise": 0.02}
"""Of a start: the base's speed along x in m/s, the range of joint angles in rad and speeds in rad/s."""

Flags = npt.NDArray[np.bool_]


class Outcome(NamedTuple):
    """Of an action, by robot: q (batch, nq) and q̇ (batch, nv) after it, reward, whether it has fallen, and whether all
    steps had a solution, (batch,)."""

    q: Floats
    qd: Floats
    reward: Floats
    fallen: Flags
    converged: Flags


class ServoedRollout:
    """`dynagate.Rollout` on rigid ground with servos that act at the end of each step: (M + dt D + dt² K) (v⁺ - v) / dt
    with the torque -K (q + dt v - target) - D v, D and K on the diagonal as rotors are."""

    def __init__(self, robot: Robot, dt: float, ground: RigidContact, servo: Servo) -> None:
        held = servo.held(robot)
        more = dt * servo.damping + dt**2 * servo.stiffness
        joints = (link.joint for link in robot.links)
        rotors = [replace(own, armature=own.armature + more * (own.name in held)) for own in joints]
        links = tuple(replace(link, joint=own) for link, own in zip(robot.links, rotors, strict=True))
        self._steps = Rollout(replace(robot, links=links), steps=1, dt=dt, contacts=ground)
        self._servo, self._dt, self._sweeps = servo, dt, ground.sweeps
        places = [(iq.start, iv.start) for joint, iq, iv in robot.moving() if joint.name in held]
        self._in_q, self._in_v = np.array(places).T

    def run(self, q: Floats, qd: Floats, steps: int, target: Floats) -> tuple[Floats, Floats, Flags]:
        """q (batch, nq) and q̇ (batch, nv) after so many steps towards a target (batch, nv), and whether every step
        has found its impulses (batch,)."""
        found: Flags = np.ones(len(q), bool)
        torque = np.zeros((len(q), 1, qd.shape[1]))
        for _ in range(steps):
            rates = qd[:, self._in_v]
            away = q[:, self._in_q] + self._dt * rates - target[:, self._in_v]
            torque[:, 0, self._in_v] = -self._servo.stiffness * away - self._servo.damping * rates
            motion = self._steps(q, qd, torque)
            q, qd = motion.q[:, -1], motion.qd[:, -1]
            found &= motion.iterations[:, -1] < self._sweeps
        return q, qd, found


class WalkingTask:
    """The task of a robot on a simulator in steps of dt s, None for that of STEPS; an episode takes `span` seconds.

    batch: many robots at a time, for which "pbfd" is a rollout where it can be. threads: of `PositionBased`.
    size: numbers of an observation. motors: of an action.
    Raises ValueError: an unknown name, a dt that CONTROL is no multiple of, a span that is no number or too short.
    """

    def __init__(
        self,
        robot: str,
        simulator: Simulator,
        dt: float | None,
        span: float,
        *,
        batch: bool = False,
        threads: int | None = 1,
    ) -> None:
        if robot not in tuple(LEGGED):
            raise ArgumentError(f"robot '{robot}'; expected one of {', '.join(LEGGED)}")
        if simulator not in tuple(STEPS):
            raise ArgumentError(f"simulator '{simulator}'; expected one of {', '.join(STEPS)}")
        self.legged, self.simulator, self.batch = LEGGED[robot](), simulator, batch
        self.dt = STEPS[simulator] if dt is None else dt
        check_positive("dt", self.dt)
        self._hold = round(CONTROL / self.dt)
        if self._hold < 1 or abs(self._hold * self.dt - CONTROL) > 1e-9:
            raise ArgumentError(f"dt is {self.dt:g} s; expected {CONTROL} s over a whole number")
        number("span is ", span, Accepted(f"a finite number of s, {CONTROL} or more", least=CONTROL))
        self.actions = round(span / CONTROL)
        own = self.legged.robot
        weight = float(np.linalg.norm(own.gravity)) * sum(link.mass for link in own.links)
        stiffness = weight / len(self.legged.feet) / DEPTH**2
        contact = Contact(self.legged.feet, (Plane(),), stiffness, stiffness * GRIP / self.dt)
        self.links = links_of(own)
        self._steps: PositionBased | StewartTrinkle | Rollout | ServoedRollout
        servo = self.legged.servo
        if simulator == "contact":
            ground = RigidContact(self.legged.feet, (Plane(),), MU, tolerance=MOVES, sweeps=SWEEPS)
            self._steps = ServoedRollout(own, self.dt, ground, servo)
        elif simulator == "pbfd":
            if batch and not own.quaternions():
                method, forces = PositionBasedIntegrator(iterations=60), [contact, servo]
                self._steps = Rollout(own, steps=self._hold, dt=self.dt, integrator=method, forces=forces)
            else:
                self._steps = PositionBased(own, self.dt, contact=contact, servo=servo, iterations=60, threads=threads)
        else:
            self._steps = StewartTrinkle(own, self.dt, self.legged.feet, mu=MU, servo=servo)
        self._watch = LimitWatch(own, (), kept=True)  # simulators say themselves which positions they pass
        self._watch.of_efforts &= not isinstance(self._steps, ServoedRollout)  # this one also what it is given
        self._motors = self.legged.motors
        self.motors = own.nv - self._motors.start
        self.size = own.nq - self.legged.height + own.nv

    def start(self, random: np.random.Generator, options: Mapping[str, Any] | None) -> tuple[Floats, Floats]:
        """q (nq,) and q̇ (nv,) of an episode around the stance. Raises ValueError: options that are not OPTIONS'."""
        chosen = {**OPTIONS, **(options or {})}
        if unknown := sorted(chosen.keys() - OPTIONS.keys()):
            raise ArgumentError(f"reset has no option {', '.join(unknown)}; expected {', '.join(OPTIONS)}")
        for name, value in chosen.items():
            number(f"reset has {name} ", value, AT_LEAST_ZERO if name == "noise" else FINITE)
        offset, qd = np.zeros((2, self.legged.robot.nv))
        for values in (offset, qd):
            values[self._motors] = random.uniform(-chosen["noise"], chosen["noise"], self.motors)
        q = np.empty_like(self.legged.stance)
        move(self.links, self.legged.stance, offset, q)
        qd[0] = chosen["push"]
        return q, qd

    def bounded(self, actions: npt.ArrayLike, *batch: int) -> Floats:
        """Actions (*batch, motors) within -1 and 1. Raises ValueError: of another shape, or not finite."""
        shape = (*batch, self.motors)
        if np.shape(actions) != shape or not np.isfinite(actions).all():
            raise ArgumentError(f"action is {shown(actions)}; expected finite numbers of shape {shape}")
        return np.clip(np.asarray(actions, float), -1.0, 1.0)

    def step(self, q: Floats, qd: Floats, bounded: Floats) -> Outcome:
        """CONTROL seconds of q (batch, nq) and q̇ (batch, nv) by actions (batch, motors) of `bounded`. A robot that the
        simulator loses stays where it was, and has fallen."""
        target = np.zeros_like(qd)
        target[:, self._motors] = self.legged.stance[-self.motors :] + self.legged.swing * bounded
        after, speeds, converged = self._advanced(q, qd, target)
        self._watch.look(np.stack([q, after], axis=1), self._torques(after, speeds, target))
        with np.errstate(invalid="ignore"):
            sound: Flags = np.all(np.isfinite(after), axis=1) & np.all(np.abs(speeds) < 1e3, axis=1)
        after, speeds = np.where(sound[:, None], after, q), np.where(sound[:, None], speeds, qd)
        fallen = ~sound | self._has_fallen(after)
        forward = (after[:, 0] - q[:, 0]) / CONTROL
        reward = FORWARD * forward + ~fallen - 0.1 * np.square(bounded).mean(axis=1)
        return Outcome(after, speeds, reward, fallen, converged & sound)

    def _torques(self, q: Floats, qd: Floats, target: Floats) -> Floats:
        """(batch, nv) of the servos at a state, N m."""
        torques, joints = np.zeros_like(qd), self._motors
        away = q[:, q.shape[1] - self.motors :] - target[:, joints]
        torques[:, joints] = -self.legged.stiffness * away - self.legged.damping * qd[:, joints]
        return torques

    def _advanced(self, q: Floats, qd: Floats, target: Floats) -> tuple[Floats, Floats, Flags]:
        """q and q̇ after CONTROL seconds, and whether all steps had a solution."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PositionBasedWarning)  # `converged` says it
            if isinstance(self._steps, StewartTrinkle):
                states = zip(q, qd, target, strict=True)
                slides = [self._steps.run(x, v, self._hold, target=to) for x, v, to in states]
                ends, speeds = np.array([slide.q[-1] for slide in slides]), np.array([slide.qd for slide in slides])
                return ends, speeds, np.array([slide.solved.all() for slide in slides], bool)
            if isinstance(self._steps, ServoedRollout):
                return self._steps.run(q, qd, self._hold, target)
            if isinstance(self._steps, Rollout):
                torques = np.zeros((len(q), self._hold, qd.shape[1]))
                motion = self._steps(q, qd, torques, target=np.repeat(target[:, None], self._hold, axis=1))
                return motion.q[:, -1], motion.qd[:, -1], np.all(motion.converged, axis=1)
            track = self._steps.run(q, qd, self._hold, target=np.repeat(target[:, None], self._hold, axis=1))
        moved = np.empty_like(qd)
        for path, change in zip(track.q, moved, strict=True):
            subtract(self.links, path[-1], path[-2], change)
        return track.q[:, -1], moved / self.dt, np.all(track.converged, axis=1)

    def _has_fallen(self, q: Floats) -> Flags:
        tilt = np.abs(q[:, 2])
        if self._motors.start == 6:  # the angle between the base's z and the world's
            x, y = q[:, 3], q[:, 4]
            tilt = np.arccos(np.clip(1.0 - 2.0 * (x * x + y * y), -1.0, 1.0))
        return (q[:, self.legged.height] < self.legged.least) | (tilt > self.legged.tilt)

    def observations(self, q: Floats, qd: Floats) -> npt.NDArray[np.float32]:
        """(..., size): q without the base's x (and y), then q̇ times 0.1."""
        return np.concatenate([q[..., self.legged.height :], 0.1 * qd], axis=-1).astype(np.float32)
