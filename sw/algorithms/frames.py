"""Poses of every link in one expression frame per chain.

The closed-form gradients hold for spatial vectors in any frame. A frame in the middle of a chain keeps the poses
short on both sides: fewer operations than the base frame, and smaller numbers, so more of a fixed-point word is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from dynagate.algorithms.tree import Tree
from dynagate.naming import label, scope
from dynagate.spatial import Array, Scalar, array, zeros

Frame = str | int | Mapping[int, int]
"""Where a chain's vectors are expressed: "base", "middle", a link's index (the other chains: their middle), or a map
from the first link of each chain to a link index (-1: base)."""


class Poses(NamedTuple):
    """rotation[i], position[i]: pose of link i in its chain's expression frame. base[i]: rotation of the base there."""

    rotation: list[Array]
    position: list[Array]
    base: list[Array]


def chains(tree: Tree) -> dict[int, list[int]]:
    """The trees that hang from the base, by their first link."""
    result: dict[int, list[int]] = {}
    for i in tree.links:
        result.setdefault(tree.ancestors[i][0], []).append(i)
    return result


def reference_links(tree: Tree, frame: Frame) -> dict[int, int]:
    """First link of each chain -> the link whose frame its vectors are in, -1 for the base.

    Raises ValueError: the frame is not one of the forms above, or names a link that is not there.
    """
    roots = chains(tree)
    if frame == "base":
        return dict.fromkeys(roots, -1)
    chosen = {root: _middle(tree, members) for root, members in roots.items()}
    if frame == "middle":
        return chosen
    if isinstance(frame, str):
        raise ValueError(f"frame '{frame}'; expected 'base', 'middle', a link index, or a map of them")
    wanted = (
        frame
        if isinstance(frame, Mapping)
        else {tree.ancestors[frame][0]: frame}
        if 0 <= frame < len(tree.links)
        else None
    )
    if wanted is None:
        raise ValueError(f"frame {frame}; expected a link index from 0 to {len(tree.links) - 1}")
    for root, link in wanted.items():
        if root not in roots or (link != -1 and link not in roots[root]):
            raise ValueError(f"frame {{{root}: {link}}}; expected the first link of a chain and a link of that chain")
    return {**chosen, **wanted}


def _middle(tree: Tree, members: Sequence[int]) -> int:
    """The link of the longest path whose depth is nearest to 2/3 of it: short poses towards the tip, where the
    gradients' small numbers are, at little cost in operations (docs/dynamics.md has the measurements). A floating link
    is the middle of all that hangs from it."""
    if tree.robot.links[members[0]].joint.type == "floating":
        return members[0]
    tip = max(members, key=lambda i: (len(tree.ancestors[i]), -i))
    path = tree.ancestors[tip]
    return path[(2 * len(path)) // 3] if len(path) > 3 else path[0]


def poses(tree: Tree, q: Sequence[Scalar], frame: Frame) -> Poses:
    """Walk each chain outwards and inwards from its reference link."""
    joints = tree.transforms(q)
    reference = reference_links(tree, frame)
    rotation: dict[int, Array] = {}
    position: dict[int, Array] = {}
    base: dict[int, tuple[Array, Array]] = {}
    for root, link in reference.items():
        turn, point = array(np.eye(3)), zeros(3)
        while link >= 0:
            with scope("pose", f"link{link}"):
                rotation[link], position[link] = turn, point
                turn = joints[link].inverse_after(turn)
                point = point - turn @ joints[link].translation
                link = tree.parents[link]
        base[root] = turn, point
    for i in tree.links:
        if i in rotation:
            continue
        with scope("pose", f"link{i}"):
            p, joint = tree.parents[i], joints[i]
            turn, point = (rotation[p], position[p]) if p >= 0 else base[tree.ancestors[i][0]]
            rotation[i] = label(joint.after(turn), "r")
            position[i] = label(point + turn @ joint.translation, "p")
    return Poses(
        [rotation[i] for i in tree.links],
        [position[i] for i in tree.links],
        [base[tree.ancestors[i][0]][0] for i in tree.links],
    )
