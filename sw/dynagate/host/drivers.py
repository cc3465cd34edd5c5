"""What the host does above any link: checks at open, samples to beats and back, registers, counters."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from dynagate.base.errors import ArgumentError, add_note
from dynagate.design.codec import Words
from dynagate.design.design import Design, OneFunction
from dynagate.design.files import DesignError
from dynagate.design.native_codec import SOME_NAN, pointers, quick
from dynagate.host.inputs import Arrays, check_finite, check_fits, check_range
from dynagate.host.links import DeviceError, Link, SilenceError, Transfer, closed_on_failure
from dynagate.host.registers import Registers
from dynagate.host.tags import COUNT_MASK, check_tags, tags_from
from dynagate.host.transfers import TransferQueue
from dynagate.host.words import StreamWords, pack_inputs, tag_words, unpack_outputs
from dynagate.hw.regmap import BITS, HOLE, OUTPUTS, REGISTERS, Register

Outputs = dict[str, npt.NDArray[Any]]
Overflow = npt.NDArray[np.bool_]


class Driver(ABC):
    """A design's device behind a link. registers: by name. function: one of several that the design computes; the
    driver then streams samples of it alone, and `design` is what the streams hold for these. shows_progress: show on a
    terminal how far a batch is that takes longer than a moment.

    Raises DesignError: the device shows another design's hash. The link is closed then, and after any other error here.
    """

    dtype: np.dtype[Any]
    sample: tuple[int, int]
    result: tuple[int, int]
    """Beats of a sample or result, and words of a beat."""

    def __init__(
        self,
        design: Design,
        link: Link,
        table: dict[str, Register],
        *,
        function: OneFunction | None = None,
        shows_progress: bool = False,
    ) -> None:
        self.whole, self.link = design, link
        self.design = design if function is None else design.of_function(function)
        self.group: WeakSet[Driver] = WeakSet([self])
        """The drivers of the link: of other functions and other choices of outputs."""
        self.held: dict[str, Any] = {}
        """What registers hold, by name: shared by the drivers of the link."""
        self.registers = Registers(link, table)
        self._shows_progress, self._streaming = shows_progress, False
        self.queue = TransferQueue(self)
        with closed_on_failure(link):
            self._check()

    @abstractmethod
    def run(self, arrays: Arrays, batch: int) -> tuple[Outputs, Overflow]:
        """Results by name, (batch, *shape), and which samples overflowed. arrays: as `inputs.checked` gives them.
        Raises ValueError naming an input outside the range that the formats were chosen for, DeviceError."""

    @abstractmethod
    def pack(self, arrays: Arrays, batch: int, samples: Words) -> None:
        """Samples of arrays, marked so that their results can be told apart. Raises ValueError as `run` does."""

    @abstractmethod
    def unpack(self, samples: Words, words: Words) -> tuple[Outputs, Overflow]:
        """Results as `run` gives them. Raises as it does."""

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        """`run` on the same arrays again and again, which writes the outputs and returns the flags, or None where no
        sample overflowed, where that is faster. Counters are not looked at: tags say whose the results are."""
        return None

    def verify(self, samples: Words, results: Words) -> None:  # noqa: B027
        """Raises DeviceError: a result is not of its sample."""

    def _check(self) -> None:
        """Refuses the device of another design."""
        shown = self.registers.read("hash_high") << BITS | self.registers.read("hash_low")
        if shown != self.whole.device_hash:
            raise DesignError(
                f"{self.link.text} holds design {shown:016x}; design.json describes {self.whole.device_hash:016x}: "
                "build it again"
            )

    def stream(self, samples: Words, count: int | None = None) -> Words:
        """Samples (batch, beats, words) in, results (batch, *self.result) out, in the same order. count: of the
        results, where not every sample has one.

        Raises DeviceError where results do not come. The device is reset then, as it is after Ctrl-C, and stays usable.
        """
        if self._streaming:
            raise DeviceError(f"{self.link.text} streams already; expected one batch at a time")
        self.wait()
        results: Words = np.zeros((len(samples) if count is None else count, *self.result), dtype=np.uint32)
        self._streaming = True
        try:
            self._stream(samples, results)
        except BaseException as error:
            self._failed(error)
            raise
        finally:
            self._streaming = False
        return results

    def wait(self) -> None:
        """Until no batch is under way, of another function neither."""
        for driver in list(self.group):
            driver.queue.wait()

    def wait_for_others(self) -> None:
        """Until no batch is under way but those of this driver."""
        for driver in list(self.group):
            if driver is not self:
                driver.queue.wait()

    def choosing(self, outputs: Sequence[str]) -> Driver | None:
        """A driver on the same link whose results have these outputs alone; None where the device sends all."""
        return None

    def _failed(self, error: BaseException) -> None:
        """Recovers the device. Raises DeviceError where it is closed."""
        if not self.link.closed:
            self.recover_from(error)
        elif isinstance(error, DeviceError):
            raise DeviceError(f"{self.link.text} was closed while it streamed") from None

    def recover_from(self, error: BaseException) -> None:
        """Recovers the device. If that fails, the error says so in a note."""
        try:
            self.recover()
        except DeviceError as fault:
            add_note(error, f"The device did not come to rest: {fault}")

    def recover(self) -> None:
        """Brings the device to rest, whatever it was doing. What was under way is lost. Raises DeviceError."""
        self.link.reset()

    def _stream(self, samples: Words, results: Words) -> None:
        quiet = None if self._shows_progress else True  # None: but for a terminal
        with tqdm(total=len(results), desc="  states", delay=1.0, leave=False, disable=quiet) as bar:
            fewer = () if len(results) == len(samples) else (len(results),)
            self.link.expect(self.result[0])
            self.link.write(samples, *fewer)
            self._read(results, lambda received: bar.update(received - bar.n))

    def _read(self, results: Words, progress: Callable[[int], object] | None = None) -> None:
        received, count = 0, len(results)
        while received < count:
            try:
                received += self.link.read(results[received:] if received else results)
            except SilenceError as error:
                raise DeviceError(f"{received} results for {count} samples: {error}{self.state()}") from None
            if progress is not None:
                progress(received)

    def state(self) -> str:
        """What the device says of itself when it is stuck."""
        return ""

    @property
    def transfer(self) -> Transfer:
        return self.link.transfer

    @property
    def shows_progress(self) -> bool:
        """Whether a batch that takes long shows its progress on a terminal."""
        return self._shows_progress

    def close(self) -> None:
        for driver in list(self.group):
            driver.queue.close()
        self.link.close()


class DatapathDriver(Driver):
    """A bare datapath: integers in payloads, the host converts. numbers: the type that its streams would round each
    input and output to; of the design unless given."""

    def __init__(
        self,
        design: Design,
        link: Link,
        *,
        function: OneFunction | None = None,
        numbers: Mapping[str, str] | None = None,
        shows_progress: bool = False,
    ) -> None:
        self.sample, self.result = (1, design.input.words), (1, design.output.words)
        self.dtype = np.dtype(design.results)
        table = {name: REGISTERS[name] for name in ("hash_low", "hash_high")}
        super().__init__(design, link, table, function=function, shows_progress=shows_progress)
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
    """What a shell counted since the last clear. status: its bits that are 1. first_bad_input, first_overflow: indices
    of samples, None where there is none. overflow_scopes: names of the passes."""

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
    """What is said of holes in the stream, where there were some."""
    return "; the stream had holes: beats whose TKEEP leaves bytes of samples out" if HOLE in counted.status else ""


class ShellDriver(Driver):
    """An accelerator in its AXI shell: float32 on the streams, the device converts. counters: of the last batch."""

    dtype = np.dtype(np.float32)

    def __init__(
        self, design: Design, link: Link, *, function: OneFunction | None = None, shows_progress: bool = False
    ) -> None:
        with closed_on_failure(link):
            if design.axi is None:
                raise DesignError(f"{design.title} has no AXI shell; expected a build with axi=Axi(...)")
            self._set_streams(design if function is None else design.of_function(function))
            super().__init__(design, link, self.axi.registers, function=function, shows_progress=shows_progress)
            self._every = self._choice = self._bits_of(port.name for port in self.design.output.ports)
            self.recover()
            self.counters = self.read_counters()

    def _set_streams(self, design: Design) -> None:
        """The streams' words, for a design of one function."""
        assert design.axi is not None
        self.design, self.axi = design, design.axi
        self.sample, self.result = (self.axi.beats.input, self.axi.lanes), (self.axi.beats.output, self.axi.lanes)
        self.words = StreamWords(design, self.axi)
        self.dtype = np.dtype(design.results)

    def choosing(self, outputs: Sequence[str]) -> ShellDriver | None:
        if not self.axi.choice:
            return None
        other = copy(self)
        other._set_streams(self.design.with_outputs(outputs))
        other._choice = self._bits_of(outputs)
        other.queue = TransferQueue(other)
        other._streaming = False
        self.group.add(other)
        return other

    def _bits_of(self, outputs: Iterable[str]) -> int:
        """Outputs of the function as bits of register OUTPUTS."""
        if not self.axi.choice:
            return 0
        bits = self.axi.registers[OUTPUTS].bits
        prefix = f"{self.design.function}." if self.whole.functions else ""
        return sum(1 << bits.index(prefix + name) for name in outputs)

    def _check(self) -> None:
        axi, design = self.whole.axi, self.whole
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

    def _check_register(self, name: str, expected: int) -> None:
        value = self.registers.read(name)
        if value != expected:
            raise DesignError(
                f"{self.link.text} has 0x{value:X} in register '{name}'; design.json describes 0x{expected:X}: "
                "build it again"
            )

    def reset(self) -> None:
        """Soft reset: all but the registers' bus, counters and status included. The streams must be idle."""
        self.registers.set("control", "reset")

    def clear(self) -> None:
        """Counters and status begin anew."""
        self.registers.set("control", "clear")

    def read_counters(self) -> Counters:
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

    def run(self, arrays: Arrays, batch: int) -> tuple[Outputs, Overflow]:
        """As of every driver; results of samples that overflowed are NaN. Raises ValueError too where the device found
        an input that does not fit its format."""
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
        before = self.held.get(OUTPUTS, every)
        if before is None or before & self._every != self._choice:
            self.wait()
            choice = (every if before is None else before) & ~self._every | self._choice
            self.held[OUTPUTS] = None  # unknown until the write has succeeded
            self.registers.write(OUTPUTS, choice)
            self.held[OUTPUTS] = choice

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
            if self.held.get(port.name) != (words := rows[0].tobytes()):
                self.wait()
                self.held.pop(port.name, None)  # unknown until all of its registers are written
                for k, word in enumerate(rows[0].view(np.uint32)):
                    self.registers.write(f"{port.name}_{k}", int(word))
                self.held[port.name] = words

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
        words = self.words
        inputs = [arrays[port.name] for port in self.design.input.ports]
        fill = words.filling(inputs) if batch else None
        if fill is None:
            return None
        fill, take = (quick(words.functions, name) for name in (fill.__name__, "dynagate_take"))
        write, read = self.link.write, self._read
        expect, beats = self.link.expect, self.result[0]
        samples, results = self.link.buffer((batch, *self.sample)), self.link.buffer((batch, *self.result))
        empty = np.zeros(batch, np.bool_)
        sources = pointers(inputs)
        targets = pointers([outputs[port.name] for port in self.design.output.ports])
        into, out_of, flags = (ctypes.c_void_p(array.ctypes.data) for array in (samples, results, empty))
        size = ctypes.c_int64(batch)

        def run() -> Overflow | None:
            self.wait()
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
                self._failed(error)
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
        self.wait()
        self.clear()
        words = self.stream(samples) if len(samples) else np.zeros((0, *self.result), np.uint32)
        self.counters = self.read_counters()
        return words

    def _stream(self, samples: Words, results: Words) -> None:
        self.mark(samples)
        super()._stream(samples, results)
        self.verify(samples, results)

    def mark(self, samples: Words) -> None:
        """Writes the tags of the next samples."""
        first = self.words.tags.take(len(samples))
        tag_words(samples, self.axi.words.input)[...] = tags_from(first, len(samples))

    def verify(self, samples: Words, results: Words) -> None:
        """Raises DeviceError: a result is not of its sample."""
        after = self.axi.words
        try:
            check_tags(self.link.text, tag_words(samples, after.input), tag_words(results, after.output))
        except DeviceError as error:
            with suppress(DeviceError):  # of a link that gives no answer any more
                error.args = (f"{error}{holes_text(self.read_counters())}",)
            raise

    def recover(self) -> None:
        self.words.tags.begin_anew()
        self.held.clear()
        self.link.reset()

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

    def state(self) -> str:
        counted = self.read_counters()
        return (
            f"; {counted.samples_in} samples entered the datapath, {counted.samples_out} results left it, "
            f"{counted.misaligned} were misaligned{holes_text(counted)}"
        )
