"""One link's part of forward dynamics of a serial chain, as a function in C or CUDA. Loops over links call them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dynagate.dynamics.serial_chains.block_tridiagonal import factor, gram
from dynagate.dynamics.spatial import Array, Inertia, Scalar, SpatialForce, SpatialMotion, array, cross, zeros
from dynagate.dynamics.transforms import AxisTransform, FreeTransform
from dynagate.native.chains.step import LinkStep

LINK_NUMBERS = 25
"""Numbers of a link: rotation (9) and translation (3) of the joint's frame, mass, first moment (3), second moment (6:
xx, xy, xz, yy, yz, zz), armature, damping, root of the armature."""

BLOCK_NUMBERS = 108
"""Numbers of a link for constraint forces, 36 each: its mobility, the parent's mobility seen from the link at q = 0,
and its mobility times the next link's Xᵀ at q = 0."""

KINDS = ("revolute", "prismatic")
DIRECTION = {"revolute": 2, "prismatic": 5}


def joint_pose(kind: str, link: Array, place: Array) -> FreeTransform:
    """Return the pose of a joint.

    Args:
        kind: One of KINDS.
        link: Numbers of the link, (LINK_NUMBERS,).
        place: Cosine and sine of a revolute joint's angle, or twice a prismatic one's distance.
    """
    fixed, origin = link[:9].reshape(3, 3), link[9:12]
    if kind == "prismatic":
        return FreeTransform(fixed, origin + fixed[:, 2] * place[0])
    one = array(np.eye(3))
    return FreeTransform(AxisTransform(fixed, origin, place[0], place[1]).after(one), origin)


def link_inertia(link: Array) -> Inertia:
    """Return the inertia of a link from its numbers, in the link's frame."""
    return Inertia(link[12], link[13:16], symmetric_matrix(link[16:22]))


def symmetric_matrix(upper: Array, size: int = 3) -> Array:
    """Return a symmetric matrix from its upper triangle by rows."""
    matrix = zeros(size, size)
    for value, (i, j) in zip(upper, zip(*np.triu_indices(size), strict=True), strict=True):
        matrix[i, j] = matrix[j, i] = value
    return matrix


def upper_triangle(matrix: Array) -> Array:
    """Return the upper triangle of a matrix by rows."""
    return matrix[np.triu_indices(len(matrix))]


def joint_motion(kind: str, rate: Scalar = 1.0) -> SpatialMotion:
    """Return the motion of a joint at a rate, in the link's frame."""
    along = array([0.0, 0.0, rate])
    return SpatialMotion(zeros(3), along) if kind == "prismatic" else SpatialMotion(along, zeros(3))


def joint_component(kind: str, force: SpatialForce) -> Scalar:
    """Return the component of a force along a joint."""
    return force[kind == "prismatic"][2]


def motion_of(values: Array) -> SpatialMotion:
    """Return a motion from six numbers: angular, then linear."""
    return SpatialMotion(values[:3], values[3:])


def force_of(values: Array) -> SpatialForce:
    """Return a force from six numbers: moment, then force."""
    return SpatialForce(values[:3], values[3:])


def flattened(pair: SpatialMotion | SpatialForce) -> Array:
    """Return the six numbers of a motion or force."""
    return array([*pair.angular, *pair.linear])


def rotation_step(step: LinkStep, kind: str) -> str:
    """Return the step of a joint's pose."""
    link, place = step.numbers("link", LINK_NUMBERS), step.vectors("place", 2)
    pose = joint_pose(kind, link, place)
    return step.text({"pose": array([*np.ravel(pose.rotation), *pose.translation])})


def stored_pose(step: LinkStep, name: str = "pose") -> FreeTransform:
    """Return a pose that the step reads: rotation (9), translation (3)."""
    pose = step.vectors(name, 12)
    return FreeTransform(pose[:9].reshape(3, 3), pose[9:])


def _rotated(kind: str, place: Array) -> Array:
    x = array(np.eye(6))
    if kind == "prismatic":
        x[3, 1], x[4, 0] = place[0], -place[0]
        return x
    for at in (0, 3):
        x[at : at + 2, at : at + 2] = array([[place[0], place[1]], [-place[1], place[0]]])
    return x


def _others(kind: str) -> list[int]:
    return [k for k in range(6) if k != DIRECTION[kind]]


def _basis(kind: str, link: Array, rotors: bool) -> Array:
    """Return W; with rotors its last column is -√r S."""
    basis = array(np.eye(6)[:, _others(kind)])
    if not rotors:
        return basis
    column = zeros(6, 1)
    column[DIRECTION[kind], 0] = -link[24]
    return array([[*row, *last] for row, last in zip(basis, column, strict=True)])


