"""Packages of an accelerator: IP-XACT equals SystemRDL, C compiles, FuseSoC lints, modules for Python simulate."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import build, robots
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.design.design import AxiStreams
from dynagate.design.files import DesignError
from dynagate.design.program import load_words
from dynagate.host.words import StreamWords
from dynagate.hw.designs import Design
from dynagate.hw.processor.isa.packets import packed_messages
from dynagate.hw.processor.streams import with_bench_streams
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.targets.ip import write_ip
from dynagate.sim.verilate import verilator_root

NAME = "two_joint_arm_forward_dynamics"


@pytest.fixture(scope="module")
def built(designs: Path) -> Design:
    return build(robots.load("two_joint_arm"), "forward_dynamics", ii=2, axi=Axi(64), folder=designs)


@pytest.fixture(scope="module")
def package(built: Design, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ip(built.folder, tmp_path_factory.mktemp("package"))


Registers = dict[str, tuple[int, str, list[tuple[str, int, int, int | None]]]]


def registers_of(node: object) -> Registers:
    """Return address, access and fields of each register below a node of systemrdl-compiler."""
    return {
        register.inst_name: (
            register.absolute_address,
            "write" if register.has_sw_writable else "read",
            [(f.inst_name, f.low, f.width, f.get_property("reset")) for f in register.fields()],
        )
        for register in node.registers()  # type: ignore[attr-defined]
    }


@pytest.fixture(scope="module")
def described(package: Path) -> Registers:
    systemrdl = pytest.importorskip("systemrdl")
    compiler = systemrdl.RDLCompiler()
    compiler.compile_file(str(package / "registers.rdl"))
    return registers_of(compiler.elaborate().top)


def test_systemrdl_is_the_table_of_the_design(built: Design, described: Registers) -> None:
    assert built.design.axi is not None
    table = built.design.axi.registers
    assert {name: (address, access) for name, (address, access, _) in described.items()} == {
        name: (row.address, row.access) for name, row in table.items()
    }
    assert [name for name, *_ in described["status"][2]] == list(table["status"].bits)
    assert described["hash_high"][2][0][3] == built.design.device_hash >> 32


def test_ipxact_has_the_same_registers(package: Path, described: Registers) -> None:
    systemrdl, ipxact = pytest.importorskip("systemrdl"), pytest.importorskip("peakrdl_ipxact")
    compiler = systemrdl.RDLCompiler()
    ipxact.IPXACTImporter(compiler).import_file(str(package / "component.xml"))
    (block,) = compiler.elaborate().top.children()
    assert registers_of(block.parent if block.inst_name in described else block) == described


def test_ipxact_has_the_ports_of_the_module(package: Path) -> None:
    from lxml import etree

    space = {"x": "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"}
    root = etree.parse(package / "component.xml")
    declared = {
        name: (int(high or 0) + 1, direction == "input")
        for direction, high, name in re.findall(
            r"^  (input|output) (?:wire|reg) (?:\[(\d+):0\] )?(\w+),?$",
            (package / "rtl" / "accelerator.v").read_text(),
            re.M,
        )
    }
    listed = {
        port.findtext("x:name", namespaces=space): (
            int(port.findtext(".//x:left", "0", space)) + 1,
            port.findtext(".//x:direction", namespaces=space) == "in",
        )
        for port in root.iterfind(".//x:port", space)
    }
    assert listed == declared
    mapped = [name.text for name in root.iterfind(".//x:physicalPort/x:name", space)]
    assert sorted(mapped) == sorted(declared)


def test_c_header_compiles_and_has_the_offsets(package: Path, tmp_path: Path, described: Registers) -> None:
    rows = "".join(f'printf("%u\\n", {NAME.upper()}_{name.upper()}_OFFSET);' for name in described)
    program = f'#include <stdio.h>\n#include "registers.h"\nint main(void) {{ {rows} return 0; }}\n'
    (tmp_path / "main.c").write_text(program)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{package}"]
    subprocess.run([os.environ.get("CC", "cc"), *flags, tmp_path / "main.c", "-o", tmp_path / "main"], check=True)
    printed = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True).stdout.split()
    assert list(map(int, printed)) == [address for address, *_ in described.values()]


def test_fusesoc_lints_the_verilog(package: Path, tmp_path: Path) -> None:
    pytest.importorskip("fusesoc")
    environment = {**os.environ, "PATH": f"{verilator_root() / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "fusesoc.main", "--cores-root", package, "run", "--target", "lint"]
    run = [*command, f"dynagate:accelerators:{NAME}"]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def program(designs: Path) -> Design:
    return build(robots.load("two_joint_arm"), "forward_dynamics", units=2, folder=designs)


def axi_of(design: Design) -> AxiStreams:
    """Return the streams of a pipeline's shell, or of the cores in a program's folder."""
    record = with_bench_streams(design.design) if design.design.is_loaded else design.design
    assert record.axi is not None
    return record.axi


def packets_of(design: Design, state: dict[str, np.ndarray]) -> list[list[int]]:
    """Return the beats of each packet: those that load a program, and a sample."""
    axi, packets = axi_of(design), []
    if design.design.is_loaded:
        messages = packed_messages(load_words(design.folder, design.design))
        packets = [[*map(int, message), 0] for message in messages]  # behind each packet is its tag
    filled = np.zeros((1, axi.beats.input, axi.lanes), np.uint32)
    StreamWords(replace(design.design, axi=axi), axi).fill(state, filled)
    return [*packets, filled.view(f"<u{axi.width // 8}").reshape(-1).tolist()]


BENCH = """
`timescale 1ns/1ns
module bench;
  reg clk = 0, rst = 1, valid = 0, last = 0, done = 0;
  reg [{width}-1:0] data = 0;
  reg [{width}:0] beats [0:{beats}];
  wire ready, result_valid, result_last;
  wire [{width}-1:0] result;
  wire [31:0] word;
  integer k = 0, results = 0;
  top dut (.sys_clk(clk), .sys_rst(rst), .sink_data(data), .sink_keep({{({width}/8){{1'b1}}}}), .sink_valid(valid),
    .sink_ready(ready), .sink_last(last), .source_data(result), .source_valid(result_valid), .source_ready(1'b1),
    .source_last(result_last), {bus}
  always #5 clk = !clk;
  always @(posedge clk) begin
    if (result_valid) begin
      $display("result %h", result);
      if (result_last) results = results + 1;
      done = results == {results};
    end
  end
  initial begin
    {values}
    repeat (8) @(negedge clk);
    rst = 0;
    repeat (8) @(negedge clk);
    read({identity});
    for (k = 0; k < {beats}; k = k + 1) begin
      {{last, data}} = beats[k]; valid = 1;
      #1 while (!ready) @(negedge clk);
      @(negedge clk);
    end
    valid = 0;
    for (k = 0; k < 2000 && !done; k = k + 1) @(negedge clk);
    read({samples_out});
    read(252);
    write({identity}, 1);
    write({control}, 2);
    read({samples_out});
    $finish;
  end
endmodule
"""

AXI_BUS = """
    .ar_addr(address), .ar_valid(arvalid), .ar_ready(arready), .r_data(word), .r_resp(rresp), .r_valid(rvalid),
    .r_ready(1'b1), .aw_addr(address), .aw_valid(awvalid), .aw_ready(awready), .w_data(value), .w_strb(4'hf),
    .w_valid(wvalid), .w_ready(wready), .b_resp(bresp), .b_valid(bvalid), .b_ready(1'b1));
  reg [7:0] address = 0;
  reg [31:0] value = 0;
  reg arvalid = 0, awvalid = 0, wvalid = 0;
  wire arready, rvalid, awready, wready, bvalid;
  wire [1:0] rresp, bresp;
  always @(posedge clk) begin
    if (rvalid) if (rresp) $display("read refused"); else $display("register %h", word);
    if (bvalid) if (bresp) $display("write refused"); else $display("written");
  end
  task read(input [7:0] from); begin
    address = from; arvalid = 1;
    #1 while (!arready) @(negedge clk);
    @(negedge clk) arvalid = 0;
    repeat (8) @(negedge clk);
  end endtask
  task write(input [7:0] to, input [31:0] data); begin
    address = to; value = data; awvalid = 1; wvalid = 1;
    #1 while (!awready || !wready) @(negedge clk);
    @(negedge clk) awvalid = 0; wvalid = 0;
    repeat (8) @(negedge clk);
  end endtask
"""
"""Connections of the registers as AXI4-Lite, and tasks that read and write them."""

WISHBONE_BUS = """
    .bus_adr(address), .bus_dat_w(value), .bus_dat_r(word), .bus_sel(4'hf), .bus_cyc(cycle), .bus_stb(cycle),
    .bus_we(we), .bus_ack(ack), .bus_err(err));
  reg [9:0] address = 0;
  reg [31:0] value = 0;
  reg cycle = 0, we = 0;
  wire ack, err;
  task access(input [7:0] place, input is_write); begin
    address = (32'h400 + 4) >> 2; we = 0; cycle = 1;  // a read that is left before its answer
    @(negedge clk) cycle = 0;
    @(negedge clk);
    address = (32'h400 + place) >> 2; we = is_write; cycle = 1;
    #1 while (!ack && !err) begin @(negedge clk); #1; end
    if (err) $display("%0s refused", is_write ? "write" : "read");
    else if (is_write) $display("written"); else $display("register %h", word);
    @(negedge clk) cycle = 0;
  end endtask
  task read(input [7:0] from); access(from, 0); endtask
  task write(input [7:0] to, input [31:0] data); begin value = data; access(to, 1); end endtask
"""
"""The same for the registers behind a decoder of Wishbone, in a window at 0x400."""

TOP = """
import runpy, sys
import migen
from litex.gen import LiteXModule
from litex.gen.fhdl import verilog

(kind,) = [value for name, value in runpy.run_path(sys.argv[1]).items() if name.startswith("TwoJointArm")]
IN = "sink_data sink_keep sink_valid sink_last source_ready ar_addr ar_valid r_ready"
IN = f"{IN} aw_addr aw_valid w_data w_strb w_valid b_ready".split()
OUT = "sink_ready source_data source_valid source_last ar_ready r_data r_resp r_valid aw_ready w_ready b_resp b_valid"
OUT = OUT.split()


class Top(LiteXModule):
    def __init__(self):
        self.cd_sys = migen.ClockDomain("sys")
        self.core = core = kind()
        ends = {"sink": core.sink, "source": core.source}
        ends.update((name, getattr(core.registers, name)) for name in ("ar", "r", "aw", "w", "b"))
        self.ports = set()
        for name in (*IN, *OUT):
            end, field = name.split("_")
            signal = getattr(ends[end], field)
            port = migen.Signal(len(signal), name=name)
            self.ports.add(port)
            self.comb += signal.eq(port) if name in IN else port.eq(signal)


top = Top()
print(verilog.convert(top, {*top.ports, top.cd_sys.clk, top.cd_sys.rst}, name="top"))
"""
"""The module with plain ports, as Verilog."""

LITEX_BUS = re.sub(r"\n.*a read that is left.*\n.*\n.*@\(negedge clk\);", "", WISHBONE_BUS)
"""The same for a SoC of LiteX, whose Wishbone buses wait for every answer."""

LITEX_SOC = """
import pathlib, runpy, sys
import migen
from dynagate.hw.export.yosys import run_yosys
from litex.build.sim import SimPlatform
from litex.gen.fhdl import verilog
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCMini
from litex.soc.interconnect import stream, wishbone

(kind,) = [value for name, value in runpy.run_path(sys.argv[1]).items() if name.startswith("TwoJointArm")]
IN = "sink_data sink_valid sink_last source_ready bus_adr bus_dat_w bus_sel bus_cyc bus_stb bus_we".split()
OUT = "sink_ready source_data source_valid source_last bus_dat_r bus_ack bus_err".split()


class Top(SoCMini):
    def __init__(self):
        platform = SimPlatform("SIM", [])
        self.cd_sys = migen.ClockDomain("sys")
        SoCMini.__init__(self, platform, 100_000_000, with_uart=False, with_timer=False, ident="")
        self.accelerator = core = kind(platform)
        region = SoCRegion(origin=0x9000_0400, size=0x100, cached=False)
        self.bus.add_slave("accelerator", core.registers, region)
        self.host = host = wishbone.Interface(data_width=32, address_width=32, addressing="word")
        self.bus.add_master("host", host)
        beats = stream.Endpoint([("data", len(core.sink.data))])
        self.comb += beats.connect(core.sink)
        ends = {"sink": beats, "source": core.source, "bus": host}
        self.ports = {migen.Signal(len(core.sink.keep), name="sink_keep")}
        for name in (*IN, *OUT):
            end, field = name.split("_", 1)
            signal = getattr(ends[end], field)
            port = migen.Signal(10 if field == "adr" else len(signal), name=name)
            self.ports.add(port)
            value = port | 0x9000_0000 >> 2 if field == "adr" else port
            self.comb += signal.eq(value) if name in IN else port.eq(signal)


top = Top()
top.finalize()
text = verilog.convert(top, {*top.ports, top.cd_sys.clk, top.cd_sys.rst}, name="top")
pathlib.Path("soc.v").write_text(str(text))
run_yosys(["read_verilog soc.v", "proc", "write_verilog -noattr converted.v"])
print(pathlib.Path("converted.v").read_text())
"""
"""A SoC with a Wishbone bus that connects the module as its docstring does. The stream has no `keep`.

Yosys translates the Verilog: Icarus Verilog never ends with LiteX's combinational blocks, which read what they write.
"""

AMARANTH_TOP = """
import pathlib, runpy, sys
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Module, Signal
from dynagate.hw.export.yosys import run_yosys

names = runpy.run_path(sys.argv[1])
PREFIX, BUS_IN, BUS_OUT = sys.argv[2:]
IN = f"sink_data sink_keep sink_valid sink_last source_ready {BUS_IN}".split()
OUT = f"sink_ready source_data source_valid source_last {BUS_OUT}".split()
(kind,) = [value for name, value in names.items() if name.startswith(PREFIX + "TwoJointArm")]
m = Module()
m.domains.sync = sync = ClockDomain()
sync.clk, sync.rst = Signal(name="sys_clk"), Signal(name="sys_rst")
m.submodules.core = core = kind()
ends = {"sink": core.sink, "source": core.source}
if PREFIX:
    from amaranth_soc import wishbone

    decoder = wishbone.Decoder(addr_width=10, data_width=32, granularity=8, features={"err"})
    decoder.add(core.bus, name="accelerator", addr=0x400)
    m.submodules.decoder = decoder
    ends["bus"] = decoder.bus
    for row in decoder.bus.memory_map.all_resources():
        fields = {"_".join(path): len(field.port.r_data) for path, field in row.resource}
        print("//", "/".join("_".join(name) for name in row.path), row.start, row.end - row.start, row.width, end=" ")
        print(row.resource.element.access.value, fields)
else:
    ends.update((name, getattr(core.registers, name)) for name in ("ar", "r", "aw", "w", "b"))
ports = [sync.clk, sync.rst]
for name in (*IN, *OUT):
    end, field = name.split("_", 1)
    part = ends[end]
    if end == "bus" or field in ("valid", "ready"):
        signal = getattr(part, field)
    else:
        signal = part.payload if field == "addr" or end == "b" else getattr(part.payload, field)
    port = Signal(len(signal), name=name)
    ports.append(port)
    m.d.comb += signal.eq(port) if name in IN else port.eq(signal)
pathlib.Path("top.il").write_text(rtlil.convert(m, name="top", ports=ports, emit_src=False))
run_yosys(["read_rtlil top.il", "proc", "write_verilog converted.v"])
print(pathlib.Path("converted.v").read_text())
"""
"""The component with plain ports, as Verilog."""


AXI = "ar_addr ar_valid r_ready aw_addr aw_valid w_data w_strb w_valid b_ready"
AXI_OUT = "ar_ready r_data r_resp r_valid aw_ready w_ready b_resp b_valid"
WISHBONE = "bus_adr bus_dat_w bus_sel bus_cyc bus_stb bus_we"
MODULES = {
    "litex": (["litex"], "litex", TOP, [], AXI_BUS),
    "litex_soc": (["litex", "pyosys"], "litex", LITEX_SOC, [], LITEX_BUS),
    "amaranth": (["pyosys"], "amaranth", AMARANTH_TOP, ["", AXI, AXI_OUT], AXI_BUS),
    "amaranth_soc": (
        ["pyosys", "amaranth_soc"],
        "amaranth",
        AMARANTH_TOP,
        ["Wishbone", WISHBONE, "bus_dat_r bus_ack bus_err"],
        WISHBONE_BUS,
    ),
}
"""Requirement of each tool, its file in the package, a script that gives its module plain ports as Verilog, the
arguments of the script, and the bench's access to registers."""


def rows_of(design: Design) -> list[str]:
    """Return what the memory map of Amaranth-SoC says about the registers of a design, in a window at 0x400."""
    rows = []
    for name, row in axi_of(design).registers.items():
        access = "rw" if row.access == "write" else "r"
        fields = dict.fromkeys(row.bits, 1) or {"": 32}
        rows.append(f"// accelerator/{name} {0x400 + row.address} 4 8 {access} {fields}")
    return rows


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog (iverilog) is not installed")
@pytest.mark.parametrize("tool", list(MODULES))
@pytest.mark.parametrize("kind", ["built", "program"])
def test_a_module_carries_a_sample(request: pytest.FixtureRequest, tmp_path: Path, kind: str, tool: str) -> None:
    needed, suffix, top, arguments, bus = MODULES[tool]
    for module in needed:
        pytest.importorskip(module)
    design = request.getfixturevalue(kind)
    package = write_ip(design.folder, tmp_path / "package")
    assert (package / "program.bin").is_file() == design.design.is_loaded
    (tmp_path / "make.py").write_text(top)
    command = [sys.executable, str(tmp_path / "make.py"), str(package / f"{NAME}_{suffix}.py"), *arguments]
    made = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    rows = [line for line in made.stdout.splitlines() if line.startswith("// accelerator")]
    assert rows == (rows_of(design) if tool == "amaranth_soc" else [])
    axi, state = axi_of(design), design.region.sample("forward_dynamics", 1, seed=4)
    packets = packets_of(design, state)
    beats = [beat | (k == len(packet) - 1) << axi.width for packet in packets for k, beat in enumerate(packet)]
    filled = {
        "beats": len(beats),
        "values": " ".join(f"beats[{k}] = {axi.width + 1}'h{beat:x};" for k, beat in enumerate(beats)),
        **{name: axi.registers[name].address for name in ("identity", "samples_out", "control")},
        "bus": bus,
        "width": axi.width,
        "results": len(packets),
    }
    (tmp_path / "top.v").write_text(made.stdout)
    (tmp_path / "bench.v").write_text(BENCH.format(**filled))
    files = [*sorted((package / "rtl").glob("*.v")), tmp_path / "top.v", tmp_path / "bench.v"]
    subprocess.run(["iverilog", "-g2012", "-s", "bench", "-o", tmp_path / "bench", *files], check=True)
    run = subprocess.run([tmp_path / "bench"], check=True, capture_output=True, text=True, timeout=60)
    said = run.stdout.splitlines()
    assert [line for line in said if not line.startswith("result ")] == [
        "register 44594e47",
        "register 00000001",
        "read refused",
        "write refused",
        "written",
        "register 00000000",
    ]
    answers = np.array([int(line.split()[1], 16) for line in said if line.startswith("result ")], f"<u{axi.width // 8}")
    words = answers.view("<u4")[-axi.beats.output * axi.lanes :]
    with dynagate.open(design, device="fixed") as integers:
        expected = integers(**state).qdd[0]
    if design.design.is_loaded:
        np.testing.assert_array_equal(design.design.wire.output.values(words[None]).ravel()[: len(expected)], expected)
    else:
        np.testing.assert_array_equal(words[: len(expected)].view(np.float32), expected.astype(np.float32))


WIDE = {
    "litex": """
from litex.soc.interconnect import axi
kind(registers=axi.AXILiteInterface(data_width=32, address_width=12))
kind(registers=axi.AXILiteInterface(data_width=32, address_width=7))
""",
    "amaranth": """
from amaranth.hdl import Module
from amaranth.lib import wiring
wide = wiring.flipped(names["Registers"](12).create())
wiring.connect(Module(), wiring.flipped(wide), kind().registers)
""",
}
"""An attempt to connect a register bus of another address width. LiteX's buses have addresses of the SoC."""
REFUSED = {
    "litex": "has 32 data bits and 7 address bits; expected 32, and at least 8",
    "amaranth": "(unsigned\\(|\\b)12\\b.*\\b8\\b",
}


@pytest.mark.parametrize("tool", list(WIDE))
def test_a_register_bus_of_another_address_width_is_refused(package: Path, tool: str) -> None:
    pytest.importorskip(tool)
    head = "import runpy, sys\nnames = runpy.run_path(sys.argv[1])\n"
    head += "(kind,) = [value for name, value in names.items() if name.startswith('TwoJointArm')]"
    command = [sys.executable, "-c", head + WIDE[tool], str(package / f"{NAME}_{tool}.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(REFUSED[tool], done.stderr.splitlines()[-1]), done.stderr


@pytest.mark.skipif(shutil.which("ghdl") is None, reason="GHDL (ghdl) is not installed")
def test_vhdl_entity_has_the_ports_of_the_module(package: Path, tmp_path: Path) -> None:
    """GHDL elaborates the component with an entity that has the ports of the Verilog."""
    text = (package / "rtl" / "accelerator.v").read_text()
    ports = [
        f"{name} : {way.removesuffix('put')} std_logic" + (f"_vector({high} downto 0)" if high else "")
        for way, high, name in re.findall(r"^  (input|output) (?:wire|reg) (?:\[(\d+):0\] )?(\w+),?$", text, re.M)
    ]
    head = "library ieee;\nuse ieee.std_logic_1164.all;\n"
    entity = f"entity accelerator is port ({'; '.join(ports)}); end;\narchitecture none of accelerator is begin end;\n"
    (tmp_path / "both.vhd").write_text(head + entity + (package / f"{NAME}.vhd").read_text())
    for standard, steps in {"93": ["-a"], "08": ["-a", "--elab-run"]}.items():
        for step in steps:
            what = "both.vhd" if step == "-a" else f"{NAME}_entity"
            command = ["ghdl", step, f"--std={standard}", what]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


def test_a_name_that_begins_with_a_digit(designs: Path, tmp_path: Path) -> None:
    robot = replace(robots.load("two_joint_arm"), name="3dof arm")
    package = write_ip(build(robot, "inverse_dynamics", ii=2, axi=Axi(32), folder=designs).folder, tmp_path)
    (module,) = package.glob("*_litex.py")
    names = [node.name for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.ClassDef)]
    assert len(names) == 1
    assert names[0].startswith("Accelerator3dof")


def test_a_folder_without_verilog_is_refused(built: Design, tmp_path: Path) -> None:
    copied = shutil.copytree(built.folder, tmp_path / "design")
    (copied / "datapath_units.v").unlink()
    with pytest.raises(ArgumentError, match=r"has no datapath_units\.v; expected the Verilog of the design"):
        write_ip(copied, tmp_path / "package")
    assert not (tmp_path / "package").exists()


def test_a_program_without_a_bench_is_refused(program: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = replace(program.design, body=replace(program.design.body, shell=None))
    monkeypatch.setattr("dynagate.hw.targets.ip.load", lambda folder: record)
    with pytest.raises(ArgumentError, match="is a program without a bench, so it has no Verilog"):
        write_ip(program.folder, tmp_path / "package")
    assert not (tmp_path / "package").exists()


def test_command_and_refusals(built: Design, designs: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["package", str(built.folder), "--output", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / f"{NAME}.core").is_file()
    assert done.output.splitlines()[0] == str(tmp_path / "out")
    bare = build(robots.load("two_joint_arm"), "forward_dynamics", ii=2, folder=designs)
    with pytest.raises(ArgumentError, match="has no AXI shell; expected a design that was built with axi="):
        write_ip(bare.folder, tmp_path)
    with pytest.raises(DesignError):
        write_ip(tmp_path / "missing")
    (tmp_path / "file").write_text("")
    refused = CliRunner().invoke(main, ["package", str(built.folder), "--output", str(tmp_path / "file")])
    assert refused.exit_code == 1
