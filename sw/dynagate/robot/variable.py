"""Parameters of a robot that are inputs of its functions instead of constants (`Robot.with_variable`).

A variable parameter has a name, such as "forearm.mass", and becomes one input of every function. A name with * stands
for several parameters of one kind, which become one stacked input. `KINDS` lists the parameters that can vary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.arguments import shown
from dynagate.base.arrays import Array
from dynagate.base.nearest import nearest
from dynagate.robot.errors import RobotError
from dynagate.robot.parts import Link
from dynagate.robot.tree import RobotTree

LINK, JOINT, PLACE, WORLD = "link", "joint", "joint or frame", "robot"
"""Kinds of owner of a parameter."""

INERTIAL, MASS, COM, INERTIA, PAYLOAD = "inertial", "mass", "com", "inertia", "payload"
ARMATURE, DAMPING, FRICTION = "armature", "damping", "friction"
PLACEMENT, POSITION, ROTATION = "placement", "position", "rotation"
GRAVITY = "gravity"
GROUND_FRICTION, GROUND_RESTITUTION = "ground.friction", "ground.restitution"

DEFAULT_GROUND_FRICTION = 0.8
"""Friction coefficient of the ground for contact laws that set none."""

DEFAULT_GROUND_RESTITUTION = 0.0
"""Restitution of the ground in laws of contact that set none."""

LONGEST = 200
"""Largest number of characters in the name of an input."""

UNCHECKED = "unchecked"
"""Kind of an input whose numbers are not checked, because the robot's own numbers are unphysical."""

WITH_MASS = (INERTIAL, MASS, COM, INERTIA)
"""Kinds that only links with mass have."""

COUNT = 10
"""Number of inertial parameters of a link."""

DYNAMIC = COUNT + 3
"""Dynamic parameters of a link: the inertial ones, then armature, damping and friction of its joint."""

MOMENTS = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
"""Entries of a symmetric matrix in the order xx, xy, yy, xz, yz, zz."""

ROUNDED = 1e-3
"""Fraction of a body's second moment by which an inertia may violate the triangle inequality, because files round
numbers.
"""

CANCELLED = 1e-6
"""Fraction of the second moment about the link's origin that float32 may lose when moved to the center of mass."""


def _moments(link: Link) -> Array:
    return np.array([link.inertia[a][b] for a, b in MOMENTS])


def quaternion_of(rotation: Any) -> Array:
    """Return the unit quaternion (x, y, z, w), w ≥ 0, of a rotation matrix (3, 3)."""
    r = np.asarray(rotation, dtype=np.float64)
    a, b, c = r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]
    d, e, f = r[2, 1] + r[1, 2], r[0, 2] + r[2, 0], r[1, 0] + r[0, 1]
    rows = np.array(
        [
            [1.0 + r[0, 0] - r[1, 1] - r[2, 2], f, e, a],
            [f, 1.0 - r[0, 0] + r[1, 1] - r[2, 2], d, b],
            [e, d, 1.0 - r[0, 0] - r[1, 1] + r[2, 2], c],
            [a, b, c, 1.0 + r[0, 0] + r[1, 1] + r[2, 2]],
        ]
    )
    row = rows[int(np.argmax(np.diag(rows)))]
    return row / np.linalg.norm(row) * (1.0 if row[3] >= 0.0 else -1.0)


def _pose7(robot: RobotTree, place: int) -> Array:
    """Return the position and quaternion (7,) of a joint or frame. `place` is an index as in `Variable.owners`."""
    if place < len(robot.links):
        joint = robot.links[place].joint
        return np.array([*joint.translation, *quaternion_of(joint.rotation)])
    frame = robot.frames[place - len(robot.links)]
    return np.array([*frame.translation, *quaternion_of(frame.rotation)])


def _is_positive(second: Sequence[Array], slack: Array) -> Array:
    """Return whether symmetric matrices (n,) are positive definite.

    Args:
        second: Entries xx, xy, yy, xz, yz, zz, (n,) each.
        slack: Value (n,) that is added to the diagonal first.
    """
    xx, xy, yy, xz, yz, zz = second
    xx, yy, zz = xx + slack, yy + slack, zz + slack
    minor = xx * yy - xy * xy
    whole = zz * minor - yz * (xx * yz - xy * xz) + xz * (xy * yz - yy * xz)
    return (xx > 0.0) & (minor > 0.0) & (whole > 0.0)


