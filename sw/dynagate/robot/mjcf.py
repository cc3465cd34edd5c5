"""MJCF file -> Robot, through the model that MuJoCo's own compiler makes of it.

Defaults, includes, angles in degrees and inertias from shapes are MuJoCo's to resolve. The file is read by MuJoCo, with
all files that it names: read none that you do not trust.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentTypeError, MissingExtraError
from dynagate.robot.faults import Faults, warn_of_friction
from dynagate.robot.markup import check_file, finite
from dynagate.robot.model import (
    Frame,
    Joint,
    Link,
    Robot,
    RobotError,
    RobotWarning,
    Vector3,
    check_inertia,
    matrix3,
    vector3,
    without_noise,
)
from dynagate.robot.rotations import NEAR, Rounding

OWN = {
    "floating_base": "a <freejoint/> in the file",
    "unlimited": "the file's own limited=",
    "lax": "a file that MuJoCo reads",
}
"""Options of the URDF reader that mean nothing here, and what says it instead."""


@dataclass(frozen=True)
class _Place:
    """A body's frame. owner: index of the moving link that it sits on, -1 for the world."""

    owner: int
    rotation: np.ndarray
    translation: np.ndarray

    def at(self, rotation: np.ndarray, translation: np.ndarray) -> _Place:
        """A frame whose pose in this one is known."""
        moved = self.translation + self.rotation @ translation
        return _Place(self.owner, self.rotation @ rotation, without_noise(moved))


def read_mjcf(
    path: str | PathLike[str],
    *,
    gravity: Vector3 | None = None,
    lock: Mapping[str, float] | None = None,
    damping: bool = True,
    ignore_friction: bool = False,
    allow_unphysical: bool = False,
    round_rotations: float = 1e-9,
    **others: Any,
) -> Robot:
    """Read a robot from MuJoCo's format: bodies, hinge, slide, ball and free joints, armature, damping, frictionloss,
    limits and gravity. Bodies without a joint are merged into those that carry them. A body of several joints is as
    many links, of which the last has its name and mass. Bodies without a joint and sites are frames (`Robot.frame`).

    q is MuJoCo's qpos but for the order in quaternions: ours are (x, y, z, w). v is qvel but for the linear velocity of
    a free joint, which is in the body's axes here. gravity: instead of the file's, m/s². lock: hinges and slides to
    hold at a position, by name. damping, ignore_friction, allow_unphysical, round_rotations: as in
    `read_urdf`.
    A RobotWarning names what is left out, because it is no rigid-body dynamics of a tree: equality constraints,
    tendons, contacts, springs, actuators, compensated gravity and fluids.

    Raises RobotError: the file is missing or too large, MuJoCo refuses it, it has nothing that moves, or it has masses
    that need an option; MissingExtraError without the `mujoco` package.
    """
    path = Path(path)
    for option in others:
        if option not in OWN:
            raise ArgumentTypeError(f"read_mjcf() got an unexpected keyword argument '{option}'")
        if others[option]:
            raise RobotError(f"{path.name}: {option}= is for URDF; expected {OWN[option]}")
    if gravity is not None and (np.shape(gravity) != (3,) or not all(finite(g) for g in gravity)):
        raise RobotError(f"gravity={gravity}; expected three finite numbers in m/s²")
    for joint, position in (lock or {}).items():
        if not finite(position):
            raise RobotError(f"lock={{'{joint}': {position}}}; expected a finite position in rad or m")
    if not finite(round_rotations) or not 0.0 <= round_rotations <= NEAR:
        raise RobotError(f"round_rotations={round_rotations}; expected 0 to {NEAR:g} rad")
    try:
        model = _compiled(path)
        reader = _Reader(model, lock or {}, Rounding(round_rotations))
        reader.damping, reader.ignore_friction, reader.allow_unphysical = damping, ignore_friction, allow_unphysical
        robot = reader.robot(path.stem, vector3(model.opt.gravity if gravity is None else gravity))
    except RobotError as error:
        raise RobotError(f"{path.name}: {error}") from None
    warn_of_friction(path.name, robot)
    if ignored := _ignored(model):
        text = f"{path.name}: left out, being no dynamics of a free tree: {', '.join(ignored)}"
        warnings.warn(text, RobotWarning, stacklevel=3)
    return robot


