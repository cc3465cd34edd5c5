"""A processor behind a link: programs loaded into it, samples streamed through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError, EntryError
from dynagate.base.progress import Progress
from dynagate.control.ilqr import TIGHTENED, TRIALS
from dynagate.design.codec import Words
from dynagate.design.design import Design, Port, Sides
from dynagate.design.files import FILE, REBUILD, DesignError, body_of, load_program
from dynagate.design.program import ProgramBody, ProgramFunction, load_words, shape_text
from dynagate.design.rebuilt import robot_of
from dynagate.design.words import PER_BATCH, PER_SAMPLE, WIDTHS, WORD, beats, number_of
from dynagate.dynamics import ROLLOUT
from dynagate.fixedpoint.assign import Formatted, FormattedGraph
from dynagate.fixedpoint.loops import FormattedLoop
from dynagate.graph.steps import GRAPH, LOOP, SCAN, UNTIL, refused, table
from dynagate.host.board_links import LINKS, LinkText
from dynagate.host.devices import Executor, FixedDevice, IntegerTurns, NumpyDevice, StreamDevice, TurnDevice
from dynagate.host.devices.abreast import FlaggedTogether
from dynagate.host.devices.face import Overflow
from dynagate.host.devices.motions import MotionIntegers, outside
from dynagate.host.devices.parts import FunctionsDevice, PartDevice
from dynagate.host.devices.solvers import SolverIntegers
from dynagate.host.drivers import ShellDriver
from dynagate.host.inputs import Arrays, brought
from dynagate.host.links import DeviceError, Link, closed_on_failure
from dynagate.host.sim_links import SimShellLink, checked_pauses
from dynagate.host.tags import check_tags, tags_from
from dynagate.hw.axi import Axi
from dynagate.hw.processor.streams import behind
from dynagate.hw.regmap import BITS, IDENTITY, VERSION, with_processor
from dynagate.integrators.chip_motion import ChipMotion
from dynagate.integrators.methods import SOLVING

if TYPE_CHECKING:
    from dynagate.host.devices.stream import UnderWay
    from dynagate.hw.designs import Design as Built
    from dynagate.hw.processor.isa.shape import Core
    from dynagate.hw.processor.scheduled import ScheduledProgram

RETRIES = max(TRIALS, TIGHTENED)
"""Of a solver's program: as many times the cycles of an iteration without retries are more than any takes with them."""
ACCEPTED = 1
"""The core's answer to a program whose checksum is right."""


def is_program(what: Any) -> bool:
    """Whether a design, or the folder at a path, is a program for a processor."""
    if isinstance(what, str | PathLike):
        return body_of(what) == "program"
    return getattr(getattr(getattr(what, "design", None), "body", None), "kind", None) == "program"


def folder_of(design: Built[ScheduledProgram] | str | PathLike[str]) -> Path:
    """The folder of a program. Raises ValueError: it is another kind of design."""
    if not is_program(design):
        raise ArgumentError(
            f"{design!r:.80} is no program; expected what build(robot, units=...) returned, or its folder"
        )
    path = Path(design) if isinstance(design, str | PathLike) else design.folder
    return path.parent if path.name == FILE else path


