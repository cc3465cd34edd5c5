"""Loops within loops: random ones on every executor against loops in plain Python, name by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.fuse import fused
from dynagate.fixedpoint.models.loops import (
    FORMATS,
    INTEGERS,
    LoopTrajectories,
    assign_loop,
    integers_of,
    observe,
    values_of,
)
from dynagate.fixedpoint.models.observed_loops import Unlimited
from dynagate.graph import Graph, GraphError
from dynagate.graph.blocks import IN_BLOCKS, in_blocks
from dynagate.graph.loop import EVALUATE, ITERATIONS, RESIDUAL, Count, Loop, Until, evaluate_loop
from dynagate.graph.recorder import Recording
from dynagate.graph.scopes import NAMED
from dynagate.graph.steps import KINDS, table
from dynagate.hw.processor.checker.replay import Memory
from dynagate.hw.processor.compiler.loops import BLOCKS, loop_instructions
from dynagate.hw.processor.compiler.motion import angles_of
from dynagate.hw.processor.compiler.schedule import schedule
from dynagate.native import batch_lanes
from dynagate.native.cuda_loop import CUDA
from dynagate.native.gpu_loop import GpuLoop
from dynagate.native.loop import C, LoopKernel, emit_loop

from tests.core_programs import SMALL
from tests.played_card import ON_HOST
from tests.replays import replayed_iteration
from tests.small_loops import equal_names

SHAPES: dict[str, tuple[int, ...]] = {"a": (), "b": (), "c": (), "u": (2,), "v": (2,), "w": (2,)}
"""So few names that loops within loops use those of the loops around them."""
BATCH, COUNT = 11, 4
Values = dict[str, list[float]]


@dataclass(frozen=True)
class Term:
    """factor · sin(entry of a value), or factor · entry."""

    name: str
    entry: int
    factor: float
    of_sine: bool


class Drawn:
    """A random loop. terms: of each graph the sums that its outputs are, by name."""

    def __init__(self, seed: int, depth: int) -> None:
        self.random = Random(seed)
        self.terms: dict[int, dict[str, list[list[Term]]]] = {}
        self._kept: list[Graph] = []  # so that no other gets the id of one
        self.loop = self._loop(depth, "outer")

    def _graph(self) -> Graph:
        random = self.random
        read = random.sample(sorted(SHAPES), random.choice([1, 2, 3]))
        sums: dict[str, list[list[Term]]] = {}
        for name in random.sample(sorted(SHAPES), random.choice([1, 2, 2])):
            sums[name] = [
                [self._term(random.choice(read)) for _ in range(random.choice([1, 2]))] for _ in range(_size(name))
            ]
        used = dict.fromkeys(term.name for entries in sums.values() for entry in entries for term in entry)
        recording = Recording("drawn", "none")
        inputs = {name: recording.input(name, SHAPES[name]).reshape(-1) for name in used}
        outputs = {}
        for name, entries in sums.items():
            values = []
            for entry in entries:
                parts = [inputs[term.name][term.entry] for term in entry]
                parts = [np.sin(x) if term.of_sine else x for x, term in zip(parts, entry, strict=True)]
                values.append(sum(x * term.factor for x, term in zip(parts, entry, strict=True)))
            outputs[name] = np.array(values, dtype=object).reshape(SHAPES[name])
        graph = recording.graph(outputs)
        self._kept.append(graph)
        self.terms[id(graph)] = sums
        return graph

    def _term(self, name: str) -> Term:
        random = self.random
        return Term(name, random.randrange(_size(name)), random.uniform(-0.9, 0.9), random.random() < 0.4)

    def _loop(self, depth: int, name: str) -> Loop:
        """Draws until one keeps the contract."""
        random = self.random
        for _ in range(1000):
            steps: list[Graph | Loop] = [self._graph() for _ in range(random.choice([1, 2]))]
            if depth > 1:
                steps.insert(random.randrange(len(steps) + 1), self._loop(depth - 1, f"{name}_inner"))
            if random.random() < 0.2:
                steps.append(random.choice(steps))
            try:
                body = Loop(name, "none", tuple(steps), {}, Count(1))
                return self._options(body, depth, name == "outer")
            except GraphError:
                continue
        raise AssertionError("no loop of a thousand keeps the contract")

    def _options(self, body: Loop, depth: int, outermost: bool) -> Loop:
        random = self.random
        inputs, values = sorted(p.name for p in body.inputs), sorted(body.values)
        carry: dict[str, str] = {}
        for name in inputs:
            like = [v for v in values if SHAPES.get(v) == SHAPES[name] and v not in carry]
            if like and random.random() < 0.8:
                carry[random.choice(like)] = name
        scalars = [name for name in values if name not in inputs and SHAPES.get(name) == ()]
        last = random.sample(values, random.randint(1, min(3, len(values))))
        if scalars and random.random() < 0.4:
            stop: Count | Until = Until(random.choice(scalars), random.uniform(0.01, 0.3), random.randint(2, 5))
            return Loop(body.name, "none", body.steps, carry, stop, last=tuple(last))
        if not outermost:
            return Loop(body.name, "none", body.steps, carry, Count(random.randint(1, 3)), last=tuple(last))
        constants = [name for name in inputs if name not in carry.values()]
        per_iteration = tuple(random.sample(constants, random.randint(0, len(constants))))
        kept = tuple(v for v in values if v not in last and random.random() < 0.7)
        backwards = random.random() < 0.3
        every = 1 if backwards else random.choice([1, 1, 2])
        return Loop(
            body.name, "none", body.steps, carry, Count(COUNT), per_iteration, kept, tuple(last), backwards, every
        )  # fmt: skip

    def by_hand(self, loop: Loop, start: Values, per_iteration: Mapping[str, list[list[float]]]) -> dict[str, list]:
        """The outputs of one sample: a loop in Python over numbers, which knows nothing of arrays and places."""
        state, kept, now = dict(start), {name: [] for name in loop.kept}, dict(start)
        iterations = loop.stop.at_most if isinstance(loop.stop, Until) else loop.stop.iterations
        assert iterations is not None
        taken = 0
        for iteration in reversed(range(iterations)) if loop.backwards else range(iterations):
            now = {**state, **{name: each[iteration] for name, each in per_iteration.items()}}
            for step in loop.steps:
                own = {port.name: now[port.name] for port in step.inputs}
                now |= self.by_hand(step, own, {}) if isinstance(step, Loop) else _sums(self.terms[id(step)], own)
            state |= {name: now[value] for value, name in loop.carry.items()}
            if (iteration + 1) % loop.every == 0:
                for name, each in kept.items():
                    each.append(now[name])
            taken += 1
            if isinstance(loop.stop, Until) and abs(now[loop.stop.residual][0]) <= loop.stop.tolerance:
                break
        results: dict[str, list] = {name: each[::-1] if loop.backwards else each for name, each in kept.items()}
        results |= {name: now[name] for name in loop.last}
        if isinstance(loop.stop, Until):
            results |= {ITERATIONS: [float(taken)], RESIDUAL: [abs(now[loop.stop.residual][0])]}
        return results


def _size(name: str) -> int:
    return math.prod(SHAPES[name])


def _sums(terms: Mapping[str, list[list[Term]]], values: Values) -> Values:
    def number(term: Term) -> float:
        x = values[term.name][term.entry]
        return term.factor * (math.sin(x) if term.of_sine else x)

    return {name: [sum(map(number, entry)) for entry in entries] for name, entries in terms.items()}


@pytest.mark.parametrize("constants", [{"k": 0.5}, {"k": 0.5, "x": 0.25}], ids=["k", "k, x"])
def test_equal_names_in_different_scopes_are_different_values(constants: dict[str, float]) -> None:
    """Both loops carry `x`: the inner one begins with the outer one's, not with the number that this begins with."""
    loop, random = equal_names(), np.random.default_rng(2)
    inputs = {"x": random.uniform(-1.0, 1.0, 7), "u": random.uniform(-1.0, 1.0, (7, 4))}
    inputs |= {name: np.full(7, value) for name, value in constants.items()}
    expected = evaluate_loop(loop, inputs)
    blocks = in_blocks(loop, constants)
    outputs = [port.name for graph in blocks.loop.graphs() for port in graph.outputs]
    assert len(outputs) == len({*outputs})
    assert {port.name for port in blocks.loop.outputs} == {*expected}
    states = {name: x for name, x in inputs.items() if name == "x" and name not in constants}
    for name, each in evaluate_loop(
        blocks.loop, {**states, "u": inputs["u"], **{name: np.full(7, x) for name, x in blocks.starts.items()}}
    ).items():
        np.testing.assert_allclose(each, expected[name], rtol=1e-12, atol=1e-14)
    observed = observe(blocks, states or {"none": np.zeros(7)}, {"u": inputs["u"]}, lambda values: np.ones(7, bool))
    formatted = assign_loop(blocks, observed, Unlimited(), Policy(word=24))
    angle = angles_of(formatted.graphs(), 24)
    formatted = formatted.mapped(lambda graph: fused(graph, angle))
    scheduled, memory, begun = schedule(loop_instructions(formatted), SMALL), Memory(), integers_of(formatted, states)
    integers = LoopTrajectories(formatted, begun, 7)
    iterations = integers_of(formatted, {"u": inputs["u"].reshape(-1)})["u"][0].reshape(7, 4)
    for iteration in range(4):
        own = {"u": [iterations[:, iteration]]}
        values, overflow = integers.advance(own)
        assert not overflow.any()
        for name, results in replayed_iteration(scheduled, {**begun, **own}, memory)[0].items():
            np.testing.assert_array_equal(results[0], values[name][0].value)
        for name in ("y", "next"):
            np.testing.assert_allclose(values_of(values[name], ()), expected[name][:, iteration], atol=2e-5)


