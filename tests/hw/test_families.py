"""Families of devices: netlists that compute the integers; boards of free tools, their constraints and bitstreams."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import dynagate
import pytest
from dynagate import Function, build, robots
from dynagate.base.errors import ArgumentError
from dynagate.fixedpoint.assign import Policy
from dynagate.host.devices import StreamDevice
from dynagate.host.drivers import ShellSession
from dynagate.host.sim_links import SimShellLink
from dynagate.hw import boards
from dynagate.hw.designs import Design
from dynagate.hw.export.netlist import rtlil_text
from dynagate.hw.export.yosys import run_yosys
from dynagate.hw.processor.shell.core_shell import CoreShell
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.targets import routes, synth
from dynagate.hw.targets.families import FAMILIES, free_first_carries
from dynagate.hw.targets.synth import SynthesisError, check_defined, synthesize_modules
from dynagate.hw.targets.toolchain import toolchain
from dynagate.sim.cells import MODELS, models, netlist_texts
from dynagate.sim.line import SimulatedBoard, netlist_library
from dynagate.sim.verilate import shell_library

from tests.board_programs import ARM, TINY
from tests.board_programs import build as build_program
from tests.board_programs import check as check_program
from tests.netlist_board import check_accelerator, check_netlist

FREE_BOARDS = [name for name in boards.names() if not toolchain(boards.load(name)).has_project]
OTHERS = [name for name in FREE_BOARDS if boards.load(name).flow != "ecp5"]


@pytest.fixture(scope="module")
def small(designs: Path) -> Design:
    arm = robots.load("two_joint_arm")
    return build(arm, "inverse_dynamics", ii=16, policy=Policy(word=18), axi=Axi(32), folder=designs)


def test_each_free_flow_has_a_board_and_a_family() -> None:
    assert {boards.load(name).flow for name in FREE_BOARDS} == set(FAMILIES)


@pytest.mark.parametrize("name", FREE_BOARDS)
def test_constraints_name_each_pin_of_the_top(name: str) -> None:
    board = boards.load(name)
    file, text = FAMILIES[board.flow].constraints
    pins = routes.pins(board)
    written = text(board, pins, 100.0)
    assert file.startswith("board.")
    for pin in pins:
        assert re.search(rf"\b{board.pins[pin]}\b", written), pin
        assert re.search(rf"\b{pin}\b", written), pin


@pytest.mark.parametrize("name", FREE_BOARDS)
def test_the_top_has_the_pins_of_the_board(name: str) -> None:
    """Whatever they are called: a pin must not be taken for something of the module's own."""
    board = boards.load(name)
    family = FAMILIES[board.flow]
    assert board.oscillator_mhz is not None
    top = routes.Top(board, family.clock(board.oscillator_mhz, board.oscillator_mhz))
    text = rtlil_text(top, routes.TOP, family.fabric)
    (own,) = (module for module in text.split("\nend\n") if f"\nmodule \\{routes.TOP}\n" in module)
    ports = re.findall(r"^  wire .*\b(?:input|output) \d+ +\\(\w+)$", own, re.MULTILINE)
    assert sorted(ports) == sorted(routes.pins(board))


def test_an_oscillator_without_a_loop_is_the_clock_or_is_refused(small: Design, tmp_path: Path) -> None:
    board = boards.load("tang-nano-20k")
    assert FAMILIES["gowin"].clock(27.0, 100.0).megahertz == 27.0
    message = (
        r"a clock of up to 20.0 MHz, and the board's oscillator has 27 MHz, which this flow does not divide; expected"
    )
    with pytest.raises(ArgumentError, match=message):
        routes.bitstream(small, board, tmp_path / "out", megahertz=20.0)
    with pytest.raises(ArgumentError, match="10000000 baud from a clock of 27 MHz is 3 clocks a bit"):
        routes.bitstream(small, board, tmp_path / "out", baud=10_000_000)
    assert not (tmp_path / "out").exists()


def test_only_the_first_carry_of_a_chain_is_freed() -> None:
    """Its own carry does not depend on CIN; of another cell it would."""
    zero = {"type": "VLO", "connections": {"Z": [7]}, "parameters": {}}
    first = {
        "type": "CCU2",
        "connections": {"CIN": [7], "COUT": [8]},
        "parameters": {"INIT0": "0xFFFF", "INIT1": "0x00AA"},
    }
    second = {
        "type": "CCU2",
        "connections": {"CIN": [8], "COUT": [9]},
        "parameters": {"INIT0": "0x96AA", "INIT1": "0x96AA"},
    }
    cells = {"zero": zero, "first": first, "second": second}
    free_first_carries(cells)
    assert (first["connections"]["CIN"], second["connections"]["CIN"]) == ([], [8])
    second["connections"]["CIN"] = [7]
    with pytest.raises(ArgumentError, match="the carry chain from cell 'second' begins in another way"):
        free_first_carries(cells)


