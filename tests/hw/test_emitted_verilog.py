"""The Verilog that is written: blocks that run from the start in every simulator, and Icarus Verilog's results."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from dynagate import Region, robots
from dynagate.design.verilog_list import files_of, read_list
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.format import Format
from dynagate.hw.designs import Design
from dynagate.hw.export.netlist import verilog_text
from dynagate.hw.export.verilog import START
from dynagate.hw.export.yosys import run_yosys
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.shell.core_shell import CoreShell
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.units.exp import Exp
from dynagate.hw.units.float32 import FromFloat, FromFloatAt, ToFloat, ToFloatAt
from dynagate.hw.units.reciprocal import Reciprocal
from dynagate.hw.units.root import Root
from dynagate.hw.units.sincos import SinCos
from dynagate.hw.units.tabulated import TabulatedReciprocal
from dynagate.sim import verilate
from dynagate.sim.verilate import environment, tool

from tests.designs import faulty, verilog

ARM = robots.load("two_joint_arm")
icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog (iverilog) is not installed")


@pytest.fixture(scope="module")
def ring(designs: Path) -> Design:
    region = Region.of(ARM, velocity=12.0, acceleration=40.0)
    return dynagate.build(ARM, "rollout", ii=4, region=region, dt=0.02, axi=Axi(128), folder=designs)


def shell(designs: Path, axi: Axi, ii: int) -> Design:
    return dynagate.build(ARM, "forward_dynamics", ii=ii, policy=Policy(word=20), axi=axi, folder=designs)


def blocks(text: str) -> list[tuple[str, int, int]]:
    """By module: how many blocks without a clock it has, and how many of them read START first."""
    modules = re.findall(r"^module (\S+?) ?\((.*?)^endmodule", text, flags=re.M | re.S)
    first = f"always @* begin\n    if ({START}) begin end\n"
    return [(name, len(re.findall(r"always @\*", body)), body.count(first)) for name, body in modules]


class Switched(wiring.Component):
    """o: one of four numbers, by a register that keeps its initial value."""

    def __init__(self) -> None:
        super().__init__({"o": Out(4)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        which = Signal(2, init=2)
        m.d.sync += which.eq(which)
        with m.Switch(which):
            for k in range(4):
                with m.Case(k):
                    m.d.comb += self.o.eq(k + 9)
        return m


@icarus
def test_every_block_runs_from_the_start(ring: Design, tmp_path: Path) -> None:
    """A block of what never changes waits for ever unless it reads what changes once all blocks wait."""
    for file in (ring.module("accelerator"), ring.module("rollout"), ring.module("datapath")):
        text = verilog(file)
        counts = blocks(text)
        assert all(count == started for _, count, started in counts)
        assert text.count(f"  reg {START};\n  initial {START} <= 0;\n") == sum(count > 0 for _, count, _ in counts)
    text = verilog_text(Switched(), "unit")
    assert [count for _, count, _ in blocks(text)] == [1]
    bench = (
        "module bench; wire [3:0] o; unit u (.clk(1'b0), .rst(1'b0), .o(o)); initial #1 $display(\"%d\", o); endmodule"
    )
    assert ran_in_icarus(tmp_path, text + bench) == "11"
    assert ran_in_icarus(tmp_path, text.replace(f"if ({START}) begin end", "") + bench) == "x"


def ran_in_icarus(folder: Path, text: str) -> str:
    """What module `bench` prints."""
    (folder / "bench.v").write_text(text)
    subprocess.run(["iverilog", "-g2012", "-s", "bench", "-o", folder / "bench", folder / "bench.v"], check=True)
    done = subprocess.run([folder / "bench"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_equal_gateware_gives_equal_verilog() -> None:
    texts = {verilog_text(SinCos(Format(20, 16), Format(20, 18)), "unit") for _ in range(2)}
    assert len(texts) == 1


def lint(*files: Path, waived: Sequence[str]) -> list[str]:
    """The kinds of warnings of `verilator -Wall`."""
    options = [
        "--lint-only",
        "-Wall",
        "-Wno-fatal",
        "--top-module",
        files[0].stem,
        *(f"-Wno-{kind}" for kind in waived),
    ]
    command = [tool("verilator"), *options, *(str(path) for file in files for path in files_of(file))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return re.findall(r"^%(?:Warning|Error)-?(\w*)", done.stderr, flags=re.M)


def listed() -> list[str]:
    """The warnings that the documentation gives reasons for."""
    page = (Path(__file__).parents[2] / "docs" / "verify.md").read_text()
    return re.findall(r"^\| `([A-Z]+)` \|", page.partition("## Lint")[2], flags=re.M)


def test_lint_says_nothing_but_what_has_a_reason(ring: Design, designs: Path, tmp_path: Path) -> None:
    waived = listed()
    files = ring.module("accelerator"), ring.module("rollout"), ring.module("datapath")
    assert len(waived) == 8
    assert lint(*files, waived=waived) == []
    axi = Axi(64, "batch", "fixed")
    several = dynagate.build(
        ARM, ["inverse_dynamics", "mass_matrix"], per_sample=True, ii=3, policy=Policy(word=18), axi=axi, folder=designs
    )
    assert lint(several.module("accelerator"), several.module("datapath"), waived=waived) == []
    assert set(lint(*files, waived=[])) == set(waived)
    broken = faulty(ring.module("accelerator"), tmp_path, r"assign m_axis_tlast = ", "assign m_axis_tlast = 2'd2 & ")
    assert "WIDTHTRUNC" in lint(broken, ring.module("rollout"), ring.module("datapath"), waived=waived)


# shifts of shifts, which the pinned Verilator computes wrong (`verilate.SHIFTS_FLAG`)

WORDS = [Format(20, 12), Format(24, 18)]
UNITS: dict[str, Callable[[], Any]] = {
    "root": lambda: Root(20, 18, 3),
    "reciprocal": lambda: Reciprocal(20, 22),
    "reciprocal from tables": lambda: TabulatedReciprocal(18, 18, 33),
    "exp": lambda: Exp(*WORDS),
    "sincos": lambda: SinCos(WORDS[0], WORDS[1]),
    "from float": lambda: FromFloat(WORDS),
    "from float at": lambda: FromFloatAt(20),
    "to float": lambda: ToFloat(WORDS),
    "to float at": lambda: ToFloatAt(20),
}
SHIFTS = {"$shl": "left", "$sshl": "left", "$shr": "right", "$sshr": "right", "$shift": "right", "$shiftx": "right"}


def nested_shifts(text: str, top: str, folder: Path) -> list[str]:
    """Return the shifts of a flattened design whose operand holds a bit of another shift in the same direction, with no
    register between.

    Shifts by constant amounts count: `proc` does not fold them with `-noopt`."""
    (folder / "text.v").write_text(text)
    passes = ["hierarchy -top " + top, "proc -noopt", "flatten", "clean"]
    run_yosys([f"read_verilog {folder / 'text.v'}", *passes, f"write_json {folder / 'text.json'}"])
    cells = json.loads((folder / "text.json").read_text())["modules"][top]["cells"]
    shifts = {name: cell for name, cell in cells.items() if cell["type"] in SHIFTS}
    shifted: dict[str, set[int | str]] = {"left": set(), "right": set()}
    for cell in shifts.values():
        shifted[SHIFTS[cell["type"]]].update(cell["connections"]["Y"])  # numbers; constants are text
    return [name for name, cell in shifts.items() if shifted[SHIFTS[cell["type"]]] & set(cell["connections"]["A"])]


@pytest.mark.parametrize("what", ["shell", "ring", pytest.param("core", marks=pytest.mark.long), *UNITS])
def test_no_text_has_a_shift_of_a_shift(what: str, designs: Path, tmp_path: Path, request: Any) -> None:
    if what == "shell":
        built = shell(designs, Axi(64), 8)
        text, top = verilog(built.module("accelerator")) + verilog(built.module("datapath")), "accelerator"
    elif what == "ring":
        built = request.getfixturevalue("ring")
        text, top = (
            verilog(built.module("accelerator")) + verilog(built.module("rollout")) + verilog(built.module("datapath")),
            "accelerator",
        )
    elif what == "core":
        core = Core(units=2, word=18, place_bits=6, program_bits=8, output_bits=3, input_bits=4)
        text, top = verilog_text(CoreShell(core, Axi(32, words=core.stream_words), 1), "accelerator"), "accelerator"
    else:
        text, top = verilog_text(UNITS[what](), "unit"), "unit"
    assert nested_shifts(text, top, tmp_path) == []


def test_a_shift_of_a_shift_is_noticed(tmp_path: Path) -> None:
    """In one expression, by a constant amount, and through a module; not behind a register."""
    assert len(nested_shifts(verilate.NESTED_SHIFTS, "unit", tmp_path)) == 2
    constant = "module top(input [7:0] x, input [1:0] a, output [7:0] y); wire [7:0] m = x >> 2;\n"
    constant += "assign y = m >> {a, 1'b0}; endmodule\n"
    assert len(nested_shifts(constant, "top", tmp_path)) == 1
    part = "module part(input clk, input [7:0] x, input [1:0] a, output REG [7:0] y); DO endmodule\n"
    top = "module top(input clk, input [7:0] x, input [1:0] a, b, output [7:0] y); wire [7:0] m;\n"
    top += "part one(.clk(clk), .x(x), .a(a), .y(m)); part two(.clk(clk), .x(m), .a(b), .y(y)); endmodule\n"
    plain = part.replace("REG ", "").replace("DO", "assign y = x >> a;")
    registered = part.replace("REG", "reg").replace("DO", "always @(posedge clk) y <= x >> a;")
    assert len(nested_shifts(plain + top, "top", tmp_path)) == 1
    assert nested_shifts(registered + top, "top", tmp_path) == []


def wrapped_compiler(folder: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a script as the C++ compiler, with an empty cache, and return the file in which it lists its calls."""
    script, calls = folder / "compiler", folder / "calls"
    script.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexec {command} "$@"\n')
    script.chmod(0o700)
    monkeypatch.setenv("CXX", str(script))
    monkeypatch.setenv("DYNAGATE_CACHE", str(folder / "cache"))
    return calls


