"""Rollouts: many trajectories of a robot through many steps, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.dynamics import AlgorithmOptions
from dynagate.graph import trace
from dynagate.graph.evaluate import check_unit_vectors
from dynagate.graph.loop import Count, Loop, evaluate_loop
from dynagate.graph.region import Region
from dynagate.integrators.step import CARRY, StepOptions, linearised_step_graph, step_graph, step_vjp_graph
from dynagate.native.loop import LoopKernel
from dynagate.robot import Robot, robots

if TYPE_CHECKING:
    from dynagate.fixedpoint.assign import Policy
    from dynagate.host.turns import Turns

Array = npt.NDArray[Any]
DEVICES = ("numpy", "cpu", "fixed", "sim")
INTEGERS = ("fixed", "sim")


class Trajectories:
    """What a rollout returns; leading axes are those of q0 without its last.

    q: (..., steps + 1, nq), rad, m and unit quaternions. qd: (..., steps + 1, nv), rad/s or m/s. The first ones are q0
    and qd0.
    a, b: (..., steps, 2 nv, 2 nv) and (..., steps, 2 nv, nv), ∂x⁺/∂x and ∂x⁺/∂τ of the state x = (q, q̇) by each step;
    None unless asked for.
    diverged: (...) the first step whose result is infinite or no number; -1 where all are finite.
    """

    __slots__ = ("a", "b", "diverged", "q", "qd")

    def __init__(self, q: Array, qd: Array, a: Array | None, b: Array | None, diverged: Array) -> None:
        self.q, self.qd, self.a, self.b, self.diverged = q, qd, a, b, diverged

    def __repr__(self) -> str:
        linear = "" if self.a is None else ", a, b"
        return (
            f"<Trajectories q {self.q.shape}, qd {self.qd.shape}{linear}, {int((self.diverged >= 0).sum())} diverged>"
        )


class Rollout:
    """A robot's motion under given torques, step by step.

    robot: also the path of a URDF file, or the name of a robot that ships.
    steps: how many. dt: seconds of a step, or None where each call says it. integrator: "euler", "semi_implicit_euler",
    "rk2", "rk3" or "rk4". linearise: give a and b of every step too.
    device: "cpu", C with the loop inside the vector; "numpy", float64, the reference; "fixed", the integers of a chip
    that keeps the states; "sim", this chip simulated. dtype ("cpu"): float64 or float32.
    policy, region ("fixed", "sim"): formats, and the states and torques that they are for. ii, folder, pauses, seed
    ("sim"): as `dynagate.build` and `dynagate.open` take them.
    form: of forward dynamics. friction: Coulomb friction of each degree of freedom or of all, N m or N, smoothed as
    F q̇ / √(q̇² + friction_speed²), friction_speed in rad/s or m/s.
    stops: joints end at their limits, where they lose their speed. Damping is the robot's own.

    Raises ValueError: an option is none of these.
    """

    def __init__(
        self,
        robot: Robot | str | PathLike[str],
        *,
        steps: int,
        dt: float | None,
        integrator: str = "semi_implicit_euler",
        linearise: bool = False,
        device: Literal["cpu", "numpy", "fixed", "sim"] = "cpu",
        dtype: npt.DTypeLike = np.float64,
        form: str | None = None,
        friction: float | tuple[float, ...] = 0.0,
        friction_speed: float = 0.01,
        stops: bool = False,
        policy: Policy | None = None,
        region: Region | None = None,
        ii: int = 8,
        folder: str | PathLike[str] | None = None,
        pauses: tuple[float, float] = (0.0, 0.0),
        seed: int = 1,
    ) -> None:
        if not (isinstance(steps, int) and steps >= 1):
            raise ArgumentError(f"steps={steps}; expected a whole number of 1 or more")
        if device not in DEVICES:
            raise ArgumentError(f"device '{device}'; expected one of {', '.join(DEVICES)}")
        robot = robot if isinstance(robot, Robot) else robots.load(robot)
        self.robot, self.steps, self.device = robot, steps, device
        self.options = StepOptions(dt, integrator, form, friction, friction_speed, stops)
        self.options.frictions(robot)
        self.dtype = np.dtype(dtype if device == "cpu" else np.float64)
        self._linearise = linearise
        self._turns: Turns | None = None
        self.kernel: LoopKernel | None = None
        if device in INTEGERS:
            request = {"ii": ii, "folder": folder, "pauses": pauses, "seed": seed}
            self._turns = _integer_turns(robot, self.options, linearise, device, policy, region, request)
            return
        self.loop = rollout_loop(robot, self.options, linearise=linearise)
        self.kernel = LoopKernel(self.loop, self.dtype) if device == "cpu" else None

    @cached_property
    def reverse(self) -> tuple[Loop, LoopKernel | None]:
        """The loop of `vjp`, and its C on "cpu"."""
        loop = reverse_loop(self.robot, self.options)
        return loop, LoopKernel(loop, self.dtype) if self.device == "cpu" else None

    def __call__(
        self, q0: npt.ArrayLike, qd0: npt.ArrayLike, tau: npt.ArrayLike, *, dt: npt.ArrayLike | None = None
    ) -> Trajectories:
        """q0 (..., nq), qd0 (..., nv), tau (..., steps, nv), N m or N, and dt (), seconds, where it is not constant.

        Raises ValueError: an input is missing, of another shape, not finite, or a quaternion has not length 1. A
        trajectory that diverges is flagged, and harms no other.
        """
        state, leading = self._checked(q0, qd0, tau, dt)
        batch, n = len(state["q"]), self.robot.nv
        q = np.empty((batch, self.steps + 1, self.robot.nq), self.dtype)
        qd = np.empty((batch, self.steps + 1, n), self.dtype)
        q[:, 0], qd[:, 0] = state["q"], state["qd"]
        outputs = {"q_next": q[:, 1:], "qd_next": qd[:, 1:]}
        if self._linearise:
            outputs |= {
                "a": np.empty((batch, self.steps, 2 * n, 2 * n), self.dtype),
                "b": np.empty((batch, self.steps, 2 * n, n), self.dtype),
            }
        diverged = np.full(batch, -1)
        if self._turns is not None:
            if batch:
                diverged = self._turns.run(state, outputs)
        elif not self._run(self.loop, self.kernel, state, outputs):
            wrong = np.logical_not(np.isfinite(q).all(axis=2) & np.isfinite(qd).all(axis=2))
            bad = np.flatnonzero(wrong.any(axis=1))
            diverged[bad] = np.argmax(wrong[bad], axis=1)
        shaped = {name: array.reshape(*leading, *array.shape[1:]) for name, array in outputs.items()}
        return Trajectories(
            q.reshape(*leading, *q.shape[1:]),
            qd.reshape(*leading, *qd.shape[1:]),
            shaped.get("a"),
            shaped.get("b"),
            diverged.reshape(leading),
        )

    def vjp(
        self, trajectories: Trajectories, tau: npt.ArrayLike, cost_q: npt.ArrayLike, cost_qd: npt.ArrayLike
    ) -> dict[str, Array]:
        """The gradient of a cost over trajectories, by one reverse sweep over their stored states.

        trajectories: what the call with `tau` returned. cost_q, cost_qd: (..., steps + 1, nv), ∂cost/∂(q, q̇) of every
        state, of q along velocities. Returns `q0`, `qd0` (..., nv) and `tau` (..., steps, nv): ∂cost/∂ each.
        Raises ValueError: shapes differ, or dt is not constant.
        """
        if self._turns is not None:
            raise ArgumentError(f"device '{self.device}' has no reverse sweep; expected 'cpu' or 'numpy'")
        if self.options.dt is None:
            raise ArgumentError("dt is an input of this rollout; expected a constant one to sweep back")
        n, steps = self.robot.nv, self.steps
        leading = trajectories.qd.shape[:-2]
        costs = {
            name: self._of_shape(name, x, (*leading, steps + 1, n))
            for name, x in (("cost_q", cost_q), ("cost_qd", cost_qd))
        }
        torque = self._of_shape("tau", tau, (*leading, steps, n)).reshape(-1, steps, n)
        flat = {name: x.reshape(-1, steps + 1, n) for name, x in costs.items()}
        states = {
            "q": trajectories.q.reshape(-1, steps + 1, self.robot.nq),
            "qd": trajectories.qd.reshape(-1, steps + 1, n),
        }
        batch = len(torque)
        inputs = {
            **{name: x[:, :-1] for name, x in {**states, **flat}.items()},
            "tau": torque,
            "lam_q": flat["cost_q"][:, -1],
            "lam_qd": flat["cost_qd"][:, -1],
        }
        outputs = {
            "vjp_tau": np.empty((batch, steps, n), self.dtype),
            "lam_q_next": np.empty((batch, n), self.dtype),
            "lam_qd_next": np.empty((batch, n), self.dtype),
        }
        self._run(*self.reverse, inputs, outputs)
        return {
            "q0": outputs["lam_q_next"].reshape(*leading, n),
            "qd0": outputs["lam_qd_next"].reshape(*leading, n),
            "tau": outputs["vjp_tau"].reshape(*leading, steps, n),
        }

    def _run(
        self, loop: Loop, kernel: LoopKernel | None, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> bool:
        """Fills the outputs; whether all of them are sure to be finite."""
        batch = len(next(iter(outputs.values())))
        if not batch:
            return True
        if kernel is not None:
            return kernel(inputs, outputs, batch, self.steps)
        constants = {"dt": np.broadcast_to(inputs["dt"], (batch,))} if "dt" in inputs else {}
        with np.errstate(all="ignore"):
            for name, value in evaluate_loop(loop, {**inputs, **constants}).items():
                outputs[name][...] = value
        return False

    def _of_shape(self, name: str, value: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
        array = np.asarray(value, dtype=self.dtype)
        if array.shape != shape:
            raise ArgumentError(f"{name} has shape {array.shape}; expected {shape}")
        if not np.isfinite(array).all():
            raise ArgumentError(f"{name} is not finite")
        return array

    def _checked(
        self, q0: npt.ArrayLike, qd0: npt.ArrayLike, tau: npt.ArrayLike, dt: npt.ArrayLike | None
    ) -> tuple[dict[str, Array], tuple[int, ...]]:
        robot = self.robot
        leading = np.shape(q0)[:-1]
        q = self._of_shape("q0", q0, (*leading, robot.nq)).reshape(-1, robot.nq)
        check_unit_vectors("q0", [(part.start, part.stop) for part in robot.quaternions()], q)
        state = {
            "q": q,
            "qd": self._of_shape("qd0", qd0, (*leading, robot.nv)).reshape(-1, robot.nv),
            "tau": self._of_shape("tau", tau, (*leading, self.steps, robot.nv)).reshape(-1, self.steps, robot.nv),
        }
        if self.options.dt is None:
            step = np.asarray(dt if dt is not None else np.nan, dtype=self.dtype)
            if step.shape != () or not (np.isfinite(step) and step > 0.0):
                raise ArgumentError(f"dt={dt!r}; expected a time step of more than 0 s")
            state["dt"] = step.reshape(1)
        elif dt is not None:
            raise ArgumentError(
                f"dt={dt!r} for a rollout with steps of {self.options.dt} s; expected none, or dt=None there"
            )
        return state, leading


def _integer_turns(
    robot: Robot,
    options: StepOptions,
    linearise: bool,
    device: str,
    policy: Policy | None,
    region: Region | None,
    request: dict[str, Any],
) -> Turns:
    """The turns on "fixed" or "sim". Raises ValueError: an option that these do not have."""
    from dynagate.fixedpoint.assign import assign
    from dynagate.host.turns import ChipTurns, IntegerTurns
    from dynagate.hw.build import DEFAULT_FOLDER, build_request
    from dynagate.hw.request import DesignRequest

    for name, value in (
        ("linearise", linearise),
        ("friction", any(options.frictions(robot))),
        ("stops", options.stops),
        ("dt=None", options.dt is None),
    ):
        if value:
            raise ArgumentError(f"device '{device}' takes no {name}; expected 'cpu' or 'numpy' for it")
    algorithm = AlgorithmOptions(options.form, dt=options.dt, integrator=options.integrator)
    region = region or Region.of(robot)
    if device == "fixed":
        return IntegerTurns(assign(trace(robot, "step", **algorithm.as_dict()), region, policy))
    asked = DesignRequest(robot, "step", request["ii"], policy=policy, region=region, algorithm=algorithm)
    built = build_request(asked, folder=request["folder"] or DEFAULT_FOLDER)
    return ChipTurns(built, pauses=request["pauses"], seed=request["seed"])


def rollout_loop(robot: Robot, options: StepOptions, *, linearise: bool = False) -> Loop:
    """The loop of a rollout: q, qd and torques per turn to q_next, qd_next (and a, b) of every turn."""
    graph = linearised_step_graph(robot, options) if linearise else step_graph(robot, options)
    kept = ("q_next", "qd_next", *(("a", "b") if linearise else ()))
    name = f"rollout_{options.integrator}{'_linearised' if linearise else ''}"
    return Loop(name, robot.name, (graph,), CARRY, Count(), ("tau",), kept)


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
