"""Rollouts: many trajectories of a robot through many steps, in one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_flags, is_whole, of_shape, real
from dynagate.base.errors import ArgumentError
from dynagate.dynamics import AlgorithmOptions
from dynagate.dynamics.explicit import METHODS as TABLEAUX
from dynagate.dynamics.friction import SPEED, warn_of_no_friction
from dynagate.dynamics.step import DEFAULT_INTEGRATOR
from dynagate.forces import Force, Forces, Limits, as_text
from dynagate.forces.force import check_forces
from dynagate.graph.evaluate import check_unit_vectors
from dynagate.graph.loop import Count, Loop, evaluate_loop
from dynagate.host.devices import on_card
from dynagate.integrators.explicit_method import reverse_loop
from dynagate.integrators.limits import warn_beyond_limits
from dynagate.integrators.methods import method_of
from dynagate.integrators.motion import Method
from dynagate.integrators.step import StepOptions
from dynagate.native.gpu_loop import GpuLoop
from dynagate.native.loop import LoopKernel
from dynagate.robot import Robot, robots

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in `typing` from Python 3.11 on

    from dynagate.fixedpoint.assign import Policy
    from dynagate.fixedpoint.goal import Goal
    from dynagate.graph.region import Region
    from dynagate.host.chip_rollout import ChipRollout
    from dynagate.hw.plan import Stages

Array = npt.NDArray[Any]
INTEGERS = ("fixed", "sim")
DEVICES: dict[str, tuple[str, ...]] = {
    "numpy": (),
    "cpu": ("dtype",),
    "cuda": ("dtype",),
    "fixed": ("policy", "region"),
    "sim": ("ii", "policy", "goal", "formats", "stages", "region", "folder", "pauses", "seed"),
}
"""Devices of rollouts -> the options that each takes besides those of all."""

SMALL = 4096
"""Torques of a call up to which its arrays are copied to some that are bound to the kernel."""

SHAPES = 8
"""Of calls that have arrays bound to the kernel, of a rollout. The oldest make room for others."""

Compute = Callable[[Mapping[str, Array], Mapping[str, Array]], bool]
"""Fills the outputs of a loop from its inputs; whether all of them are sure to be finite."""


class RolloutDeviceOptions(TypedDict, total=False):
    """Options of single devices, by the table `DEVICES`; None is an option's default."""

    dtype: npt.DTypeLike | None
    policy: Policy | None
    region: Region | None
    ii: int | None
    goal: Goal | None
    formats: str | PathLike[str] | None
    stages: Stages | None
    folder: str | PathLike[str] | None
    pauses: tuple[float, float] | None
    seed: int | None


class Trajectories:
    """What a rollout returns; leading axes are those of q0 without its last.

    q: (..., steps + 1, nq), rad, m and unit quaternions. qd: (..., steps + 1, nv), rad/s or m/s. The first ones are q0
    and qd0; of a rollout that gives every k-th state alone, (..., steps // k + 1, ·).
    a, b: (..., steps, 2 nv, 2 nv) and (..., steps, 2 nv, nv), ∂x⁺/∂x and ∂x⁺/∂τ of the state x = (q, q̇) by each step;
    None unless asked for.
    diverged: (...) the first step whose result is given and infinite or no number; -1 where all are finite.
    """

    __slots__ = ("_converged", "a", "b", "diverged", "q", "qd")

    def __init__(
        self,
        q: Array,
        qd: Array,
        a: Array | None,
        b: Array | None,
        diverged: Array,
        converged: Array | None = None,
    ) -> None:
        self.q, self.qd, self.a, self.b, self.diverged, self._converged = q, qd, a, b, diverged, converged

    @property
    def converged(self) -> Array:
        """(..., steps) bool: whether each step has solved its equations, as those of an explicit method always have; of
        a rollout that gives every k-th state, (..., steps // k), whether all steps since the one before have."""
        return np.ones(self.q[..., 1:, 0].shape, bool) if self._converged is None else self._converged

    def __repr__(self) -> str:
        linear = "" if self.a is None else ", a, b"
        stuck = "" if self._converged is None else f", {int(np.logical_not(self._converged).sum())} steps not converged"
        diverged = int((self.diverged >= 0).sum())
        return f"<Trajectories q {self.q.shape}, qd {self.qd.shape}{linear}, {diverged} diverged{stuck}>"


