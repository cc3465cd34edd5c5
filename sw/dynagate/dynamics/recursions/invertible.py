"""Check that the mass matrix of a robot is invertible."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dynagate.dynamics.configuration import normalized
from dynagate.dynamics.recursions.crba import mass_matrix
from dynagate.dynamics.tree import Tree
from dynagate.robot import RobotError

SINGULAR = 1e-9
"""Ratio of a pivot of M to its diagonal entry below which the pivot counts as zero: an inverse would lose nine digits.
"""

CONFIGURATIONS = 3
"""Number of random configurations to test. M may be nearly singular at a single one by chance."""


def check_invertible(tree: Tree) -> None:
    """Raise RobotError if M is singular at every configuration, and name the joints that can move without moving any
    mass.

    An example is a pair of joints about one axis with no mass between them.
    """
    tree, random = tree.numeric, np.random.default_rng(0)
    for _ in range(CONFIGURATIONS):
        q = normalized(tree.source, random.uniform(-1.0, 1.0, tree.source.nq)).tolist()
        m = tree.mimic.symmetric(mass_matrix(tree, tree.mimic.configuration(q)))
        weightless = _weightless(m.astype(np.float64))
        if not weightless:
            return
    dofs = tree.mimic.leaders
    groups = [sorted({tree.link_of[dofs[d]] for d in group}) for group in weightless]
    links = tree.robot.links
    listed = "; ".join(_joints(tree, group) for group in groups)
    empty = [next((links[i].name for i in group if links[i].mass == 0.0), links[group[-1]].name) for group in groups]
    held = [links[group[-1]].joint.name for group in groups]
    raise RobotError(
        f"{listed} can move without moving any mass, so the mass matrix of '{tree.robot.name}' has no inverse; "
        f"give mass and inertia to {_quoted(empty)}, or hold by lock= {_quoted(held)}",
        code="DG-FUNCTION-039",
    )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in dict.fromkeys(names))


def _joints(tree: Tree, links: Sequence[int]) -> str:
    names = [f"'{tree.robot.links[i].joint.name}'" for i in links]
    return f"joint {names[0]}" if len(names) == 1 else f"joints {', '.join(names[:-1])} and {names[-1]} together"


def _weightless(m: npt.NDArray[np.float64]) -> list[list[int]]:
    """Return groups of degrees of freedom that together move no mass: a vanishing pivot of M, and the ones that move
    with it.
    """
    left = m.copy()
    groups = []
    solved: list[int] = []
    for k in reversed(range(len(m))):
        if abs(left[k, k]) > SINGULAR * abs(m[k, k]):
            left[:k, :k] -= np.outer(left[:k, k], left[k, :k]) / left[k, k]
            solved.append(k)
            continue
        motion = -np.linalg.solve(m[np.ix_(solved, solved)], m[solved, k]) * np.sqrt(np.abs(np.diag(m)[solved]))
        size = max(float(np.sqrt(abs(m[k, k]))), float(np.abs(motion).max(initial=0.0)))
        groups.append([k, *(d for d, rate in zip(solved, motion, strict=True) if abs(rate) > 1e-3 * size)])
    return groups
