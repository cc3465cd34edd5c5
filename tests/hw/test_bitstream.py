"""`dynagate bitstream`: what it prints and writes, what it refuses, and the vendor's tools run where they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from dynagate import robots
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.design.files import load
from dynagate.design.verilog_list import read_list
from dynagate.hw import boards
from dynagate.hw.boards.scripts import OUT_OF_CONTEXT
from dynagate.hw.export.yosys import run_yosys
from dynagate.hw.rtl.accelerator import ports
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.wrapper import PAGE_BITS, wrapper
from dynagate.hw.targets.project import CROSSINGS, FLOORPLAN, FLOWS, ProjectError, run_tool, write_project

from tests import tcl
from tests.projects import FUNCTION, VENDOR, designed, project
from tests.vivado import verilog_module

ROOT = Path(__file__).parents[2]


def call(designs: Path, folder: Path, *options: object) -> tuple[int, str]:
    arguments = ("bitstream", "two_joint_arm", "--function", FUNCTION, *options)
    places = ("--folder", designs, "--project-folder", folder)
    result = CliRunner().invoke(main, [str(argument) for argument in (*arguments, *places)])
    return result.exit_code, result.output


@pytest.fixture
def without_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without vendors' tools."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


@pytest.fixture
def vivado(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A `vivado` on the path: the stand-ins, called as Vivado is."""
    command = tmp_path / "tools" / "vivado"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m tests.vivado "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    return command


@pytest.mark.usefixtures("without_tools")
@pytest.mark.parametrize("name", VENDOR)
def test_the_command_prints_the_choice_and_what_to_type(name: str, designs: Path, tmp_path: Path) -> None:
    status, text = call(designs, tmp_path, "--board", name)
    assert status == 0, text
    board, folder = boards.load(name), next(path for path in tmp_path.iterdir() if path.name.endswith(name))
    rows = dict(re.findall(r"^\| ([a-z][\w -]*) \| (.*) \|$", text, re.M))
    assert rows["board"] == f"{board.title}, {board.part}"
    assert re.match(r"[0-9]+ cycles: the (link|stream) ", rows["initiation interval"])
    rounded = "an interval is a whole number" in rows["initiation interval"]
    assert rounded == ("the datapath decides" in rows["end to end"])  # what was rounded up is the slowest
    assert rows["clock"] == f"{board.clock_mhz:g} MHz, assumed"
    for rate in ("datapath", "stream", "link", "end to end"):
        assert re.match(r"[0-9.]+ (million |thousand )?samples/s, modeled", rows[rate])
    tool = FLOWS[board.flow].tool
    assert text.splitlines()[-2:] == [
        str(folder),
        f"{tool} is not on the path; where it is, type: make -C {folder}",
    ]


@pytest.mark.parametrize("name", VENDOR)
def test_a_project_is_whole(name: str, designs: Path, tmp_path: Path) -> None:
    written = project(name, designs, tmp_path)
    files = {path.name for path in written.folder.iterdir()}
    flow = written.flow
    made = {"dynagate.v", "README.md", *OUT_OF_CONTEXT, *flow.templates}
    if boards.load(name).dies > 1:
        made |= {CROSSINGS, FLOORPLAN}
    assert files == {*read_list(written.folder), "files.f", "design.json", *made}
    design = load(written.folder)  # checks the hash, and the checksums of the Verilog
    assert design.axi is not None
    assert (design.axi.width, design.axi.last) == (boards.load(name).link.width, "batch")
    readme = (written.folder / "README.md").read_text()
    assert files - {"README.md"} == set(re.findall(r"^\| `([\w.]+)` \| ", readme, re.M)) - set(design.axi.registers)
    for text in ("modeled", "assumption", *flow.products):
        assert text in readme
    assert not re.search(r"<<|>>|<%|%>", readme)
    assert ("v++, which runs Vivado, needs one to several hours" in readme) == ("v++" in flow.tool)


def test_the_readme_shows_the_way_of_a_sample(designs: Path, tmp_path: Path) -> None:
    readme = (project("kv260", designs, tmp_path).folder / "README.md").read_text()
    built, choice = designed(boards.load("kv260"), designs)
    planned = choice.plan
    match = re.search(r"```text\n(.*?)\n```", readme, re.S)
    assert match is not None
    text = match[1]
    assert len({len(line) for line in text.splitlines() if line[0] in "+|"}) == 1  # the boxes are closed
    assert f"datapath: a sample every {planned.ii} cycles, {planned.latency} cycles each" in text
    assert f"{planned.unit_counts()['multiply']} × multiply" in text
    assert f"{len(built.graph.input_nodes)} float32 words in" in text
    assert text.count("axi_dma_0") == 2


