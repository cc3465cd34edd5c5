"""The host of the simulated PCIe link: memory behind a root complex, and the part of a driver that the DMA needs."""

from __future__ import annotations

import random
import struct
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

import cocotb
from cocotb.triggers import Event, SimTimeoutError, Timer, with_timeout
from cocotb.utils import get_sim_time
from cocotbext.pcie.core import RootComplex
from cocotbext.pcie.core.tlp import Tlp
from dynagate.sim.pcie.dma import (
    ADJACENT,
    C2H,
    COMPLETED,
    CONTROL,
    DESCRIPTOR,
    DESCRIPTORS,
    DMA,
    FIRST,
    H2C,
    LAST,
    NOTIFY,
    PAGE,
    RESULT_MAGIC,
    RUN,
    STATUS,
    STOP,
    USER,
    WRITE_BACK,
    WRITE_BACK_ERROR,
    Descriptor,
    DmaStatus,
)

LATENCY_NS = (300, 600)
"""Assumed range of the time in ns from a read request at the root complex to its completions, evenly distributed."""
PORT_NS = 50
"""Assumed time in ns from the transaction layer to the wire, at either end."""
ABOVE = 1 << 32
"""Address of the first buffer: above 4 GiB, as on most 64-bit hosts, so that requests have long headers."""
ADJACENT_MOST = 15
"""Largest number of adjacent descriptors that a descriptor announces."""
RINGS = 64
"""Number of rings of one size before the memory of the first is used again.

A late write of the card then reaches no ring in use, and cocotbext-axi, which searches all memory at each access, has
little to search.
"""


