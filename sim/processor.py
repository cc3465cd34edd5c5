"""A processor's core, compiled once for its shape: its programs need neither Yosys nor a C++ compiler."""

from __future__ import annotations

from pathlib import Path

from dynagate.base.progress import Progress, quiet
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.streams import core_verilog
from dynagate.hw.rtl.axi import Axi
from dynagate.sim.verilate import shell_library


def core_library(core: Core, axi: Axi, cores: int = 1, *, progress: Progress = quiet) -> Path:
    """The compiled model of cores in their shell. Raises SimulationError; CoreError: its Verilog cannot be kept."""
    return shell_library(core_verilog(core, axi, cores, progress=progress), progress=progress)
