"""The user's class: numpy arrays in, named numpy arrays out, whatever the device."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from dynagate.host.design_file import DesignFile, pack_inputs, read_design, unpack_outputs
from dynagate.host.links import Link, SimLink, Transfer

if TYPE_CHECKING:
    from dynagate.hw.build import Build

DEVICES = ("sim",)


class Results(SimpleNamespace):
    """Outputs as attributes, (batch, *shape) float64 each; `overflow` (batch,) marks samples some value of which did
    not fit its format, and whose results are therefore wrong."""

    overflow: npt.NDArray[np.bool_]


class Accelerator:
    """One function of one robot on a device. Call it with the inputs by name, batch first; use it as a context."""

    def __init__(self, design: DesignFile, link: Link) -> None:
        self.design = design
        self._link = link

    def __call__(self, **inputs: npt.ArrayLike) -> Results:
        """inputs: (batch, n) or (batch, n, n) real numbers, in the units of the function table.

        Raises ValueError or TypeError naming the input that is missing, unknown, misshapen, not finite or outside the
        range the formats were chosen for; nothing is sent then. Raises DeviceError where the device fails.
        """
        payloads = pack_inputs(self.design, inputs)
        if not len(payloads):
            results = np.zeros((0, self.design.output.words), dtype=np.uint32)
        else:
            results = self._link.stream(payloads)
        outputs, overflow = unpack_outputs(self.design, results)
        return Results(**outputs, overflow=overflow)

    @property
    def transfer(self) -> Transfer:
        """Cycles that the last batch took."""
        return self._link.transfer

    def close(self) -> None:
        self._link.close()

    def __enter__(self) -> Accelerator:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        d = self.design
        return f"<Accelerator {d.robot} {d.function}, ii {d.ii}, latency {d.latency}, {type(self._link).__name__}>"


def open(design: Build | str | PathLike[str], device: str = "sim", **options: Any) -> Accelerator:
    """The accelerator of a design on a device.

    design: what `dynagate.build` returned, or its folder. device: "sim", compiled by Verilator on first use; options
    are those of its link (`SimLink`: pauses, seed) and `step`, called with what is about to happen.
    Raises ValueError for an unknown device, DesignError for a design or device that does not match.
    """
    if device not in DEVICES:
        raise ValueError(f"device '{device}'; expected one of {', '.join(DEVICES)}")
    folder = Path(design) if isinstance(design, str | PathLike) else design.folder
    content = read_design(folder)
    from dynagate.sim.verilate import library

    path = library(folder / "datapath.v", step=options.pop("step", None))
    return Accelerator(content, SimLink(path, content, **options))
