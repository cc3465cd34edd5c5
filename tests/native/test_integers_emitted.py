"""The C file of integers: it compiles without a library, and its test vector holds."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import OverflowWarning, Region, Rollout, robots, trace
from dynagate.cli import main
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.emit import emit_integers
from dynagate.fixedpoint.format import Arithmetic, Format, Integers
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate_in_numpy, quantize_inputs
from dynagate.forces import Friction
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import Graph, Port
from dynagate.graph.graph import Node
from dynagate.integrators.design_graph import graph_of

ARM = robots.load("two_joint_arm")
FLAGS = ["-std=c11", "-ffreestanding", "-Wall", "-Wextra", "-Werror", "-O1"]


def formatted(function: str, word: int, arithmetic: Arithmetic, friction: float = 0.0) -> FormattedGraph:
    policy = Policy(word, samples=256, arithmetic=arithmetic)
    return assign(trace(ARM, function, forces=[Friction(friction)]), Region.of(ARM), policy)


def compiled(text: str, folder: Path, *flags: str) -> Path:
    file = folder / "integers.c"
    file.write_text(text)
    subprocess.run(["gcc", *FLAGS, *flags, file, "-o", folder / "program"], check=True)
    return folder / "program"


@pytest.mark.parametrize(
    ("function", "word", "arithmetic", "friction"),
    [
        ("forward_dynamics_gradient", 18, Arithmetic("floor", "saturate"), 0.0),
        ("forward_dynamics", 32, Arithmetic(), 0.2),  # products of 64 bits, roots
    ],
)
def test_its_test_vector_holds(
    function: str, word: int, arithmetic: Arithmetic, friction: float, tmp_path: Path
) -> None:
    ((file, text),) = emit_integers(formatted(function, word, arithmetic, friction), Region.of(ARM)).items()
    name = file.removesuffix(".c")
    assert name == f"two_joint_arm_{function}_integers"
    check = [f"-D{name.upper()}_CHECK", "-fsanitize=undefined", "-fno-sanitize-recover"]
    subprocess.run([compiled(text, tmp_path, *check)], check=True)
    first = text.index("{{", text.index("check_out[")) + 2
    end = text.index(",", first)
    other = f"{text[:first]}{int(text[first:end]) ^ 1}{text[end:]}"
    assert subprocess.run([compiled(other, tmp_path, *check)], check=False).returncode == 1
    code = text[text.index("*/") :].replace("without", "")
    assert not [word for word in ("float", "double", "#include", "malloc") if word in code]


def test_it_equals_the_definition_state_by_state(tmp_path: Path) -> None:
    graph = formatted("forward_dynamics_gradient", 24, Arithmetic())
    inputs = quantize_inputs(graph, Region.of(ARM, velocity=20.0).states(graph.graph, 300, seed=4))
    assert 0 < assert_equal(graph, inputs, tmp_path) < 300


def address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def assert_equal(graph: FormattedGraph, inputs: Mapping[int, Integers], folder: Path) -> int:
    """Compare the C with numpy's integers in each state, and return in how many of them a value overflows."""
    ((file, text),) = emit_integers(graph, Region.of(ARM)).items()
    function = ctypes.CDLL(str(compiled(text, folder, "-shared", "-fPIC")))[file.removesuffix(".c")]
    expected = evaluate_in_numpy(graph, inputs)
    entries = [i for port in graph.graph.inputs for i in port.nodes]
    results = [i for port in graph.graph.outputs for i in port.nodes]
    output = np.zeros(len(results), np.int32)
    for k in range(len(expected.overflow)):
        state = np.array([inputs[i][k] for i in entries], np.int32)
        assert function(address(state), address(output)) == expected.overflow[k]
        assert output.tolist() == [expected.value[i][k] for i in results]
    state[0] = graph.formats[entries[0]].highest + 1
    assert function(address(state), address(output)) == 2
    return int(expected.overflow.sum())


