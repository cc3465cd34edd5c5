"""Parts of a robot: links, the joints that move them, and frames."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dynagate.robot.inertia import check_size
from dynagate.robot.kinds import JointKind, kind_of
from dynagate.robot.vectors import IDENTITY, Matrix3, Vector3, matrix3, summed, vector3

SMALLEST_RATIO = 1e-6
"""Smallest multiplier of a mimic joint. The square of a smaller one is lost in a float sum with 1."""

UNPRINTABLE = "a name holds a line break or another character that cannot be printed; expected one line of text"


@dataclass(frozen=True)
class Mimic:
    """How a joint follows another one, by an ideal gear, belt or linkage: q = multiplier * q of `joint` + offset, in
    rad or m.
    """

    joint: str
    """Name of the joint that leads."""
    multiplier: float = 1.0
    """Ratio of the two positions, not 0."""
    offset: float = 0.0
    """Position at q = 0 of the leading joint, rad or m."""


@dataclass(frozen=True)
class Joint:
    """The joint above a link: its pose on the parent link, its axis and its limits.

    For a prismatic joint read m for rad and N for N m. Spherical and floating joints have no axis and no position
    limits; their velocity limit, damping, armature and friction apply to each degree of freedom.
    """

    name: str
    """Name in errors and files."""
    type: str
    """"revolute", "continuous", "prismatic", "spherical" or "floating".

        A helical joint is two of them (`Robot.with_helical`), because its direction is not an axis of the link's frame.
    """
    rotation: Matrix3 = IDENTITY
    """Rotation (3, 3) of the joint's frame in the parent link's frame, at q = 0."""
    translation: Vector3 = (0.0, 0.0, 0.0)
    """Origin (3,) of the joint's frame in the parent link's frame, m."""
    axis: Vector3 = (0.0, 0.0, 1.0)
    """Unit vector (3,) in the joint's frame."""
    lower: float | None = None
    """Lower position limit, rad; None if the file has none."""
    upper: float | None = None
    """Upper position limit, rad; None if the file has none."""
    velocity: float | None = None
    """Velocity limit, rad/s; None if the file has none."""
    effort: float | None = None
    """Torque limit, N m; None if the file has none."""
    damping: float = 0.0
    """Damping, N m s/rad."""
    armature: float = 0.0
    """Inertia of the rotor times the square of the gear ratio, kg m²."""
    mimic: Mimic | None = None
    """The joint that this one follows; it then adds nothing to the robot's q and v."""
    friction: float = 0.0
    """Coulomb friction, N m, which acts only after `Robot.with_friction` or with the force `Friction`."""

    @property
    def nv(self) -> int:
        """Number of degrees of freedom; 0 if the joint mimics another one."""
        return 0 if self.mimic else self.kind.nv

    @property
    def nq(self) -> int:
        """Number of numbers in the configuration: one more than the degrees of freedom with a unit quaternion."""
        return self.nv + self.has_quaternion

    @property
    def has_quaternion(self) -> bool:
        """Whether the configuration of the joint has a unit quaternion."""
        return self.kind.has_quaternion

    @property
    def kind(self) -> JointKind:
        """Properties of the joint's type. Raises ArgumentError if there is no such type."""
        return kind_of(self.type)


@dataclass(frozen=True)
class Frame:
    """A named frame that is fixed to a link or to the base."""

    name: str
    link: int
    """Index of the link that carries it, -1 for the base."""
    rotation: Matrix3 = IDENTITY
    """Rotation (3, 3) from the frame's axes to the link's."""
    translation: Vector3 = (0.0, 0.0, 0.0)
    """Origin (3,) in the link's frame, m."""


@dataclass(frozen=True)
class Link:
    """A moving body and the joint that moves it."""

    name: str
    """Name in errors, files and inputs."""
    parent: int
    """Index of the parent link, -1 for the base."""
    joint: Joint
    """The joint that moves the link on its parent."""
    mass: float
    """Mass, kg."""
    com: Vector3
    """Center of mass (3,) in the link's frame, m."""
    inertia: Matrix3
    """Inertia (3, 3) about the center of mass, in the link's axes, kg m²."""

    def joined(self, mass: float, com: Vector3, inertia: Matrix3) -> Link:
        """Return the link with another body fixed to it.

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
        """Return the first moment h = m c (3,) about the link's origin, kg m."""
        return vector3(self.mass * c for c in self.com)

    def second_moment(self) -> Matrix3:
        """Return the second moment Σ = ∫ r rᵀ dm (3, 3) about the link's origin, kg m²; the rotational inertia is tr(Σ)
        1 - Σ.
        """
        inertia = np.array(self.inertia)
        about_com = summed(0.5 * np.trace(inertia) * np.eye(3), -inertia)
        return matrix3(summed(about_com, self.mass * np.outer(self.com, self.com)))

    def parameters(self) -> npt.NDArray[np.float64]:
        """Return the inertial parameters (10,): m, h = m c (3,) and I_xx, I_xy, I_yy, I_xz, I_yz, I_zz about the link's
        origin.

        The units are kg, kg m and kg m². Functions of a robot whose `variable` names this link have them as an input.
        """
        second = np.array(self.second_moment())
        i = np.trace(second) * np.eye(3) - second
        return np.array([self.mass, *self.first_moment(), i[0, 0], i[0, 1], i[1, 1], i[0, 2], i[1, 2], i[2, 2]])
