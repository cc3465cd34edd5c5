"""Certificates: no result errs by more than its own, whatever computed it, and they are not far above the errors."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import AlgorithmOptions, DesignRequest, Policy, Region, Robot, build, evaluate, robots, trace
from dynagate.cli import main
from dynagate.fixedpoint.assign import assign
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.fuse import angle_format, fused
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_fixed
from dynagate.fixedpoint.proof.certificate import Certificate, ProcessorModel, certified
from dynagate.fixedpoint.proof.mass_bound import MassBound, mass_bound
from dynagate.graph import OPS
from dynagate.graph.certificate import with_certificate
from dynagate.graph.region import Kind

from tests.core_programs import SMALL
from tests.robots import floating_robot

KINDS: tuple[Kind, ...] = ("uniform", "limits", "rest")
ARM, IIWA, HYQ = (robots.load(name) for name in ("two_joint_arm", "iiwa14", "hyq"))


@cache
def certified_of(robot: Robot, function: str, policy: Policy, **region: Any) -> tuple[FormattedGraph, Certificate]:
    states = Region.of(robot, **region)
    return certified(assign(trace(robot, function), states, policy), states, policy)


def errors_and_certificates(
    formatted: FormattedGraph, region: Region, states: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors of q̈, certificates and sizes of q̈ of the states that did not overflow, each (states,)."""
    result = evaluate_fixed(formatted, states)
    expected = evaluate(trace(region.robot, "forward_dynamics"), {key: states[key] for key in ("q", "qd", "tau")})[
        "qdd"
    ]
    errors = np.linalg.norm(result.outputs["qdd"] - expected, axis=1)
    fits = ~result.overflow
    return errors[fits], result.outputs["certificate"][fits], np.linalg.norm(expected, axis=1)[fits]


