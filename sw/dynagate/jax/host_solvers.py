"""Solvers on the host as JAX functions: a batch in one call of compiled code, with the implicit derivative."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dynagate.dynamics.configuration import direction_matrix
from dynagate.graph.evaluate import evaluate
from dynagate.graph.recorder import Recording
from dynagate.jax.calls import host_call
from dynagate.jax.devices import aligned
from dynagate.robot import Robot

Shape = tuple[int, ...]


def directions(robot: Robot, q: np.ndarray) -> np.ndarray:
    """Return the rates (batch, nq, nv) of the numbers of configurations (batch, nq) along velocities."""
    recording = Recording("directions", robot.name)
    graph = recording.graph({"matrix": direction_matrix(robot, list(recording.input("q", (robot.nq,))))})
    return evaluate(graph, {"q": q})["matrix"]


class HostSolver(ABC):
    """A function of arrays (*leading, *shape) whose first result follows from its inputs by a matrix of slopes.

    It runs under jit and vmap, and is differentiable once, in forward and reverse mode. The derivatives of all results
    but the first are zero.
    """

    def __init__(self) -> None:
        self._solve = jax.custom_jvp(self._forward)
        self._solve.defjvp(self._tangent)

    @property
    @abstractmethod
    def shapes(self) -> Sequence[Shape]:
        """Shapes of the inputs of one problem."""

    @property
    @abstractmethod
    def rows(self) -> Sequence[Shape]:
        """Shapes of the results of one problem. The first is a vector."""

    @property
    @abstractmethod
    def moving(self) -> Sequence[int]:
        """Positions of the inputs that results are differentiated by."""

    @abstractmethod
    def solved(self, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the results (batch, *shape) for inputs (batch, *shape)."""

    @abstractmethod
    def slopes(self, result: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
        """Return the derivatives (batch, size, entries) of the first result by all entries of the moving inputs.

        Args:
            result: The first result, (batch, size).
            inputs: The inputs, (batch, *shape).
        """

    def called(self, *inputs: Any) -> list[jax.Array]:
        """Return the results (*leading, *shape) for inputs whose leading axes are broadcast."""
        arrays = [jnp.asarray(x, float) for x in inputs]
        leading = jnp.broadcast_shapes(
            *(x.shape[: max(x.ndim - len(shape), 0)] for x, shape in zip(arrays, self.shapes, strict=True))
        )
        whole = [jnp.broadcast_to(x, (*leading, *shape)) for x, shape in zip(arrays, self.shapes, strict=True)]
        return list(self._solve(*aligned(whole, len(leading))))

    def _forward(self, *inputs: jax.Array) -> tuple[jax.Array, ...]:
        """Solve by a call of the compiled solver on the host."""
        return tuple(host_call(self.solved, self.rows, inputs, self._leading(inputs)))

    def _leading(self, inputs: Sequence[jax.Array]) -> int:
        return inputs[0].ndim - len(self.shapes[0])

    def _tangent(
        self, primals: Sequence[jax.Array], tangents: Sequence[jax.Array]
    ) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
        """Return the results and their derivatives along tangents of the inputs."""
        results, count = self._solve(*primals), self._leading(primals)
        leading = primals[0].shape[:count]
        sizes = {k: math.prod(self.shapes[k]) for k in self.moving}
        row = self.rows[0][0], sum(sizes.values())
        (slopes,) = host_call(self._one_matrix, [row], [results[0], *primals], count)
        change = jnp.concatenate([tangents[k].reshape(*leading, size) for k, size in sizes.items()], axis=-1)
        first = jnp.einsum("...ij,...j->...i", slopes, change)
        return results, (first, *(jnp.zeros_like(x) for x in results[1:]))

    def _one_matrix(self, result: np.ndarray, *inputs: np.ndarray) -> tuple[np.ndarray]:
        return (self.slopes(result, *inputs),)
