"""Products and sums along kinematic chains, computed one after another or as prefix computations.

A chain of n links takes n combinations and n levels one after another. As a prefix computation it takes about log2(n)
levels and up to n/2 log2(n) combinations (Sklansky, "Conditional-sum addition logic", 1960).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dynagate.base.naming import scope
from dynagate.dynamics.tree import Tree

Item = TypeVar("Item")
Combine = Callable[[Item, Item], Item]


def along(
    parents: Sequence[int],
    items: Sequence[Item],
    combine: Combine[Item],
    scopes: Sequence[tuple[str, ...]],
    *,
    prefix: bool,
) -> list[Item]:
    """Return, for each position, the combination of all items from the first of its chain to its own, in this order.

    Args:
        parents: The position before each position, -1 where a chain begins.
        items: One item per position.
        combine: An associative function of two items.
        scopes: Scope that names the combinations of each position.
        prefix: Whether to compute by halves instead of one after another.
    """
    chain: list[list[int]] = []
    for i, p in enumerate(parents):
        chain.append([*(chain[p] if p >= 0 else ()), i])
    known: dict[tuple[int, int], Item] = {}

    def between(start: int, i: int) -> Item:
        """Return the items of a chain from depth `start` to position i; all positions below share the result."""
        count = len(chain[i]) - start
        if count == 1:
            return items[i]
        if (start, i) not in known:
            middle = start + (1 << (count - 1).bit_length() - 1 if prefix else count - 1)
            first, second = between(start, chain[i][middle - 1]), between(middle, i)
            with scope(*scopes[i]):
                known[start, i] = combine(first, second)
        return known[start, i]

    return [between(0, i) for i in range(len(items))]


def along_links(tree: Tree, items: Sequence[Any], part: str, *, prefix: bool) -> list[Any]:
    """Return, for each link, the sum of the items of its ancestors and its own. `part` names the algorithm."""
    return along(tree.parents, items, operator.add, [(part, f"link{i}") for i in tree.links], prefix=prefix)


def over_subtrees(tree: Tree, items: Sequence[Any], part: str, *, prefix: bool) -> list[Any]:
    """Return, for each link, the sum of the items of all links that it moves. `part` names the algorithm."""
    totals = list(items)
    children: list[list[int]] = [[] for _ in tree.links]
    for i in reversed(tree.links):
        if len(children[i]) != 1:  # the last link of a chain without branches
            for c in children[i]:
                totals[i] = totals[i] + totals[c]
            stretch = [i]
            while (p := tree.parents[stretch[-1]]) >= 0 and tree.parents.count(p) == 1:
                stretch.append(p)
            parents, scopes = range(-1, len(stretch) - 1), [(part, f"link{k}") for k in stretch]
            sums = along(parents, [totals[k] for k in stretch], operator.add, scopes, prefix=prefix)
            for k, total in zip(stretch, sums, strict=True):
                totals[k] = total
        if tree.parents[i] >= 0:
            children[tree.parents[i]].append(i)
    return totals
