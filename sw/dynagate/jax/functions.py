"""A listed function of a robot as a function of JAX arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dynagate.base.arguments import leading_axes, shown
from dynagate.base.errors import ArgumentTypeError
from dynagate.base.explained import explained
from dynagate.fixedpoint.assign import Policy
from dynagate.graph.region import Region
from dynagate.jax.primitive import bind
from dynagate.operators.choose import FLOAT, Backend, Gradient
from dynagate.operators.face import FunctionFace, with_unit_quaternions
from dynagate.operators.inputs import Named, check_dtypes
from dynagate.robot import Robot


class Function(FunctionFace):
    """A function of arrays (*leading, *shape), float32 or float64; call it with the inputs by name or in order.

    The leading axes are the same for all inputs, and so those of the results: none for a single state. Results are a
    named tuple of the function's outputs, in the dtype of the inputs. Quaternions in q are brought to length 1 first,
    so that derivatives by all entries of q are those of q / |q|. Where results are not finite they are NaN or infinite,
    and no error is raised. In JAX's 32-bit mode, its default, numpy's float64 arrays become float32, as everywhere.

    inputs, outputs: names. operator: what computes it.
    Raises TypeError: an input is missing, unknown, neither float32 nor float64, or of another dtype than those before
    it; ValueError: an input has another shape, or other leading axes.
    """

    def _prepared(self, inputs: dict[str, Any]) -> list[jax.Array]:
        return prepared(self.operator.graph, inputs)

    def _computed(self, *inputs: Any) -> Any:
        return bind(self.operator, *inputs)


@explained
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
    """A function of a robot for JAX: `jit`, `vmap`, `grad`, `jvp`, `hessian` and what else is made of them.

    robot: also the path of a URDF file, or the name of one that ships. name: of the function, one of
    `dynagate.FUNCTIONS`. options: of the algorithm, see `dynagate.AlgorithmOptions`; parameters of links that are
    `variable` are inputs, and differentiated by as any other.

    backend: what computes the values.

    - "compiled": C on the CPU, CUDA on an NVIDIA GPU, on JAX's own buffers; "cpu" and "cuda" on these alone.
    - "numpy": float64, the reference. "fixed": the integers of the hardware, bit for bit. An opened accelerator
      (`dynagate.open`): a simulation or a board. These three are called back on the host; values of samples that
      overflow are NaN.
    gradient: what computes the products of reverse mode, where the backend is "fixed" or an accelerator. "float":
    compiled code, the derivative of the exact function at the same inputs (straight through the rounding). "bits": the
    integers of the function's `_vjp`, whose formats take weights of the region that they were chosen for. Or an
    accelerator of this function. Forward mode and second derivatives are always compiled code.
    policy, region: formats of the integers, and the states that they are for, where "fixed" or "bits" asks for them.

    Raises ValueError or TypeError: an option is none of these; RobotError; CompileError.
    """
    return Function(robot, name, backend=backend, gradient=gradient, policy=policy, region=region, **options)


def as_array(name: str, value: Any) -> jax.Array:
    """An input as JAX takes it. Raises TypeError: it is no array of numbers."""
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"input '{name}' is a {type(value).__name__}; expected an array of numbers") from None


def prepared(named: Named, values: Mapping[str, Any]) -> list[jax.Array]:
    """The inputs in order, their quaternions of length 1. Raises as `Function` says."""
    inputs = {name: as_array(name, x) for name, x in values.items()}
    check_dtypes(inputs)
    leading_axes(named.inputs, inputs)
    return with_unit_quaternions(named, inputs, _length, partial(jnp.concatenate, axis=-1))


_length = partial(jnp.linalg.norm, axis=-1, keepdims=True)


def precision(dtype: Any) -> np.dtype[Any]:
    """float32 or float64. Raises TypeError: another, or float64 where JAX has it switched off."""
    try:
        chosen = np.dtype(dtype)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"dtype {shown(dtype)}; expected float32 or float64") from None
    if chosen not in (np.float32, np.float64):
        raise ArgumentTypeError(f"dtype {chosen}; expected float32 or float64")
    if chosen == np.float64 and not jax.config.jax_enable_x64:
        raise ArgumentTypeError(
            "dtype float64 in JAX's 32-bit mode; expected jax.config.update('jax_enable_x64', True)"
        )
    return chosen
