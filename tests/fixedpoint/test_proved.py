"""Proved ranges and errors: nothing that is sampled, climbed to or enumerated leaves its bound."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Region, Robot, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.format import Arithmetic, Format, FormattedIntegers, to_float
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.intervals import Interval, IntervalWithError, ProofError, point
from dynagate.fixedpoint.models.evaluate import evaluate, evaluate_integers, quantize_inputs
from dynagate.fixedpoint.models.files import write_formats
from dynagate.fixedpoint.operations import FIXED, FixedOp, Unit
from dynagate.fixedpoint.proof.error_bounds import proved_and_sampled
from dynagate.fixedpoint.ranges.pivots import pivot_ranges
from dynagate.fixedpoint.ranges.proved import Proof, prove, proved_ranges
from dynagate.forces import Friction
from dynagate.graph import OPS, Graph
from dynagate.graph.evaluate import evaluate as evaluate_float
from dynagate.graph.evaluate import evaluate_nodes
from dynagate.graph.region import Kind

from tests.robots import DATA, floating_robot, random_robot, read_other

PROVED = Policy(ranges="proved")
MILLISECONDS = PROVED.milliseconds
FLOAT64 = 1e-12
"""Errors are bounded against real arithmetic. The reference is float64: so far from it, relative to a node's range."""
ARM = robots.load("two_joint_arm")
STATES: dict[Kind, int] = {"uniform": 6000, "limits": 3000, "rest": 1000}


def proof_of(formatted: FormattedGraph, region: Region, **options: Any) -> Proof:
    return prove(formatted, region, MILLISECONDS, **options)


def floating(folder: Path) -> Robot:
    return floating_robot(3, folder)


def region_of(robot: Robot) -> Region:
    free = {link.joint.name: 3.0 for link in robot.links if link.joint.nv and not link.joint.velocity}
    return Region.of(robot, velocity=free or None)


def leaves(formatted: FormattedGraph, proof: Proof, inputs: dict[str, np.ndarray]) -> list[str]:
    """Nodes whose values or errors are beyond their bounds, or that overflow."""
    graph = formatted.graph
    result = evaluate_integers(formatted, quantize_inputs(formatted, inputs), keep_all=True)
    beyond = [f"{graph.nodes[i].name} overflows" for i in result.origins]
    for i, value in enumerate(evaluate_nodes(graph, inputs)):
        slack = FLOAT64 * max(-proof.low[i], proof.high[i], 1e-300)
        if np.min(value) < proof.low[i] - slack or np.max(value) > proof.high[i] + slack:
            beyond.append(f"{graph.nodes[i].name} leaves its range")
        error = np.abs(to_float(result.value[i], formatted.formats[i]) - value)
        if np.max(error) > proof.error[i] + slack:
            beyond.append(f"{graph.nodes[i].name} errs by {np.max(error)}, not {proof.error[i]}")
    return beyond


@pytest.mark.parametrize(
    ("name", "function", "goals"),
    [
        ("two_joint_arm", "inverse_dynamics_gradient", {"dtau_dq": 1e-5}),
        ("iiwa14", "inverse_dynamics", {"tau": 1e-4}),
        ("iiwa14", "mass_matrix", {"m": 2e-5}),
        pytest.param(
            "iiwa14", "inverse_dynamics_gradient", {"dtau_dq": 4e-4, "dtau_dqd": 4e-4}, marks=pytest.mark.long
        ),
        ("hyq", "inverse_dynamics", {"tau": 1e-4}),
        ("hyq, floating", "inverse_dynamics", {"tau": 1.5e-3}),
        pytest.param("random, floating", "inverse_dynamics", {}, marks=pytest.mark.long),
    ],
)
def test_no_sampled_state_leaves_its_bounds(name: str, function: str, goals: dict[str, float], tmp_path: Path) -> None:
    """goals: of each output the largest proved error over the largest output."""
    shipped, _, base = name.partition(", ")
    robot = floating(tmp_path) if shipped == "random" else robots.load(shipped, floating_base=bool(base))
    region = region_of(robot)
    formatted = assign(trace(robot, function), region, PROVED)
    proof = proof_of(formatted, region)
    samples = [region.sample(function, count, seed=5, kind=kind) for kind, count in STATES.items()]
    states = {key: np.concatenate([sample[key] for sample in samples]) for key in samples[0]}
    assert leaves(formatted, proof, states) == []
    for output, value in evaluate_float(formatted.graph, states).items():
        assert proof.error_of(output) <= goals.get(output, np.inf) * np.abs(value).max()


