"""Inverse kinematics as one loop: each iteration evaluates a configuration, accepts or rejects it, and takes a step.

The step is a Levenberg-Marquardt step with a damping proportional to the cost (Sugihara, "Solvability-unconcerned
inverse kinematics by the Levenberg-Marquardt method", 2011). Joints at a limit that the step would violate do not move
(Bertsekas, "Projected Newton methods for optimization problems with simple constraints", 1982).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.naming import scope
from dynagate.control.targets import Target
from dynagate.dynamics.configuration import advance, between, neutral
from dynagate.dynamics.factor import Dense, factorize, solve
from dynagate.dynamics.spatial import (
    Array,
    Scalar,
    absolute,
    array,
    chosen,
    is_zero,
    largest,
    select,
    symmetric,
    zeros,
)
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import output_values
from dynagate.graph.loop import Loop, Until
from dynagate.graph.recorder import Recording
from dynagate.integrators.limits import ranges
from dynagate.robot import Robot

DAMPING = 1e-1
"""Initial damping, as a fraction of the cost."""
SMALLEST = 1e-6
"""Smallest damping, as a fraction of the cost."""
LESS, MORE = 0.2, 4.0
"""Factors of the damping after an accepted step and after a rejected one."""
FLOOR = 1e-12
"""Damping that remains if the cost is zero."""
PULL, WEAKER, WEAKEST = 0.1, 0.3, 1e-9
"""Initial weight of the posture, its factor after an accepted step, and its smallest value, so that targets
dominate.
"""
SLOW, PATIENCE = 0.8, 10.0
"""A step is slow if this fraction of the cost remains, and a search ends after this many slow steps in a row."""
SETTLED = 1e-5
"""Step in rad or m below which the posture is reached."""
AT_LIMIT = 1e-9
"""Distance in rad or m within which a joint is at its limit."""
TURN = 2.0 * math.pi

CARRY = {
    "trial_new": "trial",
    "q_new": "q",
    "errors_new": "errors",
    "jacobian_new": "jacobian",
    "cost_new": "cost",
    "largest_new": "largest",
    "damping_new": "damping",
    "slow_new": "slow",
    "fresh_new": "fresh",
}
WITH_POSTURE = {"pull_new": "pull"}
"""Values that are also carried if there is a posture."""
RESULTS = ("q_new", "errors_new")
"""Outputs of the loop: the best configuration (nq,), and the errors of all targets (rows,)."""


@dataclass(frozen=True)
class IkOptions:
    """Options of inverse kinematics."""

    targets: tuple[Target, ...]
    """The targets."""
    posture: tuple[float, ...] | None
    """Weights (nv,) of the distance to a preferred configuration; None for no posture."""
    iterations: int
    """Largest number of iterations."""
    tolerance: float
    """Largest error of a target that counts as reached, in m or rad."""


def ik_loop(robot: Robot, options: IkOptions) -> Loop:
    """Return the loop of iterations.

    Its inputs are those of `begin`, `trial` (nq,), the inputs of the targets, and with a posture `rest` (nq,), the
    preferred configuration. Its outputs are RESULTS.

    Args:
        robot: The robot.
        options: Options of inverse kinematics.
    """
    steps = (_Iteration(robot, options).graph(),)
    carry = CARRY if options.posture is None else {**CARRY, **WITH_POSTURE}
    return Loop("inverse_kinematics", robot.name, steps, carry, Until("left", 0.5, options.iterations), last=RESULTS)


def begin(robot: Robot, options: IkOptions) -> dict[str, Any]:
    """Return the inputs of the first iteration that are the same for all problems."""
    rows = row_count(options.targets)
    return {
        "q": neutral(robot),
        "errors": np.zeros(rows),
        "jacobian": np.zeros((rows, robot.nv)),
        "cost": 0.0,
        "largest": 0.0,
        "damping": DAMPING,
        "slow": 0.0,
        "fresh": 1.0,
        **({} if options.posture is None else {"pull": PULL}),
    }


def row_count(targets: Sequence[Target]) -> int:
    """Return the number of errors of all targets."""
    return sum(target.count for target in targets)


def evaluated(recording: Recording, robot: Robot, targets: Sequence[Target], q: Array) -> dict[str, Array]:
    """Record the functions of the robot that the targets need.

    Args:
        recording: The recording.
        robot: The robot.
        targets: The targets.
        q: Configuration (nq,).

    Returns:
        Results of the functions by name.
    """
    names = list(dict.fromkeys(name for target in targets for name in target.functions))
    graph = trace(robot, names)
    return output_values(graph.outputs, recording.replay(graph, {"q": q}))


def errors_graph(robot: Robot, targets: Sequence[Target]) -> Graph:
    """Return the graph of the errors (rows,) of all targets, from q (nq,) and the parts of the targets."""
    recording = Recording("errors", robot.name)
    units = tuple((part.start, part.stop) for part in robot.quaternions())
    q = recording.input("q", (robot.nq,), unit_vectors=units)
    x = {name: recording.input(name, part.shape) for target in targets for name, part in target.parts.items()}
    values = {**x, **evaluated(recording, robot, targets, q)}
    errors = np.concatenate([rows.errors for target in targets for _, rows in target.rows(values)])
    return recording.graph({"errors": errors})


class _State(NamedTuple):
    """A configuration with the errors of its targets."""

    q: Array
    errors: Array
    """Errors of the targets, (rows,)."""
    jacobian: Array
    """Jacobian of the weighted errors."""
    cost: Scalar
    largest: Scalar
    """Largest error of a target, m or rad."""


class _Posture(NamedTuple):
    """The configuration rest (nq,), its weights (nv,), and the factor that makes them weaker with each iteration."""

    rest: Array
    weights: Array
    pull: Scalar

    @property
    def pulls(self) -> Array:
        return array([0.0 if is_zero(w) else self.pull * w for w in self.weights])

    def cost(self, robot: Robot, q: Array) -> Scalar:
        """Return the cost of the way from q (nq,)."""
        away = between(robot, q, self.rest)
        return sum((x * x * p * 0.5 for x, p in zip(away, self.pulls, strict=True) if not is_zero(p)), 0.0)


class _Iteration:
    def __init__(self, robot: Robot, options: IkOptions) -> None:
        self.robot, self.options = robot, options
        self.roots: list[float] = []
        self.lower, self.upper = (ends.tolist() for ends in ranges(robot))

    def graph(self) -> Graph:
        """Return the graph of an iteration."""
        robot, recording = self.robot, Recording("iteration", self.robot.name)
        units = tuple((part.start, part.stop) for part in robot.quaternions())
        trial, q = (recording.input(name, (robot.nq,), unit_vectors=units) for name in ("trial", "q"))
        parts = {name: part for target in self.options.targets for name, part in target.parts.items()}
        x = {name: recording.input(name, part.shape) for name, part in parts.items()}
        tried = self._at(recording, trial, x)
        rows = len(tried.errors)
        errors, jacobian = recording.input("errors", (rows,)), recording.input("jacobian", (rows, robot.nv))
        cost, largest, damping, slow, fresh = (
            recording.input(name, ())[()] for name in ("cost", "largest", "damping", "slow", "fresh")
        )
        posture = None
        if self.options.posture is not None:
            rest = recording.input("rest", (robot.nq,), unit_vectors=units)
            posture = _Posture(rest, array(list(self.options.posture)), recording.input("pull", ())[()])
        before = _State(q, errors, jacobian, cost, largest)
        with scope("decision"):
            outputs = self._decided(before, tried, damping, slow, fresh, posture)
        return recording.graph({name: np.asarray(value, dtype=object) for name, value in outputs.items()})

    def _at(self, recording: Recording, q: Array, x: Mapping[str, Array]) -> _State:
        """Return the state of the search at q: the errors of all targets, their weighted Jacobian and the cost."""
        values = {**x, **evaluated(recording, self.robot, self.options.targets, q)}
        with scope("errors"):
            groups = [group for target in self.options.targets for group in target.rows(values)]
            self.roots = [math.sqrt(w) for w, rows in groups for _ in rows.errors]
            errors = np.concatenate([rows.errors for _, rows in groups])
            jacobian = np.concatenate([rows.jacobian * math.sqrt(w) for w, rows in groups])
            cost = sum((rows.cost * w for w, rows in groups[1:]), groups[0][1].cost * groups[0][0])
            return _State(q, errors, jacobian, cost, largest(map(absolute, errors), 0.0))

    def _decided(
        self, before: _State, tried: _State, damping: Scalar, slow: Scalar, fresh: Scalar, posture: _Posture | None
    ) -> dict[str, Any]:
        """Return the values after an iteration: the better state, and the next configuration to try."""
        gain = before.cost - tried.cost
        if posture is not None:
            gain = gain + posture.cost(self.robot, before.q) - posture.cost(self.robot, tried.q)
        accepted = select(fresh - 0.5, 1.0, select(gain, 1.0, 0.0))
        state = _State(
            chosen(accepted, tried.q, before.q),
            chosen(accepted, tried.errors, before.errors),
            array([chosen(accepted, a, b) for a, b in zip(tried.jacobian, before.jacobian, strict=True)]),
            select(accepted, tried.cost, before.cost),
            select(accepted, tried.largest, before.largest),
        )
        less, more = _at_least(damping * LESS, SMALLEST), damping * MORE
        damping = select(fresh - 0.5, damping, select(accepted, less, more))
        slow = select(fresh - 0.5, 0.0, select(before.cost * SLOW - tried.cost, 0.0, slow + 1.0))
        inside = select(self.options.tolerance / math.sqrt(3.0) - state.largest, 1.0, 0.0)
        if posture is None:
            step, settled = self._step(state, damping, None), 1.0
        else:
            posture = posture._replace(pull=select(accepted, _at_least(posture.pull * WEAKER, WEAKEST), posture.pull))
            weakest = select(posture.pull - 1.5 * WEAKEST, 0.0, 1.0)
            step, slow = self._step(state, damping, posture), slow * weakest
            settled = weakest * select(SETTLED - largest(map(absolute, step), 0.0), 1.0, 0.0)
        stuck = select(slow - (PATIENCE - 0.5), 1.0, 0.0)
        return {
            "trial_new": self._clipped(advance(self.robot, state.q, step)),
            "q_new": state.q,
            "errors_new": state.errors,
            "jacobian_new": state.jacobian,
            "cost_new": state.cost,
            "largest_new": state.largest,
            "damping_new": damping,
            "slow_new": slow,
            "fresh_new": 0.0,
            **({} if posture is None else {"pull_new": posture.pull}),
            "left": select(stuck, 0.0, select(inside, 1.0 - settled, 1.0)),
        }

    def _step(self, state: _State, damping: Scalar, posture: _Posture | None) -> Array:
        """Return the step (nv,) that minimizes the damped linear model of the cost."""
        n = self.robot.nv
        errors = array([e * w for e, w in zip(state.errors, self.roots, strict=True)])
        scale, pulls, away = damping, zeros(n), zeros(n)
        damping = scale * state.cost + FLOOR
        if posture is not None:
            damping = damping + scale * posture.pull
            pulls, away = posture.pulls, between(self.robot, state.q, posture.rest)
        free = self._free(state.q, errors @ state.jacobian - away * pulls)
        jacobian = array([[x * f for x, f in zip(row, free, strict=True)] for row in state.jacobian])
        inverse = [1.0 if is_zero(p) else 1.0 / (damping + p) for p in pulls]
        start = array([w * p * i * f for w, p, i, f in zip(away, pulls, inverse, free, strict=True)])
        ahead = errors + jacobian @ start
        if n < len(errors):
            square = symmetric(lambda i, j: jacobian[:, i] @ jacobian[:, j], n)
            return start - _solved(square, [damping + p for p in pulls], ahead @ jacobian)
        scaled = jacobian * array([1.0 if is_zero(p) else i * damping for p, i in zip(pulls, inverse, strict=True)])
        square = symmetric(lambda i, j: scaled[i] @ jacobian[j], len(errors))
        return start - _solved(square, [damping] * len(errors), ahead) @ scaled

    def _free(self, q: Array, slope: Array) -> list[Scalar]:
        """Return per degree of freedom 1, or 0 if it is at a limit beyond which the slope (nv,) pushes it."""
        free: list[Scalar] = [1.0] * self.robot.nv
        for joint, iq, iv in self.robot.moving():
            k, low, high = iv.start, self.lower[iq.start], self.upper[iq.start]
            if not joint.kind.single or (joint.kind.turning and _turns_around(low, high)):
                continue
            if math.isfinite(low):
                free[k] = select(q[iq.start] - (low + AT_LIMIT), 1.0, select(slope[k], 0.0, 1.0))
            if math.isfinite(high):
                free[k] = select((high - AT_LIMIT) - q[iq.start], 1.0, select(-slope[k], 0.0, 1.0)) * free[k]
        return free

    def _clipped(self, q: Array) -> Array:
        """Return a configuration within the limits. A joint with a range of a full rotation wraps around."""
        result = q.copy()
        for joint, iq, _ in self.robot.moving():
            k, low, high = iq.start, self.lower[iq.start], self.upper[iq.start]
            if joint.kind.turning and _turns_around(low, high):
                x = select(result[k] - high, result[k] - TURN, result[k])
                result[k] = select(low - x, x + TURN, x)
            if math.isfinite(low):
                result[k] = _at_least(result[k], low)
            if math.isfinite(high):
                result[k] = select(high - result[k], result[k], high)
        return result


def _turns_around(low: float, high: float) -> bool:
    """Return whether a range in rad is finite and covers a full rotation."""
    return math.isfinite(high - low) and high - low >= TURN


def _solved(square: Array, diagonal: Sequence[Scalar], right: Array) -> Array:
    """Return (S + diagonal)⁻¹ right for a symmetric matrix S."""
    for k, more in enumerate(diagonal):
        square[k, k] = square[k, k] + more
    dense = Dense(len(right))
    return array(solve(dense, factorize(dense, square), list(right)))


def _at_least(x: Scalar, low: float) -> Scalar:
    return select(x - low, x, low)
