"""Rollouts and their gradients as one JAX primitive: C or a callback on the CPU, CUDA on a GPU.

It is a primitive because the platform is known only when JAX lowers it. `jax.rollouts` differentiates it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from dynagate.base.errors import ArgumentError
from dynagate.graph.loop import Loop
from dynagate.integrators.step import CARRY
from dynagate.jax.handlers import GPU, LOOP, key_of
from dynagate.jax.varying import axes_of, result_type, varying
from dynagate.native.loop import LoopKernel
from dynagate.operators.compute import CUDA
from dynagate.operators.on_card import Framework, backward, forward
from dynagate.operators.rollouts import RolloutOperator

rollout_p = Primitive("dynagate_rollout")
rollout_p.multiple_results = True


def trajectories(operator: RolloutOperator, *inputs: Any) -> list[Any]:
    """Return the results of `RolloutOperator.forward` for the same inputs, as JAX arrays."""
    return rollout_p.bind(*varying(inputs, axes_of(inputs)), operator=operator, back=False)


def gradients(operator: RolloutOperator, *inputs: Any) -> list[Any]:
    """Return the results of `RolloutOperator.backward` for the same inputs, as JAX arrays."""
    return rollout_p.bind(*varying(inputs, axes_of(inputs)), operator=operator, back=True)


@partial(jax.jit, static_argnums=(0, 1))
def _compiled(operator: RolloutOperator, back: bool, *inputs: Any) -> list[Any]:
    return (gradients if back else trajectories)(operator, *inputs)


@rollout_p.def_impl
def _impl(*inputs: Any, operator: RolloutOperator, back: bool) -> list[Any]:
    return _compiled(operator, back, *inputs)


@rollout_p.def_abstract_eval
def _abstract(*inputs: Any, operator: RolloutOperator, back: bool) -> list[Any]:
    return [result_type(inputs[0], shape) for shape in _shapes(operator, back, inputs)]


def _shapes(operator: RolloutOperator, back: bool, inputs: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return the shapes of the results of a rollout, or of its gradient if `back`."""
    if not back:
        return [(*inputs[0].shape[:-1], *shape) for shape in operator.shapes.values()]
    _, qd, tau, *held = inputs
    state, switches = (*qd.shape[:-2], qd.shape[-1]), len(operator.held)
    others = dict(zip((*operator.stepped, *operator.parameters), held[switches:], strict=False))
    shapes = [(*x.shape[:-1], qd.shape[-1]) if name == "q_ref" else x.shape for name, x in others.items()]
    return [state, state, tau.shape, *shapes]


