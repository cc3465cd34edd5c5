"""MuJoCo's `equality` of bodies and sites as loops (`robot.model.Constraint`): connect, a point, and weld, a frame.

Stiffness, damping and compliance are those that MuJoCo has where a loop is closed (its manual, "Computation", on solref
and solimp): with the impedance d₀, a reference -b v - k d₀ r and a regularisation (1 - d₀) / d₀ times the bodies'
inverse weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynagate.robot.model import LEAST_COMPLIANCE, Constraint
from dynagate.robot.rotations import matrix_of
from dynagate.robot.terms import is_loop, name_of


class End(NamedTuple):
    """A frame of a loop: the body that carries it, and its pose (3,), (3, 3) there."""

    body: int
    translation: np.ndarray
    rotation: np.ndarray


class Equality(NamedTuple):
    """A loop. name: in the file, or a kind and number. constraint: with the names that its frames are to have."""

    name: str
    constraint: Constraint
    ends: tuple[End, End]


def loops(model: Any) -> Iterator[Equality]:
    """The loops of a model in its order."""
    import mujoco

    for k in range(model.neq):
        if not is_loop(model, k):
            continue
        name = name_of(model, "equality", k)
        data, weld = model.eq_data[k], bool(model.eq_type[k])
        ids = int(model.eq_obj1id[k]), int(model.eq_obj2id[k])
        if model.eq_objtype[k] == int(mujoco.mjtObj.mjOBJ_SITE):
            first, second = (
                End(int(model.site_bodyid[i]), model.site_pos[i], matrix_of(model.site_quat[i])) for i in ids
            )
        elif weld:
            first = End(ids[0], data[3:6], matrix_of(data[6:10]))
            second = End(ids[1], data[0:3], np.eye(3))
        else:
            first, second = (End(body, data[3 * n : 3 * n + 3], np.eye(3)) for n, body in enumerate(ids))
        stiffness, damping = _gains(model, k)
        bodies = [first.body, second.body]
        own = Constraint(
            f"{name}_1",
            "fixed" if weld else "point",
            f"{name}_2",
            stiffness,
            damping,
            _compliance(model, k, bodies, moments=False),
            _compliance(model, k, bodies, moments=True) if weld else None,
        )
        yield Equality(name, own, (first, second))


def _impedance(model: Any, k: int) -> tuple[float, float]:
    """Of a closed loop, and the largest."""
    first, largest = (float(np.clip(x, 1e-4, 0.9999)) for x in model.eq_solimp[k, :2])
    return first, largest


def _gains(model: Any, k: int) -> tuple[float, float]:
    """Stiffness and damping of a closed loop."""
    time, ratio = (float(x) for x in model.eq_solref[k])
    impedance, largest = _impedance(model, k)
    if time > 0.0:
        return impedance / (largest * time * ratio) ** 2, 2.0 / (largest * time)
    return impedance * -time / largest**2, -ratio / largest


def _compliance(model: Any, k: int, bodies: Sequence[int], *, moments: bool) -> float:
    """Of a closed loop. MuJoCo's rows of turning are half the angles, times a factor of the weld's."""
    impedance, _ = _impedance(model, k)
    weights = np.reshape(model.body_invweight0, (-1, 2))[bodies, int(moments)]
    rows = (2.0 / float(model.eq_data[k, 10] or 1.0)) ** 2 if moments else 1.0
    soft = (1.0 - impedance) / impedance * float(weights.sum()) * rows
    return soft if soft >= LEAST_COMPLIANCE else 0.0
