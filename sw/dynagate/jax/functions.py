"""Functions of a robot on JAX arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from dynagate.base.arguments import common_axes, shown
from dynagate.base.errors import ArgumentTypeError
from dynagate.base.explained import checking_first, explained
from dynagate.dynamics import check_named
from dynagate.dynamics.recursions.poses import FrameOption
from dynagate.fixedpoint.assign import Policy
from dynagate.forces import Force
from dynagate.graph.region import Region
from dynagate.jax.primitive import bind
from dynagate.operators.creation import FLOAT, Backend, Gradient, of_function
from dynagate.operators.framework_function import FunctionFace, with_unit_quaternions
from dynagate.operators.inputs import HasInputs, check_dtypes
from dynagate.robot.checked import RobotOrName


class JaxFunction(FunctionFace):
    """A function of a robot on arrays (*leading, *shape), float32 or float64. Call it with the inputs by name or in
    order.

    Leading axes broadcast as in numpy; a single state has none. The result is a named tuple of the function's outputs,
    in the dtype of the inputs. Quaternions in q are first scaled to length 1, so derivatives with respect to entries of
    q are those of q / |q|. Results that are not finite are NaN or infinite, and raise no error. In JAX's 32-bit mode,
    its default, numpy's float64 arrays become float32.

    Attributes:
        inputs: Names of the inputs.
        outputs: Names of the outputs.
        operator: The operator that computes it.

    Raises:
        ArgumentTypeError: An input is missing, unknown, neither float32 nor float64, or of another dtype than the
            inputs before it.
        ArgumentError: An input has another shape, or leading axes that do not broadcast.
    """

    def _prepared(self, inputs: dict[str, Any]) -> list[jax.Array]:
        return prepared(self.operator.graph, inputs)

    def _computed(self, *inputs: Any) -> Any:
        return bind(self.operator, *inputs)


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
) -> JaxFunction:
    """Return a function of a robot for JAX: under `jit`, `vmap`, `grad`, `jvp`, `hessian` and their combinations.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        function: Name of the function, or a list of names, as of `dynagate.compile`.
        backend: What computes the values: "compiled", C on the CPU and CUDA on an NVIDIA GPU, on JAX's own buffers, or
            "cpu" or "cuda" for one of them; "numpy", float64, the reference; "fixed", the integers of the hardware, bit
            for bit; or a `dynagate.Function`, such as a simulation or a board. The last three are called back on the
            host. Values of samples that overflow are NaN.
        gradient: What computes the first derivative in reverse mode, if the backend is "fixed" or a `Function`:
            "float", compiled code, the derivative of the exact function at the same inputs (straight through the
            rounding); "bits", the integers of the function's `_vjp`, whose formats take weights of the region that
            they were chosen for; or a `Function` that computes this product. Forward mode and second derivatives are
            always compiled code.
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
    return JaxFunction(**of_function(locals()))


def as_array(name: str, value: Any) -> jax.Array:
    """Return an input as a JAX array. Raise ArgumentTypeError if it is not an array of numbers."""
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError, OverflowError, SyntaxError):  # JAX reads a text as a dtype
        raise ArgumentTypeError(
            f"input '{name}' is a {type(value).__name__}; expected an array of numbers", code="DG-JAX-002"
        ) from None


def prepared(named: HasInputs, values: Mapping[str, Any]) -> list[jax.Array]:
    """Return the inputs in order, checked, with quaternions of length 1."""
    inputs = {name: as_array(name, x) for name, x in values.items()}
    check_dtypes(inputs)
    own, _ = common_axes(named.inputs, inputs, jnp.broadcast_to)
    return with_unit_quaternions(named, own, _length, partial(jnp.concatenate, axis=-1))


_length = partial(jnp.linalg.norm, axis=-1, keepdims=True)


def precision(dtype: Any) -> np.dtype[Any]:
    """Return a dtype that is float32 or float64.

    Raises:
        ArgumentTypeError: It is another dtype, or float64 in JAX's 32-bit mode.
    """
    try:
        chosen = np.dtype(dtype)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"dtype {shown(dtype)}; expected float32 or float64", code="DG-JAX-003") from None
    if chosen not in (np.float32, np.float64):
        raise ArgumentTypeError(f"dtype {chosen}; expected float32 or float64", code="DG-JAX-004")
    if chosen == np.float64 and not jax.config.jax_enable_x64:
        raise ArgumentTypeError(
            "dtype float64 in JAX's 32-bit mode; expected jax.config.update('jax_enable_x64', True)", code="DG-JAX-005"
        )
    return chosen
