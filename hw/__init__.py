"""Hardware: number formats, schedules, arithmetic units, datapaths and programs.

Scheduling is plain Python; gateware is written in Amaranth. The names below are for users of number formats and
simulations. They are imported at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dynagate.base.nearest import nearest

if TYPE_CHECKING:
    from dynagate.control.chip_ik import ChipIk
    from dynagate.control.chip_ilqr import ChipIlqr
    from dynagate.fixedpoint.assign import assign
    from dynagate.fixedpoint.format import Arithmetic, Format, quantize, rescale, to_float
    from dynagate.fixedpoint.models.evaluate import evaluate
    from dynagate.fixedpoint.models.files import read_formats, write_formats
    from dynagate.fixedpoint.proof.certificate import certified
    from dynagate.fixedpoint.ranges.proved import prove
    from dynagate.fixedpoint.wordlength.goal import dsp_blocks
    from dynagate.fixedpoint.wordlength.optimize import optimize
    from dynagate.hw import boards
    from dynagate.hw.bodies.program import build_solver
    from dynagate.hw.targets import routes
    from dynagate.hw.targets.ip import write_ip

_PLACES = {
    "dynagate.control.chip_ik": ("ChipIk",),
    "dynagate.control.chip_ilqr": ("ChipIlqr",),
    "dynagate.fixedpoint.assign": ("assign",),
    "dynagate.fixedpoint.proof.certificate": ("certified",),
    "dynagate.fixedpoint.models.evaluate": ("evaluate",),
    "dynagate.fixedpoint.models.files": ("read_formats", "write_formats"),
    "dynagate.fixedpoint.format": ("Arithmetic", "Format", "quantize", "rescale", "to_float"),
    "dynagate.fixedpoint.wordlength.goal": ("dsp_blocks",),
    "dynagate.fixedpoint.wordlength.optimize": ("optimize",),
    "dynagate.fixedpoint.ranges.proved": ("prove",),
    "dynagate.hw.bodies.program": ("build_solver",),
    "dynagate.hw.targets.ip": ("write_ip",),
    "dynagate.sim.compare": ("first_difference",),
    "dynagate.sim.waveform": ("write_vcd",),
}
"""Public names of each module."""
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
"""Module of each public name."""

__all__ = [
    "Arithmetic",
    "ChipIk",
    "ChipIlqr",
    "Format",
    "assign",
    "boards",
    "build_solver",
    "certified",
    "dsp_blocks",
    "evaluate",
    "first_difference",
    "optimize",
    "prove",
    "quantize",
    "read_formats",
    "rescale",
    "routes",
    "to_float",
    "write_formats",
    "write_ip",
    "write_vcd",
]


def __getattr__(name: str) -> Any:
    if name == "boards":
        return import_module("dynagate.hw.boards")
    if name == "routes":
        return import_module("dynagate.hw.targets.routes")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'dynagate.hw' has no attribute '{name}'{nearest(name, __all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
