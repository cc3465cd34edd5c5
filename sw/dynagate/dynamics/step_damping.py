"""How a step through time takes the damping of joints: at the velocity before the step, or at that after it.

At the velocity after the step, M (q̇⁺ - q̇) / dt = τ - c - D q̇⁺ is (M + dt D) q̈ = τ - c - D q̇ with q̈ = (q̇⁺ - q̇) / dt:
forward dynamics of a robot whose rotors have dt D more inertia, as MuJoCo's Euler integrator has it (its manual,
"Computation", on numerical integration).
"""

from __future__ import annotations

from dynagate.base.errors import ArgumentError
from dynagate.base.nearest import nearest
from dynagate.dynamics.explicit import METHODS
from dynagate.robot.model import Robot

EXPLICIT, IMPLICIT = "explicit", "implicit"
DAMPINGS = (EXPLICIT, IMPLICIT)
TAKERS = tuple(name for name, method in METHODS.items() if method.order == 1)
"""Integrators whose step has one acceleration, as implicit damping needs it."""


def check_damping(damping: object, integrator: str, dt: object) -> None:
    """Raises ValueError: no such damping, or an implicit one where the step has no constant dt or other stages than
    that at its begin."""
    if not isinstance(damping, str) or damping not in DAMPINGS:
        near = nearest(damping, DAMPINGS) if isinstance(damping, str) else ""
        raise ArgumentError(
            f"damping={damping!r:.60} of a step{near}; expected 'explicit' or 'implicit', or a robot read with "
            "damping=False"
        )
    if damping == EXPLICIT:
        return
    if integrator not in TAKERS:
        raise ArgumentError(
            f"damping='implicit' with integrator '{integrator}'; expected {' or '.join(TAKERS)}, whose steps have one "
            "acceleration"
        )
    if dt is None:
        raise ArgumentError("damping='implicit' with a time step that is an input; expected a constant dt")


def robot_in_step(robot: Robot, damping: str, dt: float | None) -> Robot:
    """The robot as the dynamics of a step of dt seconds has it: with implicit damping, armature is more by dt times
    the damping, joint by joint."""
    if damping == EXPLICIT:
        return robot
    assert dt is not None
    return robot.with_armature([link.joint.armature + dt * link.joint.damping for link in robot.links])
