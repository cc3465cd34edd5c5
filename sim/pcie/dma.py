"""A PCIe endpoint with a descriptor DMA, modeled on XDMA (PG195), between a simulated link and AXI ports of RTL.

The transaction layer is cocotbext-pcie's own `MemoryEndpoint`, in Python: its model of the UltraScale+ hard IP, at the
level of that IP's pins, does not run on Verilator. So TLPs, tags, credits, link rate and descriptors are simulated; the
hard IP and XDMA's own RTL are not. The AXI ports are those of the Verilated accelerator, a beat a cycle.

BAR 0 is the accelerator's AXI4-Lite registers, BAR 1 the DMA's, at XDMA's addresses:

========  =========================================================================================
0x0000    H2C channel 0: host memory to s_axis
0x1000    C2H channel 0: m_axis to host memory
0x3000    configuration: 0x3000 identifier, 0x3004 refused accesses of either BAR
0x4000    descriptors of H2C: 0x80 address, 0x84 its upper half, 0x88 adjacent descriptors
0x5000    descriptors of C2H
+0x04     channel control, bit 0 runs it
+0x40     channel status, bits of `DmaStatus`
+0x48     descriptors completed
+0x88     where in host memory the count is written back (0x8C its upper half); bit 31 says error
========  =========================================================================================
"""

from __future__ import annotations

import enum
import struct
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

import cocotb
from cocotb.queue import Queue
from cocotb.task import Task, current_task
from cocotb.triggers import Event, SimTimeoutError, with_timeout
from cocotb.utils import get_sim_steps, get_sim_time
from cocotbext.axi import AxiLiteMaster, AxiResp
from cocotbext.axi.stream import define_stream
from cocotbext.pcie.core import MemoryEndpoint
from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpType
from dynagate.base.errors import Error

BeatBus, Beat, BeatSource, BeatSink, BeatMonitor = define_stream("Beat", signals=["tdata", "tlast", "tvalid", "tready"])
"""AXI4-Stream by beats. cocotbext-axi's AxiStreamSource needs complete frames, so a batch could not begin before its
end.
"""

USER, DMA = 0, 1
"""Numbers of the BARs: the accelerator's registers, and the DMA's."""
SIZE = 1 << 16
"""Bytes of each BAR."""
H2C, C2H, CONFIGURATION, DESCRIPTORS = 0x0000, 0x1000, 0x3000, 0x4000
"""Addresses in the DMA's BAR: channels, configuration, and descriptors."""
CONTROL, STATUS, COMPLETED, WRITE_BACK = 0x04, 0x40, 0x48, 0x88
"""Addresses of a channel's registers."""
FIRST, ADJACENT = 0x80, 0x88
"""Addresses of the registers for the first descriptor."""
IDENTIFIER = 0x1FC00006
"""Value of the identifier registers."""
REFUSED = 0x04
"""Address, in the configuration, of the count of refused accesses."""
RUN = 1 << 0
"""Control bit that starts a channel."""
MAGIC, RESULT_MAGIC = 0xAD4B, 0x52B4
"""Marks of a descriptor, and of the length that is written back for a result."""
STOP, NOTIFY, LAST = 1 << 0, 1 << 1, 1 << 4
"""Control bits of a descriptor: last of the list; write the count back; last of a packet."""
WRITE_BACK_ERROR = 1 << 31
"""Bit of the written count that reports an error."""
TAGS = 64
"""Number of tags: of read requests under way."""
BUFFER = 32 * 1024
"""Bytes of H2C that may be requested and not yet sent to the stream."""
TIMEOUT_NS = 10_000
"""Time in ns without a request or completion on the link after which a read has timed out.

While the link is busy, the completion may wait behind others: those of a full buffer take 32 µs at 1 GB/s.
"""
PAGE = 4096
"""Bytes of a page of host memory."""


class DmaStatus(enum.IntFlag):
    """Bits of a channel's status at XDMA's positions; the time-out bits are our own."""

    BUSY = 1 << 0
    STOPPED = 1 << 1
    WRONG_MAGIC = 1 << 4
    INVALID_LENGTH = 1 << 5
    READ_UNSUPPORTED = 1 << 9
    READ_ABORTED = 1 << 10
    READ_POISONED = 1 << 12
    READ_UNEXPECTED = 1 << 13
    DESCRIPTOR_UNSUPPORTED = 1 << 19
    DESCRIPTOR_ABORTED = 1 << 20
    DESCRIPTOR_POISONED = 1 << 22
    DESCRIPTOR_UNEXPECTED = 1 << 23
    READ_TIMEOUT = 1 << 24
    DESCRIPTOR_TIMEOUT = 1 << 25


