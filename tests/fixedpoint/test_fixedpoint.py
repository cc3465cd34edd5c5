"""Fixed point: our integers against fxpmath, exhaustively at small widths, and the executor over whole graphs."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from dynagate import Region, RobotError, evaluate, robots, trace
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.elementary import cosine, reciprocal, sine
from dynagate.fixedpoint.format import (
    FLOOR,
    HALF_UP,
    SATURATE,
    WRAP,
    Arithmetic,
    Format,
    FormattedIntegers,
    quantize,
    rescale,
    to_float,
)
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_fixed
from dynagate.fixedpoint.models.evaluate import evaluate_integers, quantize_inputs
from dynagate.fixedpoint.operations import FIXED, Formula
from dynagate.graph import OPS, GraphError
from dynagate.graph.reference_gradient import relative_errors
from dynagate.graph.region import LimitError
from fxpmath import Fxp

from tests import tolerances

MODES = [Arithmetic(r, o) for r, o in itertools.product((HALF_UP, FLOOR), (SATURATE, WRAP))]
SOURCES = [
    (Format(5, 2), Format(4, 3), Format(4, 2)),
    (Format(4, -1), Format(5, 4), Format(4, 2)),
    (Format(3, 0), Format(6, 5), Format(4, 2)),
]
EXPONENT = 3
FORMULAS = [op for op, row in FIXED.items() if isinstance(row.meaning, Formula) and op != "input"]
TARGETS = [Format(4, 1), Format(6, 3), Format(9, 7), Format(3, -1)]


def every(fmt: Format) -> np.ndarray:
    return np.arange(fmt.lowest, fmt.highest + 1)


def by_fxpmath(value: np.ndarray, to: Format, arithmetic: Arithmetic) -> np.ndarray:
    """Real numbers into a format by fxpmath; it knows no half-up, which is the floor of half a unit more."""
    shift = to.step / 2 if arithmetic.rounding == HALF_UP else 0.0
    number = Fxp(
        value + shift,
        signed=True,
        n_word=to.width,
        n_frac=to.frac,
        rounding="floor",
        overflow="saturate" if arithmetic.overflow == SATURATE else "wrap",
    )
    return np.asarray(number.val).astype(np.int64)


@pytest.mark.parametrize("arithmetic", MODES, ids=lambda m: f"{m.rounding}-{m.overflow}")
@pytest.mark.parametrize(
    "name", [op for op, row in FIXED.items() if isinstance(row.meaning, Formula) and op != "input"]
)
def test_a_formula_equals_fxpmath_for_every_operand(name: str, arithmetic: Arithmetic) -> None:
    """Its meaning on integers is that on floats, which are exact here, rounded once."""
    op = OPS[name]
    for sources, to in itertools.product(SOURCES, TARGETS):
        formats = sources[: op.arity + (op.constant in ("value", "term", "factor"))]
        columns = [grid.ravel() for grid in np.meshgrid(*map(every, formats))]
        real = [to_float(value, fmt) for value, fmt in zip(columns, formats, strict=True)]
        if op.constant == "exponent":  # the formats of the operand have its binary point moved
            real.append(np.float64(EXPONENT))
            formats = tuple(Format(fmt.width, fmt.frac - EXPONENT) for fmt in formats)
        exact = op.real(*real)
        operands = [FormattedIntegers(value, fmt) for value, fmt in zip(columns, formats, strict=True)]
        got = FIXED[name].meaning.compute(operands, to, arithmetic)
        np.testing.assert_array_equal(got.value, by_fxpmath(exact, to, arithmetic), err_msg=f"{formats} -> {to}")
        rounded = np.floor(np.ldexp(exact, to.frac) + (0.5 if arithmetic.rounding == HALF_UP else 0.0))
        np.testing.assert_array_equal(got.overflow, (rounded < to.lowest) | (rounded > to.highest))


@pytest.mark.parametrize(
    ("source", "to"),
    [
        (Format(9, 4), Format(8, 5)),
        (Format(9, 5), Format(7, 5)),
        (Format(8, 7), Format(9, 2)),
        (Format(24, 18), Format(24, 20)),
        (Format(32, 0), Format(32, 28)),
        (Format(32, 31), Format(20, 3)),
    ],
    ids=str,
)
def test_square_roots_are_rounded_half_up(source: Format, to: Format) -> None:
    x = every(source) if source.width < 10 else np.random.default_rng(3).integers(source.lowest, source.highest, 500)
    got = FIXED["sqrt"].meaning.compute([FormattedIntegers(x, source)], to, Arithmetic())
    for value, root, flag in zip(x.tolist(), got.value.tolist(), got.overflow, strict=True):
        # the largest integer r with (r - 1/2)² ≤ value 2**(2 frac - source.frac)
        square = Fraction(max(value, 0)) * Fraction(2) ** (2 * to.frac - source.frac)
        exact = math.isqrt(math.floor(4 * square))
        exact = (exact + 1) // 2
        assert (2 * exact - 1) ** 2 <= 4 * square < (2 * exact + 1) ** 2 or exact == 0
        assert flag == (value < 0 or exact > to.highest)
        assert flag or root == exact


@pytest.mark.parametrize("arithmetic", MODES, ids=lambda m: f"{m.rounding}-{m.overflow}")
def test_wide_words_equal_python_integers(arithmetic: Arithmetic) -> None:
    """Products beyond 64 bits take the other path; it must be the same arithmetic."""
    random = np.random.default_rng(2)
    fmt, to = Format(40, 30), Format(40, 12)
    a, b = (random.integers(fmt.lowest, fmt.highest, 200) for _ in range(2))
    got = FIXED["mul"].meaning.compute([FormattedIntegers(a, fmt), FormattedIntegers(b, fmt)], to, arithmetic)
    shift = 60 - 12
    for x, y, value, flag in zip(a.tolist(), b.tolist(), got.value.tolist(), got.overflow, strict=True):
        rounded = (x * y + ((1 << (shift - 1)) if arithmetic.rounding == HALF_UP else 0)) >> shift
        fits = to.lowest <= rounded <= to.highest
        wrapped = (rounded - to.lowest) % (1 << to.width) + to.lowest
        expected = min(max(rounded, to.lowest), to.highest) if arithmetic.overflow == SATURATE else wrapped
        assert value == expected
        assert flag == (not fits)


def test_rescale_by_more_bits_than_a_machine_word_has() -> None:
    for shift in (62, 63, 64, 91):
        results = rescale(np.array([2**61, -(2**61), 5]), shift, Format(8, 0), Arithmetic()).value
        np.testing.assert_array_equal(results, [1 if shift == 62 else 0, 0, 0])


@pytest.mark.parametrize("rounding", ["half_up", "floor"])
@pytest.mark.parametrize("overflow", ["wrap", "saturate"])
def test_rescale_beyond_a_machine_word_is_that_of_python_integers(rounding: str, overflow: str) -> None:
    """Shifts up that leave 64 bits, and halves that would carry out of them."""
    values = [0, 1, -1, 2**22, -(2**22), 2**40 + 1, 2**62 - 1, 2**63 - 1, -(2**63)]
    for to in (Format(24, 50), Format(24, -1), Format(63, 0), Format(63, 3), Format(24, -62), Format(24, -63)):
        for frac in (0, 1, 2):
            arithmetic = Arithmetic(rounding, overflow)
            machine = rescale(np.array(values), frac, to, arithmetic)
            up = max(0, to.frac - frac)
            down = max(0, frac - to.frac)
            half = (1 << down) >> 1 if rounding == "half_up" else 0
            exact = [((x << up) + half) >> down for x in values]
            outside = [not to.lowest <= x <= to.highest for x in exact]
            wrapped = [(x - to.lowest) % (1 << to.width) + to.lowest for x in exact]
            clipped = [min(max(x, to.lowest), to.highest) for x in exact]
            assert machine.overflow.tolist() == outside
            assert machine.value.tolist() == (clipped if overflow == "saturate" else wrapped)


def test_rescale_to_more_fraction_bits_is_exact() -> None:
    np.testing.assert_array_equal(rescale(np.array([3, -3]), 1, Format(8, 4), Arithmetic()).value, [24, -24])


def test_quantize_rounds_half_up_and_saturates() -> None:
    fmt = Format(4, 1)
    got = quantize([0.25, -0.25, 0.74, 100.0, -100.0, np.inf], fmt)
    np.testing.assert_array_equal(got.value, [1, 0, 1, 7, -8, 7])
    np.testing.assert_array_equal(got.overflow, [False, False, False, True, True, True])
    with pytest.raises(ValueError, match="quantize: the input holds NaN"):
        quantize([np.nan], fmt)


def test_format_describes_itself() -> None:
    fmt = Format(8, 3)
    assert (str(fmt), fmt.step, fmt.limits) == ("s8.3", 0.125, (-16.0, 15.875))
    with pytest.raises(ValueError, match="Format width 1; expected 2 or more"):
        Format(1, 0)
    with pytest.raises(ValueError, match="rounding 'nearest'; expected 'half_up' or 'floor'"):
        Arithmetic("nearest")
    with pytest.raises(ValueError, match="overflow 'clip'; expected 'saturate' or 'wrap'"):
        Arithmetic(HALF_UP, "clip")


@pytest.mark.parametrize(
    ("source", "to"),
    [
        (Format(12, 8), Format(12, 10)),
        (Format(14, 3), Format(16, 14)),
        (Format(16, 13), Format(10, 8)),
        (Format(16, 13), Format(18, 16)),
    ],
    ids=str,
)
def test_sine_of_every_angle(source: Format, to: Format) -> None:
    x = every(source)
    for compute, exact in ((sine, np.sin), (cosine, np.cos)):
        error = np.abs(to_float(compute(x, source, to).value, to) - exact(to_float(x, source))) / to.step
        assert error.max() <= tolerances.SINE_UNITS


@pytest.mark.parametrize("word", [24, 27, 32])
def test_sine_at_full_width(word: int) -> None:
    source, to = Format(word, word - 3), Format(word, word - 2)
    x = np.random.default_rng(3).integers(source.lowest, source.highest, 20_000)
    for compute, exact in ((sine, np.sin), (cosine, np.cos)):
        error = np.abs(to_float(compute(x, source, to).value, to) - exact(to_float(x, source))) / to.step
        assert error.max() <= tolerances.SINE_UNITS


@pytest.mark.parametrize(
    ("source", "to"),
    [(Format(12, 8), Format(12, 2)), (Format(14, 14), Format(16, 4)), (Format(16, 4), Format(16, 16))],
    ids=str,
)
def test_reciprocal_of_every_operand(source: Format, to: Format) -> None:
    x = every(source)
    got = reciprocal(x, source, to)
    exact = np.full(len(x), np.inf)  # of what is not positive too: it has no reciprocal here
    exact[x > 0] = 1.0 / to_float(x[x > 0], source)
    fits = exact <= to.limits[1]
    assert np.abs(to_float(got.value, to) - exact)[fits].max() / to.step <= tolerances.RECIPROCAL_UNITS
    # within a unit of the limit either answer is right
    clear = np.abs(exact - to.limits[1]) > 2 * to.step
    np.testing.assert_array_equal(got.overflow[clear], ~fits[clear])
    assert not got.value[x <= 0].any()


@pytest.mark.parametrize("word", [24, 27, 32])
def test_reciprocal_at_full_width(word: int) -> None:
    source, to = Format(word, word - 6), Format(word, word - 5)
    x = np.random.default_rng(4).integers(1 << (word - 6), source.highest, 20_000)
    error = np.abs(to_float(reciprocal(x, source, to).value, to) - 1.0 / to_float(x, source)) / to.step
    assert error.max() <= tolerances.RECIPROCAL_UNITS


@pytest.fixture(scope="module")
def arm() -> FormattedGraph:
    robot = robots.load("two_joint_arm")
    return assign(trace(robot, "forward_dynamics_gradient"), Region.of(robot))


def test_formats_hold_what_was_sampled(arm: FormattedGraph) -> None:
    arm.check()
    assert max(fmt.width for fmt in arm.formats) == 24
    for i in arm.graph.input_nodes:
        low, high = arm.bounds[i]
        assert arm.formats[i].limits[0] <= low < high <= arm.formats[i].limits[1]


@pytest.mark.parametrize("name", ["two_joint_arm", "iiwa14", "hyq"])
def test_integers_are_near_float(name: str) -> None:
    robot = robots.load(name)
    region = Region.of(robot)
    graph = trace(robot, "forward_dynamics_gradient")
    inputs = region.sample(graph.name, 1000, seed=5)
    got = evaluate_fixed(assign(graph, region), inputs)
    assert not got.overflow.any()
    for output, expected in evaluate(graph, inputs).items():
        errors = relative_errors(got.outputs[output], expected)
        # q̈ of a state that hardly accelerates is a small difference of large torques
        assert np.median(errors) <= 1e-4, output
        assert np.quantile(errors, 0.99) <= 1e-3, output


def test_error_falls_with_the_word() -> None:
    robot = robots.load("iiwa14")
    region = Region.of(robot)
    graph = trace(robot, "forward_dynamics_gradient")
    inputs = region.sample(graph.name, 300, seed=6)
    expected = evaluate(graph, inputs)["dqdd_dq"]
    errors = [
        np.median(
            relative_errors(evaluate_fixed(assign(graph, region, Policy(word=w)), inputs).outputs["dqdd_dq"], expected)
        )
        for w in (16, 20, 24, 28)
    ]
    # four bits are a factor of 16, give or take the noise of a median
    assert all(8 < a / b < 32 for a, b in itertools.pairwise(errors)), errors


def test_overflow_is_flagged_for_its_sample_alone(arm: FormattedGraph) -> None:
    region = Region.of(robots.load("two_joint_arm"))
    inputs = region.sample("forward_dynamics_gradient", 8, seed=7)
    integers = quantize_inputs(arm, inputs)
    clean = evaluate_integers(arm, integers)
    assert not clean.overflow.any()
    for k in (2, 3):  # both speeds of sample 4 at the end of their format
        integers[k] = integers[k].copy()
        integers[k][4] = arm.formats[k].highest
    assert evaluate_integers(arm, integers).overflow.tolist() == [k == 4 for k in range(8)]


def test_faults_of_formats_are_named(arm: FormattedGraph) -> None:
    with pytest.raises(GraphError, match="3 formats for"):
        replace(arm, formats=arm.formats[:3]).check()
    with pytest.raises(GraphError, match="lacks a fixed-point constant"):
        replace(arm, constants={}).check()
    with pytest.raises(GraphError, match=r"input 'q_0': bounds \[-100, 100\] do not fit"):
        replace(arm, bounds={**arm.bounds, 0: (-100.0, 100.0)}).check()
    node, (value, fmt) = next(iter(arm.constants.items()))
    with pytest.raises(GraphError, match="does not fit"):
        replace(arm, constants={**arm.constants, node: (value + (1 << fmt.width), fmt)}).check()
    with pytest.raises(ValueError, match="word 64; expected 4 to 32 bits"):
        Policy(word=64)


def test_region_asks_for_what_the_robot_does_not_say() -> None:
    robot = robots.load("two_joint_arm")
    links = tuple(replace(link, joint=replace(link.joint, velocity=None)) for link in robot.links)
    silent = replace(robot, links=links)
    with pytest.raises(
        LimitError, match=r"joints 'shoulder', 'elbow' have no velocity limit; give them in the URDF"
    ) as e:
        Region.of(silent)
    assert (e.value.limit, e.value.joints) == ("velocity", ("shoulder", "elbow"))
    with pytest.raises(LimitError, match=r"joint 'shoulder' has no velocity limit; give one .* as velocity= \(rad/s\)"):
        Region.of(silent, velocity={"elbow": 1.0})
    assert Region.of(silent, velocity=3.0).velocity == (3.0, 3.0)
    with pytest.raises(RobotError, match="expected positive numbers: one, or 2, one per degree of freedom"):
        Region.of(robot, velocity=[1.0, 2.0, 3.0])
    with pytest.raises(RobotError, match="acceleration=-1"):
        Region.of(robot, acceleration=-1.0)


def test_region_within_effort_limits() -> None:
    robot = robots.load("two_joint_arm")
    region = Region.of(robot, effort={"elbow": 3.0})
    limits = (robot.links[0].joint.effort, 3.0)
    assert region.effort == limits
    assert region.acceleration is None
    assert Region.of(robot, effort="limits").effort == tuple(link.joint.effort for link in robot.links)
    assert region.bounds("tau") == [(-limits[0], limits[0]), (-3.0, 3.0)]
    assert region.bounds("qdd") is None
    assert region.text() == "positions within limits, speeds up to 4 to 5, torques up to 3 to 60 (rad, m, s, N)"
    assert ", speeds up to 2, accelerations up to 10 (" in Region.of(robot, velocity=2.0).text()
    state = region.sample("forward_dynamics", 2000, seed=3)
    np.testing.assert_allclose(np.abs(state["tau"]).max(axis=0), limits, rtol=0.01)
    moved = region.sample("inverse_dynamics", 2000, seed=3)  # the same states, by what the torques cause
    np.testing.assert_array_equal(moved["q"], state["q"])
    torque = evaluate(trace(robot, "inverse_dynamics"), moved)["tau"]
    np.testing.assert_allclose(torque, state["tau"], rtol=1e-9, atol=1e-9)
    formatted = assign(trace(robot, "forward_dynamics"), region, Policy(word=20))
    assert not evaluate_fixed(formatted, state).overflow.any()
    assert [formatted.bounds[i] for i in formatted.graph.inputs[2].nodes] == region.bounds("tau")
    links = tuple(replace(link, joint=replace(link.joint, effort=None)) for link in robot.links)
    with pytest.raises(RobotError, match="joints 'shoulder', 'elbow' have no effort limit; give them .* effort= "):
        Region.of(replace(robot, links=links), effort="limits")
    with pytest.raises(RobotError, match="acceleration and effort are both given; expected one"):
        Region.of(robot, acceleration=1.0, effort=1.0)


def test_samples_are_seeded_and_inside() -> None:
    region = Region.of(robots.load("iiwa14"))
    one, two, other = (region.sample("forward_dynamics_gradient", 50, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(one[key], two[key]) for key in one)
    assert not np.array_equal(one["q"], other["q"])
    assert np.all(np.abs(one["qd"]) <= region.velocity)
    assert math.isclose(np.abs(one["q"]).max(), max(region.upper), rel_tol=0.1)


def test_external_forces_are_formatted_like_any_input() -> None:
    robot = robots.load("two_joint_arm")
    region = Region.of(robot)
    graph = trace(robot, "forward_dynamics", external_forces=True)
    formatted = assign(graph, region)
    inputs = region.sample("forward_dynamics", 200, seed=8, external_forces=True)
    assert inputs["f_ext"].shape == (200, 2, 6)
    got = evaluate_fixed(formatted, inputs)
    assert not got.overflow.any()
    assert np.median(relative_errors(got.outputs["qdd"], evaluate(graph, inputs)["qdd"])) <= 1e-4


def test_trajectories_widen_the_ranges() -> None:
    robot = robots.load("two_joint_arm")
    region, graph = Region.of(robot, velocity=1.0), trace(robot, "inverse_dynamics")
    fast = {"q": np.zeros((3, 2)), "qd": np.full((3, 2), 40.0), "qdd": np.full((3, 2), 900.0)}
    plain, wider = assign(graph, region), assign(graph, region, trajectories=fast)
    tau = graph.outputs[0].nodes[0]
    assert wider.formats[tau].frac < plain.formats[tau].frac
    with pytest.raises(ValueError, match="trajectories lack input 'qdd'; expected q, qd, qdd"):
        assign(graph, region, trajectories={"q": fast["q"], "qd": fast["qd"]})
