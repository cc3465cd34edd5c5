"""An algorithm with every operation, from the formula to the datapath; what a table says of a missing row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import FUNCTIONS, Policy, Region, build, evaluate, robots, trace
from dynagate.base import philox
from dynagate.base.errors import ArgumentError
from dynagate.base.philox import ROUNDS
from dynagate.control.forward import recorded
from dynagate.dynamics import Tree
from dynagate.dynamics.spatial import array, noise, select
from dynagate.fixedpoint.assign import WordLengths, assign_word
from dynagate.fixedpoint.fuse import FuseError
from dynagate.fixedpoint.models.evaluate import evaluate_integers, gather_outputs, quantize_inputs
from dynagate.fixedpoint.models.observed_loops import Unlimited
from dynagate.fixedpoint.ranges.sampled import sampled_ranges
from dynagate.fixedpoint.wordlength.goal import Goal
from dynagate.graph import Graph
from dynagate.graph.ops import FUSED, OPS, table
from dynagate.graph.recorder import Recording
from dynagate.graph.reference_gradient import relative_errors
from dynagate.hw.plan.plan import demand
from dynagate.hw.plan.schedule import ScheduleError
from dynagate.hw.processor.checker.replay import replay
from dynagate.hw.processor.compiler.check import checked_schedule
from dynagate.hw.processor.compiler.instructions import instructions
from dynagate.hw.processor.compiler.schedule import schedule
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.units.latencies import ROUND_CYCLES
from dynagate.hw.units.table import ELEMENTARY
from dynagate.native.kernel import Kernel
from dynagate.native.single import emit_single

from tests.all_operations import ALL_OPERATIONS, all_operations
from tests.all_operations import function as function_of_all_operations  # noqa: F401
from tests.benches import passes
from tests.cuda_text import as_host_code

ARM = robots.load("two_joint_arm")


def states(count: int) -> dict[str, np.ndarray]:
    return Region.of(ARM).sample(ALL_OPERATIONS, count, seed=3)


def expected(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The formula on numbers, state by state."""
    return np.array(
        [all_operations(None, *row) for row in zip(inputs["q"], inputs["qd"], strict=True)],  # type: ignore[arg-type]
        dtype=np.float64,
    )


def test_the_graph_has_every_operation() -> None:
    graph = trace(ARM, ALL_OPERATIONS)
    assert {node.op for node in graph.nodes} >= set(OPS) - {"sub", "neg", "noise", *FUSED, "normalized_reciprocal"}
    inputs = states(2000)
    assert np.allclose(evaluate(graph, inputs)["tau"], expected(inputs), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("layout", ["rows", "planes"])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 2e-6), ("float64", 1e-14)])
def test_c_computes_it(dtype: str, error: float, layout: str) -> None:
    inputs = states(1003)
    with dynagate.compile(ARM, ALL_OPERATIONS, device="cpu", dtype=dtype, layout=layout) as accelerator:
        got = accelerator(**inputs).tau
    exact = {key: value.astype(dtype).astype(np.float64) for key, value in inputs.items()}
    assert relative_errors(np.asarray(got, dtype=np.float64), expected(exact)).max() <= error


def test_cuda_computes_it(tmp_path: Path) -> None:
    graph, inputs = trace(ARM, ALL_OPERATIONS), states(70)
    assert relative_errors(as_host_code(graph, inputs, tmp_path)["tau"], expected(inputs)).max() <= 1e-14


def test_the_datapath_computes_it(designs: Path) -> None:
    built = build(ARM, ALL_OPERATIONS, ii=3, goal=Goal(1e-3, fresh=16384), folder=designs)
    assert built.design.formats.statement is not None
    assert max(built.design.formats.statement["samples"]["uniform"]["error"].values()) <= 1e-3
    passes(built.folder)
    assert set(ELEMENTARY) - {"normalized_reciprocal"} <= set(built.hardware.plan.unit_counts())


def random_numbers() -> tuple[Graph, dict[str, np.ndarray], np.ndarray]:
    """A graph of numbers that follow each other, inputs of it, and its results by the definition."""
    random, names = np.random.default_rng(0), ("number", "draw", "seed")
    inputs = {name: random.integers(0, 60_000, 300).astype(float) for name in names}

    def record(x: Mapping[str, Any]) -> Mapping[str, Any]:
        number, draw, seed = (x[name][()] for name in names)
        return {"drawn": array([noise(number + float(k), draw, seed) * 0.5 + 1.0 for k in range(9)])}

    whole = [inputs[name].astype(np.int64) for name in names]
    expected = np.stack([philox.integers(whole[0] + k, *whole[1:]) for k in range(9)], axis=1) * 2.0**-16 + 1.0
    return recorded("drawn", "none", dict.fromkeys(names, ()), record), inputs, expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_numbers_are_the_same_in_numpy_c_and_cuda(dtype: Any, tmp_path: Path) -> None:
    graph, inputs, expected = random_numbers()
    np.testing.assert_array_equal(evaluate(graph, inputs)["drawn"], expected)
    kernel = Kernel(graph, np.dtype(dtype))
    outputs = kernel.new_outputs(300)
    kernel({name: x.astype(dtype) for name, x in inputs.items()}, kernel.written(outputs), 300)
    np.testing.assert_array_equal(outputs["drawn"], expected.astype(dtype))
    np.testing.assert_array_equal(as_host_code(graph, inputs, tmp_path)["drawn"], expected)


