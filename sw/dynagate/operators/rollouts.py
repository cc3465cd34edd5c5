"""A rollout as an operator: its executor, its gradient, and their arrays."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from dynagate.base.arguments import names_of
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.nearest import nearest
from dynagate.graph import Graph, Port
from dynagate.graph.loop import Loop
from dynagate.host.rollouts import Rollout
from dynagate.native.gpu_loop import GpuLoop
from dynagate.operators.compute import CPU, CUDA, CompiledCompute
from dynagate.operators.operator import Operator
from dynagate.operators.products import entries_of_weights, weights_of_entries
from dynagate.robot import Robot

BACKENDS: dict[str, Any] = {"compiled": CPU, CPU: CPU, "numpy": "numpy", "fixed": "fixed", "sim": "sim"}
"""Backend -> device of `Rollout`."""

CONVERGED, DIVERGED = "converged", "diverged"
"""Optional results of a rollout: whether each step solved its equations, and the index of the first state that is not
finite, -1 if all are.
"""


@dataclass(frozen=True)
class Arguments:
    """The inputs of a rollout, in the form of a graph's inputs."""

    name: str
    """Name of the rollout in errors."""
    inputs: tuple[Port, ...]


class RolloutOperator:
    """A rollout from torques to trajectories, on arrays (*leading, ...) of one dtype.

    Args:
        backend: "compiled": C, or CUDA for arrays on a GPU. "cpu": C. "numpy": float64. "fixed" or "sim": the
            integers of a chip that keeps the states; their gradient is the float64 reverse sweep through the states
            that they computed.
        float64: How to create a float64 rollout in the framework, for errors.

    Attributes:
        platforms: Platforms of compiled code; empty for backends that compute on the host.

    Raises:
        ArgumentError: The backend is unknown, or an option is not accepted by `Rollout`.
    """

    def __init__(
        self,
        robot: Robot | str | PathLike[str],
        *,
        steps: int,
        dt: float | None,
        backend: str,
        dtype: np.dtype[Any],
        float64: str = "dtype='float64'",
        outputs: str | Sequence[str] = (),
        **options: Any,
    ) -> None:
        if backend not in BACKENDS:
            raise ArgumentError(
                f"backend '{backend}' of a rollout; expected one of {', '.join(BACKENDS)}", code="DG-ARG-059"
            )
        requested = names_of("outputs", outputs)
        self.keep_unconverged = False
        """Whether states after a step that has not converged stay as they are; else they are NaN."""
        self.dtype, self.steps, self.float64 = dtype, steps, float64
        device: Any = BACKENDS[backend]
        number: dict[str, Any] = {"dtype": dtype} if device in (CPU, "cuda") else {}  # others have one
        self.rollout = Rollout(robot, steps, dt, device=device, **number, **options)
        self.platforms = (CPU, CUDA) if backend == "compiled" else (CPU,) if backend == CPU else ()
        self._gpu_loops: dict[tuple[int, int], GpuLoop] = {}
        self.robot, n = self.rollout.robot, self.rollout.robot.nv
        units = tuple((part.start, part.stop) for part in self.robot.quaternions())
        shapes = {"q0": (self.robot.nq,), "qd0": (n,), "tau": (steps, n)}
        if options.get("constrained"):
            shapes["active"] = (steps, len(self.robot.constraints))
        self.held = [name for name in shapes if name == "active"]
        self.stepped = {**self.rollout.feedback_shapes, **dict.fromkeys(self.rollout.force_inputs, (n,))}
        shapes |= {name: (steps, *shape) for name, shape in self.stepped.items()}
        time = {"dt": Port("dt", (), ())} if dt is None else {}
        self.parameters: dict[str, Port] = {**time, **self.rollout.parameters}
        self.linear = ("a", "b") if options.get("linearize") else ()
        motion = None if self.rollout.chip else self.rollout.motion
        self.solved = {name: math.prod(motion.extras[name][1]) for name in motion.solved} if motion else {}
        self.direct = not (motion and motion.failed)
        self.pieces = {name: motion.extras[name][1] for name in motion.solved} if motion else {}
        self.outputs = (*self._checked_outputs(requested), *self.linear)
        ports = (Port(name, shape, (), units if name in ("q0", "q_ref") else ()) for name, shape in shapes.items())
        self.arguments = Arguments(f"a rollout of {self.robot.name}", (*ports, *self.parameters.values()))

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the results of `forward` for one trajectory.

        These are q and qd of every state including the first, the values in `solved` of every step, if steps solve
        equations, whether each step converged, as 1 or 0, and with linearize= the matrices a and b of every step.
        """
        steps = self.steps // self.rollout.every
        size = 2 * self.robot.nv + sum(self.rollout.drive.sizes.values())
        linear = {"a": (steps, size, size), "b": (steps, size, self.robot.nv)} if self.linear else {}
        states = {"q": (steps + 1, self.robot.nq), "qd": (steps + 1, self.robot.nv)}
        solved = {name: (steps, size) for name, size in self.solved.items()}
        return {**states, **solved, **({} if self.direct else {CONVERGED: (steps,)}), **linear}

    def _checked_outputs(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of results besides q and qd. Raise ArgumentError if the rollout lacks one."""
        known = (*self.solved, *(() if self.direct else (CONVERGED,)), DIVERGED)
        for name in names:
            if name not in known:
                raise ArgumentError(
                    f"outputs has '{name}'{nearest(name, known)}; expected some of {', '.join(known)} for this rollout",
                    code="DG-ARG-062",
                )
        return tuple(dict.fromkeys(names))

    @cached_property
    def results(self) -> Any:
        """The named tuple that a call returns."""
        return namedtuple("States", ("q", "qd", *self.outputs))

    def named(self, computed: Sequence[Any], framework: Any) -> Any:
        """Return the named tuple of a call: q, qd and the requested outputs, of which some are computed from q and qd.

        Args:
            computed: What `forward` returns, as arrays of a framework.
            framework: Its module, jax.numpy or torch, for the functions that both have.
        """
        values = dict(zip(self.shapes, computed, strict=True))
        q, qd = values["q"], values["qd"]
        for name in self.outputs:
            if name in self.pieces:
                values[name] = values[name].reshape(*values[name].shape[:-1], *self.pieces[name])
            elif name == CONVERGED:
                values[name] = values[name] > 0.5
            elif name == DIVERGED:
                finite = framework.isfinite(q).all(-1) & framework.isfinite(qd).all(-1)
                first = (framework.cumsum(~finite, -1) == 0).sum(-1) * self.rollout.every
                values[name] = framework.where(finite.all(-1), -1, first)
        return self.results(*(values[name] for name in ("q", "qd", *self.outputs)))

    def spoiled(self, gradients: Sequence[Any], weights: Sequence[Any], framework: Any) -> list[Any]:
        """Return gradients that are NaN where a cost depends on a and b, whose derivatives are not computed.

        Args:
            gradients: Gradients of the inputs.
            weights: Weights of all results in `shapes`.
            framework: jax.numpy or torch.
        """
        total: Any = 0.0
        for weight in weights[len(weights) - len(self.linear) :] if self.linear else ():
            total = total + framework.abs(weight).sum()
        if not self.linear:
            return list(gradients)
        return [framework.where(total == 0.0, gradient, math.nan) for gradient in gradients]

    @cached_property
    def sweep(self) -> Rollout:
        """The rollout whose `vjp` is the gradient. Raise ArgumentError if not every step's state is kept."""
        self.rollout.check_all_kept()
        if self.rollout.device in (CPU, "numpy"):
            return self.rollout
        return Rollout(self.robot, self.steps, device="cpu", dtype=self.dtype, **self.rollout.options.of_step())

    @cached_property
    def to_velocities(self) -> Operator | None:
        """Operator from q and weights of its entries to weights of its velocities; None if both are the same."""
        return self._map(weights_of_entries(self.robot))

    @cached_property
    def to_entries(self) -> Operator | None:
        """Operator from q and weights of its velocities to weights of its entries; None if both are the same."""
        return self._map(entries_of_weights(self.robot))

    def _map(self, graph: Graph) -> Operator | None:
        """Return a graph as an operator on the CPU and GPU; None if no joint has a quaternion."""
        if not self.robot.quaternions():
            return None
        return Operator(
            graph, self.robot, CompiledCompute(graph, (CPU, CUDA)), lambda graph: CompiledCompute(graph, (CPU, CUDA))
        )

    def gpu_loop(self, loop: Loop, iterations: int | None, card: int = 0) -> GpuLoop:
        """Return a loop of this rollout in CUDA, compiled on first use.

        Raises:
            CompileError: There is no CUDA compiler, or it fails.
            GpuError: There is no GPU, or it has too little memory.
        """
        key = id(loop), card
        if key not in self._gpu_loops:
            self._gpu_loops[key] = GpuLoop(loop, self.dtype, iterations, device=card)
        return self._gpu_loops[key]

    def check_differentiable(self) -> None:
        """Raise ArgumentError if the dtype of the rollout has no gradient, before anything is computed."""
        if not self.direct and self.dtype != np.float64:
            raise ArgumentError(
                f"dtype {self.dtype} of a gradient through {self.rollout.integrator.in_errors}; "
                f"expected {self.float64}",
                code="DG-ARG-063",
            )

    def check_dtype(self, dtype: str) -> None:
        """Raise ArgumentTypeError if a dtype is not the rollout's."""
        if dtype != str(self.dtype):
            raise ArgumentTypeError(
                f"inputs of {self.arguments.name} are {dtype}; "
                f"expected {self.dtype}, or a rollout with dtype='{dtype}'",
                code="DG-ARG-064",
            )

    def forward(self, q0: Array, qd0: Array, tau: Array, *held: Array) -> list[Array]:
        """Compute trajectories on the host.

        Args:
            q0: Initial configurations.
            qd0: Initial velocities.
            tau: Torques.
            held: `active` of a constrained rollout, inputs of feedback and forces, dt if the rollout has dt=None, and
                the robot's variable parameters.

        Returns:
            The results in `shapes`. States after a step that did not converge are NaN.

        Raises:
            ArgumentError: An input is not finite, for backends without C.
        """
        switches = dict(zip((*self.held, *self.stepped, *self.parameters), held, strict=True))
        leading, batch = q0.shape[:-1], math.prod(q0.shape[:-1])
        if self.rollout.kernel is None:
            trajectories = self.rollout(q0, qd0, tau, **switches)
            results = {name: np.asarray(trajectories.result(name), self.dtype) for name in self.shapes}
            lost = ~np.logical_and.accumulate(trajectories.converged, axis=-1)
        else:
            arrays = {"q": q0, "qd": qd0, "tau": tau, **switches}
            flat = {name: x.reshape(batch, *x.shape[len(leading) :]) for name, x in arrays.items()}
            results, _ = self.rollout.marched(flat)
            lost = results.get("failed", np.zeros(0)) > 0.0
        if not self.direct:
            for name in () if self.keep_unconverged else ("q", "qd"):
                results[name][..., 1:, :][lost] = np.nan
            results[CONVERGED] = self._converged(results)
        return [results[name].reshape(*leading, *shape) for name, shape in self.shapes.items()]

    def _converged(self, results: Mapping[str, Array]) -> Array:
        """Return 1 for each step that has converged, else 0."""
        if "failed" not in results:
            return results[CONVERGED]
        return np.asarray(np.diff(results["failed"], axis=1, prepend=0.0) == 0.0, self.dtype)

    def backward(self, q: Array, qd: Array, tau: Array, *others: Array) -> list[Array]:
        """Return the gradients by q0 and qd0, (..., nv), tau, inputs of feedback, dt if it is an input, and variable
        parameters.

        Args:
            q: Configurations.
            qd: Velocities.
            tau: Torques.
            others: `active` of a constrained rollout, inputs of feedback, dt if it is an input, the variable
                parameters, the values in `solved`, and the cost gradients with respect to q (along velocities), qd, and
                the values in `solved`.
        """
        count = len(others) - len(self.solved)
        held, (cost_q, cost_qd), solved = others[: count - 2], others[count - 2 : count], others[count:]
        names, axes = (*self.held, *self.stepped, *self.parameters, *self.solved), tau.ndim - 2
        inputs = {name: x.reshape(-1, *x.shape[axes:]) for name, x in zip(names, held, strict=True)}
        costs = {name: x.reshape(-1, *x.shape[axes:]) for name, x in zip(self.solved, solved, strict=True)}
        products = self.sweep.swept(q, qd, tau, cost_q, cost_qd, inputs, costs)
        return [products[name] for name in ("q0", "qd0", "tau", *self.stepped, *self.parameters)]