@pytest.mark.long
def test_models_are_compiled_and_linked_by_the_chosen_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = wrapped_compiler(tmp_path, "g++", monkeypatch)
    assert verilate.nested_shifts_are_right()
    called = calls.read_text()
    for each in ("-c -o main.o", "-c -o verilated.o", "-o Vunit"):
        assert each in called


@pytest.mark.long
@pytest.mark.parametrize("command", [f"{sys.executable} -m ziglang c++", "clang++"], ids=["wheel", "system"])
def test_clang_compiles_models(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's library and the harness must use the same standard library: Clang's own in the wheel, else GCC's."""
    if command == "clang++" and shutil.which(command) is None:
        pytest.skip("clang++ is not installed")
    if command != "clang++":
        pytest.importorskip("ziglang")
    monkeypatch.chdir(tmp_path)
    wrapped_compiler(tmp_path, command, monkeypatch)
    built = dynagate.build(ARM, "inverse_dynamics", ii=16, folder=tmp_path / "designs")
    x = np.array([0.3, -0.2])
    with dynagate.open(built, device="sim") as simulated, dynagate.open(built, device="fixed") as integers:
        np.testing.assert_array_equal(simulated(x, x, x).tau, integers(x, x, x).tau)


def test_verilator_is_asked_for_its_shifts() -> None:
    """Once the second assertion fails, a newer Verilator is right: remove `SHIFTS_FLAG` and its row of errata.md."""
    assert verilate.nested_shifts_are_right()
    assert not verilate.nested_shifts_are_right(flags=())


def attributed(text: str, attribute: str) -> list[str]:
    """The registers that have an attribute, in the order of the text."""
    return re.findall(rf"\(\* {attribute} = \S+ \*\)\n *(?:output )?reg (?:\[\d+:0\] )?(\w+)", text)


def test_registers_have_attributes_for_synthesis(designs: Path, tmp_path: Path) -> None:
    """Slot enables, the counters of shared units, and the registers of multipliers and block RAMs, also for Yosys."""
    built = shell(designs, Axi(64), 4)
    text = verilog(built.module("datapath"))
    assert attributed(text, "max_fanout") == ["in_slot"]
    counters = re.findall(r"^  reg \[\d+:0\] (\w+_slot) = ", text, flags=re.M)
    units = {name.removesuffix("_slot") for name in counters if name != "in_slot"}
    assert units
    assert set(attributed(text, "keep")) == {f"{unit}_slot" for unit in units}
    assert set(re.findall(r"^  \S+ u_(multiply\w*|sincos\w*|reciprocal\w*) \($", text, flags=re.M)) == units
    packed = attributed(text, "shreg_extract")
    assert set(packed) == {"a0_d1", "b0_d1", "product0", "a1_d1", "b1_d1", "product1", "c0_d1"}
    assert len(packed) == len(re.findall(r"^  reg \[\d+:0\] (?:[ab]\d_d1|product\d|c0_d1) = ", text, flags=re.M))
    script = (built.folder / "ooc.tcl").read_text()
    assert not re.search("max_fanout|keep|shreg", script, flags=re.I)
    files = [str(built.folder / name) for name in read_list(built.folder)]
    counts = [f"select -assert-count {len(units)} a:keep", "select -assert-count 1 a:max_fanout=400"]
    run_yosys([f"read_verilog {' '.join(files)}", "hierarchy -top accelerator", "proc", *counts])


def test_constraints_are_the_same_in_both_files(designs: Path) -> None:
    folder = shell(designs, Axi(64), 4).folder
    constraints = (folder / "ooc.sdc").read_text()
    assert (folder / "ooc.xdc").read_text() == constraints
    ports = re.findall(r"^  (input|output) (?:wire|reg) (\[\d+:0\])? ?(\w+)", verilog(folder / "accelerator.v"), re.M)
    for way, delay in ("input", "set_input_delay"), ("output", "set_output_delay"):
        (line,) = [line for line in constraints.splitlines() if line.startswith(delay)]
        names = line.partition("[get_ports {")[2].removesuffix("}]").split()
        assert {name + "[*]" * bool(span) for own, span, name in ports if own == way} >= set(names)
        assert len(names) > 10
        assert "aclk" not in names
