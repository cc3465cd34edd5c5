"""One link's part of each algorithm as a function in C; the loops over links and blocks are in chain.h."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from dynagate.dynamics.recursions.articulated import ArticulatedInertia
from dynagate.dynamics.serial_chains.block_tridiagonal import factor, gram
from dynagate.dynamics.spatial import Array, Inertia, Scalar, SpatialForce, SpatialMotion, array, cross, zeros
from dynagate.dynamics.transforms import AxisTransform, FreeTransform
from parallel.step import Step

LINK_NUMBERS = 25
"""Per link: rotation (9) and translation (3) of the joint's frame, mass, first moment (3), second moment (6: xx, xy,
xz, yy, yz, zz), armature, damping, root of the armature."""

BLOCK_NUMBERS = 108
"""Per link: mobility, the parent's mobility seen from the link at q = 0, mobility times the next link's Xᵀ at q = 0; 36
numbers each."""

KINDS = ("revolute", "prismatic")
DIRECTION = {"revolute": 2, "prismatic": 5}


def _pose(kind: str, link: Array, turn: Array) -> FreeTransform:
    """turn: cosine and sine of a revolute joint's angle, or a prismatic one's distance twice."""
    fixed, origin = link[:9].reshape(3, 3), link[9:12]
    if kind == "prismatic":
        return FreeTransform(fixed, origin + fixed[:, 2] * turn[0])
    one = array(np.eye(3))
    return FreeTransform(AxisTransform(fixed, origin, turn[0], turn[1]).after(one), origin)


def _body(link: Array) -> Inertia:
    return Inertia(link[12], link[13:16], _symmetric(link[16:22]))


def _symmetric(upper: Array, size: int = 3) -> Array:
    matrix = zeros(size, size)
    for value, (i, j) in zip(upper, zip(*np.triu_indices(size), strict=True), strict=True):
        matrix[i, j] = matrix[j, i] = value
    return matrix


def _upper(matrix: Array) -> Array:
    return matrix[np.triu_indices(len(matrix))]


def _axis(kind: str, rate: Scalar = 1.0) -> SpatialMotion:
    along = array([0.0, 0.0, rate])
    return SpatialMotion(zeros(3), along) if kind == "prismatic" else SpatialMotion(along, zeros(3))


def _along(kind: str, force: SpatialForce) -> Scalar:
    return force[kind == "prismatic"][2]


def _motion(values: Array) -> SpatialMotion:
    return SpatialMotion(values[:3], values[3:])


def _force(values: Array) -> SpatialForce:
    return SpatialForce(values[:3], values[3:])


def _flat(pair: SpatialMotion | SpatialForce) -> Array:
    return array([*pair.angular, *pair.linear])


def _articulated(values: Array) -> ArticulatedInertia:
    return ArticulatedInertia(_symmetric(values[:6]), values[6:15].reshape(3, 3), _symmetric(values[15:21]))


def _flat_articulated(inertia: ArticulatedInertia) -> Array:
    return array([*_upper(inertia.rotational), *np.ravel(inertia.coupling), *_upper(inertia.mass)])


def _yielding(
    kind: str, link: Array, inertia: ArticulatedInertia, rotors: bool
) -> tuple[SpatialForce, Scalar, ArticulatedInertia]:
    """U, 1/D, and what is left of the inertia where the joint yields. Without a rotor nothing is left along the joint,
    which saves a quarter of what follows."""
    u = inertia @ _axis(kind)
    inverse_d = 1.0 / (_along(kind, u) + (link[22] if rotors else 0.0))
    left = inertia.after_elimination(u, inverse_d)
    if not rotors:
        if kind == "prismatic":
            left.mass[2, :] = left.mass[:, 2] = 0.0
            left.coupling[:, 2] = 0.0
        else:
            left.rotational[2, :] = left.rotational[:, 2] = 0.0
            left.coupling[2, :] = 0.0
    return u, inverse_d, left


def _bias_down(step: Step, kind: str, accelerated: bool = False) -> str:
    """Velocity, acceleration, at q̈ = 0 unless accelerated, and the force that a link's motion takes, (2a) to (2c)."""
    link, turn = step.numbers("link", LINK_NUMBERS), step.vectors("turn", 2)
    v_parent, a_parent = _motion(step.vectors("v_parent", 6)), _motion(step.vectors("a_parent", 6))
    rate = _axis(kind, step.vectors("rate", 1)[0])
    pose, body = _pose(kind, link, turn), _body(link)
    v = pose.motion_to_link(v_parent) + rate
    a = pose.motion_to_link(a_parent) + v.cross(rate)
    if accelerated:
        a = a + _axis(kind, step.vectors("qdd", 1)[0])
    return step.text({"v": _flat(v), "a": _flat(a), "f": _flat(body @ a + v.cross_force(body @ v))})


