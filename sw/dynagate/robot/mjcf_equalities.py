"""MuJoCo's equality constraints converted to ours: connect (a point), weld (a frame) and equalities of joints.

Stiffness, damping and compliance equal MuJoCo's for a closed loop (its manual, "Computation", on solref and solimp):
with the impedance d₀, the reference acceleration is -b v - k d₀ r, and the regularization is (1 - d₀) / d₀ times
the inverse weights of the bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from dynagate.robot.constraint import JOINTS, LEAST_COMPLIANCE, Constraint
from dynagate.robot.errors import RobotError
from dynagate.robot.mjcf_terms import is_constraint, name_of
from dynagate.robot.rotations import matrix_of


class LoopEnd(NamedTuple):
    """A frame of a loop on a body."""

    body: int
    """Number of the body."""
    translation: np.ndarray
    """Origin (3,) in the body's frame, m."""
    rotation: np.ndarray
    """Rotation (3, 3) in the body's frame."""


class Equality(NamedTuple):
    """An equality constraint of a model."""

    name: str
    """Name in the file, or its kind and number."""
    constraint: Constraint | None
    """The constraint here; None if locked joints leave nothing to constrain, or it is not supported.

        A loop has the names that its frames will get.
    """
    ends: tuple[LoopEnd, ...]
    """The two frames of a loop."""


def equalities(model: Any, lock: Mapping[str, float]) -> Iterator[Equality]:
    """Yield the equality constraints of a model in its order. `lock` holds the positions of locked joints, by name."""
    constants = model.constants
    for k in range(model.neq):
        if not is_constraint(model, k):
            continue
        if model.eq_type[k] == constants.mjtEq.mjEQ_JOINT:
            yield Equality(name_of(model, "equality", k), _of_joints(model, k, lock), ())
        else:
            yield _loop(model, k, sites=bool(model.eq_objtype[k] == constants.mjtObj.mjOBJ_SITE))


def _loop(model: Any, k: int, *, sites: bool) -> Equality:
    """Return equality k, a connect or weld constraint between two bodies or sites."""
    name = name_of(model, "equality", k)
    data, weld = model.eq_data[k], bool(model.eq_type[k])
    ids = int(model.eq_obj1id[k]), int(model.eq_obj2id[k])
    if sites:
        first, second = (
            LoopEnd(int(model.site_bodyid[i]), model.site_pos[i], matrix_of(model.site_quat[i])) for i in ids
        )
    elif weld:
        first = LoopEnd(ids[0], data[3:6], matrix_of(data[6:10]))
        second = LoopEnd(ids[1], data[0:3], np.eye(3))
    else:
        first, second = (LoopEnd(body, data[3 * n : 3 * n + 3], np.eye(3)) for n, body in enumerate(ids))
    bodies = [first.body, second.body]
    own = Constraint(
        f"{name}_1",
        "fixed" if weld else "point",
        f"{name}_2",
        *_gains(model, k),
        _compliance(model, k, bodies, moments=False),
        _compliance(model, k, bodies, moments=True) if weld else None,
    )
    return Equality(name, own, (first, second))


def _of_joints(model: Any, k: int, lock: Mapping[str, float]) -> Constraint | None:
    """Return the equality q₁ - r₁ = Σ a_n (q₂ - r₂)ⁿ of two joints, where r are their reference positions.

    The result is None if the first joint is locked, because the polynomial then determines no joint.
    """
    ids = [int(i) for i in (model.eq_obj1id[k], model.eq_obj2id[k]) if i >= 0]
    names = [name_of(model, "joint", i) for i in ids]
    if names[0] in lock:
        return None
    first, *second = (float(model.qpos0[model.jnt_qposadr[i]]) for i in ids)
    shape = Polynomial(model.eq_data[k, :5] if second else model.eq_data[k, :1])
    if second:
        shape = shape(Polynomial([-second[0], 1.0]))
    shape = shape + first
    to = names[-1] if second and names[-1] not in lock else ""
    parts = shape.trim().coef.tolist() if to or not second else [float(shape(lock[names[-1]]))]
    weights = model.dof_invweight0[[model.jnt_dofadr[i] for i in ids]]
    impedance, _ = _impedance(model, k)
    soft = _soft(impedance, float(weights.sum()))
    return Constraint(names[0], JOINTS, to, *_gains(model, k), soft, polynomial=tuple(parts))


def _impedance(model: Any, k: int) -> tuple[float, float]:
    """Return the impedance of a closed loop and the largest impedance."""
    first, largest = (float(np.clip(x, 1e-4, 0.9999)) for x in model.eq_solimp[k, :2])
    return first, largest


def _gains(model: Any, k: int) -> tuple[float, float]:
    """Return the stiffness and damping of a closed loop."""
    time, ratio = (float(x) for x in model.eq_solref[k])
    impedance, largest = _impedance(model, k)
    if time > 0.0 and not ratio > 0.0:
        name = name_of(model, "equality", k)
        raise RobotError(
            f"equality '{name}' has solref {time:g} {ratio:g}; expected a damping ratio above 0", code="DG-MJCF-013"
        )
    if time > 0.0:
        return impedance / (largest * time * ratio) ** 2, 2.0 / (largest * time)
    return impedance * -time / largest**2, -ratio / largest


def _compliance(model: Any, k: int, bodies: Sequence[int], *, moments: bool) -> float:
    """Return the compliance of a closed loop. MuJoCo's rotation rows are half the angles times a factor of the weld."""
    impedance, _ = _impedance(model, k)
    weights = np.reshape(model.body_invweight0, (-1, 2))[bodies, int(moments)]
    rows = (2.0 / float(model.eq_data[k, 10] or 1.0)) ** 2 if moments else 1.0
    return _soft(impedance, float(weights.sum()) * rows)


def _soft(impedance: float, weight: float) -> float:
    """Return MuJoCo's regularization for the inverse weight that a row moves."""
    soft = (1.0 - impedance) / impedance * weight
    return soft if soft >= LEAST_COMPLIANCE else 0.0
