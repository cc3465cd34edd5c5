"""Rollouts: many trajectories of a robot through many steps, in one call."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_unit_vectors, of_shape, real, spread, switches
from dynagate.base.arrays import Array
from dynagate.base.changed_options import changed_in_call, of_call
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.foreign_names import CALLED, answering
from dynagate.base.forks import renew_in_child
from dynagate.base.progress import showing
from dynagate.dynamics import ROLLOUT
from dynagate.dynamics.steps.explicit import EXPLICIT_METHODS
from dynagate.forces import Force, Forces
from dynagate.forces.listed import warn_of_forces
from dynagate.forces.options import AlgorithmOptions, StepOptions
from dynagate.forces.servo import IGNORED, has_ignored
from dynagate.graph.loop import Count, Loop
from dynagate.graph.region import Region
from dynagate.graph.single_precision import check_step_form
from dynagate.host.bound import BoundCall, ShapeCache, repeated
from dynagate.host.compiling import check_robot, device_of
from dynagate.host.devices.loops import LoopExecutor
from dynagate.host.devices.options import LOOP, MOTION, DeviceOptions
from dynagate.host.devices.sources import LoopSource, MotionSource
from dynagate.host.inputs import check_values, own_parameters, parameter_ports
from dynagate.host.links import BatchTiming
from dynagate.host.opened import Opened
from dynagate.host.openers import ChosenDevice
from dynagate.host.region_exit import RegionExit
from dynagate.host.rollout_device import ARRAYS, RolloutDevice
from dynagate.host.rollout_options import RolloutOptions
from dynagate.host.starts import broadcast_starts, flag_lost, without_lost
from dynagate.host.trajectories import Trajectories
from dynagate.integrators.adjoint import AFTER, FIRST, before, with_before
from dynagate.integrators.drive import COMMAND, StepDrive, reverse_with_drive, undriven
from dynagate.integrators.feedback import Feedback, feedback_inputs, largest_of, reverse_with_feedback
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.integrators.limits import LimitWatch
from dynagate.integrators.motion import Integrator, reverse_loop
from dynagate.native.loop import LoopKernel
from dynagate.native.package import loop_package
from dynagate.native.package_content import STATES
from dynagate.native.package_files import write_package
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName, robot_of
from dynagate.robot.variable import check_inputs

if TYPE_CHECKING:
    from dynagate.fixedpoint.assign import Policy

TEST_STEPS = 10
"""Number of steps in the test of a rollout as portable C."""

SMALL = 4096
"""Torques of a call up to which its arrays are copied to some that are bound to the kernel."""

SHAPES = 8
"""Number of call shapes whose arrays stay bound to a rollout's kernel; the oldest is dropped first."""


