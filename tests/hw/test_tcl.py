"""The scripts for Vivado, run by Tcl against stand-ins of its commands; and the same scripts broken."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from dynagate import robots
from dynagate.base.untrusted import plain_text
from dynagate.hw import boards
from dynagate.hw.rtl.regmap import REGISTERS
from dynagate.hw.targets.board_fit import rate_text
from dynagate.hw.targets.project import ProjectError, actual_clock, clock_lines, write_project
from pynqmetadata.frontends import Metadata
from pynqmetadata.views.runtime.runtime_metadata_parser import RuntimeMetadataParser

from tests import tcl
from tests.hostile.texts import ONE_LINE
from tests.projects import FUNCTION, SCRIPTS, VENDOR, choice_for, designed, designed_for, project
from tests.tcl import TclError
from tests.vivado import Vivado

ZYNQ = [name for name in VENDOR if boards.load(name).flow == "zynq"]
PROCESSOR = {"pynq-z2": "processing_system7_0", "kv260": "zynq_ultra_ps_e_0"}


def engine() -> str:
    """Tcl runs here, or the test fails: it is not skipped."""
    assert tcl.engines(), "no Tcl: install tclsh, or Python's tkinter"
    return tcl.engines()[0]


def test_some_tcl_is_there() -> None:
    engine()


@pytest.mark.parametrize("each", tcl.engines())
def test_errors_and_values_cross_between_tcl_and_python(each: str, tmp_path: Path) -> None:
    script, seen = tmp_path / "script.tcl", []

    def echo(*words: str) -> str:
        seen.append(words)
        return " ".join(words)

    def refuse(text: str) -> str:
        raise TclError(f"refused {text}")

    script.write_text('echo [echo {a b} "ü [file tail [info script]]"] {}\nnames::refuse {$x}\n')
    with pytest.raises(TclError, match=r"^refused \$x$"):
        tcl.run(script, {"echo": echo, "names::refuse": refuse}, each)
    assert seen == [("a b", "ü script.tcl"), ("a b ü script.tcl", "")]
    script.write_text("nothing_of_that_name\n")
    with pytest.raises(TclError, match="nothing_of_that_name"):
        tcl.run(script, {}, each)


@pytest.mark.parametrize("each", tcl.engines())
@pytest.mark.parametrize("name", VENDOR)
def test_the_script_of_each_board_runs(name: str, each: str, designs: Path, tmp_path: Path) -> None:
    folder = project(name, designs, tmp_path).folder
    vivado = Vivado(folder).run(SCRIPTS[name], each)
    board = boards.load(name)
    assert vivado.part == board.part
    listed = [folder / name for name in (folder / "files.f").read_text().split()]
    assert vivado.sources[: len(listed) + 1] == [*listed, folder / "dynagate.v"]
    if board.flow == "vitis":
        assert vivado.registers == {register.name: register.address for register in REGISTERS.values()}
        assert (folder / "accelerator.xo").is_file()
        return
    assert vivado.properties["board_part"] == board.board_part
    clocks = json.loads((folder / "clock.json").read_text())
    assert clocks == {"requested_mhz": board.clock_mhz, "actual_mhz": board.clock_mhz}
    assert vivado.printed == [f"worst slack 0.1 ns at {board.clock_mhz:g} MHz; wrote accelerator.bit"]
    assert (folder / "accelerator.bit").read_text() == "bits"
    shell = vivado.cells["accelerator_0"].interfaces
    assert shell["s_axis"].width == shell["m_axis"].width == board.link.width


@pytest.mark.parametrize("name", [*ZYNQ, "vcu118"])
def test_the_clock_that_the_device_makes_is_read_back(name: str, designs: Path, tmp_path: Path) -> None:
    made = project(name, designs, tmp_path)
    requested = boards.load(name).clock_mhz
    assert clock_lines(made) == []
    for share, is_warned in ((0.995, False), (0.96, True), (1.04, True)):
        actual = requested * share
        reported = f"{actual * 1e6:.0f}" if name == "vcu118" else f"{actual:.6f}"
        vivado = Vivado(made.folder, clock=reported).run("build.tcl", engine())
        warnings = [line for line in vivado.printed if line.startswith("WARNING: the device makes a clock of")]
        assert len(warnings) == is_warned
        assert actual_clock(made) == pytest.approx((requested, actual))
        assert f"at {actual:g}" in vivado.printed[-1]
        lines = clock_lines(made, choice_for(name, designs))
        assert lines[0] == f"clock {actual:g} MHz, read back from vivado; {requested:g} MHz were requested"
        assert (len(lines) == 3) == is_warned
        rates = replace(choice_for(name, designs), clock_mhz=actual).rates
        assert lines[1] == f"end to end {rate_text(rates.end_to_end)} samples/s at this clock, modeled"
    vivado = Vivado(made.folder, clock="").run("build.tcl", engine())
    assert vivado.printed[0].startswith("WARNING: Vivado reports no clock: ")
    assert vivado.printed[-1] == f"worst slack 0.1 ns at {requested:g} MHz; wrote accelerator.bit"
    assert clock_lines(made) == []


@pytest.mark.parametrize("text", ["", "{}", '{"requested_mhz": 100, "actual_mhz": 0}', '{"requested_mhz": 100}', "[]"])
def test_a_damaged_record_of_the_clock_is_refused(text: str, designs: Path, tmp_path: Path) -> None:
    made = project("pynq-z2", designs, tmp_path)
    (made.folder / "clock.json").write_text(text)
    with pytest.raises(ProjectError, match=r"clock\.json (is damaged|has the clocks)"):
        actual_clock(made)


def test_registers_are_at_the_start_of_the_user_bar(designs: Path, tmp_path: Path) -> None:
    vivado = Vivado(project("vcu118", designs, tmp_path).folder).run("build.tcl", engine())
    assert vivado.addresses == {("xdma_0/M_AXI_LITE", "accelerator_0/s_axil/reg0"): (0, 4096)}


@pytest.mark.parametrize("name", ZYNQ)
def test_pynq_finds_the_dma_engine_and_the_accelerator(name: str, designs: Path, tmp_path: Path) -> None:
    """By pynq's own parser, in a description made of what the script did, with the elements that Vivado writes."""
    folder = project(name, designs, tmp_path).folder
    Vivado(folder).run("build.tcl", engine())
    overlay = RuntimeMetadataParser(Metadata(input=str(folder / "accelerator.hwh"))).ip_dict
    addresses = boards.load(name).addresses
    assert {cell: overlay[cell]["phys_addr"] for cell in ("axi_dma_0", "accelerator_0")} == addresses
    assert overlay["axi_dma_0"]["type"].startswith("xilinx.com:ip:axi_dma:")  # what pynq's DMA driver binds to
    assert overlay["axi_dma_0"]["addr_range"] == 65536
    parameters = overlay["axi_dma_0"]["parameters"]
    assert {key: str(parameters[key]) for key in ("C_INCLUDE_SG", "C_SG_LENGTH_WIDTH")} == {
        "C_INCLUDE_SG": "0",
        "C_SG_LENGTH_WIDTH": "26",
    }


