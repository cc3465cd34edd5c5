"""Calls of XLA handlers on batches, as one JAX primitive that `vmap` and several devices split by rows.

`jax.ffi.ffi_call` has neither the mesh axes of its inputs nor a rule that splits a batch between devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.interpreters import batching, mlir

from dynagate.jax.devices import aligned, result_type
from dynagate.jax.handlers import HOST, host_key

call_p = Primitive("dynagate_call")
call_p.multiple_results = True

Function = Callable[..., Sequence[Any]]
Shape = tuple[int, ...]


def call(
    target: str, rows: Sequence[Shape], inputs: Sequence[Any], leading: int, *, dtype: Any = None, **attributes: Any
) -> list[Any]:
    """Call a handler.

    Args:
        target: Name of the handler.
        rows: Shape of each result, without leading axes.
        inputs: Arrays (*leading, *row). The handler computes each row from the same rows of all inputs.
        leading: Number of leading axes, which all inputs share.
        dtype: Number type of the results; None for that of the first input.
        attributes: Attributes of the handler except `size`: integers, or tuples of integers.

    Returns:
        The results (*leading, *row).
    """
    return call_p.bind(
        *aligned(inputs, leading),
        target=target,
        rows=tuple(map(tuple, rows)),
        leading=leading,
        dtype=np.dtype(inputs[0].dtype if dtype is None else dtype),
        attributes=tuple(attributes.items()),
    )


def host_call(function: Function, rows: Sequence[Shape], inputs: Sequence[Any], leading: int) -> list[Any]:
    """Call a Python function of numpy arrays (batch, *row) on the host. It returns arrays (batch, *row).

    Equal functions are one function. The arguments are those of `call`.
    """
    return call(HOST, rows, inputs, leading, function=function)


@partial(jax.jit, static_argnums=0)
def _compiled(params: tuple[tuple[str, Any], ...], *inputs: Any) -> list[Any]:
    return call_p.bind(*inputs, **dict(params))


@call_p.def_impl
def _impl(*inputs: Any, **params: Any) -> list[Any]:
    return _compiled(tuple(params.items()), *inputs)


@call_p.def_abstract_eval
def _abstract(*inputs: Any, rows: Sequence[Shape], leading: int, dtype: Any, **_: Any) -> list[Any]:
    return [result_type(inputs[0], leading, row, dtype) for row in rows]


def mapped(inputs: Sequence[Any], dims: Sequence[Any]) -> list[Any]:
    """Return the inputs of a call under vmap with the mapped axis in front, broadcast where an input lacks it."""
    size = next(x.shape[d] for x, d in zip(inputs, dims, strict=True) if d is not None)
    return [
        jnp.broadcast_to(x, (size, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)
        for x, d in zip(inputs, dims, strict=True)
    ]


def _batched(inputs: Sequence[Any], dims: Sequence[Any], *, leading: int, **params: Any) -> tuple[list[Any], list[int]]:
    moved = aligned(mapped(inputs, dims), leading + 1)
    results = call_p.bind(*moved, leading=leading + 1, **params)
    return results, [0] * len(results)


batching.primitive_batchers[call_p] = _batched


def _lower(ctx: Any, *inputs: Any, target: str, leading: int, attributes: Any, **_: Any) -> Any:
    """Lower a call to a custom call of which XLA may compute parts of the batch."""
    values = {
        name: np.array(value, np.int64) if isinstance(value, tuple) else np.int64(value) for name, value in attributes
    }
    values["size"] = np.int64(math.prod(ctx.avals_in[0].shape[leading:]))
    marks: dict[str, Any] = {}
    if leading:
        dims = ir.StringAttr.get(str(leading))
        marks["mhlo.frontend_attributes"] = ir.DictAttr.get({"num_batch_dims": dims})
        if jax.config.jax_use_shardy_partitioner:
            marks["sdy.sharding_rule"] = ir.Attribute.parse(_rule(ctx.avals_in, ctx.avals_out, leading))
    return jax.ffi.ffi_lowering(target, extra_attributes=marks)(ctx, *inputs, **values)


def _rule(inputs: Sequence[Any], outputs: Sequence[Any], leading: int) -> str:
    """Return the sharding rule of a call, in Shardy's syntax: leading axes are shared, all others are whole."""
    sizes: dict[str, int] = {}

    def axis(size: int) -> str:
        index = len(sizes)
        name = chr(ord("i") + index) if index < 18 else f"z_{index - 17}"
        sizes[name] = size
        return f"{name}"

    batch = [axis(size) for size in inputs[0].shape[:leading]]
    sides = [
        ", ".join(f"[{', '.join([*batch, *map(axis, aval.shape[leading:])])}]" for aval in avals)
        for avals in (inputs, outputs)
    ]
    listed = ", ".join(f"{name}={size}" for name, size in sizes.items())
    whole = ", ".join(list(sizes)[leading:])
    replicated = f" need_replication={{{whole}}}" if whole else ""
    return f"#sdy.op_sharding_rule<({sides[0]})->({sides[1]}) {{{listed}}}{replicated}, custom>"


def _lower_on_cpu(ctx: Any, *inputs: Any, attributes: Any, **params: Any) -> Any:
    named = dict(attributes)
    if "function" in named:
        rows = [(aval.shape[params["leading"] :], aval.dtype) for aval in (*ctx.avals_in, *ctx.avals_out)]
        named["key"] = host_key(named.pop("function"), rows[: len(inputs)], rows[len(inputs) :])
    return _lower(ctx, *inputs, attributes=tuple(named.items()), **params)


def _lower_elsewhere(ctx: Any, *inputs: Any, **params: Any) -> Any:
    if params["target"] != HOST:
        return _lower(ctx, *inputs, **params)
    return mlir.lower_fun(partial(_copied, **params), multiple_results=True)(ctx, *inputs)


def _copied(*inputs: Any, rows: Sequence[Shape], leading: int, dtype: Any, attributes: Any, **_: Any) -> list[Any]:
    """Call a function on the host from another platform, by JAX's own callback, which copies."""
    axes, function = inputs[0].shape[:leading], dict(attributes)["function"]

    def flat(*arrays: Any) -> list[Any]:
        results = function(*(np.asarray(x).reshape(-1, *x.shape[leading:]) for x in arrays))
        return [np.asarray(x, dtype).reshape(*axes, *row) for x, row in zip(results, rows, strict=True)]

    shapes = [jax.ShapeDtypeStruct((*axes, *row), dtype) for row in rows]
    return aligned(list(jax.pure_callback(flat, shapes, *inputs)), leading, like=inputs)


mlir.register_lowering(call_p, _lower_on_cpu, platform="cpu")
mlir.register_lowering(call_p, _lower_elsewhere)
