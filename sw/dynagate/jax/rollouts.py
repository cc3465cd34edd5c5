"""Rollouts in JAX: all steps in one call of compiled code, and their reverse sweep in another for the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from dynagate.base.explained import explained
from dynagate.base.pickling import SharedFunction
from dynagate.jax.devices import aligned
from dynagate.jax.functions import precision, prepared
from dynagate.jax.primitive import bind
from dynagate.jax.rollout_primitive import gradients, trajectories
from dynagate.operators.inputs import by_name
from dynagate.operators.rollouts import RolloutOperator
from dynagate.robot import Robot

FLOAT64 = "jax.config.update('jax_enable_x64', True), and rollout(..., dtype='float64') if dtype= is passed"
"""Text of errors: how to create a float64 rollout."""


class JaxRollout(SharedFunction):
    """Torques to trajectories; `rollout` makes it.

    Call it with q0 (*leading, nq), qd0 (*leading, nv) and tau (*leading, steps, nv), all in its dtype; quaternions are
    brought to length 1 first. A constrained rollout also takes active (*leading, steps, constraints), 0 or 1, by which
    nothing is differentiated. The inputs of feedback= (*leading, steps, *shape) follow, then dt (*leading,) in s if the
    rollout has dt=None. The robot's variable parameters (*leading, *shape) come last. Returns q (*leading, steps //
    every + 1, nq), qd (*leading, steps // every + 1, nv), the first ones q0 and qd0, what outputs= names, and with
    linearize=True the matrices a and b of every step, as `dynagate.Rollout` has them. A gradient of a cost that depends
    on a or b is NaN.
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
        return self.operator.named(self._run(*aligned(inputs, inputs[0].ndim - 1)), jnp)

    def _forward(self, *inputs: jax.Array) -> list[jax.Array]:
        return trajectories(self.operator, *inputs)

    def _saving(self, *inputs: jax.Array) -> tuple[list[jax.Array], tuple[jax.Array, ...]]:
        """Return the trajectories, and the inputs and results that the gradient needs."""
        self.operator.check_differentiable()
        q, qd, *others = results = self._forward(*inputs)
        return results, (q, qd, *inputs[2:], *others[: len(self.operator.solved)])

    def _backward(self, saved: tuple[jax.Array, ...], weights: list[jax.Array]) -> tuple[jax.Array, ...]:
        """Return the gradients of the inputs, from saved values and weights of the results."""
        (q, qd, tau, *held), (cost_q, cost_qd, *others), operator = saved, weights, self.operator
        if operator.to_velocities is not None:
            (cost_q,) = bind(operator.to_velocities, q, cost_q)
        weights = [cost_q, cost_qd, *others[: len(operator.solved)]]
        back = gradients(operator, q, qd, tau, *held, *weights)
        by_q, by_qd, by_tau, *by_others = operator.spoiled(back, [cost_q, cost_qd, *others], jnp)
        switches = len(operator.held)
        if operator.to_entries is not None:
            (by_q,) = bind(operator.to_entries, q[..., 0, :], by_q)
            if "q_ref" in operator.stepped:
                place = list(operator.stepped).index("q_ref")
                (by_others[place],) = bind(operator.to_entries, held[switches + place], by_others[place])
        return by_q, by_qd, by_tau, *(jnp.zeros_like(x) for x in held[:switches]), *by_others

    def __repr__(self) -> str:
        return f"<dynagate.jax.JaxRollout {self.operator.robot.name}, {self.operator.steps} steps>"


@explained
def rollout(
    robot: Robot | str | PathLike[str],
    steps: int,
    dt: float | None,
    *,
    backend: str = "compiled",
    dtype: npt.DTypeLike | None = None,
    outputs: str | Sequence[str] = (),
    **options: Any,
) -> JaxRollout:
    """Create a rollout for JAX: a function from torques to states.

    It takes q0 (*leading, nq), qd0 (*leading, nv) and tau (*leading, steps, nv), in rad, m, rad/s, m/s, N m and N.

    Args:
        robot: The robot, the name of one in the package, or the path of its URDF file.
        steps: Number of steps.
        dt: Time step in s, or None if each call passes it.
        backend: "compiled": C, or CUDA on an NVIDIA GPU. "cpu": C. "numpy": float64. "fixed": the integers of a
            chip that keeps the states. "sim": the simulation of this chip. The gradient of the last two is the
            floating-point reverse sweep through the states that they computed.
        dtype: Number type of all arrays; None for float64, or for float32 if JAX is in its 32-bit mode.
        outputs: Names of additional results. "diverged" (*leading,) is the index of the first state that is not
            finite, -1 if all are. Rollouts that solve equations have "converged" (*leading, steps). Rollouts with rigid
            contact have "impulse" (*leading, steps, pairs, 3) and "lift" (*leading, steps, pairs), in N s, as
            `dynagate.Rollout` has them; gradients pass through both.
        options: integrator, form, forces, constrained, contacts, feedback, linearize and others of `dynagate.Rollout`.

    Returns:
        The rollout.

    Raises:
        ArgumentError: An option is not accepted.
        ArgumentTypeError: An option has another type, or dtype is float64 in 32-bit mode.
        RobotError: The robot does not exist or does not support an option.
        CompileError: The source cannot be compiled.
    """
    chosen = precision((np.float64 if jax.config.jax_enable_x64 else np.float32) if dtype is None else dtype)
    own: dict[str, Any] = {"backend": backend, "dtype": chosen, "float64": FLOAT64, "outputs": outputs}
    return JaxRollout(RolloutOperator(robot, steps=steps, dt=dt, **own, **options))
