"""Optimize word lengths: find the cheapest formats that meet an accuracy goal.

A DSP48E2 multiplies 27 × 18 bits, so one operand of every product gets at most 18 bits (`wordlength.narrow`). The other
nodes share the remaining noise budget equally, so that one more bit costs the same accuracy everywhere
(`wordlength.noise_budget`). The integer model measures every attempt. Its errors weight the noise of the next attempt,
and nodes that overflow get wider ranges. The cheapest attempt that meets the goal is checked on fresh states, which had
no part in the choice.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from dynagate.base.arguments import is_number
from dynagate.base.arrays import Floats
from dynagate.base.errors import ArgumentError, Error
from dynagate.fixedpoint.assign import Policy, assign_word, sampled_states
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.ranges.sampled import sampled_ranges
from dynagate.fixedpoint.wordlength.confidence import (
    OVERFLOWS,
    Statement,
    block_floors,
    measured,
    names_of,
    quantile_bound,
    state,
)
from dynagate.fixedpoint.wordlength.goal import Goal, bits
from dynagate.fixedpoint.wordlength.narrow import Vertex
from dynagate.fixedpoint.wordlength.noise import sensitivity, variance
from dynagate.fixedpoint.wordlength.noise_budget import NoiseBudget
from dynagate.graph import Graph
from dynagate.graph.critical_path import late_terms_last
from dynagate.graph.evaluate import evaluate, evaluate_nodes
from dynagate.graph.region import KINDS, Kind, Region

SETTLING, REFINING = 6, 12
"""Largest number of attempts after them, in which only the weights of the output blocks change."""
HOPELESS, STUCK = 4.0, 1.2
"""Stop early: if three attempts in a row bring no improvement, give up at this many times the target or more.

The first value applies while the 18-bit operands still change, the second afterwards.
"""

PATIENCE = 3
"""Number of refining attempts that may miss the target before the weights change faster."""

SHARED = 24
"""Word length of angles, sines, cosines, divisors and inverses that is tried before the widest one.

A reciprocal of up to 25 bits needs a single Newton step.
"""

TAIL = 10.0
"""Number of states for sensitivities, per state above the goal's quantile. They are the states with the largest
errors.
"""

DRAWS = 8
"""Number of random sign vectors for each of these states."""

SENSITIVITY_STATES = 512
"""Number of states for the sensitivities of the first attempt."""

AIMS = (0.985, 0.7, 0.4)
"""Shares of the target to aim at, tried in order.

Fresh states may have larger errors than the states of the search, most of all with short words, where one bit changes
an error considerably.
"""

ENOUGH = 0.985
"""Share of its aim at which a search ends."""

WIDENINGS = 4
"""Largest number of rounds in which the ranges of nodes that overflow with the widest words are widened."""

CHECKED = 6
"""Largest number of attempts that are checked on fresh states, the cheapest first."""


class AccuracyError(Error, ValueError):
    """No formats of the allowed word lengths meet the goal. The text has the error that is reached and the node that
    limits it.
    """


@dataclass(frozen=True)
class Optimized:
    """Formats that meet an accuracy goal."""

    formatted: FormattedGraph
    """Graph with formats."""
    statement: Statement
    """Errors and overflows on fresh states."""

    @property
    def error(self) -> float:
        """Return the error of the worst output block at the goal's quantile, with its confidence."""
        return self.statement.worst[0]


def optimize(
    graph: Graph,
    region: Region,
    goal: Goal,
    policy: Policy | None = None,
    trajectories: Mapping[str, npt.ArrayLike] | None = None,
    number: str | None = None,
) -> Optimized:
    """Find formats that meet a goal on fresh states, and overflow in at most a share OVERFLOWS of them.

    Args:
        graph: The graph.
        region: Operating region.
        goal: Accuracy goal.
        policy: Guard bits, samples of the ranges, and arithmetic; its word length is not used.
        trajectories: Inputs (states, ...) by name that the formats must hold, as in `assign`.
        number: Type that streams round results to, "float32", or None. Errors are those of the rounded results.

    Returns:
        The graph with late terms last (`graph.critical_path`), its formats, and their statement.

    Raises:
        AccuracyError: The widest words do not meet the goal.
        ArgumentError: The goal names an unknown block.
    """
    names = [port.name for port in graph.outputs]
    for name in () if is_number(goal.error) else goal.error:
        if name not in names:
            raise ArgumentError(
                f"an error for block '{name}'; expected one of {', '.join(names)}", code="DG-FORMAT-041"
            )
    search = WordLengthSearch(
        late_terms_last(graph), region, goal, policy or Policy(guard_bits=None), trajectories, number
    )
    widest = search.widest()
    for spare in (goal.spare, *(more for more in (0.3, 1.0) if more > goal.spare)):
        for aim in AIMS:
            nearest, met = math.inf, True
            for shared in (SHARED, SHARED, goal.dsp.wide):
                if shared == SHARED and not met:
                    continue  # a second time only if fresh states have widened ranges
                attempts = list(search.attempts(shared, spare, aim))
                met = any(attempt.meets for attempt in attempts)
                nearest = min(nearest, *(attempt.ratio for attempt in attempts))
                if (optimized := search.cheapest(attempts)) is not None:
                    return optimized
            if nearest > STUCK:
                break  # a lower aim comes no nearer
    return search.promised(widest)


