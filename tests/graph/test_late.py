"""Late terms last: the same function, a shorter longest path, shared sums kept for their other readers."""

from __future__ import annotations

import numpy as np
import pytest
from dynagate import Region, evaluate, robots, trace
from dynagate.graph.critical_path import late_terms_last
from dynagate.graph.graph import Graph, Node, Port
from dynagate.graph.ops import OPS


def longest(graph: Graph) -> int:
    ready: list[int] = []
    for node in graph.nodes:
        ready.append(OPS[node.op].cycles + max((ready[a] for a in node.args), default=0))
    return max(ready[i] for i in graph.output_nodes)


def graph_of(nodes: list[tuple[str, tuple[int, ...], float | None]], inputs: int, outputs: tuple[int, ...]) -> Graph:
    named = tuple(Node(op, args, constant, f"n{k}") for k, (op, args, constant) in enumerate(nodes))
    ports = (Port("x", (inputs,), tuple(range(inputs))),), (Port("y", (len(outputs),), outputs),)
    return Graph("planted", "none", named, *ports).check()


READ: list[tuple[str, tuple[int, ...], float | None]] = [("input", (), None)] * 4
LATE = [*READ, ("mul", (2, 3), None)]  # node 4
SUMS = [
    [("add", (1, 4), None), ("sub", (0, 5), None)],  # a - (b + x)
    [("sub", (1, 4), None), ("sub", (5, 0), None)],  # (b - x) - a
    [("sub", (4, 1), None), ("add_const", (5,), 0.5)],  # (x - b) + c
    [("add", (1, 4), None), ("neg", (5,), None)],  # -(b + x)
    [("add_const", (4,), -1.5), ("sub", (0, 5), None)],  # a - (x + c)
]


@pytest.mark.parametrize("sums", SUMS, ids=lambda sums: "-".join(op for op, _, _ in sums))
def test_a_late_term_passes_one_sum_and_the_shared_one_stays(sums: list) -> None:
    graph = graph_of([*LATE, *sums], 4, (6, 5))
    shorter = late_terms_last(graph)
    assert longest(graph) == 5
    assert longest(shorter) == 4
    x = np.random.default_rng(3).uniform(-2.0, 2.0, (20, 4))
    np.testing.assert_allclose(evaluate(shorter, {"x": x})["y"], evaluate(graph, {"x": x})["y"], atol=1e-14)


def test_what_is_as_short_as_can_be_stays_as_it_is() -> None:
    graph = graph_of([*LATE, ("add", (4, 0), None)], 4, (5,))
    assert late_terms_last(graph) is graph


@pytest.mark.parametrize(("name", "least"), [("two_joint_arm", 2), ("iiwa14", 4)])
def test_gradients_become_shorter_and_stay_right(name: str, least: int) -> None:
    robot = robots.load(name)
    graph = trace(robot, "forward_dynamics_gradient")
    shorter = late_terms_last(graph)
    assert longest(shorter) <= longest(graph) - least
    assert shorter.counts().products == graph.counts().products
    assert shorter.counts().add < 1.05 * graph.counts().add
    states = Region.of(robot).states(graph, 20, 3)
    expected = evaluate(graph, states)
    for block, value in evaluate(shorter, states).items():
        np.testing.assert_allclose(value, expected[block], rtol=1e-9, atol=1e-11 * np.abs(expected[block]).max())
    assert late_terms_last(graph) == shorter