@pytest.mark.parametrize(
    ("robot", "function", "policy", "limit"),
    [
        (ARM, "forward_dynamics", Policy(), 1e-3),
        (IIWA, "forward_dynamics", Policy(), 6e-4),
        (HYQ, "forward_dynamics_gradient", Policy(), 3e-3),
        (IIWA, "forward_dynamics", Policy(word=16), np.inf),  # errors are as large as the results
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_no_result_errs_by_more_than_its_certificate(robot: Robot, function: str, policy: Policy, limit: float) -> None:
    region = Region.of(robot)
    formatted, _ = certified_of(robot, function, policy)
    for kind in KINDS:
        states = region.sample(function, 4000, seed=31, kind=kind)
        errors, certificates, sizes = errors_and_certificates(formatted, region, states)
        assert len(errors) > 3900
        assert (certificates >= errors).all()
        if kind == "uniform":
            assert np.quantile(certificates / sizes, 0.99) <= limit


def test_a_hill_climb_finds_no_error_above_its_certificate() -> None:
    region, random = Region.of(IIWA), np.random.default_rng(5)
    formatted, _ = certified_of(IIWA, "forward_dynamics", Policy(word=20))
    inverse = trace(IIWA, "inverse_dynamics")
    point = {key: value[:256] for key, value in region.sample("inverse_dynamics", 256, seed=8).items()}
    best = np.zeros(256)
    for _ in range(25):
        spans = {"q": np.array(region.upper), "qd": np.array(region.velocity), "qdd": np.array(region.acceleration)}
        moved = {key: value + random.normal(0, 0.03, value.shape) * spans[key] for key, value in point.items()}
        moved = {key: np.clip(value, -spans[key], spans[key]) for key, value in moved.items()}
        states = {"q": moved["q"], "qd": moved["qd"], "tau": evaluate(inverse, moved)["tau"]}
        result = evaluate_fixed(formatted, states)
        errors = np.linalg.norm(result.outputs["qdd"] - moved["qdd"], axis=1)
        ratio = np.where(result.overflow, 0.0, errors / result.outputs["certificate"])
        rises = ratio > best
        best = np.maximum(best, ratio)
        point = {key: np.where(rises[:, None], moved[key], value) for key, value in point.items()}
    assert 0.05 < best.max() < 1.0


def test_results_stay_what_they_are() -> None:
    region = Region.of(IIWA)
    plain = assign(trace(IIWA, "forward_dynamics"), region)
    formatted, _ = certified_of(IIWA, "forward_dynamics", Policy())
    states = region.sample("forward_dynamics", 500, seed=3)
    assert np.array_equal(
        evaluate_fixed(plain, states).outputs["qdd"], evaluate_fixed(formatted, states).outputs["qdd"]
    )


def test_a_wrong_constant_raises_the_certificate() -> None:
    """It knows nothing of what computed q̈: an inertia that is wrong by 2 ‰ shows in it."""
    region = Region.of(ARM)
    formatted, _ = certified_of(ARM, "forward_dynamics", Policy())
    constants = dict(formatted.constants)
    nodes = enumerate(formatted.graph.nodes)
    place = max(i for i, node in nodes if node.op == "mul_const" and node.name.startswith("crba"))
    value, fmt = constants[place]
    constants[place] = value - abs(value) // 500, fmt
    wrong = FormattedGraph(formatted.graph, formatted.formats, constants, formatted.bounds, formatted.arithmetic)
    states = region.sample("forward_dynamics", 4000, seed=4)
    errors, certificates, _ = errors_and_certificates(wrong, region, states)
    sound, usual, _ = errors_and_certificates(formatted, region, states)
    assert np.median(errors) > 5.0 * np.median(sound)
    assert np.median(certificates) > 1.5 * np.median(usual)
    assert (certificates >= errors).all()


@pytest.mark.parametrize("options", [{}, {"dtype": "float32"}, {"dtype": "float32", "pack": True}], ids=str)
def test_floating_point_has_certificates_too(options: dict[str, Any]) -> None:
    states = Region.of(IIWA).sample("forward_dynamics", 4000, seed=6)
    expected = evaluate(trace(IIWA, "forward_dynamics"), states)["qdd"]
    with dynagate.compile(IIWA, "forward_dynamics", device="cpu", certificate=True, **options) as accelerator:
        results = accelerator(**states)
    errors = np.linalg.norm(results.qdd - expected, axis=1)
    sizes = np.linalg.norm(expected, axis=1)
    certificates = np.ravel(results.certificate)
    assert (certificates >= errors).all()
    assert np.quantile(certificates / sizes, 0.99) < (1e-3 if options else 2e-12)


def test_integers_and_pipeline_have_the_same_ones(designs: Path) -> None:
    states = Region.of(ARM).sample("forward_dynamics", 200, seed=2)
    with dynagate.compile(ARM, "forward_dynamics", device="fixed", certificate=True) as integers:
        expected = integers(**states)
    built = build(ARM, "forward_dynamics", ii=4, certificate=True, folder=designs)
    with dynagate.open(built, device="sim") as datapath, dynagate.open(built.folder, device="fixed") as again:
        results, third = datapath(**states), again(**states)
    for other in (results, third):
        assert np.array_equal(other.certificate, expected.certificate)
        assert np.array_equal(other.qdd, expected.qdd)
    sheet = (built.folder / "datasheet.md").read_text()
    assert "| certificate | bounds the error of qdd as a vector, " in sheet
    assert "mass matrix proved, errors of its torques sampled" in sheet


def test_programs_have_them_in_words_of_their_own(tmp_path: Path) -> None:
    """The integers of a core are others than a pipeline's, and so is what its left-over torques err."""
    region = Region.of(ARM)
    samples = [region.sample("forward_dynamics", 300, seed=9, kind=kind) for kind in KINDS]
    states = {key: np.concatenate([sample[key] for sample in samples]) for key in ("q", "qd", "tau")}
    built = build(ARM, "forward_dynamics", units=SMALL, certificate=True, folder=tmp_path)
    pipeline = certified_of(ARM, "forward_dynamics", Policy())[1]
    certificate = Certificate.of_dict(built.design.formats.certificate or {})
    assert pipeline.offset < certificate.offset < 4.0 * pipeline.offset  # 24 bits for 27
    with dynagate.open(built) as core, dynagate.open(built.folder, device="fixed") as again:
        results, integers = core(**states), again(**states)
    assert np.array_equal(results.certificate, integers.certificate)
    errors = np.linalg.norm(results.qdd - evaluate(trace(ARM, "forward_dynamics"), states)["qdd"], axis=1)
    assert not results.overflow.any()
    assert (results.certificate >= errors).all()
    assert f"| certificate | {certificate.text()} |" in (built.folder / "datasheet.md").read_text()


def test_no_result_of_a_program_errs_by_more() -> None:
    """iiwa14's, in the integers of its program."""
    policy = Policy(word=20)
    region, graph = Region.of(IIWA), trace(IIWA, "forward_dynamics")
    formatted = assign(graph, region, policy)
    machine = ProcessorModel(policy.word, lambda each: fused(each, angle_format(formatted, policy.word)))
    program = machine.computed(certified(formatted, region, policy, machine)[0])
    assert {fmt.width for fmt in program.formats} == {policy.word}
    for kind in KINDS:
        errors, certificates, sizes = errors_and_certificates(
            program, region, region.sample("forward_dynamics", 3000, seed=12, kind=kind)
        )
        assert len(errors) > 2950
        assert (certificates >= errors).all()
        assert kind != "uniform" or np.quantile(certificates / sizes, 0.99) <= 2e-2


@pytest.mark.long
def test_the_command_runs_programs_with_certificates(tmp_path: Path) -> None:
    command = ["run", "iiwa14", "--function", "forward_dynamics", "--certificate", "--units", "4", "--states", "200"]
    done = CliRunner().invoke(main, [*command, "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert re.search(r"^    certificate .* equal$", done.output, flags=re.M)


def test_torques_within_limits_have_proved_certificates() -> None:
    policy = Policy(ranges="proved")
    formatted, certificate = certified_of(ARM, "forward_dynamics", policy, effort="limits")
    assert certificate.mass_proved
    assert certificate.errors_proved
    region = Region.of(ARM, effort="limits")
    errors, certificates, sizes = errors_and_certificates(
        formatted, region, region.sample("forward_dynamics", 8000, seed=7)
    )
    assert len(errors) == 8000
    assert (certificates >= errors).all()
    assert np.quantile(certificates / sizes, 0.99) < 2e-3


def left_over(robot: Robot, bound: MassBound, count: int, seed: int) -> np.ndarray:
    """Of random torques at random positions, the acceleration's length over the bound's."""
    random = np.random.default_rng(seed)
    m = evaluate(trace(robot, "mass_matrix"), Region.of(robot, velocity=2.0).sample("mass_matrix", count, seed=seed))[
        "m"
    ]
    torques = random.normal(size=(count, robot.nv)) * np.sqrt(np.diagonal(m, axis1=1, axis2=2))
    moved = np.linalg.norm(np.linalg.solve(m, torques[:, :, None])[:, :, 0], axis=1)
    return np.asarray(moved / np.linalg.norm(bound.weights * torques, axis=1))


@pytest.mark.parametrize(("name", "proved"), [("arm", True), ("hyq", True), ("iiwa14", False), ("floating", None)])
def test_left_over_torques_move_it_by_no_more_than_the_bound(name: str, proved: bool | None, tmp_path: Path) -> None:
    robots_by_name = {"arm": ARM, "hyq": HYQ, "iiwa14": IIWA, "floating": floating_robot(3, tmp_path)}
    robot = robots_by_name[name]
    bound = mass_bound(Region.of(robot, velocity=2.0))
    assert proved is None or bound.proved is proved
    ratio = left_over(robot, bound, 20000, seed=11)
    assert 0.2 < ratio.max() <= 1.0
    loose = MassBound(bound.scale * 0.5 * ratio.max(), bound.least, bound.proved)
    assert left_over(robot, loose, 20000, seed=11).max() > 1.0


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_norm_is_above_the_length_and_not_far(size: int) -> None:
    graph = trace(IIWA, "forward_dynamics")
    inverse = trace(IIWA, "inverse_dynamics")
    whole = with_certificate(graph, inverse, [1.0] * 7, 0.5).graph
    names = {node.name: i for i, node in enumerate(whole.nodes)}
    random = np.random.default_rng(size)
    vectors = random.normal(size=(5000, 7)) * (np.arange(7) < size)
    values: dict[int, Any] = {names[f"certificate.w_{k}"]: vectors[:, k] for k in range(7)}
    for i in range(max(values) + 1, len(whole)):
        node = whole.nodes[i]
        constant = [] if node.constant is None else [node.constant]
        values[i] = OPS[node.op].real(*(values[a] for a in node.args), *constant)
    length = np.linalg.norm(vectors, axis=1)
    (bound,) = whole.outputs[-1].nodes
    assert (values[bound] >= 0.5 + length * (1.0 - 1e-12)).all()
    assert (values[bound] <= 0.5 + 1.28 * length + 1e-12).all()


@pytest.mark.parametrize(
    ("function", "algorithm", "message"),
    [
        (
            "inverse_dynamics",
            {},
            "certificate of inverse_dynamics; expected one of forward_dynamics, forward_dynamics_gradient: it bounds "
            "the error of qdd",
        ),
        (
            "forward_dynamics_gradient",
            {"outputs": ("dqdd_dq",)},
            "certificate without output 'qdd' of forward_dynamics_gradient; expected qdd among the outputs",
        ),
        (
            "constrained_forward_dynamics",
            {},
            "certificate of constrained_forward_dynamics; expected one of forward_dynamics, forward_dynamics_gradient: "
            "it bounds the error of qdd, which forces of constraints move too",
        ),
    ],
)
def test_what_cannot_be_certified_is_refused(function: str, algorithm: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        DesignRequest(ARM, function, algorithm=AlgorithmOptions(**algorithm), certificate=True)
    with pytest.raises(ValueError, match="certificate"):
        dynagate.compile(ARM, function, device="numpy", certificate=True, **algorithm)


def test_a_robot_with_variable_parameters_is_refused() -> None:
    with pytest.raises(ValueError, match="certificate with variable parameters forearm; expected one of"):
        dynagate.compile(ARM.with_variable("forearm"), "forward_dynamics", device="numpy", certificate=True)


def test_the_command_says_of_which_functions() -> None:
    done = CliRunner().invoke(main, ["build", "two_joint_arm", "--function", "mass_matrix", "--certificate"])
    assert done.exit_code == 2
    text = "--certificate of mass_matrix; expected one of forward_dynamics, forward_dynamics_gradient"
    assert text in " ".join(done.output.split())
    with pytest.raises(ValueError, match="region without certificate=True; expected both"):
        dynagate.compile(ARM, "forward_dynamics", device="numpy", region=Region.of(ARM))
