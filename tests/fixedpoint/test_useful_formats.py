"""Formats that are of no use: warnings of a build, errors in datasheets, and texts on trajectories that overflow."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import dynagate
import numpy as np
import pytest
from dynagate import Region, robots
from dynagate.fixedpoint.wordlength.sampled_errors import STATES, sampled_errors
from dynagate.host.region_exit import rounded_up
from dynagate.hw.format_warnings import FormatsWarning
from dynagate.robot import Robot

ARM = robots.load("two_joint_arm")
START = (np.array([[1.5, 0.0]]), np.zeros((1, 2)), np.zeros((1, 40, 2)))
"""An arm at rest, which falls without torques: its accelerations exceed 10 rad/s²."""


def with_limits(**limits: float) -> Robot:
    """Return the arm with other limits of its second joint."""
    first, second = ARM.links
    return replace(ARM, links=(first, replace(second, joint=replace(second.joint, **limits))))


def texts(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(each.message) for each in caught if each.category is FormatsWarning]


@pytest.mark.parametrize("options", [{"ii": 8}, {"units": 2}])
@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"velocity": 1000.0}, r"^velocity limits of two_joint_arm look like placeholders: 'elbow' 1000 rad/s; "),
        (
            {"lower": -150.0, "upper": 150.0},
            r"^position limits of two_joint_arm look like placeholders: 'elbow' 150 rad; ",
        ),
    ],
)
def test_placeholders_are_named_with_what_helps(
    options: dict[str, int], limits: dict[str, float], text: str, tmp_path: Path
) -> None:
    with pytest.warns(FormatsWarning, match=text):
        dynagate.build(with_limits(**limits), "inverse_dynamics", folder=tmp_path, **options)


@pytest.mark.parametrize("options", [{"ii": 8}, {"units": 2}])
def test_usual_limits_and_those_of_the_caller_give_no_warning(options: dict[str, int], tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dynagate.build("two_joint_arm", "inverse_dynamics", folder=tmp_path, **options)
        fast = with_limits(velocity=1000.0)
        region = Region.of(fast, velocity=5.0)
        dynagate.build(fast, "inverse_dynamics", folder=tmp_path, region=region, **options)
    assert not texts(caught)


def test_large_errors_are_warned_of_in_each_build(tmp_path: Path) -> None:
    for _ in range(2):
        text = r"are of little use: 'qdd' has errors up to .*, \d+% of its largest"
        with pytest.warns(FormatsWarning, match=text) as w:
            dynagate.build(ARM, "forward_dynamics", ii=8, word=10, folder=tmp_path)
        assert "use a longer word (--word), an accuracy goal (--error), or a smaller region" in texts(list(w))[0]


@pytest.mark.parametrize("options", [{"ii": 8}, {"units": 2}])
def test_the_datasheet_of_a_word_has_errors(options: dict[str, int], tmp_path: Path) -> None:
    design = dynagate.build(ARM, ["forward_dynamics", "gravity_torque"], word=20, folder=tmp_path, **options)
    sheet = (design.folder / "datasheet.md").read_text()
    errors = sampled_errors(design.formatted, design.region)
    for name in ("qdd", "gravity_torque"):
        for kind in ("uniform", "limits", "rest"):
            assert f"{errors.outputs[kind][name].error:.1e}" in sheet  # type: ignore[index]
    assert f"0 of {STATES}" in sheet


def test_sampled_errors_are_those_of_the_device(tmp_path: Path) -> None:
    design = dynagate.build(ARM, "inverse_dynamics", ii=8, word=16, folder=tmp_path)
    errors = sampled_errors(design.formatted, design.region)
    states = design.region.sample("inverse_dynamics", STATES, 53)
    with dynagate.open(design, device="fixed") as integers, dynagate.open(design, device="numpy") as floats:
        got, expected = integers(**states), floats(**states)
    worst = np.abs(got.tau - expected.tau)[~got.overflow].max()
    assert errors.outputs["uniform"]["tau"].error == pytest.approx(worst)
    assert errors.overflows["uniform"] == got.overflow.sum()


FALL = (
    r"^1 of 1 trajectories of two_joint_arm overflowed, and their results are NaN from then on .* in step 1: the "
    r"acceleration of joint 'elbow' is -38 rad/s², and the region allows 10 rad/s²: pass "
    r"region=dynagate\.Region\.of\(robot, acceleration=46\) \(--acceleration 46\) \[DG-"
)


def test_a_fall_outside_of_the_region_names_the_acceleration() -> None:
    rollout = dynagate.Rollout(ARM, steps=40, dt=0.01, device="fixed")
    with pytest.warns(dynagate.OverflowWarning, match=FALL):
        assert rollout(*START).diverged.tolist() == [1]
    wide = dynagate.Rollout(
        ARM, steps=40, dt=0.01, device="fixed", region=Region.of(ARM, acceleration=100.0, velocity=20.0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wide(*START).diverged.tolist() == [-1]


@pytest.mark.parametrize("options", [{"ii": 4}, {"units": 2}])
def test_a_rollout_design_names_what_left_the_region(options: dict[str, int], tmp_path: Path) -> None:
    design = dynagate.build(ARM, "rollout", folder=tmp_path, dt=0.01, **options)
    with dynagate.open(design, device="fixed") as device:
        with pytest.warns(dynagate.OverflowWarning, match="the acceleration of joint 'elbow' is .* rad/s²"):
            device(*(np.repeat(each, 3, axis=0) for each in START))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            device(*START)  # once


@pytest.mark.parametrize(("value", "rounded"), [(50.4, 51.0), (0.0123, 0.013), (999.0, 1000.0), (10.0, 10.0)])
def test_suggested_limits_have_two_digits(value: float, rounded: float) -> None:
    assert rounded_up(value) == pytest.approx(rounded)
