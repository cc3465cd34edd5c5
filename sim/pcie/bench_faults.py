"""cocotb benches of errors on the PCIe link and in the host.

Each error sets a bit in the DMA's status. No wrong data reaches the streams or the host's memory, and after a recovery
the next batches return correctly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles
from cocotbext.pcie.core.tlp import Tlp
from dynagate.sim.pcie.bench import CASES, PcieBench, QueuedBatches
from dynagate.sim.pcie.dma import (
    C2H,
    CONFIGURATION,
    DESCRIPTOR,
    H2C,
    REFUSED,
    SIZE,
    TIMEOUT_NS,
    BeatBus,
    BeatMonitor,
    DmaStatus,
)
from dynagate.sim.pcie.host import ABOVE

CASE = CASES[0]
"""Case that all tests use."""
LAST = CASE.read_request - CASE.max_payload
"""Bytes left with the last completion of a read request."""
LIST = CASE.batches * DESCRIPTOR.size
"""Bytes of a list of descriptors, one per batch."""
FILLER = 0xEEEEEEEE
"""Content of the host's result buffers before results arrive."""
ERRORS = ~(DmaStatus.BUSY | DmaStatus.STOPPED)
"""Status bits that report errors."""

Fault = Callable[[PcieBench, QueuedBatches], None]
"""Function that injects an error."""


def spoilt(change: Callable[[Tlp], Tlp | None], left: int = 0) -> Fault:
    """Return a function that changes or drops one completion.

    It is the first completion with `left` bytes to read. By default this is a completion with data that another one
    follows.
    """

    def inject(bench: PcieBench, transfer: QueuedBatches) -> None:
        waiting = True

        def spoil(tlp: Tlp) -> Tlp | None:
            nonlocal waiting
            if not waiting or tlp.byte_count != (left or CASE.read_request):
                return tlp
            waiting = False
            return change(tlp)

        bench.host.spoil = spoil

    return inject


def poisoned(tlp: Tlp) -> Tlp:
    """Mark a completion as poisoned."""
    tlp.ep = True
    return tlp


def of_another_place(tlp: Tlp) -> Tlp:
    """Change the address of a completion."""
    tlp.lower_address ^= 0x40
    return tlp


def for_nobody(tlp: Tlp) -> Tlp:
    """Change the tag of a completion to one that no request has."""
    tlp.tag ^= 0x80
    return tlp


def lost(tlp: Tlp) -> None:
    """Drop a completion."""
    return None


def late(bench: PcieBench, transfer: QueuedBatches) -> None:
    """Delay the last completion of a read until after the read has timed out."""

    def delayed(tlp: Tlp) -> None:
        async def send() -> None:
            await ClockCycles(bench.dut.aclk, int(1.2 * TIMEOUT_NS / 4))
            await bench.host.send(tlp)

        cocotb.start_soon(send())

    spoilt(delayed, LAST)(bench, transfer)


def source_in_no_memory(bench: PcieBench, transfer: QueuedBatches) -> None:
    """Let a descriptor read from an address without memory."""
    transfer.input.change(1, source=16 * ABOVE)


def no_descriptor(bench: PcieBench, transfer: QueuedBatches) -> None:
    """Overwrite a descriptor with zeros."""
    transfer.input.erase(1)


def packet_cut(bench: PcieBench, transfer: QueuedBatches) -> None:
    """End the packet of the second batch one word before the end of its last beat."""
    transfer.input.change(1, length=transfer.sources[1].addresses[0][1] - 4)


