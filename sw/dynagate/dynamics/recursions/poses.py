"""Poses of all links, expressed in one frame per kinematic chain.

The closed-form gradients are valid for spatial vectors in any frame. A frame in the middle of a chain keeps the
distances short on both sides. That takes fewer operations than the base frame and gives smaller numbers, which use more
of the bits of a fixed-point format.
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
"""Expression frames with a name. The gradients replace "sparsest" by a map (`gradients.sparsest`)."""

Frame = str | int | Mapping[int, int]
"""Expression frame of a chain's vectors: "base", "middle", "sparsest", a link's index, or a map.

A link's index selects that link for its chain and the middle for other chains. A map leads from the first link of each
chain to a link index (-1: base).
"""

FrameOption = Frame | Place | RobotLink
"""The option `frame` of a function: the frame in which gradients express vectors, or the frame that a function
describes.
"""


class Poses(NamedTuple):
    """Pose of every link in the expression frame of its chain."""

    rotation: list[Array]
    """Rotation (3, 3) of each link."""
    position: list[Array]
    """Origin (3,) of each link, m."""
    base: list[Array]
    """Rotation (3, 3) of the base, for each link."""


def chains(tree: Tree) -> dict[int, list[int]]:
    """Return the kinematic trees that hang from the base: the links of each, by its first link."""
    result: dict[int, list[int]] = {}
    for i in tree.links:
        result.setdefault(tree.ancestors[i][0], []).append(i)
    return result


def reference_links(tree: Tree, frame: Frame) -> dict[int, int]:
    """Return the link in whose frame each chain's vectors are expressed, by the chain's first link; -1 is the base.

    Raises:
        ArgumentError: The frame is not one that `Frame` describes, or names a link that does not exist.
    """
    roots = chains(tree)
    if frame == "base":
        return dict.fromkeys(roots, -1)
    chosen = {root: _middle(tree, members) for root, members in roots.items()}
    if frame == "middle":
        return chosen
    if isinstance(frame, str):
        raise ArgumentError(
            f"frame '{frame}'; expected {', '.join(NAMED)}, a link index, or a map of them", code="DG-FUNCTION-040"
        )
    by_root = (
        frame
        if isinstance(frame, Mapping)
        else {tree.ancestors[frame][0]: frame}
        if 0 <= frame < len(tree.links)
        else None
    )
    if by_root is None:
        raise ArgumentError(
            f"frame {frame}; expected a link index from 0 to {len(tree.links) - 1}", code="DG-FUNCTION-041"
        )
    for root, link in by_root.items():
        if root not in roots or (link != -1 and link not in roots[root]):
            raise ArgumentError(
                f"frame {{{root}: {link}}}; expected the first link of a chain and a link of that chain",
                code="DG-FUNCTION-042",
            )
    return {**chosen, **by_root}


def _middle(tree: Tree, members: Sequence[int]) -> int:
    """Return the link a third of the way along a chain's longest path; a floating link is the middle of its own chain.

    The choice needs few operations, and no other link has much smaller errors (docs/operations.md has the
    measurements).
    """
    if tree.robot.links[members[0]].joint.kind.free:
        return members[0]
    tip = max(members, key=lambda i: (len(tree.ancestors[i]), -i))
    path = tree.ancestors[tip]
    return path[len(path) // 3] if len(path) > 3 else path[0]


class _Step(NamedTuple):
    """A step between a link and its parent."""

    joint: JointTransform
    """Pose of the link in its parent."""
    inwards: bool
    """Whether the step leads from the link to its parent."""

    def after(self, pose: _Pose) -> _Pose:
        """Return the pose after this step from a pose."""
        if self.inwards:
            rotation = self.joint.inverse_after(pose.rotation)
            return _Pose(rotation, pose.position - rotation @ self.joint.translation)
        position = pose.position + pose.rotation @ self.joint.translation
        return _Pose(self.joint.after(pose.rotation), position)


class _Pose(NamedTuple):
    """A pose in the expression frame."""

    rotation: Array
    position: Array


_IDENTITY_POSE = _Pose(array(np.eye(3)), zeros(3))
"""The pose of the expression frame itself."""


def _pose(path: _Pose | _Step) -> _Pose:
    return path.after(_IDENTITY_POSE) if isinstance(path, _Step) else path


Places = list[tuple[Array, Array]]
"""Rotation (3, 3) and position (3,), m, of every link in the base frame."""


def places(tree: Tree, q: Sequence[Scalar] | Array) -> Places:
    """Return the rotation and position of every link in the base frame."""
    link_poses = poses(tree, list(q), "base")
    return list(zip(link_poses.rotation, link_poses.position, strict=True))


def _composed(first: _Pose | _Step, second: _Pose | _Step) -> _Pose:
    """Return the pose at the end of two consecutive paths. A path of a single step takes fewer products."""
    pose = _pose(first)
    if isinstance(second, _Step):
        return second.after(pose)
    position = pose.position + pose.rotation @ second.position
    return _Pose(pose.rotation @ second.rotation, position)


def poses(tree: Tree, q: Sequence[Scalar], frame: Frame, *, prefix: bool = False) -> Poses:
    """Return the pose of every link in the expression frame of its chain, computed inwards and outwards from there.

    Args:
        tree: The robot.
        q: Configuration (nq,) of all joints, rad or m.
        frame: Expression frame of each chain.
        prefix: Whether to combine joints as a prefix computation, with fewer levels and more products.
    """
    joints = tree.transforms(q)
    by_link: dict[int, _Pose] = {}
    base_rotations: dict[int, Array] = {}
    for first, reference in reference_links(tree, frame).items():
        visited = [reference]  # -1: the base
        steps: list[_Pose | _Step] = [_IDENTITY_POSE]
        previous = [-1]
        while visited[-1] >= 0:
            link = visited[-1]
            previous.append(len(visited) - 1)
            steps.append(_Step(joints[link], inwards=True))
            visited.append(tree.parents[link])
        for link in chains(tree)[first]:
            if link not in visited:
                previous.append(visited.index(tree.parents[link]))
                steps.append(_Step(joints[link], inwards=False))
                visited.append(link)
        scopes = [("pose", f"link{end}" if end >= 0 else "base") for end in visited]
        path_poses = along(previous, steps, _composed, scopes, prefix=prefix)
        by_link |= dict(zip(visited, map(_pose, path_poses), strict=True))
        base_rotations[first] = by_link.pop(-1).rotation
    for i in tree.links:
        with scope("pose", f"link{i}"):
            label(by_link[i].rotation, "r")
            label(by_link[i].position, "p")
    return Poses(
        [by_link[i].rotation for i in tree.links],
        [by_link[i].position for i in tree.links],
        [base_rotations[tree.ancestors[i][0]] for i in tree.links],
    )


def jacobian_columns(tree: Tree, link: int, point: Array, link_poses: Poses) -> tuple[Array, Array]:
    """Return the angular and linear Jacobian (3, nv) of a point fixed to a link, in the axes of the poses.

    Args:
        tree: The robot.
        link: Number of the link; -1 for the base.
        point: The point (3,) in the expression frame, m.
        link_poses: Poses of the links.
    """
    angular, linear = zeros(3, tree.nv), zeros(3, tree.nv)
    for d in tree.support[link] if link >= 0 else ():
        j = tree.link_of[d]
        angular[:, d], linear[:, d] = tree.axis_at(d, link_poses.rotation[j], link_poses.position[j] - point)
    return angular, linear


def transmit(tree: Tree, link_poses: Places, wrenches: Sequence[SpatialForce], part: str) -> Array:
    """Return the joint torques (nv,) of wrenches on links, given as [moment; force] about the base's origin in base
    axes.

    Args:
        tree: The robot.
        link_poses: Pose of every link in the base frame.
        wrenches: A wrench for every link, N m and N.
        part: Name of the algorithm, for recorded operations.
    """
    torques = zeros(tree.nv)

    def project(link: TreeLink, wrench: SpatialForce) -> tuple[SpatialForce, None]:
        for d in tree.dofs[link.number]:
            torques[d] = tree.axis_at(d, *link_poses[link.number]).dot(wrench)
        return wrench, None

    tree.up(part, project, own=wrenches)
    return torques
