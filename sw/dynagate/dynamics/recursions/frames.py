"""Pose, velocity, acceleration and Jacobian of a frame: a link, a frame fixed to a link, or a frame added by the
user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynagate.base.naming import label, scope
from dynagate.dynamics.recursions.poses import Poses, jacobian_columns, poses
from dynagate.dynamics.recursions.rnea import inverse_dynamics_with_motion
from dynagate.dynamics.spatial import Array, Scalar, array, zeros
from dynagate.dynamics.tree import Tree


class _FramePose(NamedTuple):
    """Pose of a frame in the base frame."""

    link: int
    """Number of the link that carries the frame, -1 for the base."""
    links: Poses
    """Poses of all links in the base frame."""
    rotation: Array
    """Rotation (3, 3) from the frame's axes to the base's."""
    position: Array
    """Origin (3,) of the frame in the base frame, m."""


def check(tree: Tree, name: str) -> None:
    """Raise RobotError if the robot has no frame of this name."""
    tree.source.frame(name)


def _frame_pose(tree: Tree, q: Sequence[Scalar], name: str) -> _FramePose:
    """Return the pose of a frame, and the poses of all links, in the base frame."""
    frame = tree.frame(name)
    links = poses(tree, q, "base")
    if frame.link < 0:
        return _FramePose(-1, links, frame.rotation, frame.translation)
    to_file_axes = tree.to_file_axes[frame.link]
    above, origin = links.rotation[frame.link], links.position[frame.link]
    with scope("frame"):
        rotation = above @ (to_file_axes.T @ frame.rotation)
        position = origin + above @ (to_file_axes.T @ frame.translation)
    return _FramePose(frame.link, links, rotation, position)


def pose(tree: Tree, q: Sequence[Scalar], name: str) -> tuple[Array, Array]:
    """Return the origin (3,), m, and rotation (3, 3) of a frame in the base frame: v_base = rotation @ v_frame."""
    frame_pose = _frame_pose(tree.unreduced, q, name)
    return label(frame_pose.position, "frame_position"), label(frame_pose.rotation, "frame_rotation")


def jacobian(tree: Tree, q: Sequence[Scalar], name: str) -> Array:
    """Return the Jacobian (6, nv) of a frame's velocity [angular; linear] at its origin, in base axes.

    It equals Pinocchio's LOCAL_WORLD_ALIGNED Jacobian with the angular rows first.
    """
    tree = tree.unreduced
    frame_pose = _frame_pose(tree, q, name)
    result = zeros(6, tree.nv)
    with scope("frame"):
        result[:3], result[3:] = jacobian_columns(tree, frame_pose.link, frame_pose.position, frame_pose.links)
    return label(result, "frame_jacobian")


def velocity(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], name: str) -> Array:
    """Return the velocity [angular; linear] (6,) of a frame's origin in base axes, rad/s and m/s."""
    columns = jacobian(tree, q, name)
    with scope("frame"):
        return label(columns @ array(list(qd)), "frame_velocity")


def acceleration(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], qdd: Sequence[Scalar], name: str) -> Array:
    """Return the acceleration [angular; linear] (6,) of a frame's origin in base axes, rad/s² and m/s².

    It is the time derivative of `velocity`, which Pinocchio calls the classical acceleration.
    """
    frame = tree.frame(name)
    result = zeros(6)
    if frame.link < 0:
        return result
    motion, link_poses = inverse_dynamics_with_motion(tree, q, qd, qdd), poses(tree, q, "base")
    with scope("frame"):
        rotation, point = link_poses.rotation[frame.link], tree.point(frame.link, frame.translation)
        fall = link_poses.base[frame.link] @ tree.base_acceleration
        result[:3] = rotation @ motion.angular_acceleration[frame.link]
        result[3:] = rotation @ motion.point_acceleration(frame.link, point) - fall
    return label(result, "frame_acceleration")


def bias_acceleration(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], name: str) -> Array:
    """Return J̇ q̇ (6,): the part of `acceleration` that does not depend on q̈."""
    return label(acceleration(tree, q, qd, [0.0] * tree.nv, name), "frame_bias_acceleration")