def climb(formatted: FormattedGraph, region: Region, kind: Kind, *, of_errors: bool, rounds: int) -> tuple[float, ...]:
    """400 states that climb towards larger errors, or larger torques; none of them is above its bound. Returns where
    they began, the largest they came to, and its bound."""
    random, proof = np.random.default_rng(7), proof_of(formatted, region)
    box = {key: np.array(region.bounds(key)).T for key in ("q", "qd", "qdd")}
    best = region.sample("inverse_dynamics", 400, seed=6, kind=kind)
    heights, first = np.zeros(400), 0.0
    for step in range(rounds):
        wide = 0.3 * 0.07 ** (step / rounds)
        tried = {
            key: np.clip(x + (step > 0) * wide * (box[key][1] - box[key][0]) * random.normal(size=x.shape), *box[key])
            for key, x in best.items()
        }
        exact, result = evaluate_float(formatted.graph, tried)["tau"], evaluate(formatted, tried)
        assert not result.overflow.any()
        errors = np.abs(result.outputs["tau"] - exact).max(axis=1)
        assert errors.max() <= proof.error_of("tau")
        assert np.abs(exact).max() <= proof.largest("tau")
        height = errors if of_errors else np.abs(exact).max(axis=1)
        better = height > heights
        heights = np.where(better, height, heights)
        best = {key: np.where(better[:, None], tried[key], x) for key, x in best.items()}
        first = first or heights.max()
    return first, heights.max(), proof.error_of("tau") if of_errors else proof.largest("tau")


@pytest.mark.parametrize("of_errors", [True, False])
def test_a_hill_climb_stays_within_the_bounds(of_errors: bool) -> None:
    """Towards larger errors, and towards larger torques."""
    robot = robots.load("iiwa14")
    formatted = assign(trace(robot, "inverse_dynamics"), Region.of(robot), PROVED)
    first, highest, bound = climb(formatted, Region.of(robot), "uniform", of_errors=of_errors, rounds=25)
    assert 1.1 * first < highest <= bound


def other_robot(name: str, **options: Any) -> Robot:
    return read_other(DATA / name, round_rotations=1e-3, **options)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "panda_description/urdf/panda.urdf",
        "so_arm_description/urdf/so100.urdf",
        "talos_data/robots/talos_left_arm.urdf",
    ],
)
def test_a_hundred_thousand_steps_from_the_limits(name: str) -> None:
    robot = other_robot(name, ignore_friction=True, unlimited=True)
    formatted = assign(trace(robot, "inverse_dynamics"), region_of(robot), PROVED)
    first, highest, bound = climb(formatted, region_of(robot), "limits", of_errors=True, rounds=250)
    print(f"{robot.name}: {first:.1e} of a sample, {highest:.1e} after the climb, {bound:.1e} proved")
    assert 1.05 * first < highest <= bound


TWENTY = [
    "a1_description/urdf/a1.urdf",
    "anymal_c_simple_description/urdf/anymal.urdf",
    "asr_twodof_description/urdf/TwoDofs.urdf",
    "go1_description/urdf/go1.urdf",
    "kinova_description/robots/kinova.urdf",
    "panda_description/urdf/panda.urdf",
    "so_arm_description/urdf/so100.urdf",
    "solo_description/robots/solo12.urdf",
    "talos_data/robots/talos_left_arm.urdf",
    "ur_description/urdf/ur5_robot.urdf",
    "xarm_description/urdf/xarm7.urdf",
    "z1_description/urdf/z1.urdf",
]
"""Of other people; with the three that ship and five random ones, twenty."""


@pytest.mark.long
def test_ranges_of_twenty_robots_are_not_far_beyond_their_samples(tmp_path: Path) -> None:
    models = [robots.load(name) for name in ("two_joint_arm", "iiwa14", "hyq")]
    models += [random_robot(seed, tmp_path)[0] for seed in range(5)]
    models += [other_robot(name, ignore_friction=True, unlimited=True) for name in TWENTY]
    medians = []
    for robot in models:
        region = region_of(robot)
        shown = proved_and_sampled(assign(trace(robot, "inverse_dynamics"), region, PROVED), region, PROVED)
        (block,) = shown.blocks.values()
        print(f"{robot.name}: {shown.text()}; tau {block.text()}")
        assert block.measured_error <= block.proved_error
        assert block.measured_largest <= block.proved_largest
        medians.append(shown.bits_beyond)
    print(f"the median of {len(models)} robots' medians: {np.median(medians):.2f} bits")
    assert np.median(medians) < 2.0


