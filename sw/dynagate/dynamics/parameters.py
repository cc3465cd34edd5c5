"""Parameters of a robot that are inputs of its functions, and the constants of the tree that they replace.

`robot.variable` lists the kinds and names of such parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dynagate.base.exact import written
from dynagate.dynamics.quaternion import rotation_of
from dynagate.dynamics.spatial import Array, Inertia, Scalar, array, symmetric
from dynagate.robot import Robot
from dynagate.robot.variable import (
    ARMATURE,
    COM,
    COUNT,
    DAMPING,
    FRICTION,
    GRAVITY,
    GROUND_FRICTION,
    GROUND_RESTITUTION,
    INERTIA,
    INERTIAL,
    KINDS,
    MASS,
    PAYLOAD,
    PLACEMENT,
    POSITION,
    ROTATION,
)

NAMES = ("m", "h_x", "h_y", "h_z", "i_xx", "i_xy", "i_yy", "i_xz", "i_yz", "i_zz")
"""Names of the inertial parameters of a link, in order."""

Values = Mapping[str, Array]
"""Values of variable parameters, or traced scalars while an algorithm is recorded, by the names of inputs."""


class Pose(NamedTuple):
    """Pose of a joint's frame or of an added frame in the link that carries it, in the axes of the robot's file."""

    rotation: Array | None
    """Rotation (3, 3), or None if the robot's own rotation applies."""
    translation: Array | None
    """Origin (3,), m, or None if the robot's own origin applies."""


@dataclass
class Overrides:
    """Numbers of a robot that inputs replace."""

    inertial: dict[int, dict[str, Array]] = field(default_factory=dict)
    """Scalars of each kind of inertial parameter, by link, then by kind."""
    armature: dict[int, Scalar] = field(default_factory=dict)
    """Rotor inertia by joint, kg m² or kg."""
    damping: dict[int, Scalar] = field(default_factory=dict)
    """Damping by joint, N m s/rad or N s/m."""
    friction: dict[int, Scalar] = field(default_factory=dict)
    """Coulomb friction by joint, N m or N."""
    poses: dict[int, Pose] = field(default_factory=dict)
    """Pose by joint number, or by the number of links plus that of an added frame."""
    gravity: Array | None = None
    """Gravity (3,) in the base frame, m/s²."""
    ground_friction: Scalar | None = None
    """Friction coefficient of contact laws."""
    ground_restitution: Scalar | None = None
    """Restitution of contact laws."""

    @classmethod
    def of(cls, robot: Robot, values: Values) -> Overrides:
        """Return the numbers that the variable parameters of a robot replace. `values` must hold all of them."""
        own = cls()
        for variable in robot.variables:
            rows = array(values[variable.input]).reshape(len(variable.owners), KINDS[variable.kind].size)
            for i, row in zip(variable.owners, rows, strict=True):
                own._add(variable.kind, i, row)
        return own

    def _add(self, kind: str, i: int, row: Array) -> None:
        """Store the numbers of one parameter for link, joint or frame i."""
        scalars = {ARMATURE: self.armature, DAMPING: self.damping, FRICTION: self.friction}
        if kind in scalars:
            scalars[kind][i] = row[0]
        elif kind == GRAVITY:
            self.gravity = row
        elif kind == GROUND_FRICTION:
            self.ground_friction = row[0]
        elif kind == GROUND_RESTITUTION:
            self.ground_restitution = row[0]
        elif kind in (PLACEMENT, POSITION, ROTATION):
            self.poses[i] = self._pose(kind, self.poses.get(i, Pose(None, None)), row)
        else:
            self.inertial.setdefault(i, {})[kind] = row

    @staticmethod
    def _pose(kind: str, known: Pose, row: Array) -> Pose:
        translation = row[:3] if kind in (PLACEMENT, POSITION) else known.translation
        rotation = rotation_of(list(row[-4:])) if kind in (PLACEMENT, ROTATION) else known.rotation
        return Pose(rotation, translation)

    @property
    def turned(self) -> frozenset[int]:
        """The joints whose rotation in the parent is an input."""
        return frozenset(i for i, pose in self.poses.items() if pose.rotation is not None)


def inertia_in(robot: Robot, i: int, parts: Mapping[str, Array], rotation: Array, moved: float) -> Inertia:
    """Return the inertia of link i in a frame that is rotated and then moved along its own z axis.

    Args:
        robot: The robot.
        i: Number of the link.
        parts: Scalars of each kind that replace the robot's numbers.
        rotation: Rotation (3, 3) from the new axes to the link's.
        moved: Distance along the new z axis, m.
    """
    link = robot.links[i]
    if INERTIAL in parts:
        own = of_ten(parts[INERTIAL], rotation, moved)
    else:
        mass = parts[MASS][0] if MASS in parts else written(link.mass)[()]
        center = rotation.T @ (parts[COM] if COM in parts else written(link.com)) - array([0.0, 0.0, moved])
        moments = parts.get(INERTIA)
        about = rotation.T @ (_second(moments) if moments is not None else _second_of(written(link.inertia))) @ rotation
        first = center * mass
        own = Inertia(mass, first, symmetric(lambda a, b: about[a, b] + first[a] * center[b]))
    return own + of_ten(parts[PAYLOAD], rotation, moved) if PAYLOAD in parts else own


def of_ten(parameters: Sequence[Scalar] | Array, rotation: Array, moved: float) -> Inertia:
    """Return the inertia for ten inertial parameters (`NAMES`), in a frame as `inertia_in` describes it."""
    mass, first = parameters[0], rotation.T @ array(parameters[1:4])
    turned = rotation.T @ _second(parameters[4:COUNT]) @ rotation
    to = array([0.0, 0.0, moved])
    shifted = symmetric(lambda a, b: turned[a, b] - to[a] * first[b] - first[a] * to[b] + mass * (to[a] * to[b]))
    return Inertia(mass, first - to * mass, shifted)


def _second(moments: Sequence[Scalar] | Array) -> Array:
    """Return tr(I)/2 1 - I (3, 3) of a rotational inertia xx, xy, yy, xz, yz, zz."""
    xx, xy, yy, xz, yz, zz = moments
    half = (xx + yy + zz) * 0.5
    return array([[half - xx, -xy, -xz], [-xy, half - yy, -yz], [-xz, -yz, half - zz]])


def _second_of(inertia: Array) -> Array:
    """Return tr(I)/2 1 - I (3, 3) of a rotational inertia (3, 3)."""
    return _second([inertia[0, 0], inertia[0, 1], inertia[1, 1], inertia[0, 2], inertia[1, 2], inertia[2, 2]])
