"""Built designs and the writer of their folders.

`Design` is what `dynagate.build` returns. `Hardware` is the part that differs between a pipelined datapath
(`hw.bodies.pipeline`) and a program for a small processor (`hw.bodies.scheduled_program`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dynagate.base import storage
from dynagate.base.errors import ArgumentTypeError, Error
from dynagate.base.explained import explained
from dynagate.base.foreign_names import answering, uncallable
from dynagate.base.progress import Progress
from dynagate.design.design import DesignError, DesignRecord
from dynagate.design.files import FILE, is_whole, load, text_of, with_files
from dynagate.graph.region import Region
from dynagate.hw.datasheet import DATASHEET, Datasheet
from dynagate.robot import Robot

if TYPE_CHECKING:
    from dynagate.graph import Graph
    from dynagate.hw.vectors.drawn import Vectors
    from dynagate.hw.vectors.subject import Subject

AnyHardware = TypeVar("AnyHardware", bound="Hardware", covariant=True)


class BuildError(Error, RuntimeError):
    """A design cannot be written; the text names the folder."""


@dataclass(frozen=True)
class Resources:
    """Device resources that a design takes: `dsp`, `lut`, `register_bits` and `program_bits`.

    A number is None if it is not known before synthesis.
    """

    dsp: int
    """Multiplier blocks (DSP48E2), counted. For a program, those of the multiply-add units."""
    lut: int | None
    """Lookup tables, estimated."""
    register_bits: int | None
    """Registers for the values of a datapath, in bits."""
    program_bits: int | None
    """Memory for the words of a program, in bits."""


class Hardware(ABC):
    """The scheduled hardware of a build: the graph with its formats, and the start of each operation.

    A subclass for each body holds its schedule. `design.bodies.BODIES` has a row for each.
    """

    @property
    @abstractmethod
    def title(self) -> str:
        """Return the robot and the function, as plain text."""

    @property
    @abstractmethod
    def formatted(self) -> Any:
        """Return the graph, or the loop of graphs, whose integers the hardware computes."""

    @property
    @abstractmethod
    def graph(self) -> Graph:
        """Return the graph that the hardware computes.

        Raises:
            ArgumentError: It computes a loop.
        """

    @abstractmethod
    def resources(self, record: DesignRecord[Any]) -> Resources:
        """Return the device resources that the design takes."""

    def summary(self, design: Design[Any]) -> str:
        """Return the resources and properties of the design for a terminal; by default its datasheet."""
        return (design.folder / DATASHEET).read_text(encoding="utf-8")

    def vectors(self, design: Design[Any], seed: int) -> dict[str, Vectors]:
        """Return random samples and their results for the bench of each module, by the module's name.

        Raises:
            DesignError: The body has no benches.
        """
        raise DesignError(
            f"{design.folder} has no bench: no design of body '{design.design.body.kind}' has one", code="DG-HW-008"
        )

    @classmethod
    def in_bench(cls, record: DesignRecord[Any]) -> DesignRecord[Any]:
        """Return the record as benches need it: with the streams of the shell around the hardware."""
        return record

    @classmethod
    def subject(cls, record: DesignRecord[Any], module: str, late: Sequence[int]) -> Subject:
        """Return what a bench of a module streams, and in how many cycles.

        Args:
            record: Record of the design, as `in_bench` returns it.
            module: Name of the module, one of the record's `modules`.
            late: Cycles by which the overflow bits of a sample follow its values, for each function.

        Raises:
            DesignError: The body has no benches.
        """
        raise DesignError(
            f"module '{module}' has no bench: no design of body '{record.body.kind}' has one", code="DG-HW-009"
        )

    @classmethod
    @abstractmethod
    def rebuild(cls, record: DesignRecord[Any], folder: Path, progress: Progress) -> Hardware:
        """Schedule the design in a folder again and compare the schedule with its record.

        Raises:
            DesignError: Another version of the generator built the design, or the schedule differs.
        """


@explained
@dataclass(frozen=True, repr=False)
class Design(Generic[AnyHardware]):
    """A built design: a pipelined datapath, or with `units` a program for a small processor.

    Args:
        folder: Folder that holds all files.
        robot: Robot whose function the design computes.
        region: Operating region that the formats were chosen for.
        design: Content of the record in the folder.
        hardware: Schedule of the hardware: a `Pipeline`, or a `ScheduledProgram`.

    Example:
        >>> design = dynagate.build("two_joint_arm", "forward_dynamics", ii=8, folder=folder)
        >>> design.interval, design.resources.dsp > 0, "datapath.v" in {file.name for file in design.files}
        (8, True, True)
    """

    folder: Path
    robot: Robot
    region: Region
    design: DesignRecord[Any]
    hardware: AnyHardware

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
    def resources(self) -> Resources:
        """Device resources that the design takes."""
        return self.hardware.resources(self.design)

    @property
    def formatted(self) -> Any:
        """The graph with a format for each node; for some programs, a loop of such graphs."""
        return self.hardware.formatted

    def vectors(self, seed: int) -> dict[str, Vectors]:
        """Return random samples and their results for the bench of each module, by the module's name.

        Args:
            seed: Seed of the samples.
        """
        return self.hardware.vectors(self, seed)

    @property
    def graph(self) -> Graph:
        """The graph that the design computes.

        Raises:
            ArgumentError: It computes a loop.
        """
        return self.hardware.graph

    @property
    def title(self) -> str:
        """The robot and the function, as plain text."""
        return self.hardware.title

    def module(self, name: str) -> Path:
        """Return the path of the Verilog of a module.

        Args:
            name: "datapath", "rollout" or "accelerator".
        """
        return self.folder / f"{name}.v"

    @property
    def files(self) -> list[Path]:
        """The files in the folder, sorted."""
        return sorted(file for file in self.folder.rglob("*") if file.is_file())

    def __repr__(self) -> str:
        kind = self.design.body.kind
        rate = f"a sample each {self.interval} cycles, latency {self.latency}"
        return f"<Design {self.robot.name} {self.function}, {kind}: {rate}, {self.resources.dsp} DSP>"


_OPEN = "dynagate.open(design), which returns a device to call"
answering(Design, dict.fromkeys(("open", "simulate", "simulator", "sim", "run", "compile", "load", "device"), _OPEN))
uncallable(Design, ArgumentTypeError, "dynagate.open(design)(...)")


@dataclass(frozen=True)
class Contents:
    """Files of a design's folder, by their path in it."""

    kept: Mapping[str, str]
    """Texts whose checksums are in design.json: Verilog, benches and formats."""
    datasheet: Datasheet
    others: Mapping[str, str] = field(default_factory=dict)
    """Texts that follow from `kept` and have no checksum."""
    binaries: Mapping[str, bytes] = field(default_factory=dict)
    """Binary files."""


