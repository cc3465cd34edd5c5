"""Choose formats within a noise budget: 18-bit operands of products, and word lengths with equal noise for the other
nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from dynagate.base.arrays import Floats
from dynagate.fixedpoint.assign import LARGEST_WORD, Policy, WordLengths, assign_word, fixed_factor, frac_for
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.operations import FIXED, Unit
from dynagate.fixedpoint.ranges.sampled import Ranges
from dynagate.fixedpoint.wordlength.goal import Multiplier
from dynagate.fixedpoint.wordlength.narrow import Vertex, cheapest_cover
from dynagate.fixedpoint.wordlength.noise import variance
from dynagate.graph import OPS, Graph
from dynagate.graph.ops import PRODUCTS, TRIG
from dynagate.graph.region import Region

DEAR = 1e4
"""Price of cutting a divisor or its inverse to 18 bits: they share a unit, so all of them would have to be cut."""

SPARED = 1e-3
"""Price of a second DSP block for a product, as a share of the noise budget."""

SHORTEST = 6
"""Shortest word length in bits."""

TRIES, CLOSE = 4, 0.03
"""Relative difference to the budget at which these iterations end."""


@dataclass(frozen=True)
class NoiseBudget:
    """Choice of formats within a noise budget."""

    graph: Graph
    region: Region
    ranges: Ranges
    policy: Policy
    dsp: Multiplier
    """Multiplier block of the target."""
    mean_squares: Floats
    """Mean square of every node's values, (nodes,)."""
    noise: float
    """The budget: sum of weight × variance over all nodes."""

    def formats(
        self, weight: Floats, shared: int, spare: float, narrow: set[Vertex] | None
    ) -> tuple[FormattedGraph, set[Vertex]]:
        """Return formats whose predicted noise equals the budget, or is as near as the 18-bit operands allow, and these
        operands.

        Args:
            weight: Factor of each node's error variance in the budget, (nodes,).
            shared: Word length of nodes that share a sine or reciprocal unit.
            spare: Share of the products that may take more than one DSP block.
            narrow: The 18-bit operands; None to choose them.
        """
        graph, dsp, each = self.graph, self.dsp, weight * self._unit
        if narrow is None:
            words = np.where(self._one_format, shared, self._equal_noise(each, self.noise))
            edges, price = self._products(weight, words)
            narrow = cheapest_cover(edges, price, int(spare * len(edges)), SPARED)
        longest = np.where([i in narrow for i in range(len(graph))], dsp.narrow, dsp.wide)
        constants = [i for i, node in enumerate(graph.nodes) if OPS[node.op].constant == "factor"]
        widths = {i: dsp.narrow if ("constant", i) in narrow else dsp.wide for i in constants}
        budget = self.noise
        for _ in range(TRIES):
            words = np.where(self._one_format, shared, self._equal_noise(each, budget))
            words = np.minimum(words, longest).astype(int)
            # nodes on a shared unit keep its width; others may grow to the width of their multiplier operand
            most = np.where(self._one_format, words, longest)
            lengths = WordLengths(words.tolist(), most.tolist(), widths)
            formatted = assign_word(graph, self.region, self.ranges, self.policy, lengths)
            # a node whose operands are no finer adds no noise, which leaves more of the budget to the others
            predicted = sum(float(weight[i]) * variance(formatted, i) for i in range(len(graph)))
            if abs(predicted / self.noise - 1.0) < CLOSE:
                break
            budget *= min(max(self.noise / predicted, 0.1), 10.0) if predicted > 0.0 else 1.0
        return formatted, narrow

    def _products(self, weight: Floats, words: Floats) -> tuple[list[tuple[Vertex, Vertex]], dict[Vertex, float]]:
        """Return the two factors of every product, and the noise that each factor adds if it is cut to 18 bits.

        words: word lengths of the factors otherwise.
        """
        root, narrow = self.graph.roots, self.dsp.narrow
        divisions = {
            x
            for i, node in enumerate(self.graph.nodes)
            if self._shares_unit(i) and node.op not in TRIG
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
                price["constant", i] = float(weight[i] * self.mean_squares[root[node.args[0]]] * error**2)
                factors.append(("constant", i))
            edges.append((factors[0], factors[1]))
        return edges, price

    def _equal_noise(self, noise: Floats, budget: float) -> Floats:
        """Return word lengths with which every node adds the same share of the budget.

        noise: noise of each node with a word of no bits; each further bit divides it by four.
        """
        free = np.flatnonzero((noise > 0.0) & ~self._one_format)
        per_node = budget / max(len(free), 1)
        words = np.full(len(noise), float(SHORTEST))
        words[free] = np.clip(np.ceil(0.5 * np.log2(noise[free] / per_node)), SHORTEST, self.dsp.wide)
        return words

    @cached_property
    def _one_format(self) -> npt.NDArray[np.bool_]:
        """Return which nodes are operands or results of a shared sine or reciprocal unit, and so have its width."""
        shared = np.zeros(len(self.graph), dtype=bool)
        for i, node in enumerate(self.graph.nodes):
            if self._shares_unit(i):
                shared[i] = True
                shared[list(node.args)] = True
        return shared

    def _shares_unit(self, i: int) -> bool:
        """Return whether a shared unit computes node i."""
        node = self.graph.nodes[i]
        unit = FIXED[node.op].meaning
        if not isinstance(unit, Unit):
            return False
        if unit.own_octaves is None:
            return True
        octaves = self._integer[i] + self._integer[node.args[0]] - 2  # less the signs
        return octaves > unit.own_octaves

    @cached_property
    def _integer(self) -> list[int]:
        """Return the bits before the binary point of every node, with the sign."""
        return [LARGEST_WORD - frac_for(self._reach(i), LARGEST_WORD) for i in range(len(self.graph))]

    @cached_property
    def _unit(self) -> Floats:
        """Return the rounding variance of every node with a word of no bits."""
        return 4.0 ** np.array(self._integer, dtype=float) / 12.0

    def _reach(self, i: int) -> float:
        """Return the magnitude that node i's format must hold."""
        ranges, guard = self.ranges, self.policy.guard_bits
        op = self.graph.nodes[i].op
        if op == "input" or FIXED[op].most:
            magnitude = float(ranges.largest[i])
        else:
            magnitude = float(ranges.reach[i] if guard is None else ranges.largest[i] * 2.0**guard)
        return max(magnitude, 2.0**-40)