def _is_body(values: Array) -> Array:
    """Return whether ten inertial parameters (n, 10) belong to rigid bodies."""
    mass, *rest = np.ascontiguousarray(values.T)
    first, (xx, xy, yy, xz, yz, zz) = rest[:3], rest[3:]
    half, (x, y, z) = 0.5 * (xx + yy + zz), (h / mass for h in first)
    hx, hy, hz = first
    about = half - xx - x * hx, -xy - x * hy, half - yy - y * hy, -xz - x * hz, -yz - y * hz, half - zz - z * hz
    slack = CANCELLED * np.abs(half) + ROUNDED * np.maximum(about[0] + about[2] + about[5], 0.0)
    return (mass > 0.0) & _is_positive(about, slack)


def _is_payload(values: Array) -> Array:
    """Return whether inertial parameters (n, 10) belong to rigid bodies or are all 0."""
    return _is_body(values) | (values == 0.0).all(axis=1)


def _is_inertia(values: Array) -> Array:
    """Return whether six moments (n, 6) are the inertia of rigid bodies."""
    xx, xy, yy, xz, yz, zz = np.ascontiguousarray(values.T)
    half = 0.5 * (xx + yy + zz)
    return _is_positive((half - xx, -xy, half - yy, -xz, -yz, half - zz), ROUNDED * np.maximum(half, 0.0))


@dataclass(frozen=True)
class ParameterKind:
    """A kind of parameter that can vary."""

    owner: str
    """Part that has the parameter: LINK, JOINT, PLACE or WORLD."""
    shape: tuple[int, ...]
    """Shape of the numbers of one owner."""
    value: Callable[[RobotTree, int], Array]
    """Function of a robot and an owner's index that returns the robot's own numbers, (*shape)."""
    text: str
    """Description of the numbers, with their unit."""
    stacked: str
    """Name of the input that stacks the numbers of all owners."""
    accepted: Callable[[Array], Array] | None = None
    """Function that returns which of some numbers (n, *shape) are valid (n,); None if all finite ones are."""
    expected: str = ""
    """Description of valid numbers, for errors."""
    unit: int | None = None
    """Index of a unit quaternion's first number; None without a quaternion."""

    @property
    def size(self) -> int:
        """Number of numbers that one owner has."""
        return int(np.prod(self.shape, dtype=int))


