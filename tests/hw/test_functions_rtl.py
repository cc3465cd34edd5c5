"""Every function of several kinds of robots as hardware: equal to the integers under random stalls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dynagate import Region, Robot, build, robots
from dynagate.dynamics import FUNCTIONS
from dynagate.fixedpoint.assign import Policy
from dynagate.hw.plan.plan import Stages

from tests.benches import passes, passes_in_verilator
from tests.robots import PRISMATIC_SEED, floating_robot, random_robot

ROBOTS = ("two_joint_arm", "iiwa14", "hyq", "floating", "prismatic")
INTERVALS = {
    "two_joint_arm": (1, 5, 64),
    "iiwa14": (8, 32),
    "hyq": (3, 16),
    "floating": (4, 13),
    "prismatic": (1, 7),
}


def robot(name: str, folder: Path) -> Robot:
    """prismatic: a slide and a turning arm on it. floating: the same on a body that moves freely."""
    if name not in ("floating", "prismatic"):
        return robots.load(name)
    return floating_robot(PRISMATIC_SEED, folder) if name == "floating" else random_robot(PRISMATIC_SEED, folder)[0]


def check(name: str, function: str, ii: int, designs: Path, folder: Path, **options: Any) -> None:
    found = robot(name, folder)
    region = Region.of(found, velocity=5.0) if name == "floating" else Region.of(found)
    built = build(found, function, ii=ii, policy=Policy(word=18), region=region, folder=designs, **options)
    (passes if name == "two_joint_arm" else passes_in_verilator)(built.folder)


AT_ONE_STATE = (
    *("inverse_mass_product", "step", "kinetic_energy", "potential_energy", "center_of_mass"),
    *("link_positions", "link_jacobians"),
)
ALONE = "forward_dynamics_vjp"
"""A function with a design of its own. The quick tests have this one: the others compute the same operations with the
same code. `test_several_functions` has the functions of `TOGETHER`."""


def test_functions_of_one_state(designs: Path) -> None:
    arm = robots.load("two_joint_arm")
    built = build(arm, list(AT_ONE_STATE), ii=4, policy=Policy(word=18), folder=designs)
    passes(built.folder)


@pytest.mark.parametrize(
    "function", [name if name == ALONE else pytest.param(name, marks=pytest.mark.long) for name in FUNCTIONS]
)
def test_every_function(function: str, designs: Path, tmp_path: Path) -> None:
    check("two_joint_arm", function, 4, designs, tmp_path)


@pytest.mark.parametrize(
    ("name", "function", "ii", "options"),
    [
        pytest.param("floating", "forward_dynamics", 8, {}, marks=pytest.mark.long),
        pytest.param("floating", "inverse_dynamics", 16, {}, marks=pytest.mark.long),
        pytest.param("prismatic", "forward_dynamics_gradient", 3, {}, marks=pytest.mark.long),
        ("two_joint_arm", "forward_dynamics", 3, {"form": "aba"}),
        pytest.param("two_joint_arm", "forward_dynamics", 64, {"form": "cfa"}, marks=pytest.mark.long),
        pytest.param("two_joint_arm", "inverse_dynamics", 5, {"form": "prefix"}, marks=pytest.mark.long),
        pytest.param("two_joint_arm", "inverse_dynamics_gradient", 64, {}, marks=pytest.mark.long),
        ("two_joint_arm", "inverse_dynamics", 64, {}),
    ],
    ids=str,
)
def test_other_robots_forms_and_intervals(
    name: str, function: str, ii: int, options: dict[str, str], designs: Path, tmp_path: Path
) -> None:
    check(name, function, ii, designs, tmp_path, **options)


def test_stages_that_a_target_wants(designs: Path, tmp_path: Path) -> None:
    found = robot("two_joint_arm", tmp_path)
    lean, slow = (
        build(found, "forward_dynamics", ii=3, policy=Policy(word=18), stages=stages, folder=designs)
        for stages in (None, Stages(multiply=2, add=1))
    )
    assert slow.hardware.plan.latency > lean.hardware.plan.latency
    assert {
        name: cycles + 2 * name.startswith("multiply") for name, cycles in lean.design.body.cycles.items()
    } == slow.design.body.cycles
    passes(slow.folder)


@pytest.mark.long
@pytest.mark.parametrize(("name", "ii"), [(name, ii) for name in ROBOTS for ii in INTERVALS[name]])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_of_every_robot(function: str, name: str, ii: int, designs: Path, tmp_path: Path) -> None:
    check(name, function, ii, designs, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("ii", [1, 5, 32])
@pytest.mark.parametrize("name", ["iiwa14", "hyq"])
def test_the_main_job_in_its_default_words(name: str, ii: int, designs: Path) -> None:
    built = build(robots.load(name), "forward_dynamics_gradient", ii=ii, folder=designs)
    passes_in_verilator(built.folder)
