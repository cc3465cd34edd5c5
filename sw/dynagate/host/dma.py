"""The parts that links through DMA channels share: packets of whole samples, a thread for each direction, and shutdown.

A packet is one transfer into the device, which sets TLAST on its last beat, and the same number of results, which end
with TLAST.
"""

from __future__ import annotations

import secrets
import threading
import time
from abc import abstractmethod
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.design.codec import Words
from dynagate.design.design import AxiStreams, DesignRecord
from dynagate.design.files import DesignError
from dynagate.design.words import beats as beats_of
from dynagate.host.links import DeviceError, DeviceLink, RegisterError, SilenceError
from dynagate.hw.rtl.axi import PER_BATCH
from dynagate.hw.rtl.regmap import BITS, REGISTERS, WRITE

PACKET_BYTES = 1 << 18
"""At most in one transfer: long enough to hide what a transfer costs, short enough for both directions to overlap."""

RECEIVED = 8
"""Packets that wait in the host until they are read. The device waits behind them."""

SLICE_S = 0.02
"""Longest uninterrupted wait in s; after it Python handles Ctrl-C."""

GONE = (1 << BITS) - 1
"""Value that a bus reads if no device answers."""

CONTROL = REGISTERS["control"]
SOFT_RESET = 1 << CONTROL.bits.index("reset")


MOST_STALE = 100_000
"""Transfers, at most, until the result of a marked sample."""

CLOSING_S = 1.0
"""For transfers to end, at most, when the link is closed."""

RETRY_S = 0.0005
"""Until a transfer is tried again that the system did not begin."""


class TimedOut(DeviceError):
    """A transfer did not end in the time that its driver gives it."""


