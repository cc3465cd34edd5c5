"""Operators as one JAX primitive, with rules for computation, differentiation, transposition and batching.

`jax.custom_vjp` and `jax.custom_jvp` each define one direction of differentiation. Here the JVP of an operator is a
linear operator, and its transpose is the VJP, which is an operator too. Forward mode, reverse mode and any mix of them
therefore work to any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from dynagate.base.errors import ArgumentError
from dynagate.jax.calls import call, host_call, mapped
from dynagate.jax.devices import aligned, result_type
from dynagate.jax.handlers import GPU, ROWS, key_of
from dynagate.operators.compute import CPU, CUDA, CompiledCompute
from dynagate.operators.operator import Operator

operator_p = Primitive("dynagate")
operator_p.multiple_results = True


def bind(operator: Operator, *inputs: Any) -> list[Any]:
    """Return the outputs of an operator. Inside `shard_map` they vary over each mesh axis that an input varies over.

    Raises:
        ArgumentError: The devices of two inputs do not fit, as `devices.aligned` says.
    """
    return operator_p.bind(*aligned(inputs, _leading(operator, inputs)), operator=operator)


def _leading(operator: Operator, inputs: Sequence[Any]) -> int:
    """Return the number of leading axes of the inputs."""
    return inputs[0].ndim - len(operator.graph.inputs[0].shape)


@partial(jax.jit, static_argnums=0)
def _compiled(operator: Operator, *inputs: Any) -> list[Any]:
    return bind(operator, *inputs)


@operator_p.def_impl
def _impl(*inputs: Any, operator: Operator) -> list[Any]:
    return _compiled(operator, *inputs)


@operator_p.def_abstract_eval
def _abstract(*inputs: Any, operator: Operator) -> list[Any]:
    leading = _leading(operator, inputs)
    return [result_type(inputs[0], leading, port.shape) for port in operator.graph.outputs]


def _on_host(*inputs: Any, operator: Operator) -> list[Any]:
    """Compute an operator that is not compiled code, on the host."""
    rows = [port.shape for port in operator.graph.outputs]
    return host_call(HostCompute(operator), rows, inputs, _leading(operator, inputs))


@dataclass(frozen=True)
class HostCompute:
    """An operator as a function of numpy arrays (batch, *shape). Functions of the same operator are equal."""

    operator: Operator

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        return self.operator.compute(list(arrays))


def _lower(platform: str, ctx: Any, *inputs: Any, operator: Operator) -> Any:
    """Lower the primitive for a platform: compiled code, or a callback."""
    compute = operator.compute
    if not isinstance(compute, CompiledCompute):
        return mlir.lower_fun(partial(_on_host, operator=operator), multiple_results=True)(ctx, *inputs)
    if platform not in compute.platforms:
        raise ArgumentError(
            f"{operator} runs on {', '.join(compute.platforms)}, and JAX computes on {platform}; expected "
            "backend='compiled', or jax.default_device of the other",
            code="DG-JAX-007",
        )
    if platform == CUDA:
        return mlir.lower_fun(partial(_on_gpu, operator=operator), multiple_results=True)(ctx, *inputs)
    dtype = np.dtype(ctx.avals_in[0].dtype)
    kernel = compute.kernel(dtype)
    zeros = [
        (k, entry)
        for k, port in enumerate(operator.graph.outputs)
        for entry, i in enumerate(port.nodes)
        if operator.graph.nodes[i].is_zero
    ]
    key = key_of(kernel, f"{kernel.stamp} {dtype}", kernel.addresses)
    rows = [port.shape for port in operator.graph.outputs]
    leading, flat = _leading(operator, ctx.avals_in), tuple(number for pair in zeros for number in pair)
    rule = mlir.lower_fun(lambda *x: call(ROWS, rows, x, leading, key=key, zeros=flat), multiple_results=True)
    return rule(ctx, *inputs)


def _on_gpu(*inputs: Any, operator: Operator) -> list[Any]:
    """Compute with CUDA on XLA's own buffers and stream."""
    compute = operator.compute
    assert isinstance(compute, CompiledCompute)
    dtype = np.dtype(inputs[0].dtype)
    kernel = compute.gpu_kernel(dtype)
    rows = [port.shape for port in operator.graph.outputs]
    key = key_of(kernel, f"{kernel.text.source.stamp} {dtype} cuda", kernel.addresses)
    results = call(GPU, rows, inputs, _leading(operator, inputs), key=key)
    if kernel.writes_all:
        return results
    nodes = operator.graph.nodes
    written = [np.reshape([not nodes[i].is_zero for i in p.nodes], p.shape) for p in operator.graph.outputs]
    return [jnp.where(where, result, 0) for where, result in zip(written, results, strict=True)]


for _platform in (CPU, CUDA):
    mlir.register_lowering(operator_p, partial(_lower, _platform), platform=_platform)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, operator: Operator) -> tuple[list[Any], list[Any]]:
    """Return outputs and their tangents, by the operator's JVP."""
    results = bind(operator, *primals)
    n = operator.nonlinear
    rates: list[Any] = [ad.Zero(jax.typeof(result)) for result in results]
    if not _all_zero(tangents[:n]):
        rates = bind(operator.jvp, *primals, *map(ad.instantiate_zeros, tangents[:n]))
    if not _all_zero(tangents[n:]):
        linear = bind(operator, *primals[:n], *map(ad.instantiate_zeros, tangents[n:]))
        rates = list(map(ad.add_tangents, rates, linear))
    return results, rates


def _all_zero(tangents: Sequence[Any]) -> bool:
    return all(type(tangent) is ad.Zero for tangent in tangents)


ad.primitive_jvps[operator_p] = _jvp


def _transpose(weights: Sequence[Any], *inputs: Any, operator: Operator) -> list[Any]:
    """Return the weights of linear inputs. These inputs are unknown, or zeros that JAX filled in."""
    n = operator.nonlinear
    if _all_zero(weights):
        return [ad.Zero(x.aval) if ad.is_undefined_primal(x) else None for x in inputs]
    results = bind(operator.transposed, *inputs[:n], *map(ad.instantiate_zeros, weights))
    unknown = [ad.is_undefined_primal(x) for x in inputs[n:]]
    return [None] * n + [result if of else None for of, result in zip(unknown, results, strict=True)]


ad.primitive_transposes[operator_p] = _transpose


def _batched(inputs: Sequence[Any], dims: Sequence[Any], *, operator: Operator) -> tuple[list[Any], list[int]]:
    """Compute under vmap."""
    results = bind(operator, *mapped(inputs, dims))
    return results, [0] * len(results)


batching.primitive_batchers[operator_p] = _batched
