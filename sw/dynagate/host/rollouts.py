"""Rollouts: many trajectories of a robot through many steps, in one call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_flags, is_whole, of_shape, real
from dynagate.base.errors import ArgumentError
from dynagate.dynamics import ROLLOUT, AlgorithmOptions
from dynagate.dynamics.friction import SPEED, warn_of_no_friction
from dynagate.graph.evaluate import check_unit_vectors
from dynagate.graph.loop import Count, Loop
from dynagate.host.bound import MotionCall
from dynagate.host.chip_rollout import ChipRollout
from dynagate.host.devices import Cpu, DeviceOptions
from dynagate.host.devices.loops import Compute
from dynagate.host.devices.registry import chosen_device
from dynagate.host.links import DeviceError, Transfer
from dynagate.host.opened import Opened
from dynagate.host.trajectories import Trajectories
from dynagate.integrators.step import CARRY, StepOptions, linearised_step_graph, step_graph
from dynagate.integrators.step_vjp import step_vjp_graph
from dynagate.native.loop import LoopKernel
from dynagate.robot import Robot, robots

Array = npt.NDArray[Any]
SMALL = 4096
"""Torques of a call up to which its arrays are copied to some that are bound to the kernel."""

SHAPES = 8
"""Of calls that have arrays bound to the kernel, of a rollout. The oldest make room for others."""


class Rollout(Opened):
    """A robot's motion under given torques, step by step. Call it; use it as a context.

    robot: also the path of a URDF file, or the name of a robot that ships.
    steps: how many. dt: seconds of a step, or None where each call says it. integrator: "euler", "semi_implicit_euler",
    "rk2", "rk3" or "rk4". linearise: give a and b of every step too.
    every: give the states after every so many steps alone, a divisor of `steps`; `steps` itself for the last one alone.
    device: as `dynagate.open` takes it: "cpu", C with the loop inside the vector; "cuda", all steps in one launch;
    "numpy", float64, the reference; "fixed", the integers of a chip that keeps the states; "sim", this chip simulated.
    options: of the device, by name, the fields of its class in `dynagate.host.devices`: dtype of "cpu" and "cuda",
    float64 unless given; policy and region of "fixed" and "sim", for the formats; of "sim" those of a build besides.
    form: of forward dynamics. friction: Coulomb friction F q̇ / √(q̇² + friction_speed²) of the joints: True for the F of
    the robot's file, or F in N m or N, one for all degrees of freedom or one for each; friction_speed in rad/s or m/s.
    stops: joints end at their limits, where they lose their speed. Damping is the robot's own.

    Raises ValueError: an option is none of these, or one that the device does not take, before any work; DeviceError:
    there is no GPU.
    """

    def __init__(
        self,
        robot: Robot | str | PathLike[str],
        *,
        steps: int,
        dt: float | None,
        integrator: str = "semi_implicit_euler",
        linearise: bool = False,
        every: int = 1,
        device: str | DeviceOptions = Cpu.name,
        form: str | None = None,
        friction: bool | float | tuple[float, ...] = 0.0,
        friction_speed: float = SPEED,
        stops: bool = False,
        **options: Any,
    ) -> None:
        self.options = StepOptions(dt, integrator, form, friction, friction_speed, stops)
        check_flags(linearise=linearise)
        _check_steps(steps, every, linearise)
        own = {name: value for name, value in options.items() if value is not None}
        chosen = chosen_device(device, ROLLOUT, own)
        robot = robot if isinstance(robot, Robot) else robots.load(robot)
        self.robot, self.steps, self.every, self.device = robot, int(steps), int(every), chosen.name
        self.options.friction_of(robot)
        warn_of_no_friction(robot, friction)
        self.function, self.functions = ROLLOUT, {}
        self._linearise = linearise
        self.chip: ChipRollout | None = None
        self.kernel: LoopKernel | None = None
        self._device = chosen
        self._small: dict[tuple[int, ...], _Small] = {}
        self._binding = Lock()
        self._closed = False
        if chosen.keeps_states:
            self.chip = _on_chip(robot, self.options, linearise, chosen)
            self.dtype = self.chip.device.dtype
            return
        self.loop = rollout_loop(robot, self.options, linearise=linearise, every=self.every)
        self._compute = chosen.of_loop(self.loop, self.steps)
        self.kernel, self.dtype = self._compute.kernel, self._compute.dtype

    @cached_property
    def reverse(self) -> tuple[Loop, LoopKernel | None]:
        """The loop of `vjp`, and its C on "cpu"."""
        return self._reversed.loop, self._reversed.kernel

    @cached_property
    def _reversed(self) -> Compute:
        return self._device.of_loop(reverse_loop(self.robot, self.options), self.steps)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the results."""
        return ("q", "qd", "a", "b") if self._linearise else ("q", "qd")

    @property
    def transfer(self) -> Transfer:
        """Cycles of the last call, where a chip computes it."""
        return Transfer(0, 0.0) if self.chip is None else self.chip.transfer

    def bind(self, *args: Any, **options: Any) -> MotionCall:
        """A call on the same arrays again and again, as `Opened.bind` says. args, options: as of a call."""
        return MotionCall(self, args, options)

    def close(self) -> None:
        """Gives back what the device holds. Calls raise DeviceError afterwards."""
        self._closed = True
        self._small.clear()
        if self.chip is not None:
            self.chip.close()

    def _check_open(self) -> None:
        if self._closed:
            raise DeviceError(f"{self!r} is closed; open it again")

    @property
    def _kernel(self) -> LoopKernel | None:
        """The C that a call of inputs as they are can use at once."""
        plain = self.options.dt is not None and not self._linearise and not self.robot.quaternions()
        return self.kernel if plain else None

    def __call__(
        self, q0: npt.ArrayLike, qd0: npt.ArrayLike, tau: npt.ArrayLike, *, dt: npt.ArrayLike | None = None
    ) -> Trajectories:
        """q0 (..., nq), qd0 (..., nv), tau (..., steps, nv), N m or N, and dt (), seconds, where it is not constant.

        Raises ValueError or TypeError: an input is missing, of another shape, not finite, not real numbers, or masked;
        or a quaternion has not length 1. A trajectory that diverges is flagged, and harms no other.
        """
        self._check_open()
        if (trajectories := self._again(q0, qd0, tau, dt)) is not None:
            return trajectories
        state, leading = self._checked(q0, qd0, tau, dt)
        if self.chip is not None:
            return self.chip(q0, qd0, tau, every=self.every)
        results, right = self.marched(state)
        q, qd = results["q"], results["qd"]
        diverged = np.full(len(q), -1)
        if not right:
            wrong = np.logical_not(np.isfinite(q).all(axis=2) & np.isfinite(qd).all(axis=2))
            bad = np.flatnonzero(wrong.any(axis=1))
            diverged[bad] = np.argmax(wrong[bad], axis=1) * self.every
        shaped = {name: array.reshape(*leading, *array.shape[1:]) for name, array in results.items()}
        return Trajectories(shaped["q"], shaped["qd"], shaped.get("a"), shaped.get("b"), diverged.reshape(leading))

    def marched(self, state: Mapping[str, Array]) -> tuple[dict[str, Array], bool]:
        """A call on arrays of this rollout's dtype, unchecked. state: q (batch, nq) and qd (batch, nv), rad, m, rad/s
        and m/s, and tau (batch, steps, nv), N m or N; dt (1,), s, where it is an input.

        Returns q (batch, steps // every + 1, nq), qd (batch, steps // every + 1, nv) and, where they are asked for, a
        and b of `Trajectories`; and whether all are right."""
        batch, n = len(state["q"]), self.robot.nv
        results = {name: self._with_first(state[name]) for name in ("q", "qd")}
        outputs = {f"{name}_next": states[:, 1:] for name, states in results.items()}
        if self._linearise:
            linear = {
                "a": np.empty((batch, self.steps, 2 * n, 2 * n), self.dtype),
                "b": np.empty((batch, self.steps, 2 * n, n), self.dtype),
            }
            results, outputs = results | linear, outputs | linear
        return results, not batch or self._compute(state, outputs)

    def __repr__(self) -> str:
        return f"<Rollout of {self.robot.name}, {self.steps} steps on {self.device}>"

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
            with self._binding:
                while len(self._small) >= SHAPES:
                    del self._small[next(iter(self._small))]
                self._small[torque.shape] = small
        return small(q, qd, torque)

    def vjp(
        self, trajectories: Trajectories, tau: npt.ArrayLike, cost_q: npt.ArrayLike, cost_qd: npt.ArrayLike
    ) -> dict[str, Array]:
        """The gradient of a cost over trajectories, by one reverse sweep over their stored states.

        trajectories: what the call with `tau` returned. cost_q, cost_qd: (..., steps + 1, nv), ∂cost/∂(q, q̇) of every
        state, of q along velocities, in the cost's unit a rad, m, rad/s or m/s. tau (..., steps, nv), N m or N: of the
        call. Returns `q0`, `qd0` (..., nv) and `tau` (..., steps, nv): ∂cost/∂ each.
        Raises ValueError or TypeError: shapes differ from those of this rollout, numbers are not finite but those of a
        trajectory that diverged, or not real; or dt is not constant.
        """
        self._check_open()
        if self.chip is not None:
            raise ArgumentError(f"device '{self.device}' has no reverse sweep; expected 'cpu' or 'numpy'")
        if self.options.dt is None:
            raise ArgumentError("dt is an input of this rollout; expected a constant one to sweep back")
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
        return self.swept(q, qd, torque, cost_q, cost_qd)

    def check_all_kept(self) -> None:
        """Raises ValueError: not the state of every step is kept, so that none can sweep back over them."""
        if self.every > 1:
            raise ArgumentError(f"every={self.every}: this rollout lacks states to sweep back over; expected every=1")

    def swept(self, q: Array, qd: Array, tau: Array, cost_q: Array, cost_qd: Array) -> dict[str, Array]:
        """`vjp` of arrays of this rollout's dtype, unchecked: q (..., steps + 1, nq) and qd (..., steps + 1, nv) of the
        states, rad, m, rad/s, m/s; tau, cost_q, cost_qd and the result as there."""
        n, steps, leading = self.robot.nv, self.steps, qd.shape[:-2]
        arrays = {"q": q, "qd": qd, "cost_q": cost_q, "cost_qd": cost_qd}
        flat = {name: x.reshape(-1, *x.shape[-2:]) for name, x in arrays.items()}
        batch = len(flat["qd"])
        inputs = {
            **{name: x[:, :-1] for name, x in flat.items()},
            "tau": tau.reshape(batch, steps, n),
            "lam_q": flat["cost_q"][:, -1],
            "lam_qd": flat["cost_qd"][:, -1],
        }
        outputs = {
            "vjp_tau": np.empty((batch, steps, n), self.dtype),
            "lam_q_next": np.empty((batch, n), self.dtype),
            "lam_qd_next": np.empty((batch, n), self.dtype),
        }
        if batch:
            self._reversed(inputs, outputs)
        return {
            "q0": outputs["lam_q_next"].reshape(*leading, n),
            "qd0": outputs["lam_qd_next"].reshape(*leading, n),
            "tau": outputs["vjp_tau"].reshape(*leading, steps, n),
        }

    def _checked(
        self, q0: npt.ArrayLike, qd0: npt.ArrayLike, tau: npt.ArrayLike, dt: npt.ArrayLike | None
    ) -> tuple[dict[str, Array], tuple[int, ...]]:
        robot = self.robot
        leading = real("q0", q0).shape[:-1]
        q = of_shape("q0", q0, (*leading, robot.nq), self.dtype).reshape(-1, robot.nq)
        check_unit_vectors("q0", [(part.start, part.stop) for part in robot.quaternions()], q)
        state = {
            "q": q,
            "qd": of_shape("qd0", qd0, (*leading, robot.nv), self.dtype).reshape(-1, robot.nv),
            "tau": of_shape("tau", tau, (*leading, self.steps, robot.nv), self.dtype).reshape(-1, self.steps, robot.nv),
        }
        if self.options.dt is None:
            step = real("dt", dt if dt is not None else np.nan).astype(self.dtype)
            if step.shape != () or not (np.isfinite(step) and step > 0.0):
                raise ArgumentError(f"dt={dt!r}; expected a time step of more than 0 s")
            state["dt"] = step.reshape(1)
        elif dt is not None:
            raise ArgumentError(
                f"dt={dt!r} for a rollout with steps of {self.options.dt} s; expected none, or dt=None there"
            )
        return state, leading


