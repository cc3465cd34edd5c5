"""What is written as C: which values stay in registers, what is read and written together, and other processors."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import evaluate, robots, trace
from dynagate.cli import main
from dynagate.graph import Graph
from dynagate.graph.reference_gradient import relative_errors
from dynagate.native.emit import emit, windows_of
from dynagate.native.nan_sentinels import watched
from dynagate.native.register_allocation import TRIG, KernelStep, program

from tests import tolerances
from tests.expressions import traced
from tests.other_platforms import cross_compiler
from tests.samples import inputs_of, states

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("registers", [6, 28])
def test_a_program_computes_the_graph_within_its_registers_and_stores_nothing_twice(registers: int) -> None:
    graph = trace(robots.load("two_joint_arm"), "forward_dynamics_gradient")
    steps = program(graph, registers, segment_operations=40)
    assert len(steps.segments) == 2
    given = [*graph.input_nodes, *(i for i, node in enumerate(graph.nodes) if node.op in TRIG)]
    memory, stored, computed = {steps.slot[i]: i for i in given}, set(), []
    for segment in steps.segments:
        held: set[int] = set()
        for step in segment:
            if step.action == "load":
                assert memory[step.slot] == step.node
            elif step.action == "store":
                assert step.node in held
                assert step.node not in stored
                stored.add(step.node)
                memory[step.slot] = step.node
            else:
                parts = [steps.fused[step.node]] if step.node in steps.fused else []
                assert all(steps.fused[user] == i for i in parts for user in graph.users[i])
                operands = {a for i in [step.node, *parts] for a in graph.nodes[i].args} - set(parts)
                assert operands <= held
                computed += [step.node, *parts]
            held.add(step.node)
        lives = _lives(graph, steps.fused, segment)
        actions = [step.action for step in segment]
        between = [at for at, (a, b) in enumerate(pairwise(actions)) if a != "load" and b != "store"]
        assert max(sum(a <= at < b for a, b in lives) for at in between) <= registers
    known = ("input", "const", *TRIG)
    assert sorted(set(computed)) == [i for i, node in enumerate(graph.nodes) if node.op not in known]
    for i in graph.output_nodes:
        assert graph.nodes[i].constant == 0.0 or memory[steps.slot[i]] == i


def test_legs_that_share_nothing_are_computed_one_after_the_other() -> None:
    graph = trace(robots.load("hyq"), "forward_dynamics_gradient")
    (segment,) = program(graph, 28, segment_operations=10_000).segments
    paths = [graph.scope_paths[step.node] for step in segment if step.action == "compute"]
    legs = [int(path[1].removeprefix("link")) // 3 for path in paths if len(path) > 1 and path[1].startswith("link")]
    assert set(legs) == {0, 1, 2, 3}
    assert legs == sorted(legs)


@pytest.mark.parametrize(
    ("formula", "outputs", "inputs"),
    [
        (lambda a, b, c, d, *_: [a * b, (a - b) * c + d], [1], []),
        (lambda a, b, c, *_: [a + b, b * c], [0, 1], []),
        (lambda a, *_: [1 / a], [], ["a"]),  # which is 0 where a is infinite
        (lambda a, b, *_: [b * (1 / a)], [0], ["a"]),
        (lambda a, *_: [1 / a.sin()], [0], []),  # and no number here
        (lambda a, *_: [a, a * 2.0], [1], []),
    ],
)
def test_what_is_watched_shows_every_input(
    formula: Callable[..., object], outputs: list[int], inputs: list[str]
) -> None:
    graph = traced(formula)
    unused = [k for k, i in enumerate(graph.input_nodes) if not graph.users[i] and i not in graph.output_nodes]
    expected = [graph.output_nodes[k] for k in outputs]
    expected += [i for k, i in enumerate(graph.input_nodes) if "abcdefgh"[k] in inputs or k in unused]
    assert watched(graph) == expected
    for k in range(len(graph.input_nodes)):
        for bad in (np.inf, -np.inf, np.nan):
            x = np.full((1, 8), 0.5)
            x[0, k] = bad
            with np.errstate(all="ignore"):
                y = evaluate(graph, {"x": x})["y"].ravel()
            seen = [y[k] for k in outputs]
            assert not np.isfinite(seen).all() or graph.input_nodes[k] in watched(graph)


def _lives(graph: Graph, fused: Mapping[int, int], segment: Sequence[KernelStep]) -> list[tuple[int, int]]:
    """From each load or computation of a value to its last use before it is loaded again."""
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    lives = []
    for at, step in enumerate(segment):
        if step.action == "compute":
            parts = [fused[step.node]] if step.node in fused else []
            for i in [step.node, *parts]:
                end |= dict.fromkeys((a for a in graph.nodes[i].args if a in begin), at)
        if step.action == "store":
            end[step.node] = at
            continue
        if step.node in begin:
            lives.append((begin[step.node], end.get(step.node, begin[step.node])))
        begin[step.node] = at
    return [*lives, *((at, end.get(i, at)) for i, at in begin.items())]


@pytest.mark.parametrize(
    "pattern", ["1", "111", "0110", "1" * 7, "1" * 16, "111000000000" * 3, "0" * 9, "10000001" * 2]
)
def test_windows_write_every_entry_that_is_used(pattern: str) -> None:
    used = [c == "1" for c in pattern]
    windows = windows_of(used)
    written = {k for at, width in windows for k in range(at, at + width)}
    row = 8 if 4 < len(used) < 8 and all(used) else len(used)
    assert {k for k, u in enumerate(used) if u} <= written <= set(range(row))
    assert len(windows) <= sum(used)
    assert windows_of([True] * 16) == [(0, 8), (8, 8)]
    assert windows_of([True] * 3 + [False] * 9) == [(0, 4)]
    assert windows_of([True] * 7) == [(0, 8)]


TARGETS: dict[str, tuple[list[str] | None, list[str] | None]] = {
    "SSE2": (["cc", "-march=x86-64"], []),
    "AVX2": (["cc", "-march=x86-64-v3"], []),
    "AVX2, Clang": (["clang", "-march=x86-64-v3"], []),
    "native, Clang": (["clang", "-march=native"], []),
    "NEON": (None, []),
}
PROGRAM = """
#include <stdio.h>
#include "{name}.h"
#define BATCH 21
{real} inputs[{inputs}], outputs[{outputs}], others[{outputs}];
int main(void) {{
    for (int k = 0; k < {inputs}; k++) if (scanf("{scan}", inputs + k) != 1) return 2;
    const {real} *const in[] = {{{into}}};
    {real} *const out[] = {{{from}}}, *const other[] = {{{beside}}};
    if ({other}0, BATCH)) return 3; /* in the other layout, which must leave nothing behind */
    if ({call}0, BATCH)) return 4;
    for (int k = 0; k < {outputs}; k++) printf("%.17g\\n", (double)outputs[k]);
    const {real} right = inputs[{last}];
    inputs[{last}] = {large}; /* an angle, or a torque with whose results' products overflow */
    if (!{call}0, BATCH)) return 5;
    inputs[{last}] = right;
    if ({call}0, BATCH)) return 6;
    return 0;
}}
"""


ARM = ("two_joint_arm", "forward_dynamics_gradient")


@pytest.mark.parametrize("target", list(TARGETS))
@pytest.mark.parametrize(
    ("robot", "name", "dtype", "planes"),
    [
        (*ARM, np.float32, True),
        (*ARM, np.float64, False),
        *(pytest.param(*ARM, *other, marks=pytest.mark.long) for other in ((np.float32, False), (np.float64, True))),
        ("hyq", "mass_matrix", np.float32, False),
        ("hyq", "mass_matrix", np.float64, True),
    ],
)
def test_narrower_vectors_give_the_same(
    name: str, robot: str, target: str, dtype: type, planes: bool, tmp_path: Path
) -> None:
    command, runner = TARGETS[target]
    if command is None:
        command, runner = cross_compiler("aarch64-linux")
    if runner is None or not all(map(shutil.which, [command[0], *runner[:1]])) or platform.machine() != "x86_64":
        pytest.skip(f"{command[0]} or what runs its programs is not installed")
    loaded = robots.load(robot)
    graph = trace(loaded, name)
    source = emit(graph)
    for file, text in source.files.items():
        (tmp_path / file).write_text(text)
    inputs = {key: value.astype(dtype) for key, value in inputs_of(name, states(loaded, 21, seed=9)).items()}
    offsets = {
        side: np.cumsum([0, *(21 * len(port.nodes) for port in ports)])
        for side, ports in (("inputs", graph.inputs), ("outputs", graph.outputs))
    }
    single = dtype is np.float32
    values = {
        **{side: ends[-1] for side, ends in offsets.items()},
        "into": ", ".join(f"inputs + {k}" for k in offsets["inputs"][:-1]),
        "from": ", ".join(f"outputs + {k}" for k in offsets["outputs"][:-1]),
        "beside": ", ".join(f"others + {k}" for k in offsets["outputs"][:-1]),
        "last": offsets["inputs"][-1] - 1,
    }
    real = (
        {"real": "float", "suffix": "f32", "scan": "%f", "large": "3e38f"}
        if single
        else {"real": "double", "suffix": "f64", "scan": "%lf", "large": "1e308"}
    )
    rows = f"{source.name}_{real['suffix']}(in, {{}}, "
    in_planes = f"{source.name}_planes_{real['suffix']}(in, {{}}, BATCH, BATCH, "
    call, other = (in_planes, rows) if planes else (rows, in_planes)
    calls = {"call": call.format("out"), "other": other.format("other")}
    (tmp_path / "main.c").write_text(PROGRAM.format(name=source.name, **calls, **values, **real))
    flags = ["-std=gnu11", "-O2", "-ffp-contract=fast", *([] if single else ["-DDYNAGATE_DOUBLE"])]
    files = [str(tmp_path / file) for file in ("main.c", f"{source.name}.c")]
    subprocess.run([*command, *flags, *files, "-lm", "-o", str(tmp_path / "run")], check=True)
    arrays = (np.moveaxis(inputs[port.name], 0, -1) if planes else inputs[port.name] for port in graph.inputs)
    given = " ".join(repr(float(x)) for array in arrays for x in array.ravel())
    done = subprocess.run([*runner, tmp_path / "run"], input=given, check=True, capture_output=True, text=True)
    found = np.array(done.stdout.split(), float)
    expected = evaluate(graph, {key: value.astype(np.float64) for key, value in inputs.items()})
    for port, (start, stop) in zip(graph.outputs, pairwise(offsets["outputs"]), strict=True):
        part = found[start:stop]
        part = np.moveaxis(part.reshape(*port.shape, 21), -1, 0) if planes else part.reshape(21, *port.shape)
        error = relative_errors(part, expected[port.name]).max()
        assert error <= (tolerances.FLOAT32 if single else tolerances.SAME_FORMULA), port.name


def test_clang_computes_with_whole_vectors(tmp_path: Path) -> None:
    if not shutil.which("clang") or platform.machine() != "x86_64":
        pytest.skip("clang is not installed")
    source = emit(trace(robots.load("two_joint_arm"), "forward_dynamics"))
    for file, text in source.files.items():
        (tmp_path / file).write_text(text)
    command = ["clang", "-std=gnu11", "-O2", "-march=x86-64-v4", "-mprefer-vector-width=256", "-S", f"{source.name}.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    arithmetic = re.findall(r"v(?:mul|add|sub|fn?m\w+)ps.*", (tmp_path / f"{source.name}.s").read_text())
    assert len(arithmetic) > 50
    assert not [line for line in arithmetic if "%ymm" in line]


@pytest.mark.parametrize("cuda", [False, True])
def test_packed_outputs_say_where_their_entries_are(cuda: bool, tmp_path: Path) -> None:
    """In C, and in CUDA as a host compiler takes it."""
    name = "forward_dynamics_gradient"
    arguments = ["emit", "hyq", "--pack", *(["--cuda"] if cuda else []), "--folder", str(tmp_path)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    (tmp_path / "main.c").write_text(UNPACKING)
    command = ["c++", "-x", "c++", "-DCUDA", "main.c"] if cuda else ["cc", "-march=native", "main.c", f"hyq_{name}.c"]
    subprocess.run([*command, "-O1", "-o", "unpacked"], cwd=tmp_path, check=True)
    state = inputs_of(name, states(robots.load("hyq"), 1, seed=3))
    text = " ".join(repr(float(x)) for port in ("q", "qd", "tau") for x in state[port].ravel())
    printed = subprocess.run([tmp_path / "unpacked"], input=text, check=True, capture_output=True, text=True).stdout
    got = np.array([float(x) for x in printed.split()]).reshape(1, 12, 12)
    expected = evaluate(trace(robots.load("hyq"), name), state)["dqdd_dq"]
    assert relative_errors(got, expected).max() <= tolerances.FLOAT32


UNPACKING = """
#include <stdio.h>
#ifdef CUDA
#include "hyq_forward_dynamics_gradient.cu"
#else
#include "hyq_forward_dynamics_gradient.h"
#endif
int main(void) {
    float q[12], qd[12], tau[12], qdd[12], dq[144], dqd[144], minv[144];
    float *all[] = {q, qd, tau};
    for (int k = 0; k < 36; k++) if (scanf("%f", all[k / 12] + k % 12) != 1) return 2;
#ifdef CUDA
    hyq_forward_dynamics_gradient(q, qd, tau, qdd, dq, dqd, minv, 1);
#else
    const float *const inputs[] = {q, qd, tau};
    float *const outputs[] = {qdd, dq, dqd, minv};
    if (hyq_forward_dynamics_gradient_one_f32(inputs, outputs)) return 3;
#endif
    for (int k = 0; k < 144; k++) {
        const int at = hyq_forward_dynamics_gradient_dqdd_dq_at[k];
        printf("%.9g\\n", at < 0 ? 0.0 : dq[at]);
    }
    return 0;
}
"""


def test_a_c_program_uses_the_written_files(tmp_path: Path) -> None:
    """examples/c: the files of `dynagate emit`, CMake, and a program that prints one call."""
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("CMake is not installed")
    shutil.copytree(ROOT / "examples" / "c", tmp_path / "c")
    done = CliRunner().invoke(main, ["emit", "two_joint_arm", "--folder", str(tmp_path / "c" / "generated")])
    assert done.exit_code == 0, done.output
    subprocess.run([cmake, "-S", ".", "-B", "build"], cwd=tmp_path / "c", check=True, capture_output=True)
    subprocess.run([cmake, "--build", "build"], cwd=tmp_path / "c", check=True, capture_output=True)
    printed = subprocess.run([tmp_path / "c" / "build" / "arm"], check=True, capture_output=True, text=True).stdout
    inputs = {"q": [[0.3, -0.5]], "qd": [[1.0, 2.0]], "tau": [[0.0, 0.1]]}
    expected = evaluate(trace(robots.load("two_joint_arm"), "forward_dynamics_gradient"), inputs)
    np.testing.assert_allclose([float(x) for x in printed.split()], expected["qdd"][0], rtol=1e-12)
