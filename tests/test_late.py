"""What waits long loses the bits that its late readers do not need."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynagate import Region, build, evaluate, robots, trace
from dynagate.fixedpoint.assign import FormattedGraph, Policy, assign
from dynagate.fixedpoint.evaluate import evaluate as evaluate_fixed
from dynagate.fixedpoint.files import FormatsError, read_formats, write_formats
from dynagate.fixedpoint.format import Fixed, Format, without
from dynagate.fixedpoint.goal import Goal
from dynagate.fixedpoint.late import Stretch, Waiting, drop_late, late_gains
from dynagate.fixedpoint.noise import block_gains, predicted_errors
from dynagate.graph import GraphError
from dynagate.hw.plan import plan
from dynagate.sim.compare import first_difference
from dynagate.sim.runner import run_datapath_bench
from dynagate.truth import relative_errors

FUNCTION = "forward_dynamics_gradient"


def test_a_late_read_is_the_middle_of_what_it_may_have_been() -> None:
    fmt = Format(6, 3)
    values = np.arange(fmt.lowest, fmt.highest + 1)
    for bits in range(1, 5):
        read = without(Fixed(values, fmt), bits)
        assert read.format == Format(fmt.width - bits + 1, fmt.frac - bits + 1)
        assert read.format.lowest <= read.value.min()
        assert read.value.max() <= read.format.highest
        off = read.value * read.format.step - values * fmt.step
        assert abs(off).max() == 2.0 ** (bits - 1) * fmt.step
        assert abs(off.mean()) == 0.5 * fmt.step  # of a continuous number it would be none
    assert without(Fixed(values, fmt), 0).value is values


@pytest.mark.parametrize("seed", range(8))
def test_bits_dropped_are_those_of_least_cost(seed: int) -> None:
    random = np.random.default_rng(seed)
    graph = trace(robots.load("two_joint_arm"), "forward_dynamics")
    formatted = assign(graph, Region.of(robots.load("two_joint_arm")), Policy(word=10, guard_bits=2))
    node = next(i for i, fmt in enumerate(formatted.formats) if fmt.width == 10 and len(graph.users[i]) > 2)
    users = sorted(set(graph.users[node]))
    reads = [(u, graph.nodes[u].args.index(node)) for u in users]
    stretches = [Stretch(int(random.integers(1, 4)), (read,)) for read in reads]
    gains = np.sort(random.uniform(0.0, 3.0, len(reads)))[::-1]
    price = 10.0 / formatted.formats[node].step ** 2
    found = drop_late(formatted, Waiting({node: stretches}, 10, 0), {node: gains}, price).dropped

    def cost(bits: tuple[int, ...]) -> float:
        steps = zip(gains[1:], itertools.pairwise((0, *bits)), strict=True)
        noise = sum(gain * (4.0**b - 4.0**a) for gain, (a, b) in steps) * 10.0 / 12.0
        return noise - sum(s.registers * b for s, b in zip(stretches[1:], bits, strict=True))

    choices = (c for c in itertools.product(range(7), repeat=len(reads) - 1) if list(c) == sorted(c))
    assert tuple(found.get(read, 0) for read in reads[1:]) == min(choices, key=cost)
    assert reads[0] not in found


def hyq_with_late_reads(price: float) -> tuple[FormattedGraph, Region]:
    """All blocks' errors count alike."""
    robot = robots.load("hyq")
    region, graph = Region.of(robot, velocity=2.0), trace(robot, FUNCTION)
    formatted = assign(graph, region, Policy(word=20))
    waiting = plan(formatted, 8).waiting()
    states = region.sample(FUNCTION, 200, seed=3)
    each = [late_gains(formatted, states, port, waiting, draws=2) for port in graph.outputs]
    gains = {node: np.sum([found[node] for found in each], axis=0) for node in waiting.stretches}
    return drop_late(formatted, waiting, gains, price), region


