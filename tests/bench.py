"""Speed of the executors and the tools, measured in one run: `make bench`."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import dynagate
import numpy as np
from dynagate import Axi, evaluate, robots, trace
from dynagate.bench.driver import BATCH, drivers_ns, fastest_ns
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_fixed


def seconds(job: Callable[[], object], repeats: int = 5) -> float:
    """Median over the repeats, after one to warm up."""
    job()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def host_side(folder: Path) -> None:
    """What the host adds to a call of a board: conversion, checks and Python, without the link's own time."""
    for function in ("inverse_dynamics", "forward_dynamics_gradient"):
        built = dynagate.build(robots.load("iiwa14"), function, ii=8, axi=Axi(512, "batch"), folder=folder)
        one, some, many = drivers_ns(built.design, built.region, (1, BATCH, 4096))
        words = len(built.design.output.fields)
        source, target = np.zeros((4096, words), np.uint32), np.ones((4096, words), np.uint32)
        copy = fastest_ns(lambda source=source, target=target: np.copyto(target, source)) / 4096  # type: ignore[misc]
        print(
            f"host, {function:<27}{one / 1e3:6.1f} µs a call, {(some - one) / (BATCH - 1):5.1f} ns a sample "
            f"({many / 4096:.1f} in batches of 4096; {copy:.1f} to copy the results' bytes alone)"
        )


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
