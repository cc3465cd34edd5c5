"""What AXI streams carry: the datapath's integers, packed, instead of float32 words."""

from __future__ import annotations

from pathlib import Path

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import robots
from dynagate.cli import main
from dynagate.fixedpoint.assign import Policy
from dynagate.graph.region import Region
from dynagate.hw.rtl.axi import Axi

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