def _bias_up(step: Step, kind: str) -> str:
    """τ_δ, and the force passed to the parent."""
    link, turn = step.numbers("link", LINK_NUMBERS), step.vectors("turn", 2)
    force, rate, torque = _force(step.vectors("f", 6)), step.vectors("rate", 1)[0], step.vectors("torque", 1)[0]
    net = torque - _along(kind, force) - link[23] * rate
    return step.text({"net": net, "up": _flat(_pose(kind, link, turn).force_to_parent(force))})


def _rotation(step: Step, kind: str) -> str:
    link, turn = step.numbers("link", LINK_NUMBERS), step.vectors("turn", 2)
    pose = _pose(kind, link, turn)
    return step.text({"pose": array([*np.ravel(pose.rotation), *pose.translation])})


def _stored(step: Step, name: str = "pose") -> FreeTransform:
    pose = step.vectors(name, 12)
    return FreeTransform(pose[:9].reshape(3, 3), pose[9:])


def _unit_begin(step: Step, kind: str) -> str:
    """A unit acceleration of a joint: its link's motion and force."""
    axis = _axis(kind)
    return step.text({"a": _flat(axis), "f": _flat(_body(step.numbers("link", LINK_NUMBERS)) @ axis)})


def _unit_down(step: Step) -> str:
    link, pose, parent = step.numbers("link", LINK_NUMBERS), _stored(step), _motion(step.vectors("parent", 6))
    a = pose.motion_to_link(parent)
    return step.text({"a": _flat(a), "f": _flat(_body(link) @ a)})


def _unit_up(step: Step) -> str:
    """f: the parent's own, then with the link's added."""
    pose, force, own = _stored(step), _force(step.vectors("force", 6)), _force(step.vectors("own", 6))
    return step.text({"f": _flat(own + pose.force_to_parent(force))})


def _abia_inertia(step: Step, kind: str, rotors: bool) -> str:
    """gain = Xᵀ U D⁻¹ (6), D⁻¹; `up`: the articulated inertia for the parent."""
    link, turn, carry = step.numbers("link", LINK_NUMBERS), step.vectors("turn", 2), step.vectors("carry", 21)
    pose = _pose(kind, link, turn)
    inertia = ArticulatedInertia.of(_body(link)) + _articulated(carry)
    u, inverse_d, left = _yielding(kind, link, inertia, rotors)
    gain = pose.force_to_parent(u.scaled(inverse_d))
    return step.text({"gain": array([*_flat(gain), inverse_d]), "up": _flat_articulated(left.in_parent(pose))})


def _abia_back(step: Step, kind: str) -> str:
    link, turn, gain = step.numbers("link", LINK_NUMBERS), step.vectors("turn", 2), step.vectors("gain", 7)
    z, net = _force(step.vectors("z", 6)), step.vectors("net", 1)[0]
    rest = net - _along(kind, z)
    up = _pose(kind, link, turn).force_to_parent(z) + _force(gain[:6]).scaled(rest)
    return step.text({"drive": rest * gain[6], "up": _flat(up)})


def _abia_forth(step: Step, kind: str) -> str:
    link, turn, gain = step.numbers("link", LINK_NUMBERS), step.vectors("turn", 2), step.vectors("gain", 7)
    drive, parent = step.vectors("drive", 1)[0], _motion(step.vectors("parent", 6))
    qdd = drive - parent.dot(_force(gain[:6]))
    return step.text({"qdd": qdd, "a": _flat(_pose(kind, link, turn).motion_to_link(parent) + _axis(kind, qdd))})


