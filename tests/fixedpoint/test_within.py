"""What is narrow, and how much noise the words add."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from dynagate import Region, robots, trace
from dynagate.fixedpoint.assign import Policy, sampled_states
from dynagate.fixedpoint.ranges.sampled import sampled_ranges
from dynagate.fixedpoint.wordlength.goal import DSP48E2, dsp_blocks
from dynagate.fixedpoint.wordlength.narrow import Vertex, cheapest_cover
from dynagate.fixedpoint.wordlength.noise import sensitivity, variance
from dynagate.fixedpoint.wordlength.noise_budget import NoiseBudget
from dynagate.graph.evaluate import evaluate_nodes

SPARED = 0.05


def cost(cover: set[Vertex], edges: list[tuple[Vertex, Vertex]], price: Mapping[Vertex, float], spare: int) -> float:
    left = sum(not cover.intersection(edge) for edge in edges)
    return sum(price[x] for x in cover) + SPARED * left if left <= spare else np.inf


@pytest.mark.parametrize("seed", range(6))
def test_covers_are_the_cheapest(seed: int) -> None:
    random = np.random.default_rng(seed)
    vertices: list[Vertex] = [0, 1, 2, 3, 4, 5, ("constant", 6), ("constant", 7)]
    ends = random.integers(len(vertices), size=(14, 2))
    edges = [(vertices[a], vertices[b]) for a, b in ends]  # some twice, some with both ends alike
    price = {x: float(random.choice([0.0, 0.1, 0.3, random.uniform()])) for x in vertices}
    subsets = (set(c) for n in range(len(vertices) + 1) for c in itertools.combinations(vertices, n))
    spare = seed % 3
    found = cheapest_cover(edges, price, spare, SPARED)
    best = min(cost(c, edges, price, spare) for c in subsets)
    assert cost(found, edges, price, spare) <= best * 1.001 + 1e-9
    assert {x for x, p in price.items() if p == 0.0} <= found


@pytest.mark.parametrize("noise", [1.0, 30.0])
def test_formats_have_the_noise_that_is_allowed(noise: float) -> None:
    robot = robots.load("hyq")
    region, graph = Region.of(robot), trace(robot, "forward_dynamics_gradient")
    policy = Policy(word=DSP48E2.wide, guard_bits=None)
    inputs = sampled_states(graph, region, replace(policy, samples=256), None)
    sizes = np.array([float(np.mean(np.square(v))) for v in evaluate_nodes(graph, inputs)])
    weight = sum(sensitivity(graph, inputs, port) for port in graph.outputs) / 1e-6
    within = NoiseBudget(graph, region, sampled_ranges(graph, inputs), policy, DSP48E2, sizes, noise)
    found, narrow = within.formats(weight, 24, 0.1, None)
    assert sum(weight[i] * variance(found, i) for i in range(len(graph))) == pytest.approx(noise, rel=0.2)
    assert sum(blocks > 1 for blocks in dsp_blocks(found)) <= 0.1 * graph.counts().products
    assert all(found.formats[i].width <= DSP48E2.narrow for i in narrow if isinstance(i, int))
    assert within.formats(weight, 24, 0.1, narrow)[0] == found
