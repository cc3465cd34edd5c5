"""What the passes may merge and drop: nothing that counts at any value of an input."""

from __future__ import annotations

import math
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Robot, evaluate, robots, trace
from dynagate.base.caching import Cache
from dynagate.base.exact import exact, residue, written
from dynagate.base.naming import label
from dynagate.dynamics import FUNCTIONS
from dynagate.dynamics.configuration import integrate
from dynagate.dynamics.gradients.count_multiplications import Products
from dynagate.dynamics.spatial import array, cos, exact_rotation, exp, noise, select, sin, sqrt
from dynagate.forces import Force, Friction, Limits, Stops
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph, GraphError, Node, equivalence, field, identities, passes
from dynagate.graph.derivatives import jacobian, jvp, vjp
from dynagate.graph.graph import GraphWarning, Port
from dynagate.graph.loop import Loop
from dynagate.graph.ops import BEYOND, OPS
from dynagate.graph.rebuild import Raw
from dynagate.graph.recorder import Recording
from dynagate.graph.reference_gradient import relative_errors
from dynagate.integrators.implicit.position_based_method import PositionBasedIntegrator
from dynagate.integrators.linearized import linearized_step_graph
from dynagate.integrators.step import step_graph
from dynagate.integrators.step_vjp import step_vjp_graph
from dynagate.robot.parts import Joint, Link

from tests.robots import hopper


def finger(links: int, mass: float, inertia: float) -> Robot:
    """Light links in a row: their inertias are far below the numbers of their coordinates."""
    one = tuple(tuple(inertia if i == j else 0.0 for j in range(3)) for i in range(3))
    along = [(0.0, 0.0, 0.03 * (k > 0)) for k in range(links)]
    limits = {"axis": (0.0, 1.0, 0.0), "lower": -2.0, "upper": 2.0, "velocity": 5.0, "effort": 1.0}
    joints = [Joint(f"j{k}", "revolute", translation=place, **limits) for k, place in enumerate(along)]
    return Robot("finger", tuple(Link(f"l{k}", k - 1, j, mass, (0.0, 0.0, 0.015), one) for k, j in enumerate(joints)))


def ball() -> Robot:
    inertia = ((0.02, 0.0, 0.0), (0.0, 0.03, 0.0), (0.0, 0.0, 0.04))
    return Robot("ball", (Link("a", -1, Joint("j", "spherical"), 1.0, (0.0, 0.0, 0.1), inertia),))


STAGES = {
    "rk3": ([[0.5], [-1.0, 2.0]], [1 / 6, 4 / 6, 1 / 6]),
    "rk4": ([[0.5], [0.0, 0.5], [0.0, 0.0, 1.0]], [1 / 6, 2 / 6, 2 / 6, 1 / 6]),
}


