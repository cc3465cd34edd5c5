"""iLQR as one loop of graphs: a turn is a line search of rollouts, and a backward pass about what it accepted.

The first turn rolls the guess out. Its iterations are those of Crocoddyl's SolverDDP: the same regularization, step
lengths, acceptance and stop (Mastalli et al. 2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.control import last_knot
from dynagate.control.cost import Cost, CostGraphs, Expansion
from dynagate.control.forward import CARRY, bounded, recorded, stepped, with_cost
from dynagate.control.joint_bounds import SETTLED, SHIFT, WEIGHT, WITHIN, JointBounds, of_last
from dynagate.control.last_knot import begun, brought_back, in_unit, unit_of_last
from dynagate.control.multipliers import CARRY as CARRY_OF_BOUNDS
from dynagate.control.multipliers import multipliers
from dynagate.control.riccati import Gains, Held, Value, moved, regularized, riccati
from dynagate.control.riccati_blocks import LARGEST_UNROLLED, Blocked
from dynagate.dynamics.configuration import between
from dynagate.dynamics.spatial import array, chosen, select, zeros
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.derivatives import output_values
from dynagate.graph.loop import Count, Loop, Until
from dynagate.graph.ops import BEYOND
from dynagate.graph.recorder import Recording
from dynagate.integrators.explicit_method import step_inputs
from dynagate.integrators.linearized import linearized_step_graph
from dynagate.robot import Robot

DECREASES, INCREASES, FACTOR = 0.5, 0.01, 10.0
"""Step lengths above which the regularization becomes smaller, and up to which it becomes larger, and by what."""
ACCEPTED, FLAT = 0.1, 1e-12
"""The part of the expected fall of the cost that a step must bring, and the expected fall below which any does."""
TRIALS, TIGHTENED = 10, 20
"""At most: step lengths 1, 1/2, 1/4, ... of a search; backward passes, each with more regularization."""
RETRIES = ("search", "backward")
"""Loops that try again: with a shorter step, and with more regularization."""
FIRST = ("u_first", "gain_first")
"""Outputs of a chip: torques and gains of the first knot. Its gains and feeds are those of other executors times -1."""
MOST_ITERATIONS, MOST_NUMBERS = 1000, 1 << 20
"""Largest number of iterations of a call, and of numbers of a plan with the gains of its knots. Tracing names the
place of each number.
"""
PARTS = 4
"""Number of partial sums of a sum of products on a chip: each ends sooner than the whole."""
NOW = {"q": "qs_new", "qd": "qds_new", "tau": "us_new"}
"""Names in the backward pass for the state and the torques of a knot."""


@dataclass(frozen=True)
class IlqrOptions:
    """knots: steps of torques, of `step.dt` seconds. iterations: at most. tolerance: of the fall of the cost that a
    step expects, below which a problem has converged. smallest, largest: regularization. bounds: of torques, lowest
    and highest (nv,) each, N m or N; None for none. joints: bounds of positions and speeds; within: how far, of a
    joint's range, these may be missed. integers: for a chip, whose numbers are all finite, and which keeps
    no costs of iterations. trials, retries: of a search and of backward passes, at most; with 1 and 1 all iterations
    take the same time."""

    knots: int
    step: StepOptions
    iterations: int
    tolerance: float
    smallest: float
    largest: float
    bounds: tuple[Array, Array] | None = None
    integers: bool = False
    trials: int = TRIALS
    retries: int = TIGHTENED
    joints: JointBounds | None = None
    within: float = WITHIN


def ilqr_loop(robot: Robot, cost: Cost, options: IlqrOptions) -> Loop:
    """The loop over iterations.

    It takes the start q0 (nq,), qd0 (nv,); the guess qs (knots, nq), qds, us (knots, nv), feeds (knots, nv) and gains
    (knots, nv, 2 nv); the inputs of the cost; and where it begins: `begin` names them.
    It gives what `last` of it says, the trajectory as qs_new, ..., the flags () `converged` and `good`. Raises
    ValueError: the plan has more than MOST_NUMBERS.
    """
    _check_room(robot, options)
    return _Builder(robot, cost, options).loop()


def begin(options: IlqrOptions) -> dict[str, Any]:
    """The other inputs of the first turn."""
    joints = options.joints
    bounds: dict[str, Any] = {}
    if joints is not None:
        n = len(joints.places)
        bounds = {SHIFT: np.zeros((options.knots, n)), of_last(SHIFT, True): np.zeros(n)}
        bounds |= dict.fromkeys((WEIGHT, "penalty", "miss", "missed"), 0.0)
    return {
        **bounds,
        "alpha": 1.0,
        "total": 0.0,
        "cost": 0.0,
        "fall": 0.0,
        "fall_sum": 0.0,
        "right_sum": 1.0,
        "reg": options.smallest,
        "fresh": 1.0,
        "costs": np.zeros(options.iterations + 1),
    }


def _check_room(robot: Robot, options: IlqrOptions) -> None:
    a_knot = robot.nq + 3 * robot.nv + 2 * robot.nv**2
    most = MOST_NUMBERS // a_knot
    if options.knots > most:
        raise ArgumentError(
            f"knots={options.knots:,} of {robot.name}: a plan has {a_knot:,} numbers a knot, at most {MOST_NUMBERS:,}; "
            f"expected at most {most:,} knots"
        )
    if options.iterations > MOST_ITERATIONS:
        raise ArgumentError(
            f"iterations={options.iterations:,}; expected at most {MOST_ITERATIONS:,}, and warm= to go on"
        )


Record = Callable[[Mapping[str, Array]], Mapping[str, Any]]


class _Builder:
    def __init__(self, robot: Robot, cost: Cost, options: IlqrOptions) -> None:
        self.robot, self.options, self.nv = robot, options, robot.nv
        self.costs = CostGraphs(robot, cost, options.step.dt or 0.0, options.joints)
        self.each = (*step_inputs(robot, options.step), *self.costs.each)
        passive = np.zeros(self.nv, bool) if options.bounds is None else options.bounds[0] == options.bounds[1]
        self.driven = np.flatnonzero(~passive)
        self.blocked = Blocked(2 * self.nv, len(self.driven))
        self.large = self.blocked.nx > LARGEST_UNROLLED
        self.last = unit_of_last(self.costs, options.step, self.driven) if options.integers else 1.0

    def loop(self) -> Loop:
        options = self.options
        ends: tuple[str, ...] = ("q_last_new", "qd_last_new", "cost_new", "reg_used", "converged", "good")
        carry = {
            **{f"{name}_new": name for name in ("qs", "qds", "us", "gains", "feeds", "q_last", "qd_last")},
            **{"cost_new": "cost", "fall_new": "fall", "reg_used": "reg", "fresh_new": "fresh"},
        }
        if options.integers:
            carry["taken_new"] = "taken"
            ends += (*FIRST, "taken_new")
        else:
            carry["costs_new"] = "costs"
            ends += ("costs_new",)
        bounds: tuple[Graph | Loop, ...] = ()
        if options.joints is not None:
            bounds = multipliers(self.robot, options.joints, options.knots, options.within, options.iterations)
            carry |= CARRY_OF_BOUNDS
            ends += ("paid",)
        steps = (self._search(), self._choice(), self._rule(), *bounds, self._backward(), self._verdict())
        last: tuple[str, ...] = ("qs_new", "qds_new", "us_new", "gains_new", "feeds_new", *ends)
        name = f"ilqr_{options.knots}"
        return Loop(name, self.robot.name, steps, carry, Until("open", 0.5, options.iterations + 1), last=last)

    # forwards

    def _search(self) -> Loop:
        """Rollouts of shorter and shorter steps, until one is accepted."""
        steps = (self._forward(), self._judge())
        last = ("q_try", "qd_try", "u_try", "q_end", "qd_end", "cost_try", "accepted", "length")
        stop = Until("refused", 0.5, self.options.trials)
        return Loop("search", self.robot.name, steps, {"alpha_next": "alpha"}, stop, last=last)

    def _forward(self) -> Loop:
        step, running = stepped(self.costs, self.options.step, "u_try")
        return Loop(
            "forward",
            self.robot.name,
            (self._torques(), step, running),
            CARRY,
            Count(self.options.knots),
            ("qs", "qds", "us", "gains", "feeds", *self.each),
            ("q_try", "qd_try", "u_try"),
            ("q_end", "qd_end", "total_next"),
        )

    def _torques(self) -> Graph:
        """u + α feed + gain (x - x̄), within the bounds."""
        robot, n = self.robot, self.nv
        shapes: dict[str, tuple[int, ...]] = {"q0": (robot.nq,), "qd0": (n,)}
        shapes |= {"qs": (robot.nq,), "qds": (n,), "us": (n,)}

        def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
            qs, qds, alpha = x["qs"], x["qds"], x["alpha"][()]
            if self.options.integers:  # a plan of an earlier problem may be in memory: it must not overflow here
                fresh = x["fresh"][()]
                qs, qds = chosen(fresh, x["q0"], qs), chosen(fresh, x["qd0"], qds)
                alpha = select(fresh, 0.0, alpha)
            away = np.concatenate([between(robot, qs, x["q0"]), x["qd0"] - qds])
            if self.options.integers:
                u = x["us"] - (x["feeds"] * alpha + _in_parts(x["gains"], away))
            else:
                u = x["us"] + x["feeds"] * alpha + x["gains"] @ away
            return {"u_try": bounded(u, self.options.bounds), "q_try": x["q0"], "qd_try": x["qd0"]}

        shapes |= {"gains": (n, 2 * n), "feeds": (n,), "alpha": ()}
        return self._graph("torques", {**shapes, "fresh": ()} if self.options.integers else shapes, record)

    def _if_finite(self, x: Any, then: Any, otherwise: Any) -> Any:
        """Select `then` if a number that is positive or decreases is finite."""
        return then if self.options.integers else select(BEYOND - x, then, otherwise)

    def _judge(self) -> Graph:
        """Whether the rollout's cost is low enough."""

        def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
            total, cost, fall, alpha, fresh = (
                recording.input(name, ())[()] for name in ("total_next", "cost", "fall", "alpha", "fresh")
            )
            reached = total + self.costs.final.value(recording, values)
            expected = fall * alpha * (1.0 + alpha * -0.5)
            enough = select(cost - reached + expected * -ACCEPTED, 1.0, select(FLAT - fall, 1.0, 0.0))
            finite = self._if_finite(reached, self._if_finite(-reached, 1.0, 0.0), 0.0)
            accepted = select(fresh, finite, select(finite, enough, 0.0))
            refused = select(fresh, 0.0, 1.0 - accepted)
            return {
                "cost_try": reached,
                "accepted": accepted,
                "refused": refused,
                "length": alpha,
                "alpha_next": alpha * 0.5,
            }

        return with_cost(self.costs, "judge", True, record).named({"q": "q_end", "qd": "qd_end"}, {})

    def _choice(self) -> Loop:
        """The trajectory that was accepted, or the one before."""
        robot, n = self.robot, self.nv
        pairs = {"qs": ("q_try", robot.nq), "qds": ("qd_try", n), "us": ("u_try", n)}
        shapes: dict[str, tuple[int, ...]] = {"accepted": ()}
        for name, (tried, size) in pairs.items():
            shapes |= {name: (size,), tried: (size,)}

        def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
            accepted = x["accepted"][()]
            new = {f"{name}_new": chosen(accepted, x[tried], x[name]) for name, (tried, _) in pairs.items()}
            return {**new, "u_first": new["us_new"]} if integers else new

        integers = self.options.integers
        names = tuple(name for name in shapes if name != "accepted")
        graph = self._graph("choice", shapes, record)
        kept = tuple(f"{name}_new" for name in pairs)
        last = ("u_first",) if integers else ()  # the first knot is the last turn then
        return Loop(
            "choice", robot.name, (graph,), {}, Count(self.options.knots), names, kept, last, backwards=integers
        )

    # regularization

    def _rule(self) -> Graph:
        """Its next value, by the step length; and the last state and the cost of what was accepted."""
        robot, n, o = self.robot, self.nv, self.options
        ends = {"q_end": (robot.nq,), "q_last": (robot.nq,), "qd_end": (n,), "qd_last": (n,)}
        numbers = ("accepted", "length", "reg", "fresh", "cost", "cost_try", "fall")
        shapes: dict[str, tuple[int, ...]] = {**ends, **dict.fromkeys(numbers, ())}
        if not o.integers and o.joints is None:
            shapes["costs"] = (o.iterations + 1,)

        def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
            accepted, length, reg, fresh, cost, tried, fall = (x[name][()] for name in numbers)
            less, more = _least(reg * (1.0 / FACTOR), o.smallest), _most(reg * FACTOR, o.largest)
            after = select(INCREASES - length, more, select(length - DECREASES, less, reg))
            reg = select(fresh, reg, select(accepted, after, more))
            reached = select(accepted, tried, cost)
            flat = select(o.tolerance - fall * 0.5, 1.0, 0.0)
            ends = {
                "q_last_new": chosen(accepted, x["q_end"], x["q_last"]),
                "qd_last_new": chosen(accepted, x["qd_end"], x["qd_last"]),
            }
            if o.joints is not None:  # `multipliers` says the rest
                settled = select(fresh, 0.0, select(reached * SETTLED - fall * 0.5, 1.0, flat))
                ends |= {"merit": reached, "settled": settled}
            else:
                ends |= {
                    "cost_new": reached,
                    **({} if o.integers else {"costs_new": np.append(x["costs"][1:], reached)}),
                }
            return {
                **ends,
                "reg_now": reg,
                "converged" if o.joints is None else "flat": select(fresh, 0.0, flat),
                "started": select(fresh, accepted, 1.0),
            }

        return self._graph("rule", shapes, record)

    # backwards

    def _backward(self) -> Loop:
        """Backward passes with more and more regularization, until all pivots are positive."""
        linear = linearized_step_graph(self.robot, self.options.step)
        linear = self._driven(linear.named(NOW, {}))
        steps = (self._expansion(), *self._blocks()) if self.large else (self._knot(),)
        first = FIRST[1:] if self.options.integers else ()
        carry = {"slope_next": "slope", "curvature_next": "curvature", "fall_new": "fall_sum", "right_new": "right_sum"}
        carry |= last_knot.CARRY if self.last != 1.0 else {}
        sweep = Loop(
            "sweep",
            self.robot.name,
            (linear, *steps),
            carry,
            Count(self.options.knots),
            (*NOW.values(), *self.each),
            ("gains_new", "feeds_new"),
            ("fall_new", "right_new", *first),
            backwards=True,
        )
        last = ("gains_new", "feeds_new", "fall_new", "right_new", "reg_used", *first)
        return Loop(
            "backward",
            self.robot.name,
            (self._end(), sweep, self._more()),
            {"reg_more": "reg_now"},
            Until("failed", 0.5, self.options.retries),
            last=last,
        )

    def _end(self) -> Graph:
        """The value of the last state."""

        def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
            reg = recording.input("reg_now", ())[()]
            cost = self.costs.final.expansion(recording, values)
            curvature = regularized(cost.by_xx, reg)
            if self.large:
                return {"slope": self.blocked.rows(cost.by_x), "curvature": self.blocked.rows(curvature)}
            if self.last != 1.0:
                return begun(Value(cost.by_x, curvature), self.last)
            return {"slope": cost.by_x, "curvature": curvature}

        return with_cost(self.costs, "end", True, record).named({"q": "q_last_new", "qd": "qd_last_new"}, {})

    def _driven(self, linear: Graph) -> Graph:
        """The derivatives of a step by the state and by the torques that there are."""
        recording = Recording(linear.name, linear.robot)
        values = recording.replay(linear, {port.name: recording.input_like(port) for port in linear.inputs})
        outputs = output_values(linear.outputs, values)
        a, b = outputs["a"], outputs["b"][:, self.driven]
        if not self.large:
            return recording.graph({"a": a, "b": b})
        rows = {"a_rows": self.blocked.rows(a.T), "b_rows": self.blocked.pushes(b.T)}
        return recording.graph({"a": a, "b": b, **rows})

    def _knot(self) -> Graph:
        n, nx, nu = self.nv, 2 * self.nv, len(self.driven)
        step = self.options.step
        semi = step.method == "semi_implicit_euler" and not self.robot.quaternions()

        def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
            slope, curvature = recording.input("slope", (nx,)), recording.input("curvature", (nx, nx), symmetric=True)
            a, b = recording.input("a", (nx, nx)), recording.input("b", (nx, nu))
            sums = {name: recording.input(name, ()) for name in ("reg_now", "fall_sum", "right_sum")}
            value = Value(slope, curvature)
            if semi:
                unit = np.eye(n, nx).astype(object)
                value, a, b = (
                    moved(value, step.dt or 0.0),
                    np.concatenate([unit, a[n:]]),
                    np.concatenate([zeros(n, nu), b[n:]]),
                )
            cost = self._of_driven(self.costs.running.expansion(recording, values))
            held, reg = self._held({"us_new": values["tau"]}), sums["reg_now"][()]
            if self.last == 1.0:
                value, gains = riccati(value, a, b, cost, reg, held, finite=self.options.integers)
                return {"slope_next": value.slope, "curvature_next": value.curvature, **self._gains(sums, gains)}
            unit, back = (recording.input(name, ())[()] for name in last_knot.CARRY.values())
            value, gains = riccati(value, a, b, in_unit(cost, unit), reg * unit, held, finite=True)
            return {**brought_back(value, back), **self._gains(sums, gains._replace(fall=gains.fall * back))}

        return with_cost(self.costs, "riccati", False, record).named(NOW, {})

    def _expansion(self) -> Graph:
        """The cost of a knot about its state, in blocks."""
        rows, pushes = self.blocked.rows, self.blocked.pushes

        def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
            reg = recording.input("reg_now", ())[()]
            cost = self._of_driven(self.costs.running.expansion(recording, values))
            by_u = {"cost_u": pushes(cost.by_u), "cost_ux": pushes(cost.by_ux), "cost_uu": pushes(cost.by_uu)}
            return {"cost_x": rows(cost.by_x), "cost_xx": rows(regularized(cost.by_xx, reg)), **by_u}

        return with_cost(self.costs, "expansion", False, record).named(NOW, {})

    def _blocks(self) -> tuple[Graph | Loop, ...]:
        others: dict[str, tuple[int, ...]] = {"fall_sum": (), "right_sum": ()}
        if self.options.bounds is not None:
            others["us_new"] = (self.nv,)
        solve = self.blocked.solve_graph(self.robot.name, others, self._held, self._gains)
        return self.blocked.steps(self.robot.name, solve)

    def _gains(self, sums: Mapping[str, Array], gains: Gains) -> Mapping[str, Any]:
        """Return the gains of all joints, which are 0 for passive ones, and sums over the knots."""
        gain, feed = zeros(self.nv, 2 * self.nv), zeros(self.nv)
        gain[self.driven], feed[self.driven] = gains.gain, gains.feed
        if self.options.integers:  # what `feedback` has made minus of
            gain, feed = -gain, -feed
        return {
            "gains_new": gain,
            **({"gain_first": gain} if self.options.integers else {}),
            "feeds_new": feed,
            "fall_new": sums["fall_sum"][()] + gains.fall,
            "right_new": select(gains.right, sums["right_sum"][()], 0.0),
        }

    def _of_driven(self, cost: Expansion) -> Expansion:
        """Restrict the expansion of a cost to the torques of driven joints."""
        k = self.driven
        return cost._replace(by_u=cost.by_u[k], by_ux=cost.by_ux[k], by_uu=cost.by_uu[np.ix_(k, k)])

    def _held(self, values: Mapping[str, Array]) -> Held | None:
        """Above 0 where a torque is at a bound and a step down the slope would leave it. values: `us_new` (nv,)."""
        if self.options.bounds is None:
            return None
        low, high = (bound[self.driven] for bound in self.options.bounds)
        near = np.where(np.isfinite(high - low), 1e-12 * (high - low), 0.0)
        inner = (low + near).tolist(), (high - near).tolist()

        def one(x: Any, low: float, high: float, slope: Any) -> Any:
            above = select(x - high, -slope, -1.0) if math.isfinite(high) else -1.0
            return select(low - x, slope, above) if math.isfinite(low) else above

        def held(slope: Array) -> Array:
            torques = values["us_new"][self.driven]
            return array([one(x, a, b, g) for x, a, b, g in zip(torques, *inner, slope, strict=True)])

        return held

    def _more(self) -> Graph:
        largest = self.options.largest

        def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
            reg, right, fall = x["reg_now"][()], x["right_new"][()], x["fall_new"][()]
            right = self._if_finite(fall, right, 0.0)
            more = _most(reg * FACTOR, largest)
            again = select(largest - reg, 1.0 - right, 0.0)
            return {"reg_used": reg, "reg_more": more, "failed": again}

        return self._graph("more", {"reg_now": (), "right_new": (), "fall_new": ()}, record)

    def _verdict(self) -> Graph:
        """Whether a problem goes on."""
        numbers: tuple[str, ...] = ("converged", "started", "right_new", "reg_used", "fall_new")
        counted = ("taken",) if self.options.integers else ()

        def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
            converged, started, right, reg, fall = (x[name][()] for name in numbers)
            finite = self._if_finite(fall, right, 0.0)
            good = select(started, select(self.options.largest - reg, finite, 0.0), 0.0)
            taken = {f"{name}_new": x[name][()] + 1.0 for name in counted}
            return {"good": good, "open": select(converged, 0.0, good), "fresh_new": 0.0, **taken}

        return self._graph("verdict", dict.fromkeys((*numbers, *counted), ()), record)

    def _graph(self, name: str, shapes: Mapping[str, tuple[int, ...]], record: Record) -> Graph:
        return recorded(name, self.robot.name, shapes, record)


def _least(x: Any, bound: float) -> Any:
    return select(x - bound, x, bound)


def _most(x: Any, bound: float) -> Any:
    return select(bound - x, x, bound)


def _in_parts(matrix: Array, vector: Array) -> Array:
    """The product, in sums of few products."""
    parts = [matrix[:, k::PARTS] @ vector[k::PARTS] for k in range(PARTS) if len(vector) > k]
    while len(parts) > 1:
        parts = [sum(parts[k + 1 : k + 2], parts[k]) for k in range(0, len(parts), 2)]
    return parts[0]
