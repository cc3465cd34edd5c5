"""Common interface of built designs, datapaths and programs for a processor, and the writer of their folders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynagate.base import storage
from dynagate.base.elsewhere import answering, uncallable
from dynagate.base.errors import ArgumentTypeError, Error
from dynagate.design.design import Design as Record
from dynagate.design.files import FILE, is_whole, load, text_of, with_files

if TYPE_CHECKING:
    from dynagate.graph.region import Region
    from dynagate.robot import Robot


class BuildError(Error, RuntimeError):
    """A design that cannot be written; the text names the folder."""


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
    design: Record
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
    def interval(self) -> int:
        """Cycles from a sample to the next."""
        return self.design.interval

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


def write_design(
    target: Path,
    record: Record,
    kept: Mapping[str, str],
    others: Mapping[str, str],
    binaries: Mapping[str, bytes] | None = None,
) -> None:
    """Write the folder of a design: first into a folder of its own, so that nothing is left half done.

    Args:
        target: The folder.
        record: Record of the design.
        kept: Texts whose checksums design.json has, by place in the folder.
        others: Texts that follow from those, by place.
        binaries: Files that are no texts, by place.

    Raises:
        BuildError: The folder cannot be written.
    """
    texts = {**kept, **others, FILE: text_of(with_files(record, kept))}
    contents = {name: text.encode() for name, text in texts.items()} | dict(binaries or {})
    with storage.scratch(target.parent, BuildError, target.name) as scratch:
        draft = scratch / target.name
        for name, content in contents.items():
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            (draft / name).write_bytes(content)
        storage.put(draft, target, last=FILE)


def is_intact(folder: Path, record: Record, others: Sequence[str]) -> bool:
    """Return whether a folder holds this design with its benches and these other files, none of them damaged."""
    from dynagate.hw.bench import bench_faults, in_bench

    if not is_whole(folder, record, others):
        return False
    kept = load(folder)
    return not kept.modules or next(bench_faults(in_bench(kept), folder), None) is None