def test_a_project_replaces_its_files_and_keeps_what_tools_wrote(designs: Path, tmp_path: Path) -> None:
    folder = project("vcu118", designs, tmp_path).folder
    (folder / "accelerator.bit").write_text("bits")
    (folder / "build.tcl").write_text("damaged")
    assert project("vcu118", designs, tmp_path).folder == folder
    assert (folder / "accelerator.bit").read_text() == "bits"
    assert "\n# two_joint_arm forward_dynamics for AMD VCU118" in (folder / "build.tcl").read_text()


def test_a_project_that_cannot_be_written_leaves_nothing(
    designs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, choice = designed(boards.load("vcu118"), designs)
    (tmp_path / "file").write_text("")
    with pytest.raises(ProjectError, match="cannot keep a project in .*file is not a folder"):
        write_project(built, choice, tmp_path / "file")
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(Path, "write_text", lambda *_, **__: (_ for _ in ()).throw(full))
    with pytest.raises(ProjectError, match="No space left on device"):
        write_project(built, choice, tmp_path / "projects")
    assert list((tmp_path / "projects").iterdir()) == []


def test_a_board_of_another_flow_has_no_project(designs: Path, tmp_path: Path) -> None:
    built, choice = designed(boards.load("vcu118"), designs)
    with pytest.raises(ArgumentError, match="ulx3s has flow ecp5; expected one of vivado-xdma, zynq, vitis"):
        write_project(built, replace(choice, board=boards.load("ulx3s")), tmp_path)


REFUSED = [
    (("--board", "vcu119"), 2, "'vcu119' is not one of 'crosslink-nx-evn', 'gatemate-evb'"),
    ((), 2, "Missing option '--board'"),
    (("--board", "u50", "--clock", "0.5"), 2, "0.5; expected a number from 1 to 1000"),
    (("--board", "u50", "--clock", "nan"), 2, "nan; expected a number from 1 to 1000"),
    (("--board", "u50", "--ii", "0"), 2, "0; expected a whole number from 1 to 65535"),
    (("--board", "u50", "--word", "24", "--error", "1e-3"), 2, "--word and --error are both given"),
    (("--board", "ulx3s", "--only-project"), 2, "--only-project with ulx3s; expected one of them"),
    (
        ("--board", "pynq-z2", "--word", "32", "--ii", "1"),
        1,
        r"at II = 1 takes \d+ DSP48E1, pynq-z2 allows 165 \(75% of 220\); --ii \d+ fits",
    ),
]


@pytest.mark.parametrize(("options", "status", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_leaves_nothing(
    options: tuple[str, ...], status: int, message: str, designs: Path, tmp_path: Path
) -> None:
    code, text = call(designs, tmp_path / "projects", *options)
    assert (code, bool(re.search(message, text))) == (status, True), text
    assert not (tmp_path / "projects").exists()


def test_an_error_limit_is_met_for_the_multiplier_of_the_board(designs: Path, tmp_path: Path) -> None:
    status, text = call(designs, tmp_path, "--board", "pynq-z2", "--error", "qdd=2e-2", "--only-project")
    assert status == 0, text
    goal = load(Path(text.splitlines()[-1])).formats.goal
    assert goal is not None
    assert goal["dsp"]["name"] == "DSP48E1"


@pytest.mark.usefixtures("vivado")
def test_vivado_is_run_where_it_is_on_the_path(designs: Path, tmp_path: Path) -> None:
    status, text = call(designs, tmp_path / "projects", "--board", "pynq-z2")
    assert status == 0, text
    folder, *products = map(Path, text.splitlines()[-3:])
    assert products == [folder / "accelerator.bit", folder / "accelerator.hwh"]
    assert all(path.is_file() for path in products)
    assert "worst slack 0.1 ns" in (folder / "make.log").read_text()
    assert "clock 100 MHz, read back from vivado; 100 MHz were requested\nend to end" in text


@pytest.mark.usefixtures("vivado")
def test_only_project_runs_nothing(designs: Path, tmp_path: Path) -> None:
    status, text = call(designs, tmp_path / "projects", "--board", "vcu118", "--only-project")
    assert status == 0, text
    folder = Path(text.splitlines()[-1])
    assert (folder / "build.tcl").is_file()
    assert not (folder / "accelerator.bit").exists()
    assert not (folder / "make.log").exists()


@pytest.mark.usefixtures("vivado")
def test_a_tool_that_fails_is_an_error_with_its_last_lines(designs: Path, tmp_path: Path) -> None:
    written = project("vcu118", designs, tmp_path / "projects")
    script = written.folder / "build.tcl"
    (written.folder / "accelerator.bit").write_text("of an earlier run")
    script.write_text(script.read_text().replace("validate_bd_design\n", "validate\n"))
    with pytest.raises(ProjectError, match=r"vivado failed with status 2; .*make.log ends in.*\n(.*\n)*ERROR: .*valid"):
        run_tool(written)


def test_a_tool_of_another_version_is_refused(vivado: Path, designs: Path, tmp_path: Path) -> None:
    written = project("vcu118", designs, tmp_path / "projects")
    for version in ("2019.2", "2031.1"):
        vivado.write_text(f"#!/bin/sh\necho 'Vivado v{version} (64-bit)'\n")
        expected = f"vivado on the path is {version}; expected 2022.1 to 2025.2, or --only-project and another tool"
        with pytest.raises(ProjectError, match=expected):
            run_tool(written)
        status, text = call(designs, tmp_path / "none", "--board", "vcu118")  # refused before any work
        assert (status, text.startswith(f"Error: {expected}")) == (1, True)
        cores = ["bitstream", "--core", "--board", "vcu118", "--project-folder", str(tmp_path / "none")]
        assert CliRunner().invoke(main, cores).output.startswith(f"Error: {expected}")
    assert not (written.folder / "make.log").exists()
    assert not (tmp_path / "none").exists()


def test_a_tool_that_writes_nothing_is_an_error(vivado: Path, designs: Path, tmp_path: Path) -> None:
    vivado.write_text("#!/bin/sh\necho done\n")
    with pytest.raises(ProjectError, match=r"vivado failed \(accelerator.bit not written\); .*make.log ends in"):
        run_tool(project("vcu118", designs, tmp_path / "projects"))


# the wrapper


@pytest.mark.parametrize("width", [64, 512])
def test_the_wrapper_has_the_ports_of_the_shell(width: int, tmp_path: Path) -> None:
    path = tmp_path / "dynagate.v"
    path.write_text(wrapper(Axi(width)))
    expected = {name: (str(member.flow) == "In", member.shape) for name, member in ports(Axi(width)).items()}
    expected |= dict.fromkeys(("s_axil_awaddr", "s_axil_araddr"), (True, PAGE_BITS))
    expected |= {"s_axis_tkeep": (True, width // 8), "m_axis_tkeep": (False, width // 8)}
    assert {port.name: (port.into, port.width) for port in verilog_module([path], "dynagate")} == expected


def test_yosys_elaborates_the_wrapper_with_the_design(designs: Path, tmp_path: Path) -> None:
    folder = project("u50", designs, tmp_path).folder
    sources = " ".join(str(folder / name) for name in [*read_list(folder), CROSSINGS, "dynagate.v"])
    run_yosys([f"read_verilog {sources}", "hierarchy -check -top dynagate", "check -assert dynagate"])


# the kernels of the Alveo cards

HEADERS = {
    "ap_int.h": "#pragma once\n#include <array>\n"
    "template <int W> struct ap_uint { std::array<unsigned char, W / 8> bytes;"
    " ap_uint& operator=(int all) { bytes.fill(all); return *this; } };\n",
    "ap_axi_sdata.h": '#pragma once\n#include "ap_int.h"\n'
    "template <int W, int U, int I, int D> struct ap_axiu { ap_uint<W> data; ap_uint<W> keep, strb; bool last; };\n",
    "hls_stream.h": "#pragma once\n#include <deque>\n#include <stdexcept>\n"
    "namespace hls { template <typename T> struct stream { std::deque<T> queue;"
    " void write(const T& t) { queue.push_back(t); }"
    ' T read() { if (queue.empty()) throw std::runtime_error("empty");'
    " T t = queue.front(); queue.pop_front(); return t; } }; }\n",
}
"""As much of Vitis' headers as the kernels use."""
LOOPBACK = """
#include "read_samples.cpp"
#define WIDTH OTHER_WIDTH
#define Beat OtherBeat
#include "write_results.cpp"
#include <cstdio>
#include <vector>
int main() {
  std::vector<ap_uint<512>> in(5), out(6);
  for (int i = 0; i < 5; ++i) in[i] = i + 1;
  out[5] = 77;
  hls::stream<Beat> stream;
  read_samples(in.data(), stream, 5);
  for (auto& beat : stream.queue) std::printf("%d%d", beat.last, beat.keep.bytes[63] == 255);
  write_results(out.data(), stream, 5);
  for (auto& word : out) std::printf(" %d", word.bytes[63]);
}
"""


def test_the_kernels_move_all_beats_and_end_the_batch(designs: Path, tmp_path: Path) -> None:
    folder = project("u50", designs, tmp_path / "projects").folder
    for name, text in {**HEADERS, "loopback.cpp": LOOPBACK}.items():
        (tmp_path / name).write_text(text)
    command = ["g++", "-std=c++14", "-Wall", "-Wno-unknown-pragmas", "-Werror", f"-I{tmp_path}", f"-I{folder}"]
    subprocess.run([*command, str(tmp_path / "loopback.cpp"), "-o", str(tmp_path / "loopback")], check=True)
    done = subprocess.run([tmp_path / "loopback"], capture_output=True, text=True, check=True)
    assert done.stdout == "0101010111 1 2 3 4 5 77"


@pytest.mark.parametrize(("name", "bank"), [("u250", "DDR[0]"), ("u50", "HBM[0]")])
def test_the_kernels_are_linked_by_names_that_they_have(name: str, bank: str, designs: Path, tmp_path: Path) -> None:
    folder = project(name, designs, tmp_path).folder
    has = {"accelerator": {"s_axis": "in", "m_axis": "out"}}
    for port in verilog_module([folder / "dynagate.v"], "dynagate"):
        if port.name.endswith("tdata"):
            assert has["accelerator"][port.name.removesuffix("_tdata")] == ("in" if port.into else "out")
    assert {port.name for port in verilog_module([folder / "dynagate.v"], "dynagate")} >= {"ap_clk", "ap_rst_n"}
    for kernel, way in (("read_samples", "out"), ("write_results", "in")):
        match = re.search(rf'extern "C" void {kernel}\((.*)\)', (folder / f"{kernel}.cpp").read_text())
        assert match is not None
        assert "memory," in match[1]
        assert "stream," in match[1]
        has[kernel] = {"stream": way}
    text = (folder / "link.cfg").read_text()
    assert re.findall(r"^nk=(\w+):1:(\w+)$", text, re.M) == [
        (kernel, f"{kernel}_1") for kernel in ("read_samples", "accelerator", "write_results")
    ]
    streams = re.findall(r"^stream_connect=(\w+)_1\.(\w+):(\w+)_1\.(\w+)$", text, re.M)
    assert [(has[a][b], has[c][d]) for a, b, c, d in streams] == [("out", "in"), ("out", "in")]
    assert re.findall(r"^sp=(\w+)_1\.memory:(.*)$", text, re.M) == [("read_samples", bank), ("write_results", bank)]


def test_make_builds_the_card_in_order(designs: Path, tmp_path: Path) -> None:
    folder = project("u250", designs, tmp_path).folder
    text = subprocess.run(["make", "-n", "-C", str(folder)], capture_output=True, text=True, check=True).stdout
    steps = re.findall(r"-source (\S+)|--kernel (\w+)|--link .*--config (\S+) --clock.defaultFreqHz (\d+)", text)
    assert [next(filter(None, step)) for step in steps] == ["package.tcl", "read_samples", "write_results", "link.cfg"]
    assert steps[-1][-1] == "250000000"
    assert f"--platform {boards.load('u250').platform}" in text


def test_tcl_is_there_for_the_stand_in() -> None:
    assert tcl.engines()


def test_a_robot_file_of_ones_own(designs: Path, tmp_path: Path) -> None:
    path = tmp_path / "my arm.urdf"
    path.write_text(robots.path("two_joint_arm").read_text())
    arguments = ["bitstream", str(path), "--function", "mass_matrix", "--board", "kv260", "--only-project"]
    places = ["--folder", str(designs), "--project-folder", str(tmp_path / "p")]
    result = CliRunner().invoke(main, [*arguments, *places])
    assert result.exit_code == 0, result.output
    assert (Path(result.output.splitlines()[-1]) / "build.tcl").is_file()