OF_DESCRIPTOR = {
    DmaStatus.READ_UNSUPPORTED: DmaStatus.DESCRIPTOR_UNSUPPORTED,
    DmaStatus.READ_ABORTED: DmaStatus.DESCRIPTOR_ABORTED,
    DmaStatus.READ_POISONED: DmaStatus.DESCRIPTOR_POISONED,
    DmaStatus.READ_UNEXPECTED: DmaStatus.DESCRIPTOR_UNEXPECTED,
    DmaStatus.READ_TIMEOUT: DmaStatus.DESCRIPTOR_TIMEOUT,
}
"""Status bit of a failed read of descriptors, by the bit of a failed read of data."""


class DmaError(Error, RuntimeError):
    """A channel cannot continue; its status gets the bit."""

    def __init__(self, status: DmaStatus) -> None:
        super().__init__(status.name, code="DG-PCIE-001")
        self.status = status


class AccessError(Error, RuntimeError):
    """A BAR has no register at an address, or the accelerator refused the access."""


DESCRIPTOR = struct.Struct("<IIQQQ")
"""Binary layout of a descriptor."""


class Descriptor(NamedTuple):
    """A descriptor of a transfer."""

    control: int
    """Control bits."""
    adjacent: int
    """Number of descriptors that follow it in the same page."""
    length: int
    """Bytes of data."""
    source: int
    """Host address of the data to read; for C2H, the address that length and mark are written back to."""
    destination: int
    """Host address that data is written to."""
    next: int
    """Host address of the next descriptor."""

    def packed(self) -> bytes:
        """Return the bytes of the descriptor."""
        head = MAGIC << 16 | self.adjacent << 8 | self.control
        return DESCRIPTOR.pack(head, self.length, self.source, self.destination, self.next)

    @classmethod
    def unpacked(cls, data: bytes) -> Descriptor:
        """Return the descriptor in 32 bytes.

        Raises:
            DmaError: The mark is missing, or the length is not a number of 32-bit words.
        """
        head, length, source, destination, following = DESCRIPTOR.unpack(data)
        if head >> 16 != MAGIC:
            raise DmaError(DmaStatus.WRONG_MAGIC)
        if length == 0 or length % 4:
            raise DmaError(DmaStatus.INVALID_LENGTH)
        return cls(head & 0xFF, head >> 8 & 0x3F, length, source, destination, following)


class Read:
    """A memory read request under way.

    data: bytes that have arrived, in the order of addresses. of, final: descriptor that the request belongs to, and
    whether it is the last of it.
    """

    def __init__(self, address: int, length: int, of: Descriptor | None = None, final: bool = True) -> None:
        self.address, self.length, self.of, self.final = address, length, of, final
        self.data = bytearray()
        self.left = length
        self.error: DmaStatus | None = None
        self.progress = Event()
        self.activity: Activity | None = None

    def accept(self, completion: Tlp) -> None:
        """Handle a completion. After an error, data is dropped, but later completions with the same tag are counted."""
        error = self._error_of(completion)
        self.left = self.left - completion.length * 4 if completion.status == CplStatus.SC else 0
        self.error = self.error or error
        if self.error is None:
            self.data += completion.get_data()
        self.progress.set()

    def _error_of(self, completion: Tlp) -> DmaStatus | None:
        """Return the status bit of a failed completion; None if it is correct."""
        if completion.status != CplStatus.SC:
            return DmaStatus.READ_UNSUPPORTED if completion.status == CplStatus.UR else DmaStatus.READ_ABORTED
        if completion.ep:
            return DmaStatus.READ_POISONED
        expected = (self.left, (self.address + self.length - self.left) & 0x7F)
        if (completion.byte_count, completion.lower_address) != expected:
            return DmaStatus.READ_UNEXPECTED
        return None

    @property
    def answered(self) -> bool:
        """Return whether all completions have arrived."""
        return self.left <= 0

    async def more_than(self, count: int) -> bytes:
        """Wait for data after the first `count` bytes and return it. Raise DmaError if the read failed."""
        assert self.activity is not None, "a read that was not requested"
        while len(self.data) <= count:
            if self.error is not None:
                raise DmaError(self.error)
            left = self.activity.time_left()
            if left <= 0:
                raise DmaError(DmaStatus.READ_TIMEOUT)
            self.progress.clear()
            with suppress(SimTimeoutError):
                await with_timeout(self.progress.wait(), left, "step")
        return bytes(self.data[count:])


