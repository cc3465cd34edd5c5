"""Integrators that step a robot through time, for `dynagate.Rollout(robot, integrator=...)`. Each file has one
method.
"""

from __future__ import annotations

from typing import Any

from dynagate.forces import Contact, Drag, Plane, Point, Servo
from dynagate.integrators.feedback import JointPD
from dynagate.integrators.implicit.rigid_contact import RigidContact

__all__ = ["Contact", "Drag", "JointPD", "Plane", "Point", "RigidContact", "Servo"]

IN_EXAMPLES = {
    "NewtonEuler": ("newton_euler", "position_based", "an explicit method, such as 'rk4'"),
    "PositionBased": ("integrator", "position_based", "integrator='position_based'"),
    "StewartTrinkle": ("complementarity", "position_based", "contacts=RigidContact(...)"),
    "Variational": ("integrator", "variational", "integrator='variational'"),
    "device_inverse": ("device", "variational", "integrator='variational'"),
}
"""Class that the papers compare with -> its module and folder in `examples/papers`, and what a rollout takes for it."""


def __getattr__(name: str) -> Any:
    if name not in IN_EXAMPLES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    module, paper, instead = IN_EXAMPLES[name]
    raise ImportError(
        f"'{name}' is a baseline of a paper, which the package does not hold; expected dynagate.Rollout with "
        f"{instead}, or examples.papers.{paper}.{module} of the project's source"
    )
