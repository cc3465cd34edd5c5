"""Time that the host adds to a call of a board (conversion, checks and Python), measured on a device without
latency.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynagate.bench.measure import paired
from dynagate.design.codec import Words
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord
from dynagate.graph.region import Region
from dynagate.host import Function
from dynagate.host.devices import StreamDevice
from dynagate.host.drivers import ShellSession
from dynagate.host.links import DeviceLink
from dynagate.host.words import tag_words
from dynagate.hw.rtl.regmap import REGISTERS

BATCH = 256
"""Number of samples in a batch."""
ROUNDS, CALLS = 300, 10
"""Rounds of several calls, of which the fastest counts: other processes run during the others."""


class NullLink(DeviceLink):
    """A device without latency. Its results are 0 with the right tags, and its counters show every sample as done.

    Args:
        design: A design with an AXI shell.
    """

    def __init__(self, design: DesignRecord[DatapathBody]) -> None:
        assert design.axi is not None
        self.text, self._axi = "a device that takes no time", design.axi
        shown = {"identity": self._axi.identity, "version": self._axi.version, "ii": design.body.ii}
        shown |= {"hash_low": design.device_hash & 0xFFFFFFFF, "hash_high": design.device_hash >> 32}
        shown |= {"latency": design.latency, "input_words": self._axi.words.input}
        shown |= {"output_words": self._axi.words.output}
        self._registers = {REGISTERS[name].address: value for name, value in shown.items()}
        self._counters = [REGISTERS[name].address for name in ("samples_in", "samples_out")]

    def write(self, samples: Words, results: int | None = None) -> None:
        self._samples = samples
        self._registers |= dict.fromkeys(self._counters, len(samples))

    def read(self, results: Words) -> int:
        results.fill(0)
        tag_words(results, self._axi.words.output)[...] = tag_words(self._samples, self._axi.words.input)
        return len(results)

    def read_register(self, address: int) -> int:
        return self._registers.get(address, 0)

    def write_register(self, address: int, value: int) -> None: ...
    def reset(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class DriverCost:
    """Processor time of the driver in ns."""

    call_ns: float
    """Time of each call."""
    sample_ns: float
    """Additional time of each sample, in batches of BATCH."""

    @classmethod
    def measured(cls, design: DesignRecord[DatapathBody], region: Region, *, rounds: int = ROUNDS) -> DriverCost:
        """Measure a design with an AXI shell. Inputs are drawn from `region`."""
        one, batch = (driver_ns(design, region, count, rounds=rounds) for count in (1, BATCH))
        return cls(one, (batch - one) / (BATCH - 1))


def driver_ns(design: DesignRecord[DatapathBody], region: Region, batch: int, *, rounds: int = ROUNDS) -> float:
    """Return the ns of a bound call with a batch, minus those of the device itself."""
    driver = ShellSession(design, NullLink(design)).driver()
    samples, results = (np.zeros((batch, *shape), np.uint32) for shape in (driver.sample, driver.result))

    def transfer() -> None:
        driver.link.write(samples)
        driver.link.read(results)

    with Function(StreamDevice(driver)) as accelerator:
        run = accelerator.bind(**_inputs(design, region, batch))
        return fastest_ns(run, rounds) - fastest_ns(transfer, rounds)


def _inputs(design: DesignRecord[DatapathBody], region: Region, batch: int) -> dict[str, Any]:
    """Return inputs (batch, *shape) by name, within the ranges for which the design's formats were chosen."""
    inputs = region.sample(design.function, batch, seed=1)
    for port in design.input.ports:
        low, high = np.array([design.input.fields[index].range for index in port.fields]).T
        inputs[port.name] = np.clip(inputs[port.name], low, high)
    return inputs


def fastest_ns(job: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the ns of a job in the fastest of several rounds."""

    def repeated() -> None:
        for _ in range(CALLS):
            job()

    return min(paired({"job": repeated}, rounds)["job"]) / CALLS
