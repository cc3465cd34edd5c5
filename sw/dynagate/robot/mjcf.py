"""Robots in MuJoCo's format (MJCF), read through the model that MuJoCo's compiler produces.

MuJoCo resolves defaults, includes, degrees and inertias from shapes. It opens every file that the MJCF file names:
read only files that you trust.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentTypeError
from dynagate.base.storage import read_file
from dynagate.base.warned import warn
from dynagate.robot.arguments import check_reading, path_of
from dynagate.robot.constraint import Constraint
from dynagate.robot.errors import RobotError, RobotWarning
from dynagate.robot.file_errors import FileErrors, warn_of_friction
from dynagate.robot.inertia import check_inertia
from dynagate.robot.mjcf_equalities import equalities
from dynagate.robot.mjcf_model import compiled
from dynagate.robot.mjcf_terms import Terms, name_of
from dynagate.robot.parts import Frame, Joint, Link
from dynagate.robot.robot_xml import MAX_BYTES
from dynagate.robot.rotations import Rounding, matrix_of
from dynagate.robot.tree import RobotTree
from dynagate.robot.vectors import Vector3, matrix3, vector3, without_noise

URDF_OPTIONS = {
    "floating_base": "a <freejoint/> in the file",
    "unlimited": "the file's own limited=",
    "lax": "a file that MuJoCo reads",
}
"""Options of the URDF parser that do not apply to MJCF, and what to use instead."""


@dataclass(frozen=True)
class _BodyFrame:
    """Frame of a body."""

    owner: int
    """Index of the moving link that carries the frame, -1 for the world."""
    rotation: np.ndarray
    """Rotation (3, 3) in that link's frame."""
    translation: np.ndarray
    """Origin (3,) in that link's frame, m."""

    def at(self, rotation: np.ndarray, translation: np.ndarray) -> _BodyFrame:
        """Return the frame that has the given pose in this one."""
        moved = self.translation + self.rotation @ translation
        return _BodyFrame(self.owner, self.rotation @ rotation, without_noise(moved))


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
) -> RobotTree:
    """Read a robot from MuJoCo's format: bodies, hinge, slide, ball and free joints, armature, damping, frictionloss,
    limits.

    Bodies without a joint are merged into the body that carries them. A body with several joints becomes as many links;
    the last one has its name and mass. Bodies without a joint and sites become frames (`Robot.frame`).

    q equals MuJoCo's qpos except for the order of quaternions: (x, y, z, w) here. v equals qvel except for the linear
    velocity of a free joint, which is expressed in the body's axes here.

    Armature and damping of actuators on hinges and slides are added to the joint, times gear². Flags that disable
    gravity, dampers, springs, friction or equality are respected. Active connect and weld constraints become loops
    (`Robot.with_loop`) between frames NAME_1 and NAME_2, and equalities of joints become `Robot.with_joint_equality`,
    with MuJoCo's stiffness, damping and compliance for closed loops. A RobotWarning lists what is left out: armature
    and friction of free joints, other equality constraints, tendons, contacts, springs, forces of actuators, gravity
    compensation and fluids.

    Args:
        path: The file, which must be trusted.
        gravity: Gravity in the base frame, m/s²; the file's by default.
        lock: Positions of hinges and slides to lock, rad or m, by name.
        damping: Whether to read joint damping.
        ignore_friction: Whether to leave out Coulomb friction without a warning.
        allow_unphysical: Whether to accept inertias that no rigid body has.
        round_rotations: Angle in rad within which rotations are rounded to right angles.
        others: Options of `read_urdf` that do not apply to MJCF; setting one is an error.

    Raises:
        RobotError: The file is missing or too large, MuJoCo rejects it or exceeds the limits of
            `dynagate.robot.sandbox`, nothing moves, or a mass needs an option.
        MissingExtraError: The `mujoco` package is not installed.
        ArgumentTypeError: `path` or `lock` has another type.
    """
    path = path_of(path, "from_mjcf")
    for option in others:
        if option not in URDF_OPTIONS:
            raise ArgumentTypeError(f"read_mjcf() got an unexpected keyword argument '{option}'", code="DG-MJCF-001")
        if others[option]:
            raise RobotError(f"{path.name}: {option}= is for URDF; expected {URDF_OPTIONS[option]}", code="DG-MJCF-002")
    check_reading((0.0, 0.0, 0.0) if gravity is None else gravity, lock, round_rotations)
    try:
        _check_no_mimic(path)
        model = compiled(path)
        terms = Terms(model)
        reader = _Reader(model, terms, lock or {}, Rounding(round_rotations))
        reader.damping, reader.ignore_friction, reader.allow_unphysical = damping, ignore_friction, allow_unphysical
        robot = reader.robot(path.stem, vector3(terms.gravity if gravity is None else gravity))
    except RobotError as error:
        raise RobotError(f"{path.name}: {error}", code="DG-MJCF-003") from None
    warn_of_friction(path.name, robot)
    if terms.left_out:
        text = f"{path.name}: left out, being no dynamics of a free tree: {'; '.join(terms.left_out)}"
        warn(text, RobotWarning, code="DG-MJCF-004")
    return robot


