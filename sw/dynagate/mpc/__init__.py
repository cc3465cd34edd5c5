"""Robot models for optimal-control libraries: action models for Crocoddyl, and external functions for CasADi
(`casadi`).

The studies in this package measure whether a number format that is accurate enough on paper still controls a robot.
"""

from __future__ import annotations

from typing import Any

__all__ = ["ActionModel", "StepDerivatives", "TerminalModel"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'dynagate.mpc' has no attribute '{name}'")
    from importlib import import_module

    from dynagate.base.errors import MissingExtraError, MissingNameError

    try:
        return getattr(import_module("dynagate.mpc.actions"), name)
    except MissingExtraError as error:  # hasattr, dir and help must keep working
        raise MissingNameError(str(error), code="DG-MPC-001") from None


def __dir__() -> list[str]:
    return sorted(__all__)
