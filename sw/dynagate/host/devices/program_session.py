"""A processor behind a link: programs loaded into it, samples streamed through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError, EntryError
from dynagate.control.ilqr import TIGHTENED, TRIALS
from dynagate.design.codec import Words
from dynagate.design.design import DesignRecord, Sides, StreamPort
from dynagate.design.files import REBUILD, DesignError
from dynagate.design.program import ProgramBody, ProgramFunction, load_words, shape_text
from dynagate.design.rebuilt import robot_of
from dynagate.design.words import beats, number_of
from dynagate.host.devices import Executor, StreamDevice
from dynagate.host.devices.face import Overflow, UnderWay
from dynagate.host.devices.motions import call_inputs
from dynagate.host.devices.options import PROGRAM
from dynagate.host.devices.parts import FunctionsDevice, PartDevice
from dynagate.host.devices.sources import DesignSource
from dynagate.host.devices.stream_steps import stream_ranges
from dynagate.host.drivers import ShellSession
from dynagate.host.inputs import Arrays, as_streamed
from dynagate.host.links import DeviceError, DeviceLink, closed_on_failure
from dynagate.host.tags import check_tags, tags_from
from dynagate.hw.processor.streams import with_streams
from dynagate.hw.rtl.regmap import IDENTITY, VERSION
from dynagate.integrators.chip_motion import ChipMotion
from dynagate.integrators.methods import SOLVING

if TYPE_CHECKING:
    from dynagate.hw.processor.isa.shape import Core

RETRIES = max(TRIALS, TIGHTENED)
"""Bound for a solver's program: its cycles without retries, times this number, exceed those of any iteration with
retries.
"""
ACCEPTED = 1
"""The core's answer to a program whose checksum is right."""


class ProgramSession(ShellSession):
    """A processor behind a link, with a program that can be replaced.

    Raises:
        DesignError: The device is another core, or the core refuses the program.
        DeviceError: The link fails.
    """

    design: DesignRecord[ProgramBody]
    """Record of the loaded program."""

    def __init__(
        self, design: DesignRecord[ProgramBody], words: Words, link: DeviceLink, *, shows_progress: bool = False
    ) -> None:
        """Open the device and load the program.

        Args:
            design: The program with its streams.
            words: Words of the memory image.
            link: Link to the processor, which the session closes.
            shows_progress: Show on a terminal how far a long batch is.
        """
        with closed_on_failure(link):
            super().__init__(design, link, shows_progress=shows_progress)
            self.has_program = False
            self._load(design, words)

    def _check(self) -> None:
        design = self.design
        for name, expected in (("identity", IDENTITY), ("version", VERSION)):
            self._check_register(name, expected)
        shown = self._hash()
        if shown != design.device_hash:
            raise DesignError(
                f"{self.link.text} is core {shown:016x}; {design.title} is a program for core "
                f"{design.device_hash:016x} ({shape_text(design.body.core)}): build the program for this core",
                code="DG-DEVICE-017",
            )

    def check_current(self, design: DesignRecord) -> None:
        """Refuse calls of a program that is no longer loaded.

        Args:
            design: Record of the program that a caller expects.

        Raises:
            DeviceError: The core has no program, or another one.
        """
        if not self.has_program:
            raise DeviceError(
                f"{self.link.text} has no program, because loading the last one failed; load it again",
                code="DG-DEVICE-018",
            )
        super().check_current(design)

    def replace_program(self, design: DesignRecord[ProgramBody], words: Words) -> DesignRecord[ProgramBody]:
        """Load another program when no batch is under way. Drivers of the program before then refuse to stream.

        Args:
            design: Record of the program.
            words: Words that load the program.

        Returns:
            The record with the streams of this device.

        Raises:
            DesignError: The program is for another core, and the program before stays. Or the core refuses it, and has
                no program then.
            DeviceError: The link failed. The core then has no program.
        """
        here = self.design
        assert here.axi is not None
        if design.body.core_hash != here.body.core_hash:
            raise DesignError(
                f"{design.title} is a program for another core ({shape_text(design.body.core)}); this one has "
                f"{shape_text(here.body.core)}: build the program for it, with core=...",
                code="DG-DEVICE-019",
            )
        self.queue.wait()
        if self.link.closed:
            raise DeviceError(f"{self.link.text} is closed; open it again", code="DG-DEVICE-020")
        self.has_program = False
        self.recover()
        self._load(with_streams(design, here.axi.width, here.axi.last), words)
        return self.design

    def _load(self, design: DesignRecord[ProgramBody], words: Words) -> None:
        """Load a program. Raise DesignError if the core refuses it."""
        from dynagate.hw.processor.isa.packets import packed_messages

        axi, link = design.axi, self.link
        assert axi is not None
        asked = packed_messages(words)
        size = beats(asked.shape[1], axi.width)
        samples = link.buffer((len(asked), size, axi.lanes))
        rows = samples.reshape(len(asked), size * axi.lanes)
        rows[:, : asked.shape[1]] = asked
        tags = tags_from(self.tags.take(len(asked)), len(asked))
        rows[:, asked.shape[1]] = tags
        answers = link.buffer((len(asked), beats(1, axi.width), axi.lanes))
        link.allow_cycles(longest_wait(design))
        try:
            link.carry(replace(axi, words=Sides(asked.shape[1], 1), beats=Sides(size, answers.shape[1])))
            link.write(samples)
            self.read(answers)
            check_tags(link.text, tags, answers.reshape(len(asked), -1)[:, 1])
            link.carry(axi)
        except BaseException as error:
            if not link.closed:
                link.carry(axi)
            self.failed(error)
            raise
        if answers.reshape(len(asked), -1)[-1, 0] != ACCEPTED:
            raise DesignError(
                f"{link.text} refuses the program of {design.title}: its checksum differs; {REBUILD}",
                code="DG-DEVICE-021",
            )
        self.design, self.has_program = design, True


