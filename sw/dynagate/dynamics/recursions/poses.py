"""Poses of every link in one expression frame per chain.

The closed-form gradients hold for spatial vectors in any frame. A frame in the middle of a chain keeps the poses
short on both sides: fewer operations than the base frame, and smaller numbers, so more of a fixed-point word is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.base.naming import label, scope
from dynagate.dynamics.links import TreeLink
from dynagate.dynamics.recursions.prefix import along
from dynagate.dynamics.spatial import Array, Scalar, SpatialForce, array, zeros
from dynagate.dynamics.transforms import JointTransform
from dynagate.dynamics.tree import Tree
from dynagate.robot.parts import Frame as Place
from dynagate.robot.parts import Link as RobotLink

NAMED = ("base", "middle", "sparsest")
"""The frames that have names. The gradients replace "sparsest" by a map (`gradients.sparsest`)."""

Frame = str | int | Mapping[int, int]
"""Expression frame of a chain's vectors: "base", "middle", a link's index (other chains: their middle), or a map
from the first link of each chain to a link index (-1: base).
"""

FrameOption = Frame | Place | RobotLink
"""The option `frame` of a function: where gradients express vectors, or the frame that the function is of."""


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
        raise ArgumentError(f"frame '{frame}'; expected {', '.join(NAMED)}, a link index, or a map of them")
    by_root = (
        frame
        if isinstance(frame, Mapping)
        else {tree.ancestors[frame][0]: frame}
        if 0 <= frame < len(tree.links)
        else None
    )
    if by_root is None:
        raise ArgumentError(f"frame {frame}; expected a link index from 0 to {len(tree.links) - 1}")
    for root, link in by_root.items():
        if root not in roots or (link != -1 and link not in roots[root]):
            raise ArgumentError(
                f"frame {{{root}: {link}}}; expected the first link of a chain and a link of that chain"
            )
    return {**chosen, **by_root}


def _middle(tree: Tree, members: Sequence[int]) -> int:
    """The link a third of the way along the longest path: few operations, and no other link errs much less
    (docs/operations.md has the measurements). A floating link is the middle of all that hangs from it."""
    if tree.robot.links[members[0]].joint.kind.free:
        return members[0]
    tip = max(members, key=lambda i: (len(tree.ancestors[i]), -i))
    path = tree.ancestors[tip]
    return path[len(path) // 3] if len(path) > 3 else path[0]


class _Step(NamedTuple):
    """From a link's parent to the link, or, inwards, from the link to its parent."""

    joint: JointTransform
    inwards: bool

    def after(self, before: _Pose) -> _Pose:
        if self.inwards:
            turn = self.joint.inverse_after(before.rotation)
            return _Pose(turn, before.position - turn @ self.joint.translation)
        moved = before.position + before.rotation @ self.joint.translation
        return _Pose(self.joint.after(before.rotation), moved)


class _Pose(NamedTuple):
    rotation: Array
    position: Array


_HERE = _Pose(array(np.eye(3)), zeros(3))


def _pose(path: _Pose | _Step) -> _Pose:
    return path.after(_HERE) if isinstance(path, _Step) else path


Places = list[tuple[Array, Array]]
"""R (3, 3) and p (3,) of every link, m."""


def places(tree: Tree, q: Sequence[Scalar] | Array) -> Places:
    """Return the rotation and position of every link in the base frame."""
    where = poses(tree, list(q), "base")
    return list(zip(where.rotation, where.position, strict=True))


def _joined(first: _Pose | _Step, second: _Pose | _Step) -> _Pose:
    """The pose at the end of two paths, the second from where the first ends. A single step takes fewer products."""
    before = _pose(first)
    if isinstance(second, _Step):
        return second.after(before)
    moved = before.position + before.rotation @ second.position
    return _Pose(before.rotation @ second.rotation, moved)


def poses(tree: Tree, q: Sequence[Scalar], frame: Frame, *, prefix: bool = False) -> Poses:
    """Walk each chain inwards and outwards from its reference link."""
    joints = tree.transforms(q)
    by_link: dict[int, _Pose] = {}
    base: dict[int, Array] = {}
    for first, reference in reference_links(tree, frame).items():
        ends = [reference]  # -1: the base
        steps: list[_Pose | _Step] = [_HERE]
        before = [-1]
        while ends[-1] >= 0:
            link = ends[-1]
            before.append(len(ends) - 1)
            steps.append(_Step(joints[link], inwards=True))
            ends.append(tree.parents[link])
        for link in chains(tree)[first]:
            if link not in ends:
                before.append(ends.index(tree.parents[link]))
                steps.append(_Step(joints[link], inwards=False))
                ends.append(link)
        scopes = [("pose", f"link{end}" if end >= 0 else "base") for end in ends]
        reached = along(before, steps, _joined, scopes, prefix=prefix)
        by_link |= dict(zip(ends, map(_pose, reached), strict=True))
        base[first] = by_link.pop(-1).rotation
    for i in tree.links:
        with scope("pose", f"link{i}"):
            label(by_link[i].rotation, "r")
            label(by_link[i].position, "p")
    return Poses(
        [by_link[i].rotation for i in tree.links],
        [by_link[i].position for i in tree.links],
        [base[tree.ancestors[i][0]] for i in tree.links],
    )


def jacobian_columns(tree: Tree, link: int, at: Array, where: Poses) -> tuple[Array, Array]:
    """Return how a link turns, and how its point at a place (3,) moves, by q̇ (3, nv), in the axes of the poses."""
    turning, moving = zeros(3, tree.nv), zeros(3, tree.nv)
    for d in tree.support[link] if link >= 0 else ():
        j = tree.link_of[d]
        turning[:, d], moving[:, d] = tree.axis_at(d, where.rotation[j], where.position[j] - at)
    return turning, moving


def transmit(tree: Tree, where: Places, wrenches: Sequence[SpatialForce], part: str) -> Array:
    """Return the torques (nv,) of wrenches on links, [moment; force] about the base's origin in base axes.

    part: what computes it, for names.
    """
    torques = zeros(tree.nv)

    def passed(link: TreeLink, wrench: SpatialForce) -> tuple[SpatialForce, None]:
        for d in tree.dofs[link.number]:
            torques[d] = tree.axis_at(d, *where[link.number]).dot(wrench)
        return wrench, None

    tree.up(part, passed, own=wrenches)
    return torques