@pytest.mark.long
@pytest.mark.parametrize("name", OTHERS)
def test_a_small_design_is_routed(name: str, small: Design, tmp_path: Path) -> None:
    board = boards.load(name)
    family = FAMILIES[board.flow]
    if find_spec(family.wheel.replace("-", "_")) is None:
        pytest.skip(f"{family.wheel}: pip install 'dynagate[routes]'")
    routed = routes.bitstream(small, board, tmp_path / "out")
    assert routed.megahertz == board.oscillator_mhz
    assert routed.routed_mhz >= routed.megahertz
    assert routed.bitstream.suffix == f".{family.suffix}"
    assert routed.bitstream.stat().st_size > 50_000
    content = json.loads((tmp_path / "out" / "bitstream.json").read_text())
    assert content["routed_mhz"] == routed.routed_mhz
    assert content["limit_mhz"] is None
    assert f"routed for {routed.routed_mhz:.1f} MHz" in routed.text()


# netlists compute the integers

VENDORS = ("xc7", "xcup")
"""Families of boards whose bitstreams vendors' tools make; Yosys synthesizes the same gateware."""


def test_each_family_of_a_board_has_models() -> None:
    assert set(MODELS) == {*FAMILIES, *VENDORS}


def synthesized(name: str, gateware: routes.Gateware, folder: Path) -> tuple[Path, int]:
    """Write the netlist of a board's bitstream, and return it with the clocks of a bit of its serial line."""
    board = boards.load(name)
    assert board.oscillator_mhz is not None
    clock = FAMILIES[board.flow].clock(board.oscillator_mhz, board.oscillator_mhz)
    clocks = 4
    routes.Flow(gateware, board, folder, round(1e6 * clock.megahertz / clocks), print).synthesize(clock, 100.0)
    return folder / "netlist.v", clocks


@pytest.mark.long
@pytest.mark.parametrize("name", OTHERS)
def test_the_netlist_of_a_board_computes_the_integers(name: str, small: Design, tmp_path: Path) -> None:
    netlist, clocks = synthesized(name, routes.Gateware.of(small), tmp_path)
    check_netlist(small, netlist, clocks, boards.load(name).flow)


@pytest.mark.long
@pytest.mark.parametrize("family", VENDORS)
def test_the_netlist_of_a_vendor_s_family_computes_the_integers(family: str, small: Design, tmp_path: Path) -> None:
    netlist = tmp_path / "netlist.v"
    assert synthesize_modules(synth.design_modules(small), family, print, netlist).multipliers > 0
    link = SimShellLink(shell_library(texts=netlist_texts(netlist, family)), small.design)
    with Function(StreamDevice(ShellSession(small.design, link).driver())) as accelerator:
        check_accelerator(small, accelerator)


@pytest.mark.long
@pytest.mark.parametrize("name", OTHERS)
def test_the_netlist_of_a_core_on_a_board_runs_a_program(name: str, tmp_path: Path) -> None:
    netlist, clocks = synthesized(name, routes.Gateware.of_cores(TINY, 1), tmp_path)
    built = build_program(ARM, "inverse_dynamics", TINY, tmp_path)
    library = netlist_library(netlist, boards.load(name).flow)
    with (
        SimulatedBoard(library, clocks) as board,
        dynagate.open(built, link=f"uart:{board.path},timeout=600") as accelerator,
    ):
        check_program(accelerator, built, 8)


