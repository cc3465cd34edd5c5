"""A link over a serial port, to an accelerator behind `hw.rtl.uart`: the frames of `hw.rtl.frames`, by pyserial."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import serial

from dynagate.base.errors import ArgumentError
from dynagate.design.codec import Words
from dynagate.design.design import AxiStreams, DesignRecord
from dynagate.design.files import DesignError
from dynagate.design.words import WORD
from dynagate.host.links import DeviceError, DeviceLink, RegisterError, SilenceError
from dynagate.hw.rtl.frames import ANSWER, BAUD, NUMBERS, VERSION, Decoder, FrameKind, Refusal, SerialFrame
from dynagate.hw.rtl.regmap import ADDRESS_BITS, BITS, OKAY, SLVERR

TIMEOUT = 1.0
"""Seconds after which a device that owes an answer is stuck."""
SLICE = 0.02
"""Seconds of a stream at a time: after it Python hears of Ctrl-C."""


class UartLink(DeviceLink):
    """Link to an accelerator on a serial port.

    Samples are sent while results are read, but no more than the device can store. After an error, such as damaged or
    lost bytes, `reset` restores the connection.

    Args:
        path: Path of the port, such as /dev/ttyUSB0 or COM4.
        design: Record of the design.
        baud: Bits per second of the line, which the bitstream fixes.
        timeout: Seconds without an answer after which the device counts as stuck.

    Raises:
        DeviceError: The port is missing, busy or not accessible, or nothing answers.
        DesignError: The design has no shell with streams of 32 bits, or the device uses another version of the frames.
    """

    def __init__(self, path: str, design: DesignRecord, *, baud: int = BAUD, timeout: float = TIMEOUT) -> None:
        if design.axi is None or design.axi.width != WORD:
            raise DesignError(
                f"{design.title} has no AXI shell of {WORD} bits; expected a build with axi=Axi({WORD})",
                code="DG-LINK-069",
            )
        self.text, self._path, self._baud, self._timeout = path, path, baud, timeout
        self._beats = design.axi.beats
        self._result_beats = self._beats.output
        # held for each use of the port; reentrant, because a signal handler may come between two
        self._lock = threading.RLock()
        self._port: serial.Serial | None = None
        self._tag = 0
        self._begin()
        try:
            self.reset()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """No batch, and nothing under way."""
        self._decoder = Decoder()
        self._answers: dict[tuple[int, int], SerialFrame] = {}  # by kind and number
        self._samples = b""
        self._first = 0  # of the batch, among the samples since the last reset; so the others are counted too
        self._count = self._sent = self._received = 0
        self._results: list[bytes] = []  # received, and not read yet
        self._fault: str | None = None
        self._heard = time.monotonic()

    # streams

    def expect(self, beats: int) -> None:
        self._result_beats = beats

    def carry(self, axi: AxiStreams) -> None:
        self._beats, self._result_beats = axi.beats, axi.beats.output

    def write(self, samples: Words, results: int | None = None) -> None:
        self._check_results(samples, results)
        with self._opened():
            if self._received < self._count or self._results:
                raise DeviceError(f"{self.text} streams already; expected one batch at a time", code="DG-LINK-070")
            if samples.ndim != 3 or samples.shape[1:] != (self._beats.input, 1):
                raise DeviceError(
                    f"samples are {samples.shape}; {self.text} expects (samples, {self._beats.input}, 1)",
                    code="DG-LINK-071",
                )
            self._samples = np.ascontiguousarray(samples, dtype="<u4").tobytes()
            self._first, self._count = self._count, self._count + len(samples)
            self._heard = time.monotonic()

    def read(self, results: Words) -> int:
        if not (results.flags.c_contiguous and results.flags.writeable and results.dtype == np.uint32):
            raise ArgumentError(
                "results cannot be written in one piece; expected a contiguous array of uint32", code="DG-LINK-072"
            )
        with self._opened():
            if results.ndim != 3 or results.shape[1:] != (self._result_beats, 1):
                raise DeviceError(
                    f"results are {results.shape}; {self.text} expects (results, {self._result_beats}, 1)",
                    code="DG-LINK-073",
                )
            end = time.monotonic() + SLICE
            while len(self._results) < len(results) and time.monotonic() < end:
                self._exchange()
                if self._fault is not None:
                    break
            count = min(len(self._results), len(results))
            for row, words in zip(results, self._results[:count], strict=False):
                row[:, 0] = np.frombuffer(words, dtype="<u4")
            del self._results[:count]
            if not count and self._fault is not None:
                raise DeviceError(f"{self.text}: {self._fault}", code="DG-LINK-074")
            if not count and self._received == self._count:
                raise SilenceError(f"no result is under way on {self.text}", code="DG-LINK-075")
            if not count and time.monotonic() - self._heard > self._timeout:
                raise SilenceError(f"nothing came from {self.text} for {self._timeout:g} s", code="DG-LINK-076")
            return count

    # registers

    def read_register(self, address: int) -> int:
        return int.from_bytes(self._access(FrameKind.READ, address, 0).payload, "little")

    def write_register(self, address: int, value: int) -> None:
        self._access(FrameKind.WRITE, address, value)

    def _access(self, kind: FrameKind, address: int, value: int) -> SerialFrame:
        which = f"{'writing' if kind == FrameKind.WRITE else 'reading'} address 0x{address:02X} of {self.text}"
        if address % 4 or not 0 <= address < 1 << ADDRESS_BITS:
            raise RegisterError(f"{which}; expected a multiple of 4 below 0x{1 << ADDRESS_BITS:X}", code="DG-LINK-077")
        if not 0 <= value < 1 << BITS:
            raise RegisterError(f"{which}: {value}; expected {BITS} bits", code="DG-LINK-078")
        payload = value.to_bytes(4, "little") if kind == FrameKind.WRITE else b""
        with self._opened():
            answer = self._ask(kind, address, payload)
        if answer is None:
            raise RegisterError(f"{which} was not answered in {self._timeout:g} s", code="DG-LINK-079")
        if answer.argument != OKAY or len(answer.payload) != 4 * (kind == FrameKind.READ):
            said = "SLVERR" if answer.argument == SLVERR else f"response {answer.argument}"
            why = "a register that can be written" if kind == FrameKind.WRITE else "an address that a register has"
            raise RegisterError(f"{which} was answered with {said}; expected {why}", code="DG-LINK-080")
        return answer

    def _ask(self, kind: FrameKind, argument: int = 0, payload: bytes = b"") -> SerialFrame | None:
        """Send a request and return the answer; None if no answer comes in time."""
        self._tag = (self._tag + 1) % NUMBERS
        key = kind | ANSWER, self._tag
        self._put(SerialFrame(kind, argument, self._tag, payload).encoded())
        end = time.monotonic() + self._timeout
        while key not in self._answers and time.monotonic() < end:
            self._exchange()
        return self._answers.pop(key, None)

    # the whole device

    def reset(self) -> None:
        with self._lock:
            self._check_open()
            if self._port is None:
                self._port = self._new_port()
            try:
                self._port.reset_input_buffer()
                self._port.reset_output_buffer()
            except OSError as error:
                self._lose(error)
            self._begin()
            answer = self._ask(FrameKind.RESET)
            self._begin()  # what came before the answer is of the time before
            if answer is None:
                raise DeviceError(
                    f"nothing on {self.text} answers at {self._baud} baud; expected a board with a bitstream of "
                    "dynagate's and this baud",
                    code="DG-LINK-081",
                )
            version, self._window = (int.from_bytes(answer.payload[k : k + 4], "little") for k in (0, 4))
            if version != VERSION:
                raise DesignError(
                    f"{self.text} speaks frames of version {version}; expected {VERSION}: build it again",
                    code="DG-LINK-082",
                )

    def close(self) -> None:
        with self._lock:
            self.closed = True
            if self._port is not None:
                self._port.close()
                self._port = None

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """The port for one use."""
        with self._lock:
            self._check_open()
            if self._port is None:
                raise DeviceError(f"{self.text} is gone; plug it in and reset it", code="DG-LINK-083")
            yield

    def _check_open(self) -> None:
        if self.closed:
            raise DeviceError(f"the device on {self.text} is closed; open it again", code="DG-LINK-084")

    # the port

    def _new_port(self) -> serial.Serial:
        try:
            return serial.Serial(self._path, self._baud, timeout=SLICE / 4, write_timeout=self._timeout, exclusive=True)
        except ValueError as error:
            raise ArgumentError(f"{self.text} takes no {self._baud} baud: {error}", code="DG-LINK-085") from None
        except OSError as error:  # pyserial's errors are of this kind
            raise DeviceError(f"{self.text} cannot be opened: {_reason(error)}", code="DG-LINK-086") from None

    def _put(self, data: bytes) -> None:
        assert self._port is not None
        try:
            self._port.write(data)
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        """The port is not there any more."""
        port, self._port = self._port, None
        if port is not None:
            port.close()
        raise DeviceError(
            f"{self.text} is gone ({error}): unplugged? plug it in and reset it", code="DG-LINK-087"
        ) from None

    def _exchange(self) -> None:
        """Sends what the device can keep, and takes what has come."""
        size = self._beats.input
        while self._sent < self._count and (self._sent + 1 - self._received) * size <= self._window:
            start = 4 * size * (self._sent - self._first)
            words = self._samples[start : start + 4 * size]
            self._put(SerialFrame(FrameKind.SAMPLE, 0, self._sent % NUMBERS, words).encoded())
            self._sent += 1
        assert self._port is not None
        try:
            data = self._port.read(max(self._port.in_waiting, 1))
        except (OSError, TypeError) as error:  # a port closed from elsewhere
            self._lose(OSError(str(error)))
        for frame in self._decoder.feed(data):
            self._heard = time.monotonic()
            self._note_damage()  # that came before this frame
            self._take(frame)
        self._note_damage()

    def _note_damage(self) -> None:
        if self._decoder.damaged and self._fault is None:
            self._fault = "a frame from the device was damaged on the line; reset it"

    def _take(self, frame: SerialFrame) -> None:
        """A frame from the device."""
        if frame.kind in (FrameKind.READ | ANSWER, FrameKind.WRITE | ANSWER, FrameKind.RESET | ANSWER):
            self._answers = {(frame.kind, frame.number): frame}
        elif frame.kind == FrameKind.REFUSED | ANSWER:
            lost = frame.argument == Refusal.ORDER
            why = "was lost or damaged on the line" if lost else "has another size than the device's"
            sample = self._received + (frame.number - self._received) % NUMBERS - self._first
            self._fault = self._fault or f"sample {sample} {why}; reset it"
        elif frame.kind == FrameKind.SAMPLE | ANSWER:
            result, size = self._received - self._first, 4 * self._result_beats
            if self._received == self._count or frame.number != self._received % NUMBERS:
                self._fault = self._fault or f"a result came that is not result {result}; reset it"
            elif len(frame.payload) != size:
                self._fault = self._fault or (
                    f"result {result} has {len(frame.payload)} bytes, expected {size}; reset it"
                )
            else:
                self._results.append(frame.payload)
                self._received += 1


def _reason(error: OSError) -> str:
    """Return advice about a port that cannot be opened."""
    text = str(error)
    if "lock" in text:
        return "another program uses it; close that"
    if error.errno == 13:
        return "permission denied; join the group that owns it, such as dialout"
    if error.errno == 2:
        return "there is no such port; plug the board in, or name another"
    return text
