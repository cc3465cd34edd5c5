"""Word lengths of least cost for an accuracy: bits where the outputs feel them, and one DSP block a product.

A DSP48E2 multiplies 27 × 18 bits, so every product needs a narrow operand (`fixedpoint.narrow`). All other nodes add
the same amount of noise, so that the last bit of each buys as much (`fixedpoint.within`), and what waits long loses the
bits that its late readers do not need (`fixedpoint.late`). How much noise that may be is tried and measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.assign import FormattedGraph, Policy, assign_word, sampled_states
from dynagate.fixedpoint.confidence import measured, quantile_bound
from dynagate.fixedpoint.goal import Goal, bits
from dynagate.fixedpoint.late import Waiting, drop_late, late_gains
from dynagate.fixedpoint.noise import block_gains, crowding, gains, variance
from dynagate.fixedpoint.ranges import sampled_ranges
from dynagate.fixedpoint.within import Within
from dynagate.graph import Graph, Port
from dynagate.graph.evaluate import evaluate, evaluate_nodes
from dynagate.region import Region

Array = npt.NDArray[np.float64]
Waits = Callable[[FormattedGraph], Waiting]

ATTEMPTS, SETTLING = 18, 6
"""Budgets tried, at most: each is corrected by what the one before was measured to give. The first ones also look anew
for what is felt in the states that err most, and for what is narrow."""

STUCK, HOPELESS = 1.2, 4.0
"""Errors, in targets, that three attempts without progress end with: once what is narrow is settled, and before."""

PATIENCE = 3
"""Settled attempts that may all miss the target by little before the next come faster."""

SHARED = 24
"""Word of angles, sines, cosines, divisors and inverses, tried before the widest: a reciprocal of up to 25 bits takes
one Newton step."""

CROWD = 0.2
"""Noise that a node may have in its range, beside the guard bits."""

TAIL = 10.0
"""The noise in so many times the states that the quantile leaves out is what counts."""

DRAWS, LATE_DRAWS = 8, 12
"""Of signs for each of these states, for every node and for late reads."""

LATE_NOISE = 2.0
"""How many times the predicted noise of late reads counts: with 1 less was saved, with 3 no more."""

GAIN_STATES = 512
ROOM = 0.985
"""Part of the target that is aimed at."""

ENOUGH = 0.97
"""Part of the target with which attempts end, where nothing is scheduled."""


class AccuracyError(ValueError):
    """No formats of the allowed words reach the target; the text says what is reachable and which node stops it."""


@dataclass(frozen=True)
class Optimised:
    """formatted: the formats. error: at the goal's quantile and confidence, of the worst block, which is `block`."""

    formatted: FormattedGraph
    error: float
    block: str


def optimise(
    graph: Graph,
    region: Region,
    goal: Goal,
    policy: Policy | None = None,
    trajectories: Mapping[str, npt.ArrayLike] | None = None,
    waits: Waits | None = None,
) -> Optimised:
    """Formats that meet the goal on its states, measured by the integer executor.

    policy: guard bits, samples of the ranges and arithmetic; its word is not used. trajectories: as in `assign`.
    waits: what waits in registers with given formats, by a schedule (`Plan.waiting`); late reads then do without the
    bits that they do not need, and the formats are those of the least cost by it.
    Raises AccuracyError where even the widest words do not, ValueError for an error of a block that is none.
    """
    names = [port.name for port in graph.outputs]
    for name in () if isinstance(goal.error, float | int) else goal.error:
        if name not in names:
            raise ValueError(f"an error for block '{name}'; expected one of {', '.join(names)}")
    search = _Search(graph, region, goal, policy or Policy(guard_bits=None), trajectories, waits)
    fallback = search.widest()
    spares = (goal.spare, *(more for more in (0.3, 1.0) if more > goal.spare))
    tried = (search.cheapest(shared, spare) for spare in spares for shared in (SHARED, goal.dsp.wide))
    return next((found for found in tried if found is not None), fallback)


