"""A rollout as an operator: what computes it and its gradient, and between which arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.graph import Graph, Port
from dynagate.host.rollouts import Rollout
from dynagate.integrators.step import StepOptions
from dynagate.operators.compute import CPU, Compiled
from dynagate.operators.operator import Operator
from dynagate.operators.products import entries_of_weights, weights_of_entries
from dynagate.robot import Robot

Array = npt.NDArray[Any]
BACKENDS: dict[str, Any] = {"compiled": CPU, CPU: CPU, "numpy": "numpy", "fixed": "fixed", "sim": "sim"}
"""Backend -> the device of `Rollout`."""

OF_THE_STEP = {"steps", *StepOptions.__dataclass_fields__}
"""Options of a rollout on integers that decide its motion."""


@dataclass(frozen=True)
class Arguments:
    """The inputs of a rollout, as those of a graph are known. name: how errors call the rollout."""

    name: str
    inputs: tuple[Port, ...]


class RolloutOperator:
    """Torques to trajectories, on arrays (*leading, ...) of one dtype.

    backend: "compiled" or "cpu", C; "numpy"; "fixed" or "sim", the integers of a chip that keeps the states. The
    gradient of those is the float64 sweep back through the states that they computed. float64: how to have a rollout
    of this framework in float64, for errors.
    Raises ValueError: another backend; and as `Rollout` does.
    """

    def __init__(
        self,
        robot: Robot | str | PathLike[str],
        *,
        steps: int,
        dt: float,
        backend: str,
        dtype: np.dtype[Any],
        float64: str = "dtype='float64'",
        **options: Any,
    ) -> None:
        if backend not in BACKENDS:
            raise ArgumentError(f"backend '{backend}' of a rollout; expected one of {', '.join(BACKENDS)}")
        if dt is None:
            raise ArgumentError("dt=None for an operator; expected a constant time step in seconds")
        if options.get("feedback", False) is not False:
            raise ArgumentError("feedback= of an operator; expected `Rollout`, which knows it")
        self.dtype, self.steps, self.float64 = dtype, steps, float64
        self._asked: dict[str, Any] = {"steps": steps, "dt": dt, **options}
        device: Any = BACKENDS[backend]
        number: dict[str, Any] = {"dtype": dtype} if device in (CPU, "cuda") else {}  # others have one
        self.rollout = Rollout(robot, device=device, **number, **self._asked)
        self.robot, n = self.rollout.robot, self.rollout.robot.nv
        if names := self.rollout.force_inputs:
            raise ArgumentError(
                f"forces with the input {' and '.join(map(repr, names))} in an operator, which has no such input; "
                "expected forces without inputs, such as Servo(..., target=(...)), or `dynagate.Rollout`"
            )
        units = tuple((part.start, part.stop) for part in self.robot.quaternions())
        shapes = {"q0": (self.robot.nq,), "qd0": (n,), "tau": (steps, n)}
        if options.get("constrained"):
            shapes["active"] = (steps, len(self.robot.constraints))
        self.held = [name for name in shapes if name == "active"]
        self.parameters = self.rollout.parameters
        motion = None if self.rollout.chip else self.rollout.motion
        self.solved = {name: math.prod(motion.extras[name][1]) for name in motion.solved} if motion else {}
        self.direct = not (motion and motion.failed)
        ports = (Port(name, shape, (), units if name == "q0" else ()) for name, shape in shapes.items())
        self.arguments = Arguments(f"a rollout of {self.robot.name}", (*ports, *self.parameters.values()))

    @cached_property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """What `forward` gives: q and qd of every state, the first one included, and what `solved` lists of every
        step."""
        steps = self.steps // self.rollout.every
        states = {"q": (steps + 1, self.robot.nq), "qd": (steps + 1, self.robot.nv)}
        return {**states, **{name: (steps, size) for name, size in self.solved.items()}}

    @cached_property
    def sweep(self) -> Rollout:
        """The rollout whose `vjp` is the gradient. Raises ValueError: not every step's state is kept."""
        self.rollout.check_all_kept()
        if self.rollout.device in (CPU, "numpy"):
            return self.rollout
        known = {name: value for name, value in self._asked.items() if name in OF_THE_STEP}
        return Rollout(self.robot, device="cpu", dtype=self.dtype, **known)

    @cached_property
    def to_velocities(self) -> Operator | None:
        """q and weights of its entries to those of its velocities; None where they are the same."""
        return self._map(weights_of_entries(self.robot))

    @cached_property
    def to_entries(self) -> Operator | None:
        """q and weights of its velocities to those of its entries; None where they are the same."""
        return self._map(entries_of_weights(self.robot))

    def _map(self, graph: Graph) -> Operator | None:
        if not self.robot.quaternions():
            return None
        return Operator(graph, self.robot, Compiled(graph, (CPU,)), lambda graph: Compiled(graph, (CPU,)))

    def check_differentiable(self) -> None:
        """Raise ArgumentError if the rollout has no gradient, before anything is computed."""
        self.rollout.check_all_kept()
        if not self.direct and self.dtype != np.float64:
            raise ArgumentError(
                f"dtype {self.dtype} of a gradient through {self.rollout.integrator.in_errors}; expected {self.float64}"
            )

    def check_dtype(self, dtype: str) -> None:
        """Raises TypeError: not that of this rollout."""
        if dtype != str(self.dtype):
            raise ArgumentTypeError(
                f"inputs of {self.arguments.name} are {dtype}; expected {self.dtype}, or a rollout with dtype='{dtype}'"
            )

    def forward(self, q0: Array, qd0: Array, tau: Array, *held: Array) -> list[Array]:
        """Trajectories q and qd, and what `solved` lists, on the host; states after a step that has not converged are
        NaN. held: `active` of a constrained rollout, then the robot's variable parameters. Raises ValueError: an input
        is not finite, where no C computes them."""
        switches = dict(zip((*self.held, *self.parameters), held, strict=True))
        leading, batch = q0.shape[:-1], math.prod(q0.shape[:-1])
        if self.rollout.kernel is None:
            trajectories = self.rollout(q0, qd0, tau, **switches)
            results = {name: np.asarray(getattr(trajectories, name), self.dtype) for name in self.shapes}
            lost = ~np.logical_and.accumulate(trajectories.converged, axis=-1)
        else:
            arrays = {"q": q0, "qd": qd0, "tau": tau, **switches}
            flat = {name: x.reshape(batch, *x.shape[len(leading) :]) for name, x in arrays.items()}
            results, _ = self.rollout.marched(flat)
            lost = results.get("failed", np.zeros(0)) > 0.0
        if not self.direct:
            for name in ("q", "qd"):
                results[name][..., 1:, :][lost] = np.nan
        return [results[name].reshape(*leading, *shape) for name, shape in self.shapes.items()]

    def backward(self, q: Array, qd: Array, tau: Array, *others: Array) -> list[Array]:
        """Gradients by q0 and qd0, (..., nv), tau, and the robot's variable parameters, on the host. others: `active`
        of a constrained rollout, the variable parameters, what `solved` lists, and the costs of q, along velocities,
        and qd."""
        *held, cost_q, cost_qd = others
        names, axes = (*self.held, *self.parameters, *self.solved), tau.ndim - 2
        inputs = {name: x.reshape(-1, *x.shape[axes:]) for name, x in zip(names, held, strict=True)}
        products = self.sweep.swept(q, qd, tau, cost_q, cost_qd, inputs)
        return [products[name] for name in ("q0", "qd0", "tau", *self.parameters)]