def _compiled(path: Path) -> Any:
    """MuJoCo's MjModel. Meshes are not read where all masses are in the file, so that none need be there."""
    try:
        import mujoco
    except ImportError:
        raise MissingExtraError("MJCF is read by the module 'mujoco'; pip install 'dynagate[mjcf]'") from None
    check_file(path, "an MJCF")
    said: list[str] = []
    mujoco.set_mju_user_warning(said.append)  # else MuJoCo writes a log file where it is called
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        _without_meshes(spec, mujoco)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of masses that are near to none, which `check_invertible` names
            model = spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        raise RobotError(f"MuJoCo refuses it: {' '.join(str(error).split())}") from None
    finally:
        mujoco.set_mju_user_warning(None)
    if any("NaN" in text for text in said):
        raise RobotError("has a NaN among its numbers, which MuJoCo takes for one that is not given; expected numbers")
    return model


def _without_meshes(spec: Any, mujoco: Any) -> None:
    """Take out shapes that no mass comes from, and the files that they name."""
    shapes = [geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_MESH]
    if spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE or not all(
        geom.parent.explicitinertial or geom.parent.name == "world" for geom in shapes
    ):
        return
    for painted in [*spec.geoms, *spec.sites, *spec.tendons]:
        painted.material = ""
    for element in [*shapes, *spec.meshes, *spec.textures, *spec.materials, *spec.skins]:
        spec.delete(element)


def _ignored(model: Any) -> list[str]:
    """What of a model is no rigid-body dynamics of its tree, in words."""
    collides = np.any(model.geom_contype) and np.any(model.geom_conaffinity)
    counts = [
        (model.neq, "equality constraints"),
        (model.ntendon, "tendons"),
        (model.nu, "actuators (torques are the joints' own)"),
        (np.count_nonzero(model.jnt_stiffness) + np.count_nonzero(model.jnt_stiffnesspoly), "springs"),
        (np.count_nonzero(model.dof_dampingpoly), "damping that grows with speed"),
        (np.count_nonzero(model.body_gravcomp), "compensated gravity"),
        (model.nflex, "flexible bodies"),
    ]
    named = [f"{count} {what}" for count, what in counts if count]
    if collides and model.ngeom > 1:
        named.append("contacts")
    if model.opt.density or model.opt.viscosity:
        named.append("the fluid around it")
    return named


