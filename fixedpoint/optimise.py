"""Word lengths of least cost for an accuracy: bits where the outputs are sensitive to them, one DSP block a product.

A DSP48E2 multiplies 27 × 18 bits, so every product needs a narrow operand (`fixedpoint.narrow`). All other nodes add
the same amount of noise, so that the last bit of each buys as much (`fixedpoint.within`). Attempt after attempt is
measured by the integer executor: its errors weight the next one's noise, and nodes that overflow get wider ranges. The
cheapest attempt that meets the goal is then checked on states that chose nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from dynagate.base.errors import ArgumentError, Error
from dynagate.fixedpoint.assign import FormattedGraph, Policy, assign_word, sampled_states
from dynagate.fixedpoint.confidence import (
    OVERFLOWS,
    Statement,
    block_floors,
    measured,
    names_of,
    quantile_bound,
    state,
)
from dynagate.fixedpoint.goal import Goal, bits
from dynagate.fixedpoint.narrow import Vertex
from dynagate.fixedpoint.noise import sensitivity, variance
from dynagate.fixedpoint.ranges import sampled_ranges
from dynagate.fixedpoint.within import Within
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate, evaluate_nodes
from dynagate.graph.region import KINDS, Kind, Region

Array = npt.NDArray[np.float64]

SETTLING, REFINING = 6, 12
"""Attempts that look anew for sensitivities and narrow operands, and attempts after them, at most."""

HOPELESS, STUCK = 4.0, 1.2
"""Errors over targets at which three attempts without progress end a search: while it settles, and afterwards."""

PATIENCE = 3
"""Refining attempts that may all miss the target by little before the weights change faster."""

SHARED = 24
"""Word of angles, sines, cosines, divisors and inverses, tried before the widest: a reciprocal of up to 25 bits takes
one Newton step."""

TAIL = 10.0
"""Sensitivities are those in the states with the largest errors: so many times the states that the quantile leaves
out."""

DRAWS = 8
"""Random signs for each of these states."""

SENSITIVITY_STATES = 512
"""States of the first sensitivities."""

AIMS = (0.985, 0.7, 0.4)
"""Parts of the target that are aimed at, one after the other: fresh states may have larger errors than those of the
search, most of all where words are short and an error jumps past its target."""

ENOUGH = 0.985
"""Part of the aim with which a search ends."""

WIDENINGS = 4
"""Times that the widest words may widen the ranges of nodes that overflow."""

CHECKED = 6
"""Attempts that are checked on fresh states, the cheapest first."""


class AccuracyError(Error, ValueError):
    """No formats of the allowed words reach the target; the text says what is reachable and which node stops it."""


@dataclass(frozen=True)
class Optimised:
    """formatted: the formats. statement: their errors and overflows on fresh states."""

    formatted: FormattedGraph
    statement: Statement

    @property
    def error(self) -> float:
        """Of the worst block at the goal's quantile and confidence."""
        return self.statement.worst[0]


def optimise(
    graph: Graph,
    region: Region,
    goal: Goal,
    policy: Policy | None = None,
    trajectories: Mapping[str, npt.ArrayLike] | None = None,
) -> Optimised:
    """Formats that meet the goal on fresh states, and overflow in no more of them than OVERFLOWS.

    policy: guard bits, samples of the ranges and arithmetic; its word is not used. trajectories: as in `assign`.
    Raises AccuracyError where even the widest words do not meet it, ValueError for an error of a block that is none.
    """
    names = [port.name for port in graph.outputs]
    for name in () if isinstance(goal.error, float | int) else goal.error:
        if name not in names:
            raise ArgumentError(f"an error for block '{name}'; expected one of {', '.join(names)}")
    search = _Search(graph, region, goal, policy or Policy(guard_bits=None), trajectories)
    widest = search.widest()
    for spare in (goal.spare, *(more for more in (0.3, 1.0) if more > goal.spare)):
        for aim in AIMS:
            nearest = math.inf
            for shared in (SHARED, goal.dsp.wide):
                attempts = list(search.attempts(shared, spare, aim))
                nearest = min(nearest, *(attempt.ratio for attempt in attempts))
                if (optimised := search.cheapest(attempts)) is not None:
                    return optimised
            if nearest > STUCK:
                break  # a lower aim comes no nearer
    return search.promised(widest)