@dataclass(frozen=True)
class CollisionGeom:
    """A collision geom on a moving link."""

    link: str
    """Name of the link."""
    body: str
    """Name of the body, which may be fixed to the link."""
    kind: str
    """"box", "sphere", "cylinder" or "capsule", or another kind of MuJoCo's that `Shape` does not support."""
    size: tuple[float, ...]
    """Sizes as in `Shape`, m."""
    rotation: np.ndarray
    """Rotation (3, 3) in the link's frame."""
    translation: np.ndarray
    """Origin (3,) in the link's frame, m."""


def collision_geoms(path: Path) -> list[CollisionGeom]:
    """Return the collision geoms of a file in its order, with a "mesh" for each mesh that was not read.

    Raises:
        RobotError: The file cannot be read (see `read_mjcf`).
        MissingExtraError: The `mujoco` package is not installed.
    """
    _check_no_mimic(path)
    model = compiled(path)
    reader = _Reader(model, Terms(model), {}, Rounding(1e-9))
    reader.allow_unphysical = True
    reader.robot(path.stem, (0.0, 0.0, 0.0))
    geoms = []
    for geom in range(model.ngeom):
        placed = reader.body_frames[model.geom_bodyid[geom]]
        if placed.owner < 0 or not (model.geom_contype[geom] or model.geom_conaffinity[geom]):
            continue
        kind, size = _kind_and_size(model, geom)
        pose = placed.at(matrix_of(model.geom_quat[geom]), model.geom_pos[geom])
        body = name_of(model, "body", model.geom_bodyid[geom])
        link = reader.links[placed.owner].name
        geoms.append(CollisionGeom(link, body, kind, size, pose.rotation, pose.translation))
    nowhere = np.eye(3), np.zeros(3)
    return geoms + [CollisionGeom("", body, "mesh", (), *nowhere) for body in model.removed]


def _kind_and_size(model: Any, geom: int) -> tuple[str, tuple[float, ...]]:
    """Return the kind and size of a geom as `Shape` defines them. MuJoCo stores half lengths."""
    types = {number: name for name, number in vars(model.constants.mjtGeom).items()}
    kind = types[int(model.geom_type[geom])].removeprefix("mjGEOM_").lower()
    radius, half, _ = first = model.geom_size[geom].tolist()
    sizes = {
        "box": tuple(2.0 * x for x in first),
        "sphere": (radius,),
        "cylinder": (radius, 2.0 * half),
        "capsule": (radius, 2.0 * half),
    }
    return kind, sizes.get(kind, ())


def _check_no_mimic(path: Path) -> None:
    """Raise RobotError if a file is a URDF with mimic joints.

    MuJoCo makes such joints free and adds an equality, which only constrained functions support.
    """
    try:
        text = read_file(path, MAX_BYTES)
    except (OSError, ValueError):
        return  # the parser reports the error
    if re.search(rb"<robot[\s>]", text) and (mimic := re.search(rb"<mimic\s+joint\s*=\s*[\"']([^\"']*)", text)):
        raise RobotError(
            f"is a URDF in which a joint mimics '{mimic[1].decode(errors='replace')}'; expected Robot.from_urdf, which "
            "reads mimics",
            code="DG-MJCF-005",
        )


