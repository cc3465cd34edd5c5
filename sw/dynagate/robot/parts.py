"""The parts of a robot: links, the joints that move them, and frames."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dynagate.robot.inertia import check_size
from dynagate.robot.kinds import JointKind, kind_of
from dynagate.robot.vectors import IDENTITY, Matrix3, Vector3, matrix3, summed, vector3

SMALLEST_RATIO = 1e-6
"""Smallest multiplier of a joint that mimics another: its square still counts in a float sum with 1."""

UNPRINTABLE = "a name holds a line break or another character that cannot be printed; expected one line of text"


@dataclass(frozen=True)
class Mimic:
    """How a joint follows another: q = multiplier * q of `joint` + offset, in rad or m, by a gear, belt or linkage that
    takes no power. The multiplier is not 0: such a joint is fixed."""

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Joint:
    """The joint above a link: where it sits on the parent link, its axis, and its limits.

    name: in errors and files. type: "revolute", "continuous", "prismatic", "spherical" or "floating". A helical joint
    is two of them (`Robot.with_helical`), because its direction is not an axis of the link's frame.
    rotation, translation: pose of the joint frame in the parent link's frame, at q = 0.
    axis: unit vector in the joint frame. lower, upper: rad. velocity: rad/s. effort: N m.
    A limit that the file does not give is None. damping: N m s/rad. armature: inertia of the rotor seen
    through the gear, kg m². friction: Coulomb friction, N m, which acts with the force `Friction` only. A
    prismatic joint has m for rad and N for N m.
    Spherical and floating joints have no axis and no position limits; their velocity limit, damping, armature and
    friction hold for each degree of freedom.
    mimic: the joint that this one follows; it then adds nothing to the robot's q and v.
    """

    name: str
    type: str
    rotation: Matrix3 = IDENTITY
    translation: Vector3 = (0.0, 0.0, 0.0)
    axis: Vector3 = (0.0, 0.0, 1.0)
    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    effort: float | None = None
    damping: float = 0.0
    armature: float = 0.0
    mimic: Mimic | None = None
    friction: float = 0.0

    @property
    def nv(self) -> int:
        """Degrees of freedom: none where the joint follows another."""
        return 0 if self.mimic else self.kind.nv

    @property
    def nq(self) -> int:
        """Numbers in the configuration: a unit quaternion is one more than its degrees of freedom."""
        return self.nv + self.has_quaternion

    @property
    def has_quaternion(self) -> bool:
        """Whether the configuration of the joint has a unit quaternion."""
        return self.kind.has_quaternion

    @property
    def kind(self) -> JointKind:
        """The properties of the joint's type. Raises ValueError: there is no such type."""
        return kind_of(self.type)


@dataclass(frozen=True)
class Frame:
    """A place on a robot that has a name. link: index of the link that carries it, -1 for the base. rotation,
    translation (m): its pose in that link's frame."""

    name: str
    link: int
    rotation: Matrix3 = IDENTITY
    translation: Vector3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Link:
    """A moving body.

    name: in errors, files and inputs. parent: index of the parent link, -1 for the base. joint: the joint that moves
    the link on its parent. mass: kg. com: center of mass in the link frame, m. inertia: about the center of mass, in
    the link frame's axes, kg m².
    """

    name: str
    parent: int
    joint: Joint
    mass: float
    com: Vector3
    inertia: Matrix3

    def joined(self, mass: float, com: Vector3, inertia: Matrix3) -> Link:
        """Return the link with another body bolted to it.

        Args:
            mass: Mass of the body in kg.
            com: Center of mass (3,) of the body in this link's frame, m.
            inertia: Inertia (3, 3) of the body about its center of mass, in the axes of this link's frame, kg m².

        Raises:
            RobotError: A number is not finite or too large to be squared.
        """
        check_size(f"a body on link '{self.name}'", mass, com, inertia)
        total = self.mass + mass
        if total == 0.0:
            return self
        center = (self.mass * np.array(self.com) + mass * np.array(com)) / total
        about_center = np.zeros((3, 3))
        for m, c, i in ((self.mass, self.com, self.inertia), (mass, com, inertia)):
            d = np.array(c) - center
            about_center += np.array(i) + m * (d @ d * np.eye(3) - np.outer(d, d))
        symmetric = 0.5 * (about_center + about_center.T)
        return replace(self, mass=total, com=vector3(center), inertia=matrix3(symmetric))

    def first_moment(self) -> Vector3:
        """h = m c, in kg m."""
        return vector3(self.mass * c for c in self.com)

    def second_moment(self) -> Matrix3:
        """Σ = ∫ r rᵀ dm about the link origin, in kg m²; the rotational inertia is tr(Σ) 1 - Σ."""
        inertia = np.array(self.inertia)
        about_com = summed(0.5 * np.trace(inertia) * np.eye(3), -inertia)
        return matrix3(summed(about_com, self.mass * np.outer(self.com, self.com)))

    def parameters(self) -> npt.NDArray[np.float64]:
        """Return the inertial parameters (10,), the input of a function whose `variable` names this link.

        They are m, h = m c (3,) and I_xx, I_xy, I_yy, I_xz, I_yz, I_zz about the link's origin, in kg, kg m and kg m².
        """
        second = np.array(self.second_moment())
        i = np.trace(second) * np.eye(3) - second
        return np.array([self.mass, *self.first_moment(), i[0, 0], i[0, 1], i[1, 1], i[0, 2], i[1, 2], i[2, 2]])
