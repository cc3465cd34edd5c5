"""Implicit joint damping: the damping torque of a time step at the velocity before the step or after it.

With the velocity after the step, M (q̇⁺ - q̇) / dt = τ - c - D q̇⁺. This is (M + dt D) q̈ = τ - c - D q̇ with q̈ = (q̇⁺
- q̇) / dt:
forward dynamics of a robot whose rotor inertias are larger by dt D. MuJoCo's Euler integrator does the same (its
manual, "Computation", on numerical integration).
"""

from __future__ import annotations

from dataclasses import replace

from dynagate.base.arguments import check_flags
from dynagate.base.errors import ArgumentError
from dynagate.dynamics.parameters import Overrides, Values
from dynagate.dynamics.spatial import Array, array
from dynagate.dynamics.steps.explicit import EXPLICIT_METHODS
from dynagate.robot.model import Robot
from dynagate.robot.variable import ARMATURE, DAMPING, check_constant

SINGLE_STAGE_INTEGRATORS = tuple(name for name, method in EXPLICIT_METHODS.items() if method.order == 1)
"""Integrators whose step has a single acceleration, which implicit damping requires."""


def check_damping(implicit: object, integrator: str, dt: object) -> None:
    """Raise ArgumentError if a step does not support implicit damping.

    Args:
        implicit: The option implicit_damping.
        integrator: Name of the integrator, which must be one of TAKERS.
        dt: The time step in seconds; None if it is an input.
    """
    check_flags(implicit_damping=implicit)
    if not implicit:
        return
    if integrator not in SINGLE_STAGE_INTEGRATORS:
        raise ArgumentError(
            f"implicit_damping=True with integrator '{integrator}'; expected {' or '.join(SINGLE_STAGE_INTEGRATORS)}, "
            "whose steps have one acceleration",
            code="DG-FUNCTION-046",
        )
    if dt is None:
        raise ArgumentError(
            "implicit_damping=True with a time step that is an input; expected a constant dt", code="DG-FUNCTION-047"
        )


def robot_in_step(robot: Robot, implicit_damping: bool, dt: float | None) -> Robot:
    """Return the robot that the dynamics of a step use: implicit damping adds dt times the damping to each joint's
    armature.
    """
    if not implicit_damping:
        return robot
    assert dt is not None
    check_constant(robot, "implicit_damping=True of this form", (ARMATURE, DAMPING))
    return robot.with_armature([link.joint.armature + dt * link.joint.damping for link in robot.links])


EVERY_ARMATURE = "*.armature"
"""The variable parameter that replaces those of armature in a step with implicit damping."""


def varied_in_step(robot: Robot, implicit_damping: bool, dt: float | None) -> Robot:
    """Return `robot_in_step` for a robot whose armature or damping may be inputs.

    If they are, the armature of every joint except floating ones becomes an input, with values from `varied_armature`.
    """
    varied = [variable for variable in robot.variables if variable.kind in (ARMATURE, DAMPING)]
    if not (implicit_damping and varied):
        return robot_in_step(robot, implicit_damping, dt)
    for i, link in enumerate(robot.links):
        if link.joint.kind.free:
            check_constant(robot, "implicit_damping=True", (ARMATURE, DAMPING), i)
    own = replace(robot, variable=())
    others = tuple(each.name for each in robot.variables if each.kind != ARMATURE)
    return replace(robot_in_step(own, implicit_damping, dt), variable=(*others, EVERY_ARMATURE))


def varied_armature(robot: Robot, values: Values, dt: float) -> dict[str, Array]:
    """Return the values of EVERY_ARMATURE by its input: armature plus dt times damping, over any scalar.

    Args:
        robot: The robot.
        values: Values of the robot's variable parameters, by input.
        dt: The time step in seconds.
    """
    own = Overrides.of(robot, values)
    (variable,) = replace(robot, variable=(EVERY_ARMATURE,)).variables
    joints = [(i, robot.links[i].joint) for i in variable.owners]
    armature = [own.armature.get(i, joint.armature) + own.damping.get(i, joint.damping) * dt for i, joint in joints]
    return {variable.input: array(armature)}
