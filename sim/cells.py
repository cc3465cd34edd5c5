"""Verilog models of the cells in netlists of FPGA families: Yosys' models, and our own for its black boxes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from dynagate.sim.sources import SimulationError


class Models(NamedTuple):
    """Files with a family's models."""

    yosys: tuple[str, ...]
    """Files in Yosys' share folder."""
    own: tuple[str, ...] = ()
    """Files next to this module, which take precedence."""


MODELS = {
    "ecp5": Models(("lattice/common_sim.vh", "lattice/ccu2c_sim.vh"), ("ecp5_cells.v",)),
    "nexus": Models(("lattice/cells_sim_nexus.v",), ("memory_cells.v", "nexus_cells.v")),
    "gowin": Models(("gowin/cells_sim.v",), ("memory_cells.v", "gowin_cells.v")),
    "gatemate": Models(("gatemate/cells_sim.v",)),
    "xc7": Models(("xilinx/cells_sim.v",), ("memory_cells.v", "xilinx_cells.v")),
    "xcup": Models(("xilinx/cells_sim.v",), ("memory_cells.v", "xilinx_cells.v")),
}
"""Models by family, named as in `hw.targets.families` and `hw.targets.synth`."""

_MODULE = re.compile(r"^\s*module\s+(\w+).*?\bendmodule\b", flags=re.MULTILINE | re.DOTALL)
_INCLUDE = re.compile(r'^\s*`include "(\w+\.vh)"$', flags=re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")


def netlist_texts(netlist: Path, family: str) -> dict[str, str]:
    """Return the Verilog of a netlist and of the cells that it uses, by file name.

    Args:
        netlist: File that Yosys wrote.
        family: Key of `MODELS`.

    Raises:
        SimulationError: Yosys is not installed.
    """
    text = netlist.read_text(encoding="utf-8")
    return {**models(text, family), "netlist.v": text}


def models(netlist: str, family: str) -> dict[str, str]:
    """Return the Verilog of the cells that a netlist uses, by file name.

    Args:
        netlist: Verilog that Yosys wrote.
        family: Key of `MODELS`.

    Raises:
        SimulationError: Yosys is not installed.
    """
    try:
        from pyosys import __file__ as yosys
    except ImportError:
        raise SimulationError(
            "Yosys is not installed; expected the extra: pip install 'dynagate[synth]'", code="DG-SIM-001"
        ) from None
    share, files = Path(yosys).parent / "share", MODELS[family]
    own = {name: _text(Path(__file__).parent / name) for name in files.own}
    known: dict[str, str] = {}
    for text in (*(_text(share / name) for name in files.yosys), *own.values()):
        known.update((match[1], match[0]) for match in _MODULE.finditer(text))
    used: dict[str, str] = {}
    waiting = [netlist]
    while waiting:
        for name in sorted(set(_WORD.findall(waiting.pop())) & (known.keys() - used.keys())):
            used[name] = known[name]
            waiting.append(known[name])
    macros = {name: _MODULE.sub("", text) for name, text in own.items()}
    return {**macros, "cells.v": "\n".join(used.values()) + "\n"}


def _text(path: Path) -> str:
    """Return the models of a file, with the text that they include."""
    text = path.read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda include: (path.parent / include[1]).read_text(encoding="utf-8"), text)