def _cfa_own(step: LinkStep, kind: str, rotors: bool) -> str:
    """Return the step of A_ii, and of the terms of K_ii in the right side and in q̈."""
    link, block, place = (
        step.numbers("link", LINK_NUMBERS),
        step.numbers("block", BLOCK_NUMBERS),
        step.vectors("place", 2),
    )
    net = step.vectors("net", 1)[0]
    x, w, k = _rotated(kind, place), _basis(kind, link, rotors), DIRECTION[kind]
    half, mobility = x @ block[36:72].reshape(6, 6), block[:36].reshape(6, 6)
    diagonal = zeros(6, 6)
    for a in range(6):
        for b in range(a, 6):
            diagonal[a, b] = diagonal[b, a] = mobility[a, b] + half[a] @ x[b]
    own = w.T @ diagonal @ w
    if rotors:
        own[5, 5] = own[5, 5] + 1.0
    pushed = diagonal[:, k] * net
    row = diagonal[k] @ w
    return step.text({"d": upper_triangle(own), "r": -(w.T @ pushed), "free": pushed[k], "row": row})


def _cfa_next(step: LinkStep, kind: str, rotors: bool, other: str) -> str:
    """Return the step of A_{i,i+1}, and of the terms of K_{i,i+1} in both links' right sides and q̈."""
    link, block, place = (
        step.numbers("link", LINK_NUMBERS),
        step.numbers("block", BLOCK_NUMBERS),
        step.vectors("next_place", 2),
    )
    following = step.numbers("next_link", LINK_NUMBERS)
    net = step.vectors("net", 2)
    r, r_next = step.vectors("r", 5 + rotors), step.vectors("r_next", 5 + rotors)
    free, free_next = step.vectors("free", 1)[0], step.vectors("free_next", 1)[0]
    k, k_next = DIRECTION[kind], DIRECTION[other]
    upper = -(block[72:].reshape(6, 6) @ _rotated(other, place).T)
    w, w_next = _basis(kind, link, rotors), _basis(other, following, rotors)
    pushed, pushed_next = upper[:, k_next] * net[1], upper[k] * net[0]
    return step.text(
        {
            "u": w.T @ upper @ w_next,
            "r_out": r - w.T @ pushed,
            "r_next_out": r_next - w_next.T @ pushed_next,
            "free_out": free + pushed[k],
            "free_next_out": free_next + pushed_next[k_next],
            "row_next": upper[k] @ w_next,
            "row_before": upper[:, k_next] @ w,
        }
    )


def _eliminate(step: LinkStep, size: int, before: bool, after: bool) -> str:
    """Return one block of an odd-even step, which eliminates it from the equations of its neighbors."""
    triangle, square = size * (size + 1) // 2, size * size
    d, r = symmetric_matrix(step.vectors("d", triangle), size), step.vectors("r", size)
    columns = [r[:, None]]
    if before:
        columns.append(step.vectors("u_before", square).reshape(size, size).T)
    if after:
        columns.append(step.vectors("u", square).reshape(size, size))
    done = factor(d, array([[v for part in columns for v in part[i]] for i in range(size)]))
    inverse_d = array(done.inverse_d)
    weighted = inverse_d * done.halved[:, 0]
    couplings = [done.halved[:, at : at + size] for at in range(1, done.halved.shape[1], size)]
    outputs: dict[str, Any] = {}
    names = [name for name, there in (("before", before), ("after", after)) if there]
    for name, coupling in zip(names, couplings, strict=True):
        d_old, r_old = step.vectors(f"d_{name}", triangle), step.vectors(f"r_{name}", size)
        outputs[f"d_{name}_out"] = d_old - upper_triangle(gram(coupling, done.inverse_d))
        outputs[f"r_{name}_out"] = r_old - coupling.T @ weighted
    if before and after:
        outputs["u_out"] = -(couplings[0].T @ (inverse_d[:, None] * couplings[1]))
    return step.text(outputs)