def far_apart(arithmetic: Arithmetic) -> FormattedGraph:
    """Operations on 31 bits whose exact results are longest: binary points far apart, and the elementary functions."""
    inputs = [Format(31, frac) for frac in (28, 36, 3, 40, 60, 22)]
    operations = [
        *(("add", (2, 3), 3), ("add", (3, 2), 2), ("add", (2, 4), -2), ("sub", (2, 3), 3), ("sub", (3, 2), 2)),
        *(("sub", (4, 2), 1), ("select", (0, 2, 3), 4), ("select", (0, 4, 2), 3), ("add", (3, 3), 39)),
        *(("sin", (0,), 29), ("cos", (0,), 29), ("sin", (1,), 36), ("sin", (2,), 29), ("cos", (5,), 30)),
        *(("exp", (0,), 20), ("exp", (3,), 29), ("exp", (5,), 4), ("sqrt", (0,), 29), ("sqrt", (5,), 26)),
        *(("reciprocal", (0,), 20), ("reciprocal", (5,), 26), ("mul", (0, 5), 20), ("mul", (3, 4), 5)),
    ]
    nodes = [Node("input", (), None, f"x{k}") for k in range(6)]
    nodes += [Node(op, args, None, f"n{k}") for k, (op, args, _) in enumerate(operations)]
    ports = [Port(name, (2,), (2 * k, 2 * k + 1)) for k, name in enumerate(("q", "qd", "qdd"))]
    results = Port("tau", (len(operations),), tuple(range(6, len(nodes))))
    graph = Graph("inverse_dynamics", "two_joint_arm", tuple(nodes), tuple(ports), (results,))
    formats = (*inputs, *(Format(31, frac) for _, _, frac in operations))
    return FormattedGraph(graph, formats, {}, {}, arithmetic)


def of_any_size(graph: FormattedGraph, count: int, seed: int) -> dict[int, Integers]:
    """Integers of the inputs: of any number of bits, and the extreme ones."""
    random, values = np.random.default_rng(seed), {}
    for i in graph.graph.input_nodes:
        low, high = graph.formats[i].lowest, graph.formats[i].highest
        value = random.integers(low, high, count, endpoint=True) >> random.integers(0, 30, count)
        values[i] = np.where(random.random(count) < 0.2, random.choice([low, high, 0, 1, -1], count), value)
    return values


@pytest.mark.parametrize("arithmetic", [Arithmetic(), Arithmetic("floor", "wrap"), Arithmetic("floor", "saturate")])
def test_formats_of_31_bits_do_without_128_bits(arithmetic: Arithmetic, tmp_path: Path) -> None:
    graph = far_apart(arithmetic)
    ((_, text),) = emit_integers(graph, Region.of(ARM)).items()
    assert " * No integer has more than 64 bits." in text
    assert "const dg_128 " not in text
    assert_equal(graph, of_any_size(graph, 400, seed=2), tmp_path)


