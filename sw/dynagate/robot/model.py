"""The robot: an immutable tree of links, parents first.

Every moving link carries the joint that connects it to its parent. Lengths in m, angles in rad, masses in kg,
inertias in kg m². Fixed joints do not appear here: `dynagate.robot.urdf` merges them into the link they are bolted to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import (
    ABOVE_ZERO,
    AT_LEAST_ZERO,
    FINITE,
    Accepted,
    check_texts,
    is_finite,
    is_number,
    is_whole,
    names_of,
    number,
    numbers,
    one_or_each,
    real,
    shown,
)
from dynagate.base.changed import changed_options
from dynagate.base.elsewhere import answering
from dynagate.base.errors import ArgumentTypeError, Error
from dynagate.base.explained import explained
from dynagate.base.largest import MAX_CONSTRAINT_ROWS
from dynagate.base.nearest import check_keyword, nearest
from dynagate.robot.kinds import KINDS, JointKind, kind_of, single_kinds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from dynagate.robot.variable import Variable

Vector3 = tuple[float, float, float]
Matrix3 = tuple[Vector3, Vector3, Vector3]

IDENTITY: Matrix3 = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
SMALLEST_RATIO = 1e-6
"""Of a joint that mimics another: squared, it still counts beside 1 in a float."""

GRAVITY = FINITE.called("", "finite numbers in m/s²")
"""Range of each number of gravity, in the words of errors."""

STANDARD_GRAVITY: Vector3 = (0.0, 0.0, -9.81)


LARGEST_COEFFICIENT = 1e12
"""N m and N, and rad/s and m/s: the largest friction and its largest speed."""

LARGEST = 1e100
"""m, kg and kg m²: more than this cannot be squared in a float."""

OR_TOO_LARGE = f"; expected finite numbers up to {LARGEST:g}"

UNPRINTABLE = "a name holds a line break or another character that cannot be printed; expected one line of text"


class RobotError(Error, ValueError):
    """A robot description that is malformed or unphysical. The text names the link or joint and the fault."""


class RobotWarning(UserWarning):
    """A robot description that can be read and hardly means what it says. The text names the option that mends it."""


def _small(values: Any) -> bool:
    """Whether all are numbers of at most LARGEST."""
    return bool(np.all(np.abs(values) <= LARGEST))


def _check_array(label: str, value: Any, shape: tuple[int, ...]) -> None:
    """Raise RobotError if a value is no array of real numbers of this shape. Its numbers may be infinite or NaN."""
    try:
        array = real(label, value)
    except Error as error:
        raise RobotError(str(error)) from None
    if array.shape != shape:
        raise RobotError(f"{label} has shape {array.shape}; expected {shape or 'one number'}")


def _check_size(what: str, mass: float, com: Any, inertia: Any) -> None:
    if not _small([mass, *com, *np.ravel(inertia)]):
        raise RobotError(f"{what} has a mass, center of mass or inertia that is not finite{OR_TOO_LARGE}")


def vector3(values: Any) -> Vector3:
    """Three numbers as a tuple of floats."""
    x, y, z = (float(v) for v in values)
    return (x, y, z)


def matrix3(values: Any) -> Matrix3:
    """A 3 × 3 array as a tuple of rows."""
    a, b, c = (vector3(row) for row in values)
    return (a, b, c)


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

    name: in errors and files. type: "revolute", "continuous", "prismatic", "helical", "spherical" or "floating".
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
        """What is known of all joints of its type. Raises ValueError: there is no such type."""
        return kind_of(self.type)


@dataclass(frozen=True)
class Frame:
    """A place on a robot that has a name. link: index of the link that carries it, -1 for the base. rotation,
    translation (m): its pose in that link's frame."""

    name: str
    link: int
    rotation: Matrix3 = IDENTITY
    translation: Vector3 = (0.0, 0.0, 0.0)


CONTACTS = {"point": 3, "fixed": 6, "plane": 1}
"""Kind of a contact -> how many directions of its frame it holds: those of the origin alone, or of turning too, or of
the origin along a normal."""

LOOPS = {"point": 3, "fixed": 6, "hinge": 5, "distance": 1}
"""Kind of a loop -> how many directions of its frames it holds: a hinge leaves turning about z, a distance all but one
direction of the origins."""

JOINTS = "joints"
"""Kind of a constraint that holds a joint where a polynomial of another one's position says: one direction."""

CONSTRAINT_ROWS = CONTACTS | LOOPS | {JOINTS: 1}


LEAST_COMPLIANCE = 1e-12
"""Less than this is lost beside the 1 of a constraint that is not active."""


@dataclass(frozen=True)
class Constraint:
    """A frame of a robot that is held: a contact by something outside, as a foot by the ground, a loop by another frame
    of the robot.

    frame: name of a frame or link. kind: "point" holds the frame's origin and lets it turn, "fixed" holds both, the
    "plane" of a contact holds the origin along a normal and lets it slide. The "hinge" of a loop lets the frame turn
    about its z axis, and "distance" keeps a distance of the origins, as a rod with balls at its ends.
    to: of a loop, the frame at which it is held; empty for a contact.
    stiffness, damping: k and d of Baumgarte's stabilization in 1/s² and 1/s. The frame's acceleration is -d times its
    velocity, and of a loop less k times its distance from the other frame, instead of 0.
    compliance: c in 1/kg, and 1/(kg m²) of moments: the frame gives way with an acceleration of -c times the force.
    It is added to the diagonal of J M⁻¹ Jᵀ, which more than 0 keeps invertible where constraints hold the same twice.
    moment_compliance: that of moments alone, where it is another number.
    normal: of a plane, in base axes, out of what holds the frame; brought to length 1. length: of a distance, m.
    polynomial: of kind "joints", where `frame` and `to` are names of joints: q_frame = Σ polynomial[n] q_to ** n, in
    rad or m; without `to` the first number alone.
    """

    frame: str
    kind: str = "point"
    to: str = ""
    stiffness: float = 0.0
    damping: float = 0.0
    compliance: float = 0.0
    moment_compliance: float | None = None
    normal: Vector3 = (0.0, 0.0, 1.0)
    length: float = 0.0
    polynomial: tuple[float, ...] = ()

    @property
    def of_joints(self) -> bool:
        """Whether it holds joints and not frames."""
        return self.kind == JOINTS

    @property
    def is_contact(self) -> bool:
        """Whether something outside holds it, and not the robot itself."""
        return not (self.to or self.of_joints)

    @property
    def rows(self) -> int:
        """How many directions it holds: first those of turning, then those of moving."""
        return CONSTRAINT_ROWS[self.kind]

    @property
    def turning_rows(self) -> int:
        """How many of the rows, the first ones, hold turning."""
        return {"fixed": 3, "hinge": 2, JOINTS: 1}.get(self.kind, 0)

    @property
    def compliances(self) -> list[float]:
        """Of each row."""
        turning = self.compliance if self.moment_compliance is None else self.moment_compliance
        return [turning] * self.turning_rows + [self.compliance] * (self.rows - self.turning_rows)

    def with_floats(self) -> Constraint:
        """Return the constraint with its numbers as floats. Raise RobotError if one is not a finite number."""
        names = ("stiffness", "damping", "compliance", "length")
        ranges = [FINITE if name == "length" else AT_LEAST_ZERO for name in names]
        own: dict[str, Any] = {
            name: number(f"{self.text} has {name} ", getattr(self, name), accepted, RobotError)
            for name, accepted in zip(names, ranges, strict=True)
        }
        if self.polynomial:
            parts = numbers(f"{self.text} has polynomial ", self.polynomial, (None,), FINITE, RobotError)
            own["polynomial"] = tuple(parts.tolist())
        return replace(self, **own)

    @property
    def text(self) -> str:
        """What it is, in a few words."""
        if self.of_joints:
            return f"equality of joint '{self.frame}'" + (f" with '{self.to}'" if self.to else "")
        return f"loop from '{self.frame}' to '{self.to}'" if self.to else f"contact '{self.frame}'"


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
        _check_size(f"a body on link '{self.name}'", mass, com, inertia)
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


