"""A listed function of a robot as a function of tensors."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any

import torch

from dynagate.base.arguments import leading_axes
from dynagate.base.errors import ArgumentTypeError
from dynagate.fixedpoint.assign import Policy
from dynagate.graph.region import Region
from dynagate.operators.choose import FLOAT, Backend, Gradient
from dynagate.operators.face import FunctionFace, with_unit_quaternions
from dynagate.operators.inputs import Named, check_dtypes
from dynagate.robot import Robot
from dynagate.torch.library import TorchOperator, check_devices


class Function(FunctionFace):
    """A function of tensors (*leading, *shape), float32 or float64; call it with the inputs by name or in order.

    The leading axes are the same for all inputs, and so those of the results: none for a single state. Results are a
    named tuple of the function's outputs, in the dtype and on the device of the inputs. Quaternions in q are brought to
    length 1 first, so that derivatives by all entries of q are those of q / |q|. Where results are not finite they are
    NaN or infinite, and no error is raised.

    inputs, outputs: names. operator: what computes it.
    Raises TypeError: an input is missing, unknown, no tensor, neither float32 nor float64, or of another dtype than
    those before it; ValueError: an input has another shape, other leading axes, or is on another device.
    """

    def __init__(self, robot: Robot | str | PathLike[str], name: str, **choices: Any) -> None:
        super().__init__(robot, name, **choices)
        self._custom = TorchOperator(self.operator)

    def _prepared(self, inputs: dict[str, Any]) -> list[torch.Tensor]:
        return prepared(self.operator.graph, inputs)

    def _computed(self, *inputs: Any) -> Any:
        return self._custom(*inputs)


def function(
    robot: Robot | str | PathLike[str],
    name: str = "forward_dynamics",
    *,
    backend: Backend = "compiled",
    gradient: Gradient = FLOAT,
    policy: Policy | None = None,
    region: Region | None = None,
    **options: Any,
) -> Function:
    """A function of a robot for PyTorch: autograd in reverse mode, again and again, `torch.func.vmap` and
    `torch.compile(fullgraph=True)`. Forward-mode AD is not registered; functions such as `forward_dynamics_jvp` are the
    products that it would compute.

    robot: also the path of a URDF file, or the name of one that ships. name: of the function, one of
    `dynagate.FUNCTIONS`. options: of the algorithm, see `dynagate.AlgorithmOptions`; parameters of links that are
    `variable` are inputs, and differentiated by as any other.

    backend: what computes the values.

    - "compiled": C for tensors on the CPU, CUDA for those on an NVIDIA GPU, where they are and on PyTorch's current
      stream; "cpu" and "cuda" for these alone.
    - "numpy": float64, the reference. "fixed": the integers of the hardware, bit for bit. An opened accelerator
      (`dynagate.open`): a simulation or a board. Values of samples that overflow are NaN.
    gradient: what computes the first derivative, where the backend is "fixed" or an accelerator. "float": compiled
    code, the derivative of the exact function at the same inputs (straight through the rounding). "bits": the integers
    of the function's `_vjp`, whose formats take weights of the region that they were chosen for. Or an accelerator of
    this function. Second derivatives are always compiled code.
    policy, region: formats of the integers, and the states that they are for, where "fixed" or "bits" asks for them.

    Raises ValueError or TypeError: an option is none of these; RobotError; CompileError.
    """
    return Function(robot, name, backend=backend, gradient=gradient, policy=policy, region=region, **options)


def prepared(named: Named, inputs: dict[str, Any]) -> list[torch.Tensor]:
    """The inputs in order, their quaternions of length 1. Raises as `Function` says."""
    for name, x in inputs.items():
        if not isinstance(x, torch.Tensor):
            raise ArgumentTypeError(f"input '{name}' is a {type(x).__name__}; expected a tensor")
    check_dtypes(inputs)
    check_devices(inputs)
    leading_axes(named.inputs, inputs)
    return with_unit_quaternions(named, inputs, _length, partial(torch.cat, dim=-1))


_length = partial(torch.linalg.vector_norm, dim=-1, keepdim=True)
