"""Tracing and its passes: what is folded, shared, balanced and named, and how many operations are left."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from dynagate import FUNCTIONS, evaluate, robots, trace
from dynagate.base.caching import Cache, Same
from dynagate.base.naming import label, scope
from dynagate.dynamics.functions.record import FunctionRow
from dynagate.dynamics.functions.spaces import arguments
from dynagate.graph import OPS, Graph, GraphError, Node, Port
from dynagate.graph.builder import GraphBuilder
from dynagate.graph.recorder import Trace

from tests import tolerances
from tests.expressions import lowered, traced


def ops(graph: Graph) -> list[str]:
    return sorted(node.op for node in graph.nodes if node.op != "input")


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (lambda a, b, *_: a * 0.0 + b, []),
        (lambda a, b, *_: 1.0 * a - 0.0, []),
        (lambda a, b, *_: a - a, ["const"]),
        (lambda a, b, *_: 2.0 * (3.0 * a), ["mul_const"]),
        (lambda a, b, *_: (a + 2.0) + 3.0, ["add_const"]),
        (lambda a, b, *_: (-a) * (-b), ["mul"]),
        (lambda a, b, *_: -(a - b), ["sub"]),
        (lambda a, b, *_: [a * b, b * a], ["mul"]),
        (lambda a, b, *_: [a - b, b - a], ["neg", "sub"]),
        (lambda a, b, *_: a + a, ["shift"]),
        (lambda a, b, *_: 0.25 * a, ["shift"]),
        (lambda a, b, *_: -(3.0 * a), ["mul_const"]),
        (lambda a, b, *_: 2.0 / a, ["reciprocal", "shift"]),
        (lambda a, b, *_: (-a).sin() + (-a).cos(), ["cos", "sin", "sub"]),
        (lambda a, b, *_: a.sin() * a.sin() + a.cos() * a.cos(), ["const"]),
        (lambda a, b, *_: [(a + b) * (a - b), a * a - b * b], ["add", "mul", "sub"]),
        (lambda a, b, *_: [a * b + b, 7.5], ["add", "const", "mul"]),
        # a constant factor has no scale, a term has the others'
        (lambda a, b, *_: 1e-30 * a, ["mul_const"]),
        (lambda a, b, *_: (1.0 + 1e-12) * a, ["mul_const"]),
        (lambda a, b, *_: (1.0 + 1e-16) * a + b, ["add"]),
        (lambda a, b, *_: (a + 0.1) - 0.1, []),
        (lambda a, b, *_: (1e-20 * a + 1e-20) - 2e-20, ["add_const", "mul_const"]),
        (lambda a, b, *_: a + 1e-20 * b, ["add", "mul_const"]),
        (lambda a, b, *_: 1e-20 * a + 3e-20 * b, ["add", "mul_const", "mul_const"]),
    ],
)
def test_folding_and_sharing(formula, expected: list[str]) -> None:
    assert ops(traced(formula)) == expected


def test_dead_code_goes() -> None:
    def formula(a, b, *_):
        a.sin()
        return a + b

    assert ops(traced(formula)) == ["add"]


def test_sums_are_balanced() -> None:
    graph = traced(lambda *x: ((((((x[0] + x[1]) + x[2]) + x[3]) + x[4]) + x[5]) + x[6]) + x[7])
    assert graph.counts().add == 7
    assert graph.counts().depth == 3


def test_late_terms_are_added_last() -> None:
    graph = traced(lambda a, b, c, d, *_: (a * b) * c * d + a + b + c)
    assert graph.counts().depth == 4  # three products, then one sum


def test_balancing_keeps_shared_partial_sums() -> None:
    graph = traced(lambda a, b, c, d, *_: [(a + b) + c, (a + b) + d])
    assert graph.counts().add == 3


def test_minus_of_a_product_sum_costs_a_shared_negation() -> None:
    graph = traced(lambda a, b, c, d, e, f, *_: [-(a * c + b * d), -(a * e + b * f)])
    assert graph.counts().neg == 1
    x = np.random.default_rng(0).normal(size=(5, 8))
    a, b, c, d, e, f = x.T[:6]
    np.testing.assert_allclose(evaluate(graph, {"x": x})["y"].T, [-(a * c + b * d), -(a * e + b * f)])


def test_names_say_where_a_node_comes_from() -> None:
    recorder = Trace()
    a, b = recorder.input("a"), recorder.input("b")
    with scope("minv", "link3"):
        d = label(1.0 / a, "d")
        e = d * b
    graph = lowered(recorder, [a, b], [e])
    assert [node.name for node in graph.nodes] == ["a", "b", "minv.link3.d", "minv.link3.mul"]
    names = [node.name for node in trace(robots.load("iiwa14"), "mass_matrix_inverse").nodes]
    assert {"q_1", "cos_1", "crba.link4.m_3", "ltdl.link3.d", "minv.link0.m_6"} <= set(names)
    assert len(set(names)) == len(names)


PROTOTYPE = [
    # the measured prototype: variable products, constant products, additions, reciprocals
    ("iiwa14", "inverse_dynamics", {}, (149, 163, 275, 0)),
    ("iiwa14", "mass_matrix_inverse", {}, (265, 48, 271, 5)),
    ("iiwa14", "inverse_dynamics_gradient", {"frame": 1}, (1662, 329, 1669, 0)),
    ("iiwa14", "forward_dynamics_gradient_given_minv", {"frame": 1}, (2341, 329, 2250, 0)),
    ("iiwa14", "forward_dynamics_gradient", {"frame": 1, "mass": "shared"}, (2800, 358, 2709, 7)),
    ("iiwa14", "forward_dynamics_gradient", {"frame": 1}, (2786, 402, 2759, 5)),
    ("hyq", "forward_dynamics_gradient", {"mass": "shared"}, (940, 368, 1044, 12)),
]


@pytest.mark.parametrize(("robot", "name", "options", "most"), PROTOTYPE)
def test_no_more_operations_than_the_prototype(robot: str, name: str, options: dict, most: tuple[int, ...]) -> None:
    counts = trace(robots.load(robot), name, **options).counts()
    found = (counts.mul, counts.mul_const, counts.add, counts.reciprocal)
    assert all(f <= tolerances.COUNTS * m for f, m in zip(found, most, strict=True)), counts


def test_counts_of_the_main_job() -> None:
    """The exact figures of the README and docs/operations.md: a pass that gets worse is seen here."""
    counts = trace(robots.load("iiwa14"), "forward_dynamics_gradient").counts()
    assert (counts.mul, counts.mul_const, counts.add, counts.neg) == (1975, 176, 1802, 19)
    assert (counts.reciprocal, counts.trig, counts.depth) == (5, 12, 58)


def test_what_was_traced_is_kept() -> None:
    arm = robots.load("two_joint_arm")
    first = trace(arm, "mass_matrix")
    assert trace(robots.load("two_joint_arm"), "mass_matrix") is first
    assert trace(replace(arm, gravity=(0.0, 0.0, -1.6)), "mass_matrix") is not first
    gradient = "forward_dynamics_gradient"
    assert trace(arm, gradient, frame="base") is not trace(arm, gradient, frame="middle")
    own = replace(FUNCTIONS["mass_matrix"], forms={"none": lambda tree, q: (np.zeros((2, 2)),)}, options={"none": ()})
    assert evaluate(trace(arm, own), {"q": np.ones((1, 2))})["m"].max() == 0.0
    assert trace(arm, "mass_matrix") is not trace(arm, own)


def test_few_graphs_are_kept() -> None:
    graphs = [trace(robots.load("two_joint_arm"), name) for name in ("mass_matrix", "inverse_dynamics")]
    kept = Cache(len(graphs[1]), len)
    made: list[int] = []
    for k in (0, 0, 1, 1, 0):
        assert kept.get(k, lambda k=k: made.append(k) or graphs[k]) is graphs[k]
    assert made == [0, 1, 0]


def test_a_cache_is_shared_by_threads_and_keeps_no_failure() -> None:
    cache: Cache[int, int] = Cache(most=4)
    with pytest.raises(ZeroDivisionError):
        cache.get(0, lambda: 1 // 0)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda k: cache.get(k % 6, lambda: k % 6), range(2000)))
    assert results == [k % 6 for k in range(2000)]
    assert len(cache) == 4


def test_the_same_object_and_no_equal_one_is_found() -> None:
    cache: Cache[Same, str] = Cache(most=4)
    first, equal = [1], [1]
    assert cache.get(Same(first), lambda: "first") == cache.get(Same(first), lambda: "again") == "first"
    assert cache.get(Same(equal), lambda: "equal") == "equal"
    assert Same(first) == Same(first) != Same(equal)
    assert Same(first) != first


def test_a_long_trace_says_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["dynagate.graph.trace"], "GRAPHS", Cache(0, len))
    monkeypatch.setattr(sys.modules["dynagate.graph.recorder"], "MANY", 1000)
    said: list[str] = []
    graph = trace(robots.load("iiwa14"), "inverse_dynamics_gradient", progress=said.append)
    *recording, finding, balancing, comparing = said
    assert recording == [f"recording inverse_dynamics_gradient, {k},000 operations so far" for k in (1, 2, 3)]
    assert re.fullmatch(r"finding equal ones among \d,\d{3} operations of inverse_dynamics_gradient", finding)
    assert re.fullmatch(r"balancing the sums among \d,\d{3} operations of inverse_dynamics_gradient", balancing)
    compared = r"comparing [\d,]+ operations of inverse_dynamics_gradient with the \d,\d{3} recorded ones"
    assert re.fullmatch(compared, comparing)
    assert graph == trace(robots.load("iiwa14"), "inverse_dynamics_gradient")
    monkeypatch.undo()
    monkeypatch.setattr(sys.modules["dynagate.graph.trace"], "GRAPHS", Cache(0, len))
    trace(robots.load("iiwa14"), "inverse_dynamics_gradient", progress=pytest.fail)


def test_tracing_leaves_the_garbage_collector_alone() -> None:
    """Other threads need it meanwhile."""
    seen: list[bool] = []
    own = FunctionRow(
        "own", arguments("q"), arguments("qdd"), {"": lambda tree, q: (seen.append(gc.isenabled()) or q,)}, {}
    )
    trace(robots.load("two_joint_arm"), own)
    assert seen == [True]


def test_equal_sources_give_equal_graphs_in_any_process() -> None:
    program = (
        "import hashlib; from dynagate import robots, trace;"
        "print(hashlib.sha256(repr(trace(robots.load('hyq'), 'forward_dynamics_gradient')).encode()).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


def tiny() -> Graph:
    nodes = (
        Node("input", (), None, "a"),
        Node("input", (), None, "b"),
        Node("mul", (0, 1), None, "p"),
        Node("mul_const", (2,), 2.5, "c"),
    )
    return Graph("tiny", "none", nodes, (Port("x", (2,), (0, 1)),), (Port("y", (1,), (3,)),))


def with_node(i: int, **change) -> Graph:
    graph = tiny()
    nodes = list(graph.nodes)
    nodes[i] = replace(nodes[i], **change)
    return replace(graph, nodes=tuple(nodes))


@pytest.mark.parametrize(
    ("graph", "fault"),
    [
        (with_node(2, op="power"), "node 2 'p' has op 'power', which the op table does not list"),
        (with_node(2, args=(0,)), "node 2 'p': mul has 1 operands, expected 2"),
        (with_node(2, args=(0, 3)), "node 2 'p' reads (0, 3); operands must come before it"),
        (with_node(3, constant=None), "node 3 'c': mul_const needs a constant"),
        (with_node(2, constant=1.0), "node 2 'p': mul takes no constant"),
        (with_node(3, name="p"), "node 3 'p' has the name of node 2"),
        (replace(tiny(), outputs=(Port("y", (2,), (3,)),)), "port 'y' of shape (2,) lists nodes (3,)"),
        (replace(tiny(), outputs=(Port("y", (1,), (2,)),)), "node 3 'c' is dead: no output needs it"),
        (replace(tiny(), inputs=(Port("x", (1,), (0,)),)), "node 1 'b' is an input of no port"),
    ],
)
def test_check_names_the_fault(graph: Graph, fault: str) -> None:
    tiny().check()
    with pytest.raises(GraphError) as caught:
        graph.check()
    assert fault in str(caught.value)


def test_unknown_functions_and_options_are_refused() -> None:
    robot = robots.load("two_joint_arm")
    with pytest.raises(ValueError, match="no function 'statics'; expected one of inverse_dynamics, mass_matrix"):
        trace(robot, "statics")
    with pytest.raises(
        ValueError, match=r"mass_matrix \(composite_bodies\) has no option 'frame'; expected one of: none"
    ):
        trace(robot, "mass_matrix", frame=1)
    with pytest.raises(ValueError, match="mass_matrix_inverse has no form 'lu'; expected one of ltdl, direct"):
        trace(robot, "mass_matrix_inverse", form="lu")


def test_evaluate_names_bad_inputs() -> None:
    graph = trace(robots.load("two_joint_arm"), "inverse_dynamics")
    good = {key: np.zeros((3, 2)) for key in ("q", "qd", "qdd")}
    with pytest.raises(ValueError, match="input 'qdd' is missing; expected shape"):
        evaluate(graph, {k: v for k, v in good.items() if k != "qdd"})
    with pytest.raises(ValueError, match="inverse_dynamics has no input 'tau'; expected q, qd, qdd"):
        evaluate(graph, {**good, "tau": np.zeros((3, 2))})
    with pytest.raises(ValueError, match=r"input 'qd' has shape \(3, 3\); expected \(batch, 2\)"):
        evaluate(graph, {**good, "qd": np.zeros((3, 3))})


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.arity], ids=lambda op: op.name)
def test_partials_are_the_derivatives(op) -> None:
    """The op table's derivative column against a complex step of its float column."""
    constant = [2.0] if op.constant else []
    operands = [0.7, -1.3, 2.1][: op.arity]
    partials = op.partials(op.real(*operands, *constant), *operands, *constant)
    for k in range(op.arity):
        stepped = [complex(x, 1e-30 * (j == k)) for j, x in enumerate(operands)]
        assert partials[k] == pytest.approx(np.imag(op.real(*stepped, *constant)) / 1e-30, rel=1e-12)


