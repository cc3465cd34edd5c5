"""A cocotb test that simulates a PCIe card for another process: host memory, the kernel's part of the driver, and the
card.

Requests arrive over a socket. They correspond to the system calls of the driver `xdma` (dma_ip_drivers, libxdma.c and
cdev_sgdma.c):

=======  ==============================================================================================
write    send bytes to the card as one packet: descriptors of a page each, TLAST with the last;
         and whether another write follows
read     receive at most this many bytes, up to TLAST: descriptors of a page each, which report the
         bytes received; and whether another read follows
pread    read a register of the user BAR
pwrite   write a register of the user BAR
moved    number of requests, reads and writes, that the device has sent on the link
times    clock cycles of the first doorbell and of the last result
spoil    set the chance that a completion with data is poisoned, misplaced or late
close    end the simulation
=======  ==============================================================================================

Simulated time stops while nothing is under way, and between consecutive transfers. Cycles therefore do not include the
time that the other process takes.
"""

from __future__ import annotations

import errno
import os
import random
import time
from multiprocessing.connection import Client, Connection
from typing import Any

import cocotb
from cocotb.triggers import Timer
from cocotb.utils import get_sim_time
from cocotbext.pcie.core.tlp import Tlp
from dynagate.sim.pcie.bench import CASES, PcieBench
from dynagate.sim.pcie.dma import C2H, H2C, TIMEOUT_NS
from dynagate.sim.pcie.host import Buffer, DescriptorRing
from dynagate.sim.pcie.link import CLOCK_NS

POLL_NS = 100
"""Simulated time in ns between two polls of the socket and of the host's memory."""
LATE_NS = round(1.2 * TIMEOUT_NS)
"""Simulated delay in ns of a late completion."""
QUIET_NS = 2 * TIMEOUT_NS
"""Simulated time in ns without a request on the link after which transfers wait for the other process."""
IDLE_NS = 1_000
"""Simulated time in ns after the last answer until the card counts as idle."""
NAP_S = 0.01
"""Real time in s between polls of the socket while simulated time stops."""
TURN_S = 0.05
"""Real time in s in which the other process has to begin the transfer that follows."""
KINDS = ("poisoned", "misplaced", "poisoned", "misplaced", "late")
"""Ways to spoil a completion, with repetitions for their probability."""


