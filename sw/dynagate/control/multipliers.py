"""Update the multipliers of iLQR's augmented Lagrangian: graphs and loops over knots that end an iteration.

A multiplier divided by the weight is called a shift. Bounds and constraints have a shift for each row and knot, and
all rows share one weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.naming import scope
from dynagate.control.bounded_values import BoundedValues, MotionBounds
from dynagate.control.joint_bounds import ENOUGH, MORE, MOST_WEIGHT, SHIFT, WEIGHT, of_last
from dynagate.dynamics.spatial import chosen, select
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording

SHIFTED = {False: "shift_new", True: "shift_last_new"}
"""Results with the new shifts of knots, and of the last state."""
STATE = {"q": "qs_new", "qd": "qds_new", "tau": "us_new"}
LAST_STATE = {"q": "q_last_new", "qd": "qd_last_new"}
"""Names in an iteration for the state and torques of a knot, and for the last state."""

Record = Callable[[Recording, dict[str, Array]], Mapping[str, Any]]


def multipliers(kept: MotionBounds, knots: int, within: float, iterations: int) -> tuple[Graph | Loop, ...]:
    """Return the steps that measure violations and update shifts and the weight.

    Inputs of the steps: the accepted motion; `merit`, its cost with the penalty; `settled`, 1 if the motion has nearly
    converged; `flat`, 1 if it has converged. Results: `paid`, the user's cost; `cost_new`, the cost with the penalty of
    the new shifts and weight; `costs_new`, the costs of the last iterations; `converged`.

    Args:
        kept: Rows of bounds and constraints.
        knots: Number of knots.
        within: Largest violation of a solution.
        iterations: Largest number of iterations.
    """
    return _missed(kept, knots), _renewal(kept, within, iterations), _shifted(kept, knots)


def shifts_of(kept: MotionBounds) -> dict[str, str]:
    """Return the names of results with new shifts -> the inputs that receive them in the next iteration."""
    return {name: of_last(SHIFT, last) for last, name in SHIFTED.items() if kept.of(last).count}


def _graph(name: str, bounded: BoundedValues, shapes: Mapping[str, tuple[int, ...]], record: Record) -> Graph:
    """Return the graph that `record` makes from the inputs of bounded values and further inputs of these shapes."""
    recording = Recording(name, bounded.robot.name)
    own = {**bounded.reads, **bounded.shapes} if bounded.count else {WEIGHT: ()}
    every: dict[str, tuple[int, ...]] = {**own, **shapes}
    values = {each: recording.input(each, shape) for each, shape in every.items()}
    with scope("bounds"):
        outputs = record(recording, values)
    graph = recording.graph({each: np.asarray(value, dtype=object) for each, value in outputs.items()})
    names = LAST_STATE if bounded.last else STATE
    return graph.named({own: name for own, name in names.items() if own in every}, {})


def _each(kept: MotionBounds, graph: Graph) -> tuple[str, ...]:
    """Return the inputs of a graph that have values for each knot."""
    own = {*STATE.values(), *kept.of_each, *kept.each}
    return tuple(port.name for port in graph.inputs if port.name in own)


def _missed(kept: MotionBounds, knots: int) -> Graph | Loop:
    """Return the loop over the knots that sums the penalty and finds the largest change of a shift."""
    bounded = kept.knot

    def record(recording: Recording, x: dict[str, Array]) -> Mapping[str, Any]:
        outside = bounded.shifted(recording, x)
        return {
            "penalty_next": x["penalty"][()] + bounded.cost(outside, x[WEIGHT][()]),
            "miss_next": bounded.largest(outside - x[SHIFT], x["miss"][()]),
        }

    if not bounded.count:
        return _graph("missed", bounded, {}, lambda recording, x: {"penalty_next": 0.0, "miss_next": 0.0})
    graph = _graph("missed", bounded, {"penalty": (), "miss": ()}, record)
    carry = {"penalty_next": "penalty", "miss_next": "miss"}
    return Loop("missed", bounded.robot.name, (graph,), carry, Count(knots), _each(kept, graph), last=tuple(carry))


def _renewal(kept: MotionBounds, within: float, iterations: int) -> Graph:
    """Return the graph that decides whether shifts change, with the next weight and the last state's new shifts."""
    bounded, shift_name = kept.end, of_last(SHIFT, True)
    numbers = ("penalty_next", "miss_next", "missed", "merit", "flat", "settled", "fresh")

    def record(recording: Recording, x: dict[str, Array]) -> Mapping[str, Any]:
        penalty, miss, missed, merit, flat, settled, fresh = (x[name][()] for name in numbers)
        weight, paid = x[WEIGHT][()], merit - penalty
        if bounded.count:
            outside = bounded.shifted(recording, x)
            paid = paid - bounded.cost(outside, weight)
            miss = bounded.largest(outside - x[shift_name], miss)
        left = select(miss - within, 1.0, 0.0)
        renewed = select(settled, left, 0.0)
        more = select(paid * MOST_WEIGHT - weight, weight * MORE, weight)
        after = select(renewed, select(miss - missed * ENOUGH, more, weight), weight)
        first = select(paid, paid * kept.first_weight, 1.0)
        after = select(fresh, select(weight, weight, first), after)  # a warm start brings its weight
        scale = weight * (1.0 / after)
        own: dict[str, Any] = {"cost_last": paid}
        if bounded.count:
            anew = chosen(renewed, outside * scale, x[shift_name])
            again = bounded.shifted(recording, {**x, shift_name: anew})
            own = {SHIFTED[True]: anew, "cost_last": paid + bounded.cost(again, after)}
        return {
            **own,
            "paid": paid,
            "costs_new": np.append(x["costs"][1:], paid),
            "converged": select(flat, 1.0 - left, 0.0),
            "renewed": renewed,
            "scale": scale,
            "weight_new": after,
            "missed_new": select(renewed, miss, missed),
        }

    return _graph("renewal", bounded, {**dict.fromkeys(numbers, ()), "costs": (iterations + 1,)}, record)


def _shifted(kept: MotionBounds, knots: int) -> Graph | Loop:
    """Return the loop over the knots that computes new shifts, and the cost with them."""
    bounded = kept.knot

    def record(recording: Recording, x: dict[str, Array]) -> Mapping[str, Any]:
        outside = bounded.shifted(recording, x)
        anew = chosen(x["renewed"][()], outside * x["scale"][()], x[SHIFT])
        again = bounded.shifted(recording, {**x, SHIFT: anew})
        return {"shift_new": anew, "cost_new": x["cost_last"][()] + bounded.cost(again, x["weight_new"][()])}

    shapes = dict.fromkeys(("renewed", "scale", "weight_new", "cost_last"), ())
    if not bounded.count:
        return _graph("shifted", bounded, {"cost_last": ()}, lambda recording, x: {"cost_new": x["cost_last"]})
    graph = _graph("shifted", bounded, shapes, record)
    carry = {"cost_new": "cost_last"}
    each = _each(kept, graph)
    return Loop("shifted", bounded.robot.name, (graph,), carry, Count(knots), each, ("shift_new",), ("cost_new",))
