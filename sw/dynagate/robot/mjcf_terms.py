"""Terms that a MuJoCo model adds to its joints, and a list of the model's terms that are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

MAX_LISTED = 4
"""Largest number of names in a list."""

EQUALITIES = ("connect", "weld", "joint", "tendon", "flex", "flexvert", "flexstrain")
"""MuJoCo's types of equality in the order of their numbers."""

SUPPORTED_EQUALITIES = 3
"""Number of equality types, the first ones, that become constraints here."""


class Terms:
    """Joint terms of a MuJoCo model.

    Attributes:
        armature: Rotor inertia of each degree of freedom (nv,), as in `Joint`.
        damping: Damping of each degree of freedom (nv,), as in `Joint`.
        friction: Coulomb friction of each degree of freedom (nv,).
        gravity: Gravity (3,), m/s².
        left_out: Descriptions of all other terms of the model that act on its joints.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        free = self._free()
        self.armature = np.where(free, 0.0, model.dof_armature)
        self.friction = np.where(free | self._off("FRICTIONLOSS"), 0.0, model.dof_frictionloss)
        self.damping = np.array(model.dof_damping)
        others = self._add_actuators()
        self.damping *= not self._off("DAMPER")
        self.gravity = np.zeros(3) if self._off("GRAVITY") else np.array(model.opt.gravity)
        self.equality_off = self._off("EQUALITY")
        self.left_out = [*others, *self._ignored_terms(free)]

    def _off(self, name: str) -> bool:
        """Return whether the file's <flag> disables a term.

        MuJoCo before 3.4 had one flag for all passive forces. frictionloss and equality are constraints in MuJoCo.
        """
        bits = self._model.constants.mjtDisableBit
        names = [name, *{"DAMPER": ["PASSIVE"], "SPRING": ["PASSIVE"]}.get(name, [])]
        names += ["CONSTRAINT"] if name in ("FRICTIONLOSS", "EQUALITY", "CONTACT") else []
        mask = sum(int(getattr(bits, f"mjDSBL_{known}", 0)) for known in names)
        return bool(self._model.opt.disableflags & mask)

    def _free(self) -> np.ndarray:
        """Return which degrees of freedom (nv,) belong to free joints."""
        free: np.ndarray = self._model.jnt_type[self._model.dof_jntid] == self._model.constants.mjtJoint.mjJNT_FREE
        return free

    def _add_actuators(self) -> list[str]:
        """Add armature and damping of actuators, times gear², to hinges and slides. Return the names of other
        actuators.
        """
        model, constants = self._model, self._model.constants
        rotor, damper = (getattr(model, f"actuator_{name}", np.zeros(model.nu)) for name in ("armature", "damping"))
        drives = [constants.mjtTrn.mjTRN_JOINT, constants.mjtTrn.mjTRN_JOINTINPARENT]
        single = [constants.mjtJoint.mjJNT_HINGE, constants.mjtJoint.mjJNT_SLIDE]
        elsewhere: list[int] = []
        for k in map(int, np.flatnonzero((rotor != 0.0) | (damper != 0.0))):
            joint = model.actuator_trnid[k, 0]
            if model.actuator_trntype[k] not in drives or model.jnt_type[joint] not in single:
                elsewhere.append(k)
                continue
            dof, gear = model.jnt_dofadr[joint], model.actuator_gear[k, 0]
            self.armature[dof] += gear**2 * rotor[k]
            self.damping[dof] += gear**2 * damper[k]
        growing = np.flatnonzero(np.any(getattr(model, "actuator_dampingpoly", np.zeros((model.nu, 1))), axis=1))
        return [
            *self._named("armature and damping of actuators", "actuator", elsewhere, " that drive no hinge or slide"),
            *self._named("damping that grows with speed, of actuators", "actuator", growing),
        ]

    def _ignored_terms(self, free: np.ndarray) -> list[str]:
        """Return descriptions of the remaining terms that are left out."""
        model = self._model
        joints = model.dof_jntid
        rotors = dict.fromkeys(joints[free & (model.dof_armature != 0.0)])
        rubbing = dict.fromkeys(joints[free & (model.dof_frictionloss != 0.0)])
        polynomials = [np.any(getattr(model, f"{part}poly", 0.0), axis=-1) for part in ("dof_damping", "jnt_stiffness")]
        growing = dict.fromkeys(joints[np.flatnonzero(polynomials[0])])
        stiff = (model.jnt_stiffness != 0.0) | polynomials[1]
        springs = np.flatnonzero(stiff & (not self._off("SPRING")))
        floats = np.flatnonzero((model.body_gravcomp != 0.0) & (not self._off("GRAVITY")))
        equal = [] if self.equality_off else [k for k in range(model.neq) if not is_constraint(model, k)]
        named = [
            *self._named("armature of free joints", "joint", rotors, " (a mass without weight)"),
            *self._named("friction of free joints", "joint", rubbing),
            *_listed("equality constraints", [why_not(model, k) for k in equal]),
            *self._tendons(),
            *self._named("actuators", "actuator", range(model.nu), " (torques are the joints' own)"),
            *_listed("stiffness and damping of actuators", self._feedback()),
            *_listed("the larger bound of the force of joints", self._asymmetric_limits()),
            *self._named("the motion of mocap bodies in", "equality", self._with_mocap()),
            *self._named("plugins of bodies", "body", np.flatnonzero(getattr(model, "body_plugin", np.array([])) >= 0)),
            *self._named("springs of joints", "joint", springs),
            *self._named("damping that grows with speed, of joints", "joint", growing),
            *self._named("compensated gravity of bodies", "body", floats),
            *self._named("flexible bodies", "flex", range(model.nflex)),
        ]
        collides = np.any(model.geom_contype) and np.any(model.geom_conaffinity) and not self._off("CONTACT")
        if collides and model.ngeom > 1:
            named.append("contacts")
        if model.opt.density or model.opt.viscosity:
            named.append("the fluid around it")
        return named

    def _feedback(self) -> list[str]:
        """Return the actuators whose force depends on position or speed, with kp and kv."""
        model = self._model
        names = []
        for k in range(model.nu):
            kp, kv = (-float(x) for x in model.actuator_biasprm[k, 1:3])
            if kp or kv:
                names.append(f"'{name_of(model, 'actuator', k)}' (kp {kp + 0.0:g}, kv {kv + 0.0:g})")
        return names

    def _asymmetric_limits(self) -> list[str]:
        """Return the joints whose force limits differ in the two directions, with both limits."""
        model = self._model
        names = []
        for j in map(int, np.flatnonzero(model.jnt_actfrclimited & (model.jnt_actfrcrange.sum(axis=1) != 0.0))):
            low, high = model.jnt_actfrcrange[j]
            effort = min(abs(low), abs(high))
            names.append(f"'{name_of(model, 'joint', j)}' ({low:g} to {high:g}, read as effort {effort:g})")
        return names

    def _with_mocap(self) -> list[int]:
        """Return the active equalities of bodies in which motion capture moves one of the bodies."""
        model = self._model
        moved = []
        for k in range(0 if self.equality_off else model.neq):
            ids = [int(model.eq_obj1id[k]), int(model.eq_obj2id[k])]
            if int(model.eq_type[k]) < 2 and int(model.eq_objtype[k]) == 1 and is_constraint(model, k):
                moved += [k] if any(model.body_mocapid[i] >= 0 for i in ids) else []
        return moved

    def _tendons(self) -> list[str]:
        """Return descriptions of the tendons and their effects on joints."""
        model = self._model
        kinds = ("armature", "stiffness", "damping", "frictionloss")
        names = []
        for k in range(model.ntendon):
            forces = [kind for kind in kinds if np.any(getattr(model, f"tendon_{kind}", np.zeros(k + 1))[k])]
            names.append(f"'{name_of(model, 'tendon', k)}'" + (f" ({', '.join(forces)})" if forces else ""))
        return _listed("tendons", names)

    def _named(self, what: str, kind: str, numbers: Iterable[int], note: str = "") -> list[str]:
        names = [f"'{name_of(self._model, kind, int(k))}'" for k in numbers]
        return [text + note for text in _listed(what, names)]


def _listed(what: str, names: Sequence[str]) -> list[str]:
    """Return one text with a title and the first names, or no text if there are no names."""
    if not names:
        return []
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return [f"{what} {', '.join(names[:MAX_LISTED])}{more}"]


def is_constraint(model: Any, k: int) -> bool:
    """Return whether equality k is active and concerns bodies, sites or joints."""
    return bool(model.eq_type[k] < SUPPORTED_EQUALITIES and model.eq_active0[k])


def why_not(model: Any, k: int) -> str:
    """Return a description of equality k, which is not supported, with the reason."""
    kind = EQUALITIES[model.eq_type[k]] if model.eq_type[k] < len(EQUALITIES) else "of another kind"
    return f"'{name_of(model, 'equality', k)}' ({kind if model.eq_type[k] >= SUPPORTED_EQUALITIES else 'not active'})"


def name_of(model: Any, kind: str, number: int) -> str:
    """Return the name of an object in a model, or its kind and number if it has no name."""
    return getattr(model, kind)(number).name or f"{kind}_{number}"
