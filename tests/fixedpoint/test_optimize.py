"""Noise that is predicted, and word lengths that are chosen by it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from dynagate import Region, Robot, build, evaluate, robots, trace
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.format import Arithmetic
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_fixed
from dynagate.fixedpoint.models.files import read_formats, write_formats
from dynagate.fixedpoint.wordlength.confidence import state
from dynagate.fixedpoint.wordlength.goal import DSP48E2, MULT18X18, Goal, dsp_blocks
from dynagate.fixedpoint.wordlength.noise import predicted_errors
from dynagate.fixedpoint.wordlength.optimize import AccuracyError, Optimized, optimize
from dynagate.graph.reference_gradient import relative_errors
from dynagate.hw.plan.plan import Plan, plan
from dynagate.hw.units import latencies
from dynagate.hw.units.floating import FROM_FLOAT_LATENCY, to_float_latency

from tests.robots import PANDA, read_other

FUNCTION = "forward_dynamics_gradient"
FINGERS = {"panda_finger_joint1": 0.0, "panda_finger_joint2": 0.0}


def robot_of(name: str) -> Robot:
    return read_other(PANDA, damping=False, lock=FINGERS) if name == "panda" else robots.load(name)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("hyq", 16),
        *(
            pytest.param(name, word, marks=pytest.mark.long)
            for name, word in (("iiwa14", 16), ("iiwa14", 24), ("hyq", 24), ("panda", 16), ("panda", 24))
        ),
    ],
)
def test_noise_is_predicted_within_a_factor_of_two(name: str, word: int) -> None:
    robot = robot_of(name)
    region, graph = Region.of(robot, velocity=2.0), trace(robot, FUNCTION)
    formatted = assign(graph, region, Policy(word=word))
    inputs = region.sample(FUNCTION, 1000, seed=5)
    got, expected = evaluate_fixed(formatted, inputs).outputs, evaluate(graph, inputs)
    for block, predicted in predicted_errors(formatted, inputs).items():
        ratio = np.median(predicted) / np.median(relative_errors(got[block], expected[block]))
        assert 0.5 < ratio < 2.0, block


@cache
def accurate(name: str, function: str = FUNCTION, frame: int | None = None, prefix: bool = False) -> Optimized:
    """With errors below 1e-3 in the robot's own region, shared by the tests."""
    robot = robots.load(name)
    options: dict[str, object] = {"frame": frame, "prefix": prefix or None}
    graph = trace(robot, function, **{key: value for key, value in options.items() if value is not None})
    return optimize(graph, Region.of(robot), Goal(1e-3))


@cache
def accurate_plan(name: str, function: str = FUNCTION, frame: int | None = None, prefix: bool = False) -> Plan:
    """At II = 8."""
    return plan(accurate(name, function, frame, prefix).formatted, 8)


def test_noise_of_mixed_words_and_of_flooring_is_predicted_too() -> None:
    mixed = accurate("two_joint_arm").formatted
    region, graph = Region.of(robots.load("two_joint_arm")), mixed.graph
    floored = assign(graph, region, Policy(word=22, arithmetic=Arithmetic(rounding="floor")))
    inputs = region.sample(FUNCTION, 1000, seed=5)
    expected = evaluate(graph, inputs)
    for formatted, low in ((mixed, 0.5), (floored, 0.25)):  # the mean errors of flooring add up, not their squares
        got = evaluate_fixed(formatted, inputs).outputs
        for block, predicted in predicted_errors(formatted, inputs).items():
            ratio = np.median(predicted) / np.median(relative_errors(got[block], expected[block]))
            assert low < ratio < 2.0, block


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "error", "dsp_limit"), [("iiwa14", 1e-3, 1.1), ("iiwa14", 2e-5, 2.0), ("hyq", 1e-3, 1.1)]
)
def test_goal_is_met_on_states_that_chose_nothing(name: str, error: float, dsp_limit: float) -> None:
    region = Region.of(robots.load(name))
    graph = trace(robots.load(name), FUNCTION)
    found = accurate(name) if error == 1e-3 else optimize(graph, region, Goal(error))
    assert found.error <= error
    assert max(f.width for f in found.formatted.formats) <= 27
    assert np.mean(dsp_blocks(found.formatted)) <= dsp_limit
    inputs = region.sample(FUNCTION, 8000, seed=77)
    result, expected = evaluate_fixed(found.formatted, inputs), evaluate(graph, inputs)
    worst = max(float(np.quantile(relative_errors(result.outputs[k], expected[k]), 0.999)) for k in expected)
    assert worst <= error
    assert result.overflow.mean() <= 1e-3


@pytest.mark.parametrize(
    ("name", "function", "frame", "prefix", "cycles", "multipliers", "dsp"),
    [
        pytest.param("iiwa14", FUNCTION, None, False, 130, 450, 480, marks=pytest.mark.long),
        pytest.param("iiwa14", f"{FUNCTION}_given_minv", None, True, 82, 450, 480, marks=pytest.mark.long),
        pytest.param("iiwa14", f"{FUNCTION}_given_minv", 2, False, 82, 450, 480, marks=pytest.mark.long),
        ("iiwa14", "forward_dynamics", None, False, 115, 450, 480),
        pytest.param("hyq", FUNCTION, None, False, 90, 180, 480, marks=pytest.mark.long),
    ],
)
def test_datapaths_are_as_short_and_small_as_wanted(
    name: str, function: str, frame: int | None, prefix: bool, cycles: int, multipliers: int, dsp: int
) -> None:
    """Cycles with conversion from and to float32."""
    found = accurate_plan(name, function, frame, prefix)
    formats = found.formatted.formats
    widest = max(formats[i].width for i in found.formatted.graph.output_nodes)
    assert FROM_FLOAT_LATENCY + found.latency + to_float_latency(widest) <= cycles
    assert found.latency <= 1.15 * found.schedule.problem.critical_path()
    assert found.unit_counts()["multiply"] <= multipliers
    assert found.dsp_blocks() <= dsp


