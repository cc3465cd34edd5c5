"""Changes of a robot: each returns a new robot and leaves the one that it is called on as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from dynagate.base.arguments import (
    ABOVE_ZERO,
    AT_LEAST_ZERO,
    FINITE,
    Accepted,
    check_texts,
    number,
    numbers,
    one_or_each,
    shown,
)
from dynagate.base.errors import ArgumentTypeError
from dynagate.base.nearest import nearest
from dynagate.robot.constraint import JOINTS, Constraint
from dynagate.robot.errors import RobotError
from dynagate.robot.helical import with_helical
from dynagate.robot.inertia import check_inertia
from dynagate.robot.parts import Frame
from dynagate.robot.tree import RobotTree, Tree
from dynagate.robot.validate import check_frame
from dynagate.robot.variable import Variable, variables_of
from dynagate.robot.vectors import IDENTITY, Matrix3, Vector3, matrix3, summed, vector3, without_noise

LARGEST_COEFFICIENT = 1e12
"""Largest friction in N m or N, and largest speed of friction in rad/s or m/s."""


class EditableTree(RobotTree):
    """A tree of links with the changes that users make."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variable:
            _ = self.variables

    def with_frame(
        self: Tree, name: str, on: str, translation: Sequence[float] = (0.0, 0.0, 0.0), rotation: Any = IDENTITY
    ) -> Tree:
        """With a frame at this pose in another one, by their names: translation in m, rotation (3, 3). Raises
        RobotError: there is no frame to put it on, the name is taken, or this is no pose."""
        check_texts(RobotError, name=name, on=on)
        below = self.frame(on)
        if name in {link.name for link in self.links} | {frame.name for frame in self.frames}:
            raise RobotError(f"robot '{self.name}' has a frame '{name}' already; expected a name that is not taken")
        turned = numbers(f"frame '{name}' has rotation ", rotation, (3, 3), FINITE, RobotError)
        at = numbers(f"frame '{name}' has translation ", translation, (3,), FINITE, RobotError)
        own = Frame(name, below.link, matrix3(turned), vector3(at))
        check_frame(self.links, own)
        turn = np.array(below.rotation)
        moved = summed(turn @ np.array(own.translation), below.translation)
        placed = replace(own, rotation=matrix3(without_noise(turn @ turned)), translation=vector3(moved))
        return replace(self, frames=(*self.frames, placed))

    def with_contact(
        self: Tree,
        frame: str,
        kind: str = "point",
        *,
        damping: float = 0.0,
        compliance: float = 0.0,
        normal: Vector3 = (0.0, 0.0, 1.0),
    ) -> Tree:
        """With a frame or link that something outside may hold, last of the constraints. frame, kind, damping,
        compliance, normal: as in `Constraint`. Raises RobotError: there is no such frame or kind, the frame is fixed
        to the base or has a contact already, a number is negative or not finite, or a normal is given of no plane."""
        check_texts(RobotError, frame=frame, kind=kind)
        own = Constraint(frame, kind, damping=damping, compliance=compliance, normal=normal)
        return replace(self, constraints=(*self.constraints, own.with_floats()))

    def with_loop(
        self: Tree,
        frame: str,
        to: str,
        kind: str = "point",
        *,
        stiffness: float = 0.0,
        damping: float = 0.0,
        compliance: float = 0.0,
        length: float = 0.0,
    ) -> Tree:
        """With a loop that a frame or link closes with another, last of the constraints: "point" keeps their origins
        together, "fixed" their axes too, "hinge" their z axes, and "distance" keeps their origins at a length. frame,
        to, kind, stiffness, damping, compliance, length: as in `Constraint`. Raises RobotError: there is no such frame
        or kind, both are on one link, they have a loop already, a number is negative or not finite, or a length is
        given of no distance, or none of one."""
        check_texts(RobotError, frame=frame, to=to, kind=kind)
        own = Constraint(frame, kind, to, stiffness, damping, compliance, length=length)
        return replace(self, constraints=(*self.constraints, own.with_floats()))

    def with_joint_equality(
        self: Tree,
        joint: str,
        to: str = "",
        polynomial: Sequence[float] = (0.0, 1.0),
        *,
        stiffness: float = 0.0,
        damping: float = 0.0,
        compliance: float = 0.0,
    ) -> Tree:
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

    def with_passive(self: Tree, *joints: str) -> Tree:
        """With joints that nothing drives besides those that are passive already, such as all of a closed loop but
        those with a motor. joints: their names. Raises RobotError: there is no such joint, it mimics another, or it is
        passive already."""
        return replace(self, passive=(*self.passive, *joints))

    def with_helical(self: Tree, joint: str, pitch: float) -> Tree:
        """The robot with a thread on a joint, so that its link moves by pitch · q along the axis when it turns by q.

        joint: the name of a revolute or continuous one. pitch: m/rad, not 0; that of a turn over 2π. The joint keeps
        its name, its limits and its place in q and v. The link is now held by a sliding joint that mimics it, below a
        link without mass (`dynagate.robot.helical`), so that the robot has one link more. Raises RobotError: there is
        no such joint, it does not turn or mimics another, or a pitch is too small or large to mimic; TypeError: it is
        no number.
        """
        return with_helical(self, joint, pitch)

    def with_armature(self: Tree, armature: float | Sequence[float], gear: float | Sequence[float] = 1.0) -> Tree:
        """With rotor inertias, which URDF cannot express.

        armature: kg m² about the rotors' own axes, one number or one per joint. gear: turns of the rotor per turn of
        the joint, likewise; the joint feels gear² times the rotor's inertia. For a sliding joint, rad per m. What the
        rotor's turning does to the link that carries it is left out.
        Raises RobotError: the numbers are not as many as the joints, or not finite, an inertia is negative, or
        a gear is 0.
        """
        inertias = _per_joint(self, "armature", armature, AT_LEAST_ZERO)
        ratios = _per_joint(self, "gear", gear, FINITE)
        for link, ratio in zip(self.links, ratios, strict=True):
            if not ratio:
                raise RobotError(f"gear 0 of joint '{link.joint.name}'; expected turns of the rotor for each turn")
        links = [
            replace(link, joint=replace(link.joint, armature=ratio * ratio * inertia))
            for link, inertia, ratio in zip(self.links, inertias, ratios, strict=True)
        ]
        return replace(self, links=tuple(links))

    def with_damping(self: Tree, damping: float | Sequence[float]) -> Tree:
        """Return the robot with other damping of its joints.

        Args:
            damping: N m s/rad or N s/m, one number for all joints but floating ones, or one for each joint.

        Raises:
            RobotError: There are neither one nor as many numbers as joints, or one is negative or not finite.
        """
        values = _per_joint(self, "damping", damping, AT_LEAST_ZERO, spares_floating=True)
        links = [
            replace(link, joint=replace(link.joint, damping=x)) for link, x in zip(self.links, values, strict=True)
        ]
        return replace(self, links=tuple(links))

    def with_friction(self: Tree, force: float | Sequence[float] | None = None, speed: float = 0.01) -> Tree:
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
            values = _per_joint(
                self, "friction", force, replace(AT_LEAST_ZERO, most=LARGEST_COEFFICIENT), spares_floating=True
            )
        links = [
            replace(link, joint=replace(link.joint, friction=x)) for link, x in zip(self.links, values, strict=True)
        ]
        return replace(self, links=tuple(links), friction_speed=speed)

    def with_variable(self: Tree, *names: str) -> Tree:
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
        return variables_of(self)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The numbers of the robot's variable parameters by the names of their inputs."""
        return {variable.input: variable.value(self) for variable in self.variables}

    def with_payload(self: Tree, link: str, mass: float, com: Vector3, inertia: Matrix3) -> Tree:
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


def _per_joint(
    robot: RobotTree, what: str, value: float | Sequence[float], accepted: Accepted, *, spares_floating: bool = False
) -> list[float]:
    """Return one number for each joint. Raise RobotError if there are neither one nor as many as joints.

    spares_floating: one number for all leaves out floating joints, which have 0."""
    count = len(robot.links)
    values = one_or_each(f"{what}=", value, accepted, RobotError)
    if not isinstance(values, tuple):
        return [0.0 if spares_floating and link.joint.kind.free else values for link in robot.links]
    if len(values) != count:
        raise RobotError(f"{len(values)} {what}s for {count} joints of robot '{robot.name}'; expected one, or {count}")
    return list(values)
