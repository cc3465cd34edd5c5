"""Rollouts in JAX: all steps in one call of compiled code, and all steps back in another for the gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from dynagate.base.explained import explained
from dynagate.base.pickling import SharedFunction
from dynagate.graph.loop import Loop
from dynagate.integrators.step import CARRY
from dynagate.jax.functions import precision, prepared
from dynagate.jax.handlers import LOOP, key_of
from dynagate.jax.primitive import bind
from dynagate.jax.varying import axes_of, varying
from dynagate.native.loop import LoopKernel
from dynagate.operators.inputs import by_name
from dynagate.operators.rollouts import RolloutOperator
from dynagate.robot import Robot

FLOAT64 = "jax.config.update('jax_enable_x64', True), and rollout(..., dtype='float64') if dtype= is passed"
"""How to have a rollout in float64."""


class RolloutFunction(SharedFunction):
    """Torques to trajectories; `rollout` makes it.

    Call it with q0 (*leading, nq), qd0 (*leading, nv) and tau (*leading, steps, nv), all in its dtype; quaternions are
    brought to length 1 first. A constrained rollout also takes active (*leading, steps, constraints), 0 or 1, by which
    nothing is differentiated. The inputs of feedback= (*leading, steps, *shape) follow. The robot's variable parameters
    (*leading, *shape) come last. Returns q (*leading, steps // every + 1, nq), qd (*leading, steps // every + 1, nv),
    the first ones q0 and qd0, and what outputs= names.
    A trajectory that diverges, or has a step that has not converged, is not finite from then on.

    It is differentiated in reverse mode (`grad`, `vjp`, `jacrev`), once. For forward mode and second derivatives scan
    over the function "step": `dynagate.jax.function(robot, "step", dt=..., integrator=...)`.
    Raises TypeError and ValueError as a `Function` does.
    """

    def __init__(self, operator: RolloutOperator) -> None:
        self.operator = operator
        self._run = jax.custom_vjp(self._forward)
        self._run.defvjp(self._saving, self._backward)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        arguments = self.operator.arguments
        inputs = prepared(arguments, by_name(arguments, positional, named))
        self.operator.check_dtype(str(inputs[0].dtype))
        return self.operator.named(self._run(*varying(inputs, axes_of(inputs))), jnp)

    def _forward(self, *inputs: jax.Array) -> list[jax.Array]:
        kernel = self.operator.rollout.kernel
        if kernel is None or kernel.threads > 1 or not self.operator.direct:
            shapes = [(*inputs[0].shape[:-1], *shape) for shape in self.operator.shapes.values()]
            return _called_back(self.operator.forward, shapes, *inputs)
        names = *self.operator.held, *self.operator.stepped, *self.operator.parameters
        named = dict(zip(("q", "qd", self.operator.rollout.torques, *names), inputs, strict=True))
        states = _loop(self.operator.rollout.loop, kernel, self.operator.steps, named, CARRY)
        return [states[name] for name in CARRY]

    def _saving(self, *inputs: jax.Array) -> tuple[list[jax.Array], tuple[jax.Array, ...]]:
        self.operator.check_differentiable()
        q, qd, *others = results = self._forward(*inputs)
        return results, (q, qd, *inputs[2:], *others[: len(self.operator.solved)])

    def _backward(self, saved: tuple[jax.Array, ...], weights: list[jax.Array]) -> tuple[jax.Array, ...]:
        (q, qd, tau, *held), (cost_q, cost_qd, *others), operator = saved, weights, self.operator
        if operator.to_velocities is not None:
            (cost_q,) = bind(operator.to_velocities, q, cost_q)
        switches, begin = len(operator.held), len(operator.held) + len(operator.stepped)
        stepped = dict(zip(operator.stepped, held[switches:begin], strict=True))
        varied = dict(zip(operator.parameters, held[begin:], strict=False))
        loop, kernel = operator.sweep.reverse
        if kernel is None or kernel.threads > 1 or not operator.direct:
            shapes = [(*x.shape[:-2], operator.robot.nv) for x in (q, qd)]
            arrays = [q, qd, tau, *held, cost_q, cost_qd, *others[: len(operator.solved)]]
            shapes += [tau.shape]
            shapes += [
                (*x.shape[:-1], operator.robot.nv) if name == "q_ref" else x.shape for name, x in stepped.items()
            ]
            shapes += [x.shape for x in varied.values()]
            by_q, by_qd, by_tau, *by_others = _called_back(operator.backward, shapes, *arrays)
        else:
            inputs = {"q": q, "qd": qd, operator.rollout.torques: tau, "cost_q": cost_q, "cost_qd": cost_qd}
            inputs |= {"lam_q": cost_q[..., -1, :], "lam_qd": cost_qd[..., -1, :]}
            inputs |= dict(zip(operator.held, held[:switches], strict=True)) | stepped | varied
            inputs |= {f"lam_{name}": jnp.zeros_like(x) for name, x in varied.items()}
            products = _loop(loop, kernel, operator.steps, inputs, {})
            by_q, by_qd, by_tau = (
                products[name] for name in ("lam_q_next", "lam_qd_next", f"vjp_{operator.rollout.torques}")
            )
            by_others = [products[f"vjp_{name}"] for name in stepped]
            by_others += [products[f"lam_{name}_next"] for name in varied]
        if operator.to_entries is not None:
            (by_q,) = bind(operator.to_entries, q[..., 0, :], by_q)
            if "q_ref" in stepped:
                place = list(stepped).index("q_ref")
                (by_others[place],) = bind(operator.to_entries, stepped["q_ref"], by_others[place])
        return by_q, by_qd, by_tau, *(jnp.zeros_like(x) for x in held[:switches]), *by_others

    def __repr__(self) -> str:
        return f"<dynagate.jax.RolloutFunction {self.operator.robot.name}, {self.operator.steps} steps>"


@explained
def rollout(
    robot: Robot | str | PathLike[str],
    steps: int,
    dt: float,
    *,
    backend: str = "compiled",
    dtype: npt.DTypeLike | None = None,
    outputs: str | Sequence[str] = (),
    **options: Any,
) -> RolloutFunction:
    """A rollout for JAX: torques of this many steps of dt seconds to states.

    robot: also the path of a URDF file, or the name of one that ships. The rollout takes q0 (*leading, nq), qd0
    (*leading, nv) and tau (*leading, steps, nv), rad, m, rad/s, m/s, N m and N.
    backend: "compiled" or "cpu", C; "numpy", float64; "fixed", the integers of a chip that keeps the states, or "sim",
    this chip simulated. The gradient of the last two is the sweep back in floating point through the states that they
    computed. dtype: of all arrays; float64 unless JAX is in its 32-bit mode. options: integrator, form,
    forces, constrained, contacts, feedback and others of `dynagate.Rollout`.
    outputs: names of more results. "diverged" (*leading,) is the first state that is not finite, -1 if all are.
    Rollouts that solve equations have "converged" (*leading, steps), and those with rigid contact "impulse" (*leading,
    steps, pairs, 3) and "lift" (*leading, steps, pairs), N s, as of `dynagate.Rollout`. Gradients pass through impulse
    and lift.

    Raises ValueError or TypeError: an option is none of these, or dtype float64 in 32-bit mode; RobotError;
    CompileError.
    """
    chosen = precision((np.float64 if jax.config.jax_enable_x64 else np.float32) if dtype is None else dtype)
    own: dict[str, Any] = {"backend": backend, "dtype": chosen, "float64": FLOAT64, "outputs": outputs}
    return RolloutFunction(RolloutOperator(robot, steps=steps, dt=dt, **own, **options))


def _loop(
    loop: Loop, kernel: LoopKernel, steps: int, inputs: Mapping[str, jax.Array], first: Mapping[str, str]
) -> dict[str, jax.Array]:
    """The outputs of a loop in C, by name, (*leading, [rows,] *shape). inputs: those per turn may have more rows than
    there are steps. first: outputs -> the input that is put before their first row."""
    ports = {port.name: k for k, port in enumerate(loop.inputs)}
    arrays = [inputs[name] for name in ports]
    begin = loop.inputs[0]
    axes = len(begin.shape) + (begin.name in loop.per_turn)
    leading, own = arrays[0].shape[: arrays[0].ndim - axes], arrays[0].shape[arrays[0].ndim - axes :]
    rows = {name: [steps // loop.every + (name in first)] for name in loop.kept}
    shapes = [
        jax.ShapeDtypeStruct((*leading, *rows.get(port.name, []), *port.shape), kernel.dtype) for port in loop.outputs
    ]
    results = jax.ffi.ffi_call(LOOP, shapes, vmap_method="broadcast_all")(
        *arrays,
        key=np.int64(key_of(kernel, f"{kernel.stamp} {kernel.dtype}", (kernel.address, 0))),
        size=np.int64(math.prod(own)),
        turns=np.int64(steps),
        first=np.array([ports[first[p.name]] if p.name in first else -1 for p in loop.outputs], np.int64),
    )
    results = varying(results, axes_of(arrays))  # a foreign call's results have no axes
    return dict(zip((port.name for port in loop.outputs), results, strict=True))


def _called_back(function: Callable[..., Any], shapes: list[tuple[int, ...]], *inputs: jax.Array) -> list[jax.Array]:
    """Compute a function of numpy arrays by a callback. Leading axes that vmap adds become leading axes of the
    outputs.
    """
    dtype = inputs[0].dtype
    results = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]

    def call(*arrays: Any) -> list[Any]:
        return [np.asarray(x, dtype) for x in function(*map(np.asarray, arrays))]

    computed = jax.pure_callback(call, results, *inputs, vmap_method="broadcast_all")
    return varying(list(computed), axes_of(inputs))  # a callback's results have no axes
