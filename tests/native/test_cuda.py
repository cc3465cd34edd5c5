"""The CUDA text: its numbers as host code, and that nvcc takes it for the cards in use."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from dynagate import Robot, evaluate, robots, trace
from dynagate.forces import Friction
from dynagate.graph import Graph
from dynagate.graph.recorder import Recording
from dynagate.graph.reference_gradient import relative_errors
from dynagate.graph.region import Region
from dynagate.native import cuda
from dynagate.native.cuda import emit_cuda
from dynagate.native.sums import chained

from tests import tolerances
from tests.cuda_text import as_host_code
from tests.samples import inputs_of, states

CARDS = ("sm_80", "sm_89", "sm_90")
NAMES = ("inverse_dynamics", "mass_matrix", "forward_dynamics_gradient", "forward_dynamics_gradient_given_minv")


def graph_of(robot: Robot, name: str) -> Graph:
    return trace(robot, name, frame=0) if "gradient" in name else trace(robot, name)


@pytest.mark.parametrize("planes", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("robot", ["two_joint_arm", pytest.param("iiwa14", marks=pytest.mark.long)])
def test_host_code_equals_the_graph(robot: str, name: str, planes: bool, tmp_path: Path) -> None:
    _check(robots.load(robot), name, planes, tmp_path)


def test_host_code_has_friction(tmp_path: Path) -> None:
    _check(robots.load("two_joint_arm"), "inverse_dynamics_gradient", False, tmp_path, forces=[Friction(0.5)])


def test_host_code_has_parameters_as_inputs(tmp_path: Path) -> None:
    robot = robots.load("two_joint_arm").with_variable("*.mass", "gravity", "elbow.damping", "elbow.placement")
    graph = trace(robot, "forward_dynamics_vjp")
    inputs = Region.of(robot, velocity=2.0).states(graph, 33, seed=2)
    results = as_host_code(graph, inputs, tmp_path)
    for output, expected in evaluate(graph, inputs).items():
        assert relative_errors(results[output], expected).max() <= tolerances.SAME_FORMULA, output


# rows with most entries zero, and with few
@pytest.mark.parametrize("robot", ["hyq", pytest.param("iiwa14", marks=pytest.mark.long)])
def test_outputs_that_shared_memory_does_not_hold_are_written_directly(
    robot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = robots.load(robot)
    _check(loaded, NAMES[2], False, tmp_path)
    monkeypatch.setattr(cuda, "SHARED_BYTES", 1024)
    assert cuda.staging(graph_of(loaded, NAMES[2]), double=True).threads == 0
    _check(loaded, NAMES[2], False, tmp_path)


@pytest.mark.parametrize("planes", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_long_function_is_cut_into_segments(planes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "MOST_OPERATIONS", 1000)
    monkeypatch.setattr(cuda, "SEGMENT_OPERATIONS", 500)
    robot = robots.load("iiwa14")
    text = emit_cuda(graph_of(robot, NAMES[2]))
    assert text.count("DG_APART void SEGMENT(") == text.count("    SEGMENT(") == 5
    _check(robot, NAMES[2], planes, tmp_path)


def test_a_function_that_needs_many_doubles_at_once_is_cut_into_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A double takes two of the 255 registers, so the same graph stays in one piece in float32."""
    graph = graph_of(robots.load("iiwa14"), "forward_dynamics")
    monkeypatch.setattr(cuda, "MOST_DOUBLES", cuda.most_at_once(chained(graph)) - 1)
    assert "SEGMENT(0)" in emit_cuda(graph, double=True)
    assert "SEGMENT(0)" not in emit_cuda(graph)
    _check(robots.load("iiwa14"), "forward_dynamics", False, tmp_path)
    monkeypatch.setattr(cuda, "MOST_DOUBLES", cuda.MOST_DOUBLES + 1)
    assert "SEGMENT(0)" not in emit_cuda(graph, double=True)


def test_values_at_once_are_counted_where_most_are_still_read() -> None:
    recording = Recording("sums", "none")
    x = recording.input("x", (4,))
    squares = x * x  # four at once, until the first sum reads two of them
    left, right = squares[0] + squares[1], squares[2] + squares[3]
    assert cuda.most_at_once(recording.graph({"y": left * right})) == 4
    assert cuda.most_at_once(recording.graph({"y": x[0] * x[1]})) == 0


def _check(loaded: Robot, name: str, planes: bool, tmp_path: Path, **options: Any) -> None:
    graph = trace(loaded, name, **options) if options else graph_of(loaded, name)
    state = states(loaded, 33, seed=2)
    state["minv"] = evaluate(trace(loaded, "mass_matrix_inverse"), {"q": state["q"]})["minv"]
    inputs = inputs_of(name, state)
    results = as_host_code(graph, inputs, tmp_path, planes=planes)
    for output, expected in evaluate(graph, inputs).items():
        assert relative_errors(results[output], expected).max() <= tolerances.SAME_FORMULA, output


ARM = "two_joint_arm"


@pytest.mark.parametrize(
    ("robot", "card"),
    [
        pytest.param(robot, card, marks=[] if robot == ARM or card == CARDS[-1] else [pytest.mark.long])
        for robot in robots.names()
        for card in CARDS
    ],
)
def test_nvcc_takes_it(robot: str, card: str, tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    source = tmp_path / "kernel.cu"
    source.write_text(emit_cuda(graph_of(robots.load(robot), "forward_dynamics_gradient")))
    command = [nvcc, "-cubin", f"-arch={card}", "-Xptxas", "-v", source, "-o", tmp_path / "kernel.cubin"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Compiling entry function '{robot}_forward_dynamics_gradient' for '{card}'" in done.stderr


def test_the_text_is_the_same_every_time() -> None:
    graph = trace(robots.load("two_joint_arm"), "mass_matrix")
    assert emit_cuda(graph) == emit_cuda(graph)
    assert "typedef float real;" in emit_cuda(graph)
    assert "typedef double real;" in emit_cuda(graph, double=True)
