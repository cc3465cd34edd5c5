"""A robot's task: simulation, observations, rewards and end conditions as one loop over graphs.

An action is a loop with one iteration: a graph that converts the action to targets or torques, a loop over the steps of
the simulation, and a graph for observation, rewards and end conditions. One call in C therefore applies an action to
all robots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dynagate.base.arguments import (
    ABOVE_ZERO,
    AT_LEAST_ZERO,
    check_count,
    check_time_step,
    number,
    one_or_several,
    shown,
)
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.explained import explained
from dynagate.base.nearest import nearest
from dynagate.dynamics.recursions.poses import places as poses
from dynagate.dynamics.spatial import array, zeros
from dynagate.dynamics.tree import tree_of
from dynagate.envs.delays import PAST_ACTIONS, TICK, arriving, clipped, past_actions
from dynagate.envs.draws import DELAY, PER_EPISODE, PUSH, PUSH_PHASE, PUSHES, Randomization
from dynagate.envs.gains import check_gains, check_masses
from dynagate.envs.moment import Moment, flat
from dynagate.forces.actuator import Actuator
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.integrators.drive import COMMAND, StepDrive
from dynagate.integrators.feedback import BRAKE, STIFFNESS, TARGET, JointPD, feedback_graph
from dynagate.integrators.implicit.contact_method import ContactIntegrator
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.integrators.methods import method_of
from dynagate.integrators.motion import Motion
from dynagate.robot import Robot

Function = Callable[[Moment], Any]
"""A function of a moment, over any scalar."""

ACTIONS = "pd_targets", "torques", "positions"

PUSHED = "pushed"
"""Name of the velocity (nv,) after a push."""

AIM = "target"
"""Input of actuators that follow positions (nv,), rad or m."""

DRIVE = {COMMAND: "drive_command", AIM: "drive_target"}
"""Inputs of actuators -> names of these values in tasks, whose own inputs may have the first names."""

OWN = (
    *("q", "qd", "tau", "action", "last_action", "loads", TARGET, STIFFNESS, BRAKE, "feedforward", *DRIVE.values()),
    *(TICK, DELAY, PAST_ACTIONS, PUSH, PUSHED, PUSHES, PUSH_PHASE),
)
"""Values of tasks; additional inputs cannot have these names."""


@explained
@dataclass(frozen=True)
class Task:
    """A robot that learns.

    Args:
        robot: The robot, without variable parameters.
        stance: Configuration (nq,) that episodes begin near and targets are relative to.
        observations: Functions of a moment whose values are concatenated, by name.
        rewards: Functions of a moment whose values are added, by name.
        ends: Functions of a moment, by name: an episode ends when one is above 0.
        contact: Ground and feet; None for a robot without.
        actions: "pd_targets", positions of joints relative to the stance; "torques"; or "positions", which are the
            command of an actuator such as `PositionServo`.
        dt: Time step of the simulation, s.
        decimation: Steps of the simulation that an action holds for.
        seconds: Length of an episode, s.
        swing: Largest distance of a target from the stance, rad or m: one number, or one for each joint.
        stiffness, damping: Gains of the joints, N m/rad, N m s/rad, N/m or N s/m: one number, or one for each joint.
        randomize: What differs between environments (`draws.Randomization.of`).
        inputs: Lowest and highest values of inputs that each episode draws, by name.
        actuators: Actuators between commands and joints, as in `forces=` of a rollout. Their command is the torque of
            an action, within the effort limits, or a position. Their states are 0 when an episode begins.
        start_noise: Range of joint positions and velocities around the stance at the begin, rad, m, rad/s or m/s.

    Raises:
        ArgumentError: An option does not fit the robot, a joint moves no mass, or the gains are unstable.
        ArgumentTypeError: A term is no function.
    """

    robot: Robot
    stance: Array
    observations: Mapping[str, Function]
    rewards: Mapping[str, Function]
    ends: Mapping[str, Function] = field(default_factory=dict)
    contact: RigidContact | None = None
    actions: Literal["pd_targets", "torques", "positions"] = "pd_targets"
    dt: float = 0.005
    decimation: int = 4
    seconds: float = 20.0
    swing: float | Sequence[float] = 0.5
    stiffness: float | Sequence[float] = 50.0
    damping: float | Sequence[float] = 1.0
    randomize: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    start_noise: float = 0.05
    actuators: Sequence[Actuator] = ()

    def __post_init__(self) -> None:
        check_time_step(self.dt)
        check_count("decimation", self.decimation, 1000)
        number("seconds=", self.seconds, ABOVE_ZERO)
        if self.actions not in ACTIONS:
            raise ArgumentError(
                f"actions={shown(self.actions)}{nearest(str(self.actions), ACTIONS)}; expected "
                "'pd_targets', 'torques' or 'positions'",
                code="DG-ENV-012",
            )
        if not self.joints:
            raise ArgumentError(
                f"robot '{self.robot.name}' has no joint of one degree of freedom, so no actions", code="DG-ENV-013"
            )
        check_count("seconds / (dt decimation)", self.episode, PER_EPISODE >> 1)
        check_count("number of random numbers in an episode", self.draws, PER_EPISODE)
        for name in self.inputs:
            if name in OWN or not name.isidentifier():
                raise ArgumentError(
                    f"inputs has {shown(name)}; expected a name other than {', '.join(OWN)}", code="DG-ENV-014"
                )
        for what, terms in (("observations", self.observations), ("rewards", self.rewards), ("ends", self.ends)):
            _check_terms(what, terms)
        self._check_actuators()
        check_masses(self.robot, self.stance)
        self._each("swing")
        self._check_actuation()

    def _check_actuators(self) -> None:
        """Raise ArgumentError or ForceError if actuators do not fit the robot, the time step or the actions."""
        for each in self.actuators:
            if not isinstance(each, Actuator):
                raise ArgumentTypeError(
                    f"actuators has {shown(each)}; expected actuators of dynagate.forces, such as Lag(0.02)",
                    code="DG-ENV-028",
                )
        if self.actions == "positions" and not self.drive:
            raise ArgumentError(
                "actions='positions' without actuators; expected actuators=[PositionServo(...)], or "
                "actions='pd_targets'",
                code="DG-ENV-029",
            )
        for name in self.drive.actuators.inputs:
            if name != AIM or self.actions == "torques":
                raise ArgumentError(
                    f"actuators read '{name}' with actions='{self.actions}'; expected actuators that read '{AIM}' at "
                    "most, and actions='pd_targets' or 'positions'",
                    code="DG-ENV-030",
                )
        for name in self.drive.sizes:
            if name in (*OWN, *self.inputs):
                raise ArgumentError(f"an actuator has the state '{name}'; expected another name", code="DG-ENV-031")

    def _check_actuation(self) -> None:
        if self.actions == "torques":
            unbounded = [name for name, most in zip(self.joints, self.effort, strict=True) if not np.isfinite(most)]
            if unbounded:
                raise ArgumentError(
                    f"actions='torques' of robot '{self.robot.name}', whose joint '{unbounded[0]}' has no effort "
                    "limit; expected effort= in its file, or actions='pd_targets'",
                    code="DG-ENV-015",
                )
            return
        if self.actions == "positions":
            return
        (stiffness, damping), ((_, stiffer), (_, slower)) = self.gains, self.random.gains
        check_gains(self.robot, self.stance, stiffer * stiffness, slower * damping, self.dt)

    @cached_property
    def joints(self) -> list[str]:
        """Names of the joints that actions move."""
        return JointPD.joints_of(self.robot)

    @cached_property
    def places(self) -> tuple[list[int], list[int]]:
        """Indices of those joints in q and qd."""
        own = [(iq.start, iv.start) for joint, iq, iv in self.robot.moving() if joint.nv == 1]
        return [q for q, _ in own], [v for _, v in own]

    @cached_property
    def effort(self) -> Array:
        """Torque limits (joints,) of the robot's file, N m or N; infinite if the file has none."""
        return np.asarray(self.robot.effort)[self.places[1]]

    @property
    def period(self) -> float:
        """Time between actions, s."""
        return self.dt * self.decimation

    @property
    def episode(self) -> int:
        """Number of actions in an episode."""
        return max(1, round(self.seconds / self.period))

    @property
    def push_count(self) -> int:
        """Largest number of pushes in an episode."""
        pushes = self.random.pushes
        return 0 if pushes is None else (self.episode - 2) // pushes.actions(self.period) + 2

    @property
    def past_actions(self) -> int:
        """Number of earlier actions that can still arrive; 0 if actions have no delay."""
        delay = self.random.delay
        return 0 if delay is None else past_actions(delay[1], self.dt, self.decimation)

    @property
    def draws(self) -> int:
        """Number of random numbers that the start of an episode needs."""
        inputs = sum(low.size for low, _ in self.inputs.values())
        delay, pushes = self.random.delay is not None, self.random.pushes is not None
        return 2 * len(self.joints) + self.random.size + inputs + delay + (pushes + 2 * self.push_count)

    @cached_property
    def random(self) -> Randomization:
        """The differences between environments."""
        return Randomization.of(self.robot, self.randomize)

    def _each(self, name: str) -> Array:
        value = one_or_several(f"{name}=", getattr(self, name), (len(self.joints),), AT_LEAST_ZERO)
        return np.broadcast_to(value, len(self.joints)).astype(np.float64)

    @cached_property
    def gains(self) -> tuple[Array, Array]:
        """Stiffness and damping (joints,) without randomization."""
        return self._each("stiffness"), self._each("damping")

    @cached_property
    def law(self) -> JointPD | None:
        """Feedback law of the simulation's steps; None for torques."""
        if self.actions != "pd_targets":
            return None
        largest = np.full(self.robot.nv, np.inf)
        largest[self.places[1]] = self.effort
        return JointPD(tuple(largest.tolist()))

    @cached_property
    def drive(self) -> StepDrive:
        """The actuators."""
        return StepDrive(self.random.robot, StepOptions(self.dt, forces=tuple(self.actuators)))

    @property
    def driven_states(self) -> dict[str, str]:
        """States of actuators after a step -> those before the next one."""
        return self.drive.carry

    @cached_property
    def motion(self) -> Motion:
        """The simulation without feedback."""
        options, robot = StepOptions(self.dt), self.random.robot
        if self.contact is not None:
            return ContactIntegrator(self.contact).motion(robot, options)
        return method_of("semi_implicit_euler").motion(robot, options)

    @cached_property
    def acting(self) -> Graph:
        """The graph from an action (joints,) to targets, or to torques or commands (nv,).

        With a delay, it is a graph of a step of the simulation: the action that has arrived then decides.
        """
        recording, n = Recording("acting", self.robot.name), len(self.joints)
        action, outputs = clipped(recording.input("action", (n,))), {}
        if self.past_actions:
            past = recording.input(PAST_ACTIONS, (self.past_actions, n))
            tick, delay = recording.input(TICK, ()), recording.input(DELAY, ())
            action = arriving(action, past, tick[()], delay[()], self.decimation)
            outputs = {f"{TICK}_next": array(tick[()] + 1.0).reshape(())}
        torques, target = zeros(self.robot.nv), self.stance[self.places[0]] + action * self._each("swing")
        if AIM in self.drive.actuators.inputs:
            outputs[DRIVE[AIM]] = zeros(self.robot.nv)
            outputs[DRIVE[AIM]][self.places[1]] = target
        if self.law is not None:
            return recording.graph({TARGET: target, "feedforward": torques, **outputs})
        torques[self.places[1]] = target if self.actions == "positions" else action * self.effort
        return recording.graph({self.torque: torques, **outputs})

    @property
    def torque(self) -> str:
        """Name of the torques that actions lead to: those of joints, or the command of actuators."""
        return DRIVE[COMMAND] if self.drive else "tau"

    @cached_property
    def pushing(self) -> Graph:
        """The graph that adds a horizontal velocity (2,), m/s, in the axes of the world, to the base."""
        robot = self.robot
        recording, sizes = Recording("pushing", robot.name), typical_sizes(tree_of(robot))
        units = tuple((part.start, part.stop) for part in robot.quaternions())
        q = recording.input("q", (robot.nq,), sizes["q"], unit_vectors=units)
        qd = recording.input("qd", (robot.nv,), sizes["qd"]).copy()
        push = recording.input(PUSH, (2,))
        (rotation, _), *_ = poses(tree_of(robot).unreduced, q)
        qd[:3] = qd[:3] + np.asarray(rotation)[:2].T @ push
        return recording.graph({PUSHED: qd})

    @cached_property
    def seeing(self) -> Graph:
        """The graph from the state after an action to observation, reward, terms of the reward, and end conditions
        (ends,).
        """
        robot, n = self.robot, len(self.joints)
        recording, sizes = Recording("seeing", robot.name), typical_sizes(tree_of(robot))
        units = tuple((part.start, part.stop) for part in robot.quaternions())
        values = {"q": recording.input("q_next", (robot.nq,), sizes["q"], unit_vectors=units)}
        values |= {"qd": recording.input("qd_next", (robot.nv,), sizes["qd"])}
        values |= {"tau": recording.input("tau", (robot.nv,), sizes["tau"])}
        values |= {"action": clipped(recording.input("action", (n,)))}
        values |= {"last_action": recording.input("last_action", (n,))}
        loads = zeros(0)
        if self.contact is not None:
            normals = iter(recording.input("swept", (3 * self.contact.pairs,))[::3])
            each = [sum(next(normals) for _ in pairs) for pairs in self.contact.by_point[: len(self.contact.points)]]
            loads = array(each) * (1.0 / self.dt)
        values |= {name: recording.input(name, low.shape) for name, (low, _) in self.inputs.items()}
        moment = Moment(robot, recording, values, loads, self.stance)
        parts = {name: flat(term(moment)) for name, term in self.observations.items()}
        terms = {name: _single("rewards", name, term(moment)) for name, term in self.rewards.items()}
        ends = [_single("ends", name, term(moment)) for name, term in self.ends.items()]
        object.__setattr__(self, "_parts", {name: len(part) for name, part in parts.items()})
        total = array(sum(terms.values())).reshape(())
        seen = {"observation": np.concatenate(list(parts.values())), "reward": total}
        return recording.graph({**seen, "terms": array(list(terms.values())), "ends": array([-1.0, *ends])})

    @cached_property
    def observation_parts(self) -> dict[str, slice]:
        """The slice of an observation for each function, by name."""
        assert self.seeing
        sizes: dict[str, int] = self._parts  # type: ignore[attr-defined]
        ends = np.cumsum(list(sizes.values())).tolist()
        return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}

    @cached_property
    def loop(self) -> Loop:
        """The loop with one iteration that applies an action."""
        own, acting = self.motion.loop, [self.acting]
        steps = (
            [] if self.law is None else [feedback_graph(self.random.robot, self.law).named({}, {"tau": self.torque})]
        )
        steps += [self.drive.graph.named(DRIVE, {})] if self.drive else []
        carry = {**own.carry, **self.driven_states}
        last = ["q_next", "qd_next", *(("swept", "failed_next") if self.contact else ()), *self.drive.sizes]
        if self.past_actions:
            steps, acting = [*acting, *steps], []
            carry[f"{TICK}_next"] = TICK
        torques = ["tau"] if steps else []
        physics = Loop(
            "physics",
            self.robot.name,
            (*steps, *own.steps),
            carry,
            Count(self.decimation),
            last=(*last, *torques),
        )
        if self.random.pushes is not None:
            acting, physics = [self.pushing, *acting], physics.renamed({"qd": PUSHED})
        results = ("observation", "reward", "terms", "ends")
        return Loop("action", self.robot.name, (*acting, physics, self.seeing), {}, Count(1), last=(*last, *results))


def _check_terms(what: str, terms: Mapping[str, Function]) -> None:
    """Raise an error if terms are not a mapping of functions."""
    if not isinstance(terms, Mapping):
        raise ArgumentTypeError(f"{what}={shown(terms)}; expected functions of a moment by name", code="DG-ENV-016")
    for name, term in terms.items():
        if not (isinstance(name, str) and callable(term)):
            raise ArgumentTypeError(
                f"{what} has {shown(name)}: {shown(term)}; expected a function of a moment", code="DG-ENV-017"
            )
    if not terms and what != "ends":
        raise ArgumentError(f"{what} is empty; expected at least one function of a moment", code="DG-ENV-018")


def _single(what: str, name: str, value: Any) -> Any:
    """Return the only number of a term. Raise ArgumentError if it has several."""
    own = flat(value)
    if own.size != 1:
        raise ArgumentError(f"{what} has '{name}' with {own.size} numbers; expected one number", code="DG-ENV-019")
    return own[0]