@dataclass(frozen=True)
class Attempt:
    """Formats and their measurement on the states of the search."""

    formatted: FormattedGraph
    narrow: set[Vertex]
    """The 18-bit operands."""
    errors: dict[Kind, Floats]
    """Errors (blocks, states) in units of each block's target, by kind of states that the goal covers."""
    ratios: Floats
    """Bound of the errors' quantile, (blocks,)."""
    overflow: dict[Kind, float]
    """Share of the states in which a node overflowed, by kind of states."""
    origins: Counter[int]
    """Number of states in which overflow began at a node, by node."""
    cost: int
    """Cost in bits, estimated without a schedule."""

    @property
    def ratio(self) -> float:
        """Return the error of the worst block, in units of its target."""
        return float(max(self.ratios))

    @property
    def overflows(self) -> bool:
        """Return whether too many states overflow."""
        return any(part > OVERFLOWS[kind] for kind, part in self.overflow.items())

    @property
    def meets(self) -> bool:
        """Return whether the attempt meets the goal on the states of the search."""
        return self.ratio <= 1.0 and not self.overflows


class WordLengthSearch:
    """A sequence of attempts, each measured on the goal's states."""

    def __init__(
        self,
        graph: Graph,
        region: Region,
        goal: Goal,
        policy: Policy,
        trajectories: Mapping[str, npt.ArrayLike] | None,
        number: str | None,
    ) -> None:
        self.graph, self.region, self.goal, self.number = graph, region, goal, number
        self.policy = replace(policy, word=goal.dsp.wide)
        inputs = sampled_states(graph, region, self.policy, trajectories)
        self.ranges = sampled_ranges(graph, inputs)
        self.draws = 0
        self.targets = np.array([goal.of(port.name) for port in graph.outputs])
        self.floors = block_floors(graph, region, goal)
        counts = {kind: goal.states if kind in goal.kinds else max(goal.states // 4, 1) for kind in KINDS}
        self.states = {kind: region.states(graph, count, goal.seed, kind) for kind, count in counts.items()}
        self.expected = {kind: evaluate(graph, inputs) for kind, inputs in self.states.items()}
        some = {key: value[:SENSITIVITY_STATES] for key, value in inputs.items()}
        self.mean_squares = np.array([float(np.mean(np.square(v))) for v in evaluate_nodes(graph, some)])
        self.first_sensitivity = self._sensitivities([some] * len(self.targets), draws=1, seed=0)

    def widest(self) -> FormattedGraph:
        """Return formats of the widest word length for all nodes. Raise AccuracyError if they do not meet the goal."""
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
                f"beginning at {names_of(self.graph, attempt.origins)}",
                code="DG-FORMAT-042",
            )
        if attempt.ratio > 1.0:
            k = int(np.argmax(attempt.ratios))
            block = self.graph.outputs[k].name
            noise = self.first_sensitivity[k] * [variance(formatted, i) for i in range(len(self.graph))]
            raise AccuracyError(
                f"words of {goal.dsp.wide} bits{self._rounding()} give {block} an error of "
                f"{attempt.ratio * self.targets[k]:.2e} in "
                f"{goal.quantile:.1%} of the states; the goal is {self.targets[k]:.1e}, and node "
                f"'{self.graph.nodes[int(np.argmax(noise))].name}' adds most of it",
                code="DG-FORMAT-043",
            )
        return formatted

    def attempts(self, shared: int, spare: float, aim: float) -> Iterator[Attempt]:
        """Yield attempts that approach a share `aim` of the target. shared, spare: as in `NoiseBudget.formats`."""
        weights = np.ones(len(self.targets))  # of the noise of each block
        sensitivities, narrow = self.first_sensitivity, None
        last, stalled, met = math.inf, 0, False
        for k in range(SETTLING + REFINING):
            settled = k >= SETTLING
            within = NoiseBudget(
                self.graph, self.region, self.ranges, self.policy, self.goal.dsp, self.mean_squares, aim
            )
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
            if k > 0:  # the sensitivities already contain the errors of the first attempt
                weights = self._reweighted(weights, attempt.ratios / aim, 2, closer=False)

    def cheapest(self, attempts: list[Attempt]) -> Optimized | None:
        """Return the cheapest attempt that meets the goal on fresh states too; at most CHECKED attempts are tried."""
        meeting = [attempt for attempt in attempts if attempt.meets]
        for attempt in sorted(meeting, key=lambda attempt: attempt.cost)[:CHECKED]:
            if (optimized := self.checked(attempt.formatted)) is not None:
                return optimized
        return None

    def checked(self, formatted: FormattedGraph) -> Optimized | None:
        """Return formats with their statement; None if they do not meet the goal on fresh states.

        If they overflow, ranges grow where overflow began. The next check then draws other states, since these had a
        part in the choice.
        """
        statement = self._stated(formatted)
        if not any(statement.faults(self.goal)):
            return Optimized(formatted, statement)
        self._widen(statement.origins)
        self.draws += 1
        return None

    def promised(self, formatted: FormattedGraph) -> Optimized:
        """Return formats with their statement. Raise AccuracyError if they do not meet the goal on fresh states."""
        statement = self._stated(formatted)
        for fault in statement.faults(self.goal):
            nodes = f"; overflow begins at {names_of(self.graph, statement.origins)}" if statement.origins else ""
            widest = f"{self.goal.dsp.wide} bits{self._rounding()}"
            raise AccuracyError(f"no word lengths up to {widest} meet the goal: {fault}{nodes}", code="DG-FORMAT-044")
        return Optimized(formatted, statement)

    def _stated(self, formatted: FormattedGraph) -> Statement:
        """Return the statement on fresh states."""
        return state(formatted, self.region, self.goal, draw=self.draws, floors=self.floors, number=self.number)

    def _rounding(self) -> str:
        """Return the rounding of results on streams, for error messages."""
        return "" if self.number is None else f" and results in {self.number}"

    def _measured(self, formatted: FormattedGraph, narrow: set[Vertex]) -> Attempt:
        """Measure formats with the integer model."""
        overflow: dict[Kind, float] = {}
        origins: Counter[int] = Counter()
        errors: dict[Kind, Floats] = {}
        for kind, inputs in self.states.items():
            result = measured(formatted, inputs, self.expected[kind], self.floors, self.number)
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
        """Double the ranges of the nodes at which overflow began."""
        largest, reach = self.ranges.largest.copy(), self.ranges.reach.copy()
        nodes = list(origins)
        largest[nodes] *= 2.0
        reach[nodes] *= 2.0
        self.ranges = replace(self.ranges, largest=largest, reach=reach)

    @staticmethod
    def _reweighted(weights: Floats, missed: Floats, power: int, *, closer: bool) -> Floats:
        """Return the weights of the blocks, multiplied by a power of each block's error over its aim.

        closer: no weight decreases; in small graphs, a lower weight lets an error jump past its target.
        """
        change = np.minimum(missed, 10.0)
        weights = weights * (np.maximum(change, 1.0) if closer else change) ** power
        return np.maximum(weights, max(weights) / 100.0)

    def _sensitivities(self, states: list[dict[str, Floats]], *, draws: int, seed: int) -> Floats:
        """Return sensitivities (blocks, nodes) in units of each block's target. states: states to average over, by
        block.
        """
        return np.array(
            [
                sensitivity(self.graph, inputs, port, self.floors[port.name], draws=draws, seed=seed) / target**2
                for inputs, port, target in zip(states, self.graph.outputs, self.targets, strict=True)
            ]
        )

    def _worst_states(self, attempt: Attempt, block: int) -> dict[str, Floats]:
        """Return the states with the largest errors of a block, which determine its quantile."""
        count = math.ceil(TAIL * (1.0 - self.goal.quantile) * self.goal.states)
        worst = np.argsort(-np.concatenate([errors[block] for errors in attempt.errors.values()]))[:count]
        inputs = [self.states[kind] for kind in attempt.errors]
        return {key: np.concatenate([states[key] for states in inputs])[worst] for key in inputs[0]}