@pytest.mark.parametrize("options", ["", "--linearize --variable-dt"])
def test_the_command_writes_rollouts_whose_integers_are_those_of_the_device(options: str, tmp_path: Path) -> None:
    command = "emit two_joint_arm --function rollout --dt 0.01 --integers --word 24 --velocity 8 --acceleration 80"
    done = CliRunner().invoke(main, [*command.split(), *options.split(), "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "two_joint_arm_rollout_integers.c").read_text()
    check = ["-DTWO_JOINT_ARM_ROLLOUT_INTEGERS_CHECK", "-fsanitize=undefined", "-fno-sanitize-recover"]
    subprocess.run([compiled(text, tmp_path, *check)], check=True)
    other = text.replace("state[1] = (word)kept;", "state[1] = (word)kept + 1;")
    assert subprocess.run([compiled(other, tmp_path, *check)], check=False).returncode > 0
    if options:
        return
    steps, region = 40, Region.of(ARM, velocity=8.0, acceleration=80.0)
    function = ctypes.CDLL(str(compiled(text, tmp_path, "-shared", "-fPIC"))).two_joint_arm_rollout_integers_run
    function.restype = ctypes.c_long
    graph = assign(graph_of(ARM, "rollout", AlgorithmOptions(dt=0.01)), region, Policy(word=24))
    scale = [[2.0 ** graph.formats[i].frac for i in port.nodes] for port in (*graph.graph.inputs, *graph.graph.outputs)]
    random = np.random.default_rng(3)
    q, qd, tau = random.uniform(-1.0, 1.0, (4, 2)), random.uniform(-8.0, 8.0, (4, 2)), np.zeros((4, steps, 2))
    fixed = Rollout(ARM, steps=steps, dt=0.01, device="fixed", region=region, policy=Policy(word=24))
    with pytest.warns(OverflowWarning):
        expected = fixed(q, qd, tau)
    for k in range(4):
        state = np.rint(np.concatenate([q[k] * scale[0], qd[k] * scale[1]])).astype(np.int32)
        results, control = np.zeros((steps, 4), np.int32), np.zeros((steps, 2), np.int32)
        usable = function(*map(address, (state, control)), ctypes.c_long(steps), address(results))
        assert usable == (steps if expected.diverged[k] < 0 else expected.diverged[k] - 1)
        assert np.array_equal(results[:usable, :2] / scale[3], expected.q[k, 1 : 1 + usable])
        assert np.array_equal(results[:usable, 2:] / scale[4], expected.qd[k, 1 : 1 + usable])


START = """
int main(void);
void _start(void) {
    int status = main();
    __asm__ volatile("int $0x80" : : "a"(1), "b"(status));
}
"""
"""A program without a library, of Linux on x86 with 32 bits."""


@pytest.mark.parametrize("word", [30, 31])
def test_it_runs_on_a_target_without_128_bits(word: int, tmp_path: Path) -> None:
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        pytest.skip("expected Linux on x86-64, which runs programs of 32 bits")
    texts = [emit_integers(formatted("forward_dynamics", word, Arithmetic(), 0.2), Region.of(ARM))]
    texts += [emit_integers(far_apart(Arithmetic("half_up", which)), Region.of(ARM)) for which in ("wrap", "saturate")]
    for files in texts if word == 31 else texts[:1]:
        ((file, text),) = files.items()
        check = f"-D{file.removesuffix('.c').upper()}_CHECK"
        flags = "-m32", "-nostdlib", "-static", "-Wno-pedantic", check
        subprocess.run([compiled(text + START, tmp_path, *flags)], check=True)


def test_it_compiles_for_arm_of_32_bits(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    ((file, text),) = emit_integers(far_apart(Arithmetic()), Region.of(ARM)).items()
    (tmp_path / file).write_text(text)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "arm-linux-musleabi", *FLAGS, "-c", file]
    subprocess.run(command, cwd=tmp_path, check=True)


def test_it_says_when_it_needs_128_bits(tmp_path: Path) -> None:
    ((file, text),) = emit_integers(formatted("forward_dynamics", 32, Arithmetic()), Region.of(ARM)).items()
    assert " * It needs a compiler with integers of 128 bits (__int128): " in text
    (tmp_path / file).write_text(text)
    command = ["gcc", *FLAGS, "-U__SIZEOF_INT128__", "-c", file]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "needs a compiler with integers of 128 bits; choose formats of up to 31 bits for this target" in done.stderr


def test_the_command_writes_it_in_formats_of_a_word_or_a_file(tmp_path: Path) -> None:
    options = ["emit", "two_joint_arm", "--function", "inverse_dynamics", "--folder", str(tmp_path / "c")]
    done = CliRunner().invoke(main, [*options, "--integers", "--word", "20"])
    assert done.exit_code == 0, done.output
    file = tmp_path / "c" / "two_joint_arm_inverse_dynamics_integers.c"
    assert done.stdout.splitlines()[-1] == str(file)
    assert " * input[0] to input[1]: q[2], row by row:\n *   s20.17 s20.17\n" in file.read_text()


def test_the_command_writes_certificates_and_what_is_proved(tmp_path: Path) -> None:
    options = ["emit", "two_joint_arm", "--function", "forward_dynamics", "--folder", str(tmp_path / "c")]
    done = CliRunner().invoke(main, [*options, "--integers", "--effort", "limits", "--proved", "--certificate"])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "c" / "two_joint_arm_forward_dynamics_integers.c").read_text()
    assert " * output[2] to output[2]: certificate, row by row:\n" in text
    assert " * qdd: error at most " in text
    assert " * certificate: bounds the error of qdd as a vector, " in text
    assert "mass matrix proved, errors of its torques proved" in " ".join(text.replace(" *  ", "").split())
    name = "TWO_JOINT_ARM_FORWARD_DYNAMICS_INTEGERS_CHECK"
    subprocess.run([compiled(text, tmp_path, f"-D{name}")], check=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--certificate", "--certificate without --integers; expected both: it concerns only formats"),
        (
            "--integers --function inverse_dynamics --certificate",
            "--certificate of inverse_dynamics; expected one of forward_dynamics, forward_dynamics_gradient",
        ),
        ("--integers --proved --error 1e-3", "--proved and --error are both given; expected one"),
        ("--word 20", "--word without --integers; expected both: it concerns only formats"),
        ("--floor 0", "--floor without --integers; expected both: it concerns only formats"),
        ("--velocity 3", "--velocity without --integers; expected both: it concerns only formats"),
        ("--integers --cuda", "--integers and --cuda are both given; expected one"),
        ("--integers --pack", "--integers and --pack are both given; expected one"),
        (
            "--integers --word 20 --error 1e-3",
            "--word and --error are both given; expected one: each decides the formats",
        ),
    ],
)
def test_options_that_contradict_are_refused(options: str, message: str, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    done = CliRunner().invoke(main, ["emit", "two_joint_arm", *options.split(), "--folder", str(folder)])
    assert done.exit_code == 2
    assert message in done.output
    assert not folder.exists()
