"""What the AXI streams of a design carry: equal bits from its shell, its datapath and its integers, in random calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Function, Goal, Region, Robot, evaluate, robots
from dynagate.cli import main
from dynagate.design.words import WORDS
from dynagate.dynamics import TOGETHER
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.wordlength.confidence import block_floors
from dynagate.graph.reference_gradient import relative_errors
from dynagate.hw.rtl.axi import WIDTHS, Axi
from dynagate.robot import Joint, Link

from tests.designs import functions_of
from tests.robots import random_robot

ARM = robots.load("two_joint_arm")
TIGHT = Policy(word=20, guard_bits=-0.3)
"""Ranges so tight that some states overflow."""


def test_packed_integers_are_those_of_the_executor(tmp_path: Path) -> None:
    axi = Axi(width=64, words="fixed")
    name = "inverse_dynamics,forward_dynamics_gradient"
    built = dynagate.build(ARM, **functions_of(name), ii=8, policy=TIGHT, axi=axi, folder=tmp_path)
    assert built.design.axi is not None
    words = {f.name: built.design.of_function(f).axi.words for f in built.design.functions}  # type: ignore[union-attr]
    bits = {f.name: sum(built.design.output.fields[k].width for k in f.fields) for f in built.design.functions}
    assert {each: count.output for each, count in words.items()} == {k: -(-(b + 1) // 32) for k, b in bits.items()}
    assert words["forward_dynamics_gradient"].output < 13  # words of float32
    assert built.design.axi.words.input == -(-sum(field.width for field in built.design.input.fields) // 32) < 7
    overflows = 0
    with dynagate.open(built, shell=True) as hardware, dynagate.open(built.folder, device="fixed") as integers:
        for each in words:
            states = Region.of(ARM).sample(each, 100, seed=5)
            states |= {"tau": np.clip(states["tau"], -15.0, 15.0)} if "tau" in states else {}
            results, expected = hardware.functions[each](**states), integers.functions[each](**states)
            np.testing.assert_array_equal(results.overflow, expected.overflow)
            overflows += int(expected.overflow.sum())
            for output, value in expected.items():
                assert results[output].dtype == np.float64
                np.testing.assert_array_equal(results[output][~expected.overflow], value[~expected.overflow])
                assert np.isnan(results[output][expected.overflow]).all()
            late = hardware.functions[each].submit(**states).result()
            np.testing.assert_array_equal(late.overflow, expected.overflow)
    assert overflows > 0


def test_words_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="words 'float16'; expected one of float32, fixed"):
        Axi(words="float16")
    for options, message in (
        (["--words", "fixed"], "--words 'fixed' of a datapath; expected --axi, or a program: --units 4"),
        (["--choice"], "--choice without --axi; expected both"),
    ):
        result = CliRunner().invoke(main, ["build", "two_joint_arm", *options])
        assert result.exit_code == 2
        assert message in result.output


def test_shell_datapath_and_integers_agree(tmp_path: Path) -> None:
    """Inputs in float64, 27 bits and so tight that some states overflow."""
    policy, axi = Policy(word=27, guard_bits=-0.2), Axi(32)
    built = dynagate.build(ARM, "inverse_dynamics", ii=8, policy=policy, axi=axi, folder=tmp_path)
    states = Region.of(ARM).sample("inverse_dynamics", 1000, seed=8)
    options: tuple[dict[str, Any], ...] = ({"shell": True}, {}, {"device": "fixed"})
    results = []
    for each in options:
        with dynagate.open(built.folder, **each) as accelerator:
            results.append(accelerator(**states))
            late = accelerator.submit(**states).result()
            assert np.array_equal(late.tau, results[-1].tau, equal_nan=True)
    _, bare, fixed = results
    sound = ~fixed.overflow
    assert 0 < np.count_nonzero(~sound) < 50
    for result in results:
        assert result.tau.dtype == np.float32
        assert np.array_equal(result.overflow, fixed.overflow)
        assert np.array_equal(result.tau[sound], fixed.tau[sound])
    assert np.array_equal(bare.tau, fixed.tau, equal_nan=True)


def test_rings_agree(tmp_path: Path) -> None:
    inertia = ((0.02, 0.0, 0.0), (0.0, 0.02, 0.0), (0.0, 0.0, 0.02))
    joint = Joint("x", "prismatic", axis=(1.0, 0.0, 0.0), lower=-1.0, upper=1.0, velocity=1.0, effort=50.0)
    slide = Robot("slide", (Link("body", -1, joint, 2.0, (0.0, 0.0, 0.0), inertia),))
    built = dynagate.build(slide, "rollout", dt=0.01, axi=Axi(32), folder=tmp_path)
    random = np.random.default_rng(0)
    arrays = [random.uniform(-0.5, 0.5, shape) for shape in ((50, 1), (50, 1), (50, 4, 1))]
    results = []
    for options in ({"shell": True}, {}, {"device": "fixed"}):
        with dynagate.open(built.folder, **options) as chip:
            results.append(chip(*arrays))
    for result in results:
        assert result.q.dtype == np.float32
        assert np.array_equal(result.q, results[-1].q)
        assert np.array_equal(result.qd, results[-1].qd)


@pytest.mark.parametrize("device", ["sim", "fixed"])
def test_an_input_that_rounds_to_more_than_its_format_holds(device: str, tmp_path: Path) -> None:
    """As the shell refuses it: 1.99999999 is 2 in float32."""
    region = Region.of(ARM, velocity=1.99999999)
    policy = Policy(word=32, guard_bits=0.0)
    built = dynagate.build(ARM, "inverse_dynamics", region=region, policy=policy, axi=Axi(32), folder=tmp_path)
    zero = np.zeros(2)
    with dynagate.open(built.folder, device=device) as accelerator:
        with pytest.raises(ValueError, match=r"input 'qd' is 2 in sample 0; its format holds -2 to 2"):
            accelerator(q=zero, qd=[0.0, 1.99999999], qdd=zero)
        assert np.isfinite(accelerator(q=zero, qd=[0.0, 1.999], qdd=zero).tau).all()


def test_a_goal_is_kept_behind_the_rounding_to_float32(tmp_path: Path) -> None:
    """In 99.9 % of the states, for the inputs that float32 brings."""
    error, region = 5e-4, Region.of(ARM)
    goal = Goal(error, states=8192, fresh=16384)
    built = dynagate.build(ARM, "inverse_dynamics", goal=goal, axi=Axi(32), folder=tmp_path)
    states = region.sample("inverse_dynamics", 20000, seed=99)
    with dynagate.open(built.folder, device="fixed") as accelerator:
        results = accelerator(**states)
    exact = evaluate(built.graph, {name: x.astype(np.float32).astype(float) for name, x in states.items()})
    floors = block_floors(built.graph, region, goal)
    errors = relative_errors(results.tau.astype(float), exact["tau"], floors["tau"])
    assert np.count_nonzero(errors > error) <= 0.001 * len(errors)
    statement = built.design.formats.statement
    assert statement is not None
    assert 3e-4 < statement["samples"]["uniform"]["error"]["tau"] <= error
    assert "Results are rounded to float32, as the streams carry them." in (built.folder / "datasheet.md").read_text()


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