class Card:
    """The kernel's part of the driver. seconds: real time without a request on the link after which a transfer is
    cancelled.
    """

    def __init__(self, bench: PcieBench, connection: Connection, seconds: float, seed: int) -> None:
        self.bench, self.connection, self.seconds = bench, connection, seconds
        self.random, self.chance, self.faults = random.Random(seed), 0.0, 0
        self.late: Tlp | None = None
        bench.host.spoil = self._spoil
        self.buffers: dict[tuple[int, int], Buffer] = {}
        self.begun = self.ended = 0.0
        self.awaited: set[str] = set()  # transfers that are announced and have not begun
        self.answering = 0  # requests

    def _spoil(self, tlp: Tlp) -> Tlp | None:
        """Change, drop or delay a completion with the chance that the other process has set."""
        if tlp is self.late or self.random.random() >= self.chance:
            return tlp
        self.faults += 1
        kind = self.random.choice(KINDS)
        if kind == "late":
            cocotb.start_soon(self._send_late(tlp))
            return None
        if kind == "poisoned":
            tlp.ep = True
        else:
            tlp.lower_address ^= 0x40
        return tlp

    async def _send_late(self, tlp: Tlp) -> None:
        """Send a completion late. Its tag remains in use until then."""
        await Timer(LATE_NS, "ns")
        self.late = tlp  # which is spoilt enough
        await self.bench.host.send(tlp)

    def buffer(self, channel: int, size: int) -> Buffer:
        """Return the host buffer of a channel for this many bytes."""
        key = (channel, size)
        if key not in self.buffers:
            self.buffers[key] = Buffer(self.bench.host, size)
        return self.buffers[key]

    async def answer(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        code: int | None = 0
        self.answering += 1
        try:
            result = await getattr(self, name)(*arguments)
        except OSError as error:
            result, code = None, error.errno or errno.EIO
        self.answering -= 1
        self.connection.send((number, result, code))

    async def write(self, data: bytes, follows: bool) -> int:
        if len(data) % (self.bench.axi.width // 8):
            raise OSError(errno.EINVAL, "not of whole beats")
        buffer = self.buffer(H2C, len(data))
        buffer.fill(data)
        ring = DescriptorRing(self.bench.host, H2C, [buffer.addresses])
        self.begun = self.begun or get_sim_time("ns")
        await self._run(ring)
        self.awaited |= {"write"} if follows else set()
        return len(data)

    async def read(self, most: int, follows: bool) -> bytes:
        buffer = self.buffer(C2H, most)
        ring = DescriptorRing(self.bench.host, C2H, [buffer.addresses])
        count = await self._run(ring)
        self.ended = get_sim_time("ns")
        self.awaited |= {"read"} if follows else set()
        return buffer.content()[:count]

    async def _run(self, ring: DescriptorRing) -> int:
        """Run a ring until its packet has ended. Return the bytes received, 0 for a write.

        Raise OSError if the channel stopped, or if nothing came in time.
        """
        driver, host = self.bench.driver, self.bench.host
        await driver.prepare(ring)
        await driver.run(ring)
        requests, since = host.requests, time.monotonic()
        while True:
            if requests != host.requests:
                requests, since = host.requests, time.monotonic()
            if ring.failed:
                raise OSError(errno.EIO, "the channel stopped by an error")
            if ring.channel == H2C and ring.count == ring.ends[-1]:
                return 0
            if ring.channel == C2H and (count := ring.received()) is not None:
                return count
            if time.monotonic() - since > self.seconds:
                await driver.stop(ring.channel)
                raise OSError(errno.ETIMEDOUT, "nothing came in time")
            await Timer(POLL_NS, "ns")

    async def pread(self, address: int) -> bytes:
        return (await self.bench.driver.user.read_dword(address)).to_bytes(4, "little")

    async def pwrite(self, data: bytes, address: int) -> int:
        await self.bench.driver.user.write_dword(address, int.from_bytes(data, "little"))
        await self.bench.driver.user.read_dword(0)  # behind the write
        return len(data)

    async def moved(self) -> int:
        """Return the number of requests that the device has sent on the link."""
        return self.bench.host.requests

    async def spoil(self, chance: float) -> int:
        """Return the number of completions that were spoilt."""
        self.chance = chance
        return self.faults

    async def times(self, anew: bool = True) -> tuple[float, float]:
        """Cycles of the device's clock at the first doorbell since this was last reset, and at the last result."""
        begun = self.begun
        if anew:
            self.begun = 0.0
        return begun / CLOCK_NS, self.ended / CLOCK_NS


@cocotb.test()
async def serves_a_card(dut: Any) -> None:
    bench = await PcieBench.start(dut, CASES[0])
    with Client(os.environ["DYNAGATE_CARD"], "AF_UNIX") as connection:
        card = Card(bench, connection, float(os.environ["DYNAGATE_SECONDS"]), int(os.environ["DYNAGATE_SEED"]))
        connection.send((0, None, 0))  # the card is there
        requests, moved = bench.host.requests, get_sim_time("ns")
        try:
            while True:
                still = get_sim_time("ns") - moved > (QUIET_NS if card.answering else IDLE_NS)
                while connection.poll(TURN_S if card.awaited else NAP_S if still else 0):
                    number, name, arguments = connection.recv()
                    if name == "close":
                        return
                    card.awaited.discard(name)
                    cocotb.start_soon(card.answer(number, name, arguments))
                    moved, still = get_sim_time("ns"), False
                card.awaited.clear()
                if requests != bench.host.requests:
                    requests, moved = bench.host.requests, get_sim_time("ns")
                await Timer(POLL_NS, "ns")
        except (EOFError, ConnectionError):
            return