class ReadingOptions(TypedDict, total=False):
    """The options of `dynagate.robot.urdf.read_urdf`, which explains them."""

    floating_base: bool
    gravity: Vector3
    lock: Mapping[str, float] | None
    damping: bool
    ignore_friction: bool
    allow_unphysical: bool
    unlimited: bool
    lax: bool
    round_rotations: float


@explained
@dataclass(frozen=True)
class Robot:
    """A tree of links, parents before children, each moved by the joint above it. A floating base is a first link with
    a floating joint.

    name: as in its file. links: each with its joint, its inertia and its parent.
    q (nq,) lists the joints' configurations in the order of the links and v (nv,) their velocities; `joint_names` says
    that order, which may be another library's or not (`permutation`). A floating joint
    has (x, y, z, qx, qy, qz, qw), position and unit quaternion in the parent's frame, and (linear, angular) velocity in
    the link's own frame, as Pinocchio has them; a spherical joint has the quaternion and the angular velocity.
    gravity: acceleration of free fall in the base frame, m/s². rounding: the largest angle in rad by which the reader
    turned a joint or an inertia of the file to make right angles exact; no part of what the robot is. frames: places
    with a name besides the links, such as links on fixed joints; no function but those of frames and constraints
    depends on them. constraints: the frames that may be held (`with_contact`, `with_loop`), which the constrained
    functions alone know. passive: joints that nothing drives, by name, besides floating ones (`with_passive`), which
    constrained inverse dynamics alone knows. variable: names of the parameters that are inputs of every function
    (`with_variable`). friction_speed: speed, rad/s or m/s, at which 0.7 of the friction of joints acts; 0 if functions
    leave friction out (`with_friction`).
    Raises RobotError: there is no link, links, frames or constraints are not as these sentences say, or a number is not
    finite.
    """

    name: str
    links: tuple[Link, ...]
    gravity: Vector3 = field(default=STANDARD_GRAVITY)
    rounding: float = field(default=0.0, compare=False, repr=False)
    frames: tuple[Frame, ...] = field(default=(), repr=False)
    constraints: tuple[Constraint, ...] = ()
    passive: tuple[str, ...] = ()
    variable: tuple[str, ...] = ()
    friction_speed: float = 0.0

    def __post_init__(self) -> None:
        if not self.name.isprintable():
            raise RobotError(f"robot {self.name!r}: {UNPRINTABLE}")
        if not len(self.links):
            raise RobotError(f"robot '{self.name}' has no moving joint; expected at least one")
        numbers(f"robot '{self.name}' has gravity ", self.gravity, (3,), GRAVITY, RobotError)
        for frame in self.frames:
            self._check_frame(frame)
        for index, link in enumerate(self.links):
            self._check(index, link)
            if link.joint.mimic is not None:
                self._check_mimic(link.joint, link.joint.mimic)
        # the checks normalize copies, never the constraints that the caller passed
        object.__setattr__(self, "constraints", tuple(replace(own) for own in self.constraints))
        self._check_rows()
        for constraint in self.constraints:
            self._check_constraint(constraint)
        self._check_passive()
        number(f"robot '{self.name}' has friction_speed ", self.friction_speed, AT_LEAST_ZERO, RobotError)
        object.__setattr__(self, "variable", names_of("variable", self.variable))
        if self.variable:
            _ = self.variables

    def _check(self, index: int, link: Link) -> None:
        for kind, name in (("link", link.name), ("joint", link.joint.name)):
            if not name.isprintable():
                raise RobotError(f"{kind} {name!r}: {UNPRINTABLE}")
        if not -1 <= link.parent < index:
            raise RobotError(
                f"link '{link.name}' has parent index {link.parent}; expected -1 (the base) to {index - 1}"
            )
        if link.joint.type not in KINDS:
            raise RobotError(
                f"joint '{link.joint.name}' has type '{link.joint.type}'; supported: {', '.join(KINDS)}, fixed"
            )
        self._check_entries(link)
        if not _small([*link.joint.translation, *np.ravel(link.joint.rotation), *link.joint.axis]):
            raise RobotError(f"joint '{link.joint.name}' has an origin or axis that is not finite{OR_TOO_LARGE}")
        if abs(math.hypot(*link.joint.axis) - 1.0) > 1e-9:
            raise RobotError(f"joint '{link.joint.name}' has axis {link.joint.axis}; expected a unit vector")
        if not link.joint.kind.has_axis and link.joint.axis != (0.0, 0.0, 1.0):
            raise RobotError(f"joint '{link.joint.name}' is {link.joint.type} and has no axis; leave it (0, 0, 1)")
        for name in ("damping", "armature", "friction"):
            value = getattr(link.joint, name)
            number(f"joint '{link.joint.name}' has {name} ", value, AT_LEAST_ZERO, RobotError)
        if not _small([link.mass, *link.com, *np.ravel(link.inertia)]):
            raise RobotError(
                f"link '{link.name}' has a mass, center of mass or inertia that is not finite{OR_TOO_LARGE}"
            )

    def _check_entries(self, link: Link) -> None:
        """Raise RobotError if an entry of a link or its joint is no number, or an array of another shape."""
        joint = link.joint
        for label, value, shape in (
            (f"joint '{joint.name}' has a translation that", joint.translation, (3,)),
            (f"joint '{joint.name}' has a rotation that", joint.rotation, (3, 3)),
            (f"joint '{joint.name}' has an axis that", joint.axis, (3,)),
            (f"link '{link.name}' has a mass that", link.mass, ()),
            (f"link '{link.name}' has a center of mass that", link.com, (3,)),
            (f"link '{link.name}' has an inertia that", link.inertia, (3, 3)),
        ):
            _check_array(label, value, shape)
        for name in ("lower", "upper", "velocity", "effort"):
            value = getattr(joint, name)
            if value is not None and not (is_number(value) and value == value):
                raise RobotError(f"joint '{joint.name}' has {name} {shown(value)}; expected a number, or None")

    def _check_frame(self, frame: Frame) -> None:
        if not frame.name.isprintable():
            raise RobotError(f"frame {frame.name!r}: {UNPRINTABLE}")
        if not -1 <= frame.link < len(self.links):
            raise RobotError(f"frame '{frame.name}' is on link {frame.link}; expected -1 to {len(self.links) - 1}")
        _check_array(f"frame '{frame.name}' has a translation that", frame.translation, (3,))
        _check_array(f"frame '{frame.name}' has a rotation that", frame.rotation, (3, 3))
        turn = np.array(frame.rotation)
        if not _small([*turn.flat, *frame.translation]):
            raise RobotError(f"frame '{frame.name}' has a pose that is not finite{OR_TOO_LARGE}")
        if np.abs(turn @ turn.T - np.eye(3)).max() > 1e-9 or np.linalg.det(turn) < 0.0:
            raise RobotError(f"frame '{frame.name}' has rotation {turn.tolist()}; expected a rotation matrix")

    def frame(self, name: str) -> Frame:
        """A link or a frame by its name. Raises RobotError that lists the names."""
        for i, link in enumerate(self.links):
            if link.name == name:
                return Frame(name, i)
        for frame in self.frames:
            if frame.name == name:
                return frame
        names = [link.name for link in self.links] + [frame.name for frame in self.frames]
        raise RobotError(
            f"robot '{self.name}' has no frame '{name}'{nearest(name, names)}; expected one of {', '.join(names)}"
        )

    def with_frame(
        self, name: str, on: str, translation: Sequence[float] = (0.0, 0.0, 0.0), rotation: Any = IDENTITY
    ) -> Robot:
        """With a frame at this pose in another one, by their names: translation in m, rotation (3, 3). Raises
        RobotError: there is no frame to put it on, the name is taken, or this is no pose."""
        check_texts(RobotError, name=name, on=on)
        below = self.frame(on)
        if name in {link.name for link in self.links} | {frame.name for frame in self.frames}:
            raise RobotError(f"robot '{self.name}' has a frame '{name}' already; expected a name that is not taken")
        turned = numbers(f"frame '{name}' has rotation ", rotation, (3, 3), FINITE, RobotError)
        at = numbers(f"frame '{name}' has translation ", translation, (3,), FINITE, RobotError)
        own = Frame(name, below.link, matrix3(turned), vector3(at))
        self._check_frame(own)
        turn = np.array(below.rotation)
        moved = summed(turn @ np.array(own.translation), below.translation)
        placed = replace(own, rotation=matrix3(without_noise(turn @ turned)), translation=vector3(moved))
        return replace(self, frames=(*self.frames, placed))

    def with_contact(
        self,
        frame: str,
        kind: str = "point",
        *,
        damping: float = 0.0,
        compliance: float = 0.0,
        normal: Vector3 = (0.0, 0.0, 1.0),
    ) -> Robot:
        """With a frame or link that something outside may hold, last of the constraints. frame, kind, damping,
        compliance, normal: as in `Constraint`. Raises RobotError: there is no such frame or kind, the frame is fixed
        to the base or has a contact already, a number is negative or not finite, or a normal is given of no plane."""
        check_texts(RobotError, frame=frame, kind=kind)
        own = Constraint(frame, kind, damping=damping, compliance=compliance, normal=normal)
        return replace(self, constraints=(*self.constraints, own.with_floats()))

    def with_loop(
        self,
        frame: str,
        to: str,
        kind: str = "point",
        *,
        stiffness: float = 0.0,
        damping: float = 0.0,
        compliance: float = 0.0,
        length: float = 0.0,
    ) -> Robot:
        """With a loop that a frame or link closes with another, last of the constraints: "point" keeps their origins
        together, "fixed" their axes too, "hinge" their z axes, and "distance" keeps their origins at a length. frame,
        to, kind, stiffness, damping, compliance, length: as in `Constraint`. Raises RobotError: there is no such frame
        or kind, both are on one link, they have a loop already, a number is negative or not finite, or a length is
        given of no distance, or none of one."""
        check_texts(RobotError, frame=frame, to=to, kind=kind)
        own = Constraint(frame, kind, to, stiffness, damping, compliance, length=length)
        return replace(self, constraints=(*self.constraints, own.with_floats()))

    def with_joint_equality(
        self,
        joint: str,
        to: str = "",
        polynomial: Sequence[float] = (0.0, 1.0),
        *,
        stiffness: float = 0.0,
        damping: float = 0.0,
        compliance: float = 0.0,
    ) -> Robot:
        """With a joint that is held where a polynomial of another one's position says, last of the constraints, as
        MuJoCo's `equality` of joints does: a gear or a cam whose torque shows. A joint that always follows another and
        whose torque nobody asks for takes fewer operations by `Mimic`.

        joint, to: names of joints of one degree of freedom; to: none where it is held at a number. polynomial,
        stiffness, damping, compliance: as in `Constraint`. Raises RobotError: there is no such joint, both are one, it
        has several degrees of freedom, they have an equality already, or a number is not finite, or negative where none
        can be; TypeError: the polynomial is no sequence of numbers."""
        check_texts(RobotError, joint=joint)
        if to != "":
            check_texts(RobotError, to=to)
        if len(np.shape(polynomial)) != 1 or isinstance(polynomial, str):
            raise ArgumentTypeError(f"polynomial={shown(polynomial)}; expected numbers, the constant one first")
        own = Constraint(joint, JOINTS, to, stiffness, damping, compliance, polynomial=tuple(polynomial))
        return replace(self, constraints=(*self.constraints, own.with_floats()))

    def _check_rows(self) -> None:
        """Raise RobotError if the constraints have too many rows. Their kinds are not checked yet."""
        rows = sum(CONSTRAINT_ROWS.get(own.kind, 1) if isinstance(own.kind, str) else 1 for own in self.constraints)
        if rows > MAX_CONSTRAINT_ROWS:
            raise RobotError(
                f"the {len(self.constraints)} constraints of robot '{self.name}' have {rows} rows; expected at most "
                f"{MAX_CONSTRAINT_ROWS}: hold fewer frames, or hold them at points"
            )

    def _check_constraint(self, own: Constraint) -> None:
        for what in ("frame", "kind", "to"):
            if not isinstance(getattr(own, what), str):
                raise RobotError(
                    f"a constraint of robot '{self.name}' has {what}={getattr(own, what)!r}; expected a name"
                )
        if own.of_joints:
            self._check_joints(own)
        else:
            self._check_frames(own)
        ends = [(other.of_joints, {other.frame, other.to}) for other in self.constraints]
        if ends.count((own.of_joints, {own.frame, own.to})) > 1:
            raise RobotError(f"robot '{self.name}' has two constraints that are {own.text}; expected one")
        for what in ("stiffness", "damping", "compliance", "moment_compliance"):
            if getattr(own, what) is None:
                continue
            value = number(f"{own.text} has {what} ", getattr(own, what), AT_LEAST_ZERO, RobotError)
            if what.endswith("compliance") and 0.0 < value < LEAST_COMPLIANCE:
                raise RobotError(f"{own.text} has {what} {value:g}; expected 0, or {LEAST_COMPLIANCE:g} or more")
        self._check_geometry(own)
        if own.stiffness and own.is_contact:
            raise RobotError(f"{own.text} has stiffness {own.stiffness:g}; expected 0: only loops know where to")

    def _check_joints(self, own: Constraint) -> None:
        for name in (own.frame, own.to) if own.to else (own.frame,):
            joints = [link.joint for link in self.links if link.joint.name == name]
            if not joints:
                names = self.joint_names
                raise RobotError(
                    f"{own.text}: robot '{self.name}' has no joint '{name}'{nearest(name, names)}; expected one of "
                    f"{', '.join(names)}"
                )
            if not (len(joints) == 1 and joints[0].kind.single):
                fault = f"is {joints[0].type}" if len(joints) == 1 else f"is the name of {len(joints)} joints"
                raise RobotError(f"{own.text}: '{name}' {fault}; expected one of {', '.join(single_kinds())}")
        if own.frame == own.to:
            raise RobotError(f"{own.text} of robot '{self.name}' is of one joint; expected two")
        object.__setattr__(own, "polynomial", tuple(own.polynomial))
        if own.polynomial:
            numbers(f"{own.text} has polynomial ", own.polynomial, (None,), FINITE, RobotError)
        if not own.polynomial or (own.polynomial[1:] and not own.to):
            several = "one number or more" if own.to else "one number, without another joint,"
            raise RobotError(f"{own.text} has polynomial {own.polynomial}; expected {several} that are finite")

    def _check_frames(self, own: Constraint) -> None:
        kinds = LOOPS if own.to else CONTACTS
        if own.kind not in kinds:
            raise RobotError(f"{own.text} is of kind '{own.kind}'; expected one of {', '.join(kinds)}")
        link = self.frame(own.frame).link
        if own.to and self.frame(own.to).link == link:
            raise RobotError(f"{own.text} of robot '{self.name}' is between places of one link; expected two links")
        if not own.to and link < 0:
            raise RobotError(f"{own.text} of robot '{self.name}' is fixed to the base; expected a frame that moves")
        if own.polynomial:
            raise RobotError(f"{own.text} is of kind '{own.kind}' and has a polynomial; expected one of joints alone")

    @staticmethod
    def _check_geometry(own: Constraint) -> None:
        size = math.hypot(*numbers(f"{own.text} has normal ", own.normal, (3,), FINITE, RobotError))
        if not size > 0.0:
            raise RobotError(f"{own.text} has normal {own.normal}; expected three finite numbers, not all 0")
        number(f"{own.text} has length ", own.length, FINITE, RobotError)
        object.__setattr__(own, "normal", vector3(x / size for x in own.normal))
        if own.kind != "plane" and own.normal != (0.0, 0.0, 1.0):
            raise RobotError(f"{own.text} is of kind '{own.kind}' and has a normal; expected one of a plane alone")
        if own.kind == "distance" and not 0.0 < own.length < math.inf:
            raise RobotError(f"{own.text} has length {own.length:g}; expected a finite number above 0, in m")
        if own.kind != "distance" and own.length != 0.0:
            raise RobotError(f"{own.text} is of kind '{own.kind}' and has a length; expected one of a distance alone")

    def with_passive(self, *joints: str) -> Robot:
        """With joints that nothing drives besides those that are passive already, such as all of a closed loop but
        those with a motor. joints: their names. Raises RobotError: there is no such joint, it mimics another, or it is
        passive already."""
        return replace(self, passive=(*self.passive, *joints))

    def _check_passive(self) -> None:
        own = {link.joint.name for link in self.links if link.joint.nv}
        for name in self.passive:
            if name not in own:
                raise RobotError(
                    f"robot '{self.name}' has no joint '{name}' of its own to be passive; expected some of "
                    f"{', '.join(sorted(own))}"
                )
            if self.passive.count(name) > 1:
                raise RobotError(f"joint '{name}' of robot '{self.name}' is passive twice; expected each joint once")

    @property
    def undriven(self) -> list[int]:
        """The places in v of joints that nothing drives: floating ones, and those of `passive`."""
        chosen = [v for joint, _, v in self.moving() if joint.type == "floating" or joint.name in self.passive]
        return [d for part in chosen for d in range(part.start, part.stop)]

    @property
    def constraint_rows(self) -> int:
        """How many directions all constraints hold together."""
        return sum(constraint.rows for constraint in self.constraints)

    def _check_mimic(self, joint: Joint, mimic: Mimic) -> None:
        if not joint.kind.single:
            raise RobotError(
                f"joint '{joint.name}' is {joint.type}; expected one of {', '.join(single_kinds())} to mimic another"
            )
        leaders = [link.joint for link in self.links if link.joint.name == mimic.joint]
        if not leaders:
            raise RobotError(f"joint '{joint.name}' mimics joint '{mimic.joint}', which the robot does not have")
        if len(leaders) > 1:
            raise RobotError(f"joint '{joint.name}' mimics '{mimic.joint}', which is the name of {len(leaders)} joints")
        (leader,) = leaders
        if leader.mimic is not None or not leader.kind.single:
            kind = "mimics another" if leader.mimic else f"is {leader.type}"
            raise RobotError(
                f"joint '{joint.name}' mimics joint '{leader.name}', which {kind}; expected a joint of one degree of "
                "freedom of its own"
            )
        known = is_finite(mimic.multiplier) and is_finite(mimic.offset)
        if not (known and SMALLEST_RATIO <= abs(mimic.multiplier) <= 1.0 / SMALLEST_RATIO):
            raise RobotError(
                f"joint '{joint.name}' mimics joint '{mimic.joint}' with multiplier {shown(mimic.multiplier)} and "
                f"offset {shown(mimic.offset)}; expected a multiplier of size {SMALLEST_RATIO:g} to "
                f"{1.0 / SMALLEST_RATIO:g} and a finite offset"
            )

    @property
    def followers(self) -> tuple[str, ...]:
        """The joints that mimic another, by name."""
        return tuple(link.joint.name for link in self.links if link.joint.mimic)

    def reach(self, joint: Joint) -> tuple[float | None, float | None]:
        """Lower and upper limit of a joint, rad or m, no further than where the joints that mimic it reach theirs.

        joint: one of the robot's. A limit that the file does not give is None."""
        low, high = joint.lower, joint.upper
        for follower in self._following:
            mimic, own = follower.mimic, (follower.lower, follower.upper)
            if mimic is None or mimic.joint != joint.name or own[0] is None or own[1] is None:
                continue
            ends = sorted((x - mimic.offset) / mimic.multiplier for x in (own[0], own[1]))
            low, high = max(ends[0], ends[0] if low is None else low), min(ends[1], ends[1] if high is None else high)
        return low, high

    def is_periodic(self, joint: Joint) -> bool:
        """Whether a joint, one of the robot's, turns for ever and comes back to the same pose after each 2π rad: it is
        continuous, no equality counts its turns, and joints that mimic it have no limits and make whole turns too."""
        mimics = [link.joint for link in self.links if link.joint.mimic and link.joint.mimic.joint == joint.name]
        whole = all(m.kind.turning and m.mimic and float(m.mimic.multiplier).is_integer() for m in mimics)
        held = any(own.of_joints and joint.name in (own.frame, own.to) for own in self.constraints)
        return joint.kind.endless and self.reach(joint) == (None, None) and whole and not held

    def with_helical(self, joint: str, pitch: float) -> Robot:
        """The robot with a thread on a joint, so that its link moves by pitch · q along the axis when it turns by q.

        joint: the name of a revolute or continuous one. pitch: m/rad, not 0; that of a turn over 2π. The joint keeps
        its name, its limits and its place in q and v. The link is now held by a sliding joint that mimics it, below a
        link without mass (`dynagate.robot.helical`), so that the robot has one link more. Raises RobotError: there is
        no such joint, it does not turn or mimics another, or a pitch is too small or large to mimic; TypeError: it is
        no number.
        """
        from dynagate.robot.helical import with_helical

        return with_helical(self, joint, pitch)

    def uncoupled(self) -> Robot:
        """The robot with every joint that mimics another free."""
        if not self.followers:
            return self
        links = [replace(link, joint=replace(link.joint, mimic=None)) for link in self.links]
        return replace(self, links=tuple(links))

    def check_uncoupled(self, what: str) -> None:
        """Raises RobotError: joints mimic others, which what is named does not know."""
        if self.followers:
            names = ", ".join(f"'{name}'" for name in self.followers)
            raise RobotError(
                f"joints {names} of robot '{self.name}' mimic others, which {what} does not know; hold them by lock="
            )

    @property
    def nq(self) -> int:
        """Numbers in a configuration."""
        return self._places[-1][1].stop if self._places else 0

    @property
    def nv(self) -> int:
        """Degrees of freedom."""
        return self._places[-1][2].stop if self._places else 0

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints in the order of q, v, torques and links: joint i moves link i. `slices` has their places in q and
        v, where a joint that mimics another has none."""
        return tuple(link.joint.name for link in self.links)

    @property
    def lower(self) -> np.ndarray:
        """Lower position limits (nq,), rad or m, no further than where joints that mimic others reach theirs; -inf
        where the file gives none, -1 in a quaternion."""
        from dynagate.robot.limits import position_limits

        return position_limits(self)[0]

    @property
    def upper(self) -> np.ndarray:
        """Upper position limits (nq,), as `lower`; inf where the file gives none, 1 in a quaternion."""
        from dynagate.robot.limits import position_limits

        return position_limits(self)[1]

    @property
    def velocity(self) -> np.ndarray:
        """Velocity limits (nv,), rad/s or m/s; inf where the file gives none."""
        from dynagate.robot.limits import limits

        return limits(self, "velocity")

    @property
    def effort(self) -> np.ndarray:
        """Limits (nv,) of torques and forces, N m or N; inf where the file gives none."""
        from dynagate.robot.limits import limits

        return limits(self, "effort")

    def __str__(self) -> str:
        """A screen: sizes, and a line for each joint with its type, place, limits and mass."""
        from dynagate.robot.limits import screen

        return screen(self)

    def _repr_html_(self) -> str:
        """Return a picture and a table of the joints with their limits, for a notebook."""
        from importlib import import_module

        from dynagate.base.notebook import html_table
        from dynagate.robot.limits import joint_table

        picture = import_module("dynagate.scene.notebook").robot_svg(self)  # a later stage than this one
        head, *rows = joint_table(self)
        return f"{picture}<p>{escape(str(self).splitlines()[0])}</p>{html_table(head, rows)}"

    def permutation(self, names: Sequence[str], *, w_first: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Where another library's coordinates are in this robot's, for a library with the joints in another order.

        names: its joints in its order, each of this robot's once; those that mimic others may be left out. w_first:
        its quaternions are (w, x, y, z), as in MuJoCo and Isaac Lab 1 and 2; Isaac Lab 3 has
        (x, y, z, w).
        Returns (q_index (nq,), v_index (nv,)), whole numbers: theirs = ours[..., q_index] for configurations, and with
        v_index for velocities, accelerations and torques; ours = theirs[..., np.argsort(q_index)]. The frames that
        velocities are in stay as they are. Raises RobotError: a name is missing, unknown or there twice; TypeError:
        names are no texts.
        """
        from dynagate.robot.order import permutation

        return permutation(self, names, w_first=w_first)

    def slices(self) -> Iterator[tuple[Link, slice, slice]]:
        """Each link with its joint's places in q and in v."""
        return iter(self._places)

    @cached_property
    def _places(self) -> tuple[tuple[Link, slice, slice], ...]:
        """As `slices`, once: calls ask for it again and again."""
        places, iq, iv = [], 0, 0
        for link in self.links:
            nq, nv = link.joint.nq, link.joint.nv
            places.append((link, slice(iq, iq + nq), slice(iv, iv + nv)))
            iq, iv = iq + nq, iv + nv
        return tuple(places)

    @cached_property
    def _following(self) -> tuple[Joint, ...]:
        """The joints that mimic another."""
        return tuple(link.joint for link in self.links if link.joint.mimic)

    def moving(self) -> Iterator[tuple[Joint, slice, slice]]:
        """Each joint that has coordinates, not those that mimic others, with its places in q and in v."""
        return iter(self._moving)

    @cached_property
    def _moving(self) -> tuple[tuple[Joint, slice, slice], ...]:
        return tuple((link.joint, q, v) for link, q, v in self._places if link.joint.nv)

    def quaternions(self) -> list[slice]:
        """The places of unit quaternions in q."""
        return list(self._quaternions)

    @cached_property
    def _quaternions(self) -> tuple[slice, ...]:
        return tuple(slice(q.stop - 4, q.stop) for joint, q, _ in self._moving if joint.has_quaternion)

    @property
    def parents(self) -> tuple[int, ...]:
        """The parent of each link by its number, -1 for the base."""
        return tuple(link.parent for link in self.links)

    def ancestors(self, i: int) -> list[int]:
        """The links from the base to link i, both ends of the chain in order, i last. Raises RobotError: there
        is no such link."""
        chain: list[int] = []
        if not is_whole(i) or i < -1:
            raise RobotError(f"no link {shown(i)} of robot '{self.name}'; expected a whole number, -1 or more")
        if i >= len(self.links):
            raise RobotError(f"no link {i} of robot '{self.name}'; expected at most {len(self.links) - 1}, or -1")
        while i >= 0:
            chain.append(i)
            i = self.links[i].parent
        return chain[::-1]

    def aligned(self) -> Robot:
        """The same robot with every link frame turned so that its joint's axis is z and the joint frame is the link
        frame at q = 0. Joint coordinates and torques are unchanged; the algorithms work on this form."""
        turns: list[np.ndarray] = []
        links = []
        for link in self.links:
            above = turns[link.parent] if link.parent >= 0 else np.eye(3)
            turn = turn_z_to(np.array(link.joint.axis))
            turns.append(turn)
            joint = replace(
                link.joint,
                rotation=matrix3(without_noise(above.T @ np.array(link.joint.rotation) @ turn)),
                translation=vector3(without_noise(above.T @ np.array(link.joint.translation))),
                axis=(0.0, 0.0, 1.0),
            )
            links.append(
                replace(
                    link,
                    joint=joint,
                    com=vector3(without_noise(turn.T @ np.array(link.com))),
                    inertia=matrix3(without_noise(turn.T @ np.array(link.inertia) @ turn)),
                )
            )
        return replace(self, links=tuple(links))

    def with_armature(self, armature: float | Sequence[float], gear: float | Sequence[float] = 1.0) -> Robot:
        """With rotor inertias, which URDF cannot express.

        armature: kg m² about the rotors' own axes, one number or one per joint. gear: turns of the rotor per turn of
        the joint, likewise; the joint feels gear² times the rotor's inertia. For a sliding joint, rad per m. What the
        rotor's turning does to the link that carries it is left out.
        Raises RobotError: the numbers are not as many as the joints, or not finite, an inertia is negative, or
        a gear is 0.
        """
        inertias = self._per_joint("armature", armature, AT_LEAST_ZERO)
        ratios = self._per_joint("gear", gear, FINITE)
        for link, ratio in zip(self.links, ratios, strict=True):
            if not ratio:
                raise RobotError(f"gear 0 of joint '{link.joint.name}'; expected turns of the rotor for each turn")
        links = [
            replace(link, joint=replace(link.joint, armature=ratio * ratio * inertia))
            for link, inertia, ratio in zip(self.links, inertias, ratios, strict=True)
        ]
        return replace(self, links=tuple(links))

    def with_damping(self, damping: float | Sequence[float]) -> Robot:
        """Return the robot with other damping of its joints.

        Args:
            damping: N m s/rad or N s/m, one number for all joints but floating ones, or one for each joint.

        Raises:
            RobotError: There are neither one nor as many numbers as joints, or one is negative or not finite.
        """
        values = self._per_joint("damping", damping, AT_LEAST_ZERO, spares_floating=True)
        links = [
            replace(link, joint=replace(link.joint, damping=x)) for link, x in zip(self.links, values, strict=True)
        ]
        return replace(self, links=tuple(links))

    def with_friction(self, force: float | Sequence[float] | None = None, speed: float = 0.01) -> Robot:
        """Return the robot with Coulomb friction of its joints, F q̇ / √(q̇² + s²), in every function.

        The friction in the robot's file acts in no function before this call.

        Args:
            force: F in N m or N, one number for all joints but floating ones, or one for each joint; that of the file
                unless given.
            speed: s in rad/s or m/s, above 0, at which 0.7 of the friction acts.

        Raises:
            RobotError: There are neither one nor as many numbers as joints, or one is negative, too large or not
                finite.

        Example:
            >>> dynagate.robots.load("two_joint_arm").with_friction(0.5).links[0].joint.friction
            0.5
        """
        speed = number("with_friction() has speed ", speed, replace(ABOVE_ZERO, most=LARGEST_COEFFICIENT), RobotError)
        if force is None:
            values = [link.joint.friction for link in self.links]
        else:
            values = self._per_joint(
                "friction", force, replace(AT_LEAST_ZERO, most=LARGEST_COEFFICIENT), spares_floating=True
            )
        links = [
            replace(link, joint=replace(link.joint, friction=x)) for link, x in zip(self.links, values, strict=True)
        ]
        return replace(self, links=tuple(links), friction_speed=speed)

    def with_variable(self, *names: str) -> Robot:
        """Return the robot with parameters that are inputs of every function instead of constants.

        Every function of the robot then takes one more input for each name, after its own inputs and in this order. An
        input is named as the parameter, with _ for other characters than letters and digits: `forearm_mass` for
        "forearm.mass". `parameters` has the robot's own numbers by these names.

        Args:
            names: What varies. Of a link: "forearm.mass", "forearm.com", "forearm.inertia", "forearm.payload", or
                "forearm" for its ten inertial parameters. Of a joint: "elbow.armature", "elbow.damping",
                "elbow.friction". Of a joint or frame: "elbow.placement", or its "elbow.position" and "elbow.rotation".
                "gravity". A name with *, such as "*.mass" or "left_*.damping", is one input for several links or
                joints, in the robot's order.

        Raises:
            RobotError: The robot has no such parameter, or it is variable already.
            ArgumentTypeError: A name is no text.

        Example:
            >>> arm = dynagate.robots.load("two_joint_arm").with_variable("forearm.mass", "gravity")
            >>> list(arm.parameters)
            ['forearm_mass', 'gravity']
        """
        for name in names:
            if not isinstance(name, str):
                raise ArgumentTypeError(f"with_variable() got {shown(name)}; expected names such as 'forearm.mass'")
        return replace(self, variable=(*self.variable, *names))

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variable parameters with their inputs, in the order of `variable`."""
        from dynagate.robot.variable import variables_of

        return variables_of(self)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The numbers of the robot's variable parameters by the names of their inputs."""
        return {variable.input: variable.value(self) for variable in self.variables}

    def _per_joint(
        self, what: str, value: float | Sequence[float], accepted: Accepted, *, spares_floating: bool = False
    ) -> list[float]:
        """Return one number for each joint. Raise RobotError if there are neither one nor as many as joints.

        spares_floating: one number for all leaves out floating joints, which have 0."""
        count = len(self.links)
        own = one_or_each(f"{what}=", value, accepted, RobotError)
        if not isinstance(own, tuple):
            return [0.0 if spares_floating and link.joint.kind.free else own for link in self.links]
        if len(own) != count:
            raise RobotError(f"{len(own)} {what}s for {count} joints of robot '{self.name}'; expected one, or {count}")
        return list(own)

    def with_payload(self, link: str, mass: float, com: Vector3, inertia: Matrix3) -> Robot:
        """Return the robot with a body held by a link.

        Args:
            link: Name of a moving link.
            mass: Mass in kg.
            com: Center of mass (3,) in m, in the link's frame.
            inertia: Inertia (3, 3) in kg m² about the center of mass, in the link's axes; zero for a point mass.

        Raises:
            RobotError: The robot has no such moving link, or no body has such a mass and inertia.
        """
        mass = number("payload has mass ", mass, ABOVE_ZERO, RobotError)
        com = vector3(numbers("payload has center of mass ", com, (3,), FINITE, RobotError))
        inertia = matrix3(numbers("payload has inertia ", inertia, (3, 3), FINITE, RobotError))
        if np.any(inertia):
            check_inertia("payload", mass, com, inertia)
        names = [known.name for known in self.links]
        if link not in names:
            raise RobotError(
                f"robot '{self.name}' has no moving link '{link}'{nearest(link, names)}; expected one of "
                f"{', '.join(names)}"
            )
        links = [known.joined(mass, com, inertia) if known.name == link else known for known in self.links]
        return replace(self, links=tuple(links))

    @classmethod
    def from_urdf(cls, path: str | PathLike[str], **options: Unpack[ReadingOptions]) -> Robot:
        """The robot of a URDF file. path: of the file.

        options: `floating_base`, `gravity` (m/s²), `lock` (rad or m by joint), `damping`, `ignore_friction`,
        `allow_unphysical`, `unlimited`, `lax` and `round_rotations` (rad), which `dynagate.robot.urdf.read_urdf`
        explains.
        Raises RobotError: the file is missing, not XML, has macros, or describes no tree of supported joints with
        physical inertias. The text names the joint or link and the option that accepts it. TypeError: a path or `lock`
        of another type.
        """
        from dynagate.robot.urdf import read_urdf

        for name in options:
            check_keyword("from_urdf", name, ReadingOptions.__annotations__)
        return read_urdf(path, **options)

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        *,
        trust: bool = False,
        arguments: Mapping[str, str] | None = None,
        floating_base: bool = False,
        gravity: Vector3 | None = None,
        lock: Mapping[str, float] | None = None,
        damping: bool = True,
        ignore_friction: bool = False,
        allow_unphysical: bool = False,
        unlimited: bool = False,
        lax: bool = False,
        round_rotations: float = 1e-9,
    ) -> Robot:
        """Read a robot from a file: URDF, and with `trust=True` MuJoCo's format and xacro.

        Args:
            path: File that ends in .urdf, .xml, .mjcf or .xacro.
            trust: Accept MJCF and xacro. MuJoCo opens every file that an MJCF names, and expressions of xacro can run
                any program.
            arguments: Arguments of the macros of a .xacro file, by name.
            floating_base: Let the base move freely, by a first link with a floating joint.
            gravity: Acceleration of gravity in the base frame, m/s²; that of the file, or (0, 0, -9.81), unless given.
            lock: Joints that do not move, with their positions, rad or m.
            damping: Read the damping of joints.
            ignore_friction: Leave out the friction of joints.
            allow_unphysical: Accept inertias that no rigid body has.
            unlimited: Accept joints without limits.
            lax: Accept more of what other parsers accept.
            round_rotations: Round rotations to right angles within this angle, rad.

        Raises:
            RobotError: The file is missing, cannot be read, is MJCF or xacro without `trust=True`, or describes no tree
                of supported joints with physical inertias.
            ArgumentTypeError: An argument has another type.
            MissingExtraError: MuJoCo or xacro is not installed.

        Example:
            >>> dynagate.Robot.from_file(dynagate.robots.path("two_joint_arm")).nv
            2
        """
        from dynagate.robot.reading import read_file

        values = {
            "floating_base": (floating_base, False),
            "gravity": (gravity, None),
            "lock": (lock, None),
            "damping": (damping, True),
            "ignore_friction": (ignore_friction, False),
            "allow_unphysical": (allow_unphysical, False),
            "unlimited": (unlimited, False),
            "lax": (lax, False),
            "round_rotations": (round_rotations, 1e-9),
        }
        options: Any = changed_options(values)
        return read_file(path, trust, arguments, options)

    @classmethod
    def from_mjcf(cls, path: str | PathLike[str], **options: Unpack[ReadingOptions]) -> Robot:
        """Read MuJoCo's format. path: of a file that you trust, because MuJoCo opens every file that it names. options:
        those of `dynagate.robot.mjcf.read_mjcf`.

        Raises RobotError: the file is missing or cannot be read, needs too much time or memory, or describes no tree of
        supported joints; MissingExtraError: MuJoCo is not installed. A RobotWarning names what is left out."""
        from dynagate.robot.mjcf import read_mjcf

        return read_mjcf(path, **options)

    @classmethod
    def from_xacro(
        cls, path: str | PathLike[str], arguments: Mapping[str, str] | None = None, **options: Unpack[ReadingOptions]
    ) -> Robot:
        """Read a URDF that is written with macros. path: of a file that you trust, because its expressions can run any
        program. arguments: of its macros, by name. options: those of `from_urdf`.

        Raises RobotError: the macros cannot be expanded or need too much time or memory, or as `from_urdf` does of what
        they make; MissingExtraError: xacro is not installed."""
        from dynagate.robot.macros import read_xacro

        for name in options:
            check_keyword("from_xacro", name, ("arguments", *ReadingOptions.__annotations__))
        return read_xacro(path, arguments, **options)