class ProgramDriver(ShellDriver):
    """A program in a processor's shell, where it is loaded first. design: with its streams.

    Raises DesignError: the device is another core, or the core refuses the program.
    """

    whole: Design[ProgramBody]

    def __init__(
        self,
        design: Design[ProgramBody],
        words: Words | None,
        link: Link,
        *,
        function: ProgramFunction | None = None,
        shows_progress: bool = False,
    ) -> None:
        """words: what loads the program; None where it is loaded. function: one of several."""
        super().__init__(design, link, function=function, shows_progress=shows_progress)
        if words is not None:
            self._load(words, design)

    def _check(self) -> None:
        design = self.whole
        for name, expected in (("identity", IDENTITY), ("version", VERSION)):
            self._check_register(name, expected)
        shown = self.registers.read("hash_high") << BITS | self.registers.read("hash_low")
        if shown != design.device_hash:
            raise DesignError(
                f"{self.link.text} is core {shown:016x}; {design.title} is a program for core "
                f"{design.device_hash:016x} ({shape_text(design.body.core)}): build the program for this core"
            )

    def _load(self, words: Words, design: Design[ProgramBody]) -> None:
        """Raises DesignError: the core refuses the program."""
        from dynagate.hw.processor.isa.packets import packets

        asked = packets(words)
        size = beats(asked.shape[1], self.axi.width)
        samples = self.link.buffer((len(asked), size, self.axi.lanes))
        rows = samples.reshape(len(asked), size * self.axi.lanes)
        rows[:, : asked.shape[1]] = asked
        tags = tags_from(self.words.tags.take(len(asked)), len(asked))
        rows[:, asked.shape[1]] = tags
        answers = self.link.buffer((len(asked), beats(1, self.axi.width), self.axi.lanes))
        self.wait()
        sizes = Sides(asked.shape[1], 1), Sides(size, answers.shape[1])
        try:
            self.link.carry(replace(self.axi, words=sizes[0], beats=sizes[1]))
            self.link.write(samples)
            self._read(answers)
            flat = answers.reshape(len(asked), answers.shape[1] * self.axi.lanes)
            check_tags(self.link.text, tags, flat[:, 1])
            self.link.carry(self.axi)
        except BaseException as error:
            if not self.link.closed:
                self.link.carry(self.axi)
            self._failed(error)
            raise
        if flat[-1, 0] != ACCEPTED:
            raise DesignError(
                f"{self.link.text} refuses the program of {design.title}: its checksum differs; {REBUILD}"
            )


