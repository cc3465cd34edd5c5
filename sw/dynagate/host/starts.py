"""Trajectories that begin where something is not finite: lost ones of a batch, which a search goes on without.

A line search passes the states that its candidates have reached to the next step. One that has diverged is flagged
there, and harms no other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.arguments import common_axes, real
from dynagate.base.arrays import Array
from dynagate.base.errors import EntryError
from dynagate.host.inputs import origin
from dynagate.host.trajectories import Trajectories

STATE = ("q", "qd")


class _Start(NamedTuple):
    """An input of a motion."""

    name: str
    """Name of the input."""
    shape: tuple[int, ...]
    """Shape for one trajectory."""


def broadcast_starts(shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, Any]) -> list[Any]:
    """Return the inputs of motions with the same leading axes, as numpy broadcasts them.

    Inputs of other shapes are returned unchanged, for the checks that follow.

    Args:
        shapes: Shape of each input for one trajectory, in order.
        arrays: The inputs, (*leading, *shape).

    Returns:
        The inputs in order.

    Raises:
        ArgumentError: The leading axes do not broadcast, or do so in two ways.
        ArgumentTypeError: An input does not hold real numbers.
    """
    own = {name: real(name, array) for name, array in arrays.items()}
    axes = {own[name].shape[: max(own[name].ndim - len(shape), 0)] for name, shape in shapes.items()}
    fits = all(own[name].shape[max(own[name].ndim - len(shape), 0) :] == shape for name, shape in shapes.items())
    if len(axes) == 1 or not fits:
        return list(own.values())
    starts = [_Start(name, shape) for name, shape in shapes.items()]
    broadcast, _ = common_axes(starts, own, np.broadcast_to)
    return [broadcast[name] for name in own]


def without_lost(
    arrays: dict[str, Array], leading: tuple[int, ...], units: Sequence[tuple[int, int]]
) -> tuple[dict[str, Array], Array | None]:
    """Replace trajectories of a batch whose inputs are not finite, so that the others can be computed.

    Args:
        arrays: q, qd and tau (batch, ...) by name.
        leading: Leading axes of the batch; () for a single trajectory.
        units: First and last index plus one of each quaternion in q.

    Returns:
        The arrays with inputs of a finite trajectory, or zeros, in place of the replaced ones; and which were replaced,
        (batch,), or None if none were.

    Raises:
        EntryError: The inputs of a single trajectory are not finite, or only torques of one are not.
    """
    if all(math.isfinite(np.vdot(array, array)) or np.isfinite(array).all() for array in arrays.values()):
        return arrays, None
    finite = {name: np.isfinite(array.reshape(len(array), -1)).all(axis=1) for name, array in arrays.items()}
    lost = ~np.logical_and.reduce([finite[name] for name in STATE])
    if not leading:
        lost[:] = False
    for name, array in arrays.items():
        bad = ~np.isfinite(array) & ~lost.reshape(-1, *[1] * (array.ndim - 1))
        if bad.any():
            at = tuple(int(k) for k in np.argwhere(bad)[0])
            label = name if name == "tau" else f"{name}0"
            template = f"input '{label}' is {array[at]} at {{at}}; expected finite numbers{origin(array[at])}"
            raise EntryError(template, at, code="DG-ROLLOUT-037").within(leading)
    result = {name: array.copy() for name, array in arrays.items()}
    for name, array in result.items():
        array[lost] = 0.0 if lost.all() else array[np.argmin(lost)]
        if name == "q" and lost.all():
            array[:, [stop - 1 for _, stop in units]] = 1.0
    return result, lost


def flag_lost(trajectories: Trajectories, lost: Array) -> None:
    """Set the numbers of trajectories that were replaced to NaN, and their `diverged` to 0.

    Args:
        trajectories: The trajectories, which are changed in place.
        lost: Which of them were replaced, (...).
    """
    for array in (trajectories.q, trajectories.qd, trajectories.a, trajectories.b):
        if array is not None:
            array[lost] = np.nan
    trajectories.diverged[lost] = 0