class Host(RootComplex):
    """A root complex whose memory answers each read after a random time, so that completions overtake each other.

    The attribute `spoil` is a function that receives every completion with data before it is sent. It may change it, or
    return None to drop it.
    """

    def __init__(self, seed: int, *, max_payload: int, read_request: int, split: bool) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.max_payload_size = (max_payload // 128).bit_length() - 1
        self.max_read_request_size = (read_request // 128).bit_length() - 1
        self.split_on_all_rcb = split
        self.spoil: Callable[[Tlp], Tlp | None] | None = None
        self.written = Event()
        self.unanswered: list[int] = []
        self.completions = self.overtaken = self.largest_write = self.largest_read = 0
        self.requests = 0  # of the device, reads and writes
        self.above = self.mem_address_space.create_pool(ABOVE, ABOVE)
        self.rings: defaultdict[int, deque[Any]] = defaultdict(deque)

    def memory_of_ring(self, size: int) -> Any:
        """Return a memory region of this many bytes."""
        kept = self.rings[size]
        if len(kept) < RINGS:
            kept.appendleft(self.above.alloc_region(size))
        else:
            kept.rotate()
        return kept[0]

    async def handle_mem_read_tlp(self, tlp: Tlp) -> None:
        self.requests += 1
        self.largest_read = max(self.largest_read, tlp.length * 4)
        cocotb.start_soon(self._answer(tlp))

    async def _answer(self, tlp: Tlp) -> None:
        self.unanswered.append(id(tlp))
        await Timer(self.random.randint(*LATENCY_NS), "ns")
        self.overtaken += self.unanswered[0] != id(tlp)
        self.unanswered.remove(id(tlp))
        await super().handle_mem_read_tlp(tlp)

    async def handle_mem_write_tlp(self, tlp: Tlp) -> None:
        self.requests += 1
        self.largest_write = max(self.largest_write, tlp.length * 4)
        await super().handle_mem_write_tlp(tlp)
        self.written.set()

    async def send(self, tlp: Tlp) -> None:
        if tlp.is_completion() and tlp.has_data():
            self.completions += 1
            spoilt = self.spoil(tlp) if self.spoil else tlp
            if spoilt is None:
                return
            tlp = spoilt
        await super().send(tlp)


class Buffer:
    """Host memory with scattered pages, like a user's array. offset: bytes into the first page."""

    def __init__(self, host: Host, size: int, offset: int = 0) -> None:
        region = host.above.alloc_region(-(-(offset + size) // PAGE) * PAGE)
        self.memory, base = region.mem, region.get_absolute_address(0)
        pages = list(range(region.size // PAGE))
        host.random.shuffle(pages)
        self.pieces: list[tuple[int, int]] = []  # place in the region, length
        while size:
            length = min(size, PAGE - offset)
            self.pieces.append((pages[len(self.pieces)] * PAGE + offset, length))
            size, offset = size - length, 0
        self.addresses = [(base + place, length) for place, length in self.pieces]

    def fill(self, data: bytes) -> None:
        """Write data to the buffer."""
        low = 0
        for place, length in self.pieces:
            self.memory[place : place + length] = data[low : low + length]
            low += length

    def content(self) -> bytes:
        """Return the data in the buffer."""
        return b"".join(bytes(self.memory[place : place + length]) for place, length in self.pieces)


class DescriptorRing:
    """Descriptors of one channel, and the memory that the channel writes back to.

    parts: for each transfer, address and length of its pieces of host memory.
    """

    def __init__(self, host: Host, channel: int, parts: Sequence[Sequence[tuple[int, int]]]) -> None:
        self.channel = channel
        self.ends = [sum(map(len, parts[: k + 1])) for k in range(len(parts))]
        count = self.ends[-1]
        self.region = host.memory_of_ring((DESCRIPTOR.size + 8) * count + 64)
        self.base = self.region.get_absolute_address(0)
        self.results = DESCRIPTOR.size * count
        self.count_place = self.results + 8 * count
        self.region.mem[self.results : self.count_place + 4] = bytes(8 * count + 4)
        k = 0
        for pieces in parts:
            for address, length in pieces:
                last = k + 1 in self.ends
                control = (LAST | NOTIFY if last else 0) | (STOP if k + 1 == count else 0)
                following = self.base + DESCRIPTOR.size * (k + 1)
                ends = self._ends_of(k, address)
                self._put(k, Descriptor(control, self.adjacent(k + 1), length, *ends, following))
                k += 1

    def _ends_of(self, k: int, address: int) -> tuple[int, int]:
        """Return source and destination of the k-th descriptor, for data at this address."""
        return (address, 0) if self.channel == H2C else (self.base + self.results + 8 * k, address)

    def adjacent(self, k: int) -> int:
        """Return how many descriptors follow the k-th one in its page."""
        in_page = (PAGE - (self.base + DESCRIPTOR.size * k) % PAGE) // DESCRIPTOR.size
        return max(0, min(in_page, self.ends[-1] - k, ADJACENT_MOST + 1) - 1)

    def _put(self, k: int, descriptor: Descriptor) -> None:
        self.region.mem[self._place(k)] = descriptor.packed()

    def _place(self, k: int) -> slice:
        return slice(DESCRIPTOR.size * k, DESCRIPTOR.size * (k + 1))

    def change(self, k: int, **fields: int) -> None:
        """Change fields of the k-th descriptor."""
        self._put(k, Descriptor.unpacked(self.region.mem[self._place(k)])._replace(**fields))

    def erase(self, k: int) -> None:
        """Overwrite the k-th descriptor with zeros."""
        self.region.mem[self._place(k)] = bytes(DESCRIPTOR.size)

    @property
    def count(self) -> int:
        """Return the number of completed descriptors that the device has written."""
        return self._written & ~WRITE_BACK_ERROR

    @property
    def failed(self) -> bool:
        """Return whether the device has reported that the channel stopped with an error."""
        return bool(self._written & WRITE_BACK_ERROR)

    @property
    def _written(self) -> int:
        return int.from_bytes(self.region.mem[self.count_place : self.count_place + 4], "little")

    def received(self) -> int | None:
        """Return the bytes that C2H has written, once a packet has ended or all descriptors are full; None until
        then.
        """
        total = 0
        for k in range(self.ends[-1]):
            place = self.results + 8 * k
            mark, length = struct.unpack("<II", self.region.mem[place : place + 8])
            if mark >> 16 != RESULT_MAGIC:
                return None
            total += length
            if mark & 1:
                break
        return total

    def lengths(self) -> list[tuple[int, bool]]:
        """Return, for each descriptor of C2H, the bytes written and whether a packet ended with it."""
        rows = []
        for k in range(self.ends[-1]):
            place = self.results + 8 * k
            mark = int.from_bytes(self.region.mem[place : place + 4], "little")
            assert mark >> 16 == RESULT_MAGIC, f"descriptor {k} was completed without its mark"
            length = int.from_bytes(self.region.mem[place + 4 : place + 8], "little")
            rows.append((length, bool(mark & 1)))
        return rows


class DmaDriver:
    """Accesses to the two BARs of the device, after `host.enumerate` has found it."""

    def __init__(self, host: Host, function: Any) -> None:
        self.host, self.function = host, function

    async def start(self) -> None:
        device = self.host.find_device(self.function.pcie_id)
        await device.enable_device()
        await device.set_master()
        await device.set_readrq(self.host.max_read_request_size)  # which enumeration leaves at 512 bytes
        self.user, self.dma = device.bar_window[USER], device.bar_window[DMA]

    async def prepare(self, ring: DescriptorRing) -> None:
        descriptors, count = DESCRIPTORS + ring.channel, ring.base + ring.count_place
        for place, address in ((descriptors + FIRST, ring.base), (ring.channel + WRITE_BACK, count)):
            await self.dma.write_dword(place, address & 0xFFFFFFFF)
            await self.dma.write_dword(place + 4, address >> 32)
        await self.dma.write_dword(descriptors + ADJACENT, ring.adjacent(0))

    async def run(self, ring: DescriptorRing) -> None:
        """Start a channel: ring its doorbell."""
        await self.dma.write_dword(ring.channel + CONTROL, RUN)

    async def stop(self, channel: int) -> None:
        await self.dma.write_dword(channel + CONTROL, 0)

    async def status(self, channel: int) -> DmaStatus:
        return DmaStatus(await self.dma.read_dword(channel + STATUS))

    async def completed(self, channel: int) -> int:
        return await self.dma.read_dword(channel + COMPLETED)

    async def finish(self, ring: DescriptorRing, timeout_ns: float) -> list[float]:
        """Wait for all transfers of a ring. Return the time in ns at which the host saw each one complete."""
        times: list[float] = []
        while len(times) < len(ring.ends):
            self.host.written.clear()
            while len(times) < len(ring.ends) and ring.count >= ring.ends[len(times)]:
                times.append(get_sim_time("ns"))
            if len(times) < len(ring.ends):
                try:
                    await with_timeout(self.host.written.wait(), timeout_ns, "ns")
                except SimTimeoutError:
                    status = [await self.status(channel) for channel in (H2C, C2H)]
                    raise AssertionError(
                        f"{len(times)} of {len(ring.ends)} transfers after {timeout_ns} ns without a write; "
                        f"status of H2C and C2H: {status[0]!r}, {status[1]!r}"
                    ) from None
        return times