def test_a_kind_of_step_without_a_row_is_named() -> None:
    rows = dict.fromkeys(KINDS, 1)
    assert table("some", rows) == rows
    with pytest.raises(ValueError, match="table some has no row for steps of kind 'scan'"):
        table("some", {kind: 1 for kind in KINDS if kind != "scan"})
    with pytest.raises(ValueError, match=r"table some has a row for 'branch', which graph\.steps does not list"):
        table("some", {**rows, "branch": 1})
    for rows_of in (EVALUATE, C, CUDA, INTEGERS, FORMATS, BLOCKS, IN_BLOCKS, NAMED):
        assert {*rows_of} == {*KINDS}


@pytest.mark.parametrize("seed", range(5))
def test_random_nested_loops_equal_python(seed: int, cache: Path) -> None:
    drawn = Drawn(seed, depth=2 + seed % 2)
    loop = drawn.loop
    random = np.random.default_rng(seed)
    inputs = {
        port.name: random.uniform(
            -2.0, 2.0, (BATCH, *([COUNT] if port.name in loop.per_iteration else []), *port.shape)
        )
        for port in loop.inputs
    }
    results = {"numpy": evaluate_loop(loop, inputs)}
    iterations = COUNT if isinstance(loop.stop, Count) else 1
    kernel = LoopKernel(loop, np.float64, folder=cache)
    for rows, text in ((BATCH, "C, vectors"), (1, "C, one")):
        results[text] = kernel.new_outputs(rows, iterations)
        kernel({name: array[:rows] for name, array in inputs.items()}, results[text], rows, iterations)
    card = GpuLoop(
        loop, np.float64, iterations if isinstance(loop.stop, Count) else None, folder=cache, toolchain=ON_HOST
    )
    results["CUDA"] = card.new_outputs(BATCH)
    card(inputs, results["CUDA"])
    card.close()
    for row in range(BATCH):
        own = {name: np.reshape(array[row], (-1, _size(name))).tolist() for name, array in inputs.items()}
        start = {name: array[0] for name, array in own.items() if name not in loop.per_iteration}
        expected = drawn.by_hand(loop, start, {name: own[name] for name in loop.per_iteration})
        for executor, arrays in results.items():
            assert arrays.keys() == expected.keys()
            for name, value in expected.items():
                if row < len(arrays[name]):
                    where = f"{name} of sample {row}, {executor}"
                    got = arrays[name][row].reshape(np.shape(value))
                    np.testing.assert_allclose(got, value, rtol=1e-12, atol=1e-12, err_msg=where)