@pytest.mark.long
@pytest.mark.parametrize("family", VENDORS)
def test_the_netlist_of_a_core_of_a_vendor_s_family_runs_a_program(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device "sim" with the netlist in place of the core's Verilog."""
    netlist, axi = tmp_path / "netlist.v", Axi(32, words=TINY.stream_words)
    synthesize_modules({"accelerator": CoreShell(TINY, axi, 1)}, family, print, netlist)
    library = shell_library(texts=netlist_texts(netlist, family))
    built = build_program(ARM, "inverse_dynamics", TINY, tmp_path)
    monkeypatch.setattr("dynagate.sim.processor.core_library", lambda *_, **__: library)
    with dynagate.open(built, device="sim") as accelerator:
        check_program(accelerator, built, 8)


# what passes of Yosys get wrong

OPERAND = """module top (input clk, input signed [8:0] x, b, output reg signed [17:0] p, output reg signed [8:0] d);
  reg signed [8:0] a;
  always @(posedge clk) begin
    a <= x;
    p <= a * b;
    d <= a;
  end
endmodule
"""
TWICE = """module top (input clk, input signed [7:0] a, input signed [7:0] b, output reg [16:0] p);
  wire signed [15:0] m = a * b;
  always @(posedge clk) p <= {m[3], m};
endmodule
"""


def top_of(text: str, passes: list[str], folder: Path) -> dict:
    """Return the module `top` of a netlist as Yosys writes it in JSON."""
    (folder / "top.v").write_text(text)
    run_yosys([f"read_verilog {folder / 'top.v'}", *passes, f"write_json {folder / 'top.json'}"])
    return json.loads((folder / "top.json").read_text())["modules"]["top"]


def constant_outputs(module: dict, port: str) -> int:
    """Return how many bits of an output a buffer drives from a constant."""
    zeros = {
        bits[0] for cell in module["cells"].values() if cell["type"] == "VLO" for bits in cell["connections"].values()
    }
    buffers = {
        cell["connections"]["O"][0]: cell["connections"]["I"][0]
        for cell in module["cells"].values()
        if cell["type"] == "OB"
    }
    return sum(buffers[bit] in {"0", *zeros} for bit in module["ports"][port]["bits"])


def passes_of(family: str) -> list[str]:
    if family in VENDORS:
        return synth.passes(family, "top")
    return [text.format(top="top") for text in FAMILIES[family].synthesis]


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(family, marks=[pytest.mark.long] if family == "xc7" else [])
        for family in MODELS
        if family != "ecp5"
    ],
)
def test_a_registered_product_and_its_operand_are_proved(family: str, tmp_path: Path) -> None:
    """Of 5 bits, from any state of the registers, with the models of the cells. ECP5's blocks are not inferred, and
    test_ecp5.py simulates them."""
    text, netlist = OPERAND.replace("[8:0]", "[4:0]").replace("[17:0]", "[9:0]"), tmp_path / "netlist.v"
    module = top_of(text, [*passes_of(family), f"write_verilog -noattr {netlist}"], tmp_path)
    check_defined(module)
    assert any(re.match("DSP48|MULT|CC_MULT", cell["type"]) for cell in module["cells"].values())
    cells = "".join(models(netlist.read_text(), family).values()).replace("$fatal(1, ", "$display(")
    (tmp_path / "cells.v").write_text(cells)
    both = ["miter -equiv -flatten -make_outputs top gate both", "flatten both", "delete */t:$print", "opt_clean"]
    run_yosys(
        [
            *(f"read_verilog {tmp_path / name}" for name in ("cells.v", "netlist.v")),
            *("hierarchy -top top", "proc", "async2sync", "flatten", "setattr -mod -unset top top", "rename top gate"),
            *(f"read_verilog {tmp_path / 'top.v'}", "proc top", *both),
            "sat -verify -seq 5 -prove trigger 0 -prove-skip 3 both",
        ]
    )


@pytest.mark.long
def test_the_passes_of_nexus_keep_the_register_of_an_operand(tmp_path: Path) -> None:
    """With 0.70 the pass `synth_nexus` removes the register `a`, and `d` is 0. Once the second assertion fails, a newer
    Yosys is right: replace `NEXUS_PASSES` by `synth_nexus -top {top}` and remove the row of docs/errata.md."""
    assert constant_outputs(top_of(OPERAND, passes_of("nexus"), tmp_path), "d") == 0
    assert constant_outputs(top_of(OPERAND, ["synth_nexus -top top"], tmp_path), "d") == 9


@pytest.mark.parametrize(
    "passes",
    [
        pytest.param(["synth_xilinx -flatten -family xc7 -top top"], marks=pytest.mark.long),
        synth.passes("xc7", "top"),
    ],
    ids=["flatten", "ours"],
)
def test_a_bit_that_yosys_loses_at_a_multiplier_is_refused(passes: list[str], tmp_path: Path) -> None:
    """With 0.70 the pass `xilinx_dsp` packs the register of a product of which a bit is stored twice, and loses a copy.
    Once this test fails, a newer Yosys is right: remove the row of docs/errata.md and the warning in READMEs."""
    with pytest.raises(SynthesisError, match=r"^bit \d+ of (input I|output p) of .* is undefined; expected a driver"):
        check_defined(top_of(TWICE, passes, tmp_path))


def test_an_undefined_bit_of_a_netlist_is_refused(tmp_path: Path) -> None:
    """A planted fault at a multiplier; the inputs of a memory that nothing reads may be undefined."""
    module = top_of(OPERAND, synth.passes("xcup", "top"), tmp_path)
    memory = {"type": "RAMB18E2", "port_directions": {"DINADIN": "input"}, "connections": {"DINADIN": ["x", 9999]}}
    module["cells"]["memory"] = memory
    check_defined(module)
    for lost in ("x", 9999):
        changed = json.loads(json.dumps(module))
        (block,) = (cell for cell in changed["cells"].values() if cell["type"] == "DSP48E2")
        block["connections"]["B"][3] = lost
        with pytest.raises(SynthesisError, match=r"^bit 3 of input B of cell '.*' \(DSP48E2\) is undefined"):
            check_defined(changed)
