"""Links to simulated devices: models that Verilator compiled, in this process."""

from __future__ import annotations

import ctypes
import threading
import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import SHARE, check_count, numbers
from dynagate.base.errors import ArgumentError
from dynagate.design.codec import Words
from dynagate.design.design import DesignRecord
from dynagate.design.files import DesignError
from dynagate.host.links import BatchTiming, DeviceError, DeviceLink, RegisterError, SilenceError
from dynagate.hw.rtl.axi import PER_SAMPLE
from dynagate.hw.rtl.regmap import ADDRESS_BITS, BITS, OKAY, REGISTERS, SLVERR

IDLE_CYCLES = 100_000
"""A simulated device that neither takes nor gives anything for so long is stuck."""

SLICE_MS = 20
"""Simulated time of a stream in ms between two moments at which Python handles Ctrl-C."""

NO_ANSWER = -1
"""Response code of AXI4-Lite and of the harness if there is no response."""

HASH = ("hash_low", "hash_high")
"""Registers that stand for the port `design_hash` of a bare datapath."""


class _Stream(ctypes.Structure):
    """The struct of the same name in sim/harness.cpp."""

    _fields_ = [
        ("source", ctypes.c_void_p),
        ("source_last", ctypes.c_void_p),
        ("sink", ctypes.c_void_p),
        ("sink_last", ctypes.c_void_p),
        *(
            (name, ctypes.c_uint64)
            for name in (
                *("capacity", "in_words", "out_words", "in_sample", "out_sample"),
                *("to_send", "to_receive", "sink_begin", "sent", "received", "quiet", "offering"),
                *("random", "gap", "stall", "first_accept", "last_accept", "first_output", "last_output"),
            )
        ),
    ]


DONE, GOES_ON, IDLE = range(3)
"""Results of a slice that the harness ran."""

PACKETS = 16
"""Number of packets in flight that a simulated device allows."""


class BeatQueue:
    """Beats that wait for the input stream: beat k since the stream was idle is in row k % capacity."""

    def __init__(self, words: int) -> None:
        self.beats = np.zeros((64, words), np.uint32)
        self.last = np.zeros(64, np.uint8)

    def put(self, beats: Words, last: npt.NDArray[np.uint8], stream: _Stream) -> None:
        """Beats and their TLAST behind those that wait."""
        count = len(beats)
        unsent = stream.sent + np.arange(stream.to_send - stream.sent, dtype=np.int64)
        if len(unsent) + count > len(self.last):
            kept = unsent % len(self.last)
            rows, ends = self.beats[kept], self.last[kept]
            capacity = 2 * (len(unsent) + count)
            self.beats, self.last = np.zeros((capacity, beats.shape[1]), np.uint32), np.zeros(capacity, np.uint8)
            self.beats[unsent % capacity], self.last[unsent % capacity] = rows, ends
        first = stream.to_send % len(self.last)
        fits = min(count, len(self.last) - first)
        self.beats[first : first + fits], self.last[first : first + fits] = beats[:fits], last[:fits]
        self.beats[: count - fits], self.last[: count - fits] = beats[fits:], last[fits:]
        stream.source, stream.source_last = self.beats.ctypes.data, self.last.ctypes.data
        stream.capacity, stream.to_send = len(self.last), stream.to_send + count


def checked_pauses(pauses: Any, seed: object) -> tuple[float, float]:
    """Return the probabilities of pauses as floats.

    Args:
        pauses: Two probabilities, 0 to 1, in each cycle: that the source has no data, and that the sink is not ready.
        seed: Seed of the random numbers.

    Returns:
        The two probabilities.

    Raises:
        ArgumentError: `pauses` is not two numbers from 0 to 1, or `seed` is not a whole number from 0 to 2^64 - 1.
    """
    check_count("seed", seed, 2**64 - 1, smallest=0)
    gap, stall = numbers("pauses=", pauses, (2,), SHARE).tolist()
    return gap, stall