class ProgramSteps(Executor):
    """A rollout as a program, on cores that keep the states and compute several steps for each sample.

    Args:
        motion: The first states, if they have more numbers than q and qd.
    """

    exclusive = True

    def __init__(self, session: ProgramSession, *, motion: ChipMotion | None = None) -> None:
        self.driver, design = session.driver(), session.design
        self.cores = session.registers.read("cores")
        assert design.body.loop is not None
        self.design, self.loop, self.carry = design, design.body.loop, dict(design.body.loop.carry)
        self.robot, self.function, self.text = design.robot_name, design.function, session.link.text
        self.inputs, self.outputs, self.dtype = design.input.ports, design.output.ports, self.driver.dtype
        self.ranges = stream_ranges(design)
        self.motion = motion
        self._number = number_of(design.body.stream_words)
        if motion is not None:
            self.inputs, self.ranges = call_inputs(motion, self.inputs, self.ranges, design.region["velocity"])

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        if self.motion is not None:
            arrays = {**arrays, **self.motion.begun(arrays["q"], arrays["qd"])}
        steps = next(iter(outputs.values())).shape[1]
        pieces = max(-(-steps // self.loop.steps), 1)
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
        self._take(words, outputs, steps)
        return self._flagged(self.design.wire.output.flags(words), steps)

    def _fill(self, port: StreamPort, array: npt.NDArray[Any], samples: Words) -> None:
        """Write an input into samples, (batch, pieces, words)."""
        batch, pieces = samples.shape[:2]
        per_sample = 1 if port.name in self.carry.values() else self.loop.steps
        flat = array.reshape(batch, -1, len(port.fields)).astype(np.float64)
        values = np.zeros((batch, pieces * per_sample, len(port.fields)))
        for k, index in enumerate(port.fields):
            field = self.design.input.fields[index]
            exact = as_streamed(port, k, flat[:, :, k].ravel(), field.range, field.format, self._number)
            values[:, : flat.shape[1], k] = exact.reshape(batch, -1)
        codec = self.design.wire.input
        for step in range(per_sample):
            later = codec.moved([step * self.loop.inputs] * len(codec.slots))
            later.put(samples, values[:, step::per_sample], port.fields)

    def _take(self, words: Words, outputs: Arrays, steps: int) -> None:
        """Read the results from words of samples, (batch, pieces, words)."""
        codec, count = self.design.wire.output, len(self.design.output.fields)
        batch, pieces = words.shape[:2]
        values = np.zeros((batch, pieces, self.loop.steps, count + 1))  # the last one stands for ZERO
        for step in range(self.loop.steps):
            values[:, :, step, :count] = codec.moved([step * stride for stride in self.loop.outputs]).values(words)
        flat = values.reshape(batch, pieces * self.loop.steps, count + 1)[:, :steps]
        for port in self.design.output.ports:
            outputs[port.name][...] = flat[:, :, np.array(port.fields)].reshape(batch, steps, *port.shape)

    def _flagged(self, flags: npt.NDArray[np.int64], steps: int) -> Overflow:
        """Return which steps overflowed, from the flags of the samples (batch, samples of a trajectory)."""
        first = self.loop.steps * np.arange(flags.shape[1]) + (flags >> 1)
        first = np.where(flags & 1, first, steps).min(axis=1)
        return np.asarray(np.arange(steps) >= first[:, None])

    def close(self) -> None:
        self.driver.session.close()


class ProgramDevice(StreamDevice):
    """A processor with a program of one function."""

    def __init__(self, session: ProgramSession, function: ProgramFunction | None = None) -> None:
        super().__init__(session.driver(function))
        self.session, design = session, session.design
        self.samples_per_run = count = design.samples_per_packet
        if count > 1:
            self.inputs, self.outputs = (
                tuple(replace(p, shape=p.shape[1:], fields=p.fields[: len(p.fields) // count]) for p in side.ports)
                for side in (design.input, design.output)
            )

    def load(self, design: Any) -> Executor:
        """Load another program for the same core.

        Args:
            design: The program.

        Returns:
            The device of its functions.

        Raises:
            ArgumentError: The design is no program, or it is the program of a rollout, which is called in another way.
            DesignError: The program is damaged or for another core, and the previous program stays; or the core refuses
                it, and has no program then.
            DeviceError: The link failed. The core then has no program.
        """
        source = DesignSource(design)
        if source.kind != PROGRAM:
            raise ArgumentError(
                f"{design!r:.80} is no program; expected what build(robot, units=...) returned, or its folder",
                code="DG-DEVICE-022",
            )
        core_of(source)
        other = source.stored
        if other.keeps_states:
            raise ArgumentError(
                f"{other.title} keeps the states of its trajectories, so its calls take other arguments; open its "
                f"folder instead: dynagate.open({str(source.folder)!r})",
                code="DG-DEVICE-023",
            )
        self.session.replace_program(other, load_words(source.folder, other))
        return program_device(self.session)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        """Compute a batch. All samples of one run of the program have the same overflow flag.

        Args:
            arrays: Checked inputs (batch, *shape) by name.
            outputs: Arrays (batch, *shape) by name, which are overwritten.
            batch: Number of samples.

        Returns:
            Which samples overflowed, (batch,).
        """
        if self.samples_per_run == 1:
            return super().run(arrays, outputs, batch)
        rows = -(-batch // self.samples_per_run)
        order = np.minimum(np.arange(rows * self.samples_per_run), batch - 1)  # the last one fills up
        asked = {
            name: array[order].reshape(rows, self.samples_per_run, *array.shape[1:]) for name, array in arrays.items()
        }
        try:
            values, overflow = self.driver.run(asked, rows)
        except EntryError as error:
            template, (row, beside, *entry), axes = error.args
            raise EntryError(
                template, (row * self.samples_per_run + beside, *entry), axes, code="DG-DEVICE-024"
            ) from None
        for name, value in values.items():
            outputs[name][...] = value.reshape(rows * self.samples_per_run, *value.shape[2:])[:batch]
        transfer = self.driver.transfer
        self.transfer = replace(transfer, per_sample=transfer.per_sample / self.samples_per_run)
        return np.asarray(np.repeat(overflow, self.samples_per_run)[:batch])

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        return super().bound(arrays, outputs, batch) if self.samples_per_run == 1 else None

    def submit(self, arrays: Arrays, batch: int) -> UnderWay | None:
        return super().submit(arrays, batch) if self.samples_per_run == 1 else None

    def choosing(self, outputs: Sequence[str]) -> Executor:
        return super().choosing(outputs) if self.samples_per_run == 1 else Executor.choosing(self, outputs)


def core_of(source: DesignSource) -> Core:
    """Return the core of a program.

    Args:
        source: The design.

    Returns:
        The core.

    Raises:
        DesignError: The record in the folder names no core.
    """
    from dynagate.hw.processor.isa.shape import Core

    content = source.stored
    try:
        core = Core(**content.body.core)
    except (TypeError, ArgumentError) as error:
        raise DesignError(
            f"{source.folder} is a program for no core: {error}; {REBUILD}", code="DG-DEVICE-025"
        ) from None
    if core.hash != content.body.core_hash:
        raise DesignError(
            f"{source.folder} is a program for a core of another version of dynagate; {REBUILD}", code="DG-DEVICE-026"
        )
    return core


def program_device(session: ProgramSession) -> Executor:
    """Return the device of the program that a session has loaded.

    Args:
        session: The session.

    Returns:
        The device.
    """
    design = session.design
    with closed_on_failure(session.link):
        if design.functions:
            devices = {each.name: PartDevice(each, ProgramDevice(session, each)) for each in design.body.functions}
            return FunctionsDevice(design.function, devices)
        return ProgramSteps(session, motion=chip_motion_of(design)) if design.keeps_states else ProgramDevice(session)


def longest_wait(design: DesignRecord[ProgramBody]) -> int:
    """Return the cycles in which a program may send nothing: its solver's iterations, or the longest steps of a sample.

    Args:
        design: Record of the program.
    """
    body = design.body
    solving = body.period * RETRIES * (1 + design.options.get("iterations", 0))
    slowest = max((most for _, most in body.shell.spans), default=0) if body.shell is not None else 0
    return max(solving, slowest * (body.loop.steps if body.loop is not None else 1))


def chip_motion_of(design: DesignRecord[ProgramBody]) -> ChipMotion | None:
    """Return the first states of a rollout whose steps solve equations.

    Args:
        design: Record of the program.

    Returns:
        The rollout on the chip; None if its steps solve no equations.

    Raises:
        DesignError: The record describes no such rollout.
    """
    if not design.options.get("integrator", "").startswith(SOLVING):
        return None
    from dynagate.forces.options import AlgorithmOptions

    try:
        return ChipMotion.of(robot_of(design), AlgorithmOptions.of_record(design.options), design.body.core["word"])
    except (KeyError, TypeError, ValueError) as error:
        raise DesignError(
            f"the motion of {design.title} cannot be made again: {error!r}; {REBUILD}", code="DG-DEVICE-027"
        ) from None
