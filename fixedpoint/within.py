"""Formats for a noise: what is narrow, and words with which all others add as much."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.assign import (
    LARGEST_WORD,
    FormattedGraph,
    Policy,
    WordLengths,
    assign_word,
    fixed_factor,
    frac_for,
)
from dynagate.fixedpoint.goal import Multiplier
from dynagate.fixedpoint.integers import FIXED
from dynagate.fixedpoint.narrow import Vertex, cheapest_cover
from dynagate.fixedpoint.noise import variance
from dynagate.fixedpoint.ranges import Ranges
from dynagate.graph import OPS, Graph
from dynagate.graph.ops import PRODUCTS, TRIG
from dynagate.graph.region import Region

Array = npt.NDArray[np.float64]

DEAR = 1e4
"""Price of narrowing a divisor or its inverse: all of them share a unit, and so a width."""

SPARED = 1e-3
"""Noise, of all that is allowed, that it takes to give a product a second block."""

SHORTEST = 6
TRIES, CLOSE = 4, 0.03
"""For words of the noise that is allowed, and how near is near enough."""


@dataclass(frozen=True)
class Within:
    """sizes: mean square of every node. noise: how much is allowed in all."""

    graph: Graph
    region: Region
    ranges: Ranges
    policy: Policy
    dsp: Multiplier
    sizes: Array
    noise: float

    def formats(
        self, weight: Array, shared: int, spare: float, narrow: set[Vertex] | None
    ) -> tuple[FormattedGraph, set[Vertex]]:
        """Formats whose predicted noise is what is allowed, or as near as the narrow operands let it come, and what is
        narrow. weight: what the variance of an error in a node counts. shared: the word of what shares a sine or
        reciprocal unit. spare: part of the products that may take more than one block. narrow: if that is known."""
        graph, dsp, each = self.graph, self.dsp, weight * self._unit
        if narrow is None:
            words = np.where(self._one_format, shared, self._alike(each, self.noise))
            edges, price = self._products(weight, words)
            narrow = cheapest_cover(edges, price, int(spare * len(edges)), SPARED)
        longest = np.where([i in narrow for i in range(len(graph))], dsp.narrow, dsp.wide)
        constants = [i for i, node in enumerate(graph.nodes) if OPS[node.op].constant == "factor"]
        widths = {i: dsp.narrow if ("constant", i) in narrow else dsp.wide for i in constants}
        budget = self.noise
        for _ in range(TRIES):
            words = np.where(self._one_format, shared, self._alike(each, budget))
            words = np.minimum(words, longest).astype(int)
            # shared units have one width; other nodes may grow up to their operand of a multiplier
            most = np.where(self._one_format, words, longest)
            lengths = WordLengths(words.tolist(), most.tolist(), widths)
            formatted = assign_word(graph, self.region, self.ranges, self.policy, lengths)
            # what has no finer operands rounds nothing: the others may add more
            now = sum(float(weight[i]) * variance(formatted, i) for i in range(len(graph)))
            if abs(now / self.noise - 1.0) < CLOSE:
                break
            budget *= min(max(self.noise / now, 0.1), 10.0) if now > 0.0 else 1.0
        return formatted, narrow

    def _products(self, weight: Array, words: Array) -> tuple[list[tuple[Vertex, Vertex]], dict[Vertex, float]]:
        """The factors of every product, and the noise of having each of them narrow. words: what they are otherwise."""
        root, narrow = self.graph.roots, self.dsp.narrow
        divisions = {
            x
            for i, node in enumerate(self.graph.nodes)
            if FIXED[node.op].shares_unit and node.op not in TRIG
            for x in (i, *node.args)
        }
        price: dict[Vertex, float] = {}
        edges: list[tuple[Vertex, Vertex]] = []
        for i, node in enumerate(self.graph.nodes):
            if node.op not in PRODUCTS:
                continue
            factors: list[Vertex] = [root[x] for x in node.args]
            for x in [root[x] for x in node.args]:
                price[x] = 0.0 if words[x] <= narrow else float(weight[x] * self._unit[x] * 4.0**-narrow)
                if x in divisions:
                    price[x] = DEAR
            if node.constant is not None:
                value, fmt = fixed_factor(node.constant, narrow)
                error = value * fmt.step - node.constant
                price["constant", i] = float(weight[i] * self.sizes[root[node.args[0]]] * error**2)
                factors.append(("constant", i))
            edges.append((factors[0], factors[1]))
        return edges, price

    def _alike(self, noise: Array, budget: float) -> Array:
        """Words with which every node adds the same noise and all together the budget; noise: of a word of no bits."""
        free = np.flatnonzero((noise > 0.0) & ~self._one_format)
        share = budget / max(len(free), 1)
        words = np.full(len(noise), float(SHORTEST))
        words[free] = np.clip(np.ceil(0.5 * np.log2(noise[free] / share)), SHORTEST, self.dsp.wide)
        return words

    @cached_property
    def _one_format(self) -> npt.NDArray[np.bool_]:
        """Nodes that share a sine or reciprocal unit with others, and so a width: wide, or narrow, nothing between."""
        found = np.zeros(len(self.graph), dtype=bool)
        for i, node in enumerate(self.graph.nodes):
            if FIXED[node.op].shares_unit:
                found[i] = True
                found[list(node.args)] = True
        return found

    @cached_property
    def _integer(self) -> list[int]:
        """Bits before the binary point of every node."""
        return [LARGEST_WORD - frac_for(self._reach(i), LARGEST_WORD) for i in range(len(self.graph))]

    @cached_property
    def _unit(self) -> Array:
        """Variance of a rounding in words of no bits."""
        return 4.0 ** np.array(self._integer, dtype=float) / 12.0

    def _reach(self, i: int) -> float:
        ranges, guard = self.ranges, self.policy.guard_bits
        op = self.graph.nodes[i].op
        if op == "input" or FIXED[op].most:
            found = float(ranges.largest[i])
        else:
            found = float(ranges.reach[i] if guard is None else ranges.largest[i] * 2.0**guard)
        return max(found, 2.0**-40)
