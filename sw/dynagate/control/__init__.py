"""Controllers as loops of graphs: costs over any scalar, and solvers whose iterations are one compiled call."""

from __future__ import annotations

from dynagate.control.constraints import Constraint
from dynagate.control.cost import Cost, Input, Knot
from dynagate.control.targets import FramePose, FramePosition, FrameRotation, LookAt
from dynagate.dynamics.spatial import cos, sin, sqrt

__all__ = [
    "Constraint",
    "Cost",
    "FramePose",
    "FramePosition",
    "FrameRotation",
    "Input",
    "Knot",
    "LookAt",
    "cos",
    "sin",
    "sqrt",
]


def __dir__() -> list[str]:
    return sorted(__all__)