class Activity:
    """Time of the latest traffic on the link, for time-outs."""

    def __init__(self) -> None:
        self.sending = False
        """Whether a request is on its way to the link, or waits for space there."""
        self.limit = get_sim_steps(TIMEOUT_NS, "ns")
        self.latest = 0
        """Time of the latest request or completion, in steps of the simulation."""

    def note(self) -> None:
        """Record a request or completion."""
        self.latest = get_sim_time("step")

    def time_left(self) -> int:
        """Return the simulation steps until a read without completion times out; 0 or less if it has."""
        return self.limit if self.sending else self.latest + self.limit - get_sim_time("step")


class Room:
    """Free bytes of a buffer: reserved when they are requested, returned when the data has left."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.change = Event()

    async def take(self, count: int) -> None:
        while self.left < count:
            self.change.clear()
            await self.change.wait()
        self.left -= count

    def give_back(self, count: int) -> None:
        """Return bytes."""
        self.left += count
        self.change.set()


class DmaEndpoint(MemoryEndpoint):
    """The PCIe function with both channels. source, sink: a `BeatSource` and a `BeatSink`. lite: manager of the
    registers.
    """

    def __init__(self, source: Any, sink: Any, lite: AxiLiteMaster) -> None:
        super().__init__()
        self.vendor_id, self.device_id = 0x10EE, 0x9038
        self.tag_count = TAGS
        self.lite = lite
        self.refused = 0
        self.reads: dict[int, Read] = {}
        self.outbox: Queue[Tlp] = Queue(4)
        self.activity = Activity()
        self.accesses: Queue[Tlp] = Queue()
        self.channels = {H2C: ToCard(self, source), C2H: FromCard(self, sink)}
        self.add_mem_region(SIZE, self._read_user, self._write_user)
        self.add_mem_region(SIZE, self._read_dma, self._write_dma)
        cocotb.start_soon(self._send())
        cocotb.start_soon(self._serve())

    @property
    def max_payload(self) -> int:
        """Return the largest payload in bytes."""
        return 128 << self.pcie_cap.max_payload_size

    @property
    def max_read_request(self) -> int:
        """Return the largest read request in bytes."""
        return 128 << self.pcie_cap.max_read_request_size

    async def request(self, read: Read) -> Read:
        """Send a read request, which must not cross a page. Its tag is free again after its last completion."""
        tlp = Tlp()
        tlp.fmt_type = TlpType.MEM_READ_64 if read.address >> 32 else TlpType.MEM_READ
        tlp.requester_id = self.pcie_id
        tlp.set_addr_be(read.address, read.length)
        tlp.tag = await self.alloc_tag()
        self.reads[tlp.tag] = read
        read.activity = self.activity
        await self.outbox.put(tlp)
        self.activity.note()
        return read

    async def write(self, address: int, data: bytes) -> None:
        """Send a memory write, which must not cross a page or exceed the largest payload."""
        tlp = Tlp()
        tlp.fmt_type = TlpType.MEM_WRITE_64 if address >> 32 else TlpType.MEM_WRITE
        tlp.requester_id = self.pcie_id
        tlp.set_addr_be_data(address, data)
        await self.outbox.put(tlp)

    async def _send(self) -> None:
        """Send queued requests, one after the other, so that stopping a channel never cuts a request."""
        while True:
            tlp = await self.outbox.get()
            self.activity.sending = True
            await self.send(tlp)
            self.activity.sending = False
            self.activity.note()

    async def handle_tlp(self, tlp: Tlp) -> None:
        if not tlp.is_completion():
            self.accesses.put_nowait(tlp)
            return
        tlp.release_fc()
        self.activity.note()
        read = self.reads.get(tlp.tag)
        if read is None:
            self.channels[H2C].fail(DmaStatus.READ_UNEXPECTED)
            return
        read.accept(tlp)
        if read.answered:
            del self.reads[tlp.tag]
            self.release_tag(tlp.tag)

    async def _serve(self) -> None:
        """Answer accesses of the BARs, one after the other. Completions of our own reads do not wait for them."""
        while True:
            tlp = await self.accesses.get()
            try:
                await super().handle_tlp(tlp)
            except AccessError:
                self.refused += 1
                if tlp.is_nonposted():
                    await self.send(Tlp.create_ur_completion_for_tlp(tlp, self.pcie_id))

    async def _read_user(self, address: int, length: int) -> bytes:
        answer = await self.lite.read(address, length)
        if answer.resp != AxiResp.OKAY:
            raise AccessError(f"the accelerator refused a read at 0x{address:X}", code="DG-PCIE-002")
        return answer.data

    async def _write_user(self, address: int, data: bytes) -> None:
        if (await self.lite.write(address, data)).resp != AxiResp.OKAY:
            raise AccessError(f"the accelerator refused a write at 0x{address:X}", code="DG-PCIE-003")

    async def _read_dma(self, address: int, length: int) -> bytes:
        block, register = address & 0xF000, address & 0xFFF
        values: dict[int, int] = {}
        if block in self.channels:
            values = self.channels[block].registers()
        elif block == CONFIGURATION:
            values = {0: IDENTIFIER | 3 << 16, REFUSED: self.refused}
        if length != 4 or register not in values:
            raise AccessError(f"no register of {length} bytes to read at 0x{address:X}", code="DG-PCIE-004")
        return values[register].to_bytes(4, "little")

    async def _write_dma(self, address: int, data: bytes) -> None:
        block, register = address & 0xF000, address & 0xFFF
        channel = self.channels.get(block) or self.channels.get(block - DESCRIPTORS)
        if channel is None or len(data) != 4:
            raise AccessError(f"no register of {len(data)} bytes to write at 0x{address:X}", code="DG-PCIE-005")
        value = int.from_bytes(data, "little")
        if block in self.channels and register == CONTROL:
            channel.control(value)
        elif not channel.write_address(register, value, of_descriptors=block not in self.channels):
            raise AccessError(f"register 0x{register:X} of a channel cannot be written", code="DG-PCIE-006")


class Channel(ABC):
    """One direction of the DMA. Descriptors are fetched ahead; subclasses move the data."""

    target = 0
    """Number of the channel in the identifier register: 0 for H2C, 1 for C2H."""

    def __init__(self, endpoint: DmaEndpoint, stream: Any) -> None:
        self.endpoint, self.stream = endpoint, stream
        self.beat = len(stream.bus.tdata) // 8
        self.status = DmaStatus(0)
        self.completed = 0
        self.running = 0
        self.addresses = {"descriptors": 0, "count": 0, "adjacent": 0}
        self.tasks: list[Task[None]] = []

    def registers(self) -> dict[int, int]:
        """Return the values of the channel's registers, by address."""
        return {
            0: IDENTIFIER | self.target << 16 | 1 << 15,
            CONTROL: self.running,
            STATUS: int(self.status),
            COMPLETED: self.completed,
        }

    def write_address(self, register: int, value: int, *, of_descriptors: bool) -> bool:
        """Write a register that holds an address. Return whether there is such a register."""
        if of_descriptors and register == ADJACENT:
            self.addresses["adjacent"] = value
            return True
        name, low = ("descriptors", FIRST) if of_descriptors else ("count", WRITE_BACK)
        if register not in (low, low + 4):
            return False
        shift = 32 * (register == low + 4)
        kept = self.addresses[name] & ~(0xFFFFFFFF << shift)
        self.addresses[name] = kept | value << shift
        return True

    def control(self, value: int) -> None:
        """Start with counts and status cleared, or stop and drop the beats that wait in the DMA."""
        self._halt()
        if not value & RUN:
            self.discard()
            return
        self.running = RUN
        self.status, self.completed = DmaStatus.BUSY, 0
        self.descriptors: Queue[Descriptor] = Queue(64)
        for work in (self._fetch(), *self.work()):
            self.tasks.append(cocotb.start_soon(self._guarded(work)))

    @abstractmethod
    def work(self) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that run concurrently with the fetching of descriptors."""

    @abstractmethod
    def discard(self) -> None:
        """Drop the beats that wait in the DMA."""

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except DmaError as error:
            self.fail(error.status)

    def fail(self, status: DmaStatus) -> None:
        """Stop immediately and report an error to the host."""
        self._halt()
        self.status |= status
        cocotb.start_soon(self._write_count(WRITE_BACK_ERROR))

    def _halt(self) -> None:
        """Cancel the channel's tasks."""
        for task in self.tasks:
            if task is not current_task() and not task.done():
                task.cancel()
        self.tasks.clear()
        self.running, self.status = 0, self.status & ~DmaStatus.BUSY

    async def _fetch(self) -> None:
        """Fetch as many adjacent descriptors at once as possible."""
        address, adjacent = self.addresses["descriptors"], self.addresses["adjacent"]
        while True:
            count = min(adjacent + 1, (PAGE - address % PAGE) // DESCRIPTOR.size)
            length = min(count * DESCRIPTOR.size, self.endpoint.max_read_request)
            read = await self.endpoint.request(Read(address, length))
            data = b""
            try:
                while len(data) < length:
                    data += await read.more_than(len(data))
            except DmaError as error:
                raise DmaError(OF_DESCRIPTOR[error.status]) from None
            for low in range(0, length, DESCRIPTOR.size):
                descriptor = Descriptor.unpacked(data[low : low + DESCRIPTOR.size])
                await self.descriptors.put(descriptor)
                if descriptor.control & STOP:
                    return
            address, adjacent = descriptor.next, descriptor.adjacent

    async def complete(self, descriptor: Descriptor) -> None:
        """Count a descriptor as completed, then write the count back or stop the channel if its control bits say so."""
        self.completed += 1
        if descriptor.control & NOTIFY:
            await self._write_count()
        if descriptor.control & STOP:
            self._halt()
            self.status |= DmaStatus.STOPPED

    async def _write_count(self, mark: int = 0) -> None:
        if self.addresses["count"]:
            await self.endpoint.write(self.addresses["count"], (self.completed | mark).to_bytes(4, "little"))


class ToCard(Channel):
    """The H2C channel: read requests run ahead of the stream by up to BUFFER bytes.

    Completions arrive in any order of their tags, and leave in the order of addresses.
    """

    target = 0

    def work(self) -> list[Coroutine[Any, Any, None]]:
        self.room = Room(BUFFER)
        self.order: Queue[Read] = Queue()
        return [self._request(), self._feed()]

    def discard(self) -> None:
        self.stream.clear()

    async def _request(self) -> None:
        while True:
            descriptor = await self.descriptors.get()
            address, end = descriptor.source, descriptor.source + descriptor.length
            while address < end:
                length = min(end - address, self.endpoint.max_read_request - address % self.endpoint.max_read_request)
                await self.room.take(length)
                read = Read(address, length, descriptor, final=address + length == end)
                self.order.put_nowait(await self.endpoint.request(read))
                address += length

    async def _feed(self) -> None:
        pending = b""
        while self.running:
            read = await self.order.get()
            assert read.of is not None
            count = 0
            while count < read.length:
                fresh = await read.more_than(count)
                count += len(fresh)
                ends = bool(read.final and count == read.length and read.of.control & LAST)
                pending = await self._offer(pending + fresh, ends)
                self.room.give_back(len(fresh))
            if read.final:
                await self.complete(read.of)

    async def _offer(self, data: bytes, ends: bool) -> bytes:
        """Send complete beats to the stream, and return the remaining bytes. ends: the last beat ends a packet."""
        if ends and len(data) % self.beat:
            raise DmaError(DmaStatus.INVALID_LENGTH)
        whole = len(data) - len(data) % self.beat
        for low in range(0, whole, self.beat):
            word = int.from_bytes(data[low : low + self.beat], "little")
            last = ends and low + self.beat == whole
            await self.stream.send(Beat(tdata=word, tlast=int(last)))
        return data[whole:]


class FromCard(Channel):
    """The C2H channel: a packet of the stream fills descriptors, and ends the descriptor in which it ends."""

    target = 1

    def work(self) -> list[Coroutine[Any, Any, None]]:
        return [self._drain()]

    def discard(self) -> None:
        while not self.stream.empty():
            self.stream.recv_nowait()

    async def _drain(self) -> None:
        pending, ended = b"", False
        while self.running:
            descriptor = await self.descriptors.get()
            address, end = descriptor.destination, descriptor.destination + descriptor.length
            while address < end and not (ended and not pending):
                size = min(end - address, self.endpoint.max_payload - address % self.endpoint.max_payload)
                while len(pending) < size and not ended:
                    beat = await self.stream.recv()
                    pending += int(beat.tdata).to_bytes(self.beat, "little")
                    ended = bool(int(beat.tlast))
                await self.endpoint.write(address, pending[:size])
                address += min(size, len(pending))
                pending = pending[size:]
            last = ended and not pending
            if descriptor.source:
                mark = RESULT_MAGIC << 16 | last
                await self.endpoint.write(descriptor.source, struct.pack("<II", mark, address - descriptor.destination))
            if last:
                ended = False
            await self.complete(descriptor)
