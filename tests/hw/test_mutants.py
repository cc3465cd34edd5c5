"""Mutants of a design's Verilog: equal seeds give equal ones, most die, and the verdicts are kept."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import dynagate
import pytest
from click.testing import CliRunner
from dynagate import robots
from dynagate.cli import main
from dynagate.fixedpoint.assign import Policy
from dynagate.hw.designs import Design
from dynagate.sim.equivalence import equal_reason, proved_equal
from dynagate.sim.mutant_bench import DIED, EQUIVALENT, SURVIVED, Judged
from dynagate.sim.mutant_selection import selected
from dynagate.sim.mutants import KINDS, Mutant, mutants_of
from dynagate.sim.mutation import MutationRun
from dynagate.sim.range_facts import RangeFacts, range_facts

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


COUNTERS = """module two (
  input wire clk,
  input wire rst,
  input wire [3:0] a,
  output wire [3:0] b
);
  reg [1:0] slot_1 = 2'b00;
  reg [1:0] slot_2 = 2'b00;
  reg flag = 1'b0;
  assign b = slot_1[0] ? a : 4'h7;
  always @(posedge clk) begin
    slot_1 <= slot_1 + 1'b1;
    slot_2 <= slot_2 + 1'b1;
    if (rst) begin
      slot_1 <= 2'b00;
      slot_2 <= 2'b00;
    end
  end
endmodule
"""


@pytest.mark.parametrize(
    ("line", "new", "equal"),
    [
        (10, "  assign b = slot_2[0] ? a : 4'h7;", True),  # both counters are equal from the start on
        (10, "  assign b = slot_1[1] ? a : 4'h7;", False),
        (14, "    if (1'b0) begin", False),  # the reset
        (8, "  reg slot_2 = 2'b00;", True),  # no bit of it is read
        (7, "  reg [0:0] slot_1 = 2'b00;", True),  # its lower bit counts alone
    ],
)
def test_a_proof_uses_initial_values(line: int, new: str, equal: bool) -> None:
    pytest.importorskip("pyosys")
    mutant = Mutant("width" if "reg" in new else "wire", "two.v", line, COUNTERS.split("\n")[line - 1], new)
    assert (bool(equal_reason({"two.v": COUNTERS}, mutant))) == equal


def test_facts_name_the_entries_that_no_input_reads(built: Design) -> None:
    facts = RangeFacts({"reciprocal_24": frozenset({7})})
    assert facts.is_unread("datapath__units__reciprocal_24", "    table_value[7] = 4'h3;")
    assert not facts.is_unread("datapath__units__reciprocal_24", "    table_value[8] = 4'h3;")
    assert not facts.is_unread("datapath__units__other", "    table_value[7] = 4'h3;")
    assert range_facts(built.folder).unread


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
    assert proved_equal({"one.v": MODULE}, {"one.v": mutant.applied(MODULE)}, "one") == equal


INNER = """module inner (
  input wire clk,
  input wire [3:0] x,
  output reg [3:0] y
);
  always @(posedge clk) y <= x ^ 4'h5;
