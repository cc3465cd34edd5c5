"""What AXI streams carry: the datapath's integers, packed, instead of float32 words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Robot, robots
from dynagate.cli import main
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.goal import Goal
from dynagate.graph.region import Region
from dynagate.hw.axi import Axi

from tests.designs import functions_of

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


def test_half_words_are_numpys(tmp_path: Path) -> None:
    """Inputs rounded to float16 give the integers' results, rounded to float16."""
    axi = Axi(width=64, words="float16", choice=True)
    name = "inverse_dynamics,forward_dynamics_gradient"
    built = dynagate.build(ARM, **functions_of(name), ii=8, policy=TIGHT, axi=axi, folder=tmp_path)
    own = {f.name: built.design.of_function(f).axi for f in built.design.functions}
    assert {each: (x.words.output, x.beats.output) for each, x in own.items() if x} == {
        "inverse_dynamics": (1, 1),
        "forward_dynamics_gradient": (7, 4),
    }
    overflows = 0
    with dynagate.open(built, shell=True, pauses=(0.2, 0.3)) as hardware, dynagate.open(built, device="fixed") as fixed:
        for each in own:
            states = Region.of(ARM).sample(each, 100, seed=5)
            states |= {"tau": np.clip(states["tau"], -15.0, 15.0)} if "tau" in states else {}
            results = hardware.functions[each](**states)
            halves = {key: value.astype(np.float16) for key, value in states.items()}
            expected = fixed.functions[each](**halves)
            np.testing.assert_array_equal(results.overflow, expected.overflow)
            overflows += int(expected.overflow.sum())
            sound = ~expected.overflow
            for output, value in expected.items():
                assert results[output].dtype == np.float32
                np.testing.assert_array_equal(results[output][sound], value[sound].astype(np.float16))
            last = [*expected][-1]
            part = hardware.functions[each](**states, outputs=last)
            np.testing.assert_array_equal(part[last][sound], results[last][sound])
    assert overflows > 0


def lighter(factor: float) -> Robot:
    """The arm with so much of its mass."""
    scaled = [
        replace(link, mass=factor * link.mass, inertia=tuple(tuple(factor * x for x in row) for row in link.inertia))
        for link in ARM.links
    ]
    return replace(ARM, links=tuple(scaled))


@pytest.mark.parametrize(
    ("robot", "function", "options", "text"),
    [
        (
            ARM,
            "inverse_dynamics",
            {"region": Region.of(ARM, acceleration=1e5)},
            "input 'qdd' is up to 100000; float16 holds up to 65504: expected words float32 or fixed, a smaller",
        ),
        (
            ARM,
            "forward_dynamics_gradient",
            {"policy": Policy(guard_bits=12.0)},
            "float16 holds up to 65504: expected words float32 or fixed, a smaller operating region, or other outputs",
        ),
        (
            lighter(1e-6),
            "mass_matrix",
            {},
            "output 'm' is at most 1.91e-06; float16 has its 11 bits from 6.1e-05 on only: expected words float32 or",
        ),
        (
            ARM,
            "mass_matrix",
            {"goal": Goal({"m": 1e-4})},
            "an error of 'm' of 0.0001 in words of float16, whose 11 bits alone bring up to 0.00049; expected a larger",
        ),
    ],
)
def test_numbers_that_a_float16_does_not_hold(
    robot: Robot, function: str, options: dict[str, Any], text: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="float16") as error:
        dynagate.build(robot, function, axi=Axi(words="float16"), folder=tmp_path, **options)
    assert text in str(error.value)
    assert not list(tmp_path.iterdir())


def test_words_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="words 'bfloat16'; expected one of float32, float16, fixed"):
        Axi(words="bfloat16")
    for options, message in (
        (["--words", "fixed"], "--words without --axi or --units; expected one of them: the AXI streams carry them"),
        (["--choice"], "--choice without --axi; expected both"),
    ):
        result = CliRunner().invoke(main, ["build", "two_joint_arm", *options])
        assert result.exit_code == 2
        assert message in result.output
