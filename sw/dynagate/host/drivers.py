"""The part of the host above any link: checks at open, samples to beats and back, registers, counters."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from dynagate.base.errors import ArgumentError
from dynagate.design.codec import Words
from dynagate.design.design import DesignRecord, OneFunction
from dynagate.design.files import DesignError
from dynagate.design.native_codec import SOME_NAN, pointers, quick
from dynagate.host.inputs import Arrays, check_finite, check_fits, check_range
from dynagate.host.links import BatchTiming, DeviceError, DeviceLink, closed_on_failure
from dynagate.host.session import Session
from dynagate.host.tags import COUNT_MASK, check_tags, tags_from
from dynagate.host.words import StreamWords, pack_inputs, tag_words, unpack_outputs
from dynagate.hw.rtl.regmap import HOLE, OUTPUTS, REGISTERS

Outputs = dict[str, npt.NDArray[Any]]
Overflow = npt.NDArray[np.bool_]


class Driver(ABC):
    """Base class of drivers: streams samples of one function of a design through a session, which keeps the device's
    state.

    Args:
        design: Record that describes the streams of the function.
        whole: Record of the session's design, with all functions.
    """

    dtype: np.dtype[Any]
    """Type of the numbers in results."""
    sample: tuple[int, int]
    """Beats of a sample, and 32-bit words of a beat."""
    result: tuple[int, int]
    """Beats of a result, and 32-bit words of a beat."""

    def __init__(self, session: Session, design: DesignRecord, function: OneFunction | None) -> None:
        self.session, self.design, self.function = session, design, function
        self.whole, self.link, self.registers = session.design, session.link, session.registers

    @abstractmethod
    def run(self, arrays: Arrays, batch: int) -> tuple[Outputs, Overflow]:
        """Compute a batch.

        Args:
            arrays: Inputs (batch, *shape) by name, as `inputs.checked` returns them.
            batch: Number of samples.

        Returns:
            The results (batch, *shape) by name, and which samples overflowed, (batch,).

        Raises:
            EntryError: An input is outside the range that its format was chosen for.
            DeviceError: The device fails.
        """

    @abstractmethod
    def pack(self, arrays: Arrays, batch: int, samples: Words) -> None:
        """Write the samples of a batch, with tags by which their results are recognized.

        Args:
            arrays: Inputs (batch, *shape) by name.
            batch: Number of samples.
            samples: Words (batch, beats, words of a beat), which are overwritten.

        Raises:
            EntryError: As `run` raises it.
        """

    @abstractmethod
    def unpack(self, samples: Words, words: Words) -> tuple[Outputs, Overflow]:
        """Return the results in the words of a batch. Errors are those of `run`.

        Args:
            samples: Words of the samples.
            words: Words of the results.

        Returns:
            As `run` returns them.
        """

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        """Prepare repeated calls on the same arrays, if they are faster than `run`. They check results by their tags,
        and do not read the device's counters.

        Args:
            arrays: Checked inputs (batch, *shape) by name.
            outputs: Arrays (batch, *shape) by name, which are overwritten.
            batch: Number of samples.

        Returns:
            A function that computes the outputs and returns which samples overflowed, None for no sample; or None if it
            would not be faster.
        """
        return None

    def mark(self, samples: Words) -> None:  # noqa: B027
        """Write the tags of the next samples.

        Args:
            samples: Words (batch, beats, words of a beat), whose tags are overwritten.
        """

    def verify(self, samples: Words, results: Words) -> None:  # noqa: B027
        """Check that each result belongs to its sample.

        Args:
            samples: Words of the samples.
            results: Words of the results.

        Raises:
            DeviceError: A result has another tag than its sample.
        """

    def stream(self, samples: Words, rows: npt.NDArray[np.int64] | None = None) -> Words:
        """Stream a batch and return its results.

        Args:
            samples: Words of the samples, (batch, beats, words).
            rows: Indices of the samples that have results; all of them unless given.

        Returns:
            Words of the results, (results, *self.result), in the order of their samples.

        Raises:
            DeviceError: Results do not come, or are not those of the samples. The device is reset then, as it is after
                Ctrl-C, and stays usable.
        """
        results: Words = np.zeros((len(samples) if rows is None else len(rows), *self.result), dtype=np.uint32)
        with self.session.streaming(self.whole):
            self.mark(samples)
            quiet = None if self.session.shows_progress else True  # None: but for a terminal
            with tqdm(total=len(results), desc="  states", delay=1.0, leave=False, disable=quiet) as bar:
                self.link.expect(self.result[0])
                self.link.write(samples, *(() if rows is None else (len(results),)))
                self.session.read(results, lambda received: bar.update(received - bar.n))
            self.verify(samples if rows is None else samples[rows], results)
        return results

    def choosing(self, outputs: Sequence[str]) -> Driver | None:
        """Return the driver whose results have only some of the outputs.

        Args:
            outputs: Names of the outputs, in their order.

        Returns:
            The driver; None if the device always sends all outputs.
        """
        return None

    @property
    def transfer(self) -> BatchTiming:
        """Cycles of the batch that was read last."""
        return self.link.transfer


class DatapathSession(Session):
    """A bare datapath behind a link."""

    def __init__(self, design: DesignRecord, link: DeviceLink, *, shows_progress: bool = False) -> None:
        table = {name: REGISTERS[name] for name in ("hash_low", "hash_high")}
        super().__init__(design, link, table, shows_progress=shows_progress)

    def driver(self, function: OneFunction | None = None) -> DatapathDriver:
        """Return the driver of the design, or of one of its functions.

        Args:
            function: The function; None for the whole design.

        Returns:
            The driver.
        """
        return DatapathDriver(self, function)


class DatapathDriver(Driver):
    """Driver of a datapath without a shell: the host converts between numbers and the integers in payloads.

    Args:
        numbers: Types that the streams of a shell would round each input and output to, by name; by default the
            design's.
    """

    def __init__(
        self, session: Session, function: OneFunction | None = None, *, numbers: Mapping[str, str] | None = None
    ) -> None:
        whole = session.design
        super().__init__(session, whole if function is None else whole.of_function(function), function)
        self.sample, self.result = (1, whole.input.words), (1, whole.output.words)
        self.dtype = np.dtype(whole.results)
        self._numbers = self.design.numbers if numbers is None else numbers

    def run(self, arrays: Arrays, batch: int) -> tuple[Outputs, Overflow]:
        return self._unpacked(self.payloads(pack_inputs(self.design, arrays, batch, self._numbers)))

    def pack(self, arrays: Arrays, batch: int, samples: Words) -> None:
        samples[:, 0] = pack_inputs(self.design, arrays, batch, self._numbers)

    def unpack(self, samples: Words, words: Words) -> tuple[Outputs, Overflow]:
        return self._unpacked(words[:, 0])

    def _unpacked(self, words: Words) -> tuple[Outputs, Overflow]:
        outputs, overflow = unpack_outputs(self.design, words, self._numbers)
        return {name: value.astype(self.dtype, copy=False) for name, value in outputs.items()}, overflow

    def payloads(self, words: Words) -> Words:
        """Stream payloads through the datapath.

        Args:
            words: Payloads (batch, words) of the samples.

        Returns:
            Payloads (batch, words) of the results.
        """
        return self.stream(words[:, np.newaxis])[:, 0] if len(words) else np.zeros((0, self.result[1]), np.uint32)


@dataclass(frozen=True)
class Counters:
    """Counters of a shell since they were last cleared."""

    status: frozenset[str]
    """Names of the status bits that are 1."""
    samples_in: int
    """Number of samples that entered."""
    samples_out: int
    """Number of results that left."""
    bad_inputs: int
    """Number of samples with an input that does not fit its format."""
    first_bad_input: int | None
    """Index of the first such sample, or None."""
    overflows: int
    """Number of samples in which a number overflowed."""
    first_overflow: int | None
    """Index of the first such sample, or None."""
    overflow_scopes: tuple[str, ...]
    """Names of the parts of the algorithm in which numbers overflowed."""
    misaligned: int
    """Number of packets whose TLAST was not on the last beat of a sample."""


def holes_text(counted: Counters) -> str:
    """Return the text for an error about missing beats in the stream.

    Args:
        counted: The counters after a batch.

    Returns:
        The text; empty if no beat is missing.
    """
    return "; the stream had holes: beats whose TKEEP leaves bytes of samples out" if HOLE in counted.status else ""


class ShellSession(Session):
    """Session with an accelerator in its AXI shell. `counters` are those of the last batch."""

    def __init__(self, design: DesignRecord, link: DeviceLink, *, shows_progress: bool = False) -> None:
        with closed_on_failure(link):
            if design.axi is None:
                raise DesignError(
                    f"{design.title} has no AXI shell; expected a build with axi=Axi(...)", code="DG-LINK-024"
                )
            super().__init__(design, link, design.axi.registers, shows_progress=shows_progress)
            self.recover()
            self.counters = self.read_counters()

    def _check(self) -> None:
        axi, design = self.design.axi, self.design
        assert axi is not None
        for name, expected in (("identity", axi.identity), ("version", axi.version)):
            self._check_register(name, expected)
        super()._check()
        for name, expected in (
            ("ii", design.interval),
            ("latency", design.latency),
            ("input_words", axi.words.input),
            ("output_words", axi.words.output),
        ):
            self._check_register(name, expected)

    def driver(self, function: OneFunction | None = None, outputs: Sequence[str] | None = None) -> ShellDriver:
        """Return the driver of the design, or of one of its functions.

        Args:
            function: The function; None for the whole design.
            outputs: Names of the outputs that results have; None for all.

        Returns:
            The driver.
        """
        return ShellDriver(self, function, outputs)

    def reset(self) -> None:
        """Reset all but the bus of the registers, counters and status included. The streams must be idle."""
        self.registers.set("control", "reset")

    def clear(self) -> None:
        """Set counters and status to zero."""
        self.registers.set("control", "clear")

    def read_counters(self) -> Counters:
        """Return what the shell has counted since the last clear."""
        read = self.registers.read
        bad, overflows, scopes = read("bad_inputs"), read("overflows"), read("overflow_scopes")
        return Counters(
            self.registers.bits("status"),
            read("samples_in"),
            read("samples_out"),
            bad,
            read("first_bad_input") if bad else None,
            overflows,
            read("first_overflow") if overflows else None,
            tuple(name for k, name in enumerate(self.design.output.scopes) if scopes >> k & 1),
            read("misaligned"),
        )

    def state(self) -> str:
        counted = self.read_counters()
        return (
            f"; {counted.samples_in} samples entered the datapath, {counted.samples_out} results left it, "
            f"{counted.misaligned} were misaligned{holes_text(counted)}"
        )


class ShellDriver(Driver):
    """Driver of an accelerator in its AXI shell: the device converts between float32 and the integers of its datapath.

    Args:
        outputs: Names of the outputs that results have; by default all.
    """

    session: ShellSession
    """The session."""

    def __init__(
        self, session: ShellSession, function: OneFunction | None = None, outputs: Sequence[str] | None = None
    ) -> None:
        whole = session.design
        design = whole if function is None else whole.of_function(function)
        every = [port.name for port in design.output.ports]
        super().__init__(session, design if outputs is None else design.with_outputs(outputs), function)
        assert self.design.axi is not None
        self.axi = self.design.axi
        self.sample, self.result = (self.axi.beats.input, self.axi.lanes), (self.axi.beats.output, self.axi.lanes)
        self.words = StreamWords(self.design, self.axi, session.tags)
        self.dtype = np.dtype(self.design.results)
        self._every, self._choice = self._bits_of(every), self._bits_of(every if outputs is None else outputs)

    def choosing(self, outputs: Sequence[str]) -> ShellDriver | None:
        return self.session.driver(self.function, outputs) if self.axi.choice else None

    def _bits_of(self, outputs: Iterable[str]) -> int:
        """Outputs of the function as bits of register OUTPUTS."""
        if not self.axi.choice:
            return 0
        bits = self.axi.registers[OUTPUTS].bits
        prefix = f"{self.design.function}." if self.whole.functions else ""
        return sum(1 << bits.index(prefix + name) for name in outputs)

    @property
    def counters(self) -> Counters:
        """Counters of the last batch."""
        return self.session.counters

    def run(self, arrays: Arrays, batch: int) -> tuple[Outputs, Overflow]:
        """Compute a batch. Results of samples that overflowed are NaN.

        Args:
            arrays: As of `Driver.run`.
            batch: Number of samples.

        Returns:
            As of `Driver.run`.

        Raises:
            EntryError: An input is outside its range, or the device found one that does not fit its format.
            DeviceError: The device fails.
        """
        self._set_registers(arrays)
        samples = np.zeros((batch, *self.sample), np.uint32)
        self.words.fill(arrays, samples)
        words = self.floats(samples)
        values, empty = self._take(samples, words)
        self._check_counters(batch, empty)
        if self.counters.first_bad_input is not None:
            self._refuse(samples, np.array([self.counters.first_bad_input]))
            raise DeviceError(
                f"{self.link.text} says that an input of sample {self.counters.first_bad_input} does not fit; all "
                "inputs do",
                code="DG-LINK-025",
            )
        return values, empty

    def _set_registers(self, arrays: Arrays) -> None:
        """Writes what registers are to hold for these samples. Raises as `_hold` does."""
        self._hold(arrays)
        self._choose()

    def _choose(self) -> None:
        """Chooses the outputs of the function, where others are chosen. The device takes no choice while samples are
        under way."""
        if not self.axi.choice:
            return
        every = (1 << len(self.axi.registers[OUTPUTS].bits)) - 1
        before = self.session.register_cache.get(OUTPUTS, every)
        if before is None or before & self._every != self._choice:
            self.session.queue.wait()
            choice = (every if before is None else before) & ~self._every | self._choice
            self.session.register_cache[OUTPUTS] = None  # unknown until the write has succeeded
            self.registers.write(OUTPUTS, choice)
            self.session.register_cache[OUTPUTS] = choice

    def _hold(self, arrays: Arrays) -> None:
        """Write the inputs that registers hold, if they changed. Raise ArgumentError if one is outside the range of its
        format, or not the same in all samples.
        """
        for port in self.design.input.ports:
            if port.name not in self.axi.parameters or not len(arrays[port.name]):
                continue
            rows = arrays[port.name].astype(np.float32).reshape(len(arrays[port.name]), -1)
            if (other := (rows != rows[0]).any(axis=1)).any():
                raise ArgumentError(
                    f"input '{port.name}' is not the same in samples 0 and {int(np.argmax(other))}; registers hold it: "
                    "expected one set of numbers for a batch",
                    code="DG-LINK-026",
                )
            for k, index in enumerate(port.fields):
                field = self.design.input.fields[index]
                check_range(port, k, rows[:1, k].astype(np.float64), field.range, field.format.step)
            if self.session.register_cache.get(port.name) != (words := rows[0].tobytes()):
                self.session.queue.wait()
                self.session.register_cache.pop(port.name, None)  # unknown until all of its registers are written
                for k, word in enumerate(rows[0].view(np.uint32)):
                    self.registers.write(f"{port.name}_{k}", int(word))
                self.session.register_cache[port.name] = words

    def _take(self, samples: Words, words: Words) -> tuple[Outputs, Overflow]:
        first = int(tag_words(samples[:1], self.axi.words.input)[0]) if len(samples) else 0
        return self.words.take(self.link.text, words, first)

    def pack(self, arrays: Arrays, batch: int, samples: Words) -> None:
        self._set_registers(arrays)
        self.words.fill(arrays, samples)

    def unpack(self, samples: Words, words: Words) -> tuple[Outputs, Overflow]:
        values, empty = self._take(samples, words)
        if empty.any():
            self._refuse(samples, np.flatnonzero(empty))
        return values, empty

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        words, session = self.words, self.session
        inputs = [arrays[port.name] for port in self.design.input.ports]
        fill = words.filling(inputs) if batch else None
        if fill is None:
            return None
        fill, take = (quick(words.functions, name) for name in (fill.__name__, "dynagate_take"))
        write, read = self.link.write, self.session.read
        expect, beats = self.link.expect, self.result[0]
        samples, results = self.link.buffer((batch, *self.sample)), self.link.buffer((batch, *self.result))
        empty = np.zeros(batch, np.bool_)
        sources = pointers(inputs)
        targets = pointers([outputs[port.name] for port in self.design.output.ports])
        into, out_of, flags = (ctypes.c_void_p(array.ctypes.data) for array in (samples, results, empty))
        size = ctypes.c_int64(batch)

        def run() -> Overflow | None:
            session.queue.wait()
            session.check_current(self.whole)
            self._choose()
            first = words.tags.take(batch)
            epoch, count = first & ~COUNT_MASK, first & COUNT_MASK
            if fill(sources, into, size, epoch, count):
                check_finite(arrays, self.dtype)
                words.refuse(arrays, batch)
            try:
                expect(beats)
                write(samples)
                read(results)
                if status := take(targets, out_of, size, epoch, count, flags):
                    self._look_at(status, samples, results, empty)
                    return empty
            except BaseException as error:
                session.failed(error)
                raise
            return None

        return run

    def _look_at(self, status: int, samples: Words, results: Words, empty: Overflow) -> None:
        """Raises what the compiled function noticed, where that is an error."""
        if status & ~SOME_NAN:
            self._take(samples, results)
        self._refuse(samples, np.flatnonzero(empty))

    def floats(self, samples: Words) -> Words:
        """Stream float32 words through the device. `counters` are then those of this batch.

        Args:
            samples: Words (batch, beats, words of a beat). Their tags are overwritten.

        Returns:
            Words (batch, beats, words of a beat) of the results.

        Raises:
            DeviceError: A result has another tag than its sample.
        """
        self.session.queue.wait()
        self.session.clear()
        words = self.stream(samples) if len(samples) else np.zeros((0, *self.result), np.uint32)
        self.session.counters = self.session.read_counters()
        return words

    def mark(self, samples: Words) -> None:
        first = self.words.tags.take(len(samples))
        tag_words(samples, self.axi.words.input)[...] = tags_from(first, len(samples))

    def verify(self, samples: Words, results: Words) -> None:
        after = self.axi.words
        try:
            check_tags(self.link.text, tag_words(samples, after.input), tag_words(results, after.output))
        except DeviceError as error:
            with suppress(DeviceError):  # of a link that gives no answer any more
                error.args = (f"{error}{holes_text(self.session.read_counters())}",)
            raise

    def _check_counters(self, batch: int, empty: Overflow) -> None:
        """Raise DeviceError if the counters do not agree with a batch. `empty` marks the samples without a result."""
        counted = self.counters
        first = min((k for k in (counted.first_bad_input, counted.first_overflow) if k is not None), default=None)
        seen = (batch, batch, 0, int(np.argmax(empty)) if empty.any() else None)
        if (counted.samples_in, counted.samples_out, counted.misaligned, first) != seen or not (
            max(counted.bad_inputs, counted.overflows) <= empty.sum() <= counted.bad_inputs + counted.overflows
        ):
            raise DeviceError(
                f"{self.link.text} counted {counted} for a batch of {batch} in which {int(empty.sum())} results are "
                f"NaN, the first of them {seen[-1]}{holes_text(counted)}",
                code="DG-LINK-027",
            )

    def _refuse(self, samples: Words, suspects: npt.NDArray[np.int64]) -> None:
        """Raise EntryError if an input of one of these samples does not fit its format."""
        if not self.words.device_rounds:
            return
        numbers = self.words.numbers(samples[suspects])
        for port in self.design.input.ports:
            for index in () if port.name in self.axi.parameters else port.fields:
                fmt = self.design.input.fields[index].format
                check_fits(port.name, numbers[:, index].astype(np.float64), fmt, suspects)