_BODY = "a mass above 0 and an inertia that a body can have"
_ABOVE = "a number of 0 or more"
KINDS: dict[str, ParameterKind] = {
    INERTIAL: ParameterKind(
        LINK,
        (COUNT,),
        lambda robot, i: robot.links[i].parameters(),
        "mass, first moments and inertia about the link's origin: kg, kg m, kg m²",
        "links",
        _is_body,
        _BODY,
    ),
    MASS: ParameterKind(
        LINK,
        (),
        lambda robot, i: np.array(robot.links[i].mass),
        "mass, kg; the inertia about the center of mass stays",
        MASS,
        lambda values: values > 0.0,
        "a mass above 0 kg",
    ),
    COM: ParameterKind(
        LINK, (3,), lambda robot, i: np.array(robot.links[i].com), "center of mass in the link's frame, m", COM
    ),
    INERTIA: ParameterKind(
        LINK,
        (6,),
        lambda robot, i: _moments(robot.links[i]),
        "inertia xx, xy, yy, xz, yz, zz about the center of mass, kg m²",
        INERTIA,
        _is_inertia,
        "an inertia that a body can have: positive moments, none above the sum of the two others",
    ),
    PAYLOAD: ParameterKind(
        LINK,
        (COUNT,),
        lambda robot, i: np.zeros(COUNT),
        "inertial parameters of a body that the link carries: kg, kg m, kg m²",
        PAYLOAD,
        _is_payload,
        f"zeros for no payload, or {_BODY}",
    ),
    ARMATURE: ParameterKind(
        JOINT,
        (),
        lambda robot, i: np.array(robot.links[i].joint.armature),
        "inertia of the rotor seen through the gear, kg m² or kg",
        ARMATURE,
        lambda values: values >= 0.0,
        _ABOVE,
    ),
    DAMPING: ParameterKind(
        JOINT,
        (),
        lambda robot, i: np.array(robot.links[i].joint.damping),
        "damping, N m s/rad or N s/m",
        DAMPING,
        lambda values: values >= 0.0,
        _ABOVE,
    ),
    FRICTION: ParameterKind(
        JOINT,
        (),
        lambda robot, i: np.array(robot.links[i].joint.friction if robot.friction_speed else 0.0),
        "Coulomb friction, N m or N",
        FRICTION,
        lambda values: values >= 0.0,
        _ABOVE,
    ),
    PLACEMENT: ParameterKind(
        PLACE,
        (7,),
        _pose7,
        "position, m, and unit quaternion (x, y, z, w) in the parent link",
        PLACEMENT,
        unit=3,
    ),
    POSITION: ParameterKind(
        PLACE, (3,), lambda robot, i: _pose7(robot, i)[:3], "position in the parent link, m", POSITION
    ),
    ROTATION: ParameterKind(
        PLACE,
        (4,),
        lambda robot, i: _pose7(robot, i)[3:],
        "unit quaternion (x, y, z, w) from own axes to those of the parent link",
        ROTATION,
        unit=0,
    ),
    GRAVITY: ParameterKind(
        WORLD, (3,), lambda robot, i: np.array(robot.gravity), "acceleration of free fall, m/s²", GRAVITY
    ),
    GROUND_FRICTION: ParameterKind(
        WORLD,
        (),
        lambda robot, i: np.array(DEFAULT_GROUND_FRICTION),
        "friction of the ground, in place of `friction` of contact laws",
        "ground_friction",
        lambda values: values >= 0.0,
        _ABOVE,
    ),
    GROUND_RESTITUTION: ParameterKind(
        WORLD,
        (),
        lambda robot, i: np.array(DEFAULT_GROUND_RESTITUTION),
        "restitution of the ground, in place of `restitution` of rigid contact",
        "ground_restitution",
        lambda values: (values >= 0.0) & (values <= 1.0),
        "a number from 0 to 1",
    ),
}
"""The parameters that can vary, by the part of a name after the dot. A link's name without a dot means INERTIAL."""

OF_WORLD = {
    GRAVITY: lambda robot: {link.name for link in robot.links},
    GROUND_FRICTION: lambda robot: {f"{link.joint.name}.{FRICTION}" for link in robot.links},
    GROUND_RESTITUTION: lambda robot: set(),
}
"""Parameters of the robot's surroundings by their complete names -> parts of a robot with the same name, which take
precedence.
"""

CLASHES = (
    {INERTIAL, MASS},
    {INERTIAL, COM},
    {INERTIAL, INERTIA},
    {PLACEMENT, POSITION},
    {PLACEMENT, ROTATION},
)
"""Sets of kinds that share numbers of one owner, so that only one of them can vary."""


class Variable(NamedTuple):
    """A parameter that is an input, or several parameters of one kind that are one input."""

    name: str
    """Name as the user wrote it."""
    kind: str
    """A key of `KINDS`."""
    owners: tuple[int, ...]
    """Indices of links or joints in the robot's order. A frame has the number of links plus its own index."""
    input: str
    """Name of the input."""
    stacked: bool
    """Whether the input has a first axis for the owners."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the input for one sample."""
        return (len(self.owners), *KINDS[self.kind].shape) if self.stacked else KINDS[self.kind].shape

    @property
    def unit_vectors(self) -> tuple[tuple[int, int], ...]:
        """First and end index of each unit quaternion among the entries."""
        kind = KINDS[self.kind]
        if kind.unit is None:
            return ()
        starts = (k * kind.size + kind.unit for k in range(len(self.owners)))
        return tuple((start, start + 4) for start in starts)

    def value(self, robot: RobotTree) -> Array:
        """Return the robot's own numbers in the shape of the input."""
        kind = KINDS[self.kind]
        return np.stack([kind.value(robot, i) for i in self.owners]).reshape(self.shape)

    def checked_kind(self, robot: RobotTree) -> str:
        """Return the kind that defines the checks of this input.

        It is UNCHECKED if the robot's own numbers are invalid and the robot was read with `allow_unphysical=True`.
        """
        accepted = KINDS[self.kind].accepted
        own = self.value(robot).reshape(len(self.owners), *KINDS[self.kind].shape)
        with np.errstate(all="ignore"):
            return self.kind if accepted is None or accepted(own).all() else UNCHECKED


