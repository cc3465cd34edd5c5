"""Functions of a robot on PyTorch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import torch

from dynagate.base.arguments import common_axes
from dynagate.base.explained import checking_first, explained
from dynagate.dynamics import check_named
from dynagate.dynamics.recursions.poses import FrameOption
from dynagate.fixedpoint.assign import Policy
from dynagate.forces import Force
from dynagate.graph.region import Region
from dynagate.operators.creation import FLOAT, Backend, Gradient, of_function
from dynagate.operators.framework_function import FunctionFace, with_unit_quaternions
from dynagate.operators.inputs import HasInputs, check_dtypes
from dynagate.robot.checked import RobotOrName
from dynagate.torch.library import TorchOperator, check_tensors


class TorchFunction(FunctionFace):
    """A function of a robot on tensors (*leading, *shape), float32 or float64. Call it with the inputs by name or in
    order.

    Leading axes broadcast as in numpy; a single state has none. The result is a named tuple of the function's outputs,
    in the dtype and on the device of the inputs. Quaternions in q are first scaled to length 1, so derivatives with
    respect to entries of q are those of q / |q|. Results that are not finite are NaN or infinite, and raise no error.

    Attributes:
        inputs: Names of the inputs.
        outputs: Names of the outputs.
        operator: The operator that computes it.

    Raises:
        ArgumentTypeError: An input is missing, unknown, not a tensor, neither float32 nor float64, or of another
            dtype than the inputs before it.
        ArgumentError: An input has another shape, leading axes that do not broadcast, or is on another device.
    """

    def __init__(self, robot: RobotOrName, function: str | Sequence[str], **choices: Any) -> None:
        super().__init__(robot, function, **choices)
        self._custom = TorchOperator(self.operator)

    def _prepared(self, inputs: dict[str, Any]) -> list[torch.Tensor]:
        return prepared(self.operator.graph, inputs)

    def _computed(self, *inputs: Any) -> Any:
        return self._custom(*inputs)


@explained
@checking_first(check_named)
def function(
    robot: RobotOrName,
    function: str | Sequence[str],
    *,
    backend: Backend = "compiled",
    gradient: Gradient = FLOAT,
    policy: Policy | None = None,
    region: Region | None = None,
    form: str | None = None,
    frame: FrameOption | None = None,
    mass: Literal["body", "shared"] | None = None,
    prefix: bool = False,
    external_forces: bool = False,
    outputs: Sequence[str] | None = None,
    forces: str | Force | Sequence[Force | str] = (),
    dt: float | None = None,
    integrator: str | None = None,
    implicit_damping: bool = False,
) -> TorchFunction:
    """Return a function of a robot for PyTorch: autograd in reverse mode, `torch.func.vmap` and `torch.compile`.

    Forward-mode AD is not registered. Functions such as "forward_dynamics_jvp" are the products that it would compute.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        function: Name of the function, or a list of names, as of `dynagate.compile`.
        backend: What computes the values: "compiled", C for tensors on the CPU and CUDA for those on an NVIDIA GPU, on
            PyTorch's current stream, or "cpu" or "cuda" for one of them; "numpy", float64, the reference; "fixed", the
            integers of the hardware, bit for bit; or a `dynagate.Function`, such as a simulation or a board. Values of
            samples that overflow are NaN.
        gradient: What computes the first derivative, if the backend is "fixed" or a `Function`: "float", compiled code,
            the derivative of the exact function at the same inputs (straight through the rounding); "bits", the
            integers of the function's `_vjp`, whose formats take weights of the region that they were chosen for; or a
            `Function` that computes this product. Second derivatives are always compiled code.
        policy: Formats of the integers, for "fixed" or "bits".
        region: States that the formats are for, for "fixed" or "bits".
        form, frame, mass, prefix, external_forces, outputs, forces, dt, integrator, implicit_damping: Options of the
            algorithm, as of `dynagate.compile`. Variable parameters of the robot are inputs too.

    Returns:
        The function, whose results are a named tuple.

    Raises:
        ArgumentError: There is no such function or backend, or an option does not fit.
        ArgumentTypeError: An option has another name or type.
        RobotError: There is no such robot, or the algorithm does not know its joints.
        CompileError: There is no compiler, or it fails.
    """
    return TorchFunction(**of_function(locals()))


def prepared(named: HasInputs, inputs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the inputs in order, checked, with quaternions of length 1."""
    check_tensors(inputs)
    check_dtypes(inputs)
    own, _ = common_axes(named.inputs, inputs, torch.broadcast_to)
    return with_unit_quaternions(named, own, _length, partial(torch.cat, dim=-1))


_length = partial(torch.linalg.vector_norm, dim=-1, keepdim=True)