class _Reader:
    """Conversion of one compiled model. The attributes hold the options of `read_mjcf`."""

    def __init__(self, model: Any, terms: Terms, lock: Mapping[str, float], rounding: Rounding) -> None:
        self.model, self.terms, self.lock, self.rounding = model, terms, lock, rounding
        self.damping, self.ignore_friction, self.allow_unphysical = True, False, False
        self.errors = FileErrors(lock)
        self.links: list[Link] = []
        self.frames: list[Frame] = []
        self.used_names: set[str] = set()  # names of links and frames
        self.body_frames: list[_BodyFrame] = []  # frame of each body

    def robot(self, stem: str, gravity: Vector3) -> RobotTree:
        """Return the robot of the model. `stem` is its name if the file has none."""
        model = self.model
        joints = [name_of(model, "joint", j) for j in range(model.njnt)]
        for name in self.lock:
            if name not in joints:
                raise RobotError(f"lock names joint '{name}', which the file does not define", code="DG-MJCF-006")
        body_frames = [_BodyFrame(-1, np.eye(3), np.zeros(3))]
        for body in range(1, model.nbody):
            above = body_frames[model.body_parentid[body]]
            placed = self._with_right_angles(above.at(matrix_of(model.body_quat[body]), model.body_pos[body]), body)
            first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
            for j in range(first, first + count):
                placed = self._cross_joint(placed, body, j, joints[j], last=j == first + count - 1)
            if placed.owner >= 0:
                self._add_mass(placed, body)
            body_frames.append(placed)
            if not count:
                self._frame(name_of(model, "body", body), placed)
        self.body_frames = body_frames
        for site in range(model.nsite):
            turn = matrix_of(model.site_quat[site])
            self._frame(
                name_of(model, "site", site),
                body_frames[model.site_bodyid[site]].at(turn, model.site_pos[site]),
            )
        constraints = self._constraints(body_frames)
        if not self.links and not self.errors:
            raise RobotError("has no moving joint; expected at least one", code="DG-MJCF-007")
        if not self.allow_unphysical:
            for link in self.links:
                self._check(link)
        if self.errors:
            raise self.errors.error()
        named = model.name
        return RobotTree(
            named if named not in ("", "MuJoCo Model") else stem,
            tuple(self.links),
            gravity,
            rounding=self.rounding.largest_correction,
            frames=tuple(self.frames),
            constraints=constraints,
        )

    def _constraints(self, body_frames: list[_BodyFrame]) -> tuple[Constraint, ...]:
        """Return the supported equality constraints, and add their frames; the others are listed as left out."""
        constraints = []
        for equality in [] if self.terms.equality_off else equalities(self.model, self.lock):
            if equality.constraint is None:
                self.terms.left_out.append(f"equality constraint '{equality.name}' (its first joint is held)")
                continue
            if equality.constraint.of_joints:
                constraints.append(equality.constraint)
                continue
            ends = [body_frames[end.body].at(end.rotation, end.translation) for end in equality.ends]
            names = equality.constraint.frame, equality.constraint.to
            if ends[0].owner == ends[1].owner:
                self.terms.left_out.append(f"equality constraint '{equality.name}' (between places of one link)")
            elif self.used_names & set(names):
                raise RobotError(
                    f"equality constraint '{equality.name}' needs frames '{names[0]}' and '{names[1]}', a name of "
                    "which a body or site has; expected another name for one of them",
                    code="DG-MJCF-008",
                )
            else:
                for name, placed in zip(names, ends, strict=True):
                    self._frame(name, placed)
                constraints.append(equality.constraint)
        return tuple(constraints)

    def _frame(self, name: str, placed: _BodyFrame) -> None:
        """Add a frame for a body without a joint or a site, unless its name already exists."""
        if name not in self.used_names:
            self.used_names.add(name)
            self.frames.append(Frame(name, placed.owner, matrix3(placed.rotation), vector3(placed.translation)))

    def _cross_joint(self, placed: _BodyFrame, body: int, j: int, name: str, *, last: bool) -> _BodyFrame:
        """Return the body's frame behind a joint. A joint that is not locked begins a link."""
        model = self.model
        if not abs(np.linalg.norm(model.jnt_axis[j]) - 1.0) < 1e-9:
            raise RobotError(
                f"joint '{name}' has axis {model.jnt_axis[j].tolist()}; expected a direction", code="DG-MJCF-009"
            )
        anchor, axis = model.jnt_pos[j].copy(), self.rounding.axis(model.jnt_axis[j], f"joint '{name}'")
        kind = ("floating", "spherical", "prismatic", "revolute")[model.jnt_type[j]]
        single = kind in ("prismatic", "revolute")
        start = float(model.qpos0[model.jnt_qposadr[j]]) if single else 0.0
        if name in self.lock:
            if not single:
                raise RobotError(
                    f"joint '{name}' is {kind} and has no single position to lock it at", code="DG-MJCF-010"
                )
            return self._after_joint(placed, body, kind, axis, anchor, self.lock[name] - start)
        if kind == "floating":  # q is a pose in the world, independent of the body's initial pose
            placed, anchor = _BodyFrame(placed.owner, np.eye(3), np.zeros(3)), np.zeros(3)
        elif kind == "prismatic":
            anchor = np.zeros(3)
        if single:
            placed = self._after_joint(placed, body, kind, axis, anchor, -start)
        link = name_of(model, "body", body)
        frame = placed.at(np.eye(3), anchor)
        joint = self._joint(j, name, kind, frame, axis if single else np.array([0.0, 0.0, 1.0]))
        nothing = matrix3(np.zeros((3, 3)))
        link = link if last else f"{link}.{name}"
        self.used_names.add(link)
        self.links.append(Link(link, placed.owner, joint, 0.0, (0.0, 0.0, 0.0), nothing))
        return _BodyFrame(len(self.links) - 1, np.eye(3), -anchor)

    def _joint(self, j: int, name: str, kind: str, frame: _BodyFrame, axis: np.ndarray) -> Joint:
        """Return joint j of the model with its limits, damping and friction."""
        model = self.model
        dof = model.jnt_dofadr[j]  # all degrees of freedom of a ball or free joint have the same values
        limited = bool(model.jnt_limited[j]) and kind in ("prismatic", "revolute")
        lower, upper = (float(x) for x in model.jnt_range[j])
        if limited and not lower < upper:
            self.errors.add(
                f"joint '{name}' has limits [{lower}, {upper}]; expected lower < upper",
                lock={name: lower},
                code="DG-MJCF-011",
            )
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
            damping=float(self.terms.damping[dof]) if self.damping else 0.0,
            friction=0.0 if self.ignore_friction else float(self.terms.friction[dof]),
            armature=float(self.terms.armature[dof]),
        )

    def _after_joint(
        self, placed: _BodyFrame, body: int, kind: str, axis: np.ndarray, anchor: np.ndarray, position: float
    ) -> _BodyFrame:
        """Return a body's frame after its joint has moved to a position."""
        if kind == "prismatic":
            return placed.at(np.eye(3), axis * position)
        turn = self.rounding.about_axis(axis, position, f"body {body}")
        return self._with_right_angles(placed.at(turn, anchor - turn @ anchor), body)

    def _with_right_angles(self, placed: _BodyFrame, body: int) -> _BodyFrame:
        """Return the frame with right angles made exact."""
        return _BodyFrame(placed.owner, self.rounding.rotation(placed.rotation, f"body {body}"), placed.translation)

    def _add_mass(self, placed: _BodyFrame, body: int) -> None:
        """Add the body's mass to the link that carries it."""
        model = self.model
        mass = float(model.body_mass[body])
        frame = placed.at(matrix_of(model.body_iquat[body]), model.body_ipos[body])
        inertia = frame.rotation @ np.diag(model.body_inertia[body]) @ frame.rotation.T
        carrier = self.links[placed.owner]
        self.links[placed.owner] = carrier.joined(mass, vector3(frame.translation), matrix3(without_noise(inertia)))

    def _check(self, link: Link) -> None:
        """Record an error if no rigid body has the mass and inertia of a link."""
        if link.mass == 0.0:
            return
        try:
            check_inertia(link.name, link.mass, link.com, link.inertia)
        except RobotError as error:
            self.errors.add(str(error), allow_unphysical=True, code="DG-MJCF-012")