def _numbers(random: np.random.Generator, op: str) -> Interval:
    """Intervals that hold zero or not, points among them."""
    center, width = random.normal(size=400) * 3.0, np.abs(random.normal(size=400)) * random.integers(0, 3, 400)
    low = np.abs(center) + 0.01 if FIXED[op].positive else center
    return Interval(low, low + width)


def row_is_wrong(op: str, row: FixedOp) -> bool:
    """Whether numbers within the operands' intervals leave the row's image, or rounded ones its error."""
    random, kind = np.random.default_rng(1), OPS[op]
    operands = [_numbers(random, op) for _ in range(kind.arity)]
    constant = 3.0 if kind.constant == "exponent" else -1.7
    constants = [point(constant)] if kind.constant else []
    low, high = row.image(*operands, *constants)
    errors = [np.full(400, 0.003)] * kind.arity + [np.zeros(400) if kind.constant == "exponent" else 0.002] * len(
        constants
    )
    error = row.error(*(IntervalWithError(*pair) for pair in zip([*operands, *constants], errors, strict=True)))
    wrong = False
    for _ in range(60):
        parts = [random.choice([0.0, 1.0, random.uniform()], size=400) for _ in operands]
        exact = [o.low + part * (o.high - o.low) for o, part in zip(operands, parts, strict=True)] + [constant] * len(
            constants
        )
        held = [x + random.choice([-1.0, 1.0], size=400) * e for x, e in zip(exact, errors, strict=True)]
        value = kind.real(*exact)
        rounding = 1e-12 * np.maximum(np.abs(value), 1.0)
        wrong |= bool(np.any((value < low - rounding) | (value > high + rounding)))
        wrong |= bool(np.any(np.abs(kind.real(*held) - value) > error + rounding))
    return wrong


OPERATIONS = [op for op in OPS if op != "input"]


@pytest.mark.parametrize("op", OPERATIONS)
def test_every_row_holds_its_operation(op: str) -> None:
    assert not row_is_wrong(op, FIXED[op])


def _shorter(interval: Interval, low: float, high: float) -> Interval:
    """An interval less parts of its length, and a little of where it has none."""
    size = interval.high - interval.low + 0.01
    return Interval(interval.low + low * size, interval.high - high * size)