class _Small:
    """Arrays of one shape, bound to the kernel of a rollout: a call copies to and from them, which takes less time than
    to bind new ones if they are small."""

    def __init__(self, rollout: Rollout, kernel: LoopKernel, leading: tuple[int, ...]) -> None:
        robot, steps, dtype = rollout.robot, rollout.steps, rollout.dtype
        results, batch = steps // rollout.every + 1, math.prod(leading)
        self._lock = Lock()
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
            return Trajectories(self._q.copy(), self._qd.copy(), None, None, self._diverged.copy())


def _check_steps(steps: int, every: int, linearise: bool) -> None:
    if not (is_whole(steps) and steps >= 1):
        raise ArgumentError(f"steps={steps}; expected a whole number of 1 or more")
    if not (is_whole(every) and every >= 1 and steps % every == 0):
        raise ArgumentError(f"every={every} of {steps} steps; expected a whole number that divides them")
    if linearise and every > 1:
        raise ArgumentError(f"linearise with every={every}; expected every=1: a and b are those of every step")


def _on_chip(robot: Robot, options: StepOptions, linearise: bool, device: DeviceOptions) -> ChipRollout:
    """The rollout on a chip or in its integers. Raises ValueError: the time step is no constant."""
    if options.dt is None:
        raise ArgumentError(
            f"device '{device.name}' takes no dt=None; expected a time step, or a design built with variable_dt=True, "
            "whose dt is the largest"
        )
    algorithm = AlgorithmOptions(
        options.form,
        dt=options.dt,
        integrator=options.integrator,
        linearise=linearise,
        friction=options.friction,
        friction_speed=options.friction_speed,
        stops=options.stops,
    )
    return ChipRollout(device.of_rollout(robot, algorithm))


def rollout_loop(robot: Robot, options: StepOptions, *, linearise: bool = False, every: int = 1) -> Loop:
    """The loop of a rollout: q, qd and torques per turn to q_next, qd_next (and a, b) of every so many turns."""
    graph = linearised_step_graph(robot, options) if linearise else step_graph(robot, options)
    kept = ("q_next", "qd_next", *(("a", "b") if linearise else ()))
    name = f"rollout_{options.integrator}{'_linearised' if linearise else ''}{f'_every_{every}' if every > 1 else ''}"
    return Loop(name, robot.name, (graph,), CARRY, Count(), ("tau",), kept, every=every)


def reverse_loop(robot: Robot, options: StepOptions) -> Loop:
    """The loop of a rollout's gradient: states, torques and cost gradients from the last turn to the first."""
    graph = step_vjp_graph(robot, options)
    return Loop(
        f"rollout_{options.integrator}_vjp",
        robot.name,
        (graph,),
        {"lam_q_next": "lam_q", "lam_qd_next": "lam_qd"},
        Count(),
        ("q", "qd", "tau", "cost_q", "cost_qd"),
        ("vjp_tau",),
        ("lam_q_next", "lam_qd_next"),
        backwards=True,
    )