class _Reader:
    """One model. damping, ignore_friction, allow_unphysical: as `read_mjcf` is told."""

    def __init__(self, model: Any, lock: Mapping[str, float], rounding: Rounding) -> None:
        self.model, self.lock, self.rounding = model, lock, rounding
        self.damping, self.ignore_friction, self.allow_unphysical = True, False, False
        self.faults = Faults(lock)
        self.links: list[Link] = []
        self.frames: list[Frame] = []

    def robot(self, stem: str, gravity: Vector3) -> Robot:
        model = self.model
        joints = [self._name(model.jnt(j).name, "joint", j) for j in range(model.njnt)]
        for name in self.lock:
            if name not in joints:
                raise RobotError(f"lock names joint '{name}', which the file does not define")
        places = [_Place(-1, np.eye(3), np.zeros(3))]
        for body in range(1, model.nbody):
            above = places[model.body_parentid[body]]
            place = self._turned(above.at(_rotation(model.body_quat[body]), model.body_pos[body]), body)
            first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
            for j in range(first, first + count):
                place = self._pass(place, body, j, joints[j], last=j == first + count - 1)
            if place.owner >= 0:
                self._carry(place, body)
            places.append(place)
            if not count:
                self._frame(self._name(model.body(body).name, "body", body), place)
        for site in range(model.nsite):
            turn = _rotation(model.site_quat[site])
            self._frame(
                self._name(model.site(site).name, "site", site),
                places[model.site_bodyid[site]].at(turn, model.site_pos[site]),
            )
        if not self.links and not self.faults:
            raise RobotError("has no moving joint; expected at least one")
        if not self.allow_unphysical:
            for link in self.links:
                self._check(link)
        if self.faults:
            raise self.faults.error()
        named = model.names[: model.names.index(b"\0")].decode(errors="replace")
        return Robot(
            named if named not in ("", "MuJoCo Model") else stem,
            tuple(self.links),
            gravity,
            rounding=self.rounding.turned,
            frames=tuple(self.frames),
        )

    def _frame(self, name: str, place: _Place) -> None:
        """A body without a joint, or a site, whose name no other has."""
        if name not in {link.name for link in self.links} | {frame.name for frame in self.frames}:
            self.frames.append(Frame(name, place.owner, matrix3(place.rotation), vector3(place.translation)))

    def _pass(self, place: _Place, body: int, j: int, name: str, *, last: bool) -> _Place:
        """The body's frame beyond a joint, which begins a link unless it is held."""
        model = self.model
        if not abs(np.linalg.norm(model.jnt_axis[j]) - 1.0) < 1e-9:
            raise RobotError(f"joint '{name}' has axis {model.jnt_axis[j].tolist()}; expected a direction")
        anchor, axis = model.jnt_pos[j].copy(), self.rounding.axis(model.jnt_axis[j], f"joint '{name}'")
        kind = ("floating", "spherical", "prismatic", "revolute")[model.jnt_type[j]]
        single = kind in ("prismatic", "revolute")
        start = float(model.qpos0[model.jnt_qposadr[j]]) if single else 0.0
        if name in self.lock:
            if not single:
                raise RobotError(f"joint '{name}' is {kind} and has no single position to lock it at")
            return self._moved(place, body, kind, axis, anchor, self.lock[name] - start)
        if kind == "floating":  # its q is a pose in the world, wherever the file begins
            place, anchor = _Place(place.owner, np.eye(3), np.zeros(3)), np.zeros(3)
        elif kind == "prismatic":
            anchor = np.zeros(3)
        if single:
            place = self._moved(place, body, kind, axis, anchor, -start)
        link = self._name(model.body(body).name, "body", body)
        frame = place.at(np.eye(3), anchor)
        joint = self._joint(j, name, kind, frame, axis if single else np.array([0.0, 0.0, 1.0]))
        nothing = matrix3(np.zeros((3, 3)))
        self.links.append(Link(link if last else f"{link}.{name}", place.owner, joint, 0.0, (0.0, 0.0, 0.0), nothing))
        return _Place(len(self.links) - 1, np.eye(3), -anchor)

    def _joint(self, j: int, name: str, kind: str, frame: _Place, axis: np.ndarray) -> Joint:
        model = self.model
        dofs = slice(model.jnt_dofadr[j], model.jnt_dofadr[j] + {"floating": 6, "spherical": 3}.get(kind, 1))
        limited = bool(model.jnt_limited[j]) and kind in ("prismatic", "revolute")
        lower, upper = (float(x) for x in model.jnt_range[j])
        if limited and not lower < upper:
            self.faults.add(f"joint '{name}' has limits [{lower}, {upper}]; expected lower < upper", lock={name: lower})
        effort = float(np.abs(model.jnt_actfrcrange[j]).min()) if model.jnt_actfrclimited[j] else 0.0
        return Joint(
            name,
            "continuous" if kind == "revolute" and not limited else kind,
            matrix3(frame.rotation),
            vector3(frame.translation),
            vector3(without_noise(axis)),
            lower=lower if limited else None,
            upper=upper if limited else None,
            effort=effort or None,
            damping=float(model.dof_damping[dofs][0]) if self.damping else 0.0,
            friction=0.0 if self.ignore_friction else float(model.dof_frictionloss[dofs][0]),
            armature=float(model.dof_armature[dofs][0]),
        )

    def _moved(
        self, place: _Place, body: int, kind: str, axis: np.ndarray, anchor: np.ndarray, position: float
    ) -> _Place:
        """A body's frame once its joint has moved so far."""
        if kind == "prismatic":
            return place.at(np.eye(3), axis * position)
        turn = self.rounding.about(axis, position, f"body {body}")
        return self._turned(place.at(turn, anchor - turn @ anchor), body)

    def _turned(self, place: _Place, body: int) -> _Place:
        """The frame with right angles exact."""
        return _Place(place.owner, self.rounding.rotation(place.rotation, f"body {body}"), place.translation)

    def _carry(self, place: _Place, body: int) -> None:
        """The body's mass, on the link that carries it."""
        model = self.model
        mass = float(model.body_mass[body])
        frame = place.at(_rotation(model.body_iquat[body]), model.body_ipos[body])
        inertia = frame.rotation @ np.diag(model.body_inertia[body]) @ frame.rotation.T
        carrier = self.links[place.owner]
        self.links[place.owner] = carrier.joined(mass, vector3(frame.translation), matrix3(without_noise(inertia)))

    def _check(self, link: Link) -> None:
        if link.mass == 0.0:
            return
        try:
            check_inertia(link.name, link.mass, link.com, link.inertia)
        except RobotError as error:
            self.faults.add(str(error), allow_unphysical=True)

    @staticmethod
    def _name(name: str, kind: str, number: int) -> str:
        return name or f"{kind}_{number}"


def _rotation(quaternion: np.ndarray) -> np.ndarray:
    """The matrix of MuJoCo's (w, x, y, z)."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )
