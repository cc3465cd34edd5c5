"""Operators as custom operators of PyTorch: computation, shapes without computation, autograd and vmap."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.autograd.forward_ad import unpack_dual
from torch.masked import MaskedTensor

from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.native.gpu import GpuProgram
from dynagate.native.kernel import Kernel
from dynagate.operators.compute import CUDA, CompiledCompute
from dynagate.operators.operator import Operator

NAMESPACE = "dynagate"
_numbers = itertools.count()
_NUMPY: dict[Any, np.dtype[Any]] = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


def registered(
    name: str,
    inputs: int,
    outputs: int,
    compute: Callable[..., Sequence[Any]],
    shapes: Callable[..., list[tuple[int, ...]]],
    differentiate: tuple[Callable[..., Any], Callable[..., None]] | None = None,
) -> Any:
    """Register a custom operator of PyTorch under a unique name. PyTorch keeps it as long as the process lives.

    Args:
        name: Beginning of the name.
        inputs: Number of tensors that it takes.
        outputs: Number of tensors that it returns.
        compute: Computes the outputs.
        shapes: Returns the shapes of the outputs, from the inputs.
        differentiate: Backward function, and the function that saves its context.
    """
    tensors = ", ".join(f"Tensor x{k}" for k in range(inputs))
    results = ", ".join(["Tensor"] * outputs)
    schema = f"({tensors}) -> ({results})" if outputs > 1 else f"({tensors}) -> {results}"

    def packed(results: Sequence[Any]) -> Any:
        return tuple(results) if outputs > 1 else results[0]

    unique = f"{name}_{next(_numbers)}"
    qualified = f"{NAMESPACE}::{unique}"
    # what `torch.library.custom_op` does but for its checks of each call
    torch.library.define(qualified, schema, tags=torch.Tag.pt2_compliant_tag)
    torch.library.impl(qualified, "default", torch.compiler.disable(lambda *x: packed(compute(*x))))
    torch.library.register_fake(qualified, lambda *x: packed([x[0].new_empty(shape) for shape in shapes(*x)]))
    custom = getattr(getattr(torch.ops, NAMESPACE), unique).default

    def batched(info: Any, dims: tuple[Any, ...], *x: Any) -> tuple[Any, Any]:
        moved = [
            value.expand(info.batch_size, *value.shape) if dim is None else value.movedim(dim, 0)
            for value, dim in zip(x, dims, strict=True)
        ]
        return custom(*moved), packed([0] * outputs)

    torch.library.register_vmap(qualified, batched)
    if differentiate is not None:
        backward, save = differentiate
        torch.library.register_autograd(qualified, backward, setup_context=save)
    return custom


def as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


class TorchOperator:
    """An operator as a custom operator. Its products are made and registered when autograd first asks for them."""

    def __init__(self, operator: Operator, transposed: TorchOperator | None = None) -> None:
        self.operator, self._transposed = operator, transposed
        graph = operator.graph
        self.custom = registered(
            f"{graph.robot}_{graph.name}".replace("-", "_").lower(),
            len(graph.inputs),
            len(graph.outputs),
            self._compute,
            self._shapes,
            (self._backward, self._save),
        )
        self._kernels: dict[torch.dtype, Kernel] = {}
        self._size = math.prod(graph.inputs[0].shape)
        # kernels leave out what is always zero
        zeros = (any(graph.nodes[i].is_zero for i in port.nodes) for port in graph.outputs)
        self._zeroed = [k for k, some in enumerate(zeros) if some]

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return as_tuple(self.custom(*inputs))

    @cached_property
    def vjp(self) -> TorchOperator:
        return TorchOperator(self.operator.vjp)

    @cached_property
    def transposed(self) -> TorchOperator:
        return self._transposed or TorchOperator(self.operator.transposed, self)

    def _shapes(self, *inputs: torch.Tensor) -> list[tuple[int, ...]]:
        """Return the shapes of the outputs, from the inputs."""
        graph = self.operator.graph
        leading = inputs[0].shape[: inputs[0].dim() - len(graph.inputs[0].shape)]
        return [(*leading, *port.shape) for port in graph.outputs]

    def _compute(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Compute the outputs on the device of the inputs."""
        compute, graph = self.operator.compute, self.operator.graph
        on = inputs[0].device
        if isinstance(compute, CompiledCompute):
            if on.type not in compute.platforms:
                raise ArgumentError(
                    f"{self.operator} runs on {', '.join(compute.platforms)}, and its inputs are on {on}; expected "
                    "backend='compiled', or tensors moved there",
                    code="DG-TORCH-002",
                )
            if on.type == CUDA:
                return self._on_gpu(compute, inputs)
            return self._on_cpu(compute, inputs)
        shapes = self._shapes(*inputs)
        batch = math.prod(shapes[0][: len(shapes[0]) - len(graph.outputs[0].shape)])
        arrays = [
            x.detach().cpu().numpy().reshape(batch, *port.shape) for x, port in zip(inputs, graph.inputs, strict=True)
        ]
        dtype = arrays[0].dtype
        results = [np.asarray(result, dtype).reshape(s) for result, s in zip(compute(arrays), shapes, strict=True)]
        return [torch.from_numpy(result).to(on) for result in results]

    def _on_cpu(self, compute: CompiledCompute, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """Compute on PyTorch's own memory."""
        first = inputs[0]
        dtype, shapes = first.dtype, self._shapes(*inputs)
        outputs = [torch.empty(shape, dtype=dtype) for shape in shapes]
        for k in self._zeroed:  # by one thread: to start PyTorch's own takes longer than to fill it
            ctypes.memset(outputs[k].data_ptr(), 0, outputs[k].nbytes)
        read = [x.contiguous() for x in inputs]  # kept until the call is done
        if batch := first.numel() // self._size:
            if (kernel := self._kernels.get(dtype)) is None:
                kernel = self._kernels[dtype] = compute.kernel(_NUMPY[dtype])
            kernel.at([x.data_ptr() for x in read], [x.data_ptr() for x in outputs], batch)
        return outputs

    def _on_gpu(self, compute: CompiledCompute, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """Compute on PyTorch's own memory and current stream."""
        card = inputs[0].device
        kernel = compute.gpu_kernel(_NUMPY[inputs[0].dtype], card.index or 0)
        new = torch.empty if kernel.writes_all else torch.zeros
        outputs = [new(shape, dtype=inputs[0].dtype, device=card) for shape in self._shapes(*inputs)]
        launch(kernel, inputs, outputs, inputs[0].numel() // self._size)
        return outputs

    def _save(self, ctx: Any, inputs: tuple[torch.Tensor, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def _backward(self, ctx: Any, *weights: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the weights of the inputs, by the operator's VJP."""
        inputs, n = ctx.saved_tensors, self.operator.nonlinear
        check_no_tangents(
            {f"weights of {port.name}": w for port, w in zip(self.operator.graph.outputs, weights, strict=True)}
        )
        asked = ctx.needs_input_grad
        results: list[torch.Tensor | None] = [None] * len(inputs)
        weights = tuple(w.contiguous() for w in weights)
        if any(asked[:n]):
            results[:n] = self.vjp(*inputs, *weights)
        if any(asked[n:]):
            results[n:] = self.transposed(*inputs[:n], *weights)
        return tuple(result if needed else None for result, needed in zip(results, asked, strict=True))


def launch(kernel: GpuProgram, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], batch: int) -> None:
    """Launch a kernel on tensors of its dtype and shapes, in rows, on PyTorch's current stream. It returns at once."""
    read = [x.contiguous() for x in inputs]  # memory that is freed here is used again on the same stream only
    stream = torch.cuda.current_stream(outputs[0].device).cuda_stream
    kernel.at([x.data_ptr() for x in read], [x.data_ptr() for x in outputs], batch, stream)


def check_tensors(inputs: dict[str, Any]) -> None:
    """Check that all inputs are dense tensors on one device, without tangents of forward-mode differentiation.

    Raises:
        ArgumentTypeError: An input is no tensor, or a sparse, nested or masked one.
        ArgumentError: An input is on another device than the first, or has a tangent.
    """
    for name, x in inputs.items():
        if not isinstance(x, torch.Tensor):
            raise ArgumentTypeError(f"input '{name}' is a {type(x).__name__}; expected a tensor", code="DG-TORCH-003")
        if x.layout != torch.strided or x.is_nested or isinstance(x, MaskedTensor):
            layout = "masked" if isinstance(x, MaskedTensor) else "nested" if x.is_nested else str(x.layout)
            kind = layout.removeprefix("torch.")
            raise ArgumentTypeError(
                f"input '{name}' is a {kind} tensor; expected a dense one without a mask", code="DG-TORCH-004"
            )
    check_no_tangents(inputs)
    (first, one), *others = inputs.items()
    for name, x in others:
        if x.device != one.device:
            raise ArgumentError(
                f"input '{name}' is on {x.device} and '{first}' on {one.device}; expected one device",
                code="DG-TORCH-005",
            )


def check_no_tangents(tensors: dict[str, Any]) -> None:
    """Check that no tensor carries a tangent of forward-mode differentiation.

    PyTorch drops a tangent without a warning if an operator has no rule for it, and the derivative would be 0.

    Raises:
        ArgumentError: A tensor has a tangent.
    """
    for name, x in tensors.items():
        if _has_tangent(x):
            raise ArgumentError(
                f"input '{name}' has a tangent of forward-mode differentiation, for which this operator has no rule; "
                "expected torch.autograd.grad or torch.autograd.functional.jacobian, or call a '_jvp' function",
                code="DG-TORCH-006",
            )


def _has_tangent(x: torch.Tensor) -> bool:
    """Return whether a tensor has a tangent. One that PyTorch cannot unpack, inside vmap, counts as one that has."""
    try:
        return unpack_dual(x).tangent is not None
    except RuntimeError:
        return True
