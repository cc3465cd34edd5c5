"""Steps with actuators: the torque of a step follows from the command and the states of actuators before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.naming import scope
from dynagate.dynamics import tree_of
from dynagate.forces.actuator import Actuators
from dynagate.forces.force import ForceContext
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.derivatives import Derivative
from dynagate.graph.loop import Loop
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.integrators.adjoint import before
from dynagate.integrators.motion import Motion
from dynagate.robot import Robot

COMMAND = "command"
"""Input of a step with actuators: the torques (nv,) that actuators receive."""


class StepDrive:
    """The actuators of a robot's steps.

    Args:
        robot: The robot.
        options: Options of the step, with all forces.

    Raises:
        ForceError: An actuator does not fit the robot.
        ArgumentError: An actuator is not stable with the time step.
    """

    def __init__(self, robot: Robot, options: StepOptions) -> None:
        self.robot, self.dt = robot, options.dt
        self.actuators = Actuators(robot, options.forces)
        self.actuators.check_step(options.dt)
        self.sizes = {name: state.size for name, state in self.actuators.states.items()}
        """State name -> count of its numbers."""

    def __bool__(self) -> bool:
        return bool(self.actuators)

    @property
    def carry(self) -> dict[str, str]:
        """The states after a step -> those before the next one."""
        return {name: before(name) for name in self.sizes}

    @cached_property
    def graph(self) -> Graph:
        """The graph from q, qd, COMMAND, inputs of actuators and the states `before` a step to tau (nv,) and the states
        after it.
        """
        robot, sizes = self.robot, typical_sizes(tree_of(self.robot))
        recording = Recording("actuators", robot.name)
        units = tuple((part.start, part.stop) for part in robot.quaternions())
        q = recording.input("q", (robot.nq,), sizes["q"], unit_vectors=units)
        qd = recording.input("qd", (robot.nv,), sizes["qd"])
        command = recording.input(COMMAND, (robot.nv,), sizes["tau"])
        dt = self.dt if self.dt is not None else recording.input("dt", (), sizes["dt"])[()]
        inputs = {name: recording.input(name, (robot.nv,), sizes["qd"]) for name in self.actuators.inputs}
        states = {}
        for name, state in self.actuators.states.items():
            typical = float(np.mean(sizes[state.like]))
            states[name] = recording.input(before(name), (state.size,), typical)
        now = ForceContext(robot, q, qd, dt, inputs)
        torque, after = self.actuators.drive(now, command, states)
        return recording.graph({"tau": torque, **after})

    @cached_property
    def linear(self) -> Graph:
        """The graph from the inputs of `graph`, STEP_A and STEP_B to a and b of the step with actuators, whose state is
        (q, q̇, states of actuators).
        """
        robot, n, size = self.robot, self.robot.nv, sum(self.sizes.values())
        recording, derivative = Recording("driven", robot.name), Derivative(self.graph, robot)
        values = recording.replay(self.graph, {p.name: recording.input_like(p) for p in self.graph.inputs})
        a, b = recording.input(STEP_A, (2 * n, 2 * n)), recording.input(STEP_B, (2 * n, n))
        of_state = ["q", "qd", *self.carry.values()]
        names = [*of_state, COMMAND]
        columns = derivative.columns(values, names)

        def by(output: str, rows: int, inputs: Sequence[str]) -> Array:
            return np.concatenate([columns[each][output].reshape(rows, -1) for each in inputs], axis=1)

        with scope("driven"):
            moved = np.concatenate([a, np.zeros((2 * n, size)).astype(object)], axis=1)
            moved = moved + b @ by("tau", n, of_state)
            pushed = b @ by("tau", n, [COMMAND])
        rows = [by(name, count, of_state) for name, count in self.sizes.items()]
        driven = [by(name, count, [COMMAND]) for name, count in self.sizes.items()]
        return recording.graph({"a": np.concatenate([moved, *rows]), "b": np.concatenate([pushed, *driven])})


STEP_A, STEP_B = "step_a", "step_b"
"""Derivatives of a step with respect to its state and its torques."""


def undriven(options: StepOptions) -> StepOptions:
    """Return the options of a step without its actuators."""
    return replace(options, forces=tuple(force for force in options.forces if not force.before_steps))


def with_drive(motion: Motion, drive: StepDrive) -> Motion:
    """Return a motion whose steps accept COMMAND instead of tau, and keep the states of actuators.

    Args:
        motion: The motion with torques.
        drive: The actuators.
    """
    loop, (_, velocity) = motion.loop, motion.states
    carry = dict(loop.carry) if "qd" in loop.carry.values() else {**loop.carry, velocity: "qd"}
    own = (COMMAND, *drive.actuators.inputs)
    per_iteration = dict.fromkeys((*own, *(name for name in loop.per_iteration if name != "tau")))
    steps = (drive.graph, *loop.steps)
    if "a" in loop.kept:
        last = loop.steps[-1]
        assert isinstance(last, Graph)
        steps = (drive.graph, *loop.steps[:-1], last.named({}, {"a": STEP_A, "b": STEP_B}), drive.linear)
    kept, extras = (*loop.kept, *drive.sizes), {name: (name, (size,)) for name, size in drive.sizes.items()}
    if loop.every == 1:
        kept, extras = (*kept, "tau"), {**extras, "tau": ("tau", (drive.robot.nv,))}
    driven = replace(
        loop,
        name=f"{loop.name}_driven",
        steps=steps,
        carry={**carry, **drive.carry},
        per_iteration=tuple(per_iteration),
        kept=kept,
    )
    zeros = {**motion.zeros, **{before(name): size for name, size in drive.sizes.items()}}
    solved = (*motion.solved, *drive.sizes)
    return replace(motion, loop=driven, zeros=zeros, extras={**motion.extras, **extras}, solved=solved)


def reverse_with_drive(loop: Loop, drive: StepDrive) -> Loop:
    """Return the loop of a gradient for a rollout with actuators.

    Weights of tau become weights of COMMAND, of the inputs and states of actuators, and of q and q̇.

    Args:
        loop: The loop of the gradient by tau.
        drive: The actuators.
    """
    ends = ("lam_q_next", "lam_qd_next", *(("lam_dt_next",) if drive.dt is None else ()))
    opened = {name: f"driven_{name}" for name in ends}
    shared = [name for name in drive.actuators.inputs if name in loop.per_iteration]
    opened |= {f"vjp_{name}": f"driven_vjp_{name}" for name in shared}
    (step,) = loop.graphs()
    back = _back(drive, opened)
    costs = [port.name for port in back.inputs if port.name.startswith("cost_")]
    others = [name for name in loop.per_iteration if name not in ("tau", *shared)]
    own = (COMMAND, *drive.actuators.inputs)
    kept = [name for name in loop.kept if name not in ("vjp_tau", *(f"vjp_{each}" for each in shared))]
    carry = {f"lam_{name}_next": f"lam_{name}" for name in drive.sizes}
    return replace(
        loop,
        name=f"{loop.name}_driven",
        steps=(drive.graph, step.named({}, opened), back),
        carry={**loop.carry, **carry},
        per_iteration=(*others, *own, *drive.carry.values(), *costs),
        kept=(*(f"vjp_{name}" for name in own), *kept),
        last=(*loop.last, *carry),
    )


def _back(drive: StepDrive, opened: Mapping[str, str]) -> Graph:
    """Return the graph that takes weights of tau and of the states after a step back through the actuators.

    Args:
        drive: The actuators.
        opened: Names of the weights without actuators, by the names of the weights with them.
    """
    robot, graph = drive.robot, drive.graph
    recording, derivative = Recording("actuators_vjp", robot.name), Derivative(graph, robot)
    values = recording.replay(graph, {port.name: recording.input_like(port) for port in graph.inputs})
    weights = {"tau": recording.input("vjp_tau", (robot.nv,))}
    for name, size in drive.sizes.items():
        weights[name] = recording.input(f"lam_{name}", (size,)) + recording.input(f"cost_{name}", (size,))
    by = derivative.reverse(values, weights)
    results = {}
    if "dt" in by:
        results["lam_dt_next"] = recording.input(opened["lam_dt_next"], ()) + by.pop("dt")
    results |= {
        name: recording.input(opened[name], (robot.nv,)) + by.pop(of)
        for name, of in (("lam_q_next", "q"), ("lam_qd_next", "qd"))
    }
    results |= {f"lam_{name}_next": by.pop(before(name)) for name in drive.sizes}
    for name, product in by.items():
        other = opened.get(f"vjp_{name}")
        results[f"vjp_{name}"] = product if other is None else recording.input(other, (robot.nv,)) + product
    return recording.graph(results)