BROKEN = [
    ("vcu118", "[get_bd_intf_pins accelerator_0/m_axis]", "[get_bd_intf_pins accelerator_0/m_axi]", "no interface"),
    ("vcu118", "[get_bd_intf_pins accelerator_0/m_axis]", "[get_bd_intf_pins accelerator_0/s_axis]", "both slaves"),
    ("vcu118", "[get_bd_intf_pins xdma_0/M_AXI_LITE]", "[get_bd_intf_pins xdma_0/M_AXIS_H2C_0]", "xdma_0/M_AXIS_H2C_0"),
    ("vcu118", "CONFIG.xdma_axi_intf_mm {AXI_Stream} \\\n", "", "no interface 'xdma_0/M_AXIS_H2C_0'"),
    ("vcu118", "{X16}", "{X12}", "pl_link_cap_max_link_width is X12; expected one of X1, X2"),
    ("vcu118", "CONFIG.axisten_freq", "CONFIG.axisten_frequency", "no parameter CONFIG.axisten_frequency"),
    ("vcu118", "CONFIG.axi_data_width {512_bit}", "CONFIG.axi_data_width {256_bit}", "have 256 and 512 bits"),
    ("vcu118", "  [get_bd_pins registers/aclk1] \\\n", "", "pin registers/aclk1 is not connected"),
    (
        "vcu118",
        " \\\n  [get_bd_pins accelerator_0/aclk]",
        "\nconnect_bd_net [get_bd_pins xdma_0/axi_aclk] [get_bd_pins accelerator_0/aclk]",
        "interface to_datapath/M_AXIS and interface accelerator_0/s_axis have different clocks",
    ),
    (
        "vcu118",
        "[get_bd_pins datapath_reset/peripheral_aresetn]",
        "[get_bd_pins datapath_clock/locked]",
        "data and rst",
    ),
    ("vcu118", "-offset 0x00000000", "-offset 0x00010000", "outside of xdma_0/M_AXI_LITE"),
    ("vcu118", "-range 4K", "-range 2K", "large enough"),
    ("vcu118", "xilinx.com:ip:clk_wiz", "xilinx.com:ip:clock_wizard", "no IP 'xilinx.com:ip:clock_wizard'"),
    ("vcu118", "board.xdc", "boards.xdc", "no file"),
    ("vcu118", "validate_bd_design\n", "", "too early: expected validated"),
    ("vcu118", "validate_bd_design\nsave_bd_design\n", "save_bd_design\nvalidate_bd_design\n", "expected validated"),
    ("pynq-z2", "save_bd_design\n", "", "too early: expected saved"),
    (
        "u250",
        "[ipx::get_memory_maps s_axil -of_objects $core]",
        "[ipx::add_memory_map s_axil $core]",
        "memory map s_axil exists already",
    ),
    ("u250", "ipx::get_address_blocks reg0", "ipx::get_address_blocks regs", "no address block regs"),
    ("vcu118", "-reference dynagate", "-reference dynagates", "no module dynagates"),
    ("vcu118", "-norecurse", "-no_recurse", "no option -no_recurse"),
    ("pynq-z2", "-offset 0x43C00000", "-offset 0x40400000", "overlap in processing_system7_0/Data"),
    ("pynq-z2", "-offset 0x43C00000", "-offset 0xA0000000", "outside of processing_system7_0/Data"),
    ("pynq-z2", "CONFIG.PCW_USE_S_AXI_HP0 {1}", "CONFIG.PCW_USE_S_AXI_HP0 {0}", "no interface"),
    ("pynq-z2", "CONFIG.c_include_sg {0} \\\n", "", "scatter gather"),
    ("pynq-z2", "tdata_width {64}", "tdata_width {32}", "have 32 and 64 bits"),
    (
        "pynq-z2",
        "apply_bd_automation -rule xilinx.com:bd_rule:processing_system7",
        "apply_bd_automation -rule x",
        "rule",
    ),
    ("pynq-z2", "set_property board_part", "# set_property board_part", "without board_part"),
    ("pynq-z2", "  [get_bd_pins axi_dma_0/axi_resetn] \\\n", "", "axi_dma_0/axi_resetn is not connected"),
    ("pynq-z2", "-force\nassign_bd_address\n", "-force\n", "has no address in axi_dma_0/Data_"),
    ("kv260", "CONFIG.PSU__USE__M_AXI_GP1 {0} \\\n", "", "M_AXI_HPM1_FPD is not connected"),
    ("u250", "-busif m_axis -clock ap_clk", "-busif m_axis -clock aclk", "no clock aclk"),
    ("u250", "ipx::associate_bus_interfaces -busif s_axil", "# ", "interfaces without a clock: s_axil"),
    ("u250", "hash_low 0x008", "hash_low 0x004", "registers without an address of their own"),
    ("u250", "-kernel_name accelerator", "-kernel_name dynagate", "another core"),
    ("u250", "set_property sdx_kernel_type rtl $core", "set_property sdx_type rtl $core", "no property sdx_type"),
]


