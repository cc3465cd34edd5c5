"""cocotb benches of an accelerator behind a PCIe link: samples from host memory by DMA, and results back to it.

The vectors hold the cases (`sim.pcie.link.LinkCase`). Each case is a test, which appends its measurements as a line of
JSON.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiLiteBus, AxiLiteMaster
from cocotbext.pcie.core import Device
from dynagate.design.design import DesignRecord
from dynagate.sim.bench import pause_patterns, read_vectors
from dynagate.sim.pcie.dma import C2H, H2C, BeatBus, BeatSink, BeatSource, DmaEndpoint
from dynagate.sim.pcie.host import PORT_NS, Buffer, DescriptorRing, DmaDriver, Host
from dynagate.sim.pcie.link import CLOCK_NS, CaseResult, LinkCase, case_of

DATA = read_vectors()
"""Vectors and options of the bench."""
CASES = [case_of(content) for content in json.loads(str(DATA["cases"]))]
"""Cases to run."""
SKID = 16
"""Number of beats that the DMA's side of each stream can hold."""
PATIENCE_NS = 200_000
"""Simulated time in ns without a completion after which a test fails."""


class PcieBench:
    """A host, a link, and the accelerator behind the endpoint."""

    def __init__(self, dut: Any, case: LinkCase) -> None:
        logging.getLogger("cocotb.pcie").setLevel("ERROR")  # enumeration warns of every empty slot
        self.dut, self.case = dut, case
        self.design = DesignRecord.from_json(json.loads(str(DATA["design"])))
        assert self.design.axi is not None
        self.axi = self.design.axi
        wires = {"clock": dut.aclk, "reset": dut.aresetn, "reset_active_level": False}
        self.source = BeatSource(BeatBus.from_prefix(dut, "s_axis"), **wires)
        self.sink = BeatSink(BeatBus.from_prefix(dut, "m_axis"), **wires)
        self.source.queue_occupancy_limit = self.sink.queue_occupancy_limit = SKID
        lite = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), **wires)
        for part in (self.source, self.sink, lite.read_if, lite.write_if):
            part.log.setLevel("WARNING")
        seed = int(DATA["seed"])
        self.host = Host(seed, max_payload=case.max_payload, read_request=case.read_request, split=case.split)
        self.endpoint = DmaEndpoint(self.source, self.sink, lite)
        self.driver = DmaDriver(self.host, self.endpoint)
        self.stalls = pause_patterns(seed)[case.stalls]

    @classmethod
    async def start(cls, dut: Any, case: LinkCase) -> PcieBench:
        dut.aclk.value = 0
        dut.aresetn.value = 0
        dut.s_axis_tkeep.value = (1 << len(dut.s_axis_tkeep)) - 1
        bench = cls(dut, case)
        device = Device(bench.endpoint)
        device.upstream_port.max_link_speed = case.link.generation
        device.upstream_port.max_link_width = case.link.width
        root = bench.host.make_port()
        for port in (device.upstream_port, root.downstream_port):
            port.port_delay, port.max_payload_size = PORT_NS * 1e-9, case.max_payload
        root.connect(device)
        await bench.host.enumerate()  # before the clock runs, which is what takes time
        await bench.driver.start()
        Clock(dut.aclk, CLOCK_NS, unit="ns").start()
        await ClockCycles(dut.aclk, 4)
        dut.aresetn.value = 1
        await ClockCycles(dut.aclk, 4)
        return bench

    def frame(self, rows: Any, side: str) -> bytes:
        """Return samples as bytes in the beats of a stream."""
        padded = np.zeros((len(rows), getattr(self.axi.beats, side) * self.axi.width // 32), dtype="<u4")
        padded[:, : rows.shape[1]] = rows
        return padded.tobytes()

    async def read(self, name: str) -> int:
        return await self.driver.user.read_dword(self.axi.registers[name].address)

    async def control(self, bit: str) -> None:
        register = self.axi.registers["control"]
        await self.driver.user.write_dword(register.address, 1 << register.bits.index(bit))
        await self.read("control")  # behind the write

    async def recover(self) -> None:
        """Stop the DMA and reset the accelerator by its register: after an error beats may be held on either side.

        A beat that the DMA offers stays offered. Where results had no way out, the first reset lets it in, and the
        second drops what has become of it. C2H stops last, and drops what has come out until then. It stops again,
        because a beat that the accelerator offers stays offered too, until there is space for it.
        """
        await self.driver.stop(H2C)
        await self.control("reset")
        await self.control("reset")
        await self.driver.stop(C2H)
        await self.control("clear")
        await self.driver.stop(C2H)


class QueuedBatches:
    """Batches of samples that are queued at once: their buffers and rings. skip: index of the first sample."""

    def __init__(self, bench: PcieBench, skip: int = 0) -> None:
        case, inputs, outputs = bench.case, DATA["inputs"], DATA["outputs"]
        self.bench = bench
        order = [np.arange(skip + k * case.batch, skip + (k + 1) * case.batch) for k in range(case.batches)]
        frames = [bench.frame(inputs[rows % len(inputs)], "input") for rows in order]
        self.expected = [bench.frame(outputs[rows % len(outputs)], "output") for rows in order]
        self.sources = [Buffer(bench.host, len(frame), case.offset) for frame in frames]
        self.results = [Buffer(bench.host, len(frame), case.offset) for frame in self.expected]
        for buffer, frame in zip(self.sources, frames, strict=True):
            buffer.fill(frame)
        self.input = DescriptorRing(bench.host, H2C, [buffer.addresses for buffer in self.sources])
        self.output = DescriptorRing(bench.host, C2H, [buffer.addresses for buffer in self.results])

    async def ring_doorbells(self) -> float:
        """The time in ns at which the input's was rung."""
        driver = self.bench.driver
        await driver.prepare(self.output)
        await driver.prepare(self.input)
        await driver.run(self.output)
        begin = get_sim_time("ns")
        await driver.run(self.input)
        return begin

    async def run(self) -> list[float]:
        """Ring both doorbells and wait for the results: the time of the input's doorbell, and of each completion."""
        return [await self.ring_doorbells(), *await self.bench.driver.finish(self.output, PATIENCE_NS)]

    def check(self) -> None:
        """Check that every result equals the integer model's, in its place, and that packets end where batches do."""
        for k, (buffer, expected) in enumerate(zip(self.results, self.expected, strict=True)):
            assert buffer.content() == expected, f"batch {k} of {len(self.expected)} differs"
        pieces = [length for buffer in self.results for _, length in buffer.addresses]
        assert [length for length, _ in self.output.lengths()] == pieces
        assert [k + 1 for k, (_, last) in enumerate(self.output.lengths()) if last] == self.output.ends


def steady(times: list[float], batch: int) -> float:
    """Return the samples per second between completions, without the first and the last quarter of the completions.

    Args:
        times: Time of each completion in ns.
        batch: Samples per completion.
    """
    edge = len(times) // 4
    first, last = edge, len(times) - 1 - edge
    return (last - first) * batch / (times[last] - times[first]) * 1e9 if last > first else 0.0


@cocotb.test()
@cocotb.parametrize(index=range(len(CASES)))
async def batches_come_back(dut: Any, index: int) -> None:
    case = CASES[index]
    dut._log.info("%s", case)
    bench = await PcieBench.start(dut, case)
    bench.sink.set_pause_generator(bench.stalls())
    transfer = QueuedBatches(bench)
    begin, *times = await transfer.run()
    transfer.check()
    samples = case.batch * case.batches
    before = get_sim_time("ns")
    assert await bench.read("samples_in") == samples
    register = get_sim_time("ns") - before
    assert await bench.read("samples_out") == samples
    for channel, ring in ((H2C, transfer.input), (C2H, transfer.output)):
        assert (await bench.driver.status(channel)).name == "STOPPED"
        assert await bench.driver.completed(channel) == ring.count == ring.ends[-1]
    assert bench.host.largest_write <= case.max_payload
    assert bench.host.largest_read <= case.read_request
    measured = CaseResult(
        overall=samples / (times[-1] - begin) * 1e9,
        steady=steady(times, case.batch),
        batch_ns=times[0] - begin,
        register_ns=register,
        completions=bench.host.completions,
        overtaken=bench.host.overtaken,
        largest_write=bench.host.largest_write,
        largest_read=bench.host.largest_read,
    )
    with Path(str(DATA["measured"])).open("a") as file:
        file.write(json.dumps(asdict(measured)) + "\n")