def test_nodes_that_outputs_need() -> None:
    nodes = tuple(Node("input", (), None, name) for name in "abc")
    nodes += (Node("mul", (0, 1), None, "d"), Node("add", (3, 3), None, "e"), Node("neg", (2,), None, "f"))
    ports = tuple(Port(node.name, (), (i,)) for i, node in enumerate(nodes))
    graph = Graph("some", "none", nodes, ports[:3], ports[4:])
    assert graph.reaching([4]) == [0, 1, 3, 4]
    assert graph.reaching([]) == []
    part = graph.numbered([1, 0, 3, 4])
    assert [node.name for node in part.nodes] == ["b", "a", "d", "e"]
    assert [node.args for node in part.nodes] == [(), (), (1, 0), (2, 2)]
    assert [(port.name, port.nodes) for port in (*part.inputs, *part.outputs)] == [
        ("a", (1,)),
        ("b", (0,)),
        ("e", (3,)),
    ]


def test_a_copy_shares_equal_operations() -> None:
    nodes = [Node("input", (), None, "x"), Node("sin", (0,), None, "s"), Node("neg", (1,), None, "n")]
    builder = GraphBuilder(nodes, lambda node: node.op == "sin")
    more = [Node("input", (), None, "y"), *nodes[1:], Node("add", (1, 2), None, "sum")]
    assert builder.copy(more, {0: 0}, lambda name: f"new.{name}") == [0, 1, 3, 4]  # a negation is not shared at first
    assert [node.name for node in builder.nodes] == ["x", "s", "n", "new.n", "new.sum"]
    assert builder.copy(more, {0: 0}) == [0, 1, 3, 4]
    assert builder.nodes[4].args == (1, 3)