def wrong_entry(kind: str, flat: Array) -> tuple[int, int, int, str] | None:
    """Return the first invalid set of numbers of a parameter, or None.

    Args:
        kind: A key of `KINDS`, or UNCHECKED.
        flat: Numbers of an input (batch, entries).

    Returns:
        The sample, the first entry, the size, and a description of valid numbers.
    """
    row = KINDS.get(kind)
    if row is None or row.accepted is None or not flat.size:
        return None
    sets = flat.reshape(-1, *row.shape)
    with np.errstate(all="ignore"):
        wrong = ~row.accepted(sets)
    if not wrong.any():
        return None
    sample, owner = divmod(int(np.argmax(wrong)), flat.shape[1] // row.size)
    return sample, owner * row.size, row.size, row.expected


def variables_of(robot: RobotTree) -> tuple[Variable, ...]:
    """Return the variable parameters of a robot, in the order of `Robot.variable`.

    Raises:
        RobotError: The robot has no such parameter, a parameter is repeated, or two inputs would have the same name.
    """
    variables: list[Variable] = []
    for name in robot.variable:
        own = _variable(robot, name)
        for other in variables:
            _check_apart(robot, own, other)
        variables.append(own)
    return tuple(variables)


def _variable(robot: RobotTree, name: str) -> Variable:
    """Return the variable parameter that a name describes, such as "forearm.mass", "elbow.damping" or "gravity".

    The name of a link stands for its ten inertial parameters. A * in the name of the link or joint stands for a group.

    Raises:
        RobotError: The robot has no such parameter, or it cannot vary.
    """
    if name in OF_WORLD and name not in OF_WORLD[name](robot):
        return Variable(name, name, (0,), KINDS[name].stacked, False)
    owner, dot, kind = name.rpartition(".")
    links = [link.name for link in robot.links]
    if name in links or (not dot and "*" in name):
        owner, kind = name, INERTIAL
    elif not dot or kind not in KINDS or kind in (INERTIAL, *OF_WORLD):
        raise RobotError(_unknown(robot, name, kind if dot else ""), code="DG-ROBOT-114")
    owners = _owners(robot, KINDS[kind].owner, owner)
    if "*" in owner:
        owners = [i for i in owners if _in_group(robot, kind, i)]
    if not owners:
        raise RobotError(_no_owner(robot, name, KINDS[kind].owner, owner), code="DG-ROBOT-115")
    if len(owners) > 1 and "*" not in owner:
        raise RobotError(
            f"'{owner}' in '{name}' names {len(owners)} parts of robot '{robot.name}'; expected one",
            code="DG-ROBOT-116",
        )
    if kind in WITH_MASS and not all(robot.links[i].mass for i in owners):
        raise RobotError(
            f"link '{owner}' has no mass, so '{name}' cannot vary; expected a link with mass", code="DG-ROBOT-117"
        )
    input_name = _input(owner, kind)
    if "*" not in owner and (not re.search("[A-Za-z0-9]", owner) or len(input_name) > LONGEST):
        raise RobotError(
            f"{shown(name)} of robot '{robot.name}' cannot be an input; expected a name with letters or digits, of at "
            f"most {LONGEST} characters",
            code="DG-ROBOT-118",
        )
    return Variable(name, kind, tuple(owners), input_name, "*" in owner)


def _owners(robot: RobotTree, what: str, name: str) -> list[int]:
    """Return the indices of the links, joints or frames that match a name or a pattern with *."""
    names = [link.name if what == LINK else link.joint.name for link in robot.links]
    if "*" in name:  # a pattern selects no frames
        return [i for i, each in enumerate(names) if fnmatchcase(each, name.replace("[", "[[]"))]
    if what == PLACE:
        names += [frame.name for frame in robot.frames]
    return [i for i, each in enumerate(names) if each == name]


def _in_group(robot: RobotTree, kind: str, i: int) -> bool:
    """Return whether a link or joint belongs to a group that a pattern selects.

    Links without mass do not, and floating joints do not either, because nothing acts on them and nothing needs their
    pose.
    """
    if KINDS[kind].owner == LINK:
        return kind not in WITH_MASS or robot.links[i].mass > 0.0
    return not robot.links[i].joint.kind.free


def _input(owner: str, kind: str) -> str:
    """Return the name of an input for these owners, with letters, digits and _ only."""
    row = KINDS[kind]
    clean = re.sub(r"\W+", "_", owner.replace("*", ""), flags=re.ASCII).strip("_" if "*" in owner else "")
    if "*" in owner:
        name = f"{clean}_{row.stacked}" if clean else row.stacked
    else:
        name = clean if kind == INERTIAL else f"{clean}_{kind}"
    return f"_{name}" if name[:1].isdigit() else name


def _check_apart(robot: RobotTree, own: Variable, other: Variable) -> None:
    """Raise RobotError if two parameters are equal, share numbers, or would have inputs with the same name."""
    if own.name == other.name:
        raise RobotError(
            f"'{own.name}' is variable twice in robot '{robot.name}'; expected each parameter once", code="DG-ROBOT-119"
        )
    same = own.kind == other.kind or {own.kind, other.kind} in CLASHES
    if same and not set(own.owners).isdisjoint(other.owners):
        raise RobotError(
            f"'{own.name}' and '{other.name}' of robot '{robot.name}' are the same numbers; expected one of them",
            code="DG-ROBOT-120",
        )
    if own.input == other.input:
        raise RobotError(
            f"'{own.name}' and '{other.name}' of robot '{robot.name}' would both be the input '{own.input}'; expected "
            "names that differ in letters, digits or _",
            code="DG-ROBOT-121",
        )


def _unknown(robot: RobotTree, name: str, kind: str) -> str:
    """Return the text of the error for a name that is not a parameter."""
    links = [link.name for link in robot.links]
    if kind:
        kinds = [each for each in KINDS if each not in (INERTIAL, *OF_WORLD)]
        return (
            f"robot '{robot.name}' has no variable parameter '{name}': there is no '{kind}'{nearest(kind, kinds)}; "
            f"expected one of {', '.join(kinds)} after the dot"
        )
    return (
        f"robot '{robot.name}' has no moving link '{name}'{nearest(name, [*links, *OF_WORLD])}; expected one of "
        f"{', '.join(links)} (a link on a fixed joint is part of the link that carries it), 'gravity', "
        "'ground.friction', 'ground.restitution', or a name such as 'link.mass' or 'joint.damping'"
    )


def _no_owner(robot: RobotTree, name: str, what: str, owner: str) -> str:
    """Return the text of the error for a parameter whose link, joint or frame does not exist."""
    names = [link.name if what == LINK else link.joint.name for link in robot.links]
    if what == PLACE:
        names += [frame.name for frame in robot.frames]
    called = "moving link" if what == LINK else what
    shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return (
        f"robot '{robot.name}' has no {called} '{owner}', which '{name}' needs{nearest(owner, names)}; expected one of "
        f"{shown}"
    )


def check_constant(robot: RobotTree, what: str, kinds: Sequence[str] = (), owner: int | None = None) -> None:
    """Raise RobotError if a robot has variable parameters that an algorithm does not support as inputs.

    Args:
        robot: The robot.
        what: Description of the algorithm, for the error.
        kinds: Kinds of parameters that the algorithm does not support; all by default.
        owner: Index of the link whose parameters it does not support; all links by default.
    """
    names = [
        f"'{variable.name}'"
        for variable in variables_of(robot)
        if (not kinds or variable.kind in kinds) and (owner is None or owner in variable.owners)
    ]
    if names:
        raise RobotError(
            f"{what} cannot take the variable parameters {', '.join(names)} of robot '{robot.name}' as inputs; "
            "expected a robot with these numbers as constants",
            code="DG-ROBOT-122",
        )


def check_inputs(robot: RobotTree, inputs: Sequence[str]) -> None:
    """Raise RobotError if a variable parameter would have the name of another input in `inputs`."""
    for variable in variables_of(robot):
        if variable.input in inputs:
            raise RobotError(
                f"'{variable.name}' of robot '{robot.name}' cannot be the input '{variable.input}', which is another "
                f"one's name; expected a link or joint whose name is not {', '.join(inputs)}",
                code="DG-ROBOT-123",
            )
