"""Methods that change a robot. Each returns a new robot and does not modify the original."""

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
from dynagate.robot.dynamic_parameters import dynamic_parameters, with_dynamic_parameters
from dynagate.robot.errors import RobotError
from dynagate.robot.helical import with_helical
from dynagate.robot.inertia import check_inertia
from dynagate.robot.parts import Frame
from dynagate.robot.tree import RobotTree, Tree
from dynagate.robot.validate import check_frame
from dynagate.robot.variable import Variable, variables_of
from dynagate.robot.vectors import IDENTITY, Matrix3, Vector3, matrix3, summed, vector3, without_noise

LARGEST_COEFFICIENT = 1e12
"""Largest friction in N m or N, and largest friction speed in rad/s or m/s."""


class EditableTree(RobotTree):
    """A tree of links with the methods by which users change it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variable:
            _ = self.variables

    def with_frame(
        self: Tree, name: str, on: str, translation: Sequence[float] = (0.0, 0.0, 0.0), rotation: Any = IDENTITY
    ) -> Tree:
        """Return the robot with a named frame, fixed to another frame.

        Args:
            name: Name of the new frame.
            on: Name of the frame or link that carries it.
            translation: Origin (3,) in that frame, m.
            rotation: Rotation (3, 3) from the new axes to those of that frame.

        Raises:
            RobotError: There is no frame `on`, the name already exists, or the numbers are not a pose.
        """
        check_texts(RobotError, name=name, on=on)
        below = self.frame(on)
        if name in {link.name for link in self.links} | {frame.name for frame in self.frames}:
            raise RobotError(
                f"robot '{self.name}' has a frame '{name}' already; expected a name that is not taken",
                code="DG-ROBOT-033",
            )
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
        """Return the robot with one more contact: a frame that the environment can hold.

        The contact is the last entry of the input `active` of constrained functions.

        Args:
            frame: Name of a frame or link.
            kind: "point" fixes the origin and leaves rotation free; "fixed" fixes origin and axes; "plane" fixes the
                origin along `normal`, so that it can slide.
            damping: Baumgarte gain d in 1/s. The frame's acceleration is -d times its velocity instead of 0.
            compliance: c in 1/kg, and 1/(kg m²) for moments. The frame yields with an acceleration of c times its
                force. A positive value makes the forces of redundant contacts unique.
            normal: Normal (3,) of a plane in base axes, pointing out of the ground.

        Raises:
            RobotError: There is no such frame or kind, the frame is fixed to the base or has a contact already, a
                number is negative or not finite, or a contact other than a plane has a normal.
        """
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
        """Return the robot with one more closed loop: a frame that is attached to another frame.

        The loop is the last entry of the input `active` of constrained functions.

        Args:
            frame: Name of a frame or link.
            to: Name of the frame or link that it is attached to.
            kind: "point" keeps the origins together, "fixed" also the axes, "hinge" also aligns the z axes, and
                "distance" keeps the origins at a distance.
            stiffness: Baumgarte gain k in 1/s². The frame accelerates by k times the opening of the loop, which closes
                it.
            damping: Baumgarte gain d in 1/s. The frame accelerates by -d times the velocity of the opening.
            compliance: c in 1/kg, and 1/(kg m²) for moments. The loop yields with an acceleration of c times its force.
            length: Distance of the kind "distance", m.

        Raises:
            RobotError: There is no such frame or kind, both frames are on one link or have a loop already, a number is
                negative or not finite, or a length does not fit the kind.
        """
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
        """Return the robot with a joint that is constrained to a polynomial of another joint's position.

        This models a gear or cam whose torque is an output, like MuJoCo's `equality` of joints. For a joint that always
        follows another one, `Mimic` needs fewer operations.

        Args:
            joint: Name of a joint with one degree of freedom.
            to: Name of the other joint; "" to keep the joint at a constant.
            polynomial: Coefficients p: q_joint = Σ p[n] q_to ** n, rad or m.
            stiffness: Baumgarte gain k in 1/s². The joint accelerates by k times the violation.
            damping: Baumgarte gain d in 1/s. The joint accelerates by d times the rate of the violation.
            compliance: c in 1/(kg m²) or 1/kg. The joint yields with an acceleration of c times its torque.

        Raises:
            RobotError: There is no such joint, both are the same, one has several degrees of freedom, they have an
                equality already, or a number is not finite, or negative although it must not be.
            ArgumentTypeError: The polynomial is not a sequence of numbers.
        """
        check_texts(RobotError, joint=joint)
        if to != "":
            check_texts(RobotError, to=to)
        if len(np.shape(polynomial)) != 1 or isinstance(polynomial, str):
            raise ArgumentTypeError(
                f"polynomial={shown(polynomial)}; expected numbers, the constant one first", code="DG-ROBOT-034"
            )
        own = Constraint(joint, JOINTS, to, stiffness, damping, compliance, polynomial=tuple(polynomial))
        return replace(self, constraints=(*self.constraints, own.with_floats()))

    def with_passive(self: Tree, *joints: str) -> Tree:
        """Return the robot with more joints that have no motor, such as most joints of a closed loop.

        Args:
            joints: Names of the joints. Floating joints never have a motor.

        Raises:
            RobotError: There is no such joint, it mimics another joint, or it is passive already.
            ArgumentTypeError: A name is not a text.
        """
        return replace(self, passive=(*self.passive, *joints))

    def with_helical(self: Tree, joint: str, pitch: float) -> Tree:
        """Return the robot with a thread on a joint: its link moves along the axis by pitch · q.

        The joint keeps its name, limits and indices in q and v. Internally a sliding joint mimics it, and a massless
        link connects the two, so the robot has one link more.

        Args:
            joint: Name of a revolute or continuous joint.
            pitch: Pitch in m/rad, not 0: the lead of one rotation divided by 2π.

        Raises:
            RobotError: There is no such joint, it does not rotate or mimics another joint, or the pitch is too small or
                too large.
            TypeError: The pitch is not a number.
        """
        return with_helical(self, joint, pitch)

    def with_armature(self: Tree, armature: float | Sequence[float], gear: float | Sequence[float] = 1.0) -> Tree:
        """Return the robot with rotor inertias, which URDF cannot express.

        The effect of a rotor's rotation on the link that carries it is neglected.

        Args:
            armature: Inertias about the rotors' axes, kg m², one number or one for each joint.
            gear: Rotations of the rotor per rotation of the joint, or rad per m for a sliding joint, one number or one
                for each joint. The joint gets gear² times the inertia.

        Raises:
            RobotError: The number of values is not that of the joints, a value is not finite, an inertia is negative,
                or a gear is 0.
        """
        inertias = _per_joint(self, "armature", armature, AT_LEAST_ZERO)
        ratios = _per_joint(self, "gear", gear, FINITE)
        for link, ratio in zip(self.links, ratios, strict=True):
            if not ratio:
                raise RobotError(
                    f"gear 0 of joint '{link.joint.name}'; expected turns of the rotor for each turn",
                    code="DG-ROBOT-035",
                )
        links = [
            replace(link, joint=replace(link.joint, armature=ratio * ratio * inertia))
            for link, inertia, ratio in zip(self.links, inertias, ratios, strict=True)
        ]
        return replace(self, links=tuple(links))

    def with_damping(self: Tree, damping: float | Sequence[float]) -> Tree:
        """Return the robot with other joint damping.

        Args:
            damping: N m s/rad or N s/m, one number for all joints except floating ones, or one for each joint.

        Raises:
            RobotError: The number of values is neither one nor that of the joints, or a value is negative or not
                finite.
        """
        values = _per_joint(self, "damping", damping, AT_LEAST_ZERO, spares_floating=True)
        links = [
            replace(link, joint=replace(link.joint, damping=x)) for link, x in zip(self.links, values, strict=True)
        ]
        return replace(self, links=tuple(links))

    def with_friction(self: Tree, force: float | Sequence[float] | None = None, speed: float = 0.01) -> Tree:
        """Return the robot with Coulomb friction in its joints, F q̇ / √(q̇² + s²), in every function.

        Without this call, functions ignore the friction in the robot's file.

        Args:
            force: F in N m or N, one number for all joints except floating ones, or one for each joint; the values of
                the file by default.
            speed: Smoothing speed s in rad/s or m/s, above 0, at which friction reaches 71 % of F.

        Raises:
            RobotError: The number of values is neither one nor that of the joints, or a value is negative, too large or
                not finite.

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

        Every function of the robot then has one more input for each name, after its other inputs and in this order. An
        input has the name of the parameter, with _ for characters other than letters and digits: `forearm_mass` for
        "forearm.mass". `parameters` holds the robot's own values by these names.

        Args:
            names: Parameters that vary. Of a link: "forearm.mass", "forearm.com", "forearm.inertia", "forearm.payload",
                or "forearm" for its ten inertial parameters. Of a joint: "elbow.armature", "elbow.damping",
                "elbow.friction". Of a joint or frame: "elbow.placement", or its "elbow.position" and "elbow.rotation".
                "gravity". "ground.friction" and "ground.restitution", in place of `friction` and `restitution` of
                contact laws. A name with *, such as "*.mass" or "left_*.damping", is one input for several links or
                joints, in the robot's order.

        Raises:
            RobotError: The robot has no such parameter, or it is variable already.
            ArgumentTypeError: A name is not a text.

        Example:
            >>> arm = dynagate.robots.load("two_joint_arm").with_variable("forearm.mass", "gravity")
            >>> list(arm.parameters)
            ['forearm_mass', 'gravity']
        """
        for name in names:
            if not isinstance(name, str):
                raise ArgumentTypeError(
                    f"with_variable() got {shown(name)}; expected names such as 'forearm.mass'", code="DG-ROBOT-036"
                )
        return replace(self, variable=(*self.variable, *names))

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variable parameters with their inputs, in the order of `variable`."""
        return variables_of(self)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The robot's own values of its variable parameters, by the names of their inputs."""
        return {variable.input: variable.value(self) for variable in self.variables}

    @property
    def dynamic_parameters(self) -> np.ndarray:
        """The numbers (links, 13) that torques are linear in: `inverse_dynamics_regressor` has their columns.

        Each link has its ten inertial parameters (`Link.parameters`), then armature, kg m² or kg, damping, N m s/rad or
        N s/m, and friction, N m or N, of its joint. Friction is 0 where functions leave it out (`with_friction`).
        """
        return dynamic_parameters(self)

    def with_dynamic_parameters(self: Tree, values: Any) -> Tree:
        """Return the robot with other dynamic parameters, such as those that were identified.

        Args:
            values: Numbers (links, 13) as `dynamic_parameters` has them. Friction above 0 acts in every function.

        Raises:
            RobotError: The numbers have another shape, are not finite, or belong to no body.

        Example:
            >>> arm = dynagate.robots.load("two_joint_arm")
            >>> arm.with_dynamic_parameters(arm.dynamic_parameters).links[0].mass
            2.0
        """
        return with_dynamic_parameters(self, values)

    def with_payload(self: Tree, link: str, mass: float, com: Vector3, inertia: Matrix3) -> Tree:
        """Return the robot with a body attached to a link.

        Args:
            link: Name of a moving link.
            mass: Mass in kg.
            com: Center of mass (3,) in m, in the link's frame.
            inertia: Inertia (3, 3) in kg m² about the center of mass, in the link's axes; zero for a point mass.

        Raises:
            RobotError: The robot has no such moving link, or no rigid body has such a mass and inertia.
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
                f"{', '.join(names)}",
                code="DG-ROBOT-037",
            )
        links = [known.joined(mass, com, inertia) if known.name == link else known for known in self.links]
        return replace(self, links=tuple(links))


def _per_joint(
    robot: RobotTree, what: str, value: float | Sequence[float], accepted: Accepted, *, spares_floating: bool = False
) -> list[float]:
    """Return one number for each joint.

    Args:
        robot: The robot.
        what: Name of the option, for errors.
        value: One number, or one for each joint.
        accepted: Range of the numbers.
        spares_floating: Whether a single number gives 0 to floating joints.

    Raises:
        RobotError: The number of values is neither one nor that of the joints.
    """
    count = len(robot.links)
    values = one_or_each(f"{what}=", value, accepted, RobotError)
    if not isinstance(values, tuple):
        return [0.0 if spares_floating and link.joint.kind.free else values for link in robot.links]
    if len(values) != count:
        raise RobotError(
            f"{len(values)} {what}s for {count} joints of robot '{robot.name}'; expected one, or {count}",
            code="DG-ROBOT-038",
        )
    return list(values)
