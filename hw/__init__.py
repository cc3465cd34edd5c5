"""Hardware: scheduling and binding in plain Python, arithmetic units and datapath in Amaranth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynagate.base.nearest import nearest

if TYPE_CHECKING:
    from dynagate.hw import boards, routes

__all__ = ["boards", "routes"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        return import_module(f"dynagate.hw.{name}")
    raise AttributeError(f"module 'dynagate.hw' has no attribute '{name}'{nearest(name, __all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
