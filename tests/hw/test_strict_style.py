"""The strict style: registers without initial values, an asynchronous reset, and tables as functions.

Three readers of Verilog that know nothing of dynagate check the text: Verilator, slang and Yosys. The benches of the
default style check its results.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate import Policy, Region, robots
from dynagate.base.errors import ArgumentError
from dynagate.control.chip_ilqr import ChipIlqr
from dynagate.design.verilog_list import PLAIN, STRICT, STYLES, read_list
from dynagate.hw.bodies.program import build_solver
from dynagate.hw.designs import Design
from dynagate.hw.export.netlist import rtlil_text
from dynagate.hw.export.rtlil import modules_of
from dynagate.hw.export.style import add_lasting_domain, clock_domain, target_of
from dynagate.hw.export.verilog import verilog_of
from dynagate.hw.export.yosys import YosysError, run_yosys
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.rtl.iteration_memory import IterationMemory
from dynagate.hw.processor.streams import Cores
from dynagate.hw.rebuild import rebuild
from dynagate.hw.rtl.axi import Axi
from dynagate.sim.verilate import environment, tool

from tests.benches import bench, icarus, passes
from tests.designs import plant
from tests.solver_programs import COST, ILQR, problems

ARM = robots.load("two_joint_arm")
DESIGNS: dict[str, dict[str, Any]] = {
    "sample": {"function": "forward_dynamics", "ii": 4, "axi": Axi(64)},
    "ring": {"function": "rollout", "ii": 4, "dt": 0.02, "axi": Axi(128), "region": Region.of(ARM, velocity=12.0)},
    "several": {
        "function": ["inverse_dynamics", "mass_matrix"],
        "per_sample": True,
        "ii": 3,
        "policy": Policy(word=18),
        "axi": Axi(64, "batch", "fixed"),
    },
    "core": {
        "function": "inverse_dynamics",
        "units": Core(units=2, word=24, iteration_bits=6, place_bits=8, program_bits=9, noise=1),
    },
}
EXTENDED = {"UNUSEDSIGNAL", "WIDTHEXPAND", "DECLFILENAME"}
"""Verilator's warnings that docs/verify.md gives reasons for and the strict style keeps."""
SIGNED = {"sign-conversion", "arith-op-mismatch"}
"""Slang's warnings about exact sums, whose operands are extended according to their sign."""


@pytest.fixture(scope="module", params=list(DESIGNS))
def design(request: Any, designs: Path) -> Design:
    return dynagate.build(ARM, **DESIGNS[request.param], style=STRICT, folder=designs)


def sources(design: Design) -> list[str]:
    """Return the paths of a design's Verilog."""
    return [str(design.folder / name) for name in read_list(design.folder)]


def verilator_kinds(files: list[str]) -> set[str]:
    """Return the kinds of warnings of `verilator -Wall`."""
    command = [tool("verilator"), "--lint-only", "-Wall", "-Wno-fatal", "--top-module", "accelerator", *files]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"^%(?:Warning|Error)-?(\w*)", done.stderr, flags=re.M))


def slang_kinds(files: list[str], capfd: pytest.CaptureFixture[str]) -> set[str]:
    """Return the kinds of warnings of slang with all its warnings on."""
    driver = pytest.importorskip("pyslang.driver").Driver()
    driver.addStandardArgs()
    assert driver.parseCommandLine(f"slang --top accelerator -Weverything {' '.join(files)}")
    assert driver.processOptions()
    assert driver.parseAllSources()
    capfd.readouterr()
    compilation = driver.createCompilation()
    driver.reportCompilation(compilation, True)
    text = "".join(capfd.readouterr())
    assert not re.search(r": error:", text), text
    return set(re.findall(r"\[-W([a-z-]+)\]", text))


def yosys_accepts(files: list[str]) -> None:
    """Fail if Yosys sees an initial value, a latch or a loop, or no register with an asynchronous reset."""
    run_yosys(
        [
            f"read_verilog {' '.join(files)}",
            "hierarchy -check -top accelerator",
            "proc -norom",
            "check -assert",
            "select -assert-none a:init",
            "select -assert-none t:$dlatch* t:$sr t:$meminit*",
            "select -assert-min 10 t:$adff*",
        ]
    )


