"""cocotb bench of one arithmetic unit: new operands every cycle, results equal to its model after its latency."""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.triggers import FallingEdge
from dynagate.sim.bench import start, vectors


@cocotb.test(timeout_time=500, timeout_unit="ms")
async def equals_its_model(dut: Any) -> None:
    data = vectors()
    latency = int(data["latency"])
    inputs = {key.removeprefix("in_"): column for key, column in data.items() if key.startswith("in_")}
    outputs = {key.removeprefix("out_"): column for key, column in data.items() if key.startswith("out_")}
    count = len(next(iter(inputs.values())))
    await start(dut)
    for cycle in range(count + latency):
        if cycle < count:
            for name, column in inputs.items():
                signal = getattr(dut, name)
                signal.value = int(column[cycle]) & ((1 << len(signal)) - 1)
        if cycle >= latency:
            sample = cycle - latency
            for name, column in outputs.items():
                signal = getattr(dut, name)
                expected = int(column[sample]) & ((1 << len(signal)) - 1)
                got = int(signal.value)
                assert got == expected, (
                    f"{name} of sample {sample} ({ {k: int(v[sample]) for k, v in inputs.items()} }): "
                    f"{got:#x}, expected {expected:#x}"
                )
        await FallingEdge(dut.clk)
