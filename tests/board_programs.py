"""Programs for the smallest cores, whose boards are netlists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dynagate
import numpy as np
from dynagate import Function, Policy, Region, Robot, robots
from dynagate.hw.designs import Design
from dynagate.hw.processor.isa.shape import Core

ARM = robots.load("two_joint_arm")
TINY = Core(units=2, word=18, place_bits=6, program_bits=8, output_bits=3, input_bits=4)
"""A core whose netlist is soon made."""


def build(robot: Robot, function: str, core: Core, folder: Path, **options: Any) -> Design:
    policy = Policy(word=core.word, samples=256, **options)
    return dynagate.build(
        robot, function, units=core, region=Region.of(robot, velocity=5.0), folder=folder, policy=policy
    )


def check(accelerator: Function, built: Design, count: int, seed: int = 1) -> int:
    """The results of random states equal the integers; returns how many overflowed."""
    inputs = Region.of(built.robot, velocity=5.0).states(built.graph, count, seed, "uniform")
    got = accelerator(**inputs)
    with dynagate.open(built, device="fixed") as integers:
        expected = integers(**inputs)
    np.testing.assert_array_equal(got.overflow, expected.overflow)
    for port in built.graph.outputs:
        own, theirs = getattr(got, port.name), getattr(expected, port.name)
        np.testing.assert_array_equal(own[~got.overflow], theirs[~got.overflow])
    return int(got.overflow.sum())
