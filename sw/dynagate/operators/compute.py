"""Executors of an operator: compiled code, numpy, or an opened accelerator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Array
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.native.gpu import GpuKernel
from dynagate.native.kernel import Kernel
from dynagate.operators.products import entries_of_weights
from dynagate.robot import Robot

if TYPE_CHECKING:
    from dynagate.host import Function

Named = Mapping[str, Array]
CPU, CUDA = "cpu", "cuda"


class Compute(ABC):
    """Computes a graph on host arrays."""

    @abstractmethod
    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Compute outputs (batch, *shape), in any real dtype, from inputs (batch, *shape) of one dtype, in the graph's
        order.
        """


class CompiledCompute(Compute):
    """C on the CPU and CUDA on a GPU, in float32 or float64. Frameworks run its kernels on `platforms`, on their own
    memory.
    """

    def __init__(
        self, graph: Graph, platforms: tuple[str, ...], check_single: Callable[[Graph], None] | None = None
    ) -> None:
        """Compile nothing yet. `check_single` raises an error if the graph is wrong in float32."""
        self.graph, self.platforms, self._check_single = graph, platforms, check_single
        self._kernels: dict[np.dtype[Any], Kernel] = {}
        self._gpu: dict[tuple[np.dtype[Any], int], GpuKernel] = {}

    def kernel(self, dtype: npt.DTypeLike) -> Kernel:
        """Return the C kernel, compiled on first use. Raise CompileError if that fails."""
        dtype = np.dtype(dtype)
        if dtype not in self._kernels:
            self._check(dtype)
            self._kernels[dtype] = Kernel(self.graph, dtype)
        return self._kernels[dtype]

    def gpu_kernel(self, dtype: npt.DTypeLike, card: int = 0) -> GpuKernel:
        """Return the CUDA kernel, compiled on first use.

        Args:
            dtype: float32 or float64.
            card: Number of the card.

        Raises:
            CompileError: It cannot be compiled.
            GpuError: The card cannot be used.
        """
        key = np.dtype(dtype), card
        if key not in self._gpu:
            self._check(key[0])
            self._gpu[key] = GpuKernel(self.graph, key[0], device=card)
        return self._gpu[key]

    def _check(self, dtype: np.dtype[Any]) -> None:
        if dtype == np.float32 and self._check_single is not None:
            self._check_single(self.graph)

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Compute a batch. Results that are not finite are returned, since frameworks have their own checks
        for them.
        """
        kernel, batch = self.kernel(inputs[0].dtype), len(inputs[0])
        outputs = {port.name: np.empty((batch, *port.shape), kernel.dtype) for port in self.graph.outputs}
        if batch:
            named = {port.name: array for port, array in zip(self.graph.inputs, inputs, strict=True)}
            kernel(named, kernel.written(outputs), batch)
            kernel.clear(outputs)
        return list(outputs.values())


class Reference(Compute):
    """Numpy in float64."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        if not len(inputs[0]):
            return [np.zeros((0, *port.shape)) for port in self.graph.outputs]
        named = {p.name: np.asarray(x, np.float64) for p, x in zip(self.graph.inputs, inputs, strict=True)}
        with np.errstate(all="ignore"):
            return list(evaluate(self.graph, named).values())


class AcceleratorCompute(Compute):
    """Integers, a simulation or a board. Results of samples that overflow are NaN."""

    def __init__(self, graph: Graph, accelerator: Function) -> None:
        self.accelerator = accelerator
        self.names = [port.name for port in graph.inputs], [port.name for port in graph.outputs]

    def results(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """Return the results by name, NaN for samples that overflow. Raises the errors of a call of the accelerator."""
        named_inputs: dict[str, Any] = dict(zip(self.names[0], inputs, strict=True))
        results = self.accelerator(**named_inputs)
        lost = np.asarray(results.overflow)
        named = {name: np.array(results[name]) for name in self.names[1]}
        for array in named.values():
            array[lost] = np.nan
        return named

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        return list(self.results(inputs).values())


class OpenedProduct(AcceleratorCompute):
    """An accelerator that computes a product with a derivative, `vjp_<input>`, along velocities; here along entries."""

    def __init__(self, graph: Graph, accelerator: Function, robot: Robot) -> None:
        super().__init__(graph, accelerator)
        self._configurations = [k for k, port in enumerate(graph.inputs) if port.unit_vectors]
        self._entries = entries_of_weights(robot) if self._configurations else None

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        named = self.results(inputs)
        for k in self._configurations:
            name = f"vjp_{self.names[0][k]}"
            assert self._entries is not None
            named[name] = evaluate(self._entries, {"q": np.float64(inputs[k]), "lam": named[name]})["weights"]
        return list(named.values())
