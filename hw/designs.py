"""Common interface of built designs: datapaths, and programs for a processor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynagate.base.elsewhere import answering, uncallable
from dynagate.base.errors import ArgumentTypeError

if TYPE_CHECKING:
    from dynagate.design.design import Design as Record
    from dynagate.design.program import ProgramDesign
    from dynagate.graph.region import Region
    from dynagate.robot import Robot


@dataclass(frozen=True)
class Resources:
    """Device resources that a design takes: `dsp`, `lut`, `register_bits` and `program_bits`.

    A number is None if it is not known before synthesis.
    """

    dsp: int
    """Multiplier blocks (DSP48E2), counted. For a program, those of the products of the multiply-add units."""
    lut: int | None
    """Lookup tables, estimated."""
    register_bits: int | None
    """Registers for the values of a datapath, in bits."""
    program_bits: int | None
    """Memory for the words of a program, in bits."""


class Design(ABC):
    """A built design: a pipelined datapath, or with `units` a program for a small processor.

    Example:
        >>> design = dynagate.build("two_joint_arm", "forward_dynamics", ii=8, folder=folder)
        >>> design.interval, design.resources.dsp > 0, "datapath.v" in {file.name for file in design.files}
        (8, True, True)
    """

    folder: Path
    """Folder that holds all files."""
    robot: Robot
    """Robot whose function the design computes."""
    region: Region
    """Operating region that the formats were chosen for."""
    design: Record | ProgramDesign
    """Content of the record in the folder."""

    @property
    def function(self) -> str:
        """Name of the function."""
        return self.design.function

    @property
    def latency(self) -> int:
        """Cycles from a sample to its results. For a program, from its first word to the last result."""
        return self.design.latency

    @property
    @abstractmethod
    def interval(self) -> int:
        """Cycles from a sample to the next."""

    @property
    @abstractmethod
    def resources(self) -> Resources:
        """Return the device resources that the design takes."""

    @property
    def files(self) -> list[Path]:
        """The files in the folder, sorted."""
        return sorted(file for file in self.folder.rglob("*") if file.is_file())

    def __repr__(self) -> str:
        kind = type(self).__name__.removesuffix("Build") or "Datapath"
        rate = f"a sample each {self.interval} cycles, latency {self.latency}"
        return f"<Design {self.robot.name} {self.function}, {kind.lower()}: {rate}, {self.resources.dsp} DSP>"


_OPEN = "dynagate.open(design), which returns a device to call"
answering(Design, dict.fromkeys(("open", "simulate", "simulator", "sim", "run", "compile", "load", "device"), _OPEN))
uncallable(Design, ArgumentTypeError, "dynagate.open(design)(...)")
