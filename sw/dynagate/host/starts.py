"""Trajectories that begin where something is not finite: lost ones of a batch, which a search goes on without.

A line search passes the states that its candidates have reached to the next step. One that has diverged is flagged
there, and harms no other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import EntryError

Array = npt.NDArray[Any]
STATE = ("q", "qd")


def without_lost(arrays: dict[str, Array], leading: tuple[int, ...]) -> tuple[dict[str, Array], Array | None]:
    """The inputs q, qd and tau of a batch (batch, ...) of trajectories, those of a sound one in place of lost ones, and
    which are lost (batch,); None where none is. leading: the batch's axes, for the text.

    Raises ValueError naming an entry that is not finite, where a trajectory has finite states and torques that are not,
    or where all are lost, as a single one is."""
    if all(np.isfinite(array).all() for array in arrays.values()):
        return arrays, None
    finite = {name: np.isfinite(array.reshape(len(array), -1)).all(axis=1) for name, array in arrays.items()}
    lost = ~np.logical_and.reduce([finite[name] for name in STATE])
    if lost.all():
        lost[:] = False  # a mistake in the inputs
    for name, array in arrays.items():
        bad = ~np.isfinite(array) & ~lost.reshape(-1, *[1] * (array.ndim - 1))
        if bad.any():
            at = tuple(int(k) for k in np.argwhere(bad)[0])
            label = name if name == "tau" else f"{name}0"
            template = f"input '{label}' is {array[at]} at {{at}}; expected finite numbers"
            raise EntryError(template, at).within(leading)
    instead = int(np.flatnonzero(~lost)[0])
    result = {}
    for name, array in arrays.items():
        result[name] = array.copy()
        result[name][lost] = array[instead]
    return result, lost
