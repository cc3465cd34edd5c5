"""The bench in a program's folder: it loads the program into the core, finds what is planted, and edited ones are
refused."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Core, Policy, robots
from dynagate.cli import main
from dynagate.control import Cost
from dynagate.control.chip import ChipSolver
from dynagate.control.chip_ilqr import ChipIlqr
from dynagate.control.chip_mppi import ChipMppi, MppiOptions
from dynagate.control.ilqr import IlqrOptions
from dynagate.design import files
from dynagate.design.design import DesignRecord
from dynagate.design.files import BENCH, DesignError, checksum
from dynagate.design.program import PROGRAM, ProgramBody, load_words
from dynagate.forces.options import StepOptions
from dynagate.hw.bodies.program import build_program, build_solver
from dynagate.hw.designs import Design
from dynagate.hw.processor.streams import Cores
from dynagate.hw.rebuild import rebuild
from dynagate.hw.request import DesignRequest
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.vectors.packets import FOREIGN, with_bench_streams
from dynagate.robot import Joint, Link
from dynagate.sim import verify as module
from dynagate.sim.verify import verify

from tests.benches import icarus
from tests.benches import run_script as plain
from tests.core_programs import SMALL
from tests.designs import plant

LONG = pytest.mark.long
ARM = robots.load("two_joint_arm")


def program_of(designs: Path, function: str, cores: Cores | Core = SMALL, **options: Any) -> Design:
    robot = options.pop("robot", ARM)
    return build_program(DesignRequest(robot, function, **options), cores, folder=designs)


@pytest.fixture(scope="module")
def built(designs: Path) -> Design:
    return program_of(designs, "inverse_dynamics", policy=Policy(samples=64, guard_bits=-0.5))


@pytest.fixture
def copied(built: Design, tmp_path: Path) -> Path:
    return shutil.copytree(built.folder, tmp_path / "design")


def counts(text: str) -> dict[str, int]:
    return {name: int(count) for name, count in re.findall(r"^coverage (.*): (\d+)$", text, flags=re.M)}


@icarus
def test_a_program_s_folder_verifies_itself_where_icarus_alone_is(built: Design, copied: Path) -> None:
    done = plain(copied)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"bench of accelerator, design {built.design.hash[:16]}\n")
    assert done.stdout.endswith("PASS\n")
    seen = counts(done.stdout)
    assert {name for name, count in seen.items() if count == 0} == set()
    loads = -(-len(load_words(copied, built.design)) // 32)
    assert seen["samples of parts_of_a_program"] == 3 * loads + FOREIGN  # right, damaged, another core's, right again
    assert seen["samples that TLAST cut short"] > 1
    assert seen["patterns of both sides"] == 16


FAULTS = {
    "a damaged program is taken": (r"right <= right \| \(own_program & \(crc == i_payload\)\);", "right <= 1'b1;", ""),
    "tags of samples stand still": (r"tag <= i_payload;", "tag <= 32'h0;", "sample \\d+ is "),
    "the count of cut samples stands still": (
        r"(misaligned <= )sum[^;]+;",
        r"\g<1>misaligned;",
        "the register at 004c is",
    ),
}


@icarus
@pytest.mark.parametrize("fault", [pytest.param(name, marks=[] if "tags" in name else LONG) for name in FAULTS])
def test_faults_of_a_core_are_found(fault: str, copied: Path) -> None:
    old, new, says = FAULTS[fault]
    plant(copied / "accelerator.v", old, new)
    done = plain(copied)
    assert done.returncode != 0
    assert re.search(says or "sample \\d+ is ", done.stdout), done.stdout


@icarus
def test_the_latency_is_the_datasheet_s_to_the_cycle(built: Design, copied: Path) -> None:
    ((least, most),) = built.design.body.shell.spans  # type: ignore[union-attr]
    assert least == most
    assert f"| {least} cycles from the first beat in to the first beat out" in (copied / "datasheet.md").read_text()
    bench = copied / BENCH / "bench.v"
    text = bench.read_text()
    assert f"    latencies[0] = {least};" in text
    bench.write_text(text.replace(f"    latencies[0] = {least};", f"    latencies[0] = {least - 1};"))
    done = plain(copied)
    assert done.returncode != 0
    assert f"took {least} cycles; expected {least - 1} to {least - 1}" in done.stdout


def test_an_edited_bench_of_a_program_is_refused(copied: Path, designs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "check_simulators", lambda names: None)
    bench, core, vectors = copied / BENCH / "bench.v", copied / "accelerator.v", copied / BENCH / "inputs.hex"
    sound = {path: path.read_text() for path in (bench, core, vectors)}

    def refused(text: str) -> None:
        with pytest.raises(DesignError, match=text):
            verify(copied)
        for path, content in sound.items():
            path.write_text(content)

    bench.write_text(sound[bench].replace("initial begin", 'initial begin\n    $system("true");', 1))
    refused(r"bench\.v was edited, or written by another version of dynagate; build the design again")
    design = files.load_program(copied)
    forged = with_checksums(design, copied)
    bench.write_text(sound[bench].replace("initial begin", 'initial begin\n    $system("true");', 1))
    (copied / files.FILE).write_text(files.text_of(with_checksums(design, copied)))
    refused(r"bench\.v was edited, or written by another version of dynagate; build the design again")
    (copied / files.FILE).write_text(files.text_of(forged))
    core.write_text(sound[core] + "\n")
    refused(r"accelerator\.v was changed or damaged: its sha256 is .*; build the design again")
    other = program_of(designs, "mass_matrix")
    vectors.write_text((other.folder / BENCH / "inputs.hex").read_text())
    refused(f"inputs.hex has vectors of design {other.design.hash[:16]}; expected those of {design.hash[:16]}")
    bench.unlink()
    refused(r"bench\.v is missing; build the design again")
    content = bytearray((copied / PROGRAM).read_bytes())
    content[20] ^= 1
    (copied / PROGRAM).write_bytes(bytes(content))
    refused(r"program\.bin was changed or damaged: its sha256 is .*; build the design again")


def with_checksums(design: DesignRecord[ProgramBody], folder: Path) -> DesignRecord[ProgramBody]:
    """With the checksums of the files as they are."""
    return replace(design, files={name: checksum((folder / name).read_text()) for name in design.files})


def test_building_again_mends_a_program_s_bench(designs: Path) -> None:
    small = program_of(designs, "mass_matrix")
    path = small.folder / BENCH / "bench.v"
    sound = path.read_text()
    path.write_text(sound + "\n")
    program_of(designs, "mass_matrix")
    assert path.read_text() == sound


def test_a_program_of_an_older_folder_has_no_bench(copied: Path) -> None:
    design = files.load_program(copied)
    bare = files.sealed(replace(design, body=replace(design.body, shell=None), files={}))
    (copied / files.FILE).write_text(files.text_of(bare))
    done = CliRunner().invoke(main, ["verify", str(copied)])
    assert done.exit_code == 1
    assert (
        "has no bench: it was built by an earlier version of dynagate, or a solver's without problems; build"
        in done.output
    )


FLOATS = Cores(replace(SMALL, floats=1), Axi(32, words="float32"))
KINDS: dict[str, tuple[str, Cores, dict[str, Any]]] = {
    "two functions": ("inverse_dynamics,mass_matrix", Cores(SMALL, Axi(32, words="fixed")), {}),
    "samples_per_run": ("inverse_dynamics", Cores(SMALL, Axi(64, "batch", "fixed")), {"samples_per_run": 2}),
    "rollout": ("rollout", Cores(SMALL, Axi(32, words="fixed")), {"dt": 0.02}),
    "rollout on three cores": ("rollout", Cores(SMALL, Axi(64, words="fixed"), 3), {"dt": 0.02}),
    "one beat": ("mass_matrix", Cores(SMALL, Axi(512, words="fixed"), 2), {}),
    "wide": ("forward_dynamics", Cores(SMALL, Axi(128, "batch", "fixed")), {}),
    "float32": ("inverse_dynamics,mass_matrix", FLOATS, {}),
    "float32 on three cores": (
        "forward_dynamics",
        Cores(FLOATS.core, Axi(128, "batch", "float32"), 3),
        {"samples_per_run": 2},
    ),
    "rollout of float32": ("rollout", Cores(FLOATS.core, Axi(64, words="float32")), {"dt": 0.02}),
}


@LONG
@pytest.mark.parametrize("kind", KINDS)
def test_programs_of_all_kinds(kind: str, designs: Path) -> None:
    function, cores, options = KINDS[kind]
    verified = verify(program_of(designs, function, cores, **options).folder)
    assert verified.passed, verified.text()
    assert [run.simulator for run in verified.runs] == ["icarus", "verilator", "verilator"]
    assert verified.runs[-1].errors


@LONG
@pytest.mark.parametrize("name", ["iiwa14", "hyq"])
def test_methods_and_gradients_of_the_usual_core(name: str, designs: Path) -> None:
    for function, options in (
        ("forward_dynamics_gradient", {}),
        ("rollout", {"integrator": "variational", "dt": 0.002}),
    ):
        usual = dynagate.build(name, function, units=4, folder=designs, policy=Policy(word=24), **options)
        verified = verify(usual.folder, ["verilator"])
        assert verified.passed, verified.text()


@LONG
def test_new_states_of_a_program(built: Design) -> None:
    done = CliRunner().invoke(main, ["verify", str(built.folder), "--simulator", "icarus", "--seed", "7"])
    assert done.exit_code == 0, done.output
    assert "new vectors" in done.output
    assert with_bench_streams(built.design).axi is not None


@icarus
@LONG
@pytest.mark.parametrize("fault", ["", "bad numbers are no longer told"])
def test_a_program_of_float32_verifies_itself_in_icarus(fault: str, designs: Path, tmp_path: Path) -> None:
    """Numbers that are none, and states too large for their formats, are among the samples."""
    built = program_of(designs, "mass_matrix", FLOATS)
    copied = shutil.copytree(built.folder, tmp_path / "design")
    if fault:
        plant(copied / "accelerator.v", r"assign bad = [^;]+;", "assign bad = 1'b0;")
    done = plain(copied)
    assert (done.returncode == 0) == (not fault), done.stdout + done.stderr
    if fault:
        assert re.search("sample \\d+ is ", done.stdout), done.stdout
        return
    assert done.stdout.endswith("PASS\n")
    assert {name for name, count in counts(done.stdout).items() if count == 0} == set()


def solver_of(name: str, designs: Path, knots: int = 3) -> Design:
    """A solver with few knots, of the two-joint arm."""
    random = np.random.default_rng(0)
    q, goal, guess = random.uniform(-1.0, 1.0, (3, 12, 2))
    problems = {"q": q, "qd": np.full((12, 2), 0.1), "goal": goal, "guess": guess}
    cost, step = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=10.0), StepOptions(0.02)
    if name == "mppi":
        problems |= {"draw": 500.0 + np.arange(12), "seed": np.full(12, 7.0)}
        solver: ChipSolver = ChipMppi.of(ARM, cost, MppiOptions(knots, step, 3, 0.3, np.array([1.0, 0.1])))
    else:
        solver = ChipIlqr.of(ARM, cost, IlqrOptions(knots, step, 5, 1e-4, 1e-7, 1.0))
    return build_solver(solver, problems, 2, word=27, folder=designs)


@LONG
@icarus
def test_a_solver_s_program_verifies_itself_in_icarus(designs: Path) -> None:
    """Calls that begin with a guess and calls that go on, in memory that begins with zeros: X of a memory that nothing
    was written to would go through products."""
    built = solver_of("mppi", designs, knots=2)
    done = plain(built.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert counts(done.stdout)[f"samples of {built.design.function}"] == 27


@LONG
@pytest.mark.parametrize("name", ["ilqr", "mppi"])
def test_a_solver_s_program_verifies_itself(name: str, designs: Path) -> None:
    verified = verify(solver_of(name, designs).folder, ["verilator"])
    assert verified.passed, verified.text()
    assert "tau" in verified.runs[-1].errors


def test_what_a_solver_s_bench_does_not_have_is_said(designs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for where in ("hw.bodies.program", "sim.verify"):
        monkeypatch.setattr(f"dynagate.{where}.LONGEST_CALL", 1000)
    built = solver_of("ilqr", designs)
    assert built.design.body.period > 1000
    assert not (built.folder / BENCH).exists()
    text = (
        rf"has no bench: a solver's call takes {built.design.body.period} cycles, where .* expected 1000 at most: fewer"
    )
    with pytest.raises(DesignError, match=text):
        verify(built.folder)
    with pytest.raises(DesignError, match="cannot be made again: its folder does not hold the solver's problem"):
        rebuild(built.folder)


@LONG
def test_the_bench_of_a_variational_floating_body_has_unit_quaternions(tmp_path: Path) -> None:
    """Other inputs of the bench leave their limits; quaternions stay on the sphere."""
    inertia = ((0.1, 0.0, 0.0), (0.0, 0.2, 0.0), (0.0, 0.0, 0.3))
    links = [Link("a", -1, Joint("j", kind), 1.0, (0.0, 0.0, 0.1), inertia) for kind in ("floating", "spherical")]
    for link in links:
        body = dynagate.Robot(link.joint.type, (link,))
        region = dynagate.Region.of(body, velocity=2.0, acceleration=2.0)
        options: dict[str, Any] = {"units": 4, "integrator": "variational", "dt": 0.01, "region": region}
        built = dynagate.build(body, "rollout", **options, folder=tmp_path / body.name)
        vectors = rebuild(built.folder).vectors(3)["accelerator"]
        assert vectors is not None, body.name