def _batched(
    inputs: Sequence[Any], dims: Sequence[Any], *, operator: RolloutOperator, back: bool
) -> tuple[list[Any], list[int]]:
    """Compute under vmap: move the mapped axis to the front and broadcast inputs without it."""
    size = next(x.shape[d] for x, d in zip(inputs, dims, strict=True) if d is not None)
    moved = [
        jnp.broadcast_to(x, (size, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)
        for x, d in zip(inputs, dims, strict=True)
    ]
    results = (gradients if back else trajectories)(operator, *moved)
    return results, [0] * len(results)


batching.primitive_batchers[rollout_p] = _batched


def _lower(on_host: bool, ctx: Any, *inputs: Any, operator: RolloutOperator, back: bool) -> Any:
    computed: Callable[..., Any]
    if on_host or not operator.platforms:
        computed = partial(_backward_on_host if back else _forward_on_host, operator)
    elif CUDA in operator.platforms:
        computed = partial(_on_card, operator, back)
    else:
        raise ArgumentError(
            f"{operator.arguments.name} runs on {', '.join(operator.platforms)}, and JAX computes on {CUDA}; expected "
            "backend='compiled', or jax.default_device of the other",
            code="DG-JAX-008",
        )
    return mlir.lower_fun(lambda *x: list(computed(*x)), multiple_results=True)(ctx, *inputs)


mlir.register_lowering(rollout_p, partial(_lower, True))
mlir.register_lowering(rollout_p, partial(_lower, False), platform=CUDA)


def _on_card(operator: RolloutOperator, back: bool, *inputs: Any) -> list[Any]:
    """Compute a rollout or its gradient on XLA's own buffers and stream."""
    dtype = operator.dtype

    def run(loop: Loop, iterations: int | None, arrays: list[Any]) -> Sequence[Any]:
        kernel = operator.gpu_loop(loop, iterations)
        ports, batch = kernel.text.inputs, arrays[0].shape[0]
        key = key_of(kernel, f"{kernel.text.source.stamp} {dtype} {kernel.text.iterations} cuda", kernel.addresses)
        shapes = [jax.ShapeDtypeStruct((batch, *port.shape), dtype) for port in kernel.text.outputs]
        return jax.ffi.ffi_call(GPU, shapes)(*arrays, key=np.int64(key), size=np.int64(math.prod(ports[0].shape)))

    framework = Framework(
        lambda shape, value: jnp.full(shape, value, dtype), partial(jnp.concatenate, axis=1), jnp.where, run
    )
    results = (backward if back else forward)(operator, inputs, framework)
    return varying(results, axes_of(inputs))  # a foreign call's results have no axes


def _runs_in_c(operator: RolloutOperator, kernel: LoopKernel) -> bool:
    """Return whether XLA can call a kernel: on one thread, for steps whose only results are states."""
    return kernel.threads == 1 and operator.direct and not operator.solved


def _forward_on_host(operator: RolloutOperator, *inputs: Any) -> list[Any]:
    """Compute trajectories on the host: by C that XLA calls, or by a callback for rollouts with Python or threads."""
    kernel = operator.rollout.kernel
    if kernel is None or not _runs_in_c(operator, kernel):
        return _called_back(operator.forward, _shapes(operator, False, inputs), *inputs)
    names = *operator.held, *operator.stepped, *operator.parameters
    named = dict(zip(("q", "qd", operator.rollout.torques, *names), inputs, strict=True))
    states = _loop(operator.rollout.loop, kernel, operator.steps, named, CARRY)
    return [states[name] for name in (*CARRY, *operator.linear)]


def _backward_on_host(operator: RolloutOperator, *inputs: Any) -> list[Any]:
    """Compute gradients by a callback."""
    loop, kernel = operator.sweep.reverse
    if kernel is None or not _runs_in_c(operator, kernel):
        return _called_back(operator.backward, _shapes(operator, True, inputs), *inputs)
    q, qd, tau, *held, cost_q, cost_qd = inputs
    named = {"q": q, "qd": qd, operator.rollout.torques: tau, "cost_q": cost_q, "cost_qd": cost_qd}
    named |= {"lam_q": cost_q[..., -1, :], "lam_qd": cost_qd[..., -1, :]}
    named |= dict(zip((*operator.held, *operator.stepped, *operator.parameters), held, strict=True))
    named |= {f"lam_{name}": jnp.zeros_like(named[name]) for name in operator.parameters}
    products = _loop(loop, kernel, operator.steps, named, {})
    names: tuple[str, ...] = ("lam_q_next", "lam_qd_next", f"vjp_{operator.rollout.torques}")
    names += (*(f"vjp_{name}" for name in operator.stepped), *(f"lam_{name}_next" for name in operator.parameters))
    return [products[name] for name in names]


def _loop(
    loop: Loop, kernel: LoopKernel, steps: int, inputs: Mapping[str, jax.Array], first: Mapping[str, str]
) -> dict[str, jax.Array]:
    """Return the outputs of a loop in C, by name, (*leading, [rows,] *shape).

    Args:
        loop: The loop.
        kernel: Its C.
        steps: Number of iterations.
        inputs: Arrays of the loop; per-iteration inputs may have more rows than iterations.
        first: Output -> input that becomes its first row.
    """
    ports = {port.name: k for k, port in enumerate(loop.inputs)}
    arrays = [inputs[name] for name in ports]
    begin = loop.inputs[0]
    axes = len(begin.shape) + (begin.name in loop.per_iteration)
    leading, own = arrays[0].shape[: arrays[0].ndim - axes], arrays[0].shape[arrays[0].ndim - axes :]
    rows = {name: [steps // loop.every + (name in first)] for name in loop.kept}
    shapes = [
        jax.ShapeDtypeStruct((*leading, *rows.get(port.name, []), *port.shape), kernel.dtype) for port in loop.outputs
    ]
    results = jax.ffi.ffi_call(LOOP, shapes)(
        *arrays,
        key=np.int64(key_of(kernel, f"{kernel.stamp} {kernel.dtype}", (kernel.address, 0))),
        size=np.int64(math.prod(own)),
        iterations=np.int64(steps),
        first=np.array([ports[first[p.name]] if p.name in first else -1 for p in loop.outputs], np.int64),
    )
    results = varying(results, axes_of(arrays))  # a foreign call's results have no axes
    return dict(zip((port.name for port in loop.outputs), results, strict=True))


def _called_back(function: Callable[..., Any], shapes: list[tuple[int, ...]], *inputs: jax.Array) -> list[jax.Array]:
    """Compute a function of numpy arrays by a callback on the host."""
    dtype = inputs[0].dtype
    results = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]

    def call(*arrays: Any) -> list[Any]:
        return [np.asarray(x, dtype) for x in function(*map(np.asarray, arrays))]

    computed = jax.pure_callback(call, results, *inputs)
    return varying(list(computed), axes_of(inputs))  # a callback's results have no axes