class ProgramTurns(TurnDevice):
    """A rollout as a program: cores that keep the states, several turns in a sample. motion: where states begin with
    more than q and qd."""

    def __init__(self, driver: ProgramDriver, *, motion: ChipMotion | None = None) -> None:
        self.driver, design, link = driver, driver.whole, driver.link
        self.cores = driver.registers.read("cores")
        assert design.body.loop is not None
        self.design, self.loop, self.carry = design, design.body.loop, dict(design.body.loop.carry)
        self.robot, self.function, self.text = design.robot_name, design.function, link.text
        self.inputs, self.outputs, self.dtype = design.input.ports, design.output.ports, self.driver.dtype
        bounds = [(field.range, field.format.step) for field in design.input.fields]
        self.bounds = {port.name: [bounds[k] for k in port.fields] for port in design.input.ports}
        self.motion = motion
        self._number = number_of(design.body.stream_words)
        if motion is not None:
            self.inputs, self.bounds = outside(motion, self.inputs, self.bounds, design.region["velocity"])

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        if self.motion is not None:
            arrays = {**arrays, **self.motion.begun(arrays["q"], arrays["qd"])}
        turns = next(iter(outputs.values())).shape[1]
        pieces = max(-(-turns // self.loop.turns), 1)
        rows = -(-batch // self.cores) * self.cores  # each core goes on with a trajectory of its own
        order = np.arange(rows * pieces).reshape(rows // self.cores, self.cores, pieces).swapaxes(1, 2).ravel()
        codec = self.design.wire.input
        samples = codec.zeros(rows, pieces)
        codec.put(samples[:, 0], np.ones((rows, 1)), [len(self.design.input.fields)])
        for port in self.design.input.ports:
            self._fill(port, arrays[port.name], samples[:batch])
        whole = np.zeros((rows * pieces, *self.driver.sample), np.uint32)
        flat = whole.reshape(len(whole), whole.shape[1] * whole.shape[2])
        flat[:, : samples.shape[2]] = samples.reshape(rows * pieces, samples.shape[2])[order]
        answers = self.driver.stream(whole)
        words = answers.reshape(len(answers), answers.shape[1] * answers.shape[2])[np.argsort(order)]
        words = words.reshape(rows, pieces, words.shape[1])[:batch]
        self.transfer = self.driver.transfer
        self._take(words, outputs, turns)
        return self._flagged(self.design.wire.output.flags(words), turns)

    def _fill(self, port: Port, array: npt.NDArray[Any], samples: Words) -> None:
        """Write an input into samples, (batch, pieces, words)."""
        batch, pieces = samples.shape[:2]
        per_sample = 1 if port.name in self.carry.values() else self.loop.turns
        flat = array.reshape(batch, -1, len(port.fields)).astype(np.float64)
        values = np.zeros((batch, pieces * per_sample, len(port.fields)))
        for k, index in enumerate(port.fields):
            field = self.design.input.fields[index]
            exact = brought(port, k, flat[:, :, k].ravel(), field.range, field.format, self._number)
            values[:, : flat.shape[1], k] = exact.reshape(batch, -1)
        codec = self.design.wire.input
        for turn in range(per_sample):
            later = codec.moved([turn * self.loop.inputs] * len(codec.slots))
            later.put(samples, values[:, turn::per_sample], port.fields)

    def _take(self, words: Words, outputs: Arrays, turns: int) -> None:
        """Read the results from words of samples, (batch, pieces, words)."""
        codec, count = self.design.wire.output, len(self.design.output.fields)
        batch, pieces = words.shape[:2]
        values = np.zeros((batch, pieces, self.loop.turns, count + 1))  # the last one stands for ZERO
        for turn in range(self.loop.turns):
            values[:, :, turn, :count] = codec.moved([turn * stride for stride in self.loop.outputs]).values(words)
        flat = values.reshape(batch, pieces * self.loop.turns, count + 1)[:, :turns]
        for port in self.design.output.ports:
            outputs[port.name][...] = flat[:, :, np.array(port.fields)].reshape(batch, turns, *port.shape)

    def _flagged(self, flags: npt.NDArray[np.int64], turns: int) -> Overflow:
        """From which turn on a value has not fitted. flags: of the samples, (batch, pieces)."""
        first = self.loop.turns * np.arange(flags.shape[1]) + (flags >> 1)
        first = np.where(flags & 1, first, turns).min(axis=1)
        return np.asarray(np.arange(turns) >= first[:, None])

    def close(self) -> None:
        self.driver.close()


class OnCore(Executor):
    """A program in a core. `load` replaces it."""

    @property
    def devices(self) -> Sequence[StreamDevice]:
        """The devices that stream samples of the program, one for each function. They share a link."""
        raise NotImplementedError

    def load(self, design: Built[ScheduledProgram] | str | PathLike[str]) -> Executor:
        """Load another program for the same core and return the device of its functions.

        Raises:
            ArgumentError: The design is no program, or it is the program of a rollout, which is called otherwise.
            DesignError: The program is damaged, or for another core. The program before stays.
            DeviceError: The link failed. The core then has no program, and `loaded` is False.
        """
        folder, other, _ = _program(design)
        if other.body.loop is not None:
            raise ArgumentError(
                f"{other.title} keeps the states of its trajectories, so its calls take other arguments; open its "
                f"folder instead: dynagate.open({str(folder)!r})"
            )
        driver = self.devices[0].driver
        here, link = cast(Design[ProgramBody], driver.whole), driver.link
        assert here.axi is not None
        words = load_words(folder, other)
        if other.body.core_hash != here.body.core_hash:
            raise DesignError(
                f"{other.title} is a program for another core ({shape_text(other.body.core)}); this one has "
                f"{shape_text(here.body.core)}: build the program for it, with core=..."
            )
        for device in self.devices:
            device.collect()
        driver.wait()
        if link.closed:
            raise DeviceError(f"{link.text} is closed; open it again")
        for device in self.devices:
            device.driver.queue.close()
        self.loaded = False
        return _device(behind(other, here.axi.width, here.axi.last), words, link, driver.shows_progress)


class ProgramDevice(StreamDevice, OnCore):
    """A processor with a program of one function."""

    driver: ProgramDriver

    def __init__(self, driver: ProgramDriver) -> None:
        StreamDevice.__init__(self, driver)
        design = driver.whole
        self.abreast = count = design.body.abreast
        if count > 1:
            self.inputs, self.outputs = (
                tuple(replace(p, shape=p.shape[1:], fields=p.fields[: len(p.fields) // count]) for p in side.ports)
                for side in (design.input, design.output)
            )

    @property
    def devices(self) -> Sequence[StreamDevice]:
        return (self,)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        """Samples that lie side by side are flagged together."""
        if self.abreast == 1:
            return super().run(arrays, outputs, batch)
        rows = -(-batch // self.abreast)
        order = np.minimum(np.arange(rows * self.abreast), batch - 1)  # the last one fills up
        asked = {name: array[order].reshape(rows, self.abreast, *array.shape[1:]) for name, array in arrays.items()}
        try:
            values, overflow = self.driver.run(asked, rows)
        except EntryError as error:
            template, (row, beside, *entry), axes = error.args
            raise EntryError(template, (row * self.abreast + beside, *entry), axes) from None
        for name, value in values.items():
            outputs[name][...] = value.reshape(rows * self.abreast, *value.shape[2:])[:batch]
        transfer = self.driver.transfer
        self.transfer = replace(transfer, per_sample=transfer.per_sample / self.abreast)
        return np.asarray(np.repeat(overflow, self.abreast)[:batch])

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        return super().bound(arrays, outputs, batch) if self.abreast == 1 else None

    def submit(self, arrays: Arrays, batch: int) -> UnderWay | None:
        return super().submit(arrays, batch) if self.abreast == 1 else None

    def choosing(self, outputs: Sequence[str]) -> Executor:
        return super().choosing(outputs) if self.abreast == 1 else Executor.choosing(self, outputs)


class ProgramFunctions(FunctionsDevice, OnCore):
    """A processor with a program of several functions. streams: their devices."""

    def __init__(self, name: str, functions: Mapping[str, Executor], streams: Sequence[StreamDevice]) -> None:
        super().__init__(name, functions)
        self._streams = streams

    @property
    def devices(self) -> Sequence[StreamDevice]:
        return self._streams


def _program(design: Built[ScheduledProgram] | str | PathLike[str]) -> tuple[Path, Design[ProgramBody], Core]:
    """The folder of a program, its design and its core. Raises DesignError."""
    from dynagate.hw.processor.isa.shape import Core

    folder = folder_of(design)
    content = load_program(folder)
    try:
        core = Core(**content.body.core)
    except (TypeError, ArgumentError) as error:
        raise DesignError(f"{folder} is a program for no core: {error}; {REBUILD}") from None
    if core.hash != content.body.core_hash:
        raise DesignError(f"{folder} is a program for a core of another version of dynagate; {REBUILD}")
    return folder, content, core


def open_sim(
    design: Built[ScheduledProgram] | str | PathLike[str],
    *,
    axi: Axi | int | None = None,
    cores: int = 1,
    pauses: tuple[float, float] = (0.0, 0.0),
    seed: int = 1,
    shell: bool = True,
    progress: Progress | None = None,
) -> Executor:
    """A program on simulated cores in their shell, which is compiled unless the cache holds it."""
    from dynagate.sim.processor import core_library

    pauses = checked_pauses(pauses, seed)
    folder, content, core = _program(design)
    streams = axi if isinstance(axi, Axi) else Axi(WORD if axi is None else axi, words=core.stream_words)
    behind_it = behind(content, streams.width, streams.last)
    words = load_words(folder, content)
    library = core_library(core, streams, cores, progress=progress)
    link = SimShellLink(library, behind_it, pauses=pauses, seed=seed)
    with closed_on_failure(link):
        return _device(behind_it, words, link, progress is not None)


def _device(design: Design[ProgramBody], words: Words, link: Link, shows_progress: bool) -> Executor:
    """The device of a program, which is loaded first."""
    if isinstance(link, SimShellLink):
        link.slowest = design.body.period * RETRIES * (1 + design.options.get("iterations", 0))
    if design.functions:
        return _several(design, words, link, shows_progress)
    driver = ProgramDriver(design, words, link, shows_progress=shows_progress)
    return ProgramDevice(driver) if design.body.loop is None else ProgramTurns(driver, motion=_motion(design))


def _several(design: Design[ProgramBody], words: Words, link: Link, shows_progress: bool) -> ProgramFunctions:
    """Several functions of a program behind one link. The first driver loads it."""
    drivers = [
        ProgramDriver(design, None if k else words, link, function=function, shows_progress=shows_progress)
        for k, function in enumerate(design.body.functions)
    ]
    for each in drivers:
        drivers[0].group.add(each)
        each.held, each.group = drivers[0].held, drivers[0].group
    streams = [StreamDevice(driver) for driver in drivers]
    devices = {f.name: PartDevice(f, stream) for f, stream in zip(design.body.functions, streams, strict=True)}
    return ProgramFunctions(design.function, devices, streams)


def _motion(design: Design[ProgramBody]) -> ChipMotion | None:
    """How a rollout begins whose steps solve equations. Raises DesignError: the design has none such."""
    if design.options.get("integrator") not in SOLVING:
        return None
    from dynagate.hw.processor.options import options_of

    try:
        return ChipMotion.of(robot_of(design), options_of(design), design.body.core["word"])
    except (KeyError, TypeError, ValueError) as error:
        raise DesignError(f"the motion of {design.title} cannot be made again: {error!r}; {REBUILD}") from None


def open_board(
    design: Built[ScheduledProgram] | str | PathLike[str], *, link: str | None = None, progress: Progress | None = None
) -> Executor:
    """A program on a board. The device says how wide its streams are."""
    if link is None:
        raise ArgumentError("device 'board' without a link; expected link='uart:/dev/ttyUSB0' or another")
    folder, content, _ = _program(design)
    text = LinkText.of(link, str(folder))
    if progress:
        progress(f"opening {link}")
    last = PER_SAMPLE if text.row is LINKS["uart"] else PER_BATCH
    behind_it = behind(content, WORD, last)
    words = load_words(folder, content)
    opened = text.opened(behind_it)
    with closed_on_failure(opened):
        shown = opened.read_register(with_processor()["stream"].address) & 0xFFFF
    if shown != WORD:
        with closed_on_failure(opened):
            width = _width(opened, shown)
        opened.close()
        behind_it = behind(content, width, last)
        opened = text.opened(behind_it)
    with closed_on_failure(opened):
        return _device(behind_it, words, opened, progress is not None)


def _width(link: Link, shown: int) -> int:
    """Bits of a beat, as a device says. Raises DesignError."""
    if shown not in WIDTHS:
        raise DesignError(f"{link.text} says that its streams have {shown} bits; expected a processor's bitstream")
    return shown


def open_fixed(design: Built[ScheduledProgram] | str | PathLike[str], *, progress: Progress | None = None) -> Executor:
    """The integers of a program."""
    content = load_program(folder_of(design)) if isinstance(design, str | PathLike) else design.design
    if len(functions := _functions(design)) > 1:
        graphs = [graph for each in functions for graph in each.graphs()]
        devices = {each.graph.name: FixedDevice(each, content) for each in graphs}
        return FunctionsDevice(",".join(devices), devices)
    (formatted,) = functions
    return INTEGERS[formatted.kind](formatted, content)


def _integers_of_graph(formatted: FormattedGraph, content: Design[ProgramBody]) -> Executor:
    if formatted.graph.name == ROLLOUT:
        return IntegerTurns(formatted, design=content)
    return FixedDevice(formatted, content) if content.body.abreast == 1 else FlaggedTogether(formatted, content)


def _integers_of_loop(formatted: FormattedLoop, content: Design[ProgramBody]) -> Executor:
    motion = _motion(content)
    return SolverIntegers(formatted, content) if motion is None else MotionIntegers(formatted, motion, content)


INTEGERS: Mapping[str, Callable[[Any, Design[ProgramBody]], Executor]] = table(
    "host.processor.INTEGERS",
    {
        GRAPH: _integers_of_graph,
        LOOP: _integers_of_loop,
        UNTIL: _integers_of_loop,
        SCAN: refused("a program", "a graph or a loop"),
    },
)
"""The device that computes the integers of each kind of step as the only function of a program."""


def open_numpy(design: Built[ScheduledProgram] | str | PathLike[str], *, progress: Progress | None = None) -> Executor:
    """The graph of a program in float64."""
    if len(functions := _functions(design)) > 1:
        graphs = [graph for each in functions for graph in each.graphs()]
        devices = {each.graph.name: NumpyDevice(each.graph) for each in graphs}
        return FunctionsDevice(",".join(devices), devices)
    (formatted,) = functions
    if (graph := formatted.as_graph) is None:
        raise ArgumentError(
            f"device 'numpy' for a loop, {folder_of(design)}; expected 'sim', 'fixed' or 'board', or Rollout(robot, "
            "integrator=...) in float64"
        )
    return NumpyDevice(graph.graph)


def _functions(design: Built[ScheduledProgram] | str | PathLike[str]) -> tuple[Formatted, ...]:
    """The graphs of the functions of a program, made again where there is only its folder. Raises DesignError: by
    another version."""
    if not isinstance(design, str | PathLike):
        return design.hardware.functions
    from dynagate.hw.rebuild import rebuild

    functions: tuple[Formatted, ...] = rebuild(folder_of(design)).hardware.functions
    return functions


PROGRAM_DEVICES: dict[str, Callable[..., Executor]] = {
    "sim": open_sim,
    "board": open_board,
    "fixed": open_fixed,
    "numpy": open_numpy,
}