class DmaLink(DeviceLink):
    """Base class of links that move batches by DMA. A transfer blocks a thread until it is done.

    A subclass defines `_send`, `_receive` and the two methods for registers. `_send` and `_receive` are each called
    from a thread of their own.

    Args:
        text: Description of the device for errors.
        design: Record of the design, which must have an AXI shell whose TLAST ends a batch.
        timeout: Seconds without a beat after which the device counts as stuck.
        packet_bytes: Largest number of bytes in a transfer.

    Raises:
        DesignError: The design has no such shell.
        ArgumentError: The timeout is not positive.
    """

    depth = 16
    ends_with_tlast = True
    """Whether a transfer out of the device ends with TLAST, and not only when its buffer is full."""

    def __init__(
        self, text: str, design: DesignRecord, *, timeout: float = 10.0, packet_bytes: int = PACKET_BYTES
    ) -> None:
        self._check_design(design, timeout)
        assert design.axi is not None
        self.text, self.timeout, self._packet_bytes = text, timeout, packet_bytes
        self._is_loaded = design.is_loaded
        self.carry(design.axi)
        self._addresses = {register.address: register.access for register in self.axi.registers.values()}
        self._sender, self._receiver = (ThreadPoolExecutor(1, f"dynagate {name}") for name in ("out", "in"))
        self._jobs: list[Future[None]] = []
        self._changed = threading.Condition()
        self._epoch = 0  # what was begun in another one is dropped
        self._under_way = deque[int]()  # samples of batches whose results nobody has read
        self._received = deque[tuple[Words, Words]]()  # buffers, and the results in them
        self._space = threading.Semaphore(RECEIVED)
        self._fault: BaseException | None = None
        self._moved = time.monotonic()
        self._at_rest = True  # no reset has failed since the last that did not

    @staticmethod
    def _check_design(design: DesignRecord, timeout: float) -> None:
        if design.axi is None:
            raise DesignError(
                f"{design.title} has no AXI shell; expected a build with axi=Axi(...)", code="DG-LINK-006"
            )
        if design.axi.last != PER_BATCH:
            raise DesignError(
                f"{design.title} has TLAST per {design.axi.last}, which DMA does not set; expected a build with "
                "axi=Axi(..., last='batch'), or --tlast batch",
                code="DG-LINK-007",
            )
        if not timeout > 0:
            raise ArgumentError(f"timeout {timeout}; expected seconds above 0", code="DG-LINK-008")

    @abstractmethod
    def _send(self, data: memoryview) -> int:
        """A transfer into the device, which ends with TLAST. Returns how many bytes were taken, 0 where it is to be
        tried again. Raises TimedOut, DeviceError."""

    @abstractmethod
    def _receive(self, data: memoryview) -> int:
        """A transfer out of the device, up to TLAST. Returns as `_send`, and raises as it does."""

    @abstractmethod
    def _register(self, address: int, value: int | None) -> int:
        """Read a register, or write it unless the value is None. Raise DeviceError if that fails."""

    def _moves(self) -> bool:
        """Whether part of a packet has moved since the last call."""
        return False

    @abstractmethod
    def _close(self) -> None:
        """Gives back what the subclass holds."""

    def expect(self, beats: int) -> None:
        self._result_beats = beats

    def carry(self, axi: AxiStreams) -> None:
        self.axi = axi
        self._in_bytes, self._out_bytes = (4 * axi.lanes * beats for beats in _sides(axi))
        self._result_beats = axi.beats.output
        self._largest = max(self._packet_bytes // max(self._in_bytes, self._out_bytes), 1)
        self._free: list[Words] = []

    def write(self, samples: Words, results: int | None = None) -> None:
        self._check_results(samples, results)
        self._check()
        count, beats, lanes = samples.shape
        if (beats, lanes) != (self.axi.beats.input, self.axi.lanes):
            raise DeviceError(
                f"samples are {samples.shape}; {self.text} expects (samples, {self.axi.beats.input}, {self.axi.lanes})",
                code="DG-LINK-009",
            )
        if len(self._under_way) >= self.depth:
            raise DeviceError(
                f"{self.text} has {self.depth} batches under way; expected their results to be read", code="DG-LINK-010"
            )
        if not count:
            return
        if not self._at_rest:
            self.reset()
        with self._changed:
            if not self._under_way:
                self._moved = time.monotonic()
            self._under_way.append(count)
            self._jobs = [job for job in self._jobs if not job.done()]
            for first in range(0, count, self._largest):
                packet = np.ascontiguousarray(samples[first : first + self._largest], np.uint32)
                self._jobs += [
                    self._receiver.submit(self._take, self._epoch, len(packet), self._result_beats),
                    self._sender.submit(self._give, self._epoch, packet),
                ]

    def _give(self, epoch: int, packet: Words) -> None:
        try:
            self._send_all(epoch, _bytes(packet))
        except BaseException as error:
            self._fail(epoch, error)

    def _send_all(self, epoch: int, data: memoryview) -> None:
        """Send the samples of a batch. Raise DeviceError if a transfer fails, or ended inside a sample, which TLAST
        then cut.
        """
        sent, since = 0, time.monotonic()
        while sent < len(data) and epoch == self._epoch:
            count = self._send(data[sent:])
            sent, since = sent + count, self._tried(count, since)
            if sent % self._in_bytes:
                raise DeviceError(
                    f"{self.text} took {sent} of {len(data)} bytes, which cuts a sample short", code="DG-LINK-011"
                )

    def _take(self, epoch: int, count: int, beats: int) -> None:
        space = self._space
        while epoch == self._epoch and not space.acquire(timeout=SLICE_S):
            pass
        if epoch != self._epoch:
            return
        try:
            buffer = self._free.pop() if self._free else self._new_results()
            results = buffer.reshape(-1, self.axi.lanes)[: count * beats].reshape(count, beats, self.axi.lanes)
            data = _bytes(results)
            received, since = 0, time.monotonic()
            while received < len(data) and epoch == self._epoch:
                more = self._receive(data[received:])
                received, since = received + more, self._tried(more, since)
            with self._changed:
                if epoch == self._epoch:
                    self._received.append((buffer, results))
                    self._moved = time.monotonic()
                self._changed.notify_all()
        except BaseException as error:
            self._fail(epoch, error)

    def _tried(self, count: int, since: float) -> float:
        """Since when nothing has moved. Raises TimedOut: for too long."""
        now = time.monotonic()
        if count:
            return now
        if now - since > self.timeout:
            raise TimedOut(f"no byte moved for {self.timeout:g} s", code="DG-LINK-012")
        time.sleep(RETRY_S)
        return since

    def _new_results(self) -> Words:
        return self.buffer((self._largest, self.axi.beats.output, self.axi.lanes))

    def _fail(self, epoch: int, error: BaseException) -> None:
        with self._changed:
            if epoch == self._epoch and self._fault is None:
                self._fault = error
            self._changed.notify_all()

    def read(self, results: Words) -> int:
        self._check()
        with self._changed:
            if not self._under_way:
                raise SilenceError("nothing is under way", code="DG-LINK-013")
            if not self._received and self._fault is None:
                self._changed.wait(SLICE_S)
            self._check()
            if not self._received:
                self._complain()
                return 0
            if (shape := self._received[0][1].shape)[1:] != results.shape[1:]:
                raise DeviceError(
                    f"results are {results.shape}; {self.text} expects (results, {shape[1]}, {shape[2]})",
                    code="DG-LINK-014",
                )
            buffer, rows = self._received.popleft()
            count = min(len(rows), len(results))
            results[:count] = rows[:count]
            if count < len(rows):
                self._received.appendleft((buffer, rows[count:]))
            else:
                self._free.append(buffer)
                self._space.release()
            self._under_way[0] -= count
            if not self._under_way[0]:
                self._under_way.popleft()
        return count

    def _complain(self) -> None:
        """Raises what went wrong, where something did."""
        if isinstance(self._fault, TimedOut):
            raise SilenceError(f"{self.text}: {self._fault}", code="DG-LINK-015")
        if self._fault is not None:
            raise self._fault
        if time.monotonic() - self._moved > self.timeout:
            if not self._moves():
                raise SilenceError(f"{self.text} moved no packet for {self.timeout:g} s", code="DG-LINK-016")
            self._moved = time.monotonic()

    def reset(self) -> None:
        """Stop all transfers and empty the device, also after a process that was killed.

        A marked packet is sent, and all results before its answer are dropped. If the device does not come to rest, the
        next `write` resets it first.

        Raises:
            DeviceError: The device does not come to rest.
        """
        self._check()
        self._at_rest = False
        with self._changed:
            self._epoch += 1
            self._under_way.clear()
            self._received.clear()
            self._fault = None
            self._space = threading.Semaphore(RECEIVED)
        deadline = time.monotonic() + 2 * self.timeout
        self._end_transfers(deadline)
        self._resynchronize(deadline)
        self.write_register(CONTROL.address, SOFT_RESET)
        self._at_rest = True

    def _end_transfers(self, deadline: float) -> None:
        """End transfers that are blocked: soft resets end one into the device, results of marked samples one out of it.

        Each wait is twice as long as the last one, since a slow device needs more time for its sample.
        """
        jobs, self._jobs = [job for job in self._jobs if not job.cancel()], []
        count, marked = 1 if self.ends_with_tlast else self._largest, list[Future[None]]()
        patience, until = SLICE_S, 0.0
        while jobs := [job for job in jobs if not job.done()]:
            if (now := time.monotonic()) >= until:
                self.write_register(CONTROL.address, SOFT_RESET)
                if all(sample.done() for sample in marked):
                    marked = [self._sender.submit(self._send_marked, 0, count)]
                patience, until = 2 * patience, now + patience
            wait([*jobs, *marked], SLICE_S)
            if time.monotonic() > deadline:
                self._jobs = jobs
                raise DeviceError(
                    f"{self.text} did not come to rest in {2 * self.timeout:g} s: load its design again",
                    code="DG-LINK-017",
                )

    def _send_marked(self, tag: int, count: int = 1) -> None:
        with suppress(DeviceError):  # its result will be missing
            self._send_all(self._epoch, _bytes(self._marked(tag, count)))

    def _marked(self, tag: int, count: int) -> Words:
        """Return packets that the device answers with a tag: samples of zeros, or messages of zeros for a core.

        A core answers messages that do nothing even if it has no program, or one whose samples have another length.
        """
        if not self._is_loaded:
            words, width = np.zeros(self.axi.words.input, np.uint32), self.axi.beats.input
        else:
            from dynagate.hw.processor.isa.packets import packed_messages

            words = packed_messages(np.zeros((1, 2), np.uint32), 1)[0]
            width = beats_of(len(words), self.axi.width)
        packets = np.zeros((count, width, self.axi.lanes), np.uint32)
        packets.reshape(count, -1)[:, : len(words) + 1] = [*words, tag]
        return packets

    def _answer_beats(self) -> int:
        """Return the number of beats of the answer to a marked packet."""
        return beats_of(1, self.axi.width) if self._is_loaded else self._result_beats

    def _resynchronize(self, deadline: float) -> None:
        results = self._free.pop() if self._free else self._new_results()
        words = results.reshape(-1)
        while time.monotonic() < deadline:
            self.write_register(CONTROL.address, SOFT_RESET)
            tag = secrets.randbits(BITS)
            self._sender.submit(self._send_marked, tag)
            if self._receiver.submit(self._finds, words, tag).result():
                self._free.append(results)
                return
        raise DeviceError(
            f"{self.text} gave no result for a marked sample in {2 * self.timeout:g} s after a reset",
            code="DG-LINK-018",
        )

    def _finds(self, words: Words, tag: int) -> bool:
        """Receive until the answer to a marked packet comes, which is one packet, and return whether it came. Each
        transfer has the length of that packet, since drivers may report wrong lengths of transfers that TLAST ended
        early.
        """
        lanes = self.axi.lanes
        data = _bytes(words[: lanes * (self._answer_beats() if self.ends_with_tlast else 1)])
        since = time.monotonic()
        try:
            for _ in range(MOST_STALE):
                count = self._receive(data)
                since = self._tried(count, since)
                if count and tag in words[count // 4 - lanes : count // 4]:  # the last beat, in whichever layout
                    return True
        except TimedOut:
            pass
        return False

    def read_register(self, address: int) -> int:
        self._check_register(address)
        value = self._register(address, None)
        if value == GONE and self._register(REGISTERS["identity"].address, None) == GONE:
            raise DeviceError(
                f"{self.text} does not answer (all bits read as 1): it was unplugged or lost its design",
                code="DG-LINK-019",
            )
        return value

    def write_register(self, address: int, value: int) -> None:
        self._check_register(address)
        if self._addresses[address] != WRITE:
            raise RegisterError(
                f"writing address 0x{address:02X} of {self.text}, which is read-only", code="DG-LINK-020"
            )
        if not 0 <= value < 1 << BITS:
            raise RegisterError(
                f"writing address 0x{address:02X} of {self.text}: {value}; expected {BITS} bits", code="DG-LINK-021"
            )
        self._register(address, value)

    def _check_register(self, address: int) -> None:
        self._check()
        if address not in self._addresses:
            raise RegisterError(
                f"no register at address 0x{address:02X} of {self.text}; expected one of 0x00 to "
                f"0x{max(self._addresses):02X}, each at a multiple of 4",
                code="DG-LINK-022",
            )

    def _check(self) -> None:
        if self.closed:
            raise DeviceError(f"{self.text} is closed; open it again", code="DG-LINK-023")

    def close(self) -> None:
        if self.closed:
            return
        self._epoch += 1
        with suppress(DeviceError):  # else a transfer would hold the process for as long as its driver waits
            self._end_transfers(time.monotonic() + CLOSING_S)
        self.closed = True
        for pool in (self._sender, self._receiver):
            pool.shutdown(wait=False, cancel_futures=True)
        self._close()


def _bytes(words: Words) -> memoryview:
    return memoryview(words.reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def _sides(axi: AxiStreams) -> tuple[int, int]:
    return axi.beats.input, axi.beats.output
