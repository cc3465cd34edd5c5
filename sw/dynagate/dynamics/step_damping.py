"""How a step through time takes the damping of joints: at the velocity before the step, or at that after it.

At the velocity after the step, M (q̇⁺ - q̇) / dt = τ - c - D q̇⁺ is (M + dt D) q̈ = τ - c - D q̇ with q̈ = (q̇⁺ - q̇) / dt:
forward dynamics of a robot whose rotors have dt D more inertia, as MuJoCo's Euler integrator has it (its manual,
"Computation", on numerical integration).
"""

from __future__ import annotations

from dynagate.base.arguments import check_flags
from dynagate.base.errors import ArgumentError
from dynagate.dynamics.explicit import METHODS
from dynagate.robot.model import Robot
from dynagate.robot.variable import ARMATURE, DAMPING, check_constant

TAKERS = tuple(name for name, method in METHODS.items() if method.order == 1)
"""Integrators whose step has one acceleration, as implicit damping needs it."""


def check_damping(implicit: object, integrator: str, dt: object) -> None:
    """Raise ArgumentError if a step cannot take joint damping at the velocity after it.

    Args:
        implicit: The option implicit_damping.
        integrator: One of TAKERS, whose steps have one acceleration.
        dt: The time step in seconds; None if it is an input.
    """
    check_flags(implicit_damping=implicit)
    if not implicit:
        return
    if integrator not in TAKERS:
        raise ArgumentError(
            f"implicit_damping=True with integrator '{integrator}'; expected {' or '.join(TAKERS)}, whose steps have "
            "one acceleration"
        )
    if dt is None:
        raise ArgumentError("implicit_damping=True with a time step that is an input; expected a constant dt")


def robot_in_step(robot: Robot, implicit_damping: bool, dt: float | None) -> Robot:
    """The robot as the dynamics of a step of dt seconds has it: with implicit damping, armature is more by dt times
    the damping, joint by joint."""
    if not implicit_damping:
        return robot
    assert dt is not None
    check_constant(robot, "implicit_damping=True", (ARMATURE, DAMPING))
    return robot.with_armature([link.joint.armature + dt * link.joint.damping for link in robot.links])
