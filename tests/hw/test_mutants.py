"""Mutants of a design's Verilog: equal seeds give equal ones, most die, and the verdicts are kept."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import dynagate
import pytest
from click.testing import CliRunner
from dynagate import robots
from dynagate.cli import main
from dynagate.fixedpoint.assign import Policy
from dynagate.hw.designs import Design
from dynagate.sim.mutants import KINDS, Mutant, mutants_of
from dynagate.sim.mutation import DIED, EQUIVALENT, SURVIVED, Judged, MutationRun, proved_equal

from tests.benches import icarus


@pytest.fixture(scope="module")
def built(designs: Path) -> Design:
    return dynagate.build(
        robots.load("two_joint_arm"), "inverse_dynamics", ii=4, policy=Policy(word=18), folder=designs
    )


def texts_of(built: Design) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(built.folder.glob("*.v"))}


def test_a_seed_gives_the_same_mutants_of_all_kinds_once(built: Design) -> None:
    texts = texts_of(built)
    first, again, other = (list(itertools.islice(mutants_of(texts, seed), 60)) for seed in (1, 1, 2))
    assert first == again != other
    assert {mutant.kind for mutant in first} == set(KINDS)
    assert len({(mutant.file, mutant.line, mutant.new) for mutant in first}) == 60
    for mutant in first:
        changed = mutant.applied(texts[mutant.file])
        lines = zip(texts[mutant.file].split("\n"), changed.split("\n"), strict=True)
        assert [old != new for old, new in lines].count(True) == 1


MODULE = """module one (
  input wire clk,
  input wire [3:0] a,
  output reg [3:0] b
);
  reg [4:0] sum_1;
  wire [3:0] unread;
  assign unread = a;
  always @(posedge clk) begin
    sum_1 = a + 4'h1;
    b <= sum_1[3:0];
  end
endmodule
"""


@pytest.mark.parametrize(
    ("line", "new", "equal"),
    [
        (6, "  reg [3:0] sum_1;", True),
        (8, "  assign unread = ~a;", True),
        (10, "    sum_1 = a - 4'h1;", False),
    ],
)
def test_yosys_proves_equivalence(line: int, new: str, equal: bool) -> None:
    pytest.importorskip("pyosys")
    mutant = Mutant("width", "one.v", line, MODULE.split("\n")[line - 1], new)
    assert proved_equal({"one.v": MODULE}, mutant, "one") == equal


@icarus
def test_mutants_die_and_their_verdicts_are_kept(built: Design, tmp_path: Path) -> None:
    command = ["verify", str(built.folder), "--simulator", "icarus", "--mutant-folder", str(tmp_path), "--mutants"]
    done = CliRunner().invoke(main, [*command, "3"])
    assert "mutation score: " in done.output, done.output
    (kept,) = tmp_path.glob("*-seed1/results.json")
    first = json.loads(kept.read_text())["mutants"]
    assert sum(row["verdict"] in (DIED, SURVIVED) for row in first) == 3
    CliRunner().invoke(main, [*command, "4"])
    assert json.loads(kept.read_text())["mutants"][: len(first)] == first
    assert {row["verdict"] for row in first} <= {DIED, SURVIVED, EQUIVALENT}


def test_an_edited_bench_has_no_score(built: Design, tmp_path: Path) -> None:
    copied = shutil.copytree(built.folder, tmp_path / "design")
    bench = copied / "tests" / "bench.v"
    bench.write_text(bench.read_text() + "\n")
    done = CliRunner().invoke(main, ["verify", str(copied), "--simulator", "icarus", "--mutants", "1"])
    assert done.exit_code == 1
    assert "bench.v was edited" in done.output
    done = CliRunner().invoke(main, ["verify", str(built.folder), "--mutants", "1", "--seed", "2"])
    assert done.exit_code == 2
    assert "--mutant-seed" in done.output


def test_a_score_counts_what_died_and_what_survived(built: Design, tmp_path: Path) -> None:
    mutant = Mutant("wire", "datapath.v", 3, "a", "b")
    verdicts = [DIED] * 47 + [SURVIVED, SURVIVED, EQUIVALENT]
    run = MutationRun(built.design, 1, tuple(Judged(k, mutant, v, "") for k, v in enumerate(verdicts)), tmp_path)
    assert run.score == 47 / 49
    assert not run.passed
    assert "mutation score: 47 of 49 mutants died, 95.9 %" in run.text()
    assert run.text().endswith("FAIL: the score is below 98 %")
