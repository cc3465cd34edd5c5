"""A processor's core, compiled once for its shape: its programs need neither Yosys nor a C++ compiler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynagate.hw.axi import Axi
from dynagate.hw.processor.shape import Core
from dynagate.hw.processor.shell import check_shell, shell_text
from dynagate.native.cache import cache_folder, kept
from dynagate.sim.sources import SimulationError
from dynagate.sim.verilate import shell_library

TOP = "accelerator"


def core_verilog(core: Core, axi: Axi, cores: int = 1, *, step: Callable[[str], Any] | None = None) -> Path:
    """The Verilog of cores in their shell in the user's cache, written unless it is there. Raises ValueError as
    `check_shell`, SimulationError."""
    check_shell(core, axi, cores)
    say = step or (lambda text: None)

    def make(work: Path, result: Path) -> None:
        say("Amaranth: processor to Verilog")
        (result / f"{TOP}.v").write_text(shell_text(core, axi, cores), encoding="utf-8")

    name = f"processor-{core.hash[:16]}-{axi.width}-{axi.last}-{cores}"
    return kept(cache_folder() / name, make, SimulationError) / f"{TOP}.v"


def core_library(core: Core, axi: Axi, cores: int = 1, *, step: Callable[[str], Any] | None = None) -> Path:
    """The compiled model of cores in their shell. Raises SimulationError."""
    return shell_library(core_verilog(core, axi, cores, step=step), step=step)
