"""iLQR as one loop of graphs: each iteration is a line search by rollouts, and a backward pass around the accepted one.

The first iteration rolls out the guess. Regularization, step lengths, acceptance and stopping are those of Crocoddyl's
SolverDDP (Mastalli et al. 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.control.backward import backward_class
from dynagate.control.bounded_values import MotionBounds
from dynagate.control.cost import Cost, CostGraphs
from dynagate.control.forward import bounded, carried, joined_states, recorded, stepped, with_cost
from dynagate.control.joint_bounds import WITHIN
from dynagate.control.knot_step import KnotStep
from dynagate.control.numbers import FLOATS, Floats
from dynagate.control.shooting import shooting_class
from dynagate.control.state_bounds import FreeStates, states_of
from dynagate.control.terminal_unit import OneUnit, units_of
from dynagate.control.torque_bounds import torques_of
from dynagate.dynamics.configuration import between
from dynagate.dynamics.spatial import chosen, select
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop, Until
from dynagate.graph.recorder import Recording
from dynagate.robot import Robot

DECREASES, INCREASES, FACTOR = 0.5, 0.01, 10.0
"""Step length above which the regularization decreases, step length up to which it increases, and the factor."""
ACCEPTED, FLAT = 0.1, 1e-12
"""Fraction of the expected decrease of the cost that a step must achieve, and the expected decrease below which every
step is accepted.
"""
TRIALS, TIGHTENED = 10, 20
"""Largest number of step lengths 1, 1/2, 1/4, ... in a line search, and of backward passes with increasing
regularization.
"""
RETRIES = ("search", "backward")
"""Inner loops that repeat until they succeed: with a shorter step, and with more regularization."""
MOST_ITERATIONS, MOST_NUMBERS = 1000, 1 << 20
"""Largest number of iterations of a call, and of numbers in a plan with its gains, each of which tracing names."""


@dataclass(frozen=True)
class IlqrOptions:
    """Options of iLQR."""

    knots: int
    """Number of steps of `step.dt` seconds with constant torques."""
    step: StepOptions
    """Options of the step from knot to knot."""
    iterations: int
    """Largest number of iterations."""
    tolerance: float
    """Expected decrease of the cost below which a problem has converged."""
    smallest: float
    """Smallest regularization."""
    largest: float
    """Largest regularization."""
    bounds: tuple[Array, Array] | None = None
    """Lower and upper torques, (nv,) each, in N m or N; None for no bounds."""
    numbers: Floats = FLOATS
    """Arithmetic: FLOATS, or INTEGERS for a chip."""
    trials: int = TRIALS
    """Largest number of step lengths in a line search. With 1, and retries of 1, all iterations take the
    same time.
    """
    retries: int = TIGHTENED
    """Largest number of backward passes in an iteration."""
    kept: MotionBounds | None = None
    """Bounds of joint positions and speeds, and constraints; None for no bounds."""
    within: float = WITHIN
    """Accepted violation of these, as a fraction of a joint's range or of a constraint's scale."""
    multiple: bool = False
    """Whether the first guess has states of its own, with gaps between knots."""

    @property
    def states(self) -> FreeStates:
        """Treatment of bounds of positions and speeds."""
        return states_of(self.kept)


def ilqr_loop(robot: Robot, cost: Cost, options: IlqrOptions) -> Loop:
    """Return the loop over iterations.

    Its inputs are the start q0 (nq,), qd0 (nv,); the guess qs (knots, nq), qds, us (knots, nv), feeds (knots, nv) and
    gains (knots, nv, nx), and drives (knots, nx - 2 nv) if actuators keep states; the inputs of the cost; and the
    initial values in `begin`. With gaps between knots, `gaps` (knots, 2 nv), the guess of the states after each knot,
    qs_next (knots, nq) and qds_next, and the flag () `opened` to use it. Its outputs are those in `last`: the
    trajectory as qs_new, ..., and the flags () `converged` and `good`. A state has nx numbers: q and q̇ along
    velocities, and states of actuators.

    Args:
        robot: The robot.
        cost: The cost.
        options: Options of iLQR.

    Raises:
        ArgumentError: The plan has more than MOST_NUMBERS numbers.
    """
    _check_room(robot, options)
    return _Builder(robot, cost, options).loop()


def begin(options: IlqrOptions) -> dict[str, Any]:
    """Return the other inputs of the first iteration."""
    return {
        **options.states.begin(options.knots),
        **shooting_class(options.multiple).begin,
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
            f"expected at most {most:,} knots",
            code="DG-SOLVER-025",
        )
    if options.iterations > MOST_ITERATIONS:
        raise ArgumentError(
            f"iterations={options.iterations:,}; expected at most {MOST_ITERATIONS:,}, and warm= to go on",
            code="DG-SOLVER-026",
        )


Record = Callable[[Mapping[str, Array]], Mapping[str, Any]]


class _Builder:
    def __init__(self, robot: Robot, cost: Cost, options: IlqrOptions) -> None:
        self.robot, self.options, self.nv = robot, options, robot.nv
        self.step = KnotStep(robot, options.step)
        if options.numbers.finite:
            self.step.check_on_chip()
        self.drives = self.step.size - 2 * self.nv
        """Count of the numbers of actuators' states."""
        self.costs = CostGraphs(robot, cost, options.step.dt, options.kept)
        self.each = (*self.step.inputs, *self.costs.each)
        self.numbers, self.states = options.numbers, options.states
        self.shooting = shooting_class(options.multiple)(robot)
        torques = torques_of(self.nv, options.bounds)
        unit = units_of(self.costs, options.step, torques.driven) if self.numbers.finite else OneUnit()
        self.pass_back = backward_class(self.step)(
            robot, self.costs, self.step, self.numbers, torques, unit, self.shooting
        )

    def loop(self) -> Loop:
        options = self.options
        ends: tuple[str, ...] = ("q_last_new", "qd_last_new", "cost_new", "reg_used", "converged", "good")
        carry = {
            **{f"{name}_new": name for name in (*self._plan, "gains", "feeds", "q_last", "qd_last")},
            **{"cost_new": "cost", "fall_new": "fall", "reg_used": "reg", "fresh_new": "fresh"},
        }
        carry |= {**self.numbers.carry, **self.states.carry, **self.shooting.carry}
        ends += (*self.numbers.ends, *self.states.ends, *self.shooting.ends)
        bounds = self.states.steps(options.knots, options.within, options.iterations)
        steps = (self._search(), self._choice(), self._rule(), *bounds, self._backward(), self._verdict())
        plan = tuple(f"{name}_new" for name in self._plan)
        last: tuple[str, ...] = (*plan, "gains_new", "feeds_new", *ends)
        name = f"ilqr_{options.knots}"
        return Loop(name, self.robot.name, steps, carry, Until("open", 0.5, options.iterations + 1), last=last)

    @property
    def _plan(self) -> dict[str, tuple[str, int]]:
        """Values of each knot of a plan: name -> name in the line search, and count of numbers."""
        plan = {"qs": ("q_try", self.robot.nq), "qds": ("qd_try", self.nv), "us": ("u_try", self.nv)}
        plan |= {"drives": ("drive_try", self.drives)} if self.drives else {}
        return {**plan, **{name: (tried, 2 * self.nv) for name, tried in self.shooting.plan.items()}}

    # forwards

    def _search(self) -> Loop:
        """Return the line search: rollouts with shorter and shorter steps, until one is accepted."""
        steps = (self._forward(), self._judge())
        tried = (name for name, _ in self._plan.values())
        last = (*tried, "q_end", "qd_end", "cost_try", "accepted", "length", *self.shooting.largest)
        stop = Until("refused", 0.5, self.options.trials)
        return Loop("search", self.robot.name, steps, {"alpha_next": "alpha"}, stop, last=last)

    def _forward(self) -> Loop:
        unsolved = () if self.step.unsolved is None else (self.step.unsolved,)
        return Loop(
            "forward",
            self.robot.name,
            (self._torques(), *self.shooting.joined(stepped(self.costs, self.step, "u_try"))),
            {**carried(self.step), **self.shooting.largest},
            Count(self.options.knots),
            (*self._plan, "gains", "feeds", *self.each, *self.shooting.guess),
            tuple(name for name, _ in self._plan.values()),
            ("q_end", "qd_end", "total_next", *unsolved, *self.shooting.largest),
        )

    def _torques(self) -> Graph:
        """Return the graph of u + α feed + gain (x - x̄), within the bounds."""
        robot, n = self.robot, self.nv
        shapes: dict[str, tuple[int, ...]] = {"q0": (robot.nq,), "qd0": (n,)}
        shapes |= {"qs": (robot.nq,), "qds": (n,), "us": (n,)}

        def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
            qs, qds, alpha = self.numbers.plan(x)
            away, tried = [between(robot, qs, x["q0"]), x["qd0"] - qds], {"q_try": x["q0"], "qd_try": x["qd0"]}
            if self.drives:
                tried["drive_try"] = joined_states(self.step, x)
                away.append(tried["drive_try"] - x["drives"])
            u = self.numbers.torques(x, alpha, np.concatenate(away))
            return {"u_try": bounded(u, self.options.bounds), **tried}

        shapes |= {"gains": (n, self.step.size), "feeds": (n,), "alpha": ()}
        shapes |= {name: (size,) for name, size in self.step.states.values()}
        shapes |= {"drives": (self.drives,)} if self.drives else {}
        return self._graph("torques", {**shapes, **self.numbers.torque_shapes}, record)

    def _judge(self) -> Graph:
        """Return the graph that decides whether the rollout's cost is low enough."""

        def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
            total, cost, fall, alpha, fresh = (
                recording.input(name, ())[()] for name in ("total_next", "cost", "fall", "alpha", "fresh")
            )
            reached = self.step.infinite_if_unsolved(recording, total + self.costs.final.value(recording, values))
            own = {name: recording.input(name, ())[()] for name in self.shooting.numbers}
            expected, closed = self.shooting.expected(own, fall, alpha)
            flat = self.shooting.flat(own, fall)
            enough = select(cost - reached + closed + expected * -ACCEPTED, 1.0, select(FLAT - flat, 1.0, 0.0))
            if_finite = self.numbers.if_finite
            finite = if_finite(reached, if_finite(-reached, 1.0, 0.0), 0.0)
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
        """Return the loop that selects the accepted trajectory, or else the previous one."""
        robot, pairs = self.robot, self._plan
        shapes: dict[str, tuple[int, ...]] = {"accepted": ()}
        for name, (tried, size) in pairs.items():
            shapes |= {name: (size,), tried: (size,)}

        def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
            accepted = x["accepted"][()]
            new = {f"{name}_new": chosen(accepted, x[tried], x[name]) for name, (tried, _) in pairs.items()}
            return self.numbers.with_first_torque(new)

        names = tuple(name for name in shapes if name != "accepted")
        graph = self._graph("choice", shapes, record)
        kept = tuple(f"{name}_new" for name in pairs)
        first = self.numbers.first_torque  # backwards, the first knot is the last iteration
        return Loop(
            "choice", robot.name, (graph,), {}, Count(self.options.knots), names, kept, first, backwards=bool(first)
        )

    # regularization

    def _rule(self) -> Graph:
        """Return the graph of the next regularization, which depends on the step length, and of the accepted cost and
        last state.
        """
        robot, n, o = self.robot, self.nv, self.options
        ends = {"q_end": (robot.nq,), "q_last": (robot.nq,), "qd_end": (n,), "qd_last": (n,)}
        numbers = ("accepted", "length", "reg", "fresh", "cost", "cost_try", "fall")
        shapes: dict[str, tuple[int, ...]] = {**ends, **dict.fromkeys((*numbers, *self.shooting.numbers), ())}
        shapes |= self.states.shapes(self.numbers, o.iterations)

        def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
            accepted, length, reg, fresh, cost, tried, fall = (x[name][()] for name in numbers)
            less, more = _least(reg * (1.0 / FACTOR), o.smallest), _most(reg * FACTOR, o.largest)
            after = select(INCREASES - length, more, select(length - DECREASES, less, reg))
            reg = select(fresh, reg, select(accepted, after, more))
            reached = select(accepted, tried, cost)
            own = {name: x[name][()] for name in self.shooting.numbers}
            fall, apart = self.shooting.remaining(accepted, own, fall)
            flat = select(o.tolerance - fall * 0.5, 1.0, 0.0)
            ends = {
                "q_last_new": chosen(accepted, x["q_end"], x["q_last"]),
                "qd_last_new": chosen(accepted, x["qd_end"], x["qd_last"]),
            }
            ends |= self.states.judged(self.numbers, x, reached, fall, flat) | apart
            return {
                **ends,
                "reg_now": reg,
                self.states.flat: select(fresh, 0.0, flat),
                "started": select(fresh, accepted, 1.0),
            }

        return self._graph("rule", shapes, record)

    # backwards

    def _backward(self) -> Loop:
        """Return the loop of backward passes with increasing regularization, until all pivots are positive."""
        sweep = self.pass_back.sweep(self.options.knots, self.each)
        last = ("gains_new", "feeds_new", "fall_new", "right_new", "reg_used", *self.numbers.first_gain)
        last += tuple(self.shooting.sums)
        return Loop(
            "backward",
            self.robot.name,
            (self.pass_back.end(), sweep, self._more()),
            {"reg_more": "reg_now"},
            Until("failed", 0.5, self.options.retries),
            last=last,
        )

    def _more(self) -> Graph:
        """Return the graph that decides whether a backward pass is repeated, with which larger regularization."""
        largest = self.options.largest

        def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
            reg, right, fall = x["reg_now"][()], x["right_new"][()], x["fall_new"][()]
            right = self.numbers.if_finite(fall, right, 0.0)
            more = _most(reg * FACTOR, largest)
            again = select(largest - reg, 1.0 - right, 0.0)
            return {"reg_used": reg, "reg_more": more, "failed": again}

        return self._graph("more", {"reg_now": (), "right_new": (), "fall_new": ()}, record)

    def _verdict(self) -> Graph:
        """Return the graph that decides whether a problem continues."""
        numbers: tuple[str, ...] = ("converged", "started", "right_new", "reg_used", "fall_new")
        counted = self.numbers.counted

        def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
            converged, started, right, reg, fall = (x[name][()] for name in numbers)
            finite = self.numbers.if_finite(fall, right, 0.0)
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
