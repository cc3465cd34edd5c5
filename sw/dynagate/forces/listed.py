"""The table of the package's forces by name, and the conversion of forces from and to text."""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.base.errors import ArgumentError
from dynagate.dynamics import FunctionRow
from dynagate.dynamics.friction import FrictionModel as JointFriction
from dynagate.dynamics.friction import warn_of_no_friction
from dynagate.forces.compliant_contact import CompliantContact
from dynagate.forces.contact import Contact, Plane, Point
from dynagate.forces.damping import Damping
from dynagate.forces.delay import Delay, Lag, Ramp
from dynagate.forces.drag import Drag
from dynagate.forces.force import Force, check_forces
from dynagate.forces.friction import Friction
from dynagate.forces.learned_actuator import LearnedActuator
from dynagate.forces.limits import Limits
from dynagate.forces.motor import DCMotor, MotorCurve
from dynagate.forces.position_servo import PositionServo
from dynagate.forces.series_elastic import SeriesElastic
from dynagate.forces.servo import Servo
from dynagate.forces.stops import Stops
from dynagate.forces.text import force_of, text_of
from dynagate.robot import Robot

FORCES: dict[str, type[Force]] = {
    force.__name__: force
    for force in (
        *(CompliantContact, Contact, Damping, Drag, Friction, Limits, Servo, Stops),
        *(DCMotor, Delay, Lag, LearnedActuator, MotorCurve, PositionServo, Ramp, SeriesElastic),
    )
}
"""Forces by name."""

PARTS: dict[str, type[object]] = {"Point": Point, "Plane": Plane}
"""Classes of objects in the parameters of forces, by name."""


def of_text(force: Force | str) -> Force:
    """Return the force of a text, such as "Limits(stiffness=100.0)" or "Friction", or a force itself.

    Raises:
        ForceError: The text is not a force.
    """
    return force_of(force, {**FORCES, **PARTS}) if isinstance(force, str) else force


def as_text(force: Force) -> str:
    """Return the text that `of_text` accepts for a force.

    Raises:
        ForceError: The force is not one of FORCES.
    """
    return text_of(force, {**FORCES, **PARTS})


def all_of_text(forces: object) -> tuple[Force, ...]:
    """Return forces that are objects, texts, or one of these.

    Raises:
        ForceError: A text is not a force.
        ArgumentError: The forces are not a sequence, or two are of a class that acts once.
        ArgumentTypeError: An entry is neither a force nor a text.
    """
    if isinstance(forces, str | Force):
        forces = (forces,)
    if isinstance(forces, Sequence):
        forces = [of_text(force) if isinstance(force, str) else force for force in forces]
    return check_forces(forces)


def all_as_text(forces: object) -> tuple[str, ...]:
    """Return the texts of forces that are objects, texts, or one of these. Raise as `all_of_text` and `as_text` do."""
    return tuple(as_text(force) for force in all_of_text(forces))


def joint_friction(robot: Robot, forces: object, function: FunctionRow | None = None) -> JointFriction | None:
    """Return the friction among forces, None without any.

    Args:
        robot: The robot that the friction acts on.
        forces: Forces as objects or texts.
        function: The function that has these forces, whose only force is friction. None accepts all forces.

    Raises:
        ArgumentError: There is another force, the function does not depend on friction, or the numbers do not fit the
            robot.
    """
    own = all_of_text(forces)
    if function is not None and own:
        for force in own:
            if not isinstance(force, Friction):
                raise ArgumentError(
                    f"{function.name} with the force {force.name}; expected Friction, the only force that functions "
                    f"have, or dynagate.Rollout(robot, forces=[...])",
                    code="DG-FORCE-013",
                )
        function.check_friction()
    rubbing = [force for force in own if isinstance(force, Friction)]
    return rubbing[0].model(robot) if rubbing else None


def acting_friction(robot: Robot, forces: object, function: FunctionRow | None = None) -> tuple[Force, ...]:
    """Return the friction among forces if it acts on a joint, else (). The arguments are those of
    `joint_friction`.
    """
    if joint_friction(robot, forces, function) is None:
        return ()
    return tuple(force for force in all_of_text(forces) if isinstance(force, Friction))


def warn_of_forces(robot: Robot, forces: Sequence[Force | str]) -> None:
    """Issue a RobotWarning if `forces` requests the friction of the robot's file and the file has none.

    Raises:
        ArgumentError: The robot has another friction in every function (`Robot.with_friction`).
    """
    for force in map(of_text, forces):
        if isinstance(force, Friction):
            warn_of_no_friction(robot, force.force)
            if force != Friction(speed=robot.friction_speed or force.speed):
                force.check(robot)