def _graph(outputs: Callable[..., dict[str, Any]], *names: str) -> Graph:
    recording = Recording("step", "none")
    return recording.graph(outputs(*(recording.input(name, ())[()] for name in names)))


def halves() -> Loop:
    """x halved three times; squares is its own."""
    body = _graph(lambda x: {"x1": x * 0.5, "squares": x * x}, "x")
    return Loop("halves", "none", (body,), {"x1": "x"}, Count(3), last=("x1",))


def read_after() -> Loop:
    """What the loop within starts from and what has the name of a value of its own, read afterwards."""
    first = _graph(lambda p: {"x": p + 1.0, "squares": p * 100.0}, "p")
    after = _graph(lambda x, x1, s: {"moved": x1 - x, "other": s * 1.0}, "x", "x1", "squares")
    return Loop("read_after", "none", (first, halves(), after), {}, Count(), ("p",), ("moved", "other"))


def exchanged() -> Loop:
    """Two inputs that change places each iteration, and the one that the last iteration had."""
    body = _graph(lambda a, b: {"more": a + 2.0 * b}, "a", "b")
    return Loop("exchanged", "none", (body,), {"a": "b", "b": "a"}, Count(3), last=("more", "a"))


def descent(iterations: int) -> Loop:
    """Gradient descent on the torques of a scalar system: forwards, backwards over what that kept, and a new array."""
    ahead = _graph(lambda x, u, y: {"x1": x * 0.9 + u, "seen": x * 1.0, "y1": y - x}, "x", "u", "y")
    forwards = Loop(
        "ahead", "none", (ahead,), {"x1": "x", "y1": "y"}, Count(iterations), ("u",), ("seen", "y1"), ("x1",), every=1
    )
    start = _graph(lambda x1: {"p": x1 * 1.0}, "x1")
    back = _graph(lambda p, seen: {"slope": p * 1.0, "p1": p * 0.9 + seen}, "p", "seen")
    backwards = Loop(
        "back", "none", (back,), {"p1": "p"}, Count(iterations), ("seen",), ("slope",), ("p1",), backwards=True
    )
    move = _graph(lambda u, slope: {"moved": u - slope * 0.01, "size": slope * slope}, "u", "slope")
    moving = Loop("move", "none", (move,), {}, Count(iterations), ("u", "slope"), ("moved",), ("size",))
    thin = _graph(lambda moved: {"second": moved * 2.0}, "moved")
    thinning = Loop("thin", "none", (thin,), {}, Count(iterations), ("moved",), ("second",), every=2)
    steps = (forwards, start, backwards, moving, thinning)
    return Loop(
        "descent", "none", steps, {"moved": "u"}, Until("size", 0.04, 6), last=("moved", "seen", "second", "y1")
    )


