"""A processor behind a link: programs loaded into it, samples streamed through it."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.design import program
from dynagate.design.design import Design
from dynagate.design.files import REBUILD, DesignError
from dynagate.design.payload import Words
from dynagate.design.program import ProgramDesign
from dynagate.design.source import source_digest
from dynagate.host.devices import Device, FixedDevice, NumpyDevice, StreamDevice
from dynagate.host.devices.face import Step
from dynagate.host.drivers import DatapathDriver, Outputs, Overflow
from dynagate.host.inputs import Arrays
from dynagate.host.links import DeviceError, Link
from dynagate.host.sim_links import SimLink
from dynagate.host.words import pack_inputs

if TYPE_CHECKING:
    from dynagate.fixedpoint.assign import FormattedGraph
    from dynagate.hw.processor.build import ProcessorBuild

ACCEPTED = 1
"""The core's answer to a program whose checksum is right."""


def is_program(what: Any) -> bool:
    """Whether a design, or the folder at a path, is a program for a processor."""
    if isinstance(what, str | PathLike):
        path = Path(what)
        return path.name == program.FILE or (path / program.FILE).is_file()
    return isinstance(getattr(what, "design", None), ProgramDesign)


def folder_of(design: ProcessorBuild | str | PathLike[str]) -> Path:
    """The folder of a program. Raises ValueError: it is another kind of design."""
    if not is_program(design):
        raise ArgumentError(
            f"{design!r:.80} is no program; expected what build(robot, units=...) returned, or its folder"
        )
    path = Path(design) if isinstance(design, str | PathLike) else design.folder
    return path.parent if path.name == program.FILE else path


class ProgramDriver(DatapathDriver):
    """Samples of a program: a head, the inputs and then the results, a word each. The program is loaded first.

    Raises DesignError: the device is another core, or the core refuses the program.
    """

    def __init__(self, folder: Path, link: Link, *, progress: bool = False) -> None:
        design = program.load(folder)
        words = program.load_words(folder, design)
        super().__init__(cast("Design", design), link, progress=progress)
        self.sample, self.result = (design.input.words, 1), (1, 1)
        self._load(words, design)
        self.result = (design.output.words, 1)

    def _check(self) -> None:
        shown = self.registers.read("hash_high") << 32 | self.registers.read("hash_low")
        if shown != self.whole.device_hash:
            design = cast("ProgramDesign", self.whole)
            raise DesignError(
                f"{self.link.text} is core {shown:016x}; {design.title} is a program for core "
                f"{design.device_hash:016x} ({program.shape_text(design.core)}): build the program for this core"
            )

    def _load(self, words: Words, design: ProgramDesign) -> None:
        answer = self.stream(words[:, :, np.newaxis], 1)
        if answer[0, 0, 0] != ACCEPTED:
            raise DesignError(
                f"{self.link.text} refuses the program of {design.title}: its checksum differs; {REBUILD}"
            )

    def run(self, arrays: Arrays, batch: int) -> tuple[Outputs, Overflow]:
        samples = pack_inputs(self.design, arrays, batch, {})[:, :, np.newaxis]
        results = self.stream(samples) if batch else np.zeros((0, *self.result), np.uint32)
        return self._unpacked(results[:, :, 0])

    def pack(self, arrays: Arrays, batch: int, samples: Words) -> None:
        samples[:, :, 0] = pack_inputs(self.design, arrays, batch, {})

    def unpack(self, samples: Words, words: Words) -> tuple[Outputs, Overflow]:
        return self._unpacked(words[:, :, 0])


class ProgramDevice(StreamDevice):
    """A processor with a program. `load` gives it another one."""

    def __init__(self, folder: Path, link: Link, *, progress: bool = False) -> None:
        self._progress = progress
        super().__init__(ProgramDriver(folder, link, progress=progress))

    def load(self, design: ProcessorBuild | str | PathLike[str]) -> None:
        """Another program for the same core, when no batch is under way. Raises DesignError: it is none, or one for
        another core; what was loaded before stays then. DeviceError: the link failed; nothing is loaded then."""
        folder = folder_of(design)
        other, here = program.load(folder), cast("ProgramDesign", self.driver.whole)
        program.load_words(folder, other)
        if other.core_hash != here.core_hash:
            raise DesignError(
                f"{other.title} is a program for another core ({program.shape_text(other.core)}); this one has "
                f"{program.shape_text(here.core)}: build the program for it, with core=..."
            )
        for under_way in list(self._used):
            under_way.collect()
        self.driver.wait()
        link = self.driver.link
        if link.closed:
            raise DeviceError(f"{link.text} is closed; open it again")
        self.driver.queue.close()
        super().__init__(ProgramDriver(folder, link, progress=self._progress))

    def close(self) -> None:
        self.driver.close()


def open_sim(
    design: ProcessorBuild | str | PathLike[str],
    *,
    pauses: tuple[float, float] = (0.0, 0.0),
    seed: int = 1,
    step: Step | None = None,
) -> Device:
    """A program on its simulated core, which is compiled unless the cache holds it."""
    from dynagate.hw.processor.shape import Core
    from dynagate.sim.processor import core_library

    folder = folder_of(design)
    content = program.load(folder)
    core = Core(**content.core)
    if core.hash != content.core_hash:
        raise DesignError(f"{folder} is a program for a core of another version of dynagate; {REBUILD}")
    link = SimLink(core_library(core, step=step), cast("Design", content), pauses=pauses, seed=seed)
    return ProgramDevice(folder, link, progress=step is not None)


def open_fixed(design: ProcessorBuild | str | PathLike[str], *, step: Step | None = None) -> Device:
    """The integers of a program."""
    return FixedDevice(_formatted(design))


def open_numpy(design: ProcessorBuild | str | PathLike[str], *, step: Step | None = None) -> Device:
    """The graph of a program in float64."""
    return NumpyDevice(_formatted(design).graph)


def _formatted(design: ProcessorBuild | str | PathLike[str]) -> FormattedGraph:
    """The graph of a program, made again where there is only its folder. Raises DesignError: by another version."""
    if not isinstance(design, str | PathLike):
        return design.formatted
    from dynagate.hw.processor.rebuilt import formatted_program

    folder = folder_of(design)
    content = program.load(folder)
    if content.versions.source != source_digest():
        raise DesignError(
            f"{folder} was built by another version of dynagate, so its graph is not known; {REBUILD}, or open it on "
            "device 'sim'"
        )
    return formatted_program(content, program.load_words(folder, content))


PROGRAM_DEVICES = {"sim": open_sim, "fixed": open_fixed, "numpy": open_numpy}