FAULTS: dict[str, tuple[Fault, DmaStatus]] = {
    "poisoned completion": (spoilt(poisoned), DmaStatus.READ_POISONED),
    "completion of another place": (spoilt(of_another_place), DmaStatus.READ_UNEXPECTED),
    "completion for nobody": (spoilt(for_nobody), DmaStatus.READ_UNEXPECTED),
    "lost completion": (spoilt(lost, LAST), DmaStatus.READ_TIMEOUT),
    "late completion": (late, DmaStatus.READ_TIMEOUT),
    "source in no memory": (source_in_no_memory, DmaStatus.READ_UNSUPPORTED),
    "poisoned descriptors": (spoilt(poisoned, LIST), DmaStatus.DESCRIPTOR_POISONED),
    "lost descriptors": (spoilt(lost, LIST), DmaStatus.DESCRIPTOR_TIMEOUT),
    "no descriptor": (no_descriptor, DmaStatus.WRONG_MAGIC),
    "packet cut": (packet_cut, DmaStatus.INVALID_LENGTH),
}
"""Each error and the status bit that it must set, by name."""


@cocotb.test()
@cocotb.parametrize(fault=list(FAULTS))
async def a_fault_has_a_name_and_an_end(dut: Any, fault: str) -> None:
    inject, status = FAULTS[fault]
    bench = await PcieBench.start(dut, CASE)
    beats = BeatMonitor(BeatBus.from_prefix(dut, "s_axis"), dut.aclk)
    transfer = QueuedBatches(bench)
    for buffer in transfer.results:
        buffer.fill(FILLER.to_bytes(4, "little") * (len(buffer.content()) // 4))
    inject(bench, transfer)
    await transfer.ring_doorbells()
    await ClockCycles(dut.aclk, int(1.5 * TIMEOUT_NS / 4))

    assert (await errors(bench)) == status
    assert transfer.input.failed or transfer.output.failed
    check_beats(bench, transfer, beats)
    check_first_results(transfer)

    bench.host.spoil = None
    await bench.recover()
    following = QueuedBatches(bench, skip=17)
    await following.run()
    following.check()
    assert await errors(bench) == DmaStatus(0)
    assert await bench.read("samples_out") == CASE.batch * CASE.batches


async def errors(bench: PcieBench) -> DmaStatus:
    """Return the error bits of both channels."""
    return (await bench.driver.status(H2C) | await bench.driver.status(C2H)) & ERRORS


def check_beats(bench: PcieBench, transfer: QueuedBatches, beats: Any) -> None:
    """Check that the words that entered the accelerator are the beginning of the words to send."""
    width = bench.axi.width // 8
    expected = []
    for buffer in transfer.sources:
        data = buffer.content()
        words = [data[low : low + width] for low in range(0, len(data), width)]
        expected += [(int.from_bytes(word, "little"), k + 1 == len(words)) for k, word in enumerate(words)]
    seen = []
    while not beats.empty():
        beat = beats.recv_nowait()
        seen.append((int(beat.tdata), bool(int(beat.tlast))))
    assert seen == expected[: len(seen)]
    assert len(seen) < len(expected)


def check_first_results(transfer: QueuedBatches) -> None:
    """Check that the results that came back are the beginning of the expected ones."""
    expected = np.frombuffer(b"".join(transfer.expected), "<u4")
    words = np.frombuffer(b"".join(buffer.content() for buffer in transfer.results), "<u4")
    written = int(np.argmax(words == FILLER))
    np.testing.assert_array_equal(words[:written], expected[:written])
    assert (words[written:] == FILLER).all()


@cocotb.test()
async def what_is_not_there_is_refused_while_samples_stream(dut: Any) -> None:
    bench = await PcieBench.start(dut, CASE)
    user, dma = bench.driver.user, bench.driver.dma
    transfer = QueuedBatches(bench)
    running = cocotb.start_soon(transfer.run())
    for window, address in ((user, 4 * len(bench.axi.registers)), (dma, 0x44), (dma, SIZE - 4)):
        assert await answer(window, address) == "Unsuccessful completion", hex(address)
    await user.write_dword(bench.axi.registers["status"].address, 1)  # a posted write, refused unseen
    await running
    transfer.check()
    assert await dma.read_dword(CONFIGURATION + REFUSED) == 4
    assert await errors(bench) == DmaStatus(0)


async def answer(window: Any, address: int) -> str:
    """The message that cocotbext-pcie logs for a read that fails; it logs nothing for one that succeeds."""
    try:
        await window.read_dword(address)
    except Exception as error:
        return str(error)
    return ""