SMALLEST = 1e-100
"""kg and kg m²: less than this cannot be squared in a float."""


def check_inertia(name: str, mass: float, com: Vector3, inertia: Matrix3) -> None:
    """Refuse a mass distribution that no rigid body has.

    The principal moments must be positive and keep the triangle inequality, which is that the second moment
    Σ = tr(I)/2 1 - I has no negative eigenvalue (Traversaro, Brossette, Escande & Nori 2016).
    """
    if not (is_finite(mass) and mass > 0.0):
        value = f"{mass:g} kg" if isinstance(mass, float) else shown(mass)
        raise RobotError(f"link '{name}' has mass {value}; a moving link needs a positive, finite mass")
    matrix = np.array(inertia)
    if not np.isfinite(matrix).all() or not np.isfinite(com).all():
        raise RobotError(f"link '{name}' has an inertia or center of mass that is not finite")
    scale = float(np.abs(matrix).max())
    if np.abs(matrix - matrix.T).max() > 1e-9 * scale:
        raise RobotError(f"link '{name}' has an inertia matrix that is not symmetric")
    if 0.0 < min(mass, scale) < SMALLEST:
        raise RobotError(
            f"link '{name}' has mass {mass:g} kg and moments of inertia up to {scale:g} kg m²; "
            f"expected {SMALLEST:g} or more"
        )
    moments = np.linalg.eigvalsh(matrix)
    if moments[0] <= 0.0:
        raise RobotError(
            f"link '{name}' has principal moments of inertia {np.array2string(moments, precision=6)} kg m²; "
            "all must be positive"
        )
    if moments[2] > (moments[0] + moments[1]) * (1.0 + 1e-3):  # files round their entries
        raise RobotError(
            f"link '{name}' has principal moments of inertia {np.array2string(moments, precision=6)} kg m², "
            "which no body has: the largest exceeds the sum of the others"
        )


