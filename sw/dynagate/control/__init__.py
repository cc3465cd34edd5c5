"""Controllers as loops of graphs: costs over any scalar, and solvers whose iterations are one compiled call."""

from dynagate.control.cost import Cost, Knot
from dynagate.control.targets import FramePose, FramePosition, FrameRotation, LookAt

__all__ = ["Cost", "FramePose", "FramePosition", "FrameRotation", "Knot", "LookAt"]


def __dir__() -> list[str]:
    return sorted(__all__)
