"""Methods that step a robot through time, one file a method."""

from __future__ import annotations

from typing import Any

_LAZY = {
    "Variational": "dynagate.integrators.variational",
    "VariationalError": "dynagate.integrators.variational",
    "device_inverse": "dynagate.integrators.variational_device",
}
"""Names that need Numba, imported when they are first used."""

__all__ = ["Variational", "VariationalError", "device_inverse"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'dynagate.integrators' has no attribute '{name}'")
