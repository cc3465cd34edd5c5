"""States of a robot that rigid ground allows, for number formats: no point is below the ground, and many touch it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.dynamics.configuration import integrated, normalized
from dynagate.dynamics.recursions.poses import poses
from dynagate.dynamics.spatial import array
from dynagate.dynamics.tree import Tree
from dynagate.forces.contact import ContactError
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.graph.recorder import Recording
from dynagate.integrators.implicit.contact_pairs import contact_rows, drawn_configurations, links_of
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.robot import Robot

DEPTH = 1e-3
"""m: largest depth of a point below the ground."""

STEPS, LONGEST = 8, 0.3
"""Newton steps that bring points to the ground, and the largest change of a coordinate in each, rad or m."""

HALVINGS = 30
"""Halvings of the way from a configuration below the ground to one above it."""


def touching(robot: Robot, contact: RigidContact, q: Floats, ends: tuple[Floats, Floats], seed: int) -> Floats:
    """Return configurations near q of which no point is more than DEPTH below the ground.

    Newton's method brings a random half of the points of each configuration to the ground. A configuration with points
    below the ground is replaced by the one where they touch it on the way to another configuration.

    Args:
        robot: The robot.
        contact: The points and the ground.
        q: Configurations (count, nq), rad or m.
        ends: Lower and upper limits (nq,), rad or m.
        seed: Seed of the choice of points.

    Returns:
        Configurations (count, nq).

    Raises:
        ContactError: A point is on no link of the robot, or no configuration is above the ground.
    """
    graph, random = _gaps_graph(robot, contact), np.random.default_rng([seed, 7])
    aimed = random.random((len(q), contact.pairs)) < 0.5
    depth = random.uniform(0.0, DEPTH, (len(q), 1))
    moved = q.copy()
    for _ in range(STEPS):
        values = evaluate(graph, {"q": moved})
        left = np.where(aimed, values["gaps"] + depth, 0.0)
        rows = values["normals"] * aimed[:, :, None]
        change = -np.einsum("bic,bc->bi", np.linalg.pinv(rows, rcond=1e-3), left)
        longest = np.abs(change).max(axis=1, initial=0.0, keepdims=True)
        moved = integrated(robot, moved, change * np.minimum(1.0, LONGEST / np.maximum(longest, LONGEST)))
        moved = normalized(robot, np.clip(moved, *ends))
    bad = ~(_lowest(graph, moved) >= -DEPTH * 1.01)
    moved[bad] = q[bad]
    return _above(robot, graph, moved, ends, depth[:, 0])


def _above(robot: Robot, graph: Graph, q: Floats, ends: tuple[Floats, Floats], depth: Floats) -> Floats:
    """Return configurations with those below the ground moved towards others until their lowest point is at `depth`."""
    bad = np.flatnonzero(~(_lowest(graph, q) >= -DEPTH * 1.01))
    if not len(bad):
        return q
    others = np.concatenate([q, drawn_configurations(robot, *ends)])
    others = others[_lowest(graph, others) >= 0.0]
    if not len(others):
        raise ContactError(
            f"points of robot '{robot.name}' are below the ground in all of {len(q)} configurations within its limits; "
            "expected ground that the robot can be above",
            code="DG-CONTACT-013",
        )
    safe, result = others[np.resize(np.arange(len(others)), len(bad))], q.copy()
    low, high = np.zeros(len(bad)), np.ones(len(bad))
    for _ in range(HALVINGS):
        share = 0.5 * (low + high)
        here = normalized(robot, safe + share[:, None] * (q[bad] - safe))
        is_above = _lowest(graph, here) >= -depth[bad]
        low, high = np.where(is_above, share, low), np.where(is_above, high, share)
    result[bad] = normalized(robot, safe + low[:, None] * (q[bad] - safe))
    return result


def _lowest(graph: Graph, q: Floats) -> Floats:
    """Return the smallest gap (count,) of configurations."""
    if not len(q):
        return np.zeros(0)
    return np.asarray(evaluate(graph, {"q": q})["gaps"].min(axis=1))


@lru_cache(maxsize=8)
def _gaps_graph(robot: Robot, contact: RigidContact) -> Graph:
    """Return the graph of the gaps (pairs,) in m, and of the normals' rows of the Jacobian (pairs, nv)."""
    recording, tree = Recording("gaps", robot.name), Tree(robot)
    quaternions = tuple((part.start, part.stop) for part in robot.quaternions())
    q = recording.input("q", (robot.nq,), unit_vectors=quaternions)
    where = poses(tree, list(tree.mimic.configuration(list(q))), "base")
    jacobian, gaps = contact_rows(tree, contact, links_of(robot, contact), where)
    return recording.graph({"gaps": array(gaps), "normals": tree.mimic.columns(jacobian)[::3]})