def _block_solve(step: LinkStep, size: int) -> str:
    d = symmetric_matrix(step.vectors("d", size * (size + 1) // 2), size)
    done = factor(d, step.vectors("r", size)[:, None])
    return step.text({"x": done.solution(done.halved[:, 0])})


def _compose(step: LinkStep) -> str:
    """Return the product of two poses."""
    outer, inner = stored_pose(step, "outer"), stored_pose(step, "inner")
    origin = outer.to_parent(inner.translation) + outer.translation
    return step.text({"pose": array([*np.ravel(outer.rotation @ inner.rotation), *origin])})


def _axis_in_base(step: LinkStep, kind: str) -> str:
    """Return the joint's unit motion in the base."""
    pose, along = stored_pose(step), array([0.0, 0.0, 1.0])
    turned = pose.to_parent(along)
    motion = (
        SpatialMotion(zeros(3), turned)
        if kind == "prismatic"
        else SpatialMotion(turned, cross(pose.translation, turned))
    )
    return step.text({"axis": flattened(motion)})


def _change(step: LinkStep) -> str:
    """Return the acceleration in the base that a joint's velocity adds at q̈ = 0."""
    axis, rate, v = step.vectors("axis", 6), step.vectors("rate", 1)[0], motion_of(step.vectors("v", 6))
    return step.text({"a": flattened(v.cross(motion_of(axis * rate)))})


def _own_force(step: LinkStep) -> str:
    """Return the force in the base that a link's motion needs, (2c)."""
    body, pose = link_inertia(step.numbers("link", LINK_NUMBERS)), stored_pose(step)
    v, a = (pose.motion_to_link(motion_of(step.vectors(name, 6))) for name in ("v", "a"))
    return step.text({"f": flattened(pose.force_to_parent(body @ a + v.cross_force(body @ v)))})


def _own_inertia(step: LinkStep) -> str:
    """Return a link's inertia in the base: mass, first moment, second moment (xx, xy, xz, yy, yz, zz)."""
    body, pose = link_inertia(step.numbers("link", LINK_NUMBERS)), stored_pose(step)
    origin, first = pose.translation, pose.to_parent(body.first)
    mixed = array([[first[i] * origin[j] + origin[i] * first[j] for j in range(3)] for i in range(3)])
    far = array([[body.mass * (origin[i] * origin[j]) for j in range(3)] for i in range(3)])
    second = pose.symmetric_to_parent(body.second) + mixed + far
    return step.text({"inertia": array([body.mass, *(first + origin * body.mass), *upper_triangle(second)])})


def _momentum(step: LinkStep) -> str:
    """Return an inertia times a joint's axis."""
    inertia, axis = step.vectors("inertia", 10), motion_of(step.vectors("axis", 6))
    body = Inertia(inertia[0], inertia[1:4], symmetric_matrix(inertia[4:]))
    return step.text({"f": flattened(body @ axis)})


def warp_header(rotors: bool, forces: bool) -> str:
    """Return the steps of dynagate_warp_chain.cuh.

    Args:
        rotors: Whether a joint has an armature. Without armatures, blocks are smaller.
        forces: Whether constraint forces are computed, else a mass matrix.
    """
    common: dict[str, Callable[[LinkStep, str], str]] = {"rotation": rotation_step, "axis": _axis_in_base}
    own = {"compose": _compose, "change": _change, "own_force": _own_force}
    own |= {} if forces else {"own_inertia": _own_inertia, "momentum": _momentum}
    texts = [build(LinkStep(f"{name}_{kind}"), kind) for name, build in common.items() for kind in KINDS]
    texts += [build(LinkStep(name)) for name, build in own.items()]
    return "\n".join([sizes_text(rotors), *texts, *(force_steps(rotors) if forces else [])])


def sizes_text(rotors: bool) -> str:
    """Return the sizes of the arrays as macros of C."""
    numbers = f"#define LINK_NUMBERS {LINK_NUMBERS}\n#define BLOCK_NUMBERS {BLOCK_NUMBERS}\n"
    return f"{numbers}#define DG_BLOCK {block_size(rotors)}\n"


def block_size(rotors: bool) -> int:
    """Return the number of rows of a block of constraint forces."""
    return 6 if rotors else 5


def force_steps(rotors: bool) -> list[str]:
    """Return the steps of the constraint force algorithm."""
    size = block_size(rotors)
    by_kind: dict[str, Callable[[LinkStep, str], str]] = {"cfa_own": partial(_cfa_own, rotors=rotors)}
    by_kind |= {f"cfa_next_{other}": partial(_cfa_next, rotors=rotors, other=other) for other in KINDS}
    texts = [build(LinkStep(f"{name}_{kind}"), kind) for name, build in by_kind.items() for kind in KINDS]
    for name, before, after in (("both", True, True), ("before", True, False), ("after", False, True)):
        texts.append(_eliminate(LinkStep(f"eliminate_{name}"), size, before, after))
    return [*texts, _block_solve(LinkStep("block_solve"), size)]
