"""Controllers as loops of graphs: costs over any scalar, and solvers whose iterations are one compiled call."""

from dynagate.control.cost import Cost, Knot

__all__ = ["Cost", "Knot"]


def __dir__() -> list[str]:
    return sorted(__all__)
