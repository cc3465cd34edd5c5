"""Rollouts and their gradients as one JAX primitive: C or a callback on the CPU, CUDA on a GPU.

It is a primitive because the platform is known only when JAX lowers it. `jax.rollouts` differentiates it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from dynagate.base.errors import ArgumentError
from dynagate.graph.loop import Loop
from dynagate.integrators.step import CARRY
from dynagate.jax.calls import call, host_call, mapped
from dynagate.jax.devices import aligned, result_type
from dynagate.jax.handlers import GPU, LOOP, key_of
from dynagate.native.loop import LoopKernel
from dynagate.operators.compute import CUDA
from dynagate.operators.on_card import Framework, backward, forward
from dynagate.operators.rollouts import RolloutOperator

rollout_p = Primitive("dynagate_rollout")
rollout_p.multiple_results = True


def trajectories(operator: RolloutOperator, *inputs: Any) -> list[Any]:
    """Return the results of `RolloutOperator.forward` for the same inputs, as JAX arrays."""
    return rollout_p.bind(*aligned(inputs, _leading(False, inputs)), operator=operator, back=False)


def gradients(operator: RolloutOperator, *inputs: Any) -> list[Any]:
    """Return the results of `RolloutOperator.backward` for the same inputs, as JAX arrays."""
    return rollout_p.bind(*aligned(inputs, _leading(True, inputs)), operator=operator, back=True)


@partial(jax.jit, static_argnums=(0, 1))
def _compiled(operator: RolloutOperator, back: bool, *inputs: Any) -> list[Any]:
    return (gradients if back else trajectories)(operator, *inputs)


@rollout_p.def_impl
def _impl(*inputs: Any, operator: RolloutOperator, back: bool) -> list[Any]:
    return _compiled(operator, back, *inputs)


@rollout_p.def_abstract_eval
def _abstract(*inputs: Any, operator: RolloutOperator, back: bool) -> list[Any]:
    return [result_type(inputs[0], _leading(back, inputs), row) for row in _rows(operator, back, inputs)]


def _leading(back: bool, inputs: Sequence[Any]) -> int:
    """Return the number of leading axes: in front of the start (nq,), or of the states (steps + 1, nq) if `back`."""
    return inputs[0].ndim - (2 if back else 1)


def _rows(operator: RolloutOperator, back: bool, inputs: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return the shapes of the results of a rollout, or of its gradient if `back`, without leading axes."""
    if not back:
        return list(operator.shapes.values())
    leading = _leading(back, inputs)
    _, qd, tau, *held = (x.shape[leading:] for x in inputs)
    state, switches = qd[1:], len(operator.held)
    others = dict(zip((*operator.stepped, *operator.parameters), held[switches:], strict=False))
    rows = [(*row[:-1], qd[-1]) if name == "q_ref" else row for name, row in others.items()]
    return [state, state, tau, *rows]


def _batched(
    inputs: Sequence[Any], dims: Sequence[Any], *, operator: RolloutOperator, back: bool
) -> tuple[list[Any], list[int]]:
    """Compute under vmap."""
    results = (gradients if back else trajectories)(operator, *mapped(inputs, dims))
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
        key = key_of(kernel, f"{kernel.text.source.stamp} {dtype} {kernel.text.iterations} cuda", kernel.addresses)
        return call(GPU, [port.shape for port in kernel.text.outputs], arrays, 1, dtype=dtype, key=key)

    framework = Framework(
        lambda shape, value: jnp.full(shape, value, dtype), partial(jnp.concatenate, axis=1), jnp.where, run
    )
    return aligned((backward if back else forward)(operator, inputs, framework), _leading(back, inputs), like=inputs)


def _runs_in_c(operator: RolloutOperator, kernel: LoopKernel) -> bool:
    """Return whether XLA can call a kernel: on one thread, for steps whose only results are states."""
    return kernel.threads == 1 and operator.direct and not operator.solved


def _forward_on_host(operator: RolloutOperator, *inputs: Any) -> list[Any]:
    """Compute trajectories on the host: by C that XLA calls, or by a callback for rollouts with Python or threads."""
    kernel = operator.rollout.kernel
    if kernel is None or not _runs_in_c(operator, kernel):
        return _called_back(operator, False, inputs)
    names = *operator.held, *operator.stepped, *operator.parameters
    named = dict(zip(("q", "qd", operator.rollout.torques, *names), inputs, strict=True))
    states = _loop(operator.rollout.loop, kernel, operator.steps, named, CARRY)
    return [states[name] for name in (*CARRY, *operator.linear)]


def _backward_on_host(operator: RolloutOperator, *inputs: Any) -> list[Any]:
    """Compute gradients by a callback."""
    loop, kernel = operator.sweep.reverse
    if kernel is None or not _runs_in_c(operator, kernel):
        return _called_back(operator, True, inputs)
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
    rows = {name: [steps // loop.every + (name in first)] for name in loop.kept}
    results = call(
        LOOP,
        [(*rows.get(port.name, []), *port.shape) for port in loop.outputs],
        arrays,
        arrays[0].ndim - axes,
        dtype=kernel.dtype,
        key=key_of(kernel, f"{kernel.stamp} {kernel.dtype}", (kernel.address, 0)),
        iterations=steps,
        first=tuple(ports[first[p.name]] if p.name in first else -1 for p in loop.outputs),
    )
    return dict(zip((port.name for port in loop.outputs), results, strict=True))


@dataclass(frozen=True)
class HostRollout:
    """A rollout, or its gradient if `back`, as a function of numpy arrays. Functions of the same operator are equal."""

    operator: RolloutOperator
    back: bool

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        return (self.operator.backward if self.back else self.operator.forward)(*arrays)


def _called_back(operator: RolloutOperator, back: bool, inputs: Sequence[Any]) -> list[Any]:
    """Compute a rollout or its gradient by a function on the host."""
    return host_call(HostRollout(operator, back), _rows(operator, back, inputs), inputs, _leading(back, inputs))
