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
    """A view of a session: one function of its design, or some of the outputs. A driver keeps no state of the device.

    design: what the streams hold for the samples of the function. whole: the session's design.
    """

    dtype: np.dtype[Any]
    sample: tuple[int, int]
    result: tuple[int, int]
    """Beats of a sample or result, and words of a beat."""

    def __init__(self, session: Session, design: DesignRecord, function: OneFunction | None) -> None:
        self.session, self.design, self.function = session, design, function
        self.whole, self.link, self.registers = session.design, session.link, session.registers

    @abstractmethod
    def run(self, arrays: Arrays, batch: int) -> tuple[Outputs, Overflow]:
        """Results by name, (batch, *shape), and which samples overflowed. arrays: as `inputs.checked` gives them.
        Raises ValueError naming an input outside the range that the formats were chosen for, DeviceError."""

    @abstractmethod
    def pack(self, arrays: Arrays, batch: int, samples: Words) -> None:
        """Samples of arrays, marked so that their results can be distinguished. Raises ValueError as `run` does."""

    @abstractmethod
    def unpack(self, samples: Words, words: Words) -> tuple[Outputs, Overflow]:
        """Results as `run` gives them. Raises as it does."""

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        """`run` on the same arrays again and again, which writes the outputs and returns the flags, or None where no
        sample overflowed, where that is faster. Counters are not looked at: tags say whose the results are."""
        return None

    def mark(self, samples: Words) -> None:  # noqa: B027
        """Write the tags of the next samples."""

    def verify(self, samples: Words, results: Words) -> None:  # noqa: B027
        """Raises DeviceError: a result is not of its sample."""

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
        """Return the driver whose results have only these outputs; None if the device always sends all of them."""
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
        """Return the driver of the design, or of one of its functions."""
        return DatapathDriver(self, function)


class DatapathDriver(Driver):
    """A bare datapath: integers in payloads, the host converts. numbers: the type that its streams would round each
    input and output to; of the design unless given."""

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
        """Payloads (batch, words) in and out."""
        return self.stream(words[:, np.newaxis])[:, 0] if len(words) else np.zeros((0, self.result[1]), np.uint32)


@dataclass(frozen=True)
class Counters:
    """Counts of a shell since the last clear.

    status: names of the status bits that are 1. first_bad_input, first_overflow: indices of samples, None if there is
    none. overflow_scopes: names of the passes.
    """

    status: frozenset[str]
    samples_in: int
    samples_out: int
    bad_inputs: int
    first_bad_input: int | None
    overflows: int
    first_overflow: int | None
    overflow_scopes: tuple[str, ...]
    misaligned: int


def holes_text(counted: Counters) -> str:
    """Return the text about holes in the stream; empty if there were none."""
    return "; the stream had holes: beats whose TKEEP leaves bytes of samples out" if HOLE in counted.status else ""


class ShellSession(Session):
    """An accelerator in its AXI shell. counters: of the last batch."""

    def __init__(self, design: DesignRecord, link: DeviceLink, *, shows_progress: bool = False) -> None:
        with closed_on_failure(link):
            if design.axi is None:
                raise DesignError(f"{design.title} has no AXI shell; expected a build with axi=Axi(...)")
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
        """Return the driver of the design or of one of its functions, with all of its outputs or only these."""
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
    """An accelerator in its AXI shell: the device converts what its streams carry. outputs: those that results have;
    all unless given."""

    session: ShellSession

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
        """Run a batch, as every driver does; results of samples that overflowed are NaN. Raises ValueError also if
        the device found an input that does not fit its format.
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
                "inputs do"
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
        """Writes the inputs that registers hold, where they are others than before. Raises ValueError naming one that
        is outside the range of its format, or not the same in all samples."""
        for port in self.design.input.ports:
            if port.name not in self.axi.parameters or not len(arrays[port.name]):
                continue
            rows = arrays[port.name].astype(np.float32).reshape(len(arrays[port.name]), -1)
            if (other := (rows != rows[0]).any(axis=1)).any():
                raise ArgumentError(
                    f"input '{port.name}' is not the same in samples 0 and {int(np.argmax(other))}; registers hold it: "
                    "expected one set of numbers for a batch"
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
        """float32 words (batch, beats, words of a beat) in and out; `counters` are of this batch then. Writes the
        samples' tags. Raises DeviceError: a result is not of its sample."""
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
        """Raises DeviceError: counters that do not agree with the results."""
        counted = self.counters
        first = min((k for k in (counted.first_bad_input, counted.first_overflow) if k is not None), default=None)
        seen = (batch, batch, 0, int(np.argmax(empty)) if empty.any() else None)
        if (counted.samples_in, counted.samples_out, counted.misaligned, first) != seen or not (
            max(counted.bad_inputs, counted.overflows) <= empty.sum() <= counted.bad_inputs + counted.overflows
        ):
            raise DeviceError(
                f"{self.link.text} counted {counted} for a batch of {batch} in which {int(empty.sum())} results are "
                f"NaN, the first of them {seen[-1]}{holes_text(counted)}"
            )

    def _refuse(self, samples: Words, suspects: npt.NDArray[np.int64]) -> None:
        """Raises ValueError: an input of a suspected sample does not fit its format."""
        if not self.words.device_rounds:
            return
        numbers = self.words.numbers(samples[suspects])
        for port in self.design.input.ports:
            for index in () if port.name in self.axi.parameters else port.fields:
                fmt = self.design.input.fields[index].format
                check_fits(port.name, numbers[:, index].astype(np.float64), fmt, suspects)
