"""Pose, velocity, acceleration and Jacobian of a frame: a link, what is bolted to one, or a place added to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynagate.base.naming import label, scope
from dynagate.dynamics.recursions.poses import Poses, jacobian_columns, poses
from dynagate.dynamics.recursions.rnea import balance
from dynagate.dynamics.spatial import Array, Scalar, array, zeros
from dynagate.dynamics.tree import Tree


class _Seen(NamedTuple):
    """A frame in the base: the link that carries it, -1 for the base itself, all links' poses, and its own."""

    link: int
    links: Poses
    rotation: Array
    position: Array


def check(tree: Tree, name: str) -> None:
    """Raises RobotError: the robot has no such frame."""
    tree.source.frame(name)


def _seen(tree: Tree, q: Sequence[Scalar], name: str) -> _Seen:
    frame = tree.frame(name)
    links = poses(tree, q, "base")
    if frame.link < 0:
        return _Seen(-1, links, frame.rotation, frame.translation)
    turn = tree.turns[frame.link]
    above, origin = links.rotation[frame.link], links.position[frame.link]
    with scope("frame"):
        rotation = above @ (turn.T @ frame.rotation)
        position = origin + above @ (turn.T @ frame.translation)
    return _Seen(frame.link, links, rotation, position)


def pose(tree: Tree, q: Sequence[Scalar], name: str) -> tuple[Array, Array]:
    """Origin (3,) in m and rotation (3, 3) of the frame in the base: v_base = rotation @ v_frame."""
    seen = _seen(tree.unreduced, q, name)
    return label(seen.position, "frame_position"), label(seen.rotation, "frame_rotation")


def jacobian(tree: Tree, q: Sequence[Scalar], name: str) -> Array:
    """[angular; linear] velocity of the frame's origin in base axes by q̇ (6, nv): Pinocchio's LOCAL_WORLD_ALIGNED with
    the angular rows first."""
    tree = tree.unreduced
    seen = _seen(tree, q, name)
    result = zeros(6, tree.nv)
    with scope("frame"):
        result[:3], result[3:] = jacobian_columns(tree, seen.link, seen.position, seen.links)
    return label(result, "frame_jacobian")


def velocity(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], name: str) -> Array:
    """[angular; linear] velocity (6,) of the frame's origin in base axes, rad/s and m/s."""
    columns = jacobian(tree, q, name)
    with scope("frame"):
        return label(columns @ array(list(qd)), "frame_velocity")


def acceleration(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], qdd: Sequence[Scalar], name: str) -> Array:
    """[angular; linear] acceleration (6,) of the frame's origin in base axes, rad/s² and m/s²: the rate of `velocity`,
    which is Pinocchio's classical one."""
    frame = tree.frame(name)
    result = zeros(6)
    if frame.link < 0:
        return result
    motion, where = balance(tree, q, qd, qdd), poses(tree, q, "base")
    with scope("frame"):
        rotation, place = where.rotation[frame.link], tree.point(frame.link, frame.translation)
        fall = where.base[frame.link] @ tree.base_acceleration
        result[:3] = rotation @ motion.turning[frame.link]
        result[3:] = rotation @ motion.of_point(frame.link, place) - fall
    return label(result, "frame_acceleration")


def bias_acceleration(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], name: str) -> Array:
    """J̇ q̇ (6,): what of `acceleration` is not J q̈."""
    return label(acceleration(tree, q, qd, [0.0] * tree.nv, name), "frame_bias_acceleration")
