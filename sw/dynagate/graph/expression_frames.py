"""Choose the expression frame of each chain of links for the closed-form gradients.

One search minimises the number of operations, the other the rounding error in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dynagate.dynamics import tree_of
from dynagate.dynamics.configuration import normalized
from dynagate.dynamics.recursions.poses import NAMED, chains
from dynagate.graph.evaluate import evaluate
from dynagate.graph.graph import Graph
from dynagate.robot import Robot

STATES = 256
SEED = 11

Tracer = Callable[..., Graph]
"""The type of `graph.trace`, which is a parameter here because `trace` calls these searches."""


def _best(robot: Robot, cost: Callable[[Robot, int], float]) -> dict[int, int]:
    """Return the link with the lowest cost for each chain: first link of the chain -> link, -1 for the base.

    Chains that hang from the base do not interact, so each chain is searched separately.
    """
    robot = robot.uncoupled()
    chosen: dict[int, int] = {}
    known: dict[Robot, int] = {}
    for first, members in chains(tree_of(robot)).items():
        place = {-1: -1, **{link: k for k, link in enumerate(members)}}
        links = tuple(replace(robot.links[i], parent=place[robot.links[i].parent]) for i in members)
        chain = replace(robot, links=links, frames=())
        if chain not in known:
            costs = {k: cost(chain, k) for k in range(-1, len(members))}
            known[chain] = min(costs, key=lambda k: (costs[k], k))
        best = known[chain]
        chosen[first] = members[best] if best >= 0 else -1
    return chosen


def fewest_operations(robot: Robot, trace: Tracer) -> dict[int, int]:
    """Return the frames in which the gradient of inverse dynamics takes the fewest operations.

    Args:
        robot: The robot.
        trace: Returns the graph of a function of a robot.

    Returns:
        First link of each chain -> the link whose frame is used, -1 for the base.
    """

    def operations(chain: Robot, link: int) -> float:
        counts = trace(chain, "inverse_dynamics_gradient", frame={0: link}).counts()
        return counts.products + counts.add + counts.neg

    return _best(robot, operations)


def most_accurate(robot: Robot, trace: Tracer) -> dict[int, int]:
    """Return the frames in which the gradient of forward dynamics has the smallest error in float32.

    The error is the relative L2 error of the worse block, for a given M⁻¹, over states of any position, speeds up to 2
    rad/s and accelerations up to 10 rad/s². The best frame in float32 is also the best in fixed point.

    Args:
        robot: The robot.
        trace: Returns the graph of a function of a robot.

    Returns:
        First link of each chain -> the link whose frame is used, -1 for the base.
    """

    def error(chain: Robot, link: int) -> float:
        random = np.random.default_rng(SEED)
        state = {
            "q": random.uniform(-np.pi, np.pi, (STATES, chain.nq)),
            "qd": random.uniform(-2.0, 2.0, (STATES, chain.nv)),
            "qdd": random.uniform(-10.0, 10.0, (STATES, chain.nv)),
        }
        normalized(chain, state["q"])
        state |= evaluate(trace(chain, "mass_matrix_inverse"), {"q": state["q"]})
        graph = trace(chain, "forward_dynamics_gradient_given_minv", frame={0: link})
        single = {key: value.astype(np.float32) for key, value in state.items()}
        rough = evaluate(graph, single)
        exact = evaluate(graph, {key: value.astype(np.float64) for key, value in single.items()})
        return max(float(np.linalg.norm(rough[name] - x) / (np.linalg.norm(x) or 1.0)) for name, x in exact.items())

    return _best(robot, error)


FRAME_SEARCHES = {"fewest": fewest_operations, "accurate": most_accurate}
"""Searches that the option `frame=` accepts in addition to frame names."""

FRAMES = (*NAMED, *FRAME_SEARCHES)