def in_folder(
    design: Design[AnyHardware], needed: Sequence[str], contents: Callable[[], Contents]
) -> Design[AnyHardware]:
    """Write the folder of a design, unless it exists and all its files are undamaged.

    Args:
        design: The design.
        needed: Names of files that a complete folder has, besides the record, the datasheet and the Verilog.
        contents: Function that makes the files.

    Returns:
        The design.

    Raises:
        BuildError: The folder cannot be written.
    """
    if not is_intact(design.folder, design.design, (DATASHEET, *needed)):
        files = contents()
        texts = {**files.others, DATASHEET: files.datasheet.text()}
        _write(design.folder, design.design, files.kept, texts, files.binaries)
    return design


def _write(
    target: Path,
    record: DesignRecord[Any],
    kept: Mapping[str, str],
    others: Mapping[str, str],
    binaries: Mapping[str, bytes],
) -> None:
    """Write a folder under a temporary name first, so that an interruption leaves no incomplete folder."""
    texts = {**kept, **others, FILE: text_of(with_files(record, kept))}
    contents = {name: text.encode() for name, text in texts.items()} | dict(binaries)
    with storage.scratch(target.parent, BuildError, target.name) as scratch:
        draft = scratch / target.name
        for name, content in contents.items():
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            (draft / name).write_bytes(content)
        storage.put(draft, target, last=FILE)


def is_intact(folder: Path, record: DesignRecord, others: Sequence[str]) -> bool:
    """Return whether a folder holds this design with its benches and these other files, all undamaged."""
    from dynagate.hw.vectors import bench_faults, in_bench

    if not is_whole(folder, record, others):
        return False
    kept = load(folder)
    return not kept.modules or next(bench_faults(in_bench(kept), folder), None) is None
