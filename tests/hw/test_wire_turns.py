"""Features in random turns: words, outputs, functions, variable links, intervals, widths and stalls, each design called
in random turns of functions, outputs and batches. The hardware is equal to the integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Function, Region, Robot, robots
from dynagate.design.words import WORDS
from dynagate.dynamics import TOGETHER
from dynagate.fixedpoint.assign import Policy
from dynagate.hw.rtl.axi import WIDTHS, Axi

from tests.robots import random_robot

STEP = {"float32": np.float32, "fixed": np.float64}
SHORT = [(5, "unseen")]
LONG = [(seed, name) for seed in (8, *range(20, 32)) for name in ("two_joint_arm", "unseen")]
UNSEEN = 38
"""Seed of a random tree of joints that no other test builds."""


def robot(name: str, folder: Path) -> Robot:
    return robots.load(name) if name != "unseen" else random_robot(UNSEEN, folder)[0]


def drawn(random: np.random.Generator, arm: Robot) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """A function, or some, and the options of a design."""
    together = random.random() < 0.6
    names = [*TOGETHER] if together else ["inverse_dynamics", "forward_dynamics_gradient", "forward_dynamics_vjp"]
    count = int(random.integers(2, 4)) if together else 1
    chosen = sorted(random.choice(len(names), count, replace=False))
    name = ",".join(names[k] for k in chosen)
    words, width = str(random.choice(WORDS)), int(random.choice(WIDTHS))
    last = str(random.choice(["sample", "batch"]))
    options: dict[str, Any] = {
        "ii": int(random.choice([3, 8, 16])),
        "axi": Axi(width, last, words, choice=bool(random.random() < 0.7)),
        "policy": Policy(word=18, guard_bits=0.3 if random.random() < 0.5 else 1.0),
    }
    variable = (arm.links[-1].name,) if random.random() < 0.4 else ()
    if name == "forward_dynamics_gradient" and random.random() < 0.7:
        options["outputs"] = ("dqdd_dq", "minv")
    return name, options, variable


def states_of(arm: Robot, name: str, variable: tuple[str, ...], rounded: Any, count: int, seed: int) -> dict[str, Any]:
    """States as the words on the wire have them, and the last link with half a kilogram more or without."""
    states = Region.of(arm).sample(name, count, seed)
    states = {key: (0.95 * value).astype(rounded).astype(np.float64) for key, value in states.items()}
    for link in arm.links:
        if link.name in variable:
            heavier = link.joined(0.5 * (seed % 2), (0.0, 0.02, 0.1), ((0.001, 0, 0), (0, 0.001, 0), (0, 0, 0.001)))
            states[link.name] = np.tile(heavier.parameters().astype(np.float32), (count, 1))
    return states


def check(hardware: Function, integers: Function, states: dict[str, Any], outputs: Any, words: str) -> int:
    """Compares a call. Returns how many samples did not overflow."""
    expected = integers(**states)
    results = hardware(**states, outputs=outputs)
    assert [*results] == [name for name in expected if outputs is None or name in outputs]
    for name, value in results.items():
        right = expected[name].astype(STEP[words])
        sound = ~results.overflow
        np.testing.assert_array_equal(value[sound], right[sound])
    np.testing.assert_array_equal(results.overflow, expected.overflow)
    return int((~expected.overflow).sum())


def turns(seed: int, name: str, folder: Path) -> None:
    random = np.random.default_rng(seed)
    arm = robot(name, folder)
    function, options, variable = drawn(random, arm)
    axi, arm = options["axi"], arm.with_variable(*variable)
    built = dynagate.build(arm, function, folder=folder / "designs", **options)
    pauses = tuple(float(x) for x in random.uniform(0.0, 0.5, 2))
    sound = 0
    with (
        dynagate.open(built, shell=True, pauses=pauses, seed=seed) as hardware,
        dynagate.open(built, device="fixed") as integers,
    ):
        for turn in range(12):
            one, other = hardware, integers
            if hardware.functions:
                which = str(random.choice([*hardware.functions]))
                one, other = hardware.functions[which], integers.functions[which]
            known = [port.name for port in one.device.outputs]
            some = [output for output in known if random.random() < 0.5] or None
            states = states_of(arm, one.device.function, variable, STEP[axi.words], int(random.integers(1, 40)), turn)
            sound += check(one, other, states, some, axi.words)
    assert sound > 50


@pytest.mark.parametrize(("seed", "name"), SHORT)
def test_turns(seed: int, name: str, tmp_path: Path) -> None:
    turns(seed, name, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("seed", "name"), LONG)
def test_many_turns(seed: int, name: str, tmp_path: Path) -> None:
    turns(seed, name, tmp_path)
