"""Trajectories that begin where something is not finite: lost ones of a batch, which a search goes on without.

A line search passes the states that its candidates have reached to the next step. One that has diverged is flagged
there, and harms no other.
"""

from __future__ import annotations

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
    """An input of a motion. shape: of one trajectory."""

    name: str
    shape: tuple[int, ...]


def broadcast_starts(shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, Any]) -> list[Any]:
    """Return the inputs of motions with the same leading axes, as numpy broadcasts them.

    Args:
        shapes: Shape of each input for one trajectory, in order.
        arrays: The inputs, (*leading, *shape).

    Raises:
        ArgumentError: The leading axes do not broadcast, or do so in two ways. Inputs of other shapes are returned as
            they are, for the checks that follow.
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
    """The inputs q, qd and tau of a batch (batch, ...) of trajectories, those of a sound one in place of lost ones, or
    zeros where there is none, and which are lost (batch,); None where none is. leading: the batch's axes, () of a
    single trajectory. units: begin and end of the quaternions in q.

    Raises ValueError naming an entry that is not finite, where a single trajectory is lost, or one has only torques
    that are not finite."""
    if all(np.isfinite(array).all() for array in arrays.values()):
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
            raise EntryError(template, at).within(leading)
    result = {name: array.copy() for name, array in arrays.items()}
    for name, array in result.items():
        array[lost] = 0.0 if lost.all() else array[np.argmin(lost)]
        if name == "q" and lost.all():
            array[:, [stop - 1 for _, stop in units]] = 1.0
    return result, lost


def flag_lost(trajectories: Trajectories, lost: Array) -> None:
    """Numbers of lost trajectories (...) become NaN, and their `diverged` 0."""
    for array in (trajectories.q, trajectories.qd, trajectories.a, trajectories.b):
        if array is not None:
            array[lost] = np.nan
    trajectories.diverged[lost] = 0
