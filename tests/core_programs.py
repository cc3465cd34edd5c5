"""Programs for small cores, compared with the integers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
from dynagate import Policy, Region, Robot, robots
from dynagate.hw.designs import Design
from dynagate.hw.processor.isa.shape import Core

from tests.designs import functions_of

ARM = robots.load("two_joint_arm")
SMALL = Core(units=2, place_bits=7, program_bits=10, lookup_memories=4)
"""The core of these tests, compiled once."""


def states_of(graph: Any, robot: Robot, count: int, seed: int = 1) -> dict[str, np.ndarray]:
    return Region.of(robot, velocity=5.0).states(graph, count, seed, "uniform")


def build(robot: Robot, function: str, folder: Path, **options: Any) -> Design:
    options.setdefault("policy", Policy(samples=256))
    options |= functions_of(function)
    return dynagate.build(robot, units=SMALL, region=Region.of(robot, velocity=5.0), folder=folder, **options)  # type: ignore[return-value]


def check(accelerator: dynagate.Function, built: Design, count: int = 40, seed: int = 1) -> int:
    """The core's results of random states equal the integers; returns how many overflowed."""
    inputs = states_of(built.graph, built.robot, count, seed)
    got = accelerator(**inputs)
    with dynagate.open(built, device="fixed") as integers:
        expected = integers(**inputs)
    for port in built.graph.outputs:
        own, theirs = getattr(got, port.name), getattr(expected, port.name)
        np.testing.assert_array_equal(own, theirs)
        assert np.isnan(own[got.overflow]).all()
    np.testing.assert_array_equal(got.overflow, expected.overflow)
    return int(got.overflow.sum())


PAUSES = [(0.9, 0.0), (0.0, 0.98), (0.5, 0.5)]
"""Chances of a pause in a cycle, before words and behind them."""


def check_under_pauses(first: Design, second: Design, pauses: tuple[float, float]) -> None:
    """A program some of whose values overflow, and then another one in the same core."""
    with dynagate.open(first, pauses=pauses, seed=3) as accelerator:
        assert check(accelerator, first, 12) > 0
        accelerator.load(second)
        assert check(accelerator, second, 12) == 0


FLOATS = replace(SMALL, floats=1)
"""The core of these tests, compiled once."""
