"""The step of iLQR that updates the shifts of `joint_bounds`: its graphs, and loops over the knots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.control.forward import recorded
from dynagate.control.joint_bounds import (
    EASE,
    ENOUGH,
    FIRST_WEIGHT,
    MORE,
    MOST_WEIGHT,
    SHIFT,
    WEIGHT,
    JointBounds,
    of_last,
)
from dynagate.dynamics.spatial import chosen, select
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop
from dynagate.robot import Robot

CARRY = {
    "shift_new": SHIFT,
    "shift_last_new": of_last(SHIFT, True),
    "weight_new": WEIGHT,
    "missed_new": "missed",
}
"""Values that the next iteration starts from, in addition to the solver's."""
STATE = ("qs_new", "qds_new")


def multipliers(
    robot: Robot, joints: JointBounds, knots: int, within: float, iterations: int
) -> tuple[Graph | Loop, ...]:
    """Return the steps that update shifts and weights.

    Their inputs are the accepted motion, its cost with that of the bounds, `merit`, and flags: nearly converged,
    `settled`, and converged, `flat`. Their outputs are `cost_new` with the new shifts and weights, the user's cost
    `paid`, `costs_new` of all iterations, and `converged`.

    Args:
        robot: The robot.
        joints: The bounds.
        knots: Number of knots.
        within: Accepted violation, as a fraction of a joint's range.
        iterations: Largest number of iterations.
    """
    return (_missed(robot, joints, knots), _renewal(robot, joints, within, iterations), _shifted(robot, joints, knots))


def _missed(robot: Robot, joints: JointBounds, knots: int) -> Loop:
    """Return the loop over knots that computes the cost of the bounds and the largest change of a shift."""
    shapes = {"qs_new": (robot.nq,), "qds_new": (robot.nv,), **joints.shapes(), "penalty": (), "miss": ()}

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        outside = joints.shifted(x, q="qs_new", qd="qds_new")
        return {
            "penalty_next": x["penalty"][()] + joints.cost(outside, x[WEIGHT][()]),
            "miss_next": joints.largest(outside - x[SHIFT], x["miss"][()]),
        }

    graph = recorded("missed", robot.name, shapes, record, "bounds")
    carry = {"penalty_next": "penalty", "miss_next": "miss"}
    return Loop("missed", robot.name, (graph,), carry, Count(knots), (*STATE, SHIFT, EASE), last=tuple(carry))


def _renewal(robot: Robot, joints: JointBounds, within: float, iterations: int) -> Graph:
    """Return the graph that decides whether shifts change, and computes the next weight and the values of the last
    state.
    """
    numbers = ("penalty_next", "miss_next", "missed", "merit", "flat", "settled", "fresh")
    shapes: dict[str, tuple[int, ...]] = {"q_last_new": (robot.nq,), "qd_last_new": (robot.nv,)}
    shapes |= {**joints.shapes(last=True), **dict.fromkeys(numbers, ()), "costs": (iterations + 1,)}

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        penalty, miss, missed, merit, flat, settled, fresh = (x[name][()] for name in numbers)
        weight, shift = x[WEIGHT][()], x[of_last(SHIFT, True)]
        outside = joints.shifted(x, True, "q_last_new", "qd_last_new")
        paid = merit - penalty - joints.cost(outside, weight)
        miss = joints.largest(outside - shift, miss)
        left = select(miss - within, 1.0, 0.0)
        renewed = select(settled, left, 0.0)
        more = select(paid * MOST_WEIGHT - weight, weight * MORE, weight)
        after = select(renewed, select(miss - missed * ENOUGH, more, weight), weight)
        after = select(fresh, select(paid, paid * FIRST_WEIGHT, 1.0), after)
        scale = weight * (1.0 / after)
        anew = chosen(renewed, outside * scale, shift)
        again = joints.shifted({**x, of_last(SHIFT, True): anew}, True, "q_last_new", "qd_last_new")
        return {
            "paid": paid,
            "costs_new": np.append(x["costs"][1:], paid),
            "converged": select(flat, 1.0 - left, 0.0),
            "renewed": renewed,
            "scale": scale,
            "weight_new": after,
            "shift_last_new": anew,
            "missed_new": select(renewed, miss, missed),
            "cost_last": paid + joints.cost(again, after),
        }

    return recorded("renewal", robot.name, shapes, record, "bounds")


def _shifted(robot: Robot, joints: JointBounds, knots: int) -> Loop:
    """Return the loop over knots that updates the shifts and computes the cost with them."""
    shapes: dict[str, tuple[int, ...]] = {"qs_new": (robot.nq,), "qds_new": (robot.nv,), **joints.shapes()}
    del shapes[WEIGHT]
    shapes |= dict.fromkeys(("renewed", "scale", "weight_new", "cost_last"), ())

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        outside = joints.shifted(x, q="qs_new", qd="qds_new")
        anew = chosen(x["renewed"][()], outside * x["scale"][()], x[SHIFT])
        again = joints.shifted({**x, SHIFT: anew}, q="qs_new", qd="qds_new")
        return {"shift_new": anew, "cost_new": x["cost_last"][()] + joints.cost(again, x["weight_new"][()])}

    graph = recorded("shifted", robot.name, shapes, record, "bounds")
    carry = {"cost_new": "cost_last"}
    each = (*STATE, SHIFT, EASE)
    return Loop("shifted", robot.name, (graph,), carry, Count(knots), each, ("shift_new",), ("cost_new",))
