"""Compile the model of processor cores once for their shape: programs for it need neither Yosys nor a C++ compiler."""

from __future__ import annotations

from pathlib import Path

from dynagate.base.progress import Progress, quiet
from dynagate.design.verilog_list import PLAIN
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.streams import core_verilog
from dynagate.hw.rtl.axi import Axi
from dynagate.sim.verilate import shell_library


def core_library(core: Core, axi: Axi, cores: int = 1, *, style: str = PLAIN, progress: Progress = quiet) -> Path:
    """Return the compiled model of cores in their shell.

    Args:
        core: Shape of the cores.
        axi: Streams of the shell.
        cores: Number of cores.
        style: Style of the Verilog, "plain" or "strict".
        progress: Function that receives a line of text before each slow stage.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed.
        CoreError: The Verilog of the cores cannot be kept in the cache.
    """
    return shell_library(core_verilog(core, axi, cores, style=style, progress=progress), progress=progress)