@pytest.mark.long
def test_long_intervals_hardly_lengthen_the_path() -> None:
    """Four legs take turns at a sine unit, and equal pivots at a table of their inverses."""
    slow = plan(accurate_plan("hyq").formatted, 32)
    assert slow.unit_counts() == {"multiply": 35, "sincos": 2, "reciprocal": 4}
    assert slow.latency <= 1.1 * slow.schedule.problem.critical_path()


def test_each_block_has_its_own_error() -> None:
    robot = robots.load("two_joint_arm")
    region, graph = Region.of(robot), trace(robot, FUNCTION)
    wanted = {"qdd": 1e-2, "minv": 2e-4, "dqdd_dq": 1e-2, "dqdd_dqd": 1e-2}
    optimized = optimize(graph, region, Goal(wanted))
    found, floors = optimized.formatted, optimized.statement.floors
    inputs = region.sample(FUNCTION, 8000, seed=77)
    result, expected = evaluate_fixed(found, inputs), evaluate(graph, inputs)
    for block, limit in wanted.items():
        errors = relative_errors(result.outputs[block], expected[block], floors[block])
        assert np.quantile(errors, 0.999) <= limit, block
    alike = optimize(graph, region, Goal(2e-4)).formatted
    assert sum(f.width for f in found.formats) < sum(f.width for f in alike.formats)


def test_dsp_blocks_are_those_of_the_multiplier() -> None:
    for a in range(2, 54):
        for b in range(2, a + 1):
            assert DSP48E2.blocks(a, b) <= latencies.dsp_blocks(a, b)
            if DSP48E2.blocks(a, b) == 1 or latencies.dsp_blocks(a, b) == 1:
                assert DSP48E2.blocks(a, b) == latencies.dsp_blocks(a, b)


def worst_error(formatted: FormattedGraph, region: Region) -> float:
    """In 99.9 % of the states, with 99 % confidence."""
    return max(state(formatted, region).error.values())


def test_words_of_18_bits_suffice_for_hyq_within_its_limits() -> None:
    """Of position, speed and effort."""
    robot = robots.load("hyq")
    region = Region.of(robot, effort="limits")
    assert set(region.velocity) == {12.0}
    assert set(region.effort or ()) == {150.0}
    assert worst_error(assign(trace(robot, FUNCTION), region, Policy(word=18)), region) <= 1e-3


@pytest.mark.long
@pytest.mark.parametrize(("name", "bits", "part"), [("iiwa14", 21, 0.8), ("hyq", 20, 0.75)])
def test_words_of_their_own_save_dsp_blocks_and_registers(name: str, bits: int, part: float) -> None:
    """Beside the shortest one word that meets the goal."""
    robot = robots.load(name)
    region, graph = Region.of(robot), trace(robot, FUNCTION)
    short, one = (assign(graph, region, Policy(word=b, guard_bits=None)) for b in (bits - 1, bits))
    assert worst_error(short, region) > 1e-3 >= worst_error(one, region)
    own, alike = accurate_plan(name), plan(one, 8)
    assert own.dsp_blocks() <= 0.6 * alike.dsp_blocks()
    assert own.register_bits() <= part * alike.register_bits()


def test_goals_that_cannot_be_met_say_what_can() -> None:
    robot = robots.load("two_joint_arm")
    region, graph = Region.of(robot), trace(robot, "forward_dynamics")
    with pytest.raises(AccuracyError, match=r"words of 27 bits give qdd an error of .*e-0. in 99.9% of the"):
        optimize(graph, region, Goal(1e-9))
    with pytest.raises(AccuracyError, match="words of 18 bits give qdd"):
        optimize(graph, region, Goal(1e-5, dsp=MULT18X18))
    with pytest.raises(ValueError, match="an error for block 'qd'; expected one of qdd"):
        optimize(graph, region, Goal({"qd": 1e-3}))


def test_formats_are_kept_in_a_file_that_the_build_takes(tmp_path: Path) -> None:
    robot = robots.load("two_joint_arm")
    region, graph = Region.of(robot), trace(robot, FUNCTION)
    formatted = optimize(graph, region, Goal(1e-3)).formatted
    path = tmp_path / "formats.json"
    write_formats(formatted, path)
    again = read_formats(graph, path)
    assert again == formatted
    built = build(robot, FUNCTION, ii=2, formats=path, folder=tmp_path / "designs")
    assert built.formatted == formatted
    assert '"cos_0": [' in path.read_text()
    with pytest.raises(ValueError, match="a goal and a file of formats; expected one of them"):
        build(robot, FUNCTION, formats=path, goal=Goal(1e-3), folder=tmp_path / "designs")
