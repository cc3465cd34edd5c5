"""Choose the expression frames of the closed-form gradients by counting operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dynagate.algorithms import Tree
from dynagate.algorithms.frames import chains
from dynagate.graph.graph import Graph
from dynagate.robot import Robot


def fewest_operations(robot: Robot, gradient: Callable[[Robot, int], Graph]) -> dict[int, int]:
    """First link of each chain -> the link (-1: the base) in whose frame the chain's gradient takes fewest operations.

    Chains that hang from the base do not meet, so each is tried on its own: gradient(chain, link) traces it.
    """
    found: dict[int, int] = {}
    known: dict[Robot, int] = {}
    for first, members in chains(Tree(robot)).items():
        place = {-1: -1, **{link: k for k, link in enumerate(members)}}
        links = tuple(replace(robot.links[i], parent=place[robot.links[i].parent]) for i in members)
        chain = replace(robot, links=links)
        if chain not in known:
            known[chain] = min(range(-1, len(members)), key=lambda k: (_operations(gradient(chain, k)), k))
        best = known[chain]
        found[first] = members[best] if best >= 0 else -1
    return found


def _operations(graph: Graph) -> int:
    counts = graph.counts()
    return counts.products + counts.add + counts.neg
