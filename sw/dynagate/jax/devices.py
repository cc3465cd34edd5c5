"""Place arrays of a call on several devices alike: mesh axes of `jax.shard_map`, and shardings in types.

Inside `shard_map` the type of an array lists the mesh axes over which it differs between devices (varying manual axes).
JAX uses them to check `out_specs` and to place the sums over devices in a gradient. With explicit axes of a mesh, the
type of an array also has its sharding. JAX maintains both only for its own primitives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from dynagate.base.errors import ArgumentError

Axes = frozenset[Any]


def aligned(arrays: Sequence[Any], leading: int, like: Sequence[Any] | None = None) -> list[Any]:
    """Return the arrays with types that vary over the same mesh axes, and that split the leading axes alike.

    Args:
        arrays: Arrays (*leading, *row).
        leading: Number of leading axes.
        like: Arrays that decide the types; None for the arrays themselves.

    Raises:
        ArgumentError: An array holds partial sums, is split within a row, or two arrays are split differently.
    """
    models = arrays if like is None else like
    split = _split(models, leading)
    if split is not None:
        arrays = [_placed(array, split) for array in arrays]
    return varying(arrays, axes_of(models))


def _split(arrays: Iterable[Any], leading: int) -> NamedSharding | None:
    """Return the sharding that the types of arrays share, with a partition for each leading axis; None if no type
    is split.
    """
    partitions: list[Any] = [None] * leading
    mesh = None
    for array in arrays:
        sharding = jax.typeof(array).sharding
        spec = (*sharding.spec, *(None for _ in range(array.ndim - len(sharding.spec))))
        if all(partition is None for partition in spec):
            continue
        mesh = sharding.mesh
        pairs = list(zip(partitions, spec[:leading], strict=True))
        if any(x is not None for x in spec[leading:]) or any(a is not None and b not in (None, a) for a, b in pairs):
            raise ArgumentError(
                f"an input of {leading} leading axes is split by {sharding.spec}, and the inputs before it by "
                f"{PartitionSpec(*partitions)}; expected the same leading axes split alike, and whole rows: use "
                "jax.sharding.reshard",
                code="DG-JAX-010",
            )
        partitions = [b if a is None else a for a, b in pairs]
    return None if mesh is None else NamedSharding(mesh, PartitionSpec(*partitions))


def _placed(array: Any, split: NamedSharding) -> Any:
    """Return the array split like that. An array that is on no mesh stays: `jit` places it, and calls this again."""
    present = jax.typeof(array).sharding
    spec = PartitionSpec(*split.spec, *(None for _ in range(array.ndim - len(split.spec))))
    if present.mesh.empty or tuple(present.spec) == tuple(spec):
        return array
    return jax.sharding.reshard(array, NamedSharding(split.mesh, spec))


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


def result_type(aval: Any, leading: int, row: Sequence[int], dtype: Any = None) -> Any:
    """Return the type of a result (*leading, *row): mesh axes and leading axes are those of an input's type.

    Args:
        aval: The input's type.
        leading: Number of leading axes.
        row: Shape of the result without leading axes.
        dtype: Number type; None for that of the input.
    """
    spec = (*tuple(aval.sharding.spec)[:leading], *(None for _ in row))
    shape = (*aval.shape[:leading], *row)
    sharding = aval.sharding.update(spec=PartitionSpec(*spec))
    return aval.update(shape=shape, dtype=aval.dtype if dtype is None else dtype, weak_type=False, sharding=sharding)
