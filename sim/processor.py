"""A processor's core, compiled once for its shape: its programs need neither Yosys nor a C++ compiler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynagate.hw.processor.shape import Core
from dynagate.native.cache import cache_folder, kept
from dynagate.sim.sources import SimulationError
from dynagate.sim.verilate import processor_library

TOP = "processor"


def core_verilog(core: Core, *, step: Callable[[str], Any] | None = None) -> Path:
    """The Verilog of a core in the user's cache, written unless it is there. Raises SimulationError."""
    say = step or (lambda text: None)

    def make(work: Path, result: Path) -> None:
        from dynagate.hw.processor.core import core_text

        say("Amaranth: processor to Verilog")
        (result / f"{TOP}.v").write_text(core_text(core), encoding="utf-8")

    return kept(cache_folder() / f"{TOP}-verilog-{core.hash[:16]}", make, SimulationError) / f"{TOP}.v"


def core_library(core: Core, *, step: Callable[[str], Any] | None = None) -> Path:
    """The compiled model of a core. Raises SimulationError."""
    return processor_library(core_verilog(core, step=step), step=step)
