"""One link's part of each algorithm as a function in C; the loops over links and blocks are in chain.h."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from dynagate.dynamics.recursions.articulated import ArticulatedInertia
from dynagate.dynamics.spatial import Array, Scalar, SpatialForce, array
from dynagate.native.chains.step import LinkStep
from dynagate.native.chains.steps import (
    KINDS,
    LINK_NUMBERS,
    flattened,
    force_of,
    force_steps,
    joint_component,
    joint_motion,
    joint_pose,
    link_inertia,
    motion_of,
    rotation_step,
    sizes_text,
    stored_pose,
    symmetric_matrix,
    upper_triangle,
)


def _articulated(values: Array) -> ArticulatedInertia:
    return ArticulatedInertia(symmetric_matrix(values[:6]), values[6:15].reshape(3, 3), symmetric_matrix(values[15:21]))


def _flat_articulated(inertia: ArticulatedInertia) -> Array:
    return array([*upper_triangle(inertia.rotational), *np.ravel(inertia.coupling), *upper_triangle(inertia.mass)])


def _yielding(
    kind: str, link: Array, inertia: ArticulatedInertia, rotors: bool
) -> tuple[SpatialForce, Scalar, ArticulatedInertia]:
    """U, 1/D, and what is left of the inertia where the joint yields. Without a rotor nothing is left along the joint,
    which saves a quarter of what follows."""
    u = inertia @ joint_motion(kind)
    inverse_d = 1.0 / (joint_component(kind, u) + (link[22] if rotors else 0.0))
    left = inertia.after_elimination(u, inverse_d)
    if not rotors:
        if kind == "prismatic":
            left.mass[2, :] = left.mass[:, 2] = 0.0
            left.coupling[:, 2] = 0.0
        else:
            left.rotational[2, :] = left.rotational[:, 2] = 0.0
            left.coupling[2, :] = 0.0
    return u, inverse_d, left


def _bias_down(step: LinkStep, kind: str, accelerated: bool = False) -> str:
    """Velocity, acceleration, at q̈ = 0 unless accelerated, and the force that a link's motion takes, (2a) to (2c)."""
    link, turn = step.numbers("link", LINK_NUMBERS), step.vectors("turn", 2)
    v_parent, a_parent = motion_of(step.vectors("v_parent", 6)), motion_of(step.vectors("a_parent", 6))
    rate = joint_motion(kind, step.vectors("rate", 1)[0])
    pose, body = joint_pose(kind, link, turn), link_inertia(link)
    v = pose.motion_to_link(v_parent) + rate
    a = pose.motion_to_link(a_parent) + v.cross(rate)
    if accelerated:
        a = a + joint_motion(kind, step.vectors("qdd", 1)[0])
    return step.text({"v": flattened(v), "a": flattened(a), "f": flattened(body @ a + v.cross_force(body @ v))})


def _bias_up(step: LinkStep, kind: str) -> str:
    """τ_δ, and the force passed to the parent."""
    link, turn = step.numbers("link", LINK_NUMBERS), step.vectors("turn", 2)
    force, rate, torque = force_of(step.vectors("f", 6)), step.vectors("rate", 1)[0], step.vectors("torque", 1)[0]
    net = torque - joint_component(kind, force) - link[23] * rate
    return step.text({"net": net, "up": flattened(joint_pose(kind, link, turn).force_to_parent(force))})


def _unit_begin(step: LinkStep, kind: str) -> str:
    """A unit acceleration of a joint: its link's motion and force."""
    axis = joint_motion(kind)
    return step.text({"a": flattened(axis), "f": flattened(link_inertia(step.numbers("link", LINK_NUMBERS)) @ axis)})


def _unit_down(step: LinkStep) -> str:
    link, pose, parent = step.numbers("link", LINK_NUMBERS), stored_pose(step), motion_of(step.vectors("parent", 6))
    a = pose.motion_to_link(parent)
    return step.text({"a": flattened(a), "f": flattened(link_inertia(link) @ a)})


def _unit_up(step: LinkStep) -> str:
    """f: the parent's own, then with the link's added."""
    pose, force, own = stored_pose(step), force_of(step.vectors("force", 6)), force_of(step.vectors("own", 6))
    return step.text({"f": flattened(own + pose.force_to_parent(force))})


def _abia_inertia(step: LinkStep, kind: str, rotors: bool) -> str:
    """gain = Xᵀ U D⁻¹ (6), D⁻¹; `up`: the articulated inertia for the parent."""
    link, turn, carry = step.numbers("link", LINK_NUMBERS), step.vectors("turn", 2), step.vectors("carry", 21)
    pose = joint_pose(kind, link, turn)
    inertia = ArticulatedInertia.of(link_inertia(link)) + _articulated(carry)
    u, inverse_d, left = _yielding(kind, link, inertia, rotors)
    gain = pose.force_to_parent(u.scaled(inverse_d))
    return step.text({"gain": array([*flattened(gain), inverse_d]), "up": _flat_articulated(left.in_parent(pose))})


def _abia_back(step: LinkStep, kind: str) -> str:
    link, turn, gain = step.numbers("link", LINK_NUMBERS), step.vectors("turn", 2), step.vectors("gain", 7)
    z, net = force_of(step.vectors("z", 6)), step.vectors("net", 1)[0]
    rest = net - joint_component(kind, z)
    up = joint_pose(kind, link, turn).force_to_parent(z) + force_of(gain[:6]).scaled(rest)
    return step.text({"drive": rest * gain[6], "up": flattened(up)})


def _abia_forth(step: LinkStep, kind: str) -> str:
    link, turn, gain = step.numbers("link", LINK_NUMBERS), step.vectors("turn", 2), step.vectors("gain", 7)
    drive, parent = step.vectors("drive", 1)[0], motion_of(step.vectors("parent", 6))
    qdd = drive - parent.dot(force_of(gain[:6]))
    return step.text(
        {"qdd": qdd, "a": flattened(joint_pose(kind, link, turn).motion_to_link(parent) + joint_motion(kind, qdd))}
    )


def header(rotors: bool) -> str:
    """All steps. rotors: whether a joint has an armature; without any, blocks are smaller and inertias sparser."""
    by_kind: dict[str, Callable[[LinkStep, str], str]] = {
        "bias_down": _bias_down,
        "accelerated_down": partial(_bias_down, accelerated=True),
        "bias_up": _bias_up,
        "rotation": rotation_step,
        "unit_begin": _unit_begin,
        "abia_inertia": partial(_abia_inertia, rotors=rotors),
        "abia_back": _abia_back,
        "abia_forth": _abia_forth,
    }
    texts = [build(LinkStep(f"{name}_{kind}"), kind) for name, build in by_kind.items() for kind in KINDS]
    units = [_unit_down(LinkStep("unit_down")), _unit_up(LinkStep("unit_up"))]
    return "\n".join([sizes_text(rotors), *texts, *units, *force_steps(rotors)])
