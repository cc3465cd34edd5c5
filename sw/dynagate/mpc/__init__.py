"""Models of robots for the libraries that controllers are written with: Crocoddyl, and `casadi` for CasADi.

The studies next to them answer a question: does a format that is good enough on paper still control a robot?
"""

from __future__ import annotations

from typing import Any

__all__ = ["ActionModel", "Step", "TerminalModel"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'dynagate.mpc' has no attribute '{name}'")
    from importlib import import_module

    from dynagate.base.errors import MissingExtraError, MissingNameError

    try:
        return getattr(import_module("dynagate.mpc.actions"), name)
    except MissingExtraError as error:  # hasattr, dir and help must go on
        raise MissingNameError(str(error)) from None


def __dir__() -> list[str]:
    return sorted(__all__)