def _turn(kind: str, turn: Array) -> Array:
    x = array(np.eye(6))
    if kind == "prismatic":
        x[3, 1], x[4, 0] = turn[0], -turn[0]
        return x
    for at in (0, 3):
        x[at : at + 2, at : at + 2] = array([[turn[0], turn[1]], [-turn[1], turn[0]]])
    return x


def _others(kind: str) -> list[int]:
    return [k for k in range(6) if k != DIRECTION[kind]]


def _basis(kind: str, link: Array, rotors: bool) -> Array:
    """W; with rotors its last column is -√r S."""
    basis = array(np.eye(6)[:, _others(kind)])
    if not rotors:
        return basis
    column = zeros(6, 1)
    column[DIRECTION[kind], 0] = -link[24]
    return array([[*row, *last] for row, last in zip(basis, column, strict=True)])


def _cfa_own(step: Step, kind: str, rotors: bool) -> str:
    """A_ii, what K_ii gives to the right side and to q̈."""
    link, block, turn = (
        step.numbers("link", LINK_NUMBERS),
        step.numbers("block", BLOCK_NUMBERS),
        step.vectors("turn", 2),
    )
    net = step.vectors("net", 1)[0]
    x, w, k = _turn(kind, turn), _basis(kind, link, rotors), DIRECTION[kind]
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
    return step.text({"d": _upper(own), "r": -(w.T @ pushed), "free": pushed[k], "row": row})


def _cfa_next(step: Step, kind: str, rotors: bool, other: str) -> str:
    """A_{i,i+1}, and what K_{i,i+1} gives to both links' right sides and q̈."""
    link, block, turn = (
        step.numbers("link", LINK_NUMBERS),
        step.numbers("block", BLOCK_NUMBERS),
        step.vectors("next_turn", 2),
    )
    following = step.numbers("next_link", LINK_NUMBERS)
    net = step.vectors("net", 2)
    r, r_next = step.vectors("r", 5 + rotors), step.vectors("r_next", 5 + rotors)
    free, free_next = step.vectors("free", 1)[0], step.vectors("free_next", 1)[0]
    k, k_next = DIRECTION[kind], DIRECTION[other]
    upper = -(block[72:].reshape(6, 6) @ _turn(other, turn).T)
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


def _eliminate(step: Step, size: int, before: bool, after: bool) -> str:
    """One block of an odd-even step: it leaves the equations of its neighbors."""
    triangle, square = size * (size + 1) // 2, size * size
    d, r = _symmetric(step.vectors("d", triangle), size), step.vectors("r", size)
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
        outputs[f"d_{name}_out"] = d_old - _upper(gram(coupling, done.inverse_d))
        outputs[f"r_{name}_out"] = r_old - coupling.T @ weighted
    if before and after:
        outputs["u_out"] = -(couplings[0].T @ (inverse_d[:, None] * couplings[1]))
    return step.text(outputs)