class SimulatedLink(DeviceLink):
    """Base class of links to simulations. Raises DesignError if the library is no such model."""

    kind: str
    """Description of the simulation for errors."""
    packet: str | None = None
    """Which result TLAST is on, as design.json has it; None without TLAST."""
    depth = PACKETS

    def __init__(
        self, library: Path, design: DesignRecord, *, pauses: tuple[float, float] = (0.0, 0.0), seed: int = 1
    ) -> None:
        self.text, self.design = library.name, design
        self.gap, self._stall = (round(255 * p) for p in checked_pauses(pauses, seed))
        self._seed = seed
        # held for each call of the library; reentrant, because a signal handler may come between two
        self._lock = threading.RLock()
        self.stream, self._under_way = self.new_stream(), deque[int]()  # samples of packets
        self._in_use = False
        self.slowest = 0
        try:
            self.library = ctypes.CDLL(str(library))
            self._declare()
        except (OSError, AttributeError) as error:
            raise DesignError(f"{library} is not {self.kind}: {error}", code="DG-LINK-050") from None
        self._device: int = self.library.dynagate_open()
        self._end = weakref.finalize(self, self.library.dynagate_close, self._device)
        self._end.atexit = False  # the process frees it

    def allow_cycles(self, cycles: int) -> None:
        self.slowest = cycles

    @property
    def patience(self) -> int:
        """Cycles after which it is stuck."""
        return max(IDLE_CYCLES, self.slowest)

    def _declare(self) -> None:
        device, stream, u64, u32 = ctypes.c_void_p, ctypes.POINTER(_Stream), ctypes.c_uint64, ctypes.c_uint32
        functions: dict[str, tuple[Any, list[Any]]] = {
            "open": (device, []),
            "close": (None, [device]),
            "reset": (None, [device]),
            "in_words": (u64, [device]),
            "out_words": (u64, [device]),
            "run": (ctypes.c_int, [device, stream, u64, u32]),
            **self._own_functions(),
        }
        for name, (result, arguments) in functions.items():
            function = getattr(self.library, f"dynagate_{name}")
            function.restype, function.argtypes = result, arguments

    @abstractmethod
    def _own_functions(self) -> dict[str, tuple[Any, list[Any]]]:
        """Result and arguments by name of what only this model's library has."""

    def new_stream(self) -> _Stream:
        random = (self._seed * 0x9E3779B97F4A7C15 + 1) % 2**64
        return _Stream(in_sample=1, out_sample=1, random=random, gap=self.gap, stall=self._stall)

    @contextmanager
    def opened(self) -> Iterator[int]:
        """The device for one call of the library. What a signal handler closes meanwhile ends after the call."""
        with self._lock:
            if self.closed:
                raise DeviceError(f"the simulated device {self.text} is closed; open it again", code="DG-LINK-051")
            before, self._in_use = self._in_use, True
            try:
                yield self._device
            finally:
                self._in_use = before
                if self.closed and not before:
                    self._end()

    def write(self, samples: Words, results: int | None = None) -> None:
        with self.opened() as device:
            if len(self._under_way) >= self.depth:
                raise DeviceError(
                    f"{self.text} has {self.depth} batches under way; expected their results to be read",
                    code="DG-LINK-052",
                )
            count, beats, words = self._rows("samples", samples, self.library.dynagate_in_words(device))
            if not self._under_way:
                self.stream, self._ring = self.new_stream(), BeatQueue(words)
            self.stream.in_words, self.stream.in_sample = words, beats
            last = np.zeros((count, beats), np.uint8)
            last[slice(None) if self.packet == PER_SAMPLE else slice(-1, None), -1:] = 1
            self._ring.put(samples.reshape(count * beats, words), last.reshape(-1), self.stream)
            if count:
                self._under_way.append(count if results is None else results)

    def _rows(self, name: str, array: Words, words: int) -> tuple[int, ...]:
        """The shape of an array, checked because the library writes past a smaller one."""
        if array.ndim != 3 or array.shape[2] != words:
            raise DeviceError(
                f"{name} are {array.shape}; {self.text} expects (samples, beats, {words}): build the design again",
                code="DG-LINK-053",
            )
        return array.shape

    def read(self, results: Words) -> int:
        if not (results.flags.c_contiguous and results.flags.writeable and results.dtype == np.uint32):
            raise ArgumentError(
                "results cannot be written in one piece; expected a contiguous array of uint32", code="DG-LINK-054"
            )
        with self.opened() as device:
            count, beats, words = self._rows("results", results, self.library.dynagate_out_words(device))
            last = np.zeros((count, beats), np.uint8)
            stream = self.stream
            stream.sink, stream.out_words, stream.out_sample = results.ctypes.data, words, beats
            stream.sink_last = last.ctypes.data
            stream.sink_begin, stream.to_receive = stream.received, stream.received + count * beats
            state = self.library.dynagate_run(device, stream, self.patience, SLICE_MS)
            received = int(stream.received - stream.sink_begin) // beats
            stream.to_receive = stream.received  # nothing is taken until the next call
            expected = self._passed(received, beats)
        if state == IDLE and not received:
            raise SilenceError(f"no beat moved for {self.patience} cycles", code="DG-LINK-055")
        if self.packet is not None and not np.array_equal(last[:received], expected):
            raise DeviceError(
                f"{self.text} set TLAST on another beat than the last of a {self.packet}", code="DG-LINK-056"
            )
        return received

    def _passed(self, received: int, beats: int) -> npt.NDArray[np.uint8]:
        """Takes results from the packets under way, and says where TLAST should have been."""
        last = np.zeros((received, beats), np.uint8)
        end = 0
        while self._under_way and received - end >= self._under_way[0]:
            end += self._under_way.popleft()
            last[end - 1, -1] = 1
        if self._under_way:
            self._under_way[0] -= received - end
        if self.packet == PER_SAMPLE:
            last[:, -1] = 1
        return last

    def reset(self) -> None:
        with self.opened() as device:
            self.library.dynagate_reset(device)
            self.stream = self.new_stream()
            self._under_way.clear()

    def close(self) -> None:
        with self._lock:
            self.closed = True
            if not self._in_use:
                self._end()

    @property
    def transfer(self) -> BatchTiming:
        stream = self.stream
        samples = stream.sent // stream.in_sample
        span = stream.last_accept - stream.first_accept
        return BatchTiming(stream.first_output - stream.first_accept, span / (samples - 1) if samples > 1 else 0.0)


