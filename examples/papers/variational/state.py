"""What steps of the variational integrator begin with and what they leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy.typing as npt

Array = npt.NDArray[Any]

PAST = 4
"""Increments that are kept."""

CONVERGED, UNSOLVED, TURNED = 0, 1, 2
"""Status of a step: its residual is within the tolerance; it is not after all iterations; or a link turns too far for
the logarithm: by almost π, or more than the polynomials of the graphs hold for."""


@dataclass(frozen=True)
class State:
    """Where a batch of trajectories stands between two steps, to go on from.

    q (batch, nv); past (4, batch, nv): the increments of the last steps, the latest first; momentum (batch, links, 6):
    what each link brings into the next step, times dt; age: steps since the start.
    """

    q: Array
    past: Array
    momentum: Array
    age: int


class Steps(NamedTuple):
    """Steps of a batch. q (batch, steps + 1, nv), the first ones given; iterations and residuals, N m s, (batch,
    steps); state: to go on from; status (batch,): of the last step that was taken; done (batch,): steps that
    converged before the first that did not."""

    q: Array
    iterations: Array
    residuals: Array
    state: State
    status: Array
    done: Array