def descended(x: float, y: float, u: list[float]) -> dict[str, Any]:
    """The same of one sample, in plain numbers."""
    taken = 0.0
    for _ in range(6):
        taken += 1.0
        seen, now, ys, above = [], x, [], y
        for each in u:
            seen.append(now)
            above -= now
            ys.append(above)
            now = 0.9 * now + each
        slope = [0.0] * len(u)
        p = now
        for k in reversed(range(len(u))):
            slope[k], p = p, 0.9 * p + seen[k]
        u = [a - 0.01 * b for a, b in zip(u, slope, strict=True)]
        if slope[-1] ** 2 <= 0.04:
            break
    second = [2.0 * each for each in u[1::2]]
    return {"moved": u, "seen": seen, "second": second, "y1": ys, ITERATIONS: taken, RESIDUAL: slope[-1] ** 2}


@pytest.mark.parametrize("iterations", [5, 70])
def test_loops_within_take_and_keep_values_of_every_iteration(iterations: int, cache: Path) -> None:
    """Arrays of few entries and of many, which are moved in another way; samples that end in different iterations."""
    loop, random = descent(iterations), np.random.default_rng(0)
    inputs = {
        "x": random.normal(size=BATCH),
        "y": random.normal(size=BATCH),
        "u": 0.1 * random.normal(size=(BATCH, iterations)),
    }
    results = {"numpy": evaluate_loop(loop, inputs)}
    kernel = LoopKernel(loop, np.float64, folder=cache)
    for rows, text in ((BATCH, "C, vectors"), (1, "C, one")):
        results[text] = kernel.new_outputs(rows, 1)
        kernel({name: array[:rows] for name, array in inputs.items()}, results[text], rows, 1)
    card = GpuLoop(loop, np.float64, None, folder=cache, toolchain=ON_HOST)
    results["CUDA"] = card.new_outputs(BATCH)
    card(inputs, results["CUDA"])
    card.close()
    assert len(set(results["numpy"][ITERATIONS].tolist())) > 1
    for row in range(BATCH):
        expected = descended(inputs["x"][row], inputs["y"][row], inputs["u"][row].tolist())
        for executor, arrays in results.items():
            for name, value in expected.items():
                if row < len(arrays[name]):
                    where = f"{name} of sample {row}, {executor}"
                    np.testing.assert_allclose(arrays[name][row], value, rtol=1e-12, atol=1e-12, err_msg=where)


