"""cocotb bench of arithmetic units: new operands in every cycle, results equal to the unit's model after its
latency.
"""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from dynagate.sim.bench import read_vectors

PERIOD_NS = 10
"""Period of the clock in ns."""


async def start(dut: Any) -> None:
    """Clock and reset."""
    Clock(dut.clk, PERIOD_NS, unit="ns").start()
    dut.rst.value = 1
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


class Feed:
    """Operands and results of one unit, and the signals that carry them."""

    def __init__(self, dut: Any, label: str, data: dict[str, Any]) -> None:
        self.label, self.latency = label, int(data[f"latency {label}"])
        self.inputs, self.outputs = (
            [
                (key.split(" ")[2], getattr(dut, f"{label}_{key.split(' ')[2]}"), column.tolist())
                for key, column in data.items()
                if key.startswith(f"{kind} {label} ")
            ]
            for kind in ("inputs", "outputs")
        )
        self.count = len(self.inputs[0][2])

    def cycle(self, number: int) -> None:
        """Set the operands of this cycle, and check the results that are due in it."""
        if number < self.count:
            for _, signal, column in self.inputs:
                signal.value = column[number] & ((1 << len(signal)) - 1)
        sample = number - self.latency
        if 0 <= sample < self.count:
            for name, signal, column in self.outputs:
                expected, got = column[sample] & ((1 << len(signal)) - 1), int(signal.value)
                assert got == expected, (
                    f"{self.label}: {name} of sample {sample} ({ {key: x[sample] for key, _, x in self.inputs} }): "
                    f"{got:#x}, expected {expected:#x}"
                )


@cocotb.test(timeout_time=500, timeout_unit="ms")
async def equals_its_model(dut: Any) -> None:
    data = read_vectors()
    feeds = [Feed(dut, key.removeprefix("latency "), data) for key in data if key.startswith("latency ")]
    await start(dut)
    for number in range(max(feed.count + feed.latency for feed in feeds)):
        for feed in feeds:
            feed.cycle(number)
        await FallingEdge(dut.clk)
