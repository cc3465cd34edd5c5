"""The root of a step's forces as a loop of graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynagate.dynamics.factor import Dense, factorize, solve
from dynagate.dynamics.spatial import Array, array, chosen, select
from dynagate.graph import Graph
from dynagate.graph.derivatives import jacobian
from dynagate.graph.loop import Loop, Until
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.integrators.implicit.position_based import (
    Model,
    damp,
    evaluation,
    largest,
    largest_over,
    next_damping,
    scalar,
)
from dynagate.integrators.implicit.position_based_search import FORCES, MEMORY

CARRY = {
    "next": "trial",
    "now": "held",
    "slope": "gradient",
    "squares": "recent",
    "turned": "slot",
    "relaxed": "damping",
    "counted": "count",
    "finest": "least_away",
    "least": "lowest",
    "least_left": "lowest_left",
}


def root_search(model: Model, scale: Sequence[float], iterations: int) -> Loop:
    """A loop of iterations from the values of `position_based_graphs.begin` to best
    ((K - 1) nv,), counted () and rest ()."""
    scale = [*scale] * model.unknown
    return Loop(
        "search",
        model.robot.name,
        (
            evaluation(model, "trial", "trial_slope"),
            _decision(model, scale),
            jacobian(evaluation(model, "now", "forces"), inputs=["now"], robot=model.robot),
            _step(model),
        ),
        CARRY,
        Until("left", 1.0, iterations + 1),
        last=("best", "counted", "rest"),
    )


def _decision(model: Model, scale: Sequence[float]) -> Graph:
    """Record the decision of an iteration: the next point, the point with the smallest forces, the bound on their
    squares, and the damping.

    recent: squares of the forces in the last accepted iterations; slot: 1 at the next entry to overwrite. The search
    returns best: the point itself if it has converged, else the point with the smallest squares.
    """
    recording, torques = Recording("decision", model.robot.name), _torques(model)
    trial, held, least_away = (model.away(recording, name) for name in ("trial", "held", "least_away"))
    trial_slope, gradient = (recording.input(name, torques.shape, torques) for name in ("trial_slope", "gradient"))
    square = torques @ torques
    recent = recording.input("recent", (MEMORY,), square)
    slot = recording.input("slot", (MEMORY,))
    lowest = recording.input("lowest", (), square)[()]
    damping, count, lowest_left = (recording.input(name, ())[()] for name in ("damping", "count", "lowest_left"))
    value = trial_slope @ trial_slope
    rest = largest_over(trial_slope, scale)
    first = select(count + 0.5, 0.0, 1.0)  # the guess
    farthest = [max(scale) / s for s in scale]  # 1 rad, or the robot's reach
    near = select(largest_over(trial - held, farthest) - 1.0, 0.0, 1.0)
    within = select(rest - 1.0, 0.0, 1.0)
    better = first + near * (select(largest(list(recent)) - value, 1.0, 0.0) + within)
    left = select(better, rest, largest_over(gradient, scale))
    lower = better * select(lowest - value, 1.0, 0.0)
    now, finest = chosen(better, trial, held), chosen(lower, trial, least_away)
    least_left = select(lower, rest, lowest_left)
    noted = [select(first + better * s, value, r) for s, r in zip(slot, recent, strict=True)]
    return recording.graph(
        {
            "now": now,
            "slope": chosen(better, trial_slope, gradient),
            "squares": array(noted),
            "turned": array([slot[-1], *slot[:-1]]),
            "finest": finest,
            "least": scalar(select(lower, value, lowest)),
            "least_left": scalar(least_left),
            "best": chosen(left - 1.0, finest, now),
            "rest": scalar(select(left - 1.0, least_left, left)),
            "relaxed": scalar(next_damping(FORCES, damping, better)),
            "left": scalar(left),
            "counted": scalar(count + 1.0),
        }
    )


def _torques(model: Model) -> Array:
    """Typical sizes ((K - 1) nv,) of forces."""
    return np.tile(typical_sizes(model.tree)["tau"], model.unknown)


def _step(model: Model) -> Graph:
    """now, slope, relaxed and the Jacobian J of the forces to next: now - (JᵀJ + λ)⁻¹ Jᵀ slope, λ relative to the mean
    of the diagonal."""
    recording, torques = Recording("step", model.robot.name), _torques(model)
    n = len(torques)
    now, slope = model.away(recording, "now"), recording.input("slope", (n,), torques)
    relaxed = recording.input("relaxed", ())[()]
    angles = np.tile(typical_sizes(model.tree)["delta_q"], model.unknown)
    j = recording.input("dforces_dnow", (n, n), np.outer(torques, 1.0 / angles))
    square = j.T @ j
    damp(square, relaxed)
    dense = Dense(n)
    return recording.graph({"next": now - array(solve(dense, factorize(dense, square), list(j.T @ slope)))})