def _block_solve(step: Step, size: int) -> str:
    d = _symmetric(step.vectors("d", size * (size + 1) // 2), size)
    done = factor(d, step.vectors("r", size)[:, None])
    return step.text({"x": done.solution(done.halved[:, 0])})


def _compose(step: Step) -> str:
    """The pose in outer's parent of what inner moves."""
    outer, inner = _stored(step, "outer"), _stored(step, "inner")
    origin = outer.to_parent(inner.translation) + outer.translation
    return step.text({"pose": array([*np.ravel(outer.rotation @ inner.rotation), *origin])})


def _axis_in_base(step: Step, kind: str) -> str:
    """The joint's unit motion in the base."""
    pose, along = _stored(step), array([0.0, 0.0, 1.0])
    turned = pose.to_parent(along)
    motion = (
        SpatialMotion(zeros(3), turned)
        if kind == "prismatic"
        else SpatialMotion(turned, cross(pose.translation, turned))
    )
    return step.text({"axis": _flat(motion)})


def _change(step: Step) -> str:
    """What the joint's motion changes of its link's, at q̈ = 0, all in the base."""
    axis, rate, v = step.vectors("axis", 6), step.vectors("rate", 1)[0], _motion(step.vectors("v", 6))
    return step.text({"a": _flat(v.cross(_motion(axis * rate)))})


def _own_force(step: Step) -> str:
    """The force in the base that a link's motion there takes, (2c)."""
    body, pose = _body(step.numbers("link", LINK_NUMBERS)), _stored(step)
    v, a = (pose.motion_to_link(_motion(step.vectors(name, 6))) for name in ("v", "a"))
    return step.text({"f": _flat(pose.force_to_parent(body @ a + v.cross_force(body @ v)))})


def _own_inertia(step: Step) -> str:
    """A link's inertia in the base: mass, first moment, second moment (xx, xy, xz, yy, yz, zz)."""
    body, pose = _body(step.numbers("link", LINK_NUMBERS)), _stored(step)
    origin, first = pose.translation, pose.to_parent(body.first)
    mixed = array([[first[i] * origin[j] + origin[i] * first[j] for j in range(3)] for i in range(3)])
    far = array([[body.mass * (origin[i] * origin[j]) for j in range(3)] for i in range(3)])
    second = pose.symmetric_to_parent(body.second) + mixed + far
    return step.text({"inertia": array([body.mass, *(first + origin * body.mass), *_upper(second)])})


def _momentum(step: Step) -> str:
    """An inertia times a joint's axis."""
    inertia, axis = step.vectors("inertia", 10), _motion(step.vectors("axis", 6))
    body = Inertia(inertia[0], inertia[1:4], _symmetric(inertia[4:]))
    return step.text({"f": _flat(body @ axis)})


def warp_header(rotors: bool, forces: bool) -> str:
    """The steps of warp.h. forces: those of constraint forces too."""
    common: dict[str, Callable[[Step, str], str]] = {"rotation": _rotation, "axis": _axis_in_base}
    own = {"compose": _compose, "change": _change, "own_force": _own_force}
    own |= {} if forces else {"own_inertia": _own_inertia, "momentum": _momentum}
    texts = [build(Step(f"{name}_{kind}"), kind) for name, build in common.items() for kind in KINDS]
    texts += [build(Step(name)) for name, build in own.items()]
    return "\n".join([_sizes(rotors), *texts, *(_force_steps(rotors) if forces else [])])


def _sizes(rotors: bool) -> str:
    numbers = f"#define LINK_NUMBERS {LINK_NUMBERS}\n#define BLOCK_NUMBERS {BLOCK_NUMBERS}\n"
    return f"{numbers}#define DG_BLOCK {block_size(rotors)}\n"


def block_size(rotors: bool) -> int:
    """Rows of a block of constraint forces."""
    return 6 if rotors else 5


def _force_steps(rotors: bool) -> list[str]:
    """Those of the constraint force algorithm."""
    size = block_size(rotors)
    by_kind: dict[str, Callable[[Step, str], str]] = {"cfa_own": partial(_cfa_own, rotors=rotors)}
    by_kind |= {f"cfa_next_{other}": partial(_cfa_next, rotors=rotors, other=other) for other in KINDS}
    texts = [build(Step(f"{name}_{kind}"), kind) for name, build in by_kind.items() for kind in KINDS]
    for name, before, after in (("both", True, True), ("before", True, False), ("after", False, True)):
        texts.append(_eliminate(Step(f"eliminate_{name}"), size, before, after))
    return [*texts, _block_solve(Step("block_solve"), size)]


def header(rotors: bool) -> str:
    """All steps. rotors: whether a joint has an armature; without any, blocks are smaller and inertias sparser."""
    by_kind: dict[str, Callable[[Step, str], str]] = {
        "bias_down": _bias_down,
        "accelerated_down": partial(_bias_down, accelerated=True),
        "bias_up": _bias_up,
        "rotation": _rotation,
        "unit_begin": _unit_begin,
        "abia_inertia": partial(_abia_inertia, rotors=rotors),
        "abia_back": _abia_back,
        "abia_forth": _abia_forth,
    }
    texts = [build(Step(f"{name}_{kind}"), kind) for name, build in by_kind.items() for kind in KINDS]
    units = [_unit_down(Step("unit_down")), _unit_up(Step("unit_up"))]
    return "\n".join([_sizes(rotors), *texts, *units, *_force_steps(rotors)])
