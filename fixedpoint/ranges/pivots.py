"""A lower bound of every pivot that forward dynamics divides by.

Lemma. Let M = Lᵀ D L be the mass matrix, factorized from the tips to the base, and let every link have a positive
semidefinite inertia. Then the pivot D_k of a joint's only degree of freedom is at least the inertia of its own link
about its axis (its mass, if it slides) plus its armature.

Proof. D_k is s_kᵀ A s_k + armature, where A is the articulated-body inertia of the link (Featherstone 2008, §7.1). A is
the link's own inertia I plus, for each child, the child's A' - A' s sᵀ A' / D'. This difference is the Schur complement
of the child's positive semidefinite block matrix [[D', sᵀ A'], [A' s, A']], so it is positive semidefinite itself, by
induction from the tips. So A - I is positive semidefinite, and s_kᵀ A s_k ≥ s_kᵀ I s_k. ∎

A joint of several degrees of freedom yields in one after another, the last first. Its pivots are those of the block
Sᵀ A S. Schur complements grow with their matrix, so they are at least the pivots of Sᵀ I S.
"""

from __future__ import annotations

import re

import numpy as np
from dynagate.base.arrays import Floats
from dynagate.dynamics import FUNCTIONS
from dynagate.fixedpoint.intervals import Interval
from dynagate.graph import Graph
from dynagate.robot import Link, Robot

PIVOT = re.compile(r"(?:^|\.)(?:ltdl|articulated)\.link(\d+)(?:\.dof(\d+))?\.d(?:\.\d+)?$")
"""Pattern for names of inverse pivots, from `mass_matrix.factorize` and `articulated.articulate`.

Names of the latter do not contain the degree of freedom, if a joint has several.
"""

MARGIN = 1e-9
"""Relative margin above the float64 errors of the bounds and of the constants with which M is computed."""


def pivot_ranges(graph: Graph, robot: Robot) -> dict[int, Interval]:
    """Return the ranges of the divisors that are pivots of the robot's mass matrix, by node.

    The result is empty if links are variable, joints mimic others, a link's inertia is not physical, or the function is
    not in the table.
    """
    is_listed = all(name in FUNCTIONS for name in graph.name.split(","))
    if not is_listed or robot.followers or any(port.parameter for port in graph.inputs):
        return {}
    robot = robot.aligned()
    inertias = [_spatial_inertia(link) for link in robot.links]
    if any(np.linalg.eigvalsh(x)[0] < -MARGIN * np.trace(x) for x in inertias):
        return {}
    bounds = [least for link, x in zip(robot.links, inertias, strict=True) for least in _pivots(link, x)]
    links = [dofs for _, _, dofs in robot.slices()]
    ranges: dict[int, Interval] = {}
    for node in graph.nodes:
        match = PIVOT.search(node.name) if node.op == "reciprocal" else None
        if match:
            link, dof = match.groups()
            least = min(bounds[links[int(link)]]) if dof is None else bounds[int(dof)]
            ranges[node.args[0]] = Interval(np.float64(max(least * (1.0 - MARGIN), 0.0)), np.float64(np.inf))
    return ranges


def _spatial_inertia(link: Link) -> Floats:
    """Return the spatial inertia of a link about its origin, (6, 6), [angular; linear]."""
    second, (x, y, z) = np.array(link.second_moment()), link.first_moment()
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    about = np.trace(second) * np.eye(3) - second
    return np.block([[about, cross], [cross.T, link.mass * np.eye(3)]])


def _pivots(link: Link, inertia: Floats) -> list[float]:
    """Return the pivots of a link's own inertia in the directions of its joint, with armature, last eliminated
    first.
    """
    directions = list(link.joint.kind.directions)
    block = inertia[np.ix_(directions, directions)] + link.joint.armature * np.eye(len(directions))
    pivots = []
    for k in reversed(range(len(directions))):
        pivots.append(float(block[k, k]))
        column = block[:k, k]
        block = block[:k, :k] - (np.outer(column, column) / block[k, k] if block[k, k] > 0.0 else 0.0)
    return pivots[::-1]
