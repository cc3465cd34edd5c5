"""Bounds: true for every state, tight where cancellation is linear, and honest where they are not."""

from __future__ import annotations

import numpy as np
import pytest
from dynagate import Region, robots, trace
from dynagate.fixedpoint.bounds import bounds, useless
from dynagate.fixedpoint.ranges import sampled_ranges
from dynagate.graph.evaluate import evaluate_nodes

from tests.test_graph import traced


@pytest.mark.parametrize("name", ["two_joint_arm", "iiwa14", "hyq"])
@pytest.mark.parametrize("function", ["inverse_dynamics", "mass_matrix", "inverse_dynamics_gradient"])
def test_no_state_leaves_the_bounds(name: str, function: str) -> None:
    region = Region.of(robots.load(name), velocity=2.0)
    graph = trace(robots.load(name), function)
    found = bounds(graph, region)
    slack = 1e-9 * (1.0 + found.largest)
    for i, value in enumerate(evaluate_nodes(graph, region.sample(function, 2000, seed=3))):
        assert np.all((np.min(value) >= found.low[i] - slack[i]) & (np.max(value) <= found.high[i] + slack[i]))


def test_what_cancels_linearly_is_seen() -> None:
    region = Region.of(robots.load("two_joint_arm"))
    graph = trace(robots.load("two_joint_arm"), "mass_matrix")
    found = bounds(graph, region)
    assert np.isfinite(found.largest).all()
    difference = traced(lambda a, b, *_: [(a + b) * 3.0 - (a * 2.0 + b * 3.0)])  # a, whatever b

    class Unit(Region):
        def bounds(self, name: str) -> list[tuple[float, float]]:
            return [(-1.0, 1.0)] * 8

    unit = Unit(region.robot, region.lower, region.upper, region.velocity, region.acceleration)
    assert bounds(difference, unit).largest[difference.output_nodes[0]] == pytest.approx(1.0)


def test_where_bounds_stop_being_useful_is_named() -> None:
    region = Region.of(robots.load("iiwa14"))
    graph = trace(robots.load("iiwa14"), "forward_dynamics")
    inputs = region.sample("forward_dynamics", 500, seed=1)
    known = {"tau": np.abs(inputs["tau"]).max(axis=0)}
    found = bounds(graph, region, known)
    assert np.isinf(found.largest).any()  # an inverse of what may be zero, for all that intervals know
    names = useless(graph, found, sampled_ranges(graph, inputs))
    assert any(name.startswith("ltdl.") for name in names)
    with pytest.raises(ValueError, match="the region does not bound input 'tau'; give its magnitudes as known="):
        bounds(graph, region)
