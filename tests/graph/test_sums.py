"""Sums in chains of fused multiply-adds: the same values in fewer instructions, waited for no longer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from dynagate import evaluate, robots, trace
from dynagate.graph import Graph
from dynagate.graph.reference_gradient import relative_errors
from dynagate.native.expressions import NATIVE
from dynagate.native.register_allocation import program
from dynagate.native.sums import chained, fusable

from tests import tolerances
from tests.expressions import traced
from tests.samples import inputs_of, states


def instructions(graph: Graph) -> int:
    (segment,) = program(graph, 32, 10_000).segments
    return sum(step.action == "compute" for step in segment)


def longest(graph: Graph) -> int:
    """Cycles from inputs to the last output; fused products take none."""
    fused = fusable(graph)
    cycle: list[int] = []
    for i, node in enumerate(graph.nodes):
        own = 0 if i in fused else NATIVE[node.op].cycles
        cycle.append(max((cycle[a] for a in node.args), default=0) + own)
    return max(cycle)


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (lambda a, b, c, d, e, *_: (a * b + c * d) + e, 2),
        (lambda a, b, c, d, e, *_: e - (a * b + c * d), 2),
        (lambda a, b, c, d, e, *_: (a * b - c * d) - (e + a), 3),
        (lambda a, b, c, d, e, f, *_: (a * b + c * d) + (e * f + d * a), 5),  # two chains, or it would be late
        (lambda a, b, c, *_: [a * b + c, c - a * b], 2),  # a product in two sums is computed within both
        (lambda a, b, c, *_: [a * b + c, a * b], 2),  # but where it is a result itself, on its own
        (lambda a, b, c, *_: (a * b + c) + (a * b + b), 3),  # a term that comes twice
        (lambda a, b, c, d, *_: ((a - b) - c) - d, 3),
    ],
)
def test_short_sums(formula: Callable[..., object], expected: int) -> None:
    graph = traced(formula)
    short = chained(graph).check()
    assert instructions(short) == expected <= instructions(graph)
    x = {"x": np.random.default_rng(2).normal(size=(20, 8))}
    np.testing.assert_allclose(evaluate(short, x)["y"], evaluate(graph, x)["y"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("robot", "function", "fewer"),
    [
        ("iiwa14", "inverse_dynamics", 0.97),
        ("iiwa14", "forward_dynamics_gradient", 0.92),
        ("hyq", "inverse_dynamics", 0.95),
        ("hyq", "forward_dynamics_gradient", 0.99),
    ],
)
def test_a_robots_sums(robot: str, function: str, fewer: float) -> None:
    graph = trace(robots.load(robot), function)
    short = chained(graph).check()
    assert chained(graph) == short
    assert graph.counts().add == short.counts().add
    assert instructions(short) <= fewer * instructions(graph)
    assert longest(short) <= 1.05 * longest(graph)
    inputs = inputs_of(function, states(robots.load(robot), 50, seed=5))
    expected = evaluate(graph, inputs)
    for name, value in evaluate(short, inputs).items():
        assert relative_errors(value, expected[name]).max() <= tolerances.SAME_FORMULA


def test_a_term_that_comes_late_is_added_last() -> None:
    def formula(a, b, c, d, *_):  # type: ignore[no-untyped-def]
        return 1.0 / (a * b + c) + a * c + b * d + c * c + a * d + b * b + d * d

    graph = chained(traced(formula))
    total = graph.nodes[graph.output_nodes[0]]
    assert "reciprocal" in [graph.nodes[a].op for a in total.args]
    assert longest(graph) == 2 * NATIVE["add"].cycles + NATIVE["reciprocal"].cycles
