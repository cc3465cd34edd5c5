"""Rollouts in PyTorch: all steps in one call, and their reverse sweep in another for the gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.pickling import SharedFunction
from dynagate.graph.loop import Loop
from dynagate.operators.compute import CPU, CUDA
from dynagate.operators.inputs import by_name
from dynagate.operators.on_card import Framework, backward, forward
from dynagate.operators.rollouts import RolloutOperator
from dynagate.robot import Robot
from dynagate.torch.functions import prepared
from dynagate.torch.library import TorchOperator, check_no_tangents, launch, registered

FLOAT64 = "rollout(..., dtype='float64') and float64 tensors, such as .double(), or torch.no_grad() for the motion only"
"""Text of errors: how to create a float64 rollout."""


class TorchRollout(SharedFunction):
    """Torques to trajectories; `rollout` makes it.

    Call it with q0 (*leading, nq), qd0 (*leading, nv) and tau (*leading, steps, nv), all in its dtype and on the CPU or
    one NVIDIA GPU; quaternions are brought to length 1 first. A constrained rollout also takes active (*leading, steps,
    constraints), 0 or 1, which has no gradient. The inputs of feedback= (*leading, steps, *shape) follow, then dt
    (*leading,) in s if the rollout has dt=None. The robot's variable parameters (*leading, *shape) come last. Returns q
    (*leading, steps // every + 1, nq), qd (*leading, steps // every + 1, nv), the first ones q0 and qd0, what outputs=
    names, and with linearize=True the matrices a and b of every step, as `dynagate.Rollout` has them.
    It is differentiated in reverse mode, once. A gradient of a cost that depends on a or b is NaN.

    What is not finite stays in its trajectory, and raises no error.

    Raises TypeError and ValueError as a `Function` does, and ValueError where an input is not finite and the backend is
    "numpy", "fixed" or "sim".
    """

    def __init__(self, operator: RolloutOperator) -> None:
        self.operator = operator
        name = f"{operator.robot.name}_rollout".replace("-", "_").lower()
        derivative = self._differentiate, self._save
        varied, solved = len(operator.parameters), len(operator.solved)
        stepped = len(operator.stepped)
        held = len(operator.held) + stepped + varied
        self._forward = registered(name, 3 + held, len(operator.shapes), self._compute, self._shapes, derivative)
        self._backward = registered(
            f"{name}_vjp", 5 + held + 2 * solved, 3 + stepped + varied, self._compute_back, self._shapes_back
        )
        to_velocities, to_entries = operator.to_velocities, operator.to_entries
        self._to_velocities = None if to_velocities is None else TorchOperator(to_velocities)
        self._to_entries = None if to_entries is None else TorchOperator(to_entries)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        arguments = self.operator.arguments
        inputs = prepared(arguments, by_name(arguments, positional, named))
        first = inputs[0]
        self.operator.check_dtype(str(first.dtype).removeprefix("torch."))
        if first.device.type not in (self.operator.platforms or (CPU, CUDA)):
            raise ArgumentError(
                f"inputs of {arguments.name} are on {first.device}; expected them on the CPU, or with "
                f"backend='compiled' on an NVIDIA GPU",
                code="DG-TORCH-007",
            )
        if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
            self.operator.check_differentiable()
        return self.operator.named(self._forward(*inputs), torch)

    def _compute(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        if inputs[0].device.type == CUDA and self.operator.platforms:
            return forward(self.operator, inputs, self._on_card(inputs[0]))
        return self._on_host(self.operator.forward, inputs)

    def _on_host(self, compute: Callable[..., list[Any]], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        results = compute(*(x.detach().cpu().numpy() for x in inputs))
        return [torch.from_numpy(np.ascontiguousarray(x)).to(inputs[0].device) for x in results]

    def _on_card(self, like: torch.Tensor) -> Framework:
        """Return PyTorch's functions on the device of a tensor and PyTorch's current stream."""
        card = like.device

        def run(loop: Loop, iterations: int | None, arrays: list[Any]) -> list[torch.Tensor]:
            kernel = self.operator.gpu_loop(loop, iterations, card.index or 0)
            shapes = [(len(arrays[0]), *port.shape) for port in kernel.text.outputs]
            outputs = [torch.empty(shape, dtype=like.dtype, device=card) for shape in shapes]
            launch(kernel, arrays, outputs, len(arrays[0]))
            return outputs

        full = partial(torch.full, dtype=like.dtype, device=card)
        return Framework(full, partial(torch.cat, dim=1), torch.where, run)

    def _shapes(self, *inputs: torch.Tensor) -> list[tuple[int, ...]]:
        return [(*inputs[0].shape[:-1], *shape) for shape in self.operator.shapes.values()]

    def _compute_back(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        if inputs[0].device.type == CUDA and self.operator.platforms:
            return backward(self.operator, inputs, self._on_card(inputs[0]))
        return self._on_host(self.operator.backward, inputs)

    def _shapes_back(self, *inputs: torch.Tensor) -> list[tuple[int, ...]]:
        """Return the shapes of the gradients, from the inputs of the reverse sweep."""
        _, qd, tau, *held = inputs
        state, switches = (*qd.shape[:-2], qd.shape[-1]), len(self.operator.held)
        names = (*self.operator.stepped, *self.operator.parameters)
        others = dict(zip(names, held[switches:], strict=False))
        shapes = [(*x.shape[:-1], qd.shape[-1]) if name == "q_ref" else tuple(x.shape) for name, x in others.items()]
        return [state, state, tuple(tau.shape), *shapes]

    def _save(self, ctx: Any, inputs: tuple[torch.Tensor, ...], output: tuple[torch.Tensor, ...]) -> None:
        q, qd, *others = output
        ctx.save_for_backward(q, qd, *inputs[2:], *others[: len(self.operator.solved)])

    def _differentiate(
        self, ctx: Any, cost_q: torch.Tensor, cost_qd: torch.Tensor, *others: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of the inputs, from weights of the results."""
        q, qd, tau, *held = ctx.saved_tensors
        check_no_tangents({"weights of q": cost_q, "weights of qd": cost_qd})
        costs = others[: len(self.operator.solved)]
        if self._to_velocities is not None:
            (cost_q,) = self._to_velocities(q, cost_q)
        back = self._backward(q, qd, tau, *held, cost_q, cost_qd, *costs)
        by_q, by_qd, by_tau, *by_others = self.operator.spoiled(back, [cost_q, cost_qd, *others], torch)
        if self._to_entries is not None:
            (by_q,) = self._to_entries(q[..., 0, :].contiguous(), by_q)
            if "q_ref" in self.operator.stepped:
                place = list(self.operator.stepped).index("q_ref")
                reference = held[len(self.operator.held) + place]
                (by_others[place],) = self._to_entries(reference, by_others[place])
        return by_q, by_qd, by_tau, *(None for _ in self.operator.held), *by_others

    def __repr__(self) -> str:
        return f"<dynagate.torch.TorchRollout {self.operator.robot.name}, {self.operator.steps} steps>"


@explained
def rollout(
    robot: Robot | str | PathLike[str],
    steps: int,
    dt: float | None,
    *,
    backend: str = "compiled",
    dtype: npt.DTypeLike | torch.dtype | None = None,
    outputs: str | Sequence[str] = (),
    **options: Any,
) -> TorchRollout:
    """Create a rollout for PyTorch: a function from torques to states.

    It takes q0 (*leading, nq), qd0 (*leading, nv) and tau (*leading, steps, nv), in rad, m, rad/s, m/s, N m and N.

    Args:
        robot: The robot, the name of one in the package, or the path of its URDF file.
        steps: Number of steps.
        dt: Time step in s, or None if each call passes it.
        backend: "compiled": C, or CUDA for tensors on an NVIDIA GPU. "cpu": C. "numpy": float64. "fixed": the
            integers of a chip that keeps the states. "sim": the simulation of this chip. The gradient of the last two
            is the floating-point reverse sweep through the states that they computed.
        dtype: Number type of all tensors; None for PyTorch's default.
        outputs: Names of additional results. "diverged" (*leading,) is the index of the first state that is not
            finite, -1 if all are. Rollouts that solve equations have "converged" (*leading, steps). Rollouts with rigid
            contact have "impulse" (*leading, steps, pairs, 3) and "lift" (*leading, steps, pairs), in N s, as
            `dynagate.Rollout` has them; gradients pass through both.
        options: integrator, form, forces, constrained, contacts, feedback, linearize and others of `dynagate.Rollout`.

    Returns:
        The rollout.

    Raises:
        ArgumentError: An option is not accepted.
        RobotError: The robot does not exist or does not support an option.
        CompileError: The source cannot be compiled.
    """
    name = str(dtype or torch.get_default_dtype()).removeprefix("torch.")
    own: dict[str, Any] = {"backend": backend, "dtype": np.dtype(name), "float64": FLOAT64, "outputs": outputs}
    return TorchRollout(RolloutOperator(robot, steps=steps, dt=dt, **own, **options))
