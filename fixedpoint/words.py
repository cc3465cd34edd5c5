"""Word lengths of the fewest bits for a noise: node by node, what its last bit costs against what it brings.

Where to round is found with them. A product that the sum behind it rounds in any case may keep its bits, and a sum
whose operands have no finer steps than its own rounds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.noise import ELEMENTARY
from dynagate.graph import OPS, Graph

SHORTEST = 6
SWEEPS, PRICES = 3, 6
"""Over all nodes at one price of the noise, at most; and prices tried."""

CLOSE = 0.02
"""As near to the noise that is allowed."""


class Words:
    """Fraction bits of every node; a shift has its operand's, moved.

    integer: bits before the binary point, by node. weight: what the variance of an error in a node counts.
    factors: fraction bits of the constants of products, by node.
    """

    def __init__(
        self, graph: Graph, integer: Sequence[int], weight: npt.NDArray[np.float64], factors: Mapping[int, int]
    ):
        self.graph, self.integer = graph, integer
        self.weight = [float(w) / 12.0 for w in weight]
        self.frac = [0] * len(graph)
        self.price = 0.0
        root, moved = graph.roots, [0] * len(graph)
        for i, node in enumerate(graph.nodes):
            if node.op == "shift":
                moved[i] = moved[node.args[0]] - int(node.constant or 0)
        # by node: (root, binary point against it) of the operands; the constant's fraction bits of a product
        self.reads = [[(root[a], moved[a]) for a in node.args] for node in graph.nodes]
        self.factor = factors
        self.users: list[list[int]] = [[] for _ in graph.nodes]
        for i, node in enumerate(graph.nodes):
            for a in {a for a, _ in self.reads[i] if node.op != "shift"}:
                self.users[a].append(i)
        self.divisors = {a for node in graph.nodes if node.op == "reciprocal" for a in node.args}
        self.multiplies = [OPS[node.op].unit == "multiply" for node in graph.nodes]
        self.sums = [OPS[node.op].unit == "add" for node in graph.nodes]

    def shortest(self, words: Sequence[int], limits: Sequence[int], movable: Sequence[int], noise: float) -> list[int]:
        """Words of about so much noise in all, from the given ones; those of nodes that are not movable stay."""
        self.frac = [word - whole for word, whole in zip(words, self.integer, strict=True)]
        longest = [limit - whole for limit, whole in zip(limits, self.integer, strict=True)]
        self.price = 0.5 / math.log(2.0) * len(movable) / noise
        for _ in range(PRICES):
            for sweep in range(SWEEPS):
                order = movable if sweep % 2 else reversed(movable)
                if sum(self._moved(i, longest[i]) for i in order) <= len(movable) // 200:
                    break
            self._clip()
            now = self.noise()
            if abs(now / noise - 1.0) < CLOSE:
                break
            self.price *= now / noise
        return [frac + whole for frac, whole in zip(self.frac, self.integer, strict=True)]

    def noise(self) -> float:
        """Of all roundings, by weight."""
        return sum(self._variance(i, self.frac[i]) for i in range(len(self.frac)))

    def _finest(self, i: int) -> int | None:
        """Fraction bits of the exact result; None of what is not a sum or a product."""
        frac, reads = self.frac, self.reads[i]
        if self.multiplies[i]:
            return sum(frac[a] + moved for a, moved in reads) + self.factor.get(i, 0)
        return max(frac[a] + moved for a, moved in reads) if self.sums[i] else None

    def _variance(self, i: int, frac: int) -> float:
        finest = self._finest(i)
        if finest is None:
            op = self.graph.nodes[i].op
            return (
                0.0
                if op in ("shift", "const")
                else self.weight[i] * 4.0**-frac * (1.0 if op == "input" else ELEMENTARY)
            )
        return self.weight[i] * (4.0**-frac - 4.0**-finest) if frac < finest else 0.0

    def _cost(self, i: int, frac: int) -> float:
        """Bits, and noise at its price."""
        finest = self._finest(i)
        if finest is not None and finest < frac and i not in self.divisors:
            frac = finest
        return frac + self.price * self._variance(i, frac)

    def _moved(self, i: int, longest: int) -> bool:
        """Node i has the word, one bit shorter or longer or as it is, with which it and what reads it cost least."""
        frac, now = self.frac, self.frac[i]
        best, least = now, math.inf
        for candidate in (now, now - 1, now + 1):
            if candidate > longest or candidate + self.integer[i] < SHORTEST:
                continue
            frac[i] = candidate
            cost = self._cost(i, candidate) + sum(self._cost(u, frac[u]) for u in self.users[i])
            if cost < least - 1e-9:
                best, least = candidate, cost
        frac[i] = best
        return best != now

    def _clip(self) -> None:
        """Bits below what the operands have would be zeros."""
        for i, node in enumerate(self.graph.nodes):
            finest = self._finest(i)
            if finest is not None and node.op != "add_const" and i not in self.divisors:
                self.frac[i] = min(self.frac[i], finest)