def own_step(
    robot: Robot,
    integrator: str,
    dt: float,
    q: np.ndarray,
    qd: np.ndarray,
    tau: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """One step by the stages of the textbook, with M and the bias torque of inverse dynamics in its spatial form.
    tau(q, qd): the torques at a stage, (batch, nv)."""
    graph = trace(robot, "inverse_dynamics", form="spatial")

    def torque(q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> np.ndarray:
        return evaluate(graph, {"q": q, "qd": qd, "qdd": qdd})["tau"]

    def acceleration(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        still = torque(q, 0 * qd, 0 * qd)
        columns = [torque(q, 0 * qd, 0 * qd + unit) - still for unit in np.eye(robot.nv)]
        return np.linalg.solve(np.stack(columns, axis=2), (tau(q, qd) - torque(q, qd, 0 * qd))[..., None])[..., 0]

    def after(weights: list[float]) -> tuple[np.ndarray, np.ndarray]:
        moved = sum(w * v for w, v in zip(weights, speeds, strict=True))
        return integrate(robot, q, dt * moved), qd + dt * sum(w * a for w, a in zip(weights, slopes, strict=True))

    speeds, slopes = [qd], [acceleration(q, qd)]
    stages, weights = STAGES[integrator]
    for stage in stages:
        here, speed = after(stage)
        speeds.append(speed)
        slopes.append(acceleration(here, speed))
    return after(weights)


@pytest.mark.parametrize("robot", [finger(2, 0.02, 1e-6), finger(3, 0.005, 1e-7)], ids=["20 g", "5 g"])
@pytest.mark.parametrize("integrator", ["rk3", "rk4"])
@pytest.mark.parametrize("dt", [None, 1e-3])
def test_a_step_of_light_links(robot: Robot, integrator: str, dt: float | None) -> None:
    random = np.random.default_rng(1)
    state = {"q": random.uniform(-1.0, 1.0, (4, robot.nv)), "qd": random.uniform(-0.5, 0.5, (4, robot.nv))}
    state["tau"] = random.uniform(-1e-4, 1e-4, (4, robot.nv))
    expected = own_step(robot, integrator, 1e-3, state["q"], state["qd"], lambda q, qd: state["tau"])
    got = evaluate(step_graph(robot, StepOptions(dt, integrator)), state if dt else {**state, "dt": np.full(4, 1e-3)})
    assert relative_errors(got["q_next"], expected[0]).max() < 1e-11
    assert relative_errors(got["qd_next"], expected[1]).max() < 1e-9


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_a_step_of_a_quaternion_has_length_1_with_any_dt(integrator: str) -> None:
    robot = ball()
    state = {"q": np.array([[0.0, 0.0, 0.0, 1.0]]), "qd": np.full((1, 3), 0.5), "tau": np.zeros((1, 3))}
    given = evaluate(step_graph(robot, StepOptions(None, integrator)), {**state, "dt": np.array([0.01])})
    constant = evaluate(step_graph(robot, StepOptions(0.01, integrator)), state)
    assert np.linalg.norm(given["q_next"]) == pytest.approx(1.0, abs=1e-14)
    assert given["q_next"] == pytest.approx(constant["q_next"], abs=1e-14)


def test_friction_at_rest_and_near_it() -> None:
    """Friction below its speed is friction × q̇ / speed to first order: 0.1 N m at a tenth of it."""
    robot = robots.load("two_joint_arm")
    state = {"q": np.tile([0.1, 0.2], (2, 1)), "qd": np.array([[0.0, 0.0], [1e-7, 1e-7]]), "tau": np.zeros((2, 2))}
    smooth = evaluate(trace(robot, "forward_dynamics", forces=[Friction(1.0, 1e-6)]), state)["qdd"]
    pulled = {**state, "tau": -state["qd"] / np.sqrt(state["qd"] ** 2 + 1e-12)}
    assert smooth == pytest.approx(evaluate(trace(robot, "forward_dynamics"), pulled)["qdd"], rel=1e-9)


def graph_of(formula: Callable[..., object], sizes: Sequence[float] = (1.0, 1.0)) -> Graph:
    recording = Recording("formula", "none")
    inputs = [recording.input(f"x{k}", (), size)[()] for k, size in enumerate(sizes)]
    return recording.graph({"y": np.array(formula(*inputs), dtype=object)})


@pytest.mark.parametrize(
    ("formula", "x", "expected"),
    [
        pytest.param(lambda a, b: a + 1e-20 * b, (0.0, 2.0), 2e-20, id="a term beside one that may be zero"),
        pytest.param(lambda a, b: (a * a + 1e-13 * b) - a * a, (1e-6, 1.0), 1e-13, id="a tolerance"),
        pytest.param(lambda a, b: select(a, b, 1e30) - 1.0, (1.0, 3.0), 2.0, id="a bound beside a choice"),
        pytest.param(lambda a, b: 1.0 / (a * a + 1e-12) + 0.0 * b, (0.0, 0.0), 1e12, id="a smoothed square"),
        pytest.param(lambda a, b: a * (1.0 + b * 1e6) - a, (2.0, 1e-6), 2.0, id="a small input"),
    ],
)  # fmt: skip
def test_a_term_that_counts_somewhere_stays(
    formula: Callable[..., object], x: tuple[float, float], expected: float
) -> None:
    inputs = {f"x{k}": np.array([value]) for k, value in enumerate(x)}
    assert evaluate(graph_of(formula), inputs)["y"] == pytest.approx([expected], rel=1e-3)


def test_the_question_whether_a_number_is_finite_stays() -> None:
    graph = graph_of(lambda a, b: select(BEYOND - a, 1.0, 0.0) + 2.0 * select(BEYOND - b, 1.0, 0.0))
    numbers = np.array([1.0, np.inf, np.nan])
    asked = evaluate(graph, {"x0": np.repeat(numbers, 3), "x1": np.tile(numbers, 3)})["y"]
    np.testing.assert_array_equal(asked, [3.0, 1.0, 1.0, 2.0, 0.0, 0.0, 2.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("formula", "wrong"),
    [
        pytest.param(lambda a, b: a + 1e-9 * b, 1e-9, id="a small term"),
        pytest.param(lambda a, b: a * a * b + 1e-7 * a, 1e-7, id="a term that counts near rest"),
    ],
)
def test_a_wrong_merge_is_undone(formula: Callable[..., object], wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where merging changes the function, the graph is made without it."""

    def merged(raw: Any, *others: object) -> Any:
        return representatives(raw, *others) | {
            i: 0.0 for i, node in enumerate(raw.nodes) if node.op == "mul_const" and node.constant == wrong
        }

    expected = graph_of(formula)
    representatives = identities._representatives
    monkeypatch.setattr(identities, "_representatives", merged)
    with pytest.warns(GraphWarning, match=r"'formula' of 'none' keeps operations .* entry 0 of output 'y'"):
        assert graph_of(formula) == expected


def test_a_result_of_terms_that_cancel_is_not_refused() -> None:
    """The difference of two large sums is rounding alone, in another order than recorded."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph_of(lambda a, b: ((a * 0.1 + b * 1e8) + a * 0.2) - (b * 1e8 + (a * 0.3 + 1e-9 * a)))
        graph_of(lambda a, b: 1.0 / ((a * a + b) * (a * a + b) * 1e-20 + (sqrt(a * a) - a)))


def compared(recorded: Callable[..., object], lowered: Callable[..., object]) -> equivalence.OutputDifference | None:
    """How the graph of one formula differs from the recording of another."""
    made = []
    for formula in (recorded, lowered):
        recording = Recording("formula", "none")
        x = recording.input("x", (2,), [1.0, 3.0])
        made.append((recording, {"y": np.array([x[0]], dtype=object), "z": np.array(formula(*x), dtype=object)}))
    (recording, outputs), (other, values) = made
    trace = recording.trace
    ports = [
        (name, value.shape, [(x.id, x.sign) if hasattr(x, "id") else x for x in value])
        for name, value in ({"x": recording.inputs["x"]} | outputs).items()
    ]
    return equivalence.difference(other.graph(values), Raw(trace.nodes, trace.names, trace.named), ports[:1], ports[1:])


def test_a_difference_names_its_entry_and_both_values() -> None:
    found = compared(lambda a, b: [a, b * 2.0, 0.5], lambda a, b: [a, b * 2.0 + 1e-12 * a, 0.5])
    assert found is not None
    assert found.certain
    pattern = r"entry 1 of output 'z' is (\S+) where its recording has (\S+), with rounding errors of at most (\S+)"
    match = re.fullmatch(pattern, found.text)
    assert match, found.text
    result, expected, bound = map(float, match.groups())
    assert 0.0 < bound < abs(result - expected) < 1e-10
    assert compared(lambda a, b: [a, 0.5], lambda a, b: [a, 0.5 + 1e-14]) is not None
    assert compared(lambda a, b: [a, 0.5], lambda a, b: [a, 0.5 + 1e-16]) is None
    assert compared(lambda a, b: [1.0 / a, b], lambda a, b: [1.0 / a, b]) is None
    near_rest = compared(lambda a, b: [a + a * b * 1e9], lambda a, b: [a * b * 1e9])
    assert near_rest is not None
    assert near_rest.certain


def test_entries_are_compared_relative_to_their_output() -> None:
    """A difference below rounding counts only if the entry is all that its output has."""

    def rest(a: Any) -> Any:
        return (a * 0.1 + a * 0.2) - a * 0.3

    found = compared(lambda a, b: [rest(a)], lambda a, b: [a * 0.0])
    assert found == ("entry 0 of output 'z' is hidden by rounding and is another function than recorded", False)
    assert compared(lambda a, b: [rest(a)], lambda a, b: [rest(a)]) is None
    assert compared(lambda a, b: [rest(a)], lambda a, b: [(a * 0.1 - a * 0.3) + a * 0.2]) is None
    assert compared(lambda a, b: [rest(a), b], lambda a, b: [a * 0.0, b]) is None
    found = compared(lambda a, b: [rest(a), 1e-12 * b, rest(b)], lambda a, b: [rest(a), 1e-12 * b, b * 0.0])
    assert found is not None
    assert found.text.startswith("entry 2 of output 'z'")
    assert compared(lambda a, b: [rest(a), 1e-8 * b], lambda a, b: [a * 0.0, 1e-8 * b]) is None


def test_the_largest_entry_is_that_of_its_own_output() -> None:
    recording = Recording("three", "none")
    x = recording.input("x", (4,))
    graph = recording.graph({"a": x[:1] * 2.0, "b": x[1:3] * 2.0, "c": x[3:] * 2.0})
    sizes = np.array([[1.0, 5.0], [2.0, 3.0], [4.0, 0.5], [3.0, 2.0]])
    assert equivalence._of_output(sizes, graph).tolist() == [[1.0, 5.0], [4.0, 3.0], [4.0, 3.0], [3.0, 2.0]]


@pytest.mark.parametrize("name", sorted(equivalence.ERRORS.keys() - {"input", "const", "select", "noise"}))
def test_error_bounds_hold_and_are_close(name: str) -> None:
    """The result of operands within their errors is within its bound, and the bound is not far above."""
    op, random = OPS[name], np.random.default_rng(7)
    x = list(random.uniform(0.5, 3.0, (op.arity, 400)).astype(np.longdouble))
    relative = 0.95 * random.random((op.arity, 400)).astype(np.longdouble)
    errors = [part * value for part, value in zip(relative, x, strict=True)]
    x = [value * sign for value, sign in zip(x, random.choice([-1.0, 1.0], (op.arity, 400)), strict=True)]
    if name == "sqrt":
        x = [np.abs(x[0])]
    constant = {"": None, "exponent": np.longdouble(-3.0)}.get(op.constant, np.longdouble(0.7))
    constants = [] if constant is None else [constant]
    result = op.real(*x, *constants)
    away = np.zeros(400, dtype=np.longdouble)
    for signs in np.ndindex(*(2,) * op.arity):
        ends = [value + (2 * s - 1) * error for value, s, error in zip(x, signs, errors, strict=True)]
        away = np.maximum(away, np.abs(op.real(*ends, *constants) - result))
    bound = equivalence.ERRORS[name](result, x, errors, constant)
    assert (bound >= away * (1.0 - 1e-15)).all()
    if name in ("sin", "cos"):
        assert (bound <= np.maximum(errors[0], 0.0)).all()
        assert equivalence.ERRORS[name](result, x, [3.0], None).tolist() == 2.0
    else:
        small = relative.max(axis=0) < 0.25
        assert (bound[small] <= away[small] * (2.2 if name == "sqrt" else 1.0 + 1e-12)).all()
    nothing = equivalence.ERRORS[name](result, x, [0.0 * e for e in errors], constant)
    rounded = {"add_const": 0.7, "mul_const": 0.7 * np.abs(x[0])}.get(name, 0.0 * result)
    assert nothing == pytest.approx(equivalence.ROUNDING * rounded, rel=1e-9, abs=0.0)


def test_error_bounds_where_a_result_is_open() -> None:
    """A divisor or a radicand that may be zero, a choice that may go either way, and rounded operands."""

    def bound(name: str, x: Sequence[float], e: Sequence[float], c: float | None = None) -> float:
        operands = [np.array(value, dtype=np.longdouble) for value in (*x,)]
        with np.errstate(all="ignore"):
            result = OPS[name].real(*operands, *([] if c is None else [np.longdouble(c)]))
            return float(equivalence.ERRORS[name](result, operands, [np.longdouble(error) for error in e], c))

    for name in ("reciprocal", "sqrt"):
        assert bound(name, [0.0], [0.0]) == 0.0
        assert 0.0 < bound(name, [0.5], [0.1]) < 1.0
    assert bound("reciprocal", [0.5], [0.5]) == bound("reciprocal", [0.5], [0.6]) == math.inf
    assert bound("sqrt", [0.5], [0.6]) == pytest.approx(1.1**0.5)
    assert bound("select", [1.0, 2.0, 5.0], [0.5, 0.1, 0.3]) == pytest.approx(0.1)
    assert bound("select", [-1.0, 2.0, 5.0], [0.5, 0.1, 0.3]) == pytest.approx(0.3)
    assert bound("select", [1e-3, 2.0, 5.0], [1e-3, 0.1, 0.3]) == pytest.approx(3.3)
    assert bound("select", [0.0, 2.0, 5.0], [0.0, 0.1, 0.3]) == pytest.approx(0.3)
    assert bound("select", [-1e-3, 2.0, 5.0], [1.0, 0.4, 0.3]) == pytest.approx(3.4)
    assert bound("select", [1e-3, 2.0, 5.0], [0.0, 0.1, 0.3]) == pytest.approx(0.1)
    assert bound("select", [0.1, 9.0, 5.0], [0.2, 0.4, 0.3]) == pytest.approx(4.4)
    assert bound("select", [-0.5, 0.1, 5.0], [0.2, 0.6, 0.3]) == pytest.approx(0.3)
    assert (bound("mul_const", [1.0], [2.0], 3.0) - 6.0) / equivalence.ROUNDING == pytest.approx(9.0, rel=0.1)
    assert bound("noise", [1.2, 3.0, 4.4], [0.25, 0.1, 0.05]) == 0.0
    assert bound("noise", [1.2, 3.4, 4.4], [0.25, 0.2, 0.05]) == math.inf
    assert bound("const", [], [], 0.5) == 0.5 * equivalence.ROUNDING
    assert bound("input", [], []) == 0.0


def test_probes_of_a_comparison() -> None:
    """The last probes are near rest, where unit vectors keep their length."""
    ports = {
        "x": Port("x", (3,), (0, 1, 2), unit_vectors=((1, 3),), sizes=(2.0, 1.0, 1.0)),
        "y": Port("y", (1,), (3,), sizes=(1e3,)),
    }
    entries = [("x", (3,), [(0, 1), (1, 1), (2, 1)]), ("y", (1,), [(3, 1)])]
    at = equivalence._probes(entries, ports)
    assert {k: values.shape for k, values in at.items()} == dict.fromkeys(
        range(4), (equivalence.PROBES + equivalence.NEAR_REST,)
    )
    assert np.hypot(at[1], at[2]) == pytest.approx(1.0)
    for k, size in ((0, 2.0), (3, 1e3)):
        still, plain = np.abs(at[k][-equivalence.NEAR_REST :]), np.abs(at[k][: equivalence.PLAIN])
        assert 0.0 < still.min() <= still.max() <= 2.5 * equivalence.SMALL * size
        assert 10.0 * still.max() < plain.max() <= 2.5 * size


def test_a_pass_that_changes_a_function_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(*rebuilt: object) -> object:
        raw, inputs, outputs = balanced(*rebuilt)
        return replace_first(raw), inputs, outputs

    def replace_first(raw):  # the first sum becomes a difference
        nodes = list(raw.nodes)
        k = next(i for i, node in enumerate(nodes) if node.op == "add")
        nodes[k] = nodes[k]._replace(op="sub")
        return raw._replace(nodes=nodes)

    balanced = passes.balance_sums
    monkeypatch.setattr(passes, "balance_sums", twice)
    monkeypatch.setattr(sys.modules["dynagate.graph.trace"], "GRAPHS", Cache(0, len))
    with pytest.raises(GraphError, match="output 'qdd'"):
        trace(robots.load("two_joint_arm"), "forward_dynamics")


@pytest.mark.parametrize(
    ("formula", "equal"),
    [
        pytest.param(lambda a, b: cos(a) * cos(a) + sin(a) * sin(a), True, id="a point of the circle"),
        pytest.param(lambda a, b: 0.3 * (cos(a) * cos(a)) + 0.3 * (sin(a) * sin(a)), True, id="a circle of radius 0.3"),
        pytest.param(lambda a, b: (a + b) * (a - b) - (a * a - b * b), True, id="a product of sums"),
        pytest.param(lambda a, b: a * (1.0 / a) - 1.0, True, id="a reciprocal"),
        pytest.param(lambda a, b: sin(a * b + a) + sin(-(a * (b + 1.0))), True, id="an odd function"),
        pytest.param(lambda a, b: cos(a * b + a) - cos(-(a * (b + 1.0))), True, id="an even function"),
        pytest.param(lambda a, b: select(a, b * (a + 1.0), b * a + b) - b * a, True, id="a choice between equals"),
        pytest.param(lambda a, b: sqrt(a * a + a) - sqrt(a * (a + 1.0)), True, id="a root"),
        pytest.param(lambda a, b: exp(a * a + a) - exp(a * (a + 1.0)), True, id="an exponential"),
        pytest.param(lambda a, b: noise(a * a + a, b, 1.0) - noise(a * (a + 1.0), b, 1.0), True, id="noise"),
        pytest.param(lambda a, b: (a * b + a) + (-(a * (b + 1.0)) + b), True, id="an input"),
        pytest.param(lambda a, b: sqrt(a) * sqrt(b) - sqrt(a * b), False, id="roots of a product"),
        pytest.param(lambda a, b: exp(a) * exp(b) - exp(a * b), False, id="exponentials"),
        pytest.param(lambda a, b: sin(a) - cos(a), False, id="a sine and a cosine"),
        pytest.param(lambda a, b: sqrt(a) - exp(a), False, id="two functions of an operand"),
        pytest.param(lambda a, b: noise(a, b, 1.0) - noise(b, a, 1.0), False, id="the order of operands"),
        pytest.param(lambda a, b: select(a, b, 1.0) - select(-a, b, 1.0), False, id="opposite conditions"),
        pytest.param(lambda a, b: select(a, b, -b) + select(a, -b, b), False, id="opposite choices"),
        pytest.param(lambda a, b: 1.0 / a - 1.0 / -a, False, id="reciprocals of opposite numbers"),
        pytest.param(lambda a, b: (a + 1e-300 * b) * a - a * a, False, id="a term of any size"),
        pytest.param(lambda a, b: sin(a + 2.0**-40) - sin(a), False, id="close angles"),
        pytest.param(lambda a, b: (1e200 * a) * (1e200 * a) + a - (1e200 * a) * (1e200 * a), True, id="beyond float64"),
    ],
)  # fmt: skip
def test_terms_are_merged_only_if_they_are_equal(formula: Callable[..., object], equal: bool) -> None:
    """equal: whether the terms of the difference cancel, so that no operation is left."""
    operations = [node.op for node in graph_of(formula).nodes if node.op not in ("input", "const")]
    assert (not operations) == equal, operations


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        pytest.param(lambda a: (0.1 + cos(a)) * cos(a) + sin(a) * sin(a) - 0.1 * cos(a), 1.0, id="1"),
        pytest.param(lambda a: -0.7 * (cos(a) * cos(a)) - 0.7 * (sin(a) * sin(a)), -0.7, id="a decimal"),
        pytest.param(lambda a: 1e-290 * (cos(a) * cos(a)) + 1e-290 * (sin(a) * sin(a)), None, id="too small"),
        pytest.param(lambda a: a * (1.0 / (3.0 * a)), 1 / 3, id="a fraction"),
        pytest.param(lambda a: cos(a * a - a * a + 0.0 * a) + 0.0 * a, 1.0, id="cos 0"),
        pytest.param(lambda a: cos((a + 1.0) * a - (a * a + a)), 1.0, id="cos of a zero"),
        pytest.param(lambda a: sin((a + 1.0) * a - (a * a + a)) + 2.5, 2.5, id="sin of a zero"),
    ],
)  # fmt: skip
def test_a_constant_term_has_its_exact_value(formula: Callable[..., object], value: float | None) -> None:
    """Constants do not depend on the size of the input, and a term that is not surely constant stays."""
    for size in (1e-9, 1.0, 1e9):
        (node,) = graph_of(formula, [size]).outputs[0].nodes
        found = graph_of(formula, [size]).nodes[node]
        assert (found.op == "const") == (value is not None)
        assert value is None or found.constant == value


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_the_entries_of_a_unit_vector_lie_on_a_sphere(length: int) -> None:
    """A single entry is not known to be 1: it may be -1."""

    def graph(*weights: float) -> Graph:
        recording = Recording("sphere", "none")
        x = recording.input("x", (length + 1,), unit_vectors=((0, length),))
        squares = [w * a * a for w, a in zip(weights, x, strict=True)]
        return recording.graph({"y": np.array(sum(squares), dtype=object)})

    ones = [1.0] * (length - 1)
    (node,) = graph(*ones, 1.0, 0.0).outputs[0].nodes
    assert (graph(*ones, 1.0, 0.0).nodes[node] == Node("const", (), 1.0, "const")) == (length > 1)
    assert graph(*ones, 1.0, 0.5).counts().mul == (1 if length > 1 else 2)
    assert graph(*ones, 2.0, 0.0).counts().mul > 0


def test_a_single_entry_behind_others_is_no_unit_vector() -> None:
    recording = Recording("single", "none")
    x = recording.input("x", (3,), unit_vectors=((1, 2),))
    graph = recording.graph({"y": np.array(x[1] * x[1] + x[0], dtype=object)})
    assert graph.counts().mul == 1


def test_merged_nodes_keep_their_names() -> None:
    def named(a: Any, b: Any) -> Any:
        first = (a + b) * (a - b)
        return label(first, "own") * a + label(a * a - b * b, "later") * b

    names = [node.name for node in graph_of(named).nodes if node.op != "input"]
    assert [name for name in names if "own" in name or "later" in name] == ["own"]


def test_elements_add_and_multiply_as_numbers_modulo_a_prime() -> None:
    x, y = field.inputs("xy")
    angle = x * y
    assert (2.0 - x).points == (-(x - 2.0)).points != (x - 2.0).points
    assert (-x).sin().points == (-x.sin()).points != x.sin().points
    assert (-x).cos().points == x.cos().points
    assert (angle.sin() * angle.sin() + angle.cos() * angle.cos()).points == (1, 1)
    zero = x - x
    assert (3.0 / zero).points == ((1.0 / zero) * 3.0).points
    assert (1.0 / zero).points == (1.0 / (y - y)).points
    assert len({*x.points, *y.points, *x.sin().points, *x.cos().points}) == 8


def test_degrees_of_elements_are_bounded() -> None:
    """The bounds on degrees are those of fractions, and beyond the largest one an element is an unknown number."""
    largest = field.LARGEST_DEGREE
    x, y = field.Element((2, 3), 3, 5), field.Element((5, 7), 7, 11)

    def degrees(element: field.Element) -> tuple[int, int]:
        return element.numerator, element.denominator

    assert degrees(x + y) == degrees(x - y) == (14, 16)
    assert degrees(y + x) == (14, 16)
    assert degrees(field.Element((2, 3), 90, 5) + y) == (101, 16)
    assert degrees(x * y) == (10, 16)
    assert degrees(1.0 / x) == (5, 3)
    assert degrees(field.constant(2.0)) == (0, 0)
    assert degrees(field.inputs("x")[0]) == degrees(field.constant(math.inf)) == (1, 0)
    assert degrees(x.sin()) == degrees(x.cos()) == (2, 2)
    assert [degrees(each) for each in field.unit_vector("abc")] == [(2, 2)] * 3
    one = field.constant(1.0)
    for place in ({"numerator": largest}, {"denominator": largest}):
        for more in (0, 1):
            wide = field.Element((2, 3), **{"numerator": 0, **{name: size + more for name, size in place.items()}})
            results = [wide * one, *([] if "denominator" in place else [wide + one])]
            for result in results:
                assert (degrees(result) == (1, 0)) == (more == 1)
    deep = field.Element((2, 3), 0, largest)
    assert degrees(deep + one) == (largest, largest)
    assert degrees(field.Element((2, 3), 0, largest + 1) + field.Element((2, 3), -1, 0)) == (1, 0)


def test_rational_numbers_are_recognized_with_their_signs() -> None:
    random = np.random.default_rng(4)
    for a, b in random.integers(1, 10**9, (50, 2)).tolist():
        for expected in (Fraction(a, b), Fraction(-a, b), Fraction(a), Fraction(-1, b)):
            points = (expected.numerator * pow(expected.denominator, -1, field.PRIME) % field.PRIME,) * 2
            assert field.rational(field.Element(points)) == expected


def test_a_power_of_any_degree_is_no_other() -> None:
    """x to the power of PRIME is x modulo the prime; such a node is not compared."""

    def difference(squarings: int) -> Callable[..., object]:
        def formula(a: Any) -> Any:
            x = y = a
            for bit in bin(field.PRIME)[3:]:
                x = x * x * a if bit == "1" else x * x
            for _ in range(squarings):
                y = y * y
            return x - y

        return formula

    assert len(graph_of(difference(0), [1.0])) > field.PRIME.bit_length()
    short = graph_of(difference(3), [1.0])
    assert short.counts().add == 1


def test_powers_of_two_are_told_apart() -> None:
    """No power of two that float64 holds has the residue of a small rational number that it is not."""
    for exponent in range(-1074, 1024):
        found = field.rational(field.constant(2.0**exponent))
        assert found is None or found == Fraction(2) ** exponent
        assert (found is not None) == (abs(exponent) < 288), exponent


def test_exact_numbers_are_fractions() -> None:
    """Sums, products and quotients of numbers have the residues of the fractions, and the floats of the floats."""
    random = np.random.default_rng(3)
    operations: list[Callable[[Any, Any], Any]] = [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: abs(-a) * +b,
    ]
    for a, b in random.uniform(-3.0, 3.0, (10, 2)).tolist():
        for operation in operations:
            expected = Fraction(operation(Fraction(a), Fraction(b)))
            modulo = expected.numerator * pow(expected.denominator, -1, field.PRIME) % field.PRIME
            for x, y in ((exact(a), exact(b)), (exact(a), b), (a, exact(b))):
                got = operation(x, y)
                assert (got, residue(got)) == (operation(a, b), modulo)
                vector = np.array([x], dtype=object)
                assert [residue(each) for each in operation(vector, y)] == [modulo]
                assert [residue(each) for each in operation(y, vector)] == [residue(operation(y, x))]
    tenth = written(0.1)[()]
    assert residue(tenth * 10.0) == 1
    assert residue(exact(0.1) * 10.0) != 1
    left = written(0.1)[()] + written(0.2)[()] - written(0.3)[()]
    assert (left, residue(left)) == (0.0, 0)
    assert residue(pickle.loads(pickle.dumps(tenth))) == residue(tenth)
    assert np.isnan(exact(math.inf) * 0.0)
    assert exact(math.inf) - 1.0 == math.inf


@pytest.mark.parametrize("seed", range(3))
def test_a_rotation_is_orthogonal_without_rounding(seed: int) -> None:
    turned, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    turned = turned * np.linalg.det(turned)
    for floats in (turned, np.eye(3), np.diag([1.0, -1.0, -1.0]), np.eye(3)[[1, 2, 0]]):
        numbers = exact_rotation(floats)
        np.testing.assert_array_equal(numbers.astype(float), floats)
        identity = [residue(x) for x in (numbers.T @ numbers).ravel()]
        assert identity == [1, 0, 0, 0, 1, 0, 0, 0, 1]
    skewed = turned + np.diag([1e-6, 0.0, 0.0])
    assert [residue(x) for x in exact_rotation(skewed).ravel()] == [residue(x) for x in skewed.ravel().tolist()]


def test_products_are_counted_with_plain_floats() -> None:
    """The search for a frame multiplies many constants; it needs no residues."""
    x, c = Products().inputs(1)[0], written(0.3)[()]
    results = [x + c, c + x, x - c, c - x, x * c, c * x, c / x, x * written(0.5)[()], x.operation("select", c, x, c)]
    assert [type(result.value) for result in results] == [float] * 9
    assert [x * zero for zero in (0.0, exact(0.0))] == [0.0, 0.0]


def test_a_recorded_division_by_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="numbers on its way that are too large"):
        graph_of(lambda a, b: 1.0 / ((a + 1.0) * a - (a * a + a)))


@dataclass(frozen=True)
class Polynomial(Force):
    """A torque -c q̇³ at each joint."""

    c: float

    def torque(self, now: Any) -> Any:
        return array([-(v * v * v) * self.c for v in now.qd])


@pytest.mark.parametrize(
    "force", [Polynomial(1.0), Polynomial(-0.3), Limits(500.0)], ids=["damped", "driven", "limits"]
)
@pytest.mark.parametrize("method", ["rk3", "rk4"])
def test_forces_that_explode_beyond_their_states(force: Force, method: str) -> None:
    """Stages of the typical speeds lie far outside the region in which such a step is used."""
    robot, dt = robots.load("iiwa14"), 5e-3
    random = np.random.default_rng(5)
    q, qd = random.uniform(-1.0, 1.0, (4, 7)), 0.1 * random.uniform(-1.0, 1.0, (4, 7))
    q[:2] += 2.2  # some joints beyond their limits
    tau = evaluate(trace(robot, "inverse_dynamics"), {"q": q, "qd": qd, "qdd": 0.0 * q})["tau"]

    def torque(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        if isinstance(force, Polynomial):
            return tau - force.c * qd**3
        lower, upper = np.array([robot.reach(link.joint) for link in robot.links]).T
        above = 500.0 * np.maximum(q - upper, 0.0) * np.maximum(1.0 + qd, 0.0)
        return tau - above + 500.0 * np.maximum(lower - q, 0.0) * np.maximum(1.0 - qd, 0.0)

    expected = own_step(robot, method, dt, q, qd, torque)
    graph = step_graph(robot, StepOptions(dt, method, forces=(force,)))
    got = evaluate(graph, {"q": q, "qd": qd, "tau": tau})
    assert relative_errors(got["q_next"], expected[0]).max() < 1e-12
    assert relative_errors(got["qd_next"], expected[1]).max() < 1e-10


def test_every_graph_of_a_robot_knows_the_sizes_of_its_inputs(tmp_path: Path) -> None:
    """What no path gives a size has that of a number around 1: so do the arm's angles, which this leaves out."""
    arm, legged = robots.load("two_joint_arm"), hopper(tmp_path)
    options = StepOptions(None, "rk2")
    graphs = [trace(legged, name) for name, function in FUNCTIONS.items() if not function.derivative_of]
    forward = trace(legged, "forward_dynamics")
    graphs += [vjp(forward, robot=legged), jvp(forward, robot=legged), jacobian(forward, robot=legged)]
    graphs += [make(legged, options) for make in (step_graph, linearized_step_graph, step_vjp_graph)]
    searched: list[Graph | Loop] = [PositionBasedIntegrator().motion(arm, StepOptions(0.01)).loop]
    while searched:
        body = searched.pop()
        if isinstance(body, Loop):
            searched.extend(body.steps)
        else:
            graphs.append(body)
    for graph in graphs:
        for port in graph.inputs:
            assert len(port.sizes) == len(port.nodes), (graph.name, port.name)
        sizes = {port.name: port.sizes for port in graph.inputs}
        for name in {"qd", "tau", "dt", "lam_qd", "delta_tau", "trial_slope"} & set(sizes):
            assert sizes[name] != (1.0,) * len(sizes[name]), (graph.name, name)


def test_a_product_of_a_product_keeps_its_names_apart() -> None:
    robot = robots.load("two_joint_arm")
    product = trace(robot, "forward_dynamics_vjp")
    with pytest.raises(ValueError, match="forward_dynamics_vjp_vjp has the input 'lam_qdd' already"):
        vjp(product, ["qdd"], ["q"], robot=robot)
    with pytest.raises(
        ValueError, match=r"would have two outputs 'vjp_q': .* expected outputs= without 'vjp_q', or jacobian"
    ):
        vjp(product, ["vjp_q"], ["q"], robot=robot)
    assert [port.name for port in vjp(product, ["vjp_q"], ["qd"], robot=robot).outputs] == ["vjp_q", "vjp_qd"]


def test_a_joint_stops_and_wraps_at_either_end() -> None:
    (link,) = finger(1, 1.0, 0.01).links
    state = {"qd": np.array([[30.0], [-30.0], [1.0]]), "tau": np.zeros((3, 1))}
    stops = step_graph(Robot("stops", (link,)), StepOptions(0.1, forces=(Stops(),)))
    got = evaluate(stops, {**state, "q": np.array([[1.5], [-1.5], [0.0]])})
    assert got["q_next"][:2, 0].tolist() == [2.0, -2.0]
    assert got["qd_next"][:2, 0].tolist() == [0.0, 0.0]
    assert got["q_next"][2, 0] > 0.0
    assert got["qd_next"][2, 0] > 0.5
    turning = Robot(
        "turns", (replace(link, joint=replace(link.joint, type="continuous", lower=None, upper=None)),), (0.0, 0.0, 0.0)
    )
    wraps = evaluate(step_graph(turning, StepOptions(0.1), wrap=True), {**state, "q": np.array([[3.0], [-3.0], [0.0]])})
    assert wraps["q_next"][:, 0] == pytest.approx([6.0 - 2.0 * np.pi, 2.0 * np.pi - 6.0, 0.1])
