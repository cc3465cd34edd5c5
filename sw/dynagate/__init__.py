"""dynagate: URDF in, verified dynamics accelerator out.

The names below are in the order in which data passes them. Importing the package needs numpy alone; what needs
Amaranth or Verilator is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

from dynagate.base.errors import Error
from dynagate.dynamics import FUNCTIONS
from dynagate.graph import Graph, trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.robot import Robot, RobotError, RobotWarning, robots

if TYPE_CHECKING:
    from dynagate.host import Accelerator, open
    from dynagate.hw.build import Build, build

__all__ = [
    "FUNCTIONS",
    "Accelerator",
    "Build",
    "Error",
    "Graph",
    "Region",
    "Robot",
    "RobotError",
    "RobotWarning",
    "build",
    "evaluate",
    "open",
    "robots",
    "trace",
]

_LAZY = {
    "Build": "dynagate.hw.build",
    "build": "dynagate.hw.build",
    "Accelerator": "dynagate.host",
    "open": "dynagate.host",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'dynagate' has no attribute '{name}'")
