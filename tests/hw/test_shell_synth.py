"""Netlists of whole accelerators: the rule of the pipeline holds in shells and rings, and boards count their tables."""

from __future__ import annotations

from pathlib import Path

import dynagate
import pytest
from dynagate import Region, robots
from dynagate.fixedpoint.assign import Policy
from dynagate.hw import boards
from dynagate.hw.plan.cost import lookup_tables, shell_tables
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.targets.board_fit import uses
from dynagate.hw.targets.synth import synthesize

from tests.designs import functions_of

ARM = robots.load("two_joint_arm")


@pytest.mark.long
def test_a_shell_of_two_functions(designs: Path) -> None:
    function, axi = "inverse_dynamics,mass_matrix", Axi(64, "batch")
    built = dynagate.build(ARM, **functions_of(function), ii=4, policy=Policy(word=18), axi=axi, folder=designs)
    found = synthesize(built)
    assert found.breaches == {}
    assert found.multipliers == built.hardware.plan.dsp_blocks()
    around, inside = shell_tables(built.hardware.plan, 64).total(), lookup_tables(built.hardware.plan).total()
    assert around > 1000
    assert found.lookup_tables == pytest.approx(inside + around, rel=0.15)
    assert uses(built.hardware.plan, boards.load("pynq-z2"))["lut"] == inside + around


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "ii", "word", "axi"),
    [
        ("inverse_dynamics,forward_dynamics", 4, 24, Axi(64, "batch")),
        ("inverse_dynamics,forward_dynamics,mass_matrix", 2, 27, Axi(512, "batch", choice=True)),
        ("inverse_dynamics,forward_dynamics", 1, 16, Axi(128, words="fixed")),
        ("forward_dynamics", 8, 24, Axi(32, words="fixed")),
    ],
)
def test_the_rule_of_the_pipeline_in_shells(function: str, ii: int, word: int, axi: Axi, designs: Path) -> None:
    built = dynagate.build(ARM, **functions_of(function), ii=ii, policy=Policy(word=word), axi=axi, folder=designs)
    assert synthesize(built).breaches == {}


@pytest.mark.long
def test_a_ring_in_its_shell(designs: Path) -> None:
    region = Region.of(ARM, velocity=12.0, acceleration=40.0)
    built = dynagate.build(ARM, "rollout", ii=4, region=region, dt=0.02, axi=Axi(128), folder=designs)
    assert synthesize(built).breaches == {}
