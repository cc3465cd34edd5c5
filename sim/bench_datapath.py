"""cocotb bench of a datapath: random pauses and back-pressure, every output equal to the integer executor's."""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.triggers import with_timeout
from dynagate.sim.bench import PERIOD_NS, Stream, pause_patterns, rounds, start, vectors, words_to_int


@cocotb.test()
async def streams_under_stalls(dut: Any) -> None:
    data = vectors()
    inputs = [words_to_int(row) for row in data["inputs"]]
    expected = [words_to_int(row) for row in data["outputs"]]
    latency, ii = int(data["latency"]), int(data["ii"])
    names = [str(name) for name in data["patterns"]]
    await start(dut)
    assert int(dut.design_hash.value) == int(data["hash"]), "the datapath shows another design's hash"
    source, sink = Stream(dut, "i"), Stream(dut, "o")
    sink.ready.value = 0
    patterns = pause_patterns(int(data["seed"]))
    for gaps, stalls, part in rounds(len(inputs), names):
        sending = cocotb.start_soon(source.send(inputs[part], patterns[gaps]()))
        # a datapath that loses a sample must not hang the bench: the worst pattern pauses nine cycles of ten
        cycles = 60 * (len(inputs[part]) * ii + latency) + 1000
        receiving = cocotb.start_soon(sink.receive(len(inputs[part]), patterns[stalls]()))
        got = await with_timeout(receiving, cycles * PERIOD_NS, "ns")
        await sending
        for i, (a, b) in enumerate(zip(got, expected[part], strict=True)):
            assert a == b, f"sample {part.start + i} (gaps {gaps}, stalls {stalls}): {a:#x}, expected {b:#x}"
        await sink.expect_silence(latency + 3 * ii)