@explained
class Rollout(Opened):
    """A robot's motion under given torques, step by step. Call it; use it as a context.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        steps: Number of steps.
        dt: Seconds of a step, or None if each call passes it.
        integrator: "euler", "semi_implicit_euler" (the default), "rk2", "rk3", "rk4", "variational", "position_based",
            or an integrator object with options of its own.
        linearize: Return the matrices a and b of every step too (explicit integrators).
        every: Return the states after every this many steps, a divisor of `steps`; `steps` itself for the last state.
        form: Algorithm of forward dynamics.
        forces: Forces of `dynagate.forces`, such as `Friction`, `Stops` at the limits of joints, or a servo. Each call
            takes their inputs by name, such as a servo's `target`.
        constrained: The robot's constraints hold, all of them or those that a call names as `active`.
        contacts: Rigid ground with dry friction that points may touch and leave.
        feedback: Add gain (q ⊖ q_ref, q̇ - qd_ref) to the torque of each step; largest torques in place of True bound
            it, N m or N, one or nv. A `JointPD` pulls joints to targets instead.
        implicit_damping: Damp joints by the velocity after the step, so that no step is too long for the damping.
        device: "cpu", C with the loop inside the vector; "cuda", all steps in one launch; "numpy", float64, the
            reference; or "fixed", the integers of a chip that keeps the states.
        dtype: "float64" or "float32" ("cpu", "cuda").
        threads: Threads that share the trajectories ("cpu").
        policy: Word length and binary points ("fixed").
        region: Operating region that the formats are for ("fixed").

    Raises:
        ArgumentError: An option does not fit the others or the device. Nothing is computed then.
        ArgumentTypeError: An option has another name or type, or `steps` or `dt` is missing.
        DeviceError: There is no GPU.

    Example:
        >>> rollout = dynagate.Rollout("two_joint_arm", steps=5, dt=0.01, device="numpy")
        >>> rollout(np.zeros((100, 2)), np.zeros(2), np.zeros((5, 2))).q.shape
        (100, 6, 2)
    """

    def __init__(
        self,
        robot: RobotOrName,
        steps: int,
        dt: float | None,
        *,
        integrator: str | Integrator | None = None,
        linearize: bool = False,
        every: int = 1,
        form: str | None = None,
        forces: Sequence[Force] = (),
        constrained: bool = False,
        contacts: RigidContact | None = None,
        feedback: Feedback = False,
        implicit_damping: bool = False,
        device: Literal["cpu", "cuda", "numpy", "fixed"] | DeviceOptions = "cpu",
        dtype: npt.DTypeLike | None = None,
        threads: int = 1,
        policy: Policy | None = None,
        region: Region | None = None,
    ) -> None:
        call = locals()
        self._keep_maker(type(self), (), call)
        check_robot(robot)
        asked = of_call(RolloutOptions, call)
        own = changed_in_call(Rollout.__init__, call, ("dtype", "threads", "policy", "region"))
        chosen = device_of(device, (MOTION, LOOP), own)
        self._make(robot_of(robot), asked, chosen)

    def _make(self, robot: Robot, asked: RolloutOptions, chosen: ChosenDevice) -> None:
        """Trace and compile the rollout for a device."""
        self.asked, self.integrator, self.options = asked, asked.chosen_method, asked.step
        self.robot, self.steps, self.every, self.device = robot, int(asked.steps), int(asked.every), chosen.name
        self._given: dict[str, tuple[int, ...]] = feedback_inputs(robot, asked.feedback) if asked.feedback else {}
        if asked.feedback:
            largest_of(robot, asked.feedback)
        self.drive = StepDrive(robot, self.options)
        self.undriven = undriven(self.options)
        own = Forces(robot, self.undriven.forces).inputs
        self.force_inputs = tuple(dict.fromkeys((*own, *self.drive.actuators.inputs)))
        taken = ("q0", "qd0", "tau", "dt", "active", *self._given, *self.force_inputs, *self.drive.sizes)
        check_inputs(robot, taken)
        self.parameters = parameter_ports(robot)
        warn_of_forces(robot, self.options.forces)
        self.function, self.functions = ROLLOUT, {}
        self._linearize = asked.linearize
        self._watch = LimitWatch(robot, self.options.forces, stops=self.integrator.keeps_stops)
        self.chip: RolloutDevice | None = None
        self.kernel: LoopKernel | None = None
        self._device = chosen
        self._small: ShapeCache[_Small] = ShapeCache(SHAPES)
        self._closed = False
        if chosen.kind == MOTION:
            _check_on_chip(asked, chosen.name)
            self.chip = _on_chip(robot, self.options, asked.linearize, chosen, self._watch)
            self.dtype = self.chip.device.dtype
            return
        check_step_form(robot, self.options.form, chosen.loop_dtype)
        self._compile()

    def _compile(self) -> None:
        """Compile the rollout. Raise ArgumentError as its integrator does, or if its equations need another dtype."""
        with showing() as progress:
            progress(f"tracing {self.robot.name} rollout")
            self.motion = self.asked.motion(self.robot, linearize=self._linearize, every=self.every)
            self.loop = self.motion.loop
            progress(f"compiling {self.robot.name} rollout for {self.device}")
            self._compute = self._computing(self.loop)
            self.kernel, self.dtype = self._compute.kernel, self._compute.dtype
            if self.motion.failed and self.dtype != np.float64 and not self.motion.in_float32:
                raise ArgumentError(
                    f"dtype {self.dtype} with {self.integrator.in_errors}; expected float64 to solve in",
                    code="DG-ROLLOUT-017",
                )
            self._begin = None if self.motion.begin is None else self._computing(self.motion.begin)

    def __repr__(self) -> str:
        dt = "dt of each call" if self.options.dt is None else f"dt {self.options.dt:g} s"
        every = f", every {self.every}" if self.every > 1 else ""
        linear = ", linearized" if self._linearize else ""
        how = f"{dt}, {self.integrator.name}{linear}"
        return f"<Rollout {self.robot.name}, {self.steps} steps{every}, {how}, on {self.device}>"

    @property
    def feedback_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the inputs of feedback= in each step, and their shapes."""
        return self._given

    @property
    def torques(self) -> str:
        """Return the name that the loop of the steps has for the torques of a call."""
        return "feedforward" if self._given else self._input_of_steps

    @property
    def _input_of_steps(self) -> str:
        """Name of the torques that steps without feedback accept."""
        return COMMAND if self.drive else "tau"

    def write_cmake(self, folder: str | os.PathLike[str], region: Region | None = None) -> list[Path]:
        """Write the rollout as a CMake project of C and C++17, as `dynagate emit --cmake` does for functions.

        The C steps one trajectory in a call, in a workspace that the caller passes. A call passes the number of steps.

        Args:
            folder: Folder to write the files into. It is made if it is missing.
            region: Operating region that the states and torques of the test are drawn from. By default, speeds are up
                to 1 rad/s or m/s.

        Returns:
            The files.

        Raises:
            ArgumentError: The integrator is not explicit, a call passes dt, or the robot has variable parameters.
        """
        if self.motion.begin is not None or self.motion.zeros or self.parameters or self.options.dt is None:
            raise ArgumentError(
                f"{self.integrator.in_errors} with dt={self.options.dt} as portable C; expected an explicit method, a "
                "constant time step, and a robot without variable parameters",
                code="DG-ROLLOUT-018",
            )
        drawn = self._drawn(Region.of(self.robot, velocity=1.0) if region is None else region)
        return write_package(loop_package(self.loop, self.robot, drawn), folder)

    def _drawn(self, region: Region) -> dict[str, Array]:
        """Return inputs of the loop for a test, (STATES, *shape) and (STATES, TEST_STEPS, *shape) by name."""
        count, each = STATES * TEST_STEPS, np.random.default_rng(1)
        drawn = region.sample("forward_dynamics", count, seed=1)
        values: dict[str, Array] = {"q": drawn["q"], "qd": drawn["qd"], "q_ref": drawn["q"], "qd_ref": drawn["qd"]}
        values |= {"tau": drawn["tau"], "feedforward": drawn["tau"], COMMAND: drawn["tau"]}
        inputs = {}
        for port in self.loop.inputs:
            shape = (STATES, TEST_STEPS, *port.shape)
            value = values.get(port.name, -each.uniform(0.0, 0.1, (count, *port.shape))).reshape(shape)
            inputs[port.name] = value if port.name in self.loop.per_iteration else value[:, 0]
        return inputs

    @cached_property
    def reverse(self) -> tuple[Loop, LoopKernel | None]:
        """The loop of `vjp`, and its C on "cpu"."""
        return self._reversed.loop, self._reversed.kernel

    @cached_property
    def _reversed(self) -> LoopExecutor:
        if self.motion.failed and self.dtype != np.float64:
            raise ArgumentError(
                f"dtype {self.dtype} of a gradient through {self.integrator.in_errors}; expected "
                "Rollout(..., dtype='float64')",
                code="DG-ROLLOUT-019",
            )
        return self._open(self.reversed_loop, self.steps)

    @cached_property
    def reversed_loop(self) -> Loop:
        """The loop of `vjp`, before it is compiled."""
        loop = reverse_loop(self.integrator, self.robot, self.undriven)
        loop = reverse_with_drive(loop, self.drive) if self.drive else loop
        law = self.asked.feedback
        return reverse_with_feedback(loop, self.robot, law, self._input_of_steps) if law else loop

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the results."""
        return ("q", "qd", "a", "b") if self._linearize else ("q", "qd")

    @property
    def transfer(self) -> BatchTiming:
        """Cycles of the last call, where a chip computes it."""
        return BatchTiming(0, 0.0) if self.chip is None else self.chip.transfer

    def bind(self, *args: Any, **options: Any) -> BoundCall:
        """Return a call on the same arrays for many repetitions, as `Opened.bind` does.

        Args:
            args: Inputs in their order, as of a call.
            options: Inputs by name and options, as of a call.

        Returns:
            The bound call.
        """
        return repeated(self, args, options, ARRAYS)

    def close(self) -> None:
        """Gives back what the device holds. Calls raise DeviceError afterwards."""
        self._closed = True
        self._small.clear()
        if self.chip is not None:
            self.chip.close()
            return
        for compute in (self._compute, self._begin, self.__dict__.get("_reversed")):
            if compute is not None:
                compute.close()

    @property
    def _kernel(self) -> LoopKernel | None:
        """The C that a call of inputs as they are can use at once."""
        plain = not (self.options.dt is None or self._linearize or self.robot.quaternions() or self.force_inputs)
        plain = plain and not self.parameters
        plain = plain and not (self.options.constrained or self.asked.feedback or self.drive)
        plain = plain and self.integrator.linearizes
        return self.kernel if plain else None

    def __call__(
        self,
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike,
        tau: npt.ArrayLike,
        *,
        dt: npt.ArrayLike | None = None,
        active: npt.ArrayLike | None = None,
        **inputs: npt.ArrayLike,
    ) -> Trajectories:
        """Step trajectories through time.

        Args:
            q0: Start configurations (..., nq), rad, m and unit quaternions. The leading axes of all starts, torques and
                variable parameters broadcast as in numpy.
            qd0: Start velocities (..., nv), rad/s or m/s.
            tau: Torques (..., steps, nv), N m or N. The axis of steps is always there: with 5 steps, (5, nv) is one
                series of torques that all trajectories share.
            dt: Seconds of a step, if the rollout has `dt=None`: a number, or one for each trajectory (...,).
            active: Which constraints hold in each step of a constrained rollout, 0 or 1, (..., steps, constraints) or
                axes that broadcast to it; all of them unless given.
            inputs: Inputs of forces (..., steps, nv) or their last axes, and the robot's variable parameters
                (..., *shape). With feedback also `gain` (..., steps, nv, 2 nv), N m or N per rad, m, rad/s or m/s, and
                `q_ref` (..., steps, nq) and `qd_ref` (..., steps, nv), or their last axes.

        Returns:
            The trajectories. One that diverges is flagged, and the others continue. One of several whose start is not
            finite has `diverged` 0.

        Raises:
            ValueError: An input is missing, of another shape or not finite, or a quaternion has another length than 1.
            TypeError: An input is masked, or no array of real numbers.
        """
        self.check_open()
        plain = active is None and not inputs
        if plain and (trajectories := self._again(q0, qd0, tau, dt)) is not None:
            return self._owned(trajectories, dt)
        shapes = {"q0": (self.robot.nq,), "qd0": (self.robot.nv,), "tau": (self.steps, self.robot.nv)}
        shapes |= {name: port.shape for name, port in self.parameters.items()}
        starts = {"q0": q0, "qd0": qd0, "tau": tau, **own_parameters(self.parameters, inputs)}
        q0, qd0, tau, *parameters = broadcast_starts(shapes, starts)
        inputs = {**inputs, **dict(zip(self.parameters, parameters, strict=True))}
        state, leading, lost = self._checked(q0, qd0, tau, dt)
        state |= self._by_step(inputs, active, leading)
        if self.chip is not None:
            return self._owned(self.chip(q0, qd0, tau, active=active, every=self.every), dt)
        results, right = self.marched(state)
        q, qd = results["q"], results["qd"]
        self._watch.look(q, results.get("tau", state["tau"]))
        diverged: Array = np.full(len(q), -1)
        converged: Array | None = None
        if "failed" in results:
            converged = np.diff(results.pop("failed"), axis=1, prepend=0.0) == 0.0
            if self.motion.ends:
                q[:, 1:][~converged] = qd[:, 1:][~converged] = np.nan
        if not right:
            wrong = np.logical_not(np.isfinite(q).all(axis=2) & np.isfinite(qd).all(axis=2))
            bad = np.flatnonzero(wrong.any(axis=1))
            diverged[bad] = np.argmax(wrong[bad], axis=1) * self.every
        shaped = {name: array.reshape(*leading, *array.shape[1:]) for name, array in results.items()}
        if converged is not None:
            converged = converged.reshape(*leading, -1)
        extras = {
            name: shaped[name].reshape(*shaped[name].shape[: len(leading) + 1], *shape)
            for name, (_, shape) in self.motion.extras.items()
        }
        a, b = shaped.get("a"), shaped.get("b")
        actuators = {name: extras.pop(name) for name in self.drive.sizes}
        trajectories = Trajectories(shaped["q"], shaped["qd"], a, b, diverged.reshape(leading), converged, **extras)
        trajectories.actuators = actuators
        if lost is not None:
            flag_lost(trajectories, lost.reshape(leading))
        return self._owned(trajectories, dt)

    def _owned(self, trajectories: Trajectories, dt: npt.ArrayLike | None) -> Trajectories:
        """Return trajectories with the robot and the seconds between states, which follow from `dt` if each call passes
        it; the longest ones if trajectories differ.
        """
        step = self.options.dt if self.options.dt is not None else float(np.max(np.asarray(dt), initial=0.0))
        return trajectories.of(self.robot, step * self.every)

    def _by_step(
        self, inputs: Mapping[str, npt.ArrayLike], active: npt.ArrayLike | None, leading: tuple[int, ...]
    ) -> dict[str, Array]:
        """Return the inputs of each step besides torques, (batch, steps, ...). Raise ArgumentError or ArgumentTypeError
        if one is wrong.
        """
        others = {*self._given, *self.parameters, *self.drive.sizes}
        own = {name: value for name, value in inputs.items() if name not in others}
        closed = self._feedback(inputs, leading)
        held = closed | self._force_inputs(own, leading) | self._active(active, leading)
        for name, size in self.drive.sizes.items():
            if name in inputs:
                held[before(name)] = spread(name, inputs[name], leading, (size,), self.dtype)
        for name, value in own_parameters(self.parameters, inputs).items():
            port = self.parameters[name]
            held[name] = spread(name, value, leading, port.shape, self.dtype)
            check_values(port, held[name], leading)
        return held

    def _feedback(self, inputs: Mapping[str, npt.ArrayLike], leading: tuple[int, ...]) -> dict[str, Array]:
        """Return gain, q_ref and qd_ref of a rollout with feedback, (batch, steps, ...). Raise ArgumentError or
        ArgumentTypeError if one is wrong.
        """
        arrays = {}
        for name, one in self._given.items():
            if name not in inputs:
                raise ArgumentError(
                    f"a call without {name}; a rollout with feedback expects {', '.join(self._given)}",
                    code="DG-ROLLOUT-021",
                )
            arrays[name] = spread(name, inputs[name], leading, (self.steps, *one), self.dtype)
        if "q_ref" in arrays:
            units = [(part.start, part.stop) for part in self.robot.quaternions()]
            check_unit_vectors("q_ref", units, arrays["q_ref"].reshape(-1, self.robot.nq))
        return arrays

    def _active(self, active: npt.ArrayLike | None, leading: tuple[int, ...]) -> dict[str, Array]:
        """Return the input `active` of a constrained rollout, (batch, steps, constraints). Raise ArgumentError if it
        has another shape or other numbers than 0 and 1, or if the rollout is not constrained.
        """
        if not self.options.constrained:
            if active is not None:
                raise ArgumentError(
                    "active= of a rollout without constraints; expected it with constrained=True", code="DG-ROLLOUT-022"
                )
            return {}
        return {"active": switches("active", active, leading, (self.steps, len(self.robot.constraints)), self.dtype)}

    def marched(self, state: Mapping[str, Array]) -> tuple[dict[str, Array], bool]:
        """Compute trajectories from arrays of this rollout's dtype, without checks.

        Args:
            state: q (batch, nq) and qd (batch, nv), rad, m, rad/s and m/s, and tau (batch, steps, nv), N m or N; dt
                (1,), s, if it is an input; inputs of forces, (batch, steps, nv).

        Returns:
            q (batch, steps // every + 1, nq), qd (batch, steps // every + 1, nv), with `linearize` a and b of
            `Trajectories`, and for methods that solve equations failed (batch, steps // every), the number of steps
            until then that did not converge; and whether all results are right.
        """
        batch, n = len(state["q"]), self.robot.nv
        state = {**state, self.torques: state["tau"]}
        self._check_force_inputs(state)
        state = {**self._active(None, (batch,)), **state}
        results = {name: self._with_first(state[name]) for name in ("q", "qd")}
        outputs = {kept: results[name][:, 1:] for name, kept in zip(("q", "qd"), self.motion.states, strict=True)}
        if self._linearize:
            size = 2 * n + sum(self.drive.sizes.values())
            linear = {
                "a": np.empty((batch, self.steps, size, size), self.dtype),
                "b": np.empty((batch, self.steps, size, n), self.dtype),
            }
            results, outputs = results | linear, outputs | linear
        if self.motion.failed:
            results["failed"] = outputs[self.motion.failed] = np.zeros((batch, self.steps // self.every), self.dtype)
        for name, (value, shape) in self.motion.extras.items():
            results[name] = outputs[value] = np.empty(
                (batch, self.steps // self.every, *((math.prod(shape),) if shape else ())), self.dtype
            )
        if not batch:
            return results, True
        return results, self._compute(self._begun(state), outputs) and not self.motion.failed

    def _begun(self, state: Mapping[str, Array]) -> dict[str, Array]:
        """Return the initial values of the loop for the state of a call."""
        batch = len(state["q"])
        zeros = {name: np.zeros((batch, count), self.dtype) for name, count in self.motion.zeros.items()}
        inputs = {**zeros, **state, **{name: np.full(1, x, self.dtype) for name, x in self.motion.constants.items()}}
        if self._begin is not None and self.motion.begin is not None:
            outputs = {p.name: np.empty((batch, *p.shape), self.dtype) for p in self.motion.begin.outputs}
            self._begin({port.name: inputs[port.name] for port in self.motion.begin.inputs}, outputs)
            inputs |= outputs
        return {port.name: inputs[port.name] for port in self.loop.inputs}

    def _with_first(self, start: Array) -> Array:
        """Room for the states that are kept, the first one in its place."""
        states = np.empty((len(start), self.steps // self.every + 1, start.shape[1]), self.dtype)
        states[:, 0] = start
        return states

    def _again(
        self, q0: npt.ArrayLike, qd0: npt.ArrayLike, tau: npt.ArrayLike, dt: npt.ArrayLike | None
    ) -> Trajectories | None:
        """The call by arrays that are bound to the kernel since one of these shapes, where they are few and small; None
        where not, or where something is wrong with the inputs or results."""
        if self._kernel is None or dt is not None:
            return None
        q, qd, torque = real("q0", q0), real("qd0", qd0), real("tau", tau)
        small = self._small.get(torque.shape)
        if small is None:
            if torque.size > SMALL or torque.shape[-2:] != (self.steps, self.robot.nv) or not torque.size:
                return None
            small = _Small(self, self._kernel, torque.shape[:-2])
            self._small.put(torque.shape, small)
            return None  # the first call of a shape has all checks
        return small(q, qd, torque)

    def vjp(
        self,
        trajectories: Trajectories,
        tau: npt.ArrayLike,
        cost_q: npt.ArrayLike,
        cost_qd: npt.ArrayLike,
        *,
        dt: npt.ArrayLike | None = None,
        active: npt.ArrayLike | None = None,
        **inputs: npt.ArrayLike,
    ) -> dict[str, Array]:
        """Return the gradient of a cost over trajectories, by one reverse sweep over their stored states.

        An integrator that solves equations is differentiated at their solution, by the implicit function theorem. A
        trajectory with a step that has not converged then has NaN.

        Args:
            trajectories: Result of the call with `tau`.
            tau: Torques (..., steps, nv) of the call, N m or N.
            cost_q: ∂cost/∂q (..., steps + 1, nv) of every state, along velocities, in the cost's unit per rad or m.
            cost_qd: ∂cost/∂q̇ (..., steps + 1, nv) of every state, in the cost's unit per rad/s or m/s.
            dt: Seconds of a step, as in the call.
            active: Constraints that hold, as in the call.
            inputs: Other inputs of the call.

        Returns:
            ∂cost/∂ each input by its name: `q0` (..., nv), along velocities, `qd0` (..., nv), `tau` (..., steps, nv),
            the robot's variable parameters (..., *shape), inputs of forces (..., steps, nv), and `dt` (...,) if the
            rollout has `dt=None`. With feedback also `gain`, `q_ref`, along velocities, and `qd_ref` of every step, or
            the inputs of a `JointPD`.

        Raises:
            ValueError: A shape differs from those of this rollout, or a number is not finite although its trajectory
                has not diverged.
            TypeError: An array is not of real numbers.
        """
        self.check_open()
        if self.chip is not None:
            raise ArgumentError(
                f"device '{self.device}' has no reverse sweep; expected 'cpu' or 'numpy'", code="DG-ROLLOUT-024"
            )
        self.check_all_kept()
        n, steps = self.robot.nv, self.steps
        leading = real("tau", tau).shape[:-2]
        torque = of_shape("tau", tau, (*leading, steps, n), self.dtype)
        q, qd = (
            of_shape(f"trajectories.{name}", x, (*leading, steps + 1, size), self.dtype, finite=False)
            for name, x, size in (("q", trajectories.q, self.robot.nq), ("qd", trajectories.qd, n))
        )
        cost_q, cost_qd = (
            of_shape(name, x, (*leading, steps + 1, n), self.dtype)
            for name, x in (("cost_q", cost_q), ("cost_qd", cost_qd))
        )
        held = self._by_step(inputs, active, leading)
        first = {before(name): held.pop(before(name)) for name in self.drive.sizes if before(name) in held}
        held |= self._solved(trajectories, leading)
        for name, step in self._time_step(dt, leading).items():
            held[name] = np.ascontiguousarray(np.broadcast_to(step, math.prod(leading)))
        gradient = self.swept(q, qd, torque, cost_q, cost_qd, held, first=first)
        for part in gradient.values():
            part[~trajectories.converged.all(axis=-1)] = np.nan
        return gradient

    def _solved(self, trajectories: Trajectories, leading: tuple[int, ...]) -> dict[str, Array]:
        """Return the solutions of the steps other than velocities, (batch, steps, numbers). Raise ArgumentError or
        ArgumentTypeError if they are missing or wrong.
        """
        solved = {}
        for name in self.motion.solved:
            shape = self.motion.extras[name][1]
            value, whole = trajectories.result(name), (*leading, self.steps, *shape)
            array = of_shape(f"trajectories.{name}", value, whole, self.dtype, finite=False)
            solved[name] = array.reshape(-1, self.steps, math.prod(shape))
        return solved

    def check_all_kept(self) -> None:
        """Raise ArgumentError unless the states of all steps are kept, which a sweep backward needs."""
        if self.every > 1:
            raise ArgumentError(
                f"every={self.every}: this rollout lacks states to sweep back over; expected every=1",
                code="DG-ROLLOUT-026",
            )

    def swept(
        self,
        q: Array,
        qd: Array,
        tau: Array,
        cost_q: Array,
        cost_qd: Array,
        held: Mapping[str, Array] | None = None,
        costs: Mapping[str, Array] | None = None,
        first: Mapping[str, Array] | None = None,
    ) -> dict[str, Array]:
        """Compute `vjp` of arrays of this rollout's dtype, without checks.

        Args:
            q: Configurations (..., steps + 1, nq) of the states, rad or m.
            qd: Velocities (..., steps + 1, nv) of the states, rad/s or m/s.
            tau: Torques and forces, as of `vjp`.
            cost_q: Derivatives of the cost by q, as of `vjp`.
            cost_qd: Derivatives of the cost by qd, as of `vjp`.
            held: Other inputs of each step (batch, steps, ...), dt (batch,) if it is an input, and the values that
                steps have solved for, by name.
            costs: Derivatives of the cost by other results of each step (batch, steps, ...), by name.
            first: States of actuators before the first step (batch, numbers), by the names of the loop; 0 by default.

        Returns:
            Derivatives of the cost by each input, by name.
        """
        self._check_force_inputs(held or {})
        n, steps, leading = self.robot.nv, self.steps, qd.shape[:-2]
        summed = (*self.parameters, *(("dt",) if self.options.dt is None else ()))
        arrays = {"q": q, "qd": qd, "cost_q": cost_q, "cost_qd": cost_qd}
        flat = {name: x.reshape(-1, *x.shape[-2:]) for name, x in arrays.items()}
        batch = len(flat["qd"])
        is_first = np.zeros((batch, steps), self.dtype)
        is_first[:, 0] = 1.0
        inputs = {
            **{name: x[:, :-1] for name, x in flat.items()},
            AFTER: flat["qd"][:, 1:],
            FIRST: is_first,
            self.torques: tau.reshape(batch, steps, n),
            "lam_q": flat["cost_q"][:, -1],
            "lam_qd": flat["cost_qd"][:, -1],
            **{f"cost_{name}": weights for name, weights in (costs or {}).items()},
            **self._active(None, leading),
            **with_before({name: x for name, x in (held or {}).items() if name not in summed}),
            **{name: (held or {})[name] for name in summed},
        }
        for name, values in (first or {}).items():
            inputs[name] = inputs[name].copy()
            inputs[name][:, 0] = values
        reverse = self._reversed
        carried = set(reverse.loop.carry.values())
        iterations = {**dict.fromkeys(reverse.loop.last, ()), **dict.fromkeys(reverse.loop.kept, (steps,))}
        shapes = {name: (*axes, *reverse.loop.values[name].shape) for name, axes in iterations.items()}
        outputs = {name: np.empty((batch, *shape), self.dtype) for name, shape in shapes.items()}
        if batch:
            for port in reverse.loop.inputs:
                if port.name in carried:  # of what steps begin with besides q and q̇, whose cost is 0 at the end
                    inputs.setdefault(port.name, np.zeros((batch, *port.shape), self.dtype))
                elif port.name.startswith("cost_"):  # of what steps have solved for
                    inputs.setdefault(port.name, np.zeros((batch, steps, *port.shape), self.dtype))
            reverse({port.name: inputs[port.name] for port in reverse.loop.inputs}, outputs)
        names = {"lam_q_next": "q0", "lam_qd_next": "qd0", f"vjp_{self.torques}": "tau"}
        names |= {f"lam_{name}_next": name for name in (*summed, *self.drive.sizes)}
        return {
            names.get(name, name.removeprefix("vjp_")): product.reshape((*leading, *product.shape[1:]))
            for name, product in outputs.items()
        }

    def _force_inputs(self, inputs: Mapping[str, npt.ArrayLike], leading: tuple[int, ...]) -> dict[str, Array]:
        """Return the inputs of forces, (batch, steps, nv) each. Raise ArgumentError or ArgumentTypeError if one is
        missing, unknown or wrong."""
        for name in inputs:
            if name not in self.force_inputs:
                expected = " or ".join(self.force_inputs) or "a force with it, as a Servo has"
                raise ArgumentError(f"input '{name}' is no force's; expected {expected}", code="DG-ROLLOUT-027")
        self._check_force_inputs(inputs)
        shape = (self.steps, self.robot.nv)
        for name in self.force_inputs:
            size = real(name, inputs[name]).shape[-1:]
            if has_ignored(self.robot) and size not in ((), (1,), shape[-1:]):
                raise ArgumentError(
                    f"{name} has {size[0]} numbers; expected {shape[-1]}, one for each velocity{IGNORED}",
                    code="DG-ROLLOUT-028",
                )
        return {name: spread(name, inputs[name], leading, shape, self.dtype) for name in self.force_inputs}

    def _check_force_inputs(self, inputs: Collection[str]) -> None:
        """Raise ArgumentError if an input of a force is missing."""
        for name in self.force_inputs:
            if name not in inputs:
                n = self.robot.nv
                raise ArgumentError(
                    f"input '{name}' of a force is missing; expected shape ({n},) or (..., {self.steps}, {n})",
                    code="DG-ROLLOUT-029",
                )

    def _computing(self, loop: Loop) -> LoopExecutor:
        """Return the executor of a loop; a loop that states its number of iterations keeps it."""
        counted = isinstance(loop.stop, Count) and loop.stop.iterations
        return self._open(loop, None if counted else self.steps)

    def _open(self, loop: Loop, iterations: int | None) -> LoopExecutor:
        compute: LoopExecutor = self._device.open(LoopSource(loop, iterations))
        return compute

    def _checked(
        self, q0: npt.ArrayLike, qd0: npt.ArrayLike, tau: npt.ArrayLike, dt: npt.ArrayLike | None
    ) -> tuple[dict[str, Array], tuple[int, ...], Array | None]:
        """The inputs with one axis (batch,) in front, the axes that they had, and which trajectories are lost."""
        robot = self.robot
        leading = real("q0", q0).shape[:-1]
        shapes = {"q": (robot.nq,), "qd": (robot.nv,), "tau": (self.steps, robot.nv)}
        state = {
            name: of_shape(label, value, (*leading, *shapes[name]), self.dtype, finite=False).reshape(-1, *shapes[name])
            for name, label, value in (("q", "q0", q0), ("qd", "qd0", qd0), ("tau", "tau", tau))
        }
        units = [(part.start, part.stop) for part in robot.quaternions()]
        state, lost = without_lost(state, leading, units)
        check_unit_vectors("q0", units, state["q"])
        return state | self._time_step(dt, leading), leading, lost

    def _time_step(self, dt: npt.ArrayLike | None, leading: tuple[int, ...]) -> dict[str, Array]:
        """Return the input `dt` of a rollout with dt=None, (1,) or (batch,). Raise ArgumentError if it is not above 0,
        has other axes than the call, or the rollout has a constant one.
        """
        if self.options.dt is not None:
            if dt is not None:
                raise ArgumentError(
                    f"dt={dt!r} for a rollout with steps of {self.options.dt} s; expected none, or dt=None there",
                    code="DG-ROLLOUT-031",
                )
            return {}
        step: Array = real("dt", dt if dt is not None else np.nan).astype(self.dtype)
        if not (np.isfinite(step).all() and (step > 0.0).all()):
            raise ArgumentError(f"dt={dt!r}; expected a time step of more than 0 s", code="DG-ROLLOUT-030")
        return {"dt": step.reshape(1) if step.shape == () else spread("dt", step, leading, (), self.dtype)}


answering(Rollout, dict.fromkeys(CALLED, "rollout(q0, qd0, tau): a rollout is called"))


class _Small:
    """Small arrays of one shape, bound to the kernel of a rollout. Copying to and from them is faster than binding new
    ones.
    """

    def __init__(self, rollout: Rollout, kernel: LoopKernel, leading: tuple[int, ...]) -> None:
        robot, steps, dtype = rollout.robot, rollout.steps, rollout.dtype
        results, batch = steps // rollout.every + 1, math.prod(leading)
        self._lock, self._watch = Lock(), rollout._watch
        renew_in_child(self, "_lock")
        self._states = np.zeros(batch * results * (robot.nq + robot.nv), dtype)
        cut = batch * results * robot.nq
        self._q = self._states[:cut].reshape(*leading, results, robot.nq)
        self._qd = self._states[cut:].reshape(*leading, results, robot.nv)
        self._tau = np.empty((*leading, steps, robot.nv), dtype)
        self._diverged = np.full(leading, -1)
        self._first = self._q[..., 0, :], self._qd[..., 0, :]
        self._shape = self._first[0].shape, self._first[1].shape
        q, qd = (array.reshape(batch, *array.shape[-2:]) for array in (self._q, self._qd))
        inputs = {"q": q[:, 0], "qd": qd[:, 0], "tau": self._tau.reshape(batch, *self._tau.shape[-2:])}
        self._run = kernel.bound(inputs, {"q_next": q[:, 1:], "qd_next": qd[:, 1:]}, batch, steps)

    def __call__(self, q0: Array, qd0: Array, tau: Array) -> Trajectories | None:
        if q0.shape != self._shape[0] or qd0.shape != self._shape[1]:
            return None
        with self._lock:
            self._first[0][...] = q0
            self._first[1][...] = qd0
            self._tau[...] = tau
            if not (self._run() and math.isfinite(np.vdot(self._states, self._states))):
                return None
            if self._watch.might_warn(self._q, self._tau):
                return None
            return Trajectories(self._q.copy(), self._qd.copy(), None, None, self._diverged.copy())


def _check_on_chip(asked: RolloutOptions, device: str) -> None:
    method = asked.chosen_method
    if asked.feedback:
        raise ArgumentError(
            f"device '{device}' takes no feedback=; expected 'cpu', 'cuda' or 'numpy'", code="DG-ROLLOUT-032"
        )
    program = f"dynagate.build(robot, 'rollout', units=4, {{}}), opened on device '{device}'"
    if asked.contacts is not None:
        raise ArgumentError(
            f"device '{device}' takes no contacts=; expected 'cpu', 'cuda' or 'numpy', or a program: "
            f"{program.format('contacts=...')}",
            code="DG-ROLLOUT-033",
        )
    if not method.linearizes:
        expected = (
            f"expected one of {', '.join(EXPLICIT_METHODS)}, device 'cpu', 'cuda' or 'numpy', or a program: "
            f"{program.format(f'integrator={method.name!r}')}"
        )
        raise ArgumentError(
            f"device '{device}' takes no integrator '{method.name}': it solves equations; {expected}",
            code="DG-ROLLOUT-034",
        )


def _on_chip(
    robot: Robot, options: StepOptions, linearize: bool, device: ChosenDevice, watch: LimitWatch
) -> RolloutDevice:
    """Return the rollout on a chip or in its integers. Raise ArgumentError if the time step is no constant."""
    if options.dt is None:
        raise ArgumentError(
            f"device '{device.name}' takes no dt=None; expected a time step, or a design built with variable_dt=True, "
            "whose dt is the largest",
            code="DG-ROLLOUT-036",
        )
    algorithm = AlgorithmOptions(**options.of_step(), linearize=linearize)
    executor = device.open(MotionSource(robot, algorithm))
    region = getattr(device.options, "region", None) or Region.of(robot)
    return RolloutDevice(executor, watch, RegionExit(region, executor.step_graph, options.dt))