def test_an_error_in_all_reads_is_felt_as_one_in_the_node() -> None:
    """Through shifts too."""
    robot = robots.load("two_joint_arm")
    region, graph = Region.of(robot), trace(robot, FUNCTION)
    formatted = assign(graph, region, Policy(word=20))
    waiting, states = plan(formatted, 2).waiting(), region.sample(FUNCTION, 20, seed=3)
    port = graph.outputs[1]
    found = late_gains(formatted, states, port, waiting, draws=2, seed=4)
    whole = block_gains(graph, states, port, draws=2, seed=4)
    assert len(found) > 10
    for node, gains in found.items():
        assert gains[0] == pytest.approx(whole[node], rel=1e-9)
        last = waiting.stretches[node][-1].reads
        rest = {node: [Stretch(1, ()), Stretch(1, last)]}
        assert gains[-1] == late_gains(formatted, states, port, Waiting(rest, 2, 0), draws=2, seed=4)[node][0]


def test_noise_of_late_reads_is_predicted_and_saves_registers() -> None:
    formatted, region = hyq_with_late_reads(1e9)
    whole = replace(formatted, dropped={})
    assert len(formatted.dropped) > 100
    assert plan(formatted, 8).register_bits() < 0.98 * plan(whole, 8).register_bits()
    inputs = region.sample(FUNCTION, 600, seed=5)
    expected = evaluate(formatted.graph, inputs)
    got, fine = evaluate_fixed(formatted, inputs).outputs, evaluate_fixed(whole, inputs).outputs
    for block, predicted in predicted_errors(formatted, inputs).items():
        error = np.median(relative_errors(got[block], expected[block]))
        assert 0.5 < np.median(predicted) / error < 2.0, block
    assert any(
        np.median(relative_errors(got[k], expected[k])) > 1.5 * np.median(relative_errors(fine[k], expected[k]))
        for k in expected
    )
    dear, _ = hyq_with_late_reads(1e11)
    assert sum(dear.dropped.values()) < sum(formatted.dropped.values())


def test_hardware_drops_the_same_bits(designs: Path) -> None:
    built = build(robots.load("two_joint_arm"), FUNCTION, ii=2, goal=Goal(1e-3), folder=designs)
    assert len(built.formatted.dropped) > 5
    planned, whole = built.plan, replace(built.formatted, dropped={})
    assert planned.register_bits() < planned.schedule.register_bits()
    inputs = built.region.sample(FUNCTION, 320, seed=2)
    run_datapath_bench(built, inputs)
    assert first_difference(built, {key: value[:3] for key, value in inputs.items()}) is None
    got, fine = evaluate_fixed(built.formatted, inputs).outputs, evaluate_fixed(whole, inputs).outputs
    assert any((got[k] != fine[k]).any() for k in got)  # what hardware equals is not what it would be without


def test_late_reads_are_kept_in_the_file(tmp_path: Path) -> None:
    formatted, _ = hyq_with_late_reads(1e9)
    path = tmp_path / "formats.json"
    write_formats(formatted, path)
    assert read_formats(formatted.graph, path) == formatted
    path.write_text(path.read_text().replace('"dropped"', '"droped"'))
    with pytest.raises(FormatsError, match="is not a formats file"):
        read_formats(formatted.graph, path)


def test_faults_of_late_reads_are_named() -> None:
    graph = trace(robots.load("two_joint_arm"), "forward_dynamics")
    formatted = assign(graph, Region.of(robots.load("two_joint_arm")))
    sine = next(i for i, node in enumerate(graph.nodes) if node.op == "sin")
    product = next(i for i, node in enumerate(graph.nodes) if node.op == "mul")
    with pytest.raises(GraphError, match=f"node {sine} .* reads an operand 0 without its lowest bits; only sums and"):
        replace(formatted, dropped={(sine, 0): 1}).check()
    with pytest.raises(GraphError, match=f"node {product} .* reads s24.* without 24 bits"):
        replace(formatted, dropped={(product, 1): 24}).check()
    with pytest.raises(GraphError, match=f"node {product} .* reads an operand 2 without"):
        replace(formatted, dropped={(product, 2): 1}).check()