endmodule
"""
OUTER = """module outer (
  input wire clk,
  input wire [3:0] a,
  input wire [3:0] b,
  output wire [7:0] c,
  output reg [5:0] d
);
  wire [3:0] y;
  wire [7:0] parts;
  reg [4:0] sum_1;
  reg signed [4:0] difference_1 = 5'h00;
  reg [3:0] counts = 4'b0000;
  reg [3:0] storage [0:4];
  reg [7:0] table_value [0:3];
  reg [7:0] entry;
  initial begin
    storage[0] = 4'h0;
    storage[1] = 4'h0;
    storage[2] = 4'h0;
    storage[3] = 4'h0;
    storage[4] = 4'h0;
    table_value[0] = 8'h12;
    table_value[1] = 8'h34;
    table_value[2] = 8'h56;
    table_value[3] = 8'h78;
  end
  assign parts[3:0] = a - b;
  assign parts[7:4] = $signed(a) >>> 1'b1;
  assign c = parts ^ entry;
  inner u_inner (
    .clk(clk),
    .x({a[1:0], b[1:0]}),
    .y(y)
  );
  always @(posedge clk) if (a[0]) storage[b] <= a;
  always @(posedge clk) entry <= table_value[a[1:0]];
  always @(posedge clk) begin
    sum_1 = a + b;
    difference_1 = $signed(a) - $signed(b);
    counts[0] <= a[0] & b[0];
    counts[3:1] <= sum_1[4:2];
    if (a > 4'h3) begin
      d <= sum_1 + storage[b[1:0]] + counts;
    end else begin
      d <= $signed(difference_1) + y;
    end
    case (a[1:0])
      2'b01: begin
        d <= difference_1;
      end
    endcase
  end
endmodule
"""
STIMULUS = """module bench;
  reg clk = 1'b0;
  reg [3:0] a = 4'h0, b = 4'h0;
  wire [7:0] c;
  wire [5:0] d;
  integer k;
  outer u_outer (.clk(clk), .a(a), .b(b), .c(c), .d(d));
  initial begin
    for (k = 0; k < 300; k = k + 1) begin
      {a, b} = k * 37 + (k >> 2);
      #1 clk = 1'b1;
      #1 clk = 1'b0;
      #1 $write("%h%h ", c, d);
    end
    $finish;
  end
endmodule
"""


@icarus
def test_a_selected_mutant_computes_what_its_own_text_computes(tmp_path: Path) -> None:
    """Each mutant runs twice: selected from the common text, and from the text with only its line changed."""
    texts = {"outer.v": OUTER, "inner.v": INNER}
    mutants = dict(enumerate(mutants_of(texts, 1), 1))
    assert {mutant.kind for mutant in mutants.values()} == set(KINDS)
    common = selected(texts, mutants)
    assert not common.left
    expected = output_of(texts, tmp_path)
    assert output_of(common.texts, tmp_path) == expected
    (tmp_path / "common").mkdir()
    program = compiled(common.texts, tmp_path / "common")
    alive = 0
    for number, mutant in mutants.items():
        if mutant.kind != "width" and number % 6:
            continue
        own = output_of({**texts, mutant.file: mutant.applied(texts[mutant.file])}, tmp_path)
        chosen = subprocess.run(["vvp", "-n", program, f"+mutant={number}"], capture_output=True, check=True).stdout
        alive += own == expected
        pairs = list(zip(chosen.decode(), own, strict=True))
        known = [pair for pair in pairs if pair[1] != "x"]  # a bit that does not exist is X, and 0 in the common text
        assert all(one == other for one, other in known), mutant
        assert mutant.kind == "width" or len(known) > 0.9 * len(pairs), mutant
    assert alive < len(mutants) // 16


PARTS = """module parts (
  input wire clk,
  input wire [3:0] a,
  output wire [7:0] b
);
  reg [7:0] data = 8'h00;
  assign b = {data[7], data[7:1]};
  always @(posedge clk) begin
    data <= 8'h00;
    data[3:0] <= a;
    data[7:4] <= a;
    data[7] <= a[0];
  end
endmodule
"""


def test_a_narrower_register_has_no_part_outside_of_it() -> None:
    """Simulators differ in writes and reads of bits that do not exist."""
    line = PARTS.split("\n")[5]
    mutant = Mutant("width", "parts.v", 6, line, line.replace("7:0", "6:0"))
    text = selected({"parts.v": PARTS}, {1: mutant}).texts["parts.v"]
    assert "{1'b0, {1'b0, narrow_1[6:1]}}" in text
    assert "narrow_1[3:0] <= a;" in text
    assert "narrow_1[6:4] <= a;" in text
    assert "narrow_1[7" not in text


def compiled(texts: Mapping[str, str], folder: Path) -> str:
    program = str(folder / "program.vvp")
    names = []
    for name, text in {**texts, "stimulus.v": STIMULUS}.items():
        (folder / name).write_text(text)
        names.append(str(folder / name))
    subprocess.run(["iverilog", "-g2012", "-s", "bench", "-o", program, *names], check=True)
    return program


def output_of(texts: Mapping[str, str], folder: Path) -> str:
    done = subprocess.run(["vvp", "-n", compiled(texts, folder)], capture_output=True, check=True)
    return done.stdout.decode()


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