@dataclass(frozen=True)
class Attempt:
    """narrow: the operands that are narrow. errors: (blocks, states) of each kind that the goal is about, in units of
    each block's target. ratios: (blocks,), the bound of their quantile. overflow: part of the states of each kind;
    origins: the nodes at which it began. cost: in bits, without a schedule."""

    formatted: FormattedGraph
    narrow: set[Vertex]
    errors: dict[Kind, Array]
    ratios: Array
    overflow: dict[Kind, float]
    origins: Counter[int]
    cost: int

    @property
    def ratio(self) -> float:
        """Of the worst block."""
        return float(max(self.ratios))

    @property
    def overflows(self) -> bool:
        return any(part > OVERFLOWS[kind] for kind, part in self.overflow.items())

    @property
    def meets(self) -> bool:
        return self.ratio <= 1.0 and not self.overflows


class _Search:
    """Attempts, one after the other, each measured on the goal's states."""

    def __init__(
        self,
        graph: Graph,
        region: Region,
        goal: Goal,
        policy: Policy,
        trajectories: Mapping[str, npt.ArrayLike] | None,
    ) -> None:
        self.graph, self.region, self.goal = graph, region, goal
        self.policy = replace(policy, word=goal.dsp.wide)
        inputs = sampled_states(graph, region, self.policy, trajectories)
        self.ranges = sampled_ranges(graph, inputs)
        self.targets = np.array([goal.of(port.name) for port in graph.outputs])
        self.floors = block_floors(graph, region, goal)
        counts = {kind: goal.states if kind in goal.kinds else max(goal.states // 4, 1) for kind in KINDS}
        self.states = {kind: region.states(graph, count, goal.seed, kind) for kind, count in counts.items()}
        self.expected = {kind: evaluate(graph, inputs) for kind, inputs in self.states.items()}
        some = {key: value[:SENSITIVITY_STATES] for key, value in inputs.items()}
        self.sizes = np.array([float(np.mean(np.square(v))) for v in evaluate_nodes(graph, some)])
        self.first_sensitivity = self._sensitivities([some] * len(self.targets), draws=1, seed=0)

    def widest(self) -> FormattedGraph:
        """The widest words for all. Raises AccuracyError where they do not meet the goal."""
        for _ in range(WIDENINGS):
            formatted = assign_word(self.graph, self.region, self.ranges, self.policy)
            attempt = self._measured(formatted, set())
            if not attempt.overflows:
                break
            self._widen(attempt.origins)
        goal = self.goal
        if attempt.overflows:
            raise AccuracyError(
                f"words of {goal.dsp.wide} bits overflow in {max(attempt.overflow.values()):.1%} of the states, "
                f"beginning at {names_of(self.graph, attempt.origins)}"
            )
        if attempt.ratio > 1.0:
            k = int(np.argmax(attempt.ratios))
            block = self.graph.outputs[k].name
            noise = self.first_sensitivity[k] * [variance(formatted, i) for i in range(len(self.graph))]
            raise AccuracyError(
                f"words of {goal.dsp.wide} bits give {block} an error of {attempt.ratio * self.targets[k]:.1e} in "
                f"{goal.quantile:.1%} of the states; {self.targets[k]:.1e} was asked for, and node "
                f"'{self.graph.nodes[int(np.argmax(noise))].name}' adds most of it"
            )
        return formatted

    def attempts(self, shared: int, spare: float, aim: float) -> Iterator[Attempt]:
        """Attempts that come ever nearer to this part of the target. shared, spare: as in `Within.formats`."""
        weights = np.ones(len(self.targets))  # by block, of its noise
        sensitivities, narrow = self.first_sensitivity, None
        last, stalled, met = math.inf, 0, False
        for k in range(SETTLING + REFINING):
            settled = k >= SETTLING
            within = Within(self.graph, self.region, self.ranges, self.policy, self.goal.dsp, self.sizes, aim)
            attempt = self._measured(*within.formats(weights @ sensitivities, shared, spare, narrow))
            yield attempt
            ratio = attempt.ratio
            far = ratio > (STUCK if settled else HOPELESS)
            stalled = stalled + 1 if far and ratio > 0.9 * last else 0
            if stalled == 3 or (settled and attempt.meets and ratio >= ENOUGH * aim):
                return
            self._widen(attempt.origins)
            met, last = met or attempt.meets, ratio
            if settled:
                overdue = 0 if met else max(k - SETTLING + 1 - PATIENCE, 0)
                weights = self._reweighted(weights, attempt.ratios / aim, 1 + stalled + overdue, closer=not met)
                continue
            states = [self._worst_states(attempt, block) for block in range(len(self.targets))]
            fresh = self._sensitivities(states, draws=DRAWS, seed=k)
            sensitivities = fresh if k == 0 else 0.5 * (fresh + sensitivities)
            narrow = attempt.narrow if k == SETTLING - 1 else None
            if k > 0:  # the error of the first attempt is in the sensitivities already
                weights = self._reweighted(weights, attempt.ratios / aim, 2, closer=False)

    def cheapest(self, attempts: list[Attempt]) -> Optimised | None:
        """Of the attempts that meet the goal, the cheapest that meets it on fresh states too; of CHECKED at most."""
        meeting = [attempt for attempt in attempts if attempt.meets]
        for attempt in sorted(meeting, key=lambda attempt: attempt.cost)[:CHECKED]:
            if (optimised := self.checked(attempt.formatted)) is not None:
                return optimised
        return None

    def checked(self, formatted: FormattedGraph) -> Optimised | None:
        """The formats with what fresh states say of them, or None where they do not keep the goal there."""
        statement = state(formatted, self.region, self.goal)
        return Optimised(formatted, statement) if not any(statement.faults(self.goal)) else None

    def promised(self, formatted: FormattedGraph) -> Optimised:
        """The same, or AccuracyError."""
        statement = state(formatted, self.region, self.goal)
        for fault in statement.faults(self.goal):
            origins = self._measured(formatted, set()).origins
            nodes = f"; overflow begins at {names_of(self.graph, origins)}" if origins else ""
            raise AccuracyError(f"no words of up to {self.goal.dsp.wide} bits keep the goal: {fault}{nodes}")
        return Optimised(formatted, statement)

    def _measured(self, formatted: FormattedGraph, narrow: set[Vertex]) -> Attempt:
        overflow: dict[Kind, float] = {}
        origins: Counter[int] = Counter()
        errors: dict[Kind, Array] = {}
        for kind, inputs in self.states.items():
            result = measured(formatted, inputs, self.expected[kind], self.floors)
            overflow[kind] = float(result.overflow.mean())
            origins += result.origins
            if kind in self.goal.kinds:
                errors[kind] = np.stack(list(result.errors.values())) / self.targets[:, None]
        bounds = [
            [quantile_bound(block, self.goal.quantile, self.goal.confidence) for block in blocks]
            for blocks in errors.values()
        ]
        cost = bits(formatted, self.goal.dsp)
        return Attempt(formatted, narrow, errors, np.max(bounds, axis=0), overflow, origins, cost)

    def _widen(self, origins: Counter[int]) -> None:
        """The nodes at which overflow began in a state, however rare, get a bit more from now on."""
        largest, reach = self.ranges.largest.copy(), self.ranges.reach.copy()
        nodes = list(origins)
        largest[nodes] *= 2.0
        reach[nodes] *= 2.0
        self.ranges = replace(self.ranges, largest=largest, reach=reach)

    @staticmethod
    def _reweighted(weights: Array, missed: Array, power: int, *, closer: bool) -> Array:
        """Weights by how far each block missed its aim, in units of it. closer: never away from it: small graphs jump
        past it."""
        change = np.minimum(missed, 10.0)
        weights = weights * (np.maximum(change, 1.0) if closer else change) ** power
        return np.maximum(weights, max(weights) / 100.0)

    def _sensitivities(self, states: list[dict[str, Array]], *, draws: int, seed: int) -> Array:
        """(blocks, nodes), of every block in states of its own, in units of its target."""
        return np.array(
            [
                sensitivity(self.graph, inputs, port, self.floors[port.name], draws=draws, seed=seed) / target**2
                for inputs, port, target in zip(states, self.graph.outputs, self.targets, strict=True)
            ]
        )

    def _worst_states(self, attempt: Attempt, block: int) -> dict[str, Array]:
        """The states with the largest errors of a block, which the quantile is about."""
        count = math.ceil(TAIL * (1.0 - self.goal.quantile) * self.goal.states)
        worst = np.argsort(-np.concatenate([errors[block] for errors in attempt.errors.values()]))[:count]
        inputs = [self.states[kind] for kind in attempt.errors]
        return {key: np.concatenate([states[key] for states in inputs])[worst] for key in inputs[0]}
