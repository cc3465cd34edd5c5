"""cocotb bench of a ring: trajectories under pauses and back-pressure, every result equal to the integer executor's."""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, with_timeout
from dynagate.sim.bench import PERIOD_NS, Stream, pause_patterns, start, vectors, words_to_int

PAUSES = (("never", "never"), ("mostly", "never"), ("never", "mostly"), ("bursts", "bursts"))


class Bench:
    def __init__(self, dut: Any) -> None:
        self.dut, self.data = dut, vectors()
        self.patterns = pause_patterns(int(self.data["seed"]))
        self.source, self.sink = Stream(dut, "i"), Stream(dut, "o")

    @classmethod
    async def start(cls, dut: Any) -> Bench:
        dut.reset.value = dut.steps.value = dut.every.value = 0
        bench = cls(dut)
        bench.source.valid.value = bench.sink.ready.value = 0
        await start(dut)
        return bench

    async def registers(self, *, steps: int = 0, every: int = 0) -> None:
        self.dut.steps.value, self.dut.every.value = steps, every
        await FallingEdge(self.dut.clk)

    async def stream(self, rows: Any, expected: Any, gaps: str, stalls: str) -> None:
        inputs, results_due = [words_to_int(row) for row in rows], [words_to_int(row) for row in expected]
        sending = cocotb.start_soon(self.source.send(inputs, self.patterns[gaps]()))
        cycles = 60 * len(inputs) * (int(self.data["ii"]) + int(self.data["latency"])) + 1000
        receiving = cocotb.start_soon(self.sink.receive(len(results_due), self.patterns[stalls]()))
        results = await with_timeout(receiving, cycles * PERIOD_NS, "ns")
        await sending
        for k, (a, b) in enumerate(zip(results, results_due, strict=True)):
            assert a == b, f"result {k} (gaps {gaps}, stalls {stalls}): {a:#x}, expected {b:#x}"
        await self.sink.expect_silence(int(self.data["latency"]) + 4 * int(self.data["ii"]))


@cocotb.test()
async def trajectories_under_stalls(dut: Any) -> None:
    bench = await Bench.start(dut)
    data = bench.data
    for every, shown in zip(data["every"], data["shown"], strict=True):
        await bench.registers(every=int(every))
        for gaps, stalls in PAUSES:
            await bench.stream(data["inputs"], data["outputs"][shown], gaps, stalls)


@cocotb.test()
async def a_register_ends_trajectories(dut: Any) -> None:
    bench = await Bench.start(dut)
    await bench.registers(steps=int(bench.data["steps"]))
    await bench.stream(bench.data["endless"], bench.data["ended"], "bursts", "bursts")
    await bench.stream(bench.data["endless"], bench.data["ended"], "never", "never")


@cocotb.test()
async def a_reset_drops_trajectories(dut: Any) -> None:
    bench = await Bench.start(dut)
    data = bench.data
    begun = data["inputs"][: len(data["inputs"]) // 2]
    bench.sink.ready.value = 1
    await bench.source.send([words_to_int(row) for row in begun], bench.patterns["never"]())
    dut.reset.value = 1
    await ClockCycles(dut.clk, 3)
    await FallingEdge(dut.clk)
    dut.reset.value = 0
    await bench.stream(data["inputs"], data["outputs"], "never", "never")