def turn_z_to(axis: np.ndarray) -> np.ndarray:
    """A rotation that takes z to the axis; a permutation where the axis is a coordinate axis."""
    axis = without_noise(axis)
    k = int(np.argmax(np.abs(axis)))
    if np.count_nonzero(axis) == 1:
        turn = np.zeros((3, 3))
        turn[(k + 1) % 3, 0] = turn[k, 2] = np.sign(axis[k])
        turn[(k + 2) % 3, 1] = 1.0
        return turn
    least = np.zeros(3)
    least[int(np.argmin(np.abs(axis)))] = 1.0
    x = np.cross(least, axis)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(axis, x), axis])


def without_noise(values: Any) -> np.ndarray:
    """Entries below 1e-15 of the largest are rounding errors of a rotation that left them zero."""
    return summed(values)


def summed(*terms: Any, within: float = 1e-15) -> np.ndarray:
    """The sum of arrays, with entries that are rounding errors set to 0: those within this part of the largest entries
    of the terms together."""
    arrays = [np.asarray(term, dtype=float) for term in terms]
    total = np.sum(arrays, axis=0)
    total[np.abs(total) <= within * sum(float(np.abs(a).max(initial=0.0)) for a in arrays)] = 0.0
    return total


answering(
    Robot,
    {
        "neutral": "dynagate.neutral(robot)",
        "q0": "dynagate.neutral(robot)",
        "integrate": "dynagate.integrate(robot, q, v)",
        "difference": "dynagate.difference(robot, q, q_next)",
        **dict.fromkeys(
            ("random", "randomconfiguration", "randomstate", "sample"),
            "dynagate.Region.of(robot).sample('mass_matrix', count, seed)['q']",
        ),
        "compile": "dynagate.compile(robot, function)",
        **dict.fromkeys(("rollout", "simulate", "step"), "dynagate.Rollout(robot, steps=..., dt=...)"),
        **dict.fromkeys(("dof", "dofs", "n", "ndof", "nu"), "robot.nv"),
        **dict.fromkeys(("joints", "njoints", "names"), "robot.joint_names"),
        **dict.fromkeys(("bodies", "nbodies", "nbody"), "robot.links"),
        **dict.fromkeys(("getframeid", "getframe", "getbodyid"), "robot.frame(name)"),
        "lowerpositionlimit": "robot.lower",
        "upperpositionlimit": "robot.upper",
        "velocitylimit": "robot.velocity",
        "effortlimit": "robot.effort",
    },
)
