"""Loops of graphs, loops within loops among them, on every executor against plain Python.

A case: {"kind": "loops", "loop": {...}, "inputs": {name: [number of each sample, ...]}, "devices"}. A loop: {"steps",
"carry", "iterations" or "until": [value, tolerance, iterations at most]} and, where drawn, "per_iteration", "kept",
"last", "backwards", "every". A step: {"take": [names], "give": {name: [operation, operand, ...]}}, or {"loop": {...}}.
Values are numbers; names are few, so that those of a loop and of one within are often equal. Device "blocks" is the
loop in blocks, and "program" the words of a processor's program, replayed, against the integers of the loop.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
from dynagate.dynamics.spatial import select
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.fuse import fused
from dynagate.fixedpoint.models.loops import LoopTrajectories, assign_loop, integers_of, observe, values_of
from dynagate.fixedpoint.models.observed_loops import Unlimited
from dynagate.graph import Graph
from dynagate.graph.blocks import in_blocks
from dynagate.graph.loop import ITERATIONS, RESIDUAL, Count, Loop, Until, evaluate_loop
from dynagate.graph.recorder import Recording
from dynagate.graph.steps import LOOP
from dynagate.hw.processor.checker.replay import Memory
from dynagate.hw.processor.compiler.loops import loop_instructions
from dynagate.hw.processor.compiler.motion import angles_of
from dynagate.hw.processor.compiler.schedule import schedule
from dynagate.hw.processor.isa.shape import Core
from dynagate.native.gpu_loop import GpuLoop
from dynagate.native.loop import LoopKernel

from tests.fuzz.findings import Findings
from tests.played_card import ON_HOST
from tests.replays import replayed_iteration

Case = dict[str, Any]
Values = dict[str, float]
OPERATIONS = {
    "sum": lambda a, b: a * 0.5 + b,
    "difference": lambda a, b: b - a,
    "product": lambda a, b: a * b * 0.25,
    "half": lambda a: a * 0.5,
    "same": lambda a: a * 1.0,
    "larger": lambda a, b: select(a - b, a, b),
}
"""Over expressions; numbers but for `larger`."""
ON_NUMBERS = {**OPERATIONS, "larger": lambda a, b: a if a - b > 0.0 else b}
STARTS, COMPUTED = ("a", "b", "c", "p"), ("u", "v", "w", "x", "y")
ITERATIONS_OF_CALL = 4
DEVICES = ["numpy", "cpu", "one", "cuda", "blocks", "program"]
WORD = 24
EXACT = 1e-11


def draw(random: np.random.Generator) -> Case:
    while True:
        case = _drawn(random)
        try:
            loop_of(case["loop"], "drawn")
        except ValueError:
            continue
        return case


def _drawn(random: np.random.Generator) -> Case:
    known = [str(name) for name in random.choice(STARTS, int(random.integers(1, 4)), replace=False)]
    outer = list(known)
    steps: list[Case] = []
    for k in range(int(random.integers(2, 5))):
        inner = random.random() < 0.5 and k
        step = {"loop": _inner(random, known)} if inner else _graph(random, known, known)
        steps.append(step)
        known = list(dict.fromkeys([*known, *_given(step)]))
    taken = {name for step in steps for name in _taken(step)} & set(outer)
    computed = [name for name in known if name not in outer]
    if not taken or not computed:
        return {"loop": {"steps": []}}
    loop: Case = {"steps": steps, "carry": _carry(random, computed, sorted(taken))}
    free = sorted(taken - set(loop["carry"].values()))
    if free and random.random() < 0.6:
        loop["per_iteration"] = [free[0]]
    else:
        loop["iterations"] = ITERATIONS_OF_CALL
    loop["kept"] = [name for name in computed if random.random() < 0.6]
    loop["last"] = [name for name in computed if name not in loop["kept"]]
    if random.random() < 0.2:
        loop["backwards"] = True
    elif random.random() < 0.2:
        loop["every"] = 2
    values = random.uniform(-2.0, 2.0, (len(taken), ITERATIONS_OF_CALL))
    inputs = {name: [float(f"{x:.2g}") for x in row] for name, row in zip(sorted(taken), values, strict=True)}
    return {"kind": "loops", "loop": loop, "inputs": inputs, "devices": DEVICES}


def _graph(random: np.random.Generator, known: list[str], outer: list[str]) -> Case:
    """Takes values that are known; gives some of its own, or anew those that a step has given."""
    take = [str(x) for x in random.choice(known, min(len(known), int(random.integers(1, 4))), replace=False)]
    give = {}
    for name in random.choice(COMPUTED, int(random.integers(1, 3)), replace=False):
        operation = str(random.choice(list(OPERATIONS)))
        count = 1 if operation in ("half", "same") else 2
        give[str(name)] = [operation, *(str(random.choice(take)) for _ in range(count))]
    return {"take": take, "give": give}


def _inner(random: np.random.Generator, known: list[str], levels: int = 2) -> Case:
    """A loop of one or two steps that starts from values that are known. levels: of loops in loops, at most."""
    own = list(known)
    steps = []
    for _ in range(int(random.integers(1, 3))):
        # a graph of its own: what it computes has names of its own, which may be the outer ones
        is_loop = levels > 1 and steps and random.random() < 0.5
        step = {"loop": _inner(random, own, levels - 1)} if is_loop else _graph(random, own, own)
        steps.append(step)
        own = list(dict.fromkeys([*own, *_given(step)]))
    computed = list(dict.fromkeys(name for step in steps for name in _given(step)))
    before: list[str] = []
    taken = []
    for step in steps:
        taken += [name for name in _taken(step) if name not in before]
        before += _given(step)
    loop: Case = {"steps": steps, "carry": _carry(random, computed, sorted(set(taken)))}
    if random.random() < 0.3:
        loop["until"] = [str(random.choice(computed)), 0.3, 5]
    else:
        loop["iterations"] = int(random.integers(1, 4))
    loop["last"] = [computed[-1]]
    return loop


def _carry(random: np.random.Generator, computed: list[str], taken: list[str]) -> dict[str, str]:
    values = [str(x) for x in random.permutation(computed)]
    return {value: name for value, name in zip(values, taken, strict=False) if random.random() < 0.7}


def _given(step: Case) -> list[str]:
    if "loop" not in step:
        return list(step["give"])
    return [*step["loop"].get("last", []), *([ITERATIONS, RESIDUAL] if "until" in step["loop"] else [])]


def _taken(step: Case) -> list[str]:
    if "loop" not in step:
        return list(step["take"])
    computed: set[str] = set()
    taken: list[str] = []
    for each in step["loop"]["steps"]:
        taken += [name for name in _taken(each) if name not in computed]
        computed |= set(_given(each))
    return taken


# The project's loop


def loop_of(record: Case, name: str) -> Loop:
    """Raises GraphError: it breaks the contract of loops."""
    steps = tuple(
        loop_of(step["loop"], f"{name}_{k}") if "loop" in step else _graph_of(step, f"{name}_{k}")
        for k, step in enumerate(record["steps"])
    )
    stop = Until(*record["until"]) if "until" in record else Count(record.get("iterations"))
    lists = {part: tuple(record.get(part, ())) for part in ("per_iteration", "kept", "last")}
    others = {"backwards": record.get("backwards", False), "every": record.get("every", 1)}
    return Loop(name, "none", steps, record.get("carry", {}), stop, **lists, **others)


def _graph_of(step: Case, name: str) -> Graph:
    recording = Recording(name, "none")
    values = {each: recording.input(each, ())[()] for each in step["take"]}
    return recording.graph(
        {each: OPERATIONS[row[0]](*(values[x] for x in row[1:])) for each, row in step["give"].items()}
    )


# Plain Python


def computed(loop: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    """What a loop gives for one sample: numbers; lists of those that are kept. inputs: lists of those per iteration."""
    per_iteration = {name: inputs[name] for name in loop.get("per_iteration", ())}
    state = {name: value for name, value in inputs.items() if name not in per_iteration}
    iterations = next((len(values) for values in per_iteration.values()), loop.get("iterations"))
    if "until" in loop:
        iterations = loop["until"][2]
    kept: dict[str, list[float]] = {name: [] for name in loop.get("kept", ())}
    values: Values = {}
    count, residual = 0, float("inf")
    for iteration in reversed(range(iterations)) if loop.get("backwards") else range(iterations):
        values = _iteration(loop, {**state, **{name: row[iteration] for name, row in per_iteration.items()}})
        for value, name in loop.get("carry", {}).items():
            state[name] = values[value]
        if (iteration + 1) % loop.get("every", 1) == 0:
            for name, row in kept.items():
                row.append(values[name])
        if "until" in loop:
            count, residual = count + 1, abs(values[loop["until"][0]])
            if residual <= loop["until"][1]:
                break
    result: dict[str, Any] = {name: row[::-1] if loop.get("backwards") else row for name, row in kept.items()}
    result |= {name: values[name] for name in loop.get("last", ())}
    return {**result, **({ITERATIONS: float(count), RESIDUAL: residual} if "until" in loop else {})}


def _iteration(loop: Case, values: Values) -> Values:
    values = dict(values)
    for step in loop["steps"]:
        if "loop" in step:
            values |= computed(step["loop"], {name: values[name] for name in _taken(step)})
            continue
        own = {name: values[name] for name in step["take"]}
        values |= {name: ON_NUMBERS[row[0]](*(own[x] for x in row[1:])) for name, row in step["give"].items()}
    return values


def check(case: Case, findings: Findings) -> None:
    loop = findings.guarded("loop", lambda: loop_of(case["loop"], "drawn"))
    if loop is None:
        return
    per_iteration = set(loop.per_iteration)
    batch = 11
    columns = {name: np.array(case["inputs"].get(name, [1.0]), float) for name in (port.name for port in loop.inputs)}
    inputs: dict[str, np.ndarray] = {}
    for name, column in columns.items():
        shape = (batch, ITERATIONS_OF_CALL) if name in per_iteration else (batch,)
        inputs[name] = np.resize(column, shape)
    samples = [
        computed(case["loop"], {name: value[k].tolist() for name, value in inputs.items()}) for k in range(batch)
    ]
    expected = {name: np.array([sample[name] for sample in samples]) for name in samples[0]}
    iterations = 0 if isinstance(loop.stop, Until) else loop.iterations(inputs)
    with tempfile.TemporaryDirectory() as folder:
        if "program" in case["devices"] and loop.kind == LOOP and not loop.backwards and loop.every == 1:
            try:
                _compare_program(loop, inputs, iterations, expected, findings)
            except dynagate.Error as error:
                findings.wrong("program", str(error))
        for device in (each for each in case["devices"] if each != "program"):
            outputs = findings.guarded(device, lambda d=device: _on(d, loop, inputs, iterations, Path(folder)))
            for name, value in (outputs or {}).items():
                rows = len(value)
                findings.near(f"{device} {name}", value, expected[name][:rows], EXACT)


def _on(device: str, loop: Loop, inputs: dict[str, np.ndarray], iterations: int, folder: Path) -> dict[str, np.ndarray]:
    if device == "numpy":
        return evaluate_loop(loop, inputs)
    if device == "blocks":
        blocks = in_blocks(loop)
        starts = {name: np.full(len(next(iter(inputs.values()))), value) for name, value in blocks.starts.items()}
        own = {**inputs, **starts}
        outputs = evaluate_loop(blocks.loop, {port.name: own[port.name] for port in blocks.loop.inputs})
        names = zip((*loop.kept, *loop.last), (*blocks.loop.kept, *blocks.loop.last), strict=True)
        return {name: outputs[other] for name, other in names}
    if device == "cuda":
        card = GpuLoop(loop, np.float64, iterations or None, folder=folder, toolchain=ON_HOST)
        outputs = card.new_outputs(len(next(iter(inputs.values()))))
        card(inputs, outputs)
        card.close()
        return outputs
    rows = 1 if device == "one" else None
    own = {name: np.ascontiguousarray(value[:rows]) for name, value in inputs.items()}
    kernel = LoopKernel(loop, np.float64, folder=folder)
    batch = len(next(iter(own.values())))
    outputs = kernel.new_outputs(batch, iterations)
    kernel(own, outputs, batch, iterations)
    return outputs


def _compare_program(
    loop: Loop, inputs: dict[str, np.ndarray], iterations: int, expected: dict[str, np.ndarray], findings: Findings
) -> None:
    """Compare the words of the loop's program with its integers, and these with numbers if no iteration decides."""
    blocks = in_blocks(loop)
    batch = len(next(iter(inputs.values())))
    each = {name: inputs[name] for name in loop.per_iteration} or {"none": np.zeros((batch, iterations))}
    states = {name: value for name, value in inputs.items() if name not in loop.per_iteration}
    observed = observe(blocks, states or {"none": np.zeros(batch)}, each, lambda values: np.ones(batch, bool))
    formatted = assign_loop(blocks, observed, Unlimited(), Policy(word=WORD))
    angle = angles_of(formatted.graphs(), WORD)
    formatted = formatted.mapped(lambda graph: fused(graph, angle))
    names = {port.name for port in formatted.inputs}
    begun = integers_of(formatted, {name: value for name, value in states.items() if name in names})
    integers, memory = LoopTrajectories(formatted, begun, batch), Memory()
    scheduled = schedule(loop_instructions(formatted), Core(units=2, word=WORD))
    kept: dict[str, list[np.ndarray]] = {name: [] for name in blocks.loop.kept}
    values, flagged = {}, np.zeros(batch, bool)
    for iteration in range(iterations):
        now = {name: value[:, iteration] for name, value in each.items() if name in names}
        own = integers_of(formatted, now)
        values, flagged = integers.advance(own)
        results, _ = replayed_iteration(scheduled, {**begun, **own}, memory)
        for name, entries in results.items():
            findings.same(f"program {name}", entries[0], values[name][0].value)
        for name, row in kept.items():
            row.append(values_of(values[name], ()))
    decided = any(each.kind != LOOP for each in loop.loops()) or any(
        node.op == "select" for graph in loop.graphs() for node in graph.nodes
    )
    if decided or flagged.any():
        return
    for name, other in zip(loop.kept, blocks.loop.kept, strict=True):
        findings.near(f"integers {name}", np.stack(kept[other], axis=1), expected[name], 1e-2, 1e-2)
    for name, other in zip(loop.last, blocks.loop.last, strict=True):
        findings.near(f"integers {name}", values_of(values[other], ()), expected[name], 1e-2, 1e-2)
