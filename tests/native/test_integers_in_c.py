"""The integers in C: the same bits and flags as numpy's, which are the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynagate import Region, Robot, robots, trace
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.entering import TYPES
from dynagate.fixedpoint.format import Arithmetic, Format, Integers
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models import evaluate, in_c
from dynagate.fixedpoint.models.evaluate import Values, evaluate_in_numpy, quantize_inputs
from dynagate.fixedpoint.operations import FIXED, Unit
from dynagate.fixedpoint.operations.row import NotInCError
from dynagate.forces import Friction
from dynagate.graph import OPS, Graph, Port
from dynagate.graph.graph import Node
from dynagate.graph.region import KINDS
from dynagate.native import interpreter

from tests.robots import floating_robot

ARM = robots.load("two_joint_arm")
SATURATING = Arithmetic("floor", "saturate")


def by_c(formatted: FormattedGraph, inputs: Mapping[int, Integers], keep_all: bool = False) -> Values:
    encoded = in_c.Encoded(formatted, keep_all)
    result = encoded(inputs)
    assert result is not None
    origins = Counter({int(i): int(result.origins[i]) for i in np.flatnonzero(result.origins)})
    return Values(dict(zip(encoded.kept, result.outputs, strict=True)), result.by_scope.T, origins)


def assert_equal(formatted: FormattedGraph, inputs: Mapping[int, Integers], keep_all: bool = False) -> Values:
    expected = evaluate_in_numpy(formatted, inputs, keep_all=keep_all)
    result = by_c(formatted, inputs, keep_all)
    nodes = range(len(formatted.graph)) if keep_all else formatted.graph.output_nodes
    for i in nodes:
        wrong = np.flatnonzero(result.value[i] != expected.value[i])
        node = formatted.graph.nodes[i]
        formats = [str(formatted.formats[a]) for a in node.args]
        assert not len(wrong), (node, formats, str(formatted.formats[i]), wrong[:4], formatted.arithmetic)
    assert np.array_equal(result.by_scope, expected.by_scope)
    assert result.origins == expected.origins
    return result


def corners(formatted: FormattedGraph, count: int, seed: int) -> dict[int, Integers]:
    """Integers of the inputs: any, and each of the extreme ones, 0, 1 and -1 in a quarter of the states."""
    random = np.random.default_rng(seed)
    inputs = {}
    for i in formatted.graph.input_nodes:
        low, high = formatted.formats[i].lowest, formatted.formats[i].highest
        value = random.integers(low, high, count, endpoint=True)
        inputs[i] = np.where(random.random(count) < 0.25, random.choice([low, high, 0, 1, -1], count), value)
    return inputs


def random_graph(seed: int, widest: int, operations: int = 40) -> FormattedGraph:
    """Operations of all kinds on whatever there is, each in any format."""
    random = np.random.default_rng(seed)

    def any_format(least: int = 2, most: int = widest) -> Format:
        width = int(random.integers(least, most + 1))
        return Format(width, int(random.integers(-3, width + 4)))

    nodes = [Node("input", (), None, f"x{k}") for k in range(4)]
    formats = [Format(widest, 5), *(any_format() for _ in nodes[1:])]
    constants: dict[int, tuple[int, Format]] = {}
    ops = [op for op in OPS if op != "input"]
    for i in range(4, 4 + operations):
        op = ops[i % len(ops)] if i < 4 + 2 * len(ops) else str(random.choice(ops))
        args = tuple(int(a) for a in random.integers(0, i, OPS[op].arity))
        args = (0,) if op in ("neg", "shift") and i < 4 + len(ops) else args  # of the widest type
        to, constant = any_format(), None
        while not _has_type(op, [formats[a] for a in args], to):
            op = str(random.choice(ops))
            args = tuple(int(a) for a in random.integers(0, i, OPS[op].arity))
        while isinstance(FIXED[op].meaning, Unit) and not _has_plan(op, [formats[a] for a in args], to):
            to, args = any_format(4, min(widest, 35)), tuple(map(int, random.integers(0, i, len(args))))
        if OPS[op].constant == "exponent":
            constants[i] = (constant := int(random.integers(-4, 5))), Format(16, 0)
            to = Format(formats[args[0]].width, formats[args[0]].frac - constant)
        elif OPS[op].constant:
            fmt = any_format()
            constants[i] = int(random.integers(fmt.lowest, fmt.highest, endpoint=True)), fmt
            constant = 1
        nodes.append(Node(op, args, constant, f"{'ab'[i % 2]}.n{i}"))
        formats.append(to)
    ports = (Port("x", (4,), tuple(range(4))),)
    outputs = (Port("y", (8,), tuple(range(len(nodes) - 8, len(nodes)))),)
    arithmetic = Arithmetic() if seed % 2 else SATURATING
    return FormattedGraph(Graph("any", "any", tuple(nodes), ports, outputs), tuple(formats), constants, {}, arithmetic)


def _has_type(op: str, sources: list[Format], to: Format) -> bool:
    """Whether C has a type for the exact result of nodes."""
    meaning = FIXED[op].meaning
    if isinstance(meaning, Unit) or OPS[op].constant:
        return True
    return meaning.in_c(sources, to).bits <= TYPES[-1] - 2


def _has_plan(op: str, sources: list[Format], to: Format) -> bool:
    """Whether numpy can compute it: results far narrower or wider than operands have shifts by less than no bits."""
    unit = FIXED[op].meaning
    assert isinstance(unit, Unit)
    try:
        return bool(unit.plan(*sources, to).bits)
    except (NotInCError, ValueError):
        return False


def test_random_graphs_of_all_operations_in_all_types() -> None:
    used = set()
    for widest in (12, 27, 32, 35, 62):
        for seed in range(8):
            formatted = random_graph(seed, widest)
            result = assert_equal(formatted, corners(formatted, 60, seed), keep_all=True)
            assert result.overflow.any()
            encoded = in_c.Encoded(formatted, keep_all=True)
            used |= {encoded.kernels[kernel].function for kernel in encoded.program.steps[:, 0]}
    assert used == {kernel.function for kernel in in_c.kernels()}


def formatted_of(
    robot: Robot, function: str, word: int = 24, arithmetic: Arithmetic | None = None, friction: float = 0.0
) -> FormattedGraph:
    graph, policy = trace(robot, function, forces=[Friction(friction)]), Policy(word, samples=256)
    return assign(graph, Region.of(robot, velocity=5.0), replace(policy, arithmetic=arithmetic or Arithmetic()))


@pytest.mark.parametrize("arithmetic", [Arithmetic(), SATURATING])
@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics", "forward_dynamics_gradient"])
def test_an_arm_in_and_outside_its_region(function: str, arithmetic: Arithmetic) -> None:
    formatted = formatted_of(ARM, function, 18, arithmetic)
    states = quantize_inputs(formatted, Region.of(ARM).states(formatted.graph, 10_000, seed=5))
    assert_equal(formatted, states)
    assert assert_equal(formatted, corners(formatted, 10_000, seed=6)).overflow.any()


def test_words_of_32_bits_have_products_of_more_than_62() -> None:
    formatted = formatted_of(ARM, "forward_dynamics", 32)
    assert_equal(formatted, corners(formatted, 500, seed=7), keep_all=True)


def test_the_gradient_of_a_long_arm() -> None:
    formatted = formatted_of(robots.load("iiwa14"), "forward_dynamics_gradient", 21)
    assert_equal(formatted, corners(formatted, 300, seed=8))


def test_a_floating_base_with_its_quaternion(tmp_path: Path) -> None:
    formatted = formatted_of(floating_robot(3, tmp_path), "forward_dynamics")
    assert_equal(formatted, corners(formatted, 300, seed=9))


def test_friction_with_its_roots() -> None:
    formatted = formatted_of(ARM, "forward_dynamics", friction=0.2)
    assert "sqrt" in {node.op for node in formatted.graph.nodes}
    assert_equal(formatted, corners(formatted, 2000, seed=10))


@pytest.mark.long
@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics", "forward_dynamics_gradient"])
@pytest.mark.parametrize("name", ["two_joint_arm", "iiwa14", "hyq"])
def test_a_million_states(name: str, function: str) -> None:
    """Uniform, at the region's limits and near rest; one in a hundred at the ends of the formats."""
    formatted = formatted_of(robots.load(name), function)
    region = Region.of(robots.load(name), velocity=5.0)
    for block in range(50):
        kind = KINDS[block % len(KINDS)]
        states = quantize_inputs(formatted, region.states(formatted.graph, 19_800, seed=block, kind=kind))
        others = corners(formatted, 200, seed=block)
        assert_equal(formatted, {i: np.concatenate([value, others[i]]) for i, value in states.items()})


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has no interpreter yet."""
    monkeypatch.setattr(in_c, "_loaded", {})
    monkeypatch.setattr(in_c, "_work", 0)
    interpreter.loaded.cache_clear()


def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The batches that numpy computes from now on."""
    batches: list[int] = []

    def counted(formatted: FormattedGraph, inputs: Mapping[int, Integers], *, keep_all: bool = False) -> Values:
        batches.append(len(next(iter(inputs.values()))))
        return evaluate_in_numpy(formatted, inputs, keep_all=keep_all)

    monkeypatch.setattr(evaluate, "evaluate_in_numpy", counted)
    return batches