WRONG: dict[str, Callable[[FixedOp], dict[str, Any]]] = {
    "the top is too low": lambda row: {"image": lambda *x: _shorter(row.image(*x), 0.0, 0.1)},
    "the bottom is too high": lambda row: {"image": lambda *x: _shorter(row.image(*x), 0.1, 0.0)},
    "the error is too small": lambda row: {"error": lambda *x: 0.9 * row.error(*x)},
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("op", [op for op in OPERATIONS if op != "noise"])  # no states have the largest error of it
def test_a_wrong_row_is_caught(op: str, wrong: str) -> None:
    assert row_is_wrong(op, replace(FIXED[op], **WRONG[wrong](FIXED[op])))


def test_a_wrong_row_is_caught_in_a_robot(monkeypatch: pytest.MonkeyPatch) -> None:
    region = Region.of(ARM)
    formatted = assign(trace(ARM, "inverse_dynamics"), region, PROVED)
    states = region.sample("inverse_dynamics", 3000, seed=1)
    for op in ("add", "mul", "mul_const", "cos"):
        for part in ("image", "error"):
            with monkeypatch.context() as patch:
                right = FIXED[op].image
                wrong = {"image": lambda *x, right=right: _half(right(*x)), "error": lambda *x: 0.0}[part]
                patch.setitem(FIXED, op, replace(FIXED[op], **{part: wrong}))
                assert leaves(formatted, proof_of(formatted, region), states), (op, part)


def _half(interval: Interval) -> Interval:
    return Interval(0.75 * interval.low + 0.25 * interval.high, 0.25 * interval.low + 0.75 * interval.high)


def test_a_missing_row_is_an_error() -> None:
    rows = {op: row for op, row in FIXED.items() if op != "select"}
    with pytest.raises(ValueError, match=r"^table fixedpoint.operations has no row for operation 'select'$"):
        dynagate.graph.ops.table("fixedpoint.operations", rows)


@pytest.mark.parametrize(
    "op", [op for op, row in FIXED.items() if isinstance(row.meaning, Unit) and OPS[op].arity == 1]
)
@pytest.mark.parametrize(
    ("source", "to"),
    [
        (Format(12, 9), Format(12, 10)),
        (Format(12, 3), Format(12, 4)),
        (Format(9, 4), Format(14, 12)),
        (Format(14, 11), Format(9, 7)),
        (Format(13, 10), Format(12, 1)),
        (Format(10, 8), Format(16, 13)),
        (Format(17, 14), Format(20, 18)),
        (Format(28, 25), Format(30, 26)),
    ],
)
def test_units_err_by_no_more_than_their_bound(op: str, source: Format, to: Format) -> None:
    """Every operand of short formats, some of long ones. The bound is below two units of the last place."""
    x = np.arange(source.lowest, source.highest + 1, max(2 ** (source.width - 17) - 1, 1))
    unit = FIXED[op].meaning
    assert isinstance(unit, Unit)
    result = unit.compute([FormattedIntegers(x, source)], to, Arithmetic())
    real = to_float(x, source)
    positive = ~result.overflow & ((real > 0.0) | (not FIXED[op].positive))
    if not positive.any():
        return
    exact = OPS[op].real(real[positive])
    error = np.abs(to_float(result.value[positive], to) - exact)
    assert np.all(error <= unit.errs(source, to, np.abs(exact)))
    assert unit.errs(source, to, np.abs(exact).max()) < 2.0 * to.step


def test_a_quaternion_turns_gravity_and_does_not_lengthen_it(tmp_path: Path) -> None:
    robot = floating(tmp_path)
    region = region_of(robot)
    graph = trace(robot, "inverse_dynamics")
    ranges = proved_ranges(graph, region, 0.0)
    values = evaluate_nodes(graph, region.sample("inverse_dynamics", 20000, seed=1))
    turned = set(graph.inputs[0].nodes[3:7])
    for i, node in enumerate(graph.nodes):
        if node.args and turned.issuperset(node.args):
            turned.add(i)
            assert ranges.largest[i] <= 1.05 * np.abs(values[i]).max(), node.name
    assert len(turned) > 15


def test_a_proof_is_the_same_again_and_narrower_with_time() -> None:
    robot = robots.load("iiwa14")
    region, graph = Region.of(robot), trace(robot, "inverse_dynamics")
    first, again = (assign(graph, region, PROVED) for _ in range(2))
    assert first == again
    proofs = [proof_of(first, region) for _ in range(2)]
    np.testing.assert_array_equal(proofs[0].error, proofs[1].error)
    times = (0.0, MILLISECONDS / 10.0)
    whole, part = (prove(assign(graph, region, replace(PROVED, milliseconds=t)), region, t) for t in times)
    assert proofs[0].error_of("tau") < part.error_of("tau") < whole.error_of("tau")
    assert proofs[0].largest("tau") < part.largest("tau") < whole.largest("tau")


def test_streams_of_float32_count() -> None:
    region = Region.of(ARM)
    graph = trace(ARM, "inverse_dynamics")
    states = region.sample("inverse_dynamics", 5000, seed=3)
    numbers = dict.fromkeys(("q", "qd", "qdd", "tau"), "float32")
    formatted = assign(graph, region, PROVED, numbers=numbers)
    proof = proof_of(formatted, region, numbers=numbers)
    result = evaluate(formatted, states, numbers)
    error = np.abs(result.outputs["tau"] - evaluate_float(formatted.graph, states)["tau"]).max()
    assert not result.overflow.any()
    assert 0.1 * proof.error_of("tau") < error <= proof.error_of("tau")


def test_friction_divides_by_what_is_positive() -> None:
    region = Region.of(ARM)
    graph = trace(ARM, "inverse_dynamics", forces=[Friction(1.0)])
    formatted = assign(graph, region, PROVED)
    samples = [region.states(graph, count, 5, kind) for kind, count in STATES.items()]
    states = {key: np.concatenate([sample[key] for sample in samples]) for key in samples[0]}
    assert leaves(formatted, proof_of(formatted, region), states) == []
    coarse = assign(graph, region, Policy(word=6))
    with pytest.raises(
        ProofError, match=r"^node '.*' \(joint '.*'\) of inverse_dynamics: its operand '.*' errs by up to "
    ):
        proof_of(coarse, region)


@pytest.mark.parametrize("arithmetic", [Arithmetic("floor"), Arithmetic("floor", "saturate")])
def test_floored_results_err_twice_as_much(arithmetic: Arithmetic) -> None:
    region, graph = Region.of(ARM), trace(ARM, "inverse_dynamics_gradient")
    formatted = assign(graph, region, replace(PROVED, arithmetic=arithmetic))
    proof = proof_of(formatted, region)
    assert leaves(formatted, proof, region.sample(graph.name, 5000, seed=1)) == []
    rounded = proof_of(assign(graph, region, PROVED), region)
    assert 1.2 < proof.error_of("dtau_dq") / rounded.error_of("dtau_dq") < 2.0


def test_several_functions_are_proved_together() -> None:
    region = Region.of(ARM)
    graph: Graph = trace(ARM, "inverse_dynamics,mass_matrix")
    formatted = assign(graph, region, PROVED)
    assert leaves(formatted, proof_of(formatted, region), region.states(graph, 2000, 3)) == []


@pytest.mark.parametrize("form", ["mass_matrix_solve", "aba"])
def test_forward_dynamics_of_short_chains_is_proved(form: str) -> None:
    region = Region.of(ARM, effort="limits")
    formatted = assign(trace(ARM, "forward_dynamics", form=form), region, PROVED)
    proof = proof_of(formatted, region)
    samples = [region.sample("forward_dynamics", count, seed=5, kind=kind) for kind, count in STATES.items()]
    states = {key: np.concatenate([sample[key] for sample in samples]) for key in samples[0]}
    assert leaves(formatted, proof, states) == []
    largest = np.abs(evaluate_float(formatted.graph, states)["qdd"]).max()
    assert proof.error_of("qdd") < 1e-4 * largest
    assert proof.largest("qdd") < 2.0 * largest


@pytest.mark.parametrize("form", ["mass_matrix_solve", "aba"])
def test_no_pivot_is_below_its_link_alone(form: str, tmp_path: Path) -> None:
    """In random states of random trees, with armature; and the last link of a chain has that pivot."""
    for seed in (1, 2, 3, 4):
        robot = floating_robot(seed, tmp_path)
        links = [replace(link, joint=replace(link.joint, armature=0.02 * k)) for k, link in enumerate(robot.links)]
        robot = replace(robot, links=tuple(links))
        graph = trace(robot, "forward_dynamics", form=form)
        ranges = pivot_ranges(graph, robot)
        assert ranges.keys() == {node.args[0] for node in graph.nodes if node.op == "reciprocal"}
        states = region_of(robot).sample("forward_dynamics", 300, seed=1)
        values = evaluate_nodes(graph, states)
        excess = [float(np.min(values[i]) / ranges[i].low) for i in ranges]
        assert min(excess) > 1.0 - 1e-12
        assert min(ranges[i].low for i in ranges) > 0.0
    variable = trace(ARM.with_variable("forearm"), "forward_dynamics")
    assert pivot_ranges(variable, ARM) == {}


def test_a_divisor_that_may_be_zero_is_refused_by_node_and_joint() -> None:
    arm = ARM.with_variable("forearm")
    region = Region.of(arm, effort="limits")
    with pytest.raises(
        ProofError,
        match=r"^node 'ltdl\.link0\.d' \(joint 'shoulder'\) of forward_dynamics is the reciprocal of 'ltdl\.\S+', "
        r"which lies between -.* and .* by intervals and is not proved to be positive; expected "
        r'ranges="sampled" \(without '
        r"--proved\), perhaps with certificate=True \(--certificate\), or a function that does not divide, such as "
        r"inverse_dynamics \[DG-",
    ):
        assign(trace(arm, "forward_dynamics"), region, PROVED)
    robot = robots.load("iiwa14")
    region = Region.of(robot, effort="limits")
    with pytest.raises(
        ProofError,
        match=r"^node 'ltdl\.link\d\.d' \(joint 'joint_\d'\) of forward_dynamics: its operand 'ltdl\S+' errs by up to "
        r"\S+ and is proved to be \S+ or more, so it may be zero when rounded; expected \d+ bits or more, or "
        r'ranges="sampled" \(without --proved\), perhaps with certificate=True \(--certificate\) \[DG-',
    ):
        assign(trace(robot, "forward_dynamics"), region, PROVED)
    with pytest.raises(ArgumentError, match=r"^ranges='proved' of a rollout; expected ranges='sampled' \(--proved"):
        dynagate.build(ARM, "rollout", dt=0.01, policy=PROVED)


def test_an_input_without_limits_is_refused_by_its_joints() -> None:
    region = Region.of(ARM, effort="limits")
    with pytest.raises(
        ProofError,
        match=r"^inverse_dynamics: the region has no limits for input 'qdd' of joints 'shoulder', 'elbow', so no range "
        r"is proved; expected a region that limits it \(acceleration= for qdd, effort= for tau\), or ",
    ):
        assign(trace(ARM, "inverse_dynamics"), region, PROVED)


def test_a_word_that_is_too_short_says_how_many_bits_it_wants() -> None:
    region = Region.of(ARM)
    graph = trace(ARM, "inverse_dynamics")
    formatted = assign(graph, region, PROVED)
    k = next(i for i, node in enumerate(formatted.graph.nodes) if node.op == "mul" and formatted.formats[i].frac > 0)
    short = list(formatted.formats)
    short[k] = Format(short[k].width - 6, short[k].frac)
    name = re.escape(formatted.graph.nodes[k].name)
    with pytest.raises(ProofError, match=rf"^node '{name}'( \(joint '.*'\))? of inverse_dynamics goes from ") as error:
        proof_of(replace(formatted, formats=tuple(short)), region)
    wanted = re.search(r"expected (\d+) bits with (\d+) of them behind the point$", error.value.text)
    assert wanted is not None
    short[k] = Format(*map(int, wanted.groups()))
    assert short[k].width > formatted.formats[k].width - 6
    proof_of(replace(formatted, formats=tuple(short)), region)
    with pytest.raises(ProofError, match=r"^output 'tau' of inverse_dynamics: the proved error, .* expected \d+ bits"):
        proof_of(assign(graph, region, Policy(word=4, ranges="proved")), region)


def test_policies_are_checked() -> None:
    with pytest.raises(ArgumentError, match=r"^ranges 'guessed'; expected 'sampled' or 'proved' \[DG-"):
        Policy(ranges="guessed")
    with pytest.raises(ArgumentError, match=r"^milliseconds -1; expected a number of 0 or more \[DG-"):
        Policy(milliseconds=-1)
    states = Region.of(ARM).sample("inverse_dynamics", 5, seed=1)
    with pytest.raises(ArgumentError, match=r"^trajectories with proved ranges; expected one of them: "):
        assign(trace(ARM, "inverse_dynamics"), Region.of(ARM), PROVED, states)
    with pytest.raises(ArgumentError, match=r"^a goal and proved ranges; expected one of them: "):
        dynagate.build(ARM, "inverse_dynamics", policy=PROVED, goal=dynagate.fixedpoint.wordlength.goal.Goal(1e-3))


def test_the_command_prints_proved_beside_measured(tmp_path: Path) -> None:
    asked = ["build", "two_joint_arm", "--function", "inverse_dynamics", "--folder", str(tmp_path)]
    built = CliRunner().invoke(main, [*asked, "--proved"])
    assert built.exit_code == 0, built.output
    row = re.search(
        r"^  tau +error at most (\S+) \(proved\), (\S+) \(measured\); magnitude at most (\S+) \(proved\), (\S+) "
        r"\(measured\)$",
        built.output,
        re.MULTILINE,
    )
    assert row is not None
    ranges = re.search(r"^  ranges +(\S+) bits beyond the sample's in the median, (\S+) at most$", built.output, re.M)
    assert ranges is not None
    assert 0.0 <= float(ranges[1]) < float(ranges[2]) < 2.0
    proved_error, measured_error, proved_largest, measured_largest = map(float, row.groups())
    assert 0.0 < measured_error < proved_error < 1e-3 < measured_largest < proved_largest < 2.0 * measured_largest
    folder = Path(built.output.splitlines()[-1])
    assert "## Proved\n\nNo state of the region overflows" in (folder / "datasheet.md").read_text()
    assert json.loads((folder / "design.json").read_text())["formats"]["proved"]["blocks"].keys() == {"tau"}
    sampled = assign(trace(ARM, "inverse_dynamics"), Region.of(ARM), Policy(word=20, guard_bits=-2.0))
    formats = tmp_path / "formats.json"
    write_formats(sampled, formats)
    refused = CliRunner().invoke(main, [*asked, "--proved", "--formats", str(formats)])
    assert refused.exit_code == 1
    assert re.search(r"node '.*' .* holds .*; expected \d+ bits with \d+ of them behind the point", refused.output)
    for more, text in ((["--error", "1e-3"], "--proved and --error are both given"), ([], "")):
        if more:
            assert text in CliRunner().invoke(main, [*asked, "--proved", *more]).output
