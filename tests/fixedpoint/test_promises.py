"""What a design promises of its errors and overflows, and for which states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynagate import Graph, Region, Robot, build, evaluate, robots, trace
from dynagate.fixedpoint.assign import Policy, WordLengths, assign, assign_word
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_fixed
from dynagate.fixedpoint.ranges.sampled import NOISE_MARGIN, sampled_ranges
from dynagate.fixedpoint.wordlength.confidence import OVERFLOWS, block_floors, measured, state
from dynagate.fixedpoint.wordlength.goal import Goal
from dynagate.fixedpoint.wordlength.optimize import AccuracyError, WordLengthSearch, optimize
from dynagate.fixedpoint.wordlength.sweep import measure
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import Node, Port
from dynagate.graph.reference_gradient import relative_errors
from dynagate.graph.region import KINDS, REST
from dynagate.host.report import Checks, report_design
from dynagate.host.report.bodies import DatapathSection
from dynagate.hw.request import DesignRequest

from tests.robots import DATA

ARM = robots.load("two_joint_arm")
GRADIENT = "forward_dynamics_gradient"


def small_difference() -> Graph:
    """x y - x (y + 1e-6): -1e-6 x, computed from two products that nearly cancel."""
    nodes = (
        Node("input", (), None, "x"),
        Node("input", (), None, "y"),
        Node("add_const", (1,), 1e-6, "nearly_y"),
        Node("mul", (0, 1), None, "a"),
        Node("mul", (0, 2), None, "b"),
        Node("sub", (3, 4), None, "difference"),
    )
    return Graph("small", "r", nodes, (Port("q", (2,), (0, 1)),), (Port("d", (1,), (5,)),)).check()


@pytest.mark.parametrize("guard_bits", [None, 0.0, 1.0])
def test_ranges_hold_what_the_rounding_of_operands_brings(guard_bits: float | None) -> None:
    graph, region = small_difference(), Region.of(ARM)
    random = np.random.default_rng(3)
    states = {"q": random.uniform(region.lower, region.upper, (20000, 2))}
    ranges = sampled_ranges(graph, {"q": states["q"][:4096]})
    formatted = assign_word(graph, region, ranges, Policy(word=18, guard_bits=guard_bits))
    assert formatted.formats[5].limits[1] > 4.0 * ranges.largest[5]
    assert not evaluate_fixed(formatted, states).overflow.any()
    words = WordLengths([18] * 6, [24] * 6)  # a word that may grow keeps its binary point
    grown = assign_word(graph, region, ranges, Policy(word=18, guard_bits=guard_bits), words)
    assert grown.formats[5].frac >= formatted.formats[5].frac
    assert not evaluate_fixed(grown, states).overflow.any()
    assert NOISE_MARGIN > 1.0


def test_states_at_limits_and_near_rest() -> None:
    robot = robots.load("hyq")
    region = Region.of(robot)
    count = 300
    limits = region.sample("inverse_dynamics", count, 4, kind="limits")
    at_ends = (limits["q"] == region.lower) | (limits["q"] == region.upper)
    full_speed = np.abs(limits["qd"]) == region.velocity
    assert at_ends[0::3].all()
    assert not at_ends[1::3].any()
    assert full_speed[0::3].all()
    assert full_speed[1::3].all()
    assert (at_ends[2::3].sum(axis=1) == 1).all()
    assert (full_speed[2::3] == at_ends[2::3]).all()
    assert (np.abs(limits["qdd"]) == region.acceleration)[0::3].all()
    assert len(np.unique(limits["qd"][0::3] > 0, axis=0)) > 90  # all corners, not one
    rest = region.sample("inverse_dynamics", count, 4, kind="rest")
    for name, most in (("qd", region.velocity), ("qdd", region.acceleration)):
        assert 0.9 * REST < np.max(np.abs(rest[name]) / most) <= REST
    floating = Robot.from_urdf(DATA / "solo_description/robots/solo12.urdf", floating_base=True)
    q = Region.of(floating, velocity=3.0).sample("inverse_dynamics", count, 4, kind="limits")["q"]
    assert np.allclose(np.linalg.norm(q[:, 3:7], axis=1), 1.0)
    with pytest.raises(ValueError, match="0 states; expected 1 or more"):
        region.sample("forward_dynamics", 0, seed=1)
    with pytest.raises(ValueError, match="states of kind 'corner'; expected one of uniform, limits, rest"):
        region.sample("inverse_dynamics", 3, 4, kind="corner")  # type: ignore[arg-type]


def test_regions_of_torques_have_states_at_limits_and_near_rest() -> None:
    robot = robots.load("hyq")
    region = Region.of(robot, effort="limits")
    limits = region.sample("forward_dynamics", 90, 4, kind="limits")
    assert (np.abs(limits["tau"]) == region.effort)[0::3].all()
    rest = region.sample("forward_dynamics", 90, 4, kind="rest")
    accelerations = evaluate(trace(robot, "forward_dynamics"), rest)["qdd"]
    assert np.abs(accelerations).max() <= 0.5 + 1e-6


@pytest.mark.parametrize("function", ["forward_dynamics", GRADIENT])
def test_one_word_length_holds_corners(function: str) -> None:
    """Formats of uniform states alone overflow in a hundredth of them."""
    robot = robots.load("iiwa14")
    region, graph = Region.of(robot), trace(robot, function)
    formatted = assign(graph, region, Policy(word=24, guard_bits=None))
    for kind in KINDS:
        result = evaluate_fixed(formatted, region.states(graph, 6000, 9, kind))
        assert result.overflow.mean() <= OVERFLOWS[kind], kind


def test_errors_are_relative_to_a_floor() -> None:
    errors = relative_errors([[0.11], [1.1]], [[0.1], [1.0]], 0.5)
    assert np.allclose(errors, [0.02, 0.1])
    region, graph = Region.of(ARM), trace(ARM, "forward_dynamics")
    floor = block_floors(graph, region, Goal(1e-3, floor=0.25))["qdd"]
    expected = evaluate(graph, region.states(graph, 16384, 31))["qdd"]
    assert floor == pytest.approx(0.25 * np.sqrt(np.mean(np.sum(expected**2, axis=1))))
    formatted = assign(graph, region, Policy(word=20))
    loose, strict = (state(formatted, region, Goal(0.5, floor=floor, fresh=9000)) for floor in (1.0, 0.0))
    assert 5.0 * loose.error["qdd"] < strict.error["qdd"]


def test_a_goal_may_be_about_states_near_rest() -> None:
    region, graph = Region.of(ARM), trace(ARM, "forward_dynamics")
    usual = optimize(graph, region, Goal(1e-3, fresh=16384)).statement
    assert usual.samples["rest"].worst[0] > 1e-3
    near_rest = optimize(graph, region, Goal(1e-3, kinds=("uniform", "rest"), fresh=16384)).statement
    assert near_rest.samples["rest"].worst[0] <= 1e-3
    assert near_rest.samples["uniform"].worst[0] <= 1e-3


def test_an_attempt_that_overflows_is_not_taken() -> None:
    """Ranges that are too narrow are widened where overflow begins, until a check on fresh states passes."""
    region, graph = Region.of(ARM), trace(ARM, GRADIENT)
    narrow = Policy(guard_bits=-0.1)
    search = WordLengthSearch(graph, region, Goal(1e-3, fresh=16384), narrow, None, None)
    first = next(search.attempts(24, 0.1, 0.985))
    assert first.overflows
    assert not first.meets
    assert first.origins
    optimized = optimize(graph, region, Goal(1e-3, fresh=16384), narrow)
    for kind, sample in optimized.statement.samples.items():
        assert sample.overflow <= OVERFLOWS[kind]


def test_promises_that_fresh_states_break_are_errors() -> None:
    region, graph = Region.of(ARM), trace(ARM, GRADIENT)
    search = WordLengthSearch(graph, region, Goal({"minv": 1e-3}, fresh=9000), Policy(guard_bits=None), None, None)
    overflowing = assign(graph, region, Policy(word=24, guard_bits=-1.0))
    assert search.checked(overflowing) is None
    with pytest.raises(
        AccuracyError,
        match=r"no word lengths up to 27 bits meet the goal: .* of the states in the region overflow; at most 5e-05 "
        r"may; overflow begins at '.*', '.*'",
    ):
        search.promised(overflowing)
    coarse = assign(graph, region, Policy(word=12))
    with pytest.raises(
        AccuracyError, match=r"meet the goal: minv errs by .*e-0. in states in the region; the goal is 1.0e-03"
    ):
        search.promised(coarse)
    with pytest.raises(AccuracyError, match=r"words of 27 bits overflow in .*% of the states, beginning at '"):
        WordLengthSearch(graph, region, Goal(1e-3), Policy(guard_bits=-9.0), None, None).widest()


@pytest.mark.parametrize("function", ["inverse_dynamics", GRADIENT])
def test_external_forces_are_in_every_state(function: str, tmp_path: Path) -> None:
    region, graph = Region.of(ARM), trace(ARM, function, external_forces=True)
    optimized = optimize(graph, region, Goal(1e-3, fresh=16384))
    assert optimized.error <= 1e-3
    assert state(optimized.formatted, region, Goal(1e-3, fresh=1000)).samples["rest"].states == 1000
    assert measure(graph, region, "word", 20, 256).error < 0.1


def test_external_forces_are_built_with_a_goal_and_run(designs: Path) -> None:
    algorithm = AlgorithmOptions(external_forces=True)
    request = DesignRequest(ARM, "inverse_dynamics", ii=8, goal=Goal(1e-3), algorithm=algorithm)
    report = report_design(request, folder=designs, checks=Checks(64))
    assert report.passed, report.text()
    assert report.section(DatapathSection).built.design.formats.statement["samples"]["limits"]["states"] == 16384


@pytest.mark.parametrize(
    ("file", "options", "function"),
    [
        ("ur_description/urdf/ur10_robot.urdf", {}, "forward_dynamics"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in [
                ("z1_description/urdf/z1.urdf", {"ignore_friction": True}, "forward_dynamics"),
                ("go2_description/urdf/go2.urdf", {}, "inverse_dynamics"),
            ]
        ),
    ],
)
def test_goals_hold_on_robots_that_nobody_tuned_to(file: str, options: dict[str, bool], function: str) -> None:
    holds_its_goal(Robot.from_urdf(DATA / file, **options), function)


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("z1_description/urdf/z1.urdf", {"ignore_friction": True}),
        ("ur_description/urdf/ur10_robot.urdf", {}),
        ("xarm_description/urdf/xarm7.urdf", {"ignore_friction": True}),
        ("a1_description/urdf/a1.urdf", {}),
    ],
)
def test_goals_of_gradients_hold_on_robots_that_nobody_tuned_to(file: str, options: dict[str, bool]) -> None:
    holds_its_goal(Robot.from_urdf(DATA / file, **options), GRADIENT)


def holds_its_goal(robot: Robot, function: str) -> None:
    """Overflows and errors of 20,000 states of each kind that chose nothing."""
    region, graph = Region.of(robot), trace(robot, function)
    goal = Goal(1e-3)
    optimized = optimize(graph, region, goal)
    for kind in KINDS:
        inputs = region.states(graph, 20000, 1234, kind)
        result = measured(optimized.formatted, inputs, evaluate(graph, inputs), optimized.statement.floors)
        assert result.overflow.mean() <= OVERFLOWS[kind], kind
        if kind == "uniform":
            assert max(float(np.quantile(e, goal.quantile)) for e in result.errors.values()) <= 1e-3


def test_the_statement_is_in_design_and_datasheet(designs: Path) -> None:
    built = build(ARM, "forward_dynamics", ii=4, goal=Goal(1e-3), folder=designs)
    statement = built.design.formats.statement
    assert list(statement["samples"]) == list(KINDS)
    text = (built.folder / "datasheet.md").read_text()
    assert "| output | floor | uniform in the region | at its limits | near rest (5% of speed) |" in text
    assert "Of 65536 states in the region (seed 32) qdd errs most" in text


def test_goals_are_checked() -> None:
    for change, message in [
        ({"error": 0.0}, "error 0.0; expected more than 0, less than 1"),
        ({"error": {"qdd": 2.0}}, "error 2.0 of qdd; expected more than 0, less than 1"),
        ({"error": {}}, "a goal without an error; expected one number, or one by output block"),
        ({"quantile": 1.0}, "quantile 1.0; expected more than 0, less than 1"),
        ({"floor": -0.1}, "floor -0.1; expected 0 to 1"),
        ({"kinds": ("corner",)}, "states of kinds .*; expected some of uniform, limits, rest"),
        ({"fresh": 0}, "fresh=0; expected a whole number of 1 or more"),
    ]:
        with pytest.raises(ValueError, match=message):
            replace(Goal(1e-3), **change)  # type: ignore[arg-type]
