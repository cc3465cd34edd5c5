"""A processor's core, compiled once for its shape: its programs need neither Yosys nor a C++ compiler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynagate.hw.axi import Axi
from dynagate.hw.processor.shape import Core
from dynagate.hw.processor.streams import core_verilog
from dynagate.sim.verilate import shell_library


def core_library(core: Core, axi: Axi, cores: int = 1, *, step: Callable[[str], Any] | None = None) -> Path:
    """The compiled model of cores in their shell. Raises SimulationError; CoreError: its Verilog cannot be kept."""
    return shell_library(core_verilog(core, axi, cores, step=step), step=step)
