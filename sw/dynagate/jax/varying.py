"""Find the mesh axes of `jax.shard_map` over which an array differs between devices.

Inside `shard_map` the type of an array lists these axes (varying manual axes). JAX uses them to check `out_specs` and
to place the sums over devices in a gradient. It maintains them only for its own primitives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax

from dynagate.base.errors import ArgumentError

Axes = frozenset[Any]


def axes_of(arrays: Iterable[Any]) -> Axes:
    """Return the mesh axes that the result of a function of these arrays varies over.

    Raises:
        ArgumentError: An array holds partial sums over a mesh axis. Only a linear function of those has a meaning.
    """
    axes: Axes = frozenset()
    for array in arrays:
        aval = jax.typeof(array)
        manual = getattr(aval, "manual_axis_type", None)
        if manual is None:  # JAX before 0.10
            axes |= aval.vma
            continue
        if manual.unreduced:
            raise ArgumentError(
                f"an input holds partial sums over the mesh axes {', '.join(map(str, manual.unreduced))}; expected "
                "their sum, by jax.lax.psum",
                code="DG-JAX-009",
            )
        axes |= manual.varying | manual.reduced
    return axes


def varying(arrays: Sequence[Any], axes: Axes) -> list[Any]:
    """Return the arrays with types that vary over these axes too."""
    return [_varying(array, axes) for array in arrays]


def _varying(array: Any, axes: Axes) -> Any:
    """Return an array whose type varies over these axes too."""
    aval = jax.typeof(array)
    manual = getattr(aval, "manual_axis_type", None)
    present = aval.vma if manual is None else manual.varying
    for axis in sorted(axes - present, key=str):  # one by one: an axis may be replicated, and another one reduced
        array = jax.lax.pcast(array, axis, to="varying") if hasattr(jax.lax, "pcast") else jax.lax.pvary(array, axis)
    return array


def result_type(aval: Any, shape: Sequence[int]) -> Any:
    """Return the type of a result of this shape, with the dtype and the varying axes of an input's type."""
    sharding = aval.sharding.update(spec=(None,) * len(shape))
    return aval.update(shape=tuple(shape), weak_type=False, sharding=sharding)
