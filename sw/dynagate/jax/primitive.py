"""Operators as one JAX primitive, with rules for computation, differentiation, transposition and batching.

`jax.custom_vjp` and `jax.custom_jvp` each define one direction of differentiation. Here the JVP of an operator is a
linear operator, and its transpose is the VJP, which is an operator too. Forward mode, reverse mode and any mix of them
therefore work to any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from dynagate.base.errors import ArgumentError
from dynagate.jax.handlers import GPU, ROWS, key_of
from dynagate.jax.varying import axes_of as mesh_axes_of
from dynagate.jax.varying import result_type, varying
from dynagate.operators.compute import CPU, CUDA, CompiledCompute
from dynagate.operators.inputs import axes_of
from dynagate.operators.operator import Operator

operator_p = Primitive("dynagate")
operator_p.multiple_results = True


def bind(operator: Operator, *inputs: Any) -> list[Any]:
    """Return the outputs of an operator. Inside `shard_map` they vary over each mesh axis that an input varies over."""
    return operator_p.bind(*varying(inputs, mesh_axes_of(inputs)), operator=operator)


@partial(jax.jit, static_argnums=0)
def _compiled(operator: Operator, *inputs: Any) -> list[Any]:
    return bind(operator, *inputs)


@operator_p.def_impl
def _impl(*inputs: Any, operator: Operator) -> list[Any]:
    return _compiled(operator, *inputs)


@operator_p.def_abstract_eval
def _abstract(*inputs: Any, operator: Operator) -> list[Any]:
    leading = axes_of(operator.graph.inputs, inputs)
    return [result_type(inputs[0], (*leading, *port.shape)) for port in operator.graph.outputs]


def _on_host(*inputs: Any, operator: Operator) -> list[Any]:
    """Compute an operator that is not compiled code, by a callback."""
    leading, dtype = inputs[0].shape[: inputs[0].ndim - len(operator.graph.inputs[0].shape)], inputs[0].dtype
    ports = operator.graph.outputs

    def call(*arrays: Any) -> list[Any]:
        flat = [
            np.asarray(array).reshape(math.prod(leading), *port.shape)
            for array, port in zip(arrays, operator.graph.inputs, strict=True)
        ]
        results = zip(operator.compute(flat), ports, strict=True)
        return [np.asarray(result, dtype).reshape(*leading, *port.shape) for result, port in results]

    shapes = [jax.ShapeDtypeStruct((*leading, *port.shape), dtype) for port in ports]
    return list(jax.pure_callback(call, shapes, *inputs))


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
    rule = jax.ffi.ffi_lowering(ROWS)
    return rule(ctx, *inputs, key=np.int64(key), size=_size(operator), zeros=np.array(zeros, np.int64).ravel())


def _size(operator: Operator) -> np.int64:
    return np.int64(math.prod(operator.graph.inputs[0].shape))


def _on_gpu(*inputs: Any, operator: Operator) -> list[Any]:
    """Compute with CUDA on XLA's own buffers and stream."""
    compute = operator.compute
    assert isinstance(compute, CompiledCompute)
    dtype = np.dtype(inputs[0].dtype)
    kernel = compute.gpu_kernel(dtype)
    leading = axes_of(operator.graph.inputs, inputs)
    shapes = [jax.ShapeDtypeStruct((*leading, *port.shape), dtype) for port in operator.graph.outputs]
    key = key_of(kernel, f"{kernel.text.source.stamp} {dtype} cuda", kernel.addresses)
    results = jax.ffi.ffi_call(GPU, shapes)(*inputs, key=np.int64(key), size=_size(operator))
    if kernel.writes_all:
        return list(results)
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
    """Compute under vmap: move the mapped axis to the front and broadcast inputs without it."""
    size = next(x.shape[d] for x, d in zip(inputs, dims, strict=True) if d is not None)
    moved = [
        jnp.broadcast_to(x, (size, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)
        for x, d in zip(inputs, dims, strict=True)
    ]
    results = bind(operator, *moved)
    return results, [0] * len(results)


batching.primitive_batchers[operator_p] = _batched
