"""Measure the area of a design in a library of standard cells with Yosys.

Nothing is placed, so there are no figures for clock and power. Memories become flip-flops, because a library of cells
has no memories.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, cast

from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress
from dynagate.base.untrusted import plain_text
from dynagate.hw.export.netlist import rtlil_text
from dynagate.hw.export.yosys import YosysError, run_yosys
from dynagate.hw.targets.synth import SynthesisError

_LIBRARY = re.compile(r'\blibrary\s*\(\s*"?([\w.-]+)"?\s*\)', flags=re.ASCII)
_HEAD = 2**16
"""Number of characters of a liberty file within which the library is named."""
_GZIP = b"\x1f\x8b"
MOST = 8
"""Number of cell types that are listed."""


@dataclass(frozen=True)
class Area:
    """Area of a netlist."""

    library: str
    """Name of the cell library."""
    yosys: str
    """Version of Yosys."""
    total: float
    """Area of all cells, in the library's unit (usually µm²)."""
    registers: float
    """Area of the flip-flops."""
    cells: dict[str, int]
    """Number of cells, by type."""

    def text(self, title: str) -> str:
        """Return the area for a terminal."""
        most = sorted(self.cells.items(), key=lambda item: (-item[1], item[0]))[:MOST]
        rest = f"{self.registers / self.total:.0%} of it flip-flops; {sum(self.cells.values())} cells"
        return "\n".join(
            [
                f"{title} in {plain_text(self.library)}, by Yosys {self.yosys}",
                f"  area {self.total:,.0f} in the library's unit (µm² as a rule), {rest}",
                "  " + ", ".join(f"{count} {plain_text(kind)}" for kind, count in most) + ", ...",
                "  This is only an area: no cell is placed, no wire is counted, no clock is measured. Memories are "
                "flip-flops.",
            ]
        )


def check_liberty(path: Path) -> str:
    """Return the name of a library.

    Raises:
        ArgumentError: The file is not a liberty file.
    """
    expected = "expected a liberty file of standard cells, .lib or .lib.gz"
    try:
        with _opened(path) as file:
            head = file.read(_HEAD)
    except (OSError, EOFError) as error:
        raise ArgumentError(
            f"cannot read {path} ({getattr(error, 'strerror', None) or error}); {expected}", code="DG-SYNTH-002"
        ) from None
    named = _LIBRARY.search(head.decode("utf-8", errors="replace"))
    if named is None:
        raise ArgumentError(f"{path} names no library in its first {_HEAD} characters; {expected}", code="DG-SYNTH-003")
    return named[1]


def _opened(path: Path) -> BinaryIO:
    """Open a liberty file, compressed or not."""
    with path.open("rb") as file:
        packed = file.read(len(_GZIP)) == _GZIP
    return cast(BinaryIO, gzip.open(path, "rb")) if packed else path.open("rb")


def area(modules: Mapping[str, Any], liberty: Path, progress: Progress) -> Area:
    """Map gateware to standard cells and return its area.

    Args:
        modules: Gateware by module name, the outermost first (`synth.design_modules`).
        liberty: File of the cell library.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        ArgumentError: The file is not a liberty file.
        SynthesisError: Yosys is missing or fails, or the library lacks a cell that the design needs.
    """
    library = check_liberty(liberty)
    top = next(iter(modules))
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        progress(f"Amaranth: {top} to RTLIL")
        for name, module in modules.items():
            (place / f"{name}.il").write_text(rtlil_text(module, name), encoding="utf-8")
        cells, statistics = place / "cells.lib", place / "area.json"
        with _opened(liberty) as source, cells.open("wb") as target:
            shutil.copyfileobj(source, target)
        progress(f"Yosys: synthesis for {plain_text(library)}")
        try:
            run_yosys(
                [
                    *(f"read_rtlil {place / name}.il" for name in modules),
                    f"synth -flatten -top {top}",
                    f"dfflibmap -liberty {cells}",
                    f"abc -liberty {cells}",
                    "opt_clean",
                    f"delete {top}/t:$scopeinfo",
                    f"tee -o {statistics} stat -json -liberty {cells}",
                ]
            )
        except YosysError as error:
            raise SynthesisError(f"{plain_text(library)} does not do: {error}", code="DG-SYNTH-004") from None
        (row,) = json.loads(statistics.read_text(encoding="utf-8"))["modules"].values()
    counts = row["num_cells_by_type"]
    return Area(
        library, version("pyosys"), float(row["area"]), float(row["sequential_area"]), dict(sorted(counts.items()))
    )