def test_random_numbers_are_the_same_in_integers_and_in_a_program() -> None:
    """Exact: 15 bits behind the binary point fit every word. The unit takes as many side by side as a round has
    stages."""
    graph, inputs, expected = random_numbers()
    policy = Policy(word=27)
    formatted = assign_word(
        graph, Unlimited(), sampled_ranges(graph, inputs), policy, WordLengths([policy.word] * len(graph))
    )
    core = Core(units=2, word=27, noise=1)
    whole = core.fused(formatted)
    integers = quantize_inputs(whole, inputs)
    values = gather_outputs(whole, evaluate_integers(whole, integers).value)["drawn"]
    np.testing.assert_array_equal(values, expected)
    scheduled = schedule(instructions(whole), core)
    results = replay(scheduled, integers).results
    got = {result: results[u][k] for u, own in enumerate(scheduled.outputs) for k, result in enumerate(own)}
    for k, i in enumerate(whole.graph.output_nodes):
        result = got[scheduled.instructions.outputs[i]]
        np.testing.assert_array_equal(result * 2.0 ** -whole.formats[i].frac, expected[:, k])
    drawn = sorted(slot.cycle for slot in scheduled.slots if slot.instruction.kind == "noise")
    assert drawn[ROUND_CYCLES - 1] - drawn[0] < ROUNDS * ROUND_CYCLES
    assert drawn[-1] - drawn[0] >= ROUNDS * ROUND_CYCLES
    slots = [
        replace(slot, cycle=drawn[0] + ROUND_CYCLES)
        if (slot.instruction.kind, slot.cycle) == ("noise", drawn[-1])
        else slot
        for slot in scheduled.slots
    ]
    with pytest.raises(AssertionError, match="two random numbers begin a round at once"):
        checked_schedule(replace(scheduled, slots=tuple(sorted(slots, key=lambda slot: slot.cycle))))


def test_who_has_no_random_numbers() -> None:
    graph, inputs, _ = random_numbers()
    formatted = assign_word(graph, Unlimited(), sampled_ranges(graph, inputs), Policy(), WordLengths([24] * len(graph)))
    with pytest.raises(ScheduleError, match="none drawn: '.*' is a noise; expected a processor, which computes it"):
        demand(formatted, 4)
    with pytest.raises(
        ArgumentError, match="drawn has random numbers; expected a function without them for a single file"
    ):
        emit_single(graph, Region.of(ARM), "float64")
    far = {**inputs, "number": np.full(300, 2.0**24)}
    beyond = assign_word(graph, Unlimited(), sampled_ranges(graph, far), Policy(), WordLengths([24] * len(graph)))
    with pytest.raises(FuseError, match="an operand is beyond words of 24 bits"):
        Core(noise=1).fused(beyond)


def test_a_choice_is_not_taken_for_the_side_that_random_states_take() -> None:
    """Identities are found by evaluation; the condition here is negative in all states of one in a million."""

    def rarely(tree: Tree, q: Sequence[Any], qd: Sequence[Any]) -> Any:
        return array([select(q[0] - 1e6, qd[0], qd[1]), select(1e6 - q[0], qd[0], qd[1])])

    FUNCTIONS[ALL_OPERATIONS].forms["plain"] = rarely
    result = evaluate(trace(ARM, ALL_OPERATIONS), {"q": [[2e6, 0.0], [0.0, 0.0]], "qd": [[1.0, 2.0]] * 2})["tau"]
    assert result.tolist() == [[1.0, 2.0], [2.0, 1.0]]


def test_a_missing_row_is_named() -> None:
    rows = dict.fromkeys(OPS, 1)
    assert table("some", rows) == rows
    with pytest.raises(ValueError, match="table some has no row for operation 'select'"):
        table("some", {name: 1 for name in OPS if name != "select"})
    with pytest.raises(ValueError, match=r"table some has a row for 'power', which graph\.ops does not list"):
        table("some", {**rows, "power": 1})


@pytest.mark.parametrize("power", [0, 1, 2, 3, 5, 8, -1, -3, 2.0])
def test_powers_quotients_and_absolute_values_of_traced_scalars(power: float) -> None:
    """A cost of a user may write them; a traced value has whole powers only."""
    recording = Recording("operators", "no robot")
    x, y = recording.input("x", (2,))
    results = [x**power + 0.0 * y, x / 4.0, x / y, abs(-x), +x, 3 / x]
    values = np.array([[1.25, 0.5], [0.75, 2.0]])
    got = evaluate(recording.graph({"z": np.array(results, dtype=object)}), {"x": values})["z"]
    a, b = values.T
    np.testing.assert_allclose(got.T, [a**power, a / 4.0, a / b, a, a, 3 / a], rtol=1e-14)
    for wrong in (0.5, "2", None, float("nan"), x):
        with pytest.raises(ArgumentError, match=r"^power .* of a traced value; expected a whole number, or dynagate"):
            x**wrong
