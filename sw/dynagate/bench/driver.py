"""Time that the host adds to a call of a board (conversion, checks and Python), measured on a device without
latency.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dynagate.bench.measure import paired
from dynagate.design.codec import Words
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord
from dynagate.graph.region import Region
from dynagate.host import Function
from dynagate.host.devices import StreamDevice
from dynagate.host.drivers import ShellDriver, ShellSession
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
    """Processor time of the driver in ns; 0 if it is too short to be measured."""

    call_ns: float
    """Time of each call."""
    sample_ns: float
    """Additional time of each sample, in batches of BATCH."""

    @classmethod
    def measured(cls, design: DesignRecord[DatapathBody], region: Region, *, rounds: int = ROUNDS) -> DriverCost:
        """Measure a design with an AXI shell. Inputs are drawn from `region`."""
        one, batch = drivers_ns(design, region, (1, BATCH), rounds=rounds)
        return cls(one, max(batch - one, 0.0) / (BATCH - 1))


def drivers_ns(
    design: DesignRecord[DatapathBody],
    region: Region,
    batches: Sequence[int],
    *,
    rounds: int = ROUNDS,
    clock: Callable[[], int] = time.thread_time_ns,
) -> list[float]:
    """Return the ns of a bound call for each batch size, minus those of the device itself.

    All calls are timed in each round, in processor time of the calling thread. Otherwise a difference of two times
    would include what other processes did between them, and could be negative.

    Args:
        design: A design with an AXI shell.
        region: Region from which inputs are drawn.
        batches: Numbers of samples.
        rounds: Rounds of CALLS calls, of which the fastest counts.
        clock: Clock in nanoseconds.
    """
    driver = ShellSession(design, NullLink(design)).driver()
    jobs: dict[str, Callable[[], object]] = {}
    with Function(StreamDevice(driver)) as accelerator:
        for batch in batches:
            jobs[f"call {batch}"] = _repeated(accelerator.bind(**_inputs(design, region, batch)))
            words = (np.zeros((batch, *shape), np.uint32) for shape in (driver.sample, driver.result))
            jobs[f"transfer {batch}"] = _repeated(partial(_transfer, driver, *words))
        taken = paired(jobs, rounds, clock=clock)
    fastest = {name: min(times) / CALLS for name, times in taken.items()}
    return [max(fastest[f"call {batch}"] - fastest[f"transfer {batch}"], 0.0) for batch in batches]


def _transfer(driver: ShellDriver, samples: Words, results: Words) -> None:
    """Move a batch to and from the device without conversion."""
    driver.link.write(samples)
    driver.link.read(results)


def _inputs(design: DesignRecord[DatapathBody], region: Region, batch: int) -> dict[str, Any]:
    """Return inputs (batch, *shape) by name, within the ranges for which the design's formats were chosen."""
    inputs = region.sample(design.function, batch, seed=1)
    for port in design.input.ports:
        low, high = np.array([design.input.fields[index].range for index in port.fields]).T
        inputs[port.name] = np.clip(inputs[port.name], low, high)
    return inputs


def _repeated(job: Callable[[], object]) -> Callable[[], None]:
    """Return a function that does a job CALLS times."""

    def repeated() -> None:
        for _ in range(CALLS):
            job()

    return repeated


def fastest_ns(job: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the ns of a job in the fastest of several rounds."""
    return min(paired({"job": _repeated(job)}, rounds, clock=time.thread_time_ns)["job"]) / CALLS