@pytest.mark.usefixtures("fresh")
def test_c_computes_from_some_work_on(monkeypatch: pytest.MonkeyPatch) -> None:
    formatted, by_numpy = formatted_of(ARM, "inverse_dynamics"), calls(monkeypatch)
    inputs = corners(formatted, 3000, seed=2)
    monkeypatch.setattr(in_c, "WORTH", len(formatted.graph) * 4000 + 1)
    expected = evaluate.evaluate_integers(formatted, inputs)
    assert by_numpy == [1024, 1024, 952]
    result = evaluate.evaluate_integers(formatted, inputs)
    evaluate.evaluate_integers(formatted, corners(formatted, 10, seed=1))
    assert len(by_numpy) == 3
    assert expected.origins
    assert list(expected.origins.items()) == list(result.origins.items())
    assert np.array_equal(expected.by_scope, result.by_scope)
    assert all(np.array_equal(expected.value[i], result.value[i]) for i in formatted.graph.output_nodes)


@pytest.mark.usefixtures("fresh")
def test_numpy_computes_it_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "none-such")
    monkeypatch.setattr(in_c, "WORTH", 0)
    formatted, by_numpy = formatted_of(ARM, "inverse_dynamics"), calls(monkeypatch)
    evaluate.evaluate_integers(formatted, corners(formatted, 100, seed=2))
    assert by_numpy == [100]


def test_numpy_computes_integers_outside_their_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_c, "WORTH", 0)
    formatted, by_numpy = formatted_of(ARM, "inverse_dynamics"), calls(monkeypatch)
    inputs = corners(formatted, 3000, seed=2)
    first = formatted.graph.input_nodes[0]
    inputs[first][2000] = formatted.formats[first].highest + 1
    evaluate.evaluate_integers(formatted, inputs)
    assert sum(by_numpy) == 3000


def test_a_word_of_more_bits_than_c_has_is_named() -> None:
    formatted = random_graph(0, 12)
    wide = replace(formatted, formats=(Format(63, 3), *formatted.formats[1:]))
    with pytest.raises(NotInCError, match="a word of 63 bits; expected at most 62"):
        in_c.Encoded(wide, keep_all=False)