def refused(folder: Path, script: str, file: str, old: str, new: str, message: str | None = None) -> None:
    """The script is refused, with the message if there is one, once the file has the new text instead of the old."""
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    with pytest.raises(TclError, match=message):
        Vivado(folder).run(script, engine())


@pytest.mark.parametrize(("name", "old", "new", "message"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_script_is_refused(name: str, old: str, new: str, message: str, designs: Path, tmp_path: Path) -> None:
    folder = project(name, designs, tmp_path).folder
    refused(folder, SCRIPTS[name], SCRIPTS[name], old, new, message)
    assert not (folder / "accelerator.bit").exists()


# a module alone

REPORTS = {"timing.txt", "utilization.txt", "cdc.txt", "methodology.txt", "fanout.txt", "resets.txt"}


def test_a_design_is_implemented_alone(designs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the folder of a design, and from a board's project by `make ooc`."""
    folder = tmp_path / "design"
    shutil.copytree(designed_for("kv260", designs).folder, folder)
    vivado = Vivado(folder).run("ooc.tcl", engine())
    assert vivado.printed == ["worst slack 0.1 ns on xcvu9p-flga2104-2L-e; reports in ooc"]
    assert {path.name for path in (folder / "ooc").iterdir()} == {*REPORTS, "accelerator.dcp"}
    assert {path.name for path in vivado.sources} == {path.name for path in folder.glob("*.v")}
    monkeypatch.setenv("PART", "xc7z020clg400-1")
    assert Vivado(folder).run("ooc.tcl", engine()).part == "xc7z020clg400-1"
    monkeypatch.delenv("PART")
    own = project("kv260", designs, tmp_path).folder
    vivado = Vivado(own).run("ooc.tcl", engine())
    assert vivado.part == boards.load("kv260").part
    assert (own / "ooc" / "dynagate.dcp").is_file()
    assert "create_clock -period 5.000 -name aclk" in (own / "ooc.xdc").read_text()
    text = subprocess.run(["make", "-n", "-C", str(own), "ooc"], capture_output=True, text=True, check=True).stdout
    assert "-source ooc.tcl" in text


ALONE = [
    ("ooc.tcl", "-top accelerator", "-top accelerate", "no module accelerate"),
    ("ooc.tcl", "-part $part -mode out_of_context", "-part $part", "synth_design"),
    ("ooc.tcl", "synth_design -top", "# synth_design -top", "too early: expected synth_design"),
    ("ooc.tcl", "place_design\nphys", "phys", "too early: expected place_design"),
    ("ooc.tcl", "route_design\n", "", "too early: expected route_design"),
    ("ooc.tcl", "report_cdc -details", "report_cdc -detail", "no option -detail"),
    ("ooc.tcl", "read_xdc", "# read_xdc", "no clock"),
    ("ooc.xdc", "[get_ports aclk]", "[get_ports clk]", "no ports"),
    ("ooc.xdc", "-period 4.000", "-period 0", "create_clock"),
    ("ooc.xdc", "[get_ports {aresetn ", "[get_ports {aclk aresetn ", "not the clock's"),
    ("ooc.xdc", " m_axis_tvalid", " s_axis_tvalid", "ports of one way"),
]
"""UG835 has the commands and their options, UG892 the order, UG903 what constraints may name."""


@pytest.mark.parametrize(("name", "old", "new", "message"), ALONE, ids=range(len(ALONE)))
def test_a_broken_script_of_a_module_alone_is_refused(
    name: str, old: str, new: str, message: str, designs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "design"
    shutil.copytree(designed_for("kv260", designs).folder, folder, ignore=shutil.ignore_patterns("tests"))
    refused(folder, "ooc.tcl", name, old, new, message)


@pytest.mark.parametrize("old", ["s_axil RVALID", "m_axis TLAST", "aclk CLK", "ASSOCIATED_BUSIF s_axis:"])
def test_a_wrapper_with_a_wrong_attribute_is_refused(old: str, designs: Path, tmp_path: Path) -> None:
    refused(project("vcu118", designs, tmp_path).folder, "build.tcl", "dynagate.v", old, old[:-1])


@pytest.mark.parametrize("name", ["vcu118", "pynq-z2"])
def test_a_design_that_misses_its_timing_gets_no_bitstream(name: str, designs: Path, tmp_path: Path) -> None:
    folder = project(name, designs, tmp_path).folder
    with pytest.raises(TclError, match=r"timing is not met at \d+ MHz: .*, pulse widths -0.3 ns in all"):
        Vivado(folder, pulse=-0.3).run("build.tcl", engine())
    with pytest.raises(TclError, match=r"timing is not met at \d+ MHz: worst slack -0.2 ns, .* a lower --clock"):
        Vivado(folder, slack=-0.2).run("build.tcl", engine())
    assert not (folder / "accelerator.bit").exists()
    assert (folder / "timing.txt").is_file()


@pytest.mark.parametrize("case", list(ONE_LINE))
def test_scripts_hold_no_name_of_the_robot_but_in_comments(case: str, designs: Path, tmp_path: Path) -> None:
    """Built with a name that breaks out of quotes; equal to the plain robot's but for one line, and it runs."""
    arm, name = robots.load("two_joint_arm"), ONE_LINE[case]
    board = boards.load("vcu118")
    built, choice = designed(board, designs, arm)
    hostile = replace(built, robot=replace(arm, name=name))
    plain = write_project(built, choice, tmp_path / "plain").folder
    other = write_project(hostile, choice, tmp_path / "a b $(touch CANARY) [exec touch CANARY]").folder
    for file in ("build.tcl", "Makefile", "board.xdc", "board.sdc", "dynagate.v", "ooc.tcl", "ooc.xdc", "ooc.sdc"):
        own, usual = ((folder / file).read_text().splitlines() for folder in (other, plain))
        differ = [line for line, reference in zip(own, usual, strict=True) if line != reference]
        assert len(differ) <= 1
        for line in differ:
            assert line.startswith((f"# {plain_text(name)} {FUNCTION}", f"// {plain_text(name)} {FUNCTION}"))
    Vivado(other).run("build.tcl", engine())
    shown = subprocess.run(["make", "-n", "-B", "-C", str(other)], capture_output=True, text=True, check=True)
    assert "vivado -mode batch -notrace -source build.tcl" in shown.stdout.splitlines()
    assert not list(tmp_path.rglob("CANARY"))
    assert not Path("CANARY").exists()