class SimLink(SimulatedLink):
    """Link to a simulated datapath without a shell: each payload of integers is one beat. Its only registers are the
    two halves of the design's hash.
    """

    kind = "a simulated datapath"

    def _own_functions(self) -> dict[str, tuple[Any, list[Any]]]:
        return {"hash": (ctypes.c_uint64, [ctypes.c_void_p])}

    def read_register(self, address: int) -> int:
        halves = {REGISTERS[name].address: k for k, name in enumerate(HASH)}
        if address not in halves:
            raise self._no_register(f"0x{address:02X}")
        with self.opened() as device:
            return int(self.library.dynagate_hash(device) >> BITS * halves[address] & (1 << BITS) - 1)

    def write_register(self, address: int, value: int) -> None:
        raise self._no_register(f"0x{address:02X} that can be written")

    def _no_register(self, which: str) -> RegisterError:
        addresses = " and ".join(f"{name} at 0x{REGISTERS[name].address:02X}" for name in HASH)
        return RegisterError(
            f"a bare datapath has no register at {which}, only {addresses}; expected a design built with axi=Axi(...) "
            "and opened with shell=True",
            code="DG-LINK-057",
        )


class SimShellLink(SimulatedLink):
    """Link to a simulated accelerator: float32 words on AXI4-Stream, registers on AXI4-Lite."""

    kind = "a simulated accelerator"
    packet: str
    """Which result TLAST is on, as design.json has it."""

    def __init__(self, library: Path, design: DesignRecord, **options: Any) -> None:
        if design.axi is None:
            raise DesignError(
                f"{design.title} has no AXI shell; expected a build with axi=Axi(...)", code="DG-LINK-058"
            )
        self.packet = design.axi.last
        super().__init__(library, design, **options)

    def _own_functions(self) -> dict[str, tuple[Any, list[Any]]]:
        u64, u32 = ctypes.c_uint64, ctypes.c_uint32
        value = ctypes.POINTER(u32)
        return {"access": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(_Stream), u32, u32, value, u64])}

    def read_register(self, address: int) -> int:
        return self._access(address, 0, write=False)

    def write_register(self, address: int, value: int) -> None:
        self._access(address, value, write=True)

    def _access(self, address: int, value: int, *, write: bool) -> int:
        which = f"{'writing' if write else 'reading'} address 0x{address:02X} of {self.text}"
        if address % 4 or not 0 <= address < 1 << ADDRESS_BITS:
            raise RegisterError(f"{which}; expected a multiple of 4 below 0x{1 << ADDRESS_BITS:X}", code="DG-LINK-059")
        if not 0 <= value < 1 << BITS:
            raise RegisterError(f"{which}: {value}; expected {BITS} bits", code="DG-LINK-060")
        word = ctypes.c_uint32(value)
        with self.opened() as device:
            response = self.library.dynagate_access(device, self.stream, write, address, word, IDLE_CYCLES)
        if response == NO_ANSWER:
            raise RegisterError(f"{which} was not answered in {IDLE_CYCLES} cycles", code="DG-LINK-061")
        if response != OKAY:
            answer = "SLVERR" if response == SLVERR else f"response {response}"
            why = "a register that can be written" if write else "an address that a register has"
            raise RegisterError(f"{which} was answered with {answer}; expected {why}", code="DG-LINK-062")
        return word.value