def text_of(files: list[str]) -> str:
    """Return the text of all files."""
    return "\n".join(Path(file).read_text() for file in files)


RESET = " or posedge asynchronous_reset_of_cores"
"""Reset of the cores, in the list of a block's events."""


def test_three_tools_accept_the_text(design: Design, capfd: pytest.CaptureFixture[str]) -> None:
    files = sources(design)
    text = text_of(files)
    assert not re.search(r"\binitial\b|\bcasez\b|dynagate_start", text)
    assert not re.search(r"^ *(?:output )?reg [^;\n]*=", text, flags=re.M)
    blocks = re.findall(r"^  always @\((?:pos|neg)edge[^\n]*begin\n.*?^  end\n", text, flags=re.M | re.S)
    assert len(blocks) > 20
    assert not any(re.search(r"^ *[\w\[\]:]+ = ", block, flags=re.M) for block in blocks)
    events = {f"posedge {clock}{reset}" for clock in ("clk", "aclk") for reset in ("", " or posedge rst", RESET)}
    assert set(re.findall(r"always @\(([^)]*)\)", text)) <= events
    assert "  function [" in text
    assert verilator_kinds(files) <= EXTENDED
    assert slang_kinds(files, capfd) <= SIGNED
    yosys_accepts(files)


def test_tools_notice_what_the_style_forbids(designs: Path, tmp_path: Path) -> None:
    plain = dynagate.build(ARM, **DESIGNS["several"], folder=designs)
    assert {"BLKSEQ", "PROCASSINIT"} <= verilator_kinds(sources(plain))
    with pytest.raises(YosysError):
        yosys_accepts(sources(plain))
    strict = dynagate.build(ARM, **DESIGNS["several"], style=STRICT, folder=designs)
    changed = Path(shutil.copytree(strict.folder, tmp_path / "changed"))
    plant(changed / "accelerator.v", r"\n(      \w+) <= ", r"\n\1 = ", 1)
    assert verilator_kinds([str(changed / name) for name in read_list(changed)]) - EXTENDED == {"BLKSEQ"}


@icarus
def test_the_bench_of_a_small_design_passes_with_unknown_registers(designs: Path) -> None:
    """Icarus Verilog starts registers without a reset as X, and the bench fails at the first X in a result."""
    passes(dynagate.build(ARM, "inverse_dynamics", ii=16, style=STRICT, folder=designs).folder)


@icarus
def test_the_bench_of_a_small_core_passes_with_unknown_registers(designs: Path) -> None:
    """The bench of a core resets it while its program is loaded."""
    core = Core(units=2, word=18, iteration_bits=3, place_bits=6, program_bits=7, input_bits=5, output_bits=5)
    built = dynagate.build(ARM, "gravity", units=core, style=STRICT, folder=designs)
    assert built.design.body.shell.style == STRICT
    passes(built.folder)


@icarus
@pytest.mark.long
def test_a_core_takes_the_same_cycles_as_in_the_plain_style(designs: Path) -> None:
    cycles = []
    for style in STYLES:
        core = dynagate.build(ARM, **DESIGNS["core"], style=style, folder=designs)
        assert core.design.body.shell.style == style
        done = bench(core.folder)
        assert "\nPASS\n" in done.stdout, done.stdout + done.stderr
        cycles.append(re.findall(r"^(?:cycles|samples) \d+$", done.stdout, flags=re.M))
    assert cycles[0] == cycles[1]
    assert len(cycles[0]) == 2


@icarus
@pytest.mark.long
def test_the_benches_of_shells_pass(design: Design) -> None:
    for script in (design.folder / "tests").rglob("verify.sh"):
        module = script.parent.name
        passes(design.folder, "" if module == "tests" else module)


def test_the_style_is_a_part_of_the_design(designs: Path) -> None:
    options: dict[str, Any] = {"robot": ARM, "function": "inverse_dynamics", "ii": 16, "folder": designs}
    plain, strict = dynagate.build(**options), dynagate.build(**options, style=STRICT)
    assert (plain.design.body.style, strict.design.body.style) == (PLAIN, STRICT)
    assert plain.folder != strict.folder
    assert rebuild(strict.folder).design.body.style == STRICT
    with pytest.raises(ArgumentError, match="style 'smart'; expected plain or strict"):
        dynagate.build(**options, style="smart")