@pytest.mark.parametrize(
    ("loop", "inputs", "iterations", "expected"),
    [
        (read_after(), {"p": [[7.0, 15.0]]}, 2, {"moved": [[-7.0, -14.0]], "other": [[700.0, 1500.0]]}),
        (exchanged(), {"a": [3.0], "b": [5.0]}, 3, {"more": [13.0], "a": [3.0]}),
    ],
)
def test_values_that_a_loop_within_or_a_carry_could_lose(
    loop: Loop, inputs: dict[str, Any], iterations: int, expected: dict[str, Any], cache: Path
) -> None:
    arrays = {name: np.array(value) for name, value in inputs.items()}
    kernel = LoopKernel(loop, np.float64, folder=cache)
    own = kernel.new_outputs(1, iterations)
    kernel(arrays, own, 1, iterations)
    card = GpuLoop(loop, np.float64, iterations, folder=cache, toolchain=ON_HOST)
    there = card.new_outputs(1)
    card(arrays, there)
    card.close()
    for results in (evaluate_loop(loop, arrays), own, there):
        assert {name: array.tolist() for name, array in results.items()} == expected


def falling(iterations: int, backwards: bool) -> Loop:
    """Two graphs that read nothing of the iteration before, of which the second reads the first; one that carries; and
    a loop around all of them, which hands the sum on."""
    recording = Recording("one", "none")
    u, c = recording.input("u", (5,)), recording.input("c", (2,))
    one = recording.graph({"a": np.sin(u) * c[0] + u[::-1] * c[1], "s": u[0] * u[1]})
    recording = Recording("two", "none")
    a = recording.input("a", (5,))
    two = recording.graph({"b": a[:3] * a[2:] + np.cos(a[1])})
    recording = Recording("three", "none")
    b, s, p = recording.input("b", (3,)), recording.input("s", ())[()], recording.input("p", ())[()]
    three = recording.graph({"p1": p * 0.5 + b[0] * b[1] + b[2] * s, "a_p": p * 1.0})
    sweep = Loop(
        "sweep", "none", (one, two, three), {"p1": "p"}, Count(iterations), ("u",), ("b", "a_p"), ("p1",), backwards
    )
    return Loop("falling", "none", (sweep,), {"p1": "p"}, Count(3), last=("b", "a_p", "p1"))


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("iterations", "dtype"), [(3, np.float64), (8, np.float64), (29, np.float64), (29, np.float32)]
)
def test_iterations_of_one_sample_in_lanes(
    iterations: int, dtype: type, backwards: bool, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer iterations than lanes, as many, and some that the last lanes have twice; beside samples in the lanes."""
    monkeypatch.setattr(batch_lanes, "WORTH", 0)
    loop, random = falling(iterations, backwards), np.random.default_rng(0)
    inputs = {
        "u": random.normal(size=(33, iterations, 5)),
        "c": random.normal(size=(33, 2)),
        "p": random.normal(size=33),
    }
    inputs = {name: array.astype(dtype) for name, array in inputs.items()}
    expected = evaluate_loop(loop, inputs)
    kernel = LoopKernel(loop, dtype, folder=cache)
    source = emit_loop(loop)
    assert "abreast[" in source.files[f"{source.name}.c"]
    for rows in (1, 33):
        results = kernel.new_outputs(rows, 3)
        kernel({name: array[:rows] for name, array in inputs.items()}, results, rows, 3)
        for name, value in expected.items():
            close = 1e-12 if dtype is np.float64 else 2e-5
            np.testing.assert_allclose(results[name], value[:rows], rtol=close, atol=close, err_msg=f"{name}, {rows}")


def test_only_graphs_that_carry_nothing_are_abreast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_lanes, "WORTH", 0)
    (sweep,) = falling(9, backwards=True).steps
    assert isinstance(sweep, Loop)
    assert [graph.name for graph in batch_lanes.first_graphs(sweep)] == ["one", "two"]
    assert [port.name for port in batch_lanes.handed_on(sweep, sweep.steps[:2])] == ["s", "b"]  # the lanes keep a
    assert batch_lanes.first_graphs(exchanged()) == ()
    monkeypatch.undo()
    moving = descent(9).steps[3]
    assert isinstance(moving, Loop)
    assert batch_lanes.first_graphs(moving) == ()  # more to move than to compute
