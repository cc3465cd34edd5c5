"""Speed of the executors and the tools, measured in one run: `make bench`."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import dynagate
import numpy as np
from dynagate import Accelerator, Axi, evaluate, robots, trace
from dynagate.design.design import Design
from dynagate.design.payload import Words
from dynagate.fixedpoint.evaluate import evaluate as evaluate_fixed
from dynagate.host import Link
from dynagate.host.devices import StreamDevice
from dynagate.host.drivers import ShellDriver
from dynagate.host.words import tag_words
from dynagate.hw.build import Build
from dynagate.hw.regmap import REGISTERS


def seconds(job: Callable[[], object], repeats: int = 5) -> float:
    """Median over the repeats, after one to warm up."""
    job()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


class AtOnce(Link):
    """A device that takes no time: its results are what lies in memory, with the right tags."""

    def __init__(self, design: Design) -> None:
        assert design.axi is not None
        self.text, self._axi = "a device that takes no time", design.axi
        fixed = {"identity": self._axi.identity, "version": self._axi.version, "ii": design.ii}
        fixed |= {"hash_low": design.device_hash & 0xFFFFFFFF, "hash_high": design.device_hash >> 32}
        fixed |= {"latency": design.latency, "input_words": self._axi.words.input}
        fixed |= {"output_words": self._axi.words.output}
        self._registers = {REGISTERS[name].address: value for name, value in fixed.items()}

    def write(self, samples: Words) -> None:
        self._samples = samples

    def read(self, results: Words) -> int:
        tag_words(results, self._axi.words.output)[...] = tag_words(self._samples, self._axi.words.input)
        return len(results)

    def read_register(self, address: int) -> int:
        return self._registers.get(address, 0)

    def write_register(self, address: int, value: int) -> None: ...
    def reset(self) -> None: ...
    def close(self) -> None: ...


def least(job: Callable[[], object], rounds: int = 300, each: int = 10) -> float:
    """Seconds of the fastest round, where other processes take their turns too."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(each):
            job()
        times.append((time.perf_counter() - start) / each)
    return min(times)


def host_side(folder: Path) -> None:
    """What the host adds to a call of a board: conversion, checks and Python, without the link's own time."""
    for function in ("inverse_dynamics", "forward_dynamics_gradient"):
        built = dynagate.build(robots.load("iiwa14"), function, ii=8, axi=Axi(512, "batch"), folder=folder)
        one, some, many = (host_seconds(built, batch) for batch in (1, 256, 4096))
        words = len(built.design.output.fields)
        source, target = np.zeros((4096, words), np.uint32), np.ones((4096, words), np.uint32)
        copy = least(lambda source=source, target=target: np.copyto(target, source)) / 4096  # type: ignore[misc]
        print(
            f"host, {function:<27}{1e6 * one:6.1f} µs a call, {1e9 * (some - one) / 255:5.1f} ns a sample "
            f"({1e9 * many / 4096:.1f} in batches of 4096; {1e9 * copy:.1f} to copy the results' bytes alone)"
        )


def host_seconds(built: Build, batch: int) -> float:
    """Of a bound call, less what the device that takes no time takes."""
    inputs = built.region.sample(built.graph.name, batch, seed=1)
    for port in built.graph.inputs:
        low, high = np.array([built.formatted.bounds[i] for i in port.nodes]).T
        inputs[port.name] = np.clip(inputs[port.name], low, high)
    driver = ShellDriver(built.design, AtOnce(built.design))
    samples, results = (np.zeros((batch, *shape), np.uint32) for shape in (driver.sample, driver.result))

    def transfer() -> None:
        driver.link.write(samples)
        driver.link.read(results)

    with Accelerator(StreamDevice(driver)) as accelerator:
        return least(accelerator.bind(**inputs)) - least(transfer)


def main() -> None:
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, iiwa14 gradient, one core"
    )
    with TemporaryDirectory() as folder:
        host_side(Path(folder))
    robot = robots.load("iiwa14")
    function = "forward_dynamics_gradient"
    print(f"trace                    {seconds(lambda: trace(robot, function)):8.2f} s")
    with TemporaryDirectory() as folder:
        start = time.perf_counter()
        built = dynagate.build(robot, function, ii=8, folder=Path(folder) / "designs")
        print(f"build, Amaranth          {time.perf_counter() - start:8.1f} s")
        inputs = built.region.sample(function, 4096, seed=1)
        rate = 4096 / seconds(lambda: evaluate(built.graph, inputs))
        print(f"float64 numpy            {rate:8.0f} gradients/s")
        rate = 4096 / seconds(lambda: evaluate_fixed(built.formatted, inputs))
        print(f"exact integers           {rate:8.0f} gradients/s")
        start = time.perf_counter()
        with dynagate.open(built) as accelerator:
            print(f"Verilator and C++        {time.perf_counter() - start:8.1f} s (all cores)")
            took = seconds(lambda: accelerator(**inputs), repeats=3)
            print(f"simulated datapath       {4096 / took:8.0f} gradients/s, {4096 * 8 / took:.0f} cycles/s")


if __name__ == "__main__":
    main()
