"""C for one state: in floating point on this computer, and beside integers on an emulated Cortex-M."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Policy, Region, robots, trace
from dynagate.cli import main
from dynagate.fixedpoint.assign import assign
from dynagate.fixedpoint.emit import emit_integers
from dynagate.forces import Friction
from dynagate.forces.options import AlgorithmOptions
from dynagate.integrators.design_graph import graph_of
from dynagate.integrators.step import CARRY
from dynagate.native.single import TYPES, emit_single

from tests import cortex_m

ARM = robots.load("two_joint_arm")
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover"]
INTEGER_STATES = 8
FLOAT_STATES = 5

emulated = pytest.mark.skipif(not cortex_m.is_there(), reason=f"needs {cortex_m.PACKAGES}")


def wrong_states(text: str, file: str, folder: Path) -> int:
    (folder / file).write_text(text)
    check = f"-D{file.removesuffix('.c').upper()}_CHECK"
    subprocess.run(["gcc", *FLAGS, check, folder / file, "-o", folder / "program", "-lm"], check=True)
    return subprocess.run([folder / "program"], check=False).returncode


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("function", "friction"), [("forward_dynamics_gradient", 0.0), ("forward_dynamics", 0.2)])
def test_its_test_vector_holds(dtype: str, function: str, friction: float, tmp_path: Path) -> None:
    graph = trace(ARM, function, forces=[Friction(friction)])
    ((file, text),) = emit_single(graph, Region.of(ARM), dtype).items()
    assert file == f"two_joint_arm_{function}_single.c"
    assert wrong_states(text, file, tmp_path) == 0
    assert ("double" in text) is (dtype == "float64")
    other = text.replace("= m[", "= 1.01f * m[", 1)
    assert wrong_states(other, file, tmp_path) > 0


def test_the_command_writes_it(tmp_path: Path) -> None:
    options = ["emit", "two_joint_arm", "--function", "inverse_dynamics", "--folder", str(tmp_path / "c")]
    done = CliRunner().invoke(main, [*options, "--single", "float32"])
    assert done.exit_code == 0, done.output
    file = tmp_path / "c" / "two_joint_arm_inverse_dynamics_single.c"
    assert done.stdout.splitlines()[-1] == str(file)
    assert " * input[2] to input[3]: qd[2]\n" in file.read_text()
    for option in ("--cuda", "--pack", "--integers"):
        done = CliRunner().invoke(main, [*options, "--single", "float32", option])
        assert done.exit_code == 2
        pair = "--integers and --single" if option == "--integers" else f"--single and {option}"
        assert f"{pair} are both given; expected one" in done.output


def written(folder: Path, robot: str, *, integers: bool) -> Path:
    robot_there = robots.load(robot)
    region, graph = Region.of(robot_there), trace(robot_there, "inverse_dynamics")
    files = (
        emit_integers(assign(graph, region, Policy()), region) if integers else emit_single(graph, region, "float32")
    )
    ((file, text),) = files.items()
    (folder / file).write_text(text)
    return folder / file


@emulated
def test_integers_on_a_cortex_m_are_those_of_the_datapath(tmp_path: Path) -> None:
    source = written(tmp_path, "two_joint_arm", integers=True)
    run = cortex_m.run(cortex_m.SOFT, source, ARM.nv, INTEGER_STATES, "word")
    assert run.wrong == 0
    assert abs(run.loop / 100_000 - 1.0) < 0.01  # instructions are counted right
    text = source.read_text()
    first = text.index("{{", text.index("check_out[")) + 2
    end = text.index(",", first)
    source.write_text(f"{text[:first]}{int(text[first:end]) ^ 1}{text[end:]}")
    assert cortex_m.run(cortex_m.SOFT, source, ARM.nv, INTEGER_STATES, "word").wrong == 1


@emulated
def test_a_rollout_in_integers_runs_on_a_cortex_m(tmp_path: Path) -> None:
    region = Region.of(ARM, velocity=8.0, acceleration=80.0)
    graph = graph_of(ARM, "rollout", AlgorithmOptions(dt=0.01))
    ((file, text),) = emit_integers(assign(graph, region, Policy(word=24)), region, carry=CARRY).items()
    (tmp_path / file).write_text(text)
    run = cortex_m.run(cortex_m.SOFT, tmp_path / file, 2 * ARM.nv, INTEGER_STATES, "word")
    print(run)
    assert run.wrong == 0
    (tmp_path / file).write_text(text.replace("state[1] = (word)kept;", "state[1] = (word)kept + 1;"))
    assert cortex_m.run(cortex_m.SOFT, tmp_path / file, 2 * ARM.nv, INTEGER_STATES, "word").wrong > 0


@emulated
def test_integers_take_a_quarter_of_soft_floats_instructions(tmp_path: Path) -> None:
    integers = cortex_m.run(cortex_m.SOFT, written(tmp_path, "iiwa14", integers=True), 7, INTEGER_STATES, "word")
    floats = written(tmp_path, "iiwa14", integers=False)
    soft, hard = (
        cortex_m.run(machine, floats, 7, FLOAT_STATES, "number") for machine in (cortex_m.SOFT, cortex_m.HARD)
    )
    assert integers.wrong == soft.wrong == hard.wrong == 0
    assert hard.instructions < integers.instructions <= soft.instructions / 4


def loop_on_a_cortex_m7(folder: Path, files: Sequence[Path], precision: str) -> cortex_m.Run:
    name = next(file.stem for file in files if file.suffix == ".hpp")
    run = cortex_m.run_package(cortex_m.SEVEN, folder, name, precision)
    assert run.wrong == 0
    assert abs(run.loop / 100_000 - 1.0) < 0.01
    assert 0 < run.instructions <= run.worst
    return run


@emulated
def test_loops_and_solvers_run_on_a_cortex_m7(tmp_path: Path) -> None:
    """A rollout, a planner and inverse kinematics pass the tests of their packages in both precisions."""
    random = np.random.default_rng(2)
    starts, goals = random.uniform(-1.0, 1.0, (2, 5, 2))
    cost = dynagate.control.Cost.quadratic(q=1.0, qd=0.1, tau=0.01, final=10.0)
    planner = dynagate.ilqr(ARM, knots=4, dt=0.02, cost=cost, iterations=20, device="numpy")
    finder = dynagate.inverse_kinematics(ARM, [dynagate.control.FramePosition(ARM.links[-1].name)], device="numpy")
    target = {name: np.array([0.3, 0.1, 0.4]) for name in finder.inputs}
    rollout = dynagate.Rollout(ARM, steps=10, dt=0.01, integrator="rk4", feedback=True, device="numpy")
    folders = [tmp_path / name for name in ("rollout", "ilqr", "ik")]
    written = [
        rollout.write_cmake(folders[0]),
        planner.write_cmake(folders[1], starts, 0.0 * starts, goal=goals),
        finder.write_cmake(folders[2], starts, **target),
    ]
    runs = {
        (folder.name, precision): loop_on_a_cortex_m7(folder, files, precision)
        for folder, files in zip(folders, written, strict=True)
        for precision in ("f32", "f64")
    }
    print(*runs.items(), sep="\n")
    name = next(file.stem for file in written[0] if file.suffix == ".hpp")
    body = folders[0] / f"{name}_body.h"
    body.write_text(re.sub(r"(const NUMBER v\d+ = )(\w+ \* \w+);", r"\1(real)1.1 * \2;", body.read_text(), count=1))
    assert cortex_m.run_package(cortex_m.SEVEN, folders[0], name, "f64").wrong > 0
