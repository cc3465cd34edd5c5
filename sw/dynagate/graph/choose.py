"""Choose the expression frames of the closed-form gradients: by counting operations, or by their rounding errors."""

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
"""`graph.trace`, which calls these."""


def _best(robot: Robot, cost: Callable[[Robot, int], float]) -> dict[int, int]:
    """First link of each chain -> the link (-1: the base) of least cost(chain, link).

    Chains that hang from the base do not meet, so each is tried on its own.
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
    """The frames in which the gradient of inverse dynamics takes the fewest operations."""

    def operations(chain: Robot, link: int) -> float:
        counts = trace(chain, "inverse_dynamics_gradient", frame={0: link}).counts()
        return counts.products + counts.add + counts.neg

    return _best(robot, operations)


def most_accurate(robot: Robot, trace: Tracer) -> dict[int, int]:
    """The frames in which the gradient of forward dynamics, with M⁻¹ given, errs least in float32, and so in fixed
    point: relative L2 error over states of any position, speeds up to 2 rad/s and accelerations up to 10 rad/s², the
    larger block."""

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
"""Searches that `frame=` accepts besides the frames of `algorithms.frames`."""

FRAMES = (*NAMED, *FRAME_SEARCHES)
