"""Methods that step a robot through time, one file a method."""

from __future__ import annotations

import importlib
from typing import Any

from dynagate.forces import Contact, Drag, Plane, Point, Servo

PLACES = {
    "NewtonEuler": "position_based_newton_euler",
    "PositionBased": "position_based",
    "PositionBasedError": "position_based_inputs",
    "PositionBasedWarning": "position_based_inputs",
    "RigidContact": "contact_step",
    "StewartTrinkle": "complementarity",
    "Variational": "variational",
    "VariationalError": "variational",
    "device_inverse": "variational_device",
}
"""Public name -> the module that has it, imported on first use: loops are compiled by Numba, which an extra brings."""

__all__ = [
    "Contact",
    "Drag",
    "NewtonEuler",
    "Plane",
    "Point",
    "PositionBased",
    "PositionBasedError",
    "PositionBasedWarning",
    "RigidContact",
    "Servo",
    "StewartTrinkle",
    "Variational",
    "VariationalError",
    "device_inverse",
]


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    try:
        return getattr(importlib.import_module(f"{__name__}.{PLACES[name]}"), name)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("dynagate"):
            raise
        raise ModuleNotFoundError(
            f"'{name}' needs the module '{missing.name}'; pip install 'dynagate[integrators]'", name=missing.name
        ) from None
