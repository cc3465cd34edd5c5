"""One step of a robot as a graph: the body of a rollout."""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, replace
from typing import Any

import numpy.typing as npt

from dynagate.base.arguments import check_flags, check_time_step, store_plain_numbers
from dynagate.base.errors import ArgumentError
from dynagate.base.naming import scope
from dynagate.base.nearest import nearest
from dynagate.dynamics import Tree
from dynagate.dynamics.explicit import METHODS
from dynagate.dynamics.friction import SPEED, check_friction, friction_of
from dynagate.dynamics.spatial import select
from dynagate.dynamics.step_damping import check_damping, robot_in_step
from dynagate.forces import Force, Forces, Friction
from dynagate.forces.force import check_forces
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import output_values
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import parameter_inputs, typical_sizes
from dynagate.robot import Robot

Array = npt.NDArray[Any]

CARRY = {"q_next": "q", "qd_next": "qd"}
"""The state from step to step."""


@dataclass(frozen=True)
class StepOptions:
    """What a step is. Raises ValueError.

    dt: seconds, or None for an input `dt` (). integrator: one of `explicit.METHODS`. form: of forward dynamics.
    friction, friction_speed: as in `dynamics.AlgorithmOptions`; they become the last of the forces. stops: joints end
    at their limits, where they lose their speed. wrap: angles of joints that turn for ever (`Robot.is_periodic`) come
    back between -π and π. forces: of `dynagate.forces`, besides the robot's damping.
    constrained: constrained forward dynamics, with the input `active` (constraints,).
    implicit_damping: take joint damping at the velocity after the step (`dynamics.step_damping`).
    """

    dt: float | None
    integrator: str = "semi_implicit_euler"
    form: str | None = None
    friction: InitVar[bool | float | tuple[float, ...]] = 0.0
    friction_speed: InitVar[float] = SPEED
    stops: bool = False
    wrap: bool = False
    forces: tuple[Force, ...] = ()
    constrained: bool = False
    implicit_damping: bool = False

    def __post_init__(self, friction: bool | float | tuple[float, ...], friction_speed: float) -> None:
        store_plain_numbers(self)
        if self.integrator not in METHODS:
            near = nearest(self.integrator, METHODS)
            raise ArgumentError(f"integrator '{self.integrator}'{near}; expected one of {', '.join(METHODS)}")
        if self.dt is not None:
            check_time_step(self.dt)
        check_damping(self.implicit_damping, self.integrator, self.dt)
        check_flags(stops=self.stops, constrained=self.constrained)
        check_friction(friction, friction_speed)
        acts = any(friction) if isinstance(friction, tuple) else bool(friction)
        rubbing = (Friction(friction, friction_speed),) if acts else ()
        object.__setattr__(self, "forces", (*check_forces(self.forces), *rubbing))

    @property
    def dynamics(self) -> str:
        """The function that gives accelerations."""
        return "constrained_forward_dynamics" if self.constrained else "forward_dynamics"

    def in_step(self, robot: Robot) -> Robot:
        """The robot whose forward dynamics the step has."""
        return robot_in_step(robot, self.implicit_damping, self.dt)


class StepRecording:
    """A step in a recording.

    far: velocities are drawn as large as those that move a joint a good part of its way in the step, which is where a
    method that solves equations has its last digits; constant dt alone.
    """

    def __init__(self, robot: Robot, options: StepOptions, name: str, *, far: bool = False) -> None:
        self.robot, self.options = robot, options
        self.recording = Recording(name, robot.name)
        self._sizes = typical_sizes(Tree(robot))
        if far:
            assert options.dt is not None
            self._sizes["qd"] = self._sizes["increment"] / options.dt
        quaternions = tuple((part.start, part.stop) for part in robot.quaternions())
        self.q = self.recording.input("q", (robot.nq,), self._sizes["q"], unit_vectors=quaternions)
        self.qd, self.tau = self.velocities("qd"), self.velocities("tau")
        self.held: dict[str, Array] = {}  # which constraints are active
        if options.constrained:
            self.held["active"] = self.recording.input("active", (len(robot.constraints),), switches=True)
        self.dt = options.dt if options.dt is not None else self.recording.input("dt", (), self._sizes["dt"])[()]
        self.forces = Forces(robot, options.forces)
        self.force_inputs = {name: self.velocities(name, "qd") for name in self.forces.inputs}
        self.parameters = parameter_inputs(self.recording, robot, self._sizes)

    def velocities(self, name: str, like: str = "") -> Array:
        """A new input (nv,), with numbers of the same size as the input `like` of the listed functions has."""
        return self.recording.input(name, (self.robot.nv,), self._sizes[like or name])

    def after(self, acceleration: Any, q: Array, qd: Array, tau: Array) -> tuple[Array, Array]:
        """q and q̇ after the step. acceleration(q, qd, tau)."""

        def loaded(position: Array, velocity: Array) -> Array:
            load = tau + self.pushed(position, velocity) if self.options.forces else tau
            return acceleration(position, velocity, load)

        with scope("step"):
            moved, velocity = METHODS[self.options.integrator].step(self.robot, loaded, q, qd, self.dt)
            moved, velocity = self._stopped(moved, velocity) if self.options.stops else (moved, velocity)
            return (self._wrapped(moved) if self.options.wrap else moved), velocity

    def pushed(self, q: Array, qd: Array) -> Array:
        """The forces (nv,) at a state."""
        return self.forces.torque(q, qd, self.dt, self.force_inputs, self.parameters)

    def _wrapped(self, q: Array) -> Array:
        """A step turns a joint by less than a turn."""
        q = q.copy()
        for joint, iq, _ in self.robot.moving():
            if self.robot.is_periodic(joint):
                angle = q[iq.start]
                angle = select(angle - math.pi, angle - 2.0 * math.pi, angle)
                q[iq.start] = select(-math.pi - angle, angle + 2.0 * math.pi, angle)
        return q

    def _stopped(self, q: Array, qd: Array) -> tuple[Array, Array]:
        q, qd = q.copy(), qd.copy()
        for joint, iq, iv in self.robot.moving():
            for limit, sign in zip(self.robot.reach(joint), (-1.0, 1.0), strict=True):
                if limit is not None:
                    a, b = iq.start, iv.start
                    beyond = (q[a] - limit) * sign
                    q[a], qd[b] = select(beyond, limit, q[a]), select(beyond, 0.0, qd[b])
        return q, qd

    def graph(self, outputs: dict[str, Array]) -> Graph:
        rubbing = [force for force in self.options.forces if isinstance(force, Friction)]
        friction = friction_of(self.robot, rubbing[0].force, rubbing[0].speed) if rubbing else None
        return replace(self.recording.graph(outputs), friction=friction)


def step_graph(robot: Robot, options: StepOptions) -> Graph:
    """The graph of a step: q (nq,), qd, tau (nv,) and, unless it is constant, dt () to q_next (nq,), qd_next (nv,). The
    robot's variable parameters are inputs too."""
    step = StepRecording(robot, options, "step")
    forward = trace(options.in_step(robot), options.dynamics, form=options.form)

    def acceleration(q: Array, qd: Array, tau: Array) -> Array:
        values = step.recording.replay(forward, {"q": q, "qd": qd, "tau": tau, **step.held, **step.parameters})
        return output_values(forward.outputs, values)["qdd"]

    q, qd = step.after(acceleration, step.q, step.qd, step.tau)
    return step.graph({"q_next": q, "qd_next": qd})