class Kept(wiring.Component):
    """The memory of iterations of a core, with its clock and reset."""

    def __init__(self) -> None:
        self.core = Core(units=2, word=18, iteration_bits=3)
        fields = {"load": In(1), "store": In(1), "address": In(3), "value": In(18)}
        super().__init__({"clk": In(1), "rst": In(1), **fields, "clears": Out(1), "valid": Out(1), "o": Out(18)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = sync = clock_domain(platform)
        sync.clk, sync.rst = self.clk, self.rst
        add_lasting_domain(m, sync, platform)
        m.submodules.kept = kept = IterationMemory(self.core, self.clears)
        m.d.comb += [getattr(kept, name).eq(getattr(self, name)) for name in ("load", "store", "address", "value")]
        m.d.comb += [self.valid.eq(kept.valid), self.o.eq(kept.o)]
        return m


KEPT_BENCH = """
module bench;
  reg clk = 0, rst = 1, load = 0, store = 0;
  reg [3:0] k = 0;
  wire clears, valid;
  wire [17:0] o;
  unit dut (.clk(clk), .rst(rst), .load(load), .store(store), .address(k[2:0]), .value(18'h2aaaa), .clears(clears),
    .valid(valid), .o(o));
  always #5 clk = !clk;
  always @(negedge clk) if (valid) $display("%h", o);
  initial repeat (2) begin  // resets, reads every row, and leaves other values behind
    #20 rst = 0;
    #1 while (clears) @(negedge clk);
    load = 1;
    for (k = 0; k < 8; k = k + 1) @(negedge clk);
    load = 0; store = 1;
    for (k = 0; k < 8; k = k + 1) @(negedge clk);
    store = 0;
    #20 rst = 1;
  end
  initial #2000 $finish;
endmodule
"""


@icarus
def test_the_memory_of_iterations_is_cleared_after_each_hard_reset(tmp_path: Path) -> None:
    """A program may read the memory before it writes it. Its rows are unknown at first, and a reset keeps them."""
    modules = modules_of(rtlil_text(Kept(), "unit", target_of(STRICT)))
    (tmp_path / "kept.v").write_text("".join([*verilog_of(modules, style=STRICT).values(), KEPT_BENCH]))
    subprocess.run(["iverilog", "-g2012", "-s", "bench", "-o", tmp_path / "bench", tmp_path / "kept.v"], check=True)
    done = subprocess.run([tmp_path / "bench"], check=True, capture_output=True, text=True, timeout=60)
    assert re.findall(r"^\w+$", done.stdout, flags=re.M) == ["00000"] * 16


@icarus
@pytest.mark.long
def test_the_bench_of_a_solver_passes_with_unknown_memory(designs: Path) -> None:
    """A solver that begins with the plan in memory reads rows that it has not written."""
    solver = ChipIlqr.of(ARM, COST, replace(ILQR, knots=2, iterations=1, trials=1, retries=1))
    core = Core(units=2, word=18, saturates=1, iteration_bits=6, place_bits=8, program_bits=11)
    cores = Cores(core, Axi(32, words="fixed"), style=STRICT)
    passes(build_solver(solver, problems(ARM, 6, 0), cores, word=18, folder=designs).folder)


class Counted(wiring.Component):
    """A memory with initial values that is written too."""

    def __init__(self) -> None:
        super().__init__({"address": In(2), "value": In(4), "o": Out(4)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = memory = Memory(shape=4, depth=4, init=[1, 2, 3])
        into, out = memory.write_port(), memory.read_port()
        m.d.comb += [into.addr.eq(self.address), into.data.eq(self.value), into.en.eq(1), out.addr.eq(self.address)]
        m.d.comb += self.o.eq(out.data)
        return m


def test_a_memory_that_is_written_begins_without_values() -> None:
    modules = modules_of(rtlil_text(Counted(), "unit", target_of(STRICT)))
    with pytest.raises(ArgumentError, match="memory 'words' in module 'unit.*' is written and has initial values"):
        verilog_of(modules, style=STRICT)