class Rollout:
    """A robot's motion under given torques, step by step.

    robot: also the path of a URDF file, or the name of a robot that ships.
    steps: how many. dt: seconds of a step, or None where each call says it. method: "euler", "semi_implicit_euler" (the
    default), "rk2", "rk3", "rk4", "variational", "position_based", or a `Method` with options of its own; integrator:
    another name of this option. linearise: give a and b of every step too (explicit methods).
    every: give the states after every so many steps alone, a divisor of `steps`; `steps` itself for the last one alone.
    device: "cpu", C with the loop inside the vector; "cuda", all steps in one launch; "numpy", float64, the reference;
    "fixed", the integers of a chip that keeps the states; "sim", this chip simulated.
    dtype ("cpu", "cuda"): float64, the default, or float32.
    policy, region ("fixed", "sim"): formats, and the states and torques that they are for. ii, goal, formats, stages,
    folder, pauses, seed ("sim"): as `dynagate.build` and `dynagate.open` take them.
    form: of forward dynamics. friction: Coulomb friction F q̇ / √(q̇² + friction_speed²) of the joints: True for the F of
    the robot's file, or F in N m or N, one for all degrees of freedom or one for each; friction_speed in rad/s or m/s.
    stops: joints end at their limits, where they lose their speed. Damping is the robot's own.
    forces: of `dynagate.forces`, at every stage of a step. Each call takes their inputs by name, such as a servo's
    `target`, (..., steps, nv) or its last axes; 0 unless given.

    Raises ValueError: an option is none of these, or one that the device does not take, before any work; DeviceError:
    there is no GPU.
    """

    def __init__(
        self,
        robot: Robot | str | PathLike[str],
        *,
        steps: int,
        dt: float | None,
        method: str | Method | None = None,
        integrator: str | None = None,
        linearise: bool = False,
        every: int = 1,
        device: Literal["cpu", "numpy", "cuda", "fixed", "sim"] = "cpu",
        form: str | None = None,
        friction: bool | float | tuple[float, ...] = 0.0,
        friction_speed: float = SPEED,
        stops: bool = False,
        forces: Sequence[Force] = (),
        **options: Unpack[RolloutDeviceOptions],
    ) -> None:
        self.method = _chosen(method, integrator)
        explicit = self.method.name if self.method.linearises else DEFAULT_INTEGRATOR
        self.options = StepOptions(dt, explicit, form, friction, friction_speed, stops, forces=check_forces(forces))
        check_flags(linearise=linearise)
        self.method.check(self.options, linearise=linearise)
        _check_steps(steps, every, linearise)
        own = _device_options(device, options)
        robot = robot if isinstance(robot, Robot) else robots.load(robot)
        self.robot, self.steps, self.every, self.device = robot, int(steps), int(every), device
        self.options.friction_of(robot)
        self.given = Forces(robot, self.options.forces).inputs
        warn_of_no_friction(robot, friction)
        self.dtype = np.dtype(own.get("dtype", np.float64))
        self._linearise = linearise
        self._unlimited = not (stops or any(isinstance(force, Limits) for force in self.options.forces))
        self.chip: ChipRollout | None = None
        self.kernel: LoopKernel | None = None
        self._compute: Compute | None = None
        self._small: dict[tuple[int, ...], _Small] = {}
        self._binding = Lock()
        if device in INTEGERS:
            _check_on_chip(self.method, device)
            self.chip = _on_chip(robot, self.options, linearise, device, own)
            return
        self.motion = self.method.motion(robot, self.options, linearise=linearise, every=self.every)
        if self.motion.failed and self.dtype != np.float64:
            raise ArgumentError(f"dtype {self.dtype} with method '{self.method.name}'; expected float64 to solve in")
        self.loop = self.motion.loop
        self.kernel = self._in_c(self.loop)
        self._compute = self._opened(self.loop, self.kernel)
        begin = self.motion.begin
        self._begin = None if begin is None else self._opened(begin, self._in_c(begin))

    @cached_property
    def reverse(self) -> tuple[Loop, LoopKernel | None]:
        """The loop of `vjp`, and its C on "cpu"."""
        loop = reverse_loop(self.robot, self.options)
        return loop, self._in_c(loop)

    @cached_property
    def _reversed(self) -> Compute:
        return self._opened(*self.reverse)

    @property
    def _kernel(self) -> LoopKernel | None:
        """The C that a call of inputs as they are can use at once."""
        plain = not (self.options.dt is None or self._linearise or self.robot.quaternions() or self.given)
        plain = plain and self.method.linearises
        return self.kernel if plain else None

    def __call__(
        self,
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike,
        tau: npt.ArrayLike,
        *,
        dt: npt.ArrayLike | None = None,
        **given: npt.ArrayLike,
    ) -> Trajectories:
        """q0 (..., nq), qd0 (..., nv), tau (..., steps, nv), N m or N, and dt (), seconds, where it is not constant.
        given: the inputs of forces, (..., steps, nv) or its last axes.

        Raises ValueError or TypeError: an input is missing, of another shape, not finite, not real numbers, or masked;
        or a quaternion has not length 1. A trajectory that diverges is flagged, and harms no other.
        """
        if not given and (trajectories := self._again(q0, qd0, tau, dt)) is not None:
            return trajectories
        state, leading = self._checked(q0, qd0, tau, dt)
        state |= self._given(given, leading)
        if self.chip is not None:
            return self.chip(q0, qd0, tau, every=self.every)
        results, right = self.marched(state)
        q, qd = results["q"], results["qd"]
        self._unlimited = self._unlimited and not warn_beyond_limits(self.robot, q)
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
        diverged = diverged.reshape(leading)
        return Trajectories(shaped["q"], shaped["qd"], shaped.get("a"), shaped.get("b"), diverged, converged)

    def marched(self, state: Mapping[str, Array]) -> tuple[dict[str, Array], bool]:
        """A call on arrays of this rollout's dtype, unchecked. state: q (batch, nq) and qd (batch, nv), rad, m, rad/s
        and m/s, and tau (batch, steps, nv), N m or N; dt (1,), s, where it is an input; inputs of forces, (batch,
        steps, nv), 0 where there are none.

        Returns q (batch, steps // every + 1, nq), qd (batch, steps // every + 1, nv) and, where they are asked for, a
        and b of `Trajectories`, and failed (batch, steps // every), how many steps have not converged until then, of
        methods that solve equations; and whether all are right."""
        batch, n = len(state["q"]), self.robot.nv
        state = {**self._given({}, (batch,)), **state}
        results = {name: self._with_first(state[name]) for name in ("q", "qd")}
        outputs = {kept: results[name][:, 1:] for name, kept in zip(("q", "qd"), self.motion.states, strict=True)}
        if self._linearise:
            linear = {
                "a": np.empty((batch, self.steps, 2 * n, 2 * n), self.dtype),
                "b": np.empty((batch, self.steps, 2 * n, n), self.dtype),
            }
            results, outputs = results | linear, outputs | linear
        if self.motion.failed:
            results["failed"] = outputs[self.motion.failed] = np.zeros((batch, self.steps // self.every), self.dtype)
        if not batch or self._compute is None:
            return results, True
        return results, self._compute(self._begun(state), outputs) and not self.motion.failed

    def _begun(self, state: Mapping[str, Array]) -> dict[str, Array]:
        """What the loop begins with, of the state of a call."""
        inputs = {**state, **{name: np.full(1, x, self.dtype) for name, x in self.motion.constants.items()}}
        if self._begin is not None and self.motion.begin is not None:
            batch = len(state["q"])
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
            with self._binding:
                while len(self._small) >= SHAPES:
                    del self._small[next(iter(self._small))]
                self._small[torque.shape] = small
            return None  # the first call of a shape has all checks
        return small(q, qd, torque)

    def vjp(
        self,
        trajectories: Trajectories,
        tau: npt.ArrayLike,
        cost_q: npt.ArrayLike,
        cost_qd: npt.ArrayLike,
        **given: npt.ArrayLike,
    ) -> dict[str, Array]:
        """The gradient of a cost over trajectories, by one reverse sweep over their stored states.

        trajectories: what the call with `tau` returned. cost_q, cost_qd: (..., steps + 1, nv), ∂cost/∂(q, q̇) of every
        state, of q along velocities, in the cost's unit a rad, m, rad/s or m/s. tau (..., steps, nv), N m or N: of the
        call; given: the inputs of forces of the call. Returns `q0`, `qd0` (..., nv) and `tau` (..., steps, nv):
        ∂cost/∂ each.
        Raises ValueError or TypeError: shapes differ from those of this rollout, numbers are not finite but those of a
        trajectory that diverged, or not real; or dt is not constant.
        """
        if self.chip is not None:
            raise ArgumentError(f"device '{self.device}' has no reverse sweep; expected 'cpu' or 'numpy'")
        if not self.method.linearises:
            raise ArgumentError(f"method '{self.method.name}' has no reverse sweep; expected an explicit one, as 'rk4'")
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
        return self.swept(q, qd, torque, cost_q, cost_qd, self._given(given, leading))

    def check_all_kept(self) -> None:
        """Raises ValueError: not the state of every step is kept, so that none can sweep back over them."""
        if self.every > 1:
            raise ArgumentError(f"every={self.every}: this rollout lacks states to sweep back over; expected every=1")

    def swept(
        self,
        q: Array,
        qd: Array,
        tau: Array,
        cost_q: Array,
        cost_qd: Array,
        given: Mapping[str, Array] | None = None,
    ) -> dict[str, Array]:
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
            **(self._given({}, leading) if given is None else given),
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

    def _given(self, given: Mapping[str, npt.ArrayLike], leading: tuple[int, ...]) -> dict[str, Array]:
        """The inputs of forces, (batch, steps, nv) each, 0 where they are not given. Raises ValueError or TypeError."""
        for name in given:
            if name not in self.given:
                expected = " or ".join(self.given) or "a force with it, as a Servo has"
                raise ArgumentError(f"input '{name}' is no force's; expected {expected}")
        shape, arrays = (*leading, self.steps, self.robot.nv), {}
        for name in self.given:
            value = real(name, given.get(name, np.zeros(self.robot.nv)))
            if value.ndim and value.ndim <= len(shape) and value.shape == shape[len(shape) - value.ndim :]:
                value = np.broadcast_to(value, shape)
            arrays[name] = of_shape(name, value, shape, self.dtype).reshape(-1, *shape[-2:])
        return arrays

    def _in_c(self, loop: Loop) -> LoopKernel | None:
        return LoopKernel(loop, self.dtype) if self.device == "cpu" else None

    def _turns(self, loop: Loop) -> int | None:
        """None of a loop that says itself how many."""
        return None if isinstance(loop.stop, Count) and loop.stop.turns else self.steps

    def _opened(self, loop: Loop, kernel: LoopKernel | None) -> Compute:
        """A loop on "cpu", by its C, on "cuda" or on "numpy"."""
        if kernel is not None:
            turns = loop.counted(self._turns(loop))
            return lambda inputs, outputs: kernel(inputs, outputs, len(next(iter(outputs.values()))), turns)
        if self.device == "cuda":
            with on_card("GPU 0"):
                card = GpuLoop(loop, self.dtype, self._turns(loop))

            def launched(inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> bool:
                with on_card("GPU 0"):
                    card(inputs, outputs)
                return False

            return launched

        def evaluated(inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> bool:
            batch = len(next(iter(outputs.values())))
            constants = {name: np.repeat(x, batch, axis=0) for name, x in inputs.items() if len(x) == 1 != batch}
            with np.errstate(all="ignore"):
                for name, value in evaluate_loop(loop, {**inputs, **constants}).items():
                    outputs[name][...] = value
            return False

        return evaluated

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
            step: Array = real("dt", dt if dt is not None else np.nan).astype(self.dtype)
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


def _chosen(method: str | Method | None, integrator: str | None) -> Method:
    """Raises ValueError: there is no such method, or the options name two."""
    if method is not None and integrator is not None:
        raise ArgumentError(f"method={method!r:.60} and integrator='{integrator}'; expected one of them")
    if integrator is not None and integrator not in TABLEAUX:
        raise ArgumentError(f"integrator '{integrator}'; expected one of {', '.join(TABLEAUX)}")
    return method_of(DEFAULT_INTEGRATOR if method is None and integrator is None else method or integrator or "")


def _check_steps(steps: int, every: int, linearise: bool) -> None:
    if not (is_whole(steps) and steps >= 1):
        raise ArgumentError(f"steps={steps}; expected a whole number of 1 or more")
    if not (is_whole(every) and every >= 1 and steps % every == 0):
        raise ArgumentError(f"every={every} of {steps} steps; expected a whole number that divides them")
    if linearise and every > 1:
        raise ArgumentError(f"linearise with every={every}; expected every=1: a and b are those of every step")


def _device_options(device: str, options: RolloutDeviceOptions) -> dict[str, Any]:
    """Those that are not None. Raises ValueError: no device of rollouts, or an option that it does not take."""
    if device not in DEVICES:
        raise ArgumentError(f"device '{device}'; expected one of {', '.join(DEVICES)}")
    own = {name: value for name, value in options.items() if value is not None}
    for name in own:
        if name not in DEVICES[device]:
            expected = f"expected one of {', '.join(DEVICES[device])}" if DEVICES[device] else "it takes none"
            raise ArgumentError(f"device '{device}' of a rollout takes no option '{name}'; {expected}")
    return own


def _check_on_chip(method: Method, device: str) -> None:
    if not method.linearises:
        expected = f"expected one of {', '.join(TABLEAUX)}, or device 'cpu', 'cuda' or 'numpy'"
        raise ArgumentError(f"device '{device}' takes no method '{method.name}', which solves equations; {expected}")


def _on_chip(robot: Robot, options: StepOptions, linearise: bool, device: str, own: Mapping[str, Any]) -> ChipRollout:
    """The rollout on "fixed" or "sim". Raises ValueError: the time step is no constant."""
    from dynagate.host.chip_rollout import ChipRollout
    from dynagate.host.opening_ring import ring_of_robot

    if options.dt is None:
        raise ArgumentError(
            f"device '{device}' takes no dt=None; expected a time step, or a design built with variable_dt=True, whose "
            "dt is the largest"
        )
    algorithm = AlgorithmOptions(
        options.form,
        dt=options.dt,
        integrator=options.integrator,
        linearise=linearise,
        friction=options.friction,
        friction_speed=options.friction_speed,
        stops=options.stops,
        forces=[as_text(force) for force in options.forces],
    )
    return ChipRollout(ring_of_robot(robot, algorithm, device, own))
