"""The C file of integers: it compiles without a library, and its test vector holds."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Region, robots, trace
from dynagate.cli import main
from dynagate.fixedpoint.assign import FormattedGraph, Policy, assign
from dynagate.fixedpoint.emit import emit_integers
from dynagate.fixedpoint.evaluate import evaluate_in_numpy, quantise_inputs
from dynagate.fixedpoint.format import Arithmetic

ARM = robots.load("two_joint_arm")
FLAGS = ["-std=c11", "-ffreestanding", "-Wall", "-Wextra", "-Werror", "-O1"]


def formatted(function: str, word: int, arithmetic: Arithmetic, friction: float = 0.0) -> FormattedGraph:
    policy = Policy(word, samples=256, arithmetic=arithmetic)
    return assign(trace(ARM, function, friction=friction), Region.of(ARM), policy)


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
    ((file, text),) = emit_integers(graph, Region.of(ARM)).items()
    function = ctypes.CDLL(str(compiled(text, tmp_path, "-shared", "-fPIC")))[file.removesuffix(".c")]
    inputs = quantise_inputs(graph, Region.of(ARM, velocity=20.0).states(graph.graph, 300, seed=4))
    expected = evaluate_in_numpy(graph, inputs)
    assert 0 < expected.overflow.sum() < 300
    entries = [i for port in graph.graph.inputs for i in port.nodes]
    results = [i for port in graph.graph.outputs for i in port.nodes]
    output = np.zeros(len(results), np.int32)
    for k in range(300):
        state = np.array([inputs[i][k] for i in entries], np.int32)
        assert function(ctypes.c_void_p(state.ctypes.data), ctypes.c_void_p(output.ctypes.data)) == expected.overflow[k]
        assert output.tolist() == [expected.value[i][k] for i in results]
    state[0] = graph.formats[entries[0]].highest + 1
    assert function(ctypes.c_void_p(state.ctypes.data), ctypes.c_void_p(output.ctypes.data)) == 2


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
        ("--certificate", "--certificate without --integers; expected both: it concerns formats alone"),
        (
            "--integers --function inverse_dynamics --certificate",
            "--certificate of inverse_dynamics; expected --function forward_dynamics or forward_dynamics_gradient",
        ),
        ("--integers --proved --error 1e-3", "--proved and --error are both given; expected one"),
        ("--word 20", "--word without --integers; expected both: it concerns formats alone"),
        ("--floor 0", "--floor without --integers; expected both: it concerns formats alone"),
        ("--velocity 3", "--velocity without --integers; expected both: it concerns formats alone"),
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