class _Search:
    """Formats after formats, each measured on the goal's states. Errors are by block, in units of its target."""

    def __init__(
        self,
        graph: Graph,
        region: Region,
        goal: Goal,
        policy: Policy,
        trajectories: Mapping[str, npt.ArrayLike] | None,
        waits: Waits | None,
    ) -> None:
        self.graph, self.region, self.goal, self.waits = graph, region, goal, waits
        self.policy = replace(policy, word=goal.dsp.wide)
        inputs = sampled_states(graph, region, self.policy, trajectories)
        self.ranges = sampled_ranges(graph, inputs)
        some = {key: value[:GAIN_STATES] for key, value in inputs.items()}
        self.targets = np.array([goal.of(port.name) for port in graph.outputs])
        self.felt = gains(graph, some) / self.targets[:, None] ** 2
        self.crowd = crowding(graph, some, self.ranges) / CROWD**2
        sizes = np.array([float(np.mean(np.square(v))) for v in evaluate_nodes(graph, some)])
        self.within = Within(graph, region, self.ranges, self.policy, goal.dsp, sizes, ROOM)
        self.states = region.sample(graph.name, goal.states, goal.seed)
        self.expected = evaluate(graph, self.states)

    def widest(self) -> Optimised:
        """The widest words for all. Raises AccuracyError where they do not meet the goal."""
        formatted = assign_word(self.graph, self.region, self.ranges, self.policy)
        _, ratios = self._errors(formatted)
        found, goal = self._worst(formatted, ratios), self.goal
        if max(ratios) <= 1.0:
            return found
        noise = self.felt.max(axis=0) * [variance(formatted, i) for i in range(len(self.graph))]
        node = self.graph.nodes[int(np.argmax(noise))]
        raise AccuracyError(
            f"words of {goal.dsp.wide} bits give {found.block} an error of {found.error:.1e} in {goal.quantile:.1%} of "
            f"the states; {goal.of(found.block):.1e} was asked for, and node '{node.name}' adds most of it"
        )

    def cheapest(self, shared: int, spare: float) -> Optimised | None:
        """Of the attempts that meet the goal. shared, spare: as in `Within.formats`."""
        best: Optimised | None = None
        least = last = math.inf
        strict = np.ones(len(self.targets))  # by block: its noise counts so many times
        felt, narrow, stalled, met = self.felt, None, 0, False
        errors = np.empty(0)  # of the attempt before
        for attempt in range(ATTEMPTS):
            formatted, narrow = self.within.formats(strict @ felt + self.crowd, shared, spare, narrow)
            if self.waits is None or attempt < SETTLING:
                cost = bits(formatted, self.goal.dsp)
            else:
                least = math.inf if attempt == SETTLING else least  # what it costs is known from now on
                waiting = self.waits(formatted)
                for _ in range(2):  # what is dropped changes the schedule, and that what is worth dropping
                    formatted = self._late(formatted, waiting, errors, strict)
                    waiting = self.waits(formatted)
                cost = waiting.cost
            errors, ratios = self._errors(formatted)
            ratio = max(ratios)
            if ratio <= 1.0 and cost < least:
                best, least = self._worst(formatted, ratios), cost
            far = ratio > (STUCK if attempt >= SETTLING else HOPELESS)
            stalled = stalled + 1 if far and ratio > 0.9 * last else 0
            done = self.waits is None and attempt >= SETTLING and ENOUGH <= ratio <= 1.0
            if stalled == 3 or done:
                break  # as far as narrow operands let it come, or there
            if attempt < SETTLING:
                felt, narrow = self._felt(errors, felt, attempt), None
            if attempt == 0:
                continue  # what it erred is in the gains now
            change = np.minimum(ratios, 10.0) / ROOM
            power = 2
            if attempt >= SETTLING:
                met = met or ratio <= 1.0
                power = 1 + stalled + (0 if met else max(attempt - SETTLING + 1 - PATIENCE, 0))
                if best is None:  # small graphs jump past the target: only come closer
                    change = np.maximum(change, 1.0)
            strict, last = strict * change**power, ratio
            strict = np.maximum(strict, max(strict) / 100.0)
        return best

    def _errors(self, formatted: FormattedGraph) -> tuple[Array, Array]:
        """(blocks, states) of every state, and (blocks,) what the quantile of them is at most."""
        found, _ = measured(formatted, self.states, self.expected)
        errors = np.array([found[port.name] for port in self.graph.outputs]) / self.targets[:, None]
        return errors, np.array([quantile_bound(e, self.goal.quantile, self.goal.confidence) for e in errors])

    def _worst(self, formatted: FormattedGraph, ratios: Array) -> Optimised:
        k = int(np.argmax(ratios))
        return Optimised(formatted, float(ratios[k] * self.targets[k]), self.graph.outputs[k].name)

    def _felt(self, errors: Array, before: Array, seed: int) -> Array:
        """Gains of every block in its worst states; from the second time on the mean with those before."""
        found = np.array(
            [
                block_gains(self.graph, states, port, draws=DRAWS, seed=seed) / target**2
                for port, states, target in self._worst_states(errors)
            ]
        )
        return found if seed == 0 else 0.5 * (found + before)

    def _late(self, formatted: FormattedGraph, waiting: Waiting, errors: Array, strict: Array) -> FormattedGraph:
        """With bits dropped from late reads, where that saves registers. errors: of the attempt before."""
        gain: dict[int, Array] = {}
        for times, (port, states, target) in zip(strict, self._worst_states(errors), strict=True):
            for node, found in late_gains(formatted, states, port, waiting, draws=LATE_DRAWS).items():
                gain[node] = gain.get(node, 0.0) + np.array(found) * times / target**2
        # with all words a bit shorter, all noise were four times as much
        price = LATE_NOISE * 0.5 / math.log(2.0) * waiting.registers / ROOM
        return drop_late(formatted, waiting, gain, price)

    def _worst_states(self, errors: Array) -> list[tuple[Port, dict[str, Array], float]]:
        """By block the states that it errs most in, which the quantile is about, and its target."""
        count = math.ceil(TAIL * (1.0 - self.goal.quantile) * self.goal.states)
        most = [np.argsort(-error)[:count] for error in errors]
        states = [{key: value[k] for key, value in self.states.items()} for k in most]
        return list(zip(self.graph.outputs, states, map(float, self.targets), strict=True))
