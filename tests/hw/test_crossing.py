"""Registers between the dies of a device: they lose no beat, every wire has two, and the floorplan names them."""

from __future__ import annotations

import json
import random
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator
from dynagate import Function
from dynagate.design.verilog_list import read_list
from dynagate.host.devices import StreamDevice
from dynagate.host.drivers import ShellSession
from dynagate.host.sim_links import SimShellLink
from dynagate.hw.export.yosys import run_yosys
from dynagate.hw.rtl import crossing
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.crossing import LATENCY, CrossingSink, CrossingSource, crossings_text
from dynagate.hw.targets.project import CROSSINGS, FLOORPLAN
from dynagate.sim.verilate import shell_library

from tests.netlist_board import check_accelerator
from tests.projects import designed_for, project

CYCLES = 400
STALLS = ((1.0, 1.0), (1.0, 0.3), (0.5, 0.5), (1.0, 0.0))
"""Probabilities that a beat is offered and that it is accepted; with 0, it is accepted in every other 40 cycles."""


def moved(offers: float, accepts: float) -> tuple[list[int], list[int], int]:
    """Return the beats that a crossing accepted, those that it delivered, and the cycles of the first in it."""
    m = Module()
    m.submodules.source, m.submodules.sink = source, sink = CrossingSource(16), CrossingSink(16)
    m.d.comb += [sink.sent.eq(source.sent), source.space.eq(sink.space)]
    draw, sent, received = random.Random(1), list[int](), list[int]()
    times: list[int] = []

    async def bench(ctx: Any) -> None:
        for cycle in range(CYCLES):
            ctx.set(source.valid, draw.random() < offers or ctx.get(source.valid))
            ctx.set(source.payload, len(sent))
            ctx.set(sink.ready, draw.random() < accepts if accepts else cycle // 40 % 2)
            if ctx.get(sink.valid) and ctx.get(sink.ready):
                received.append(ctx.get(sink.payload))
                times[1:] = times[1:2] or [cycle]
            if ctx.get(source.valid) and ctx.get(source.ready):
                times[:1] = times[:1] or [cycle]
                sent.append(len(sent))
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return sent, received, times[1] - times[0]


@pytest.mark.parametrize(("offers", "accepts"), STALLS)
def test_a_crossing_loses_no_beat(offers: float, accepts: float) -> None:
    sent, received, latency = moved(offers, accepts)
    assert received == sent[: len(received)]
    assert len(sent) - len(received) <= crossing.DEPTH
    if accepts == 1:
        assert latency == LATENCY
        assert len(sent) >= CYCLES - 5  # a beat in every cycle


def test_with_less_space_a_crossing_would_lose_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossing, "UNDER_WAY", crossing.UNDER_WAY - 1)
    sent, received, _ = moved(1.0, 0.0)
    assert received != sent[: len(received)]


def netlist(sources: list[Path], top: str, file: Path, *passes: str) -> dict[str, Any]:
    """Return the modules of a netlist with registers, by name."""
    run_yosys(
        [f"read_verilog {' '.join(map(str, sources))}", f"hierarchy -top {top}", "proc", *passes, f"write_json {file}"]
    )
    modules: dict[str, Any] = json.loads(file.read_text())["modules"]
    return modules


ENDS = {"launch": "output", "room": "output", "sent": "input", "space": "input"}
"""Ports of the two kinds of ends towards the other die, and their directions."""


def unregistered(modules: dict[str, Any]) -> list[str]:
    """Return the ports between dies that are not a register's output, or lead to more than a register."""
    faults = []
    for name, module in modules.items():
        cells = [cell for cell in module["cells"].values() if name.count("__") == 2]
        outputs = {bit for cell in cells if cell["type"] == "$dff" for bit in cell["connections"]["Q"]}
        reads: dict[object, list[str]] = {}
        for cell in cells:
            for pin, bits in cell["connections"].items():
                for bit in bits:
                    reads.setdefault(bit, []).append(f"{cell['type']}.{pin}")
        for port, row in module["ports"].items() if cells else ():
            if ENDS.get(port) != row["direction"]:
                continue
            if row["direction"] == "output":
                faults += [f"{name}.{port}" for bit in row["bits"] if bit not in outputs]
            else:
                faults += [f"{name}.{port}" for bit in row["bits"] if reads.get(bit) != ["$dff.D"]]
    return faults


@pytest.mark.rtl
def test_every_wire_between_dies_has_a_register_on_both_sides(tmp_path: Path) -> None:
    file, text = tmp_path / CROSSINGS, crossings_text(Axi(64))
    file.write_text(text)
    modules = netlist([file], "crossings", tmp_path / "n.json")
    ends = [module["ports"] for name, module in modules.items() if name.count("__") == 2]
    assert all(len(ports.keys() & ENDS.keys()) == 2 for ports in ends)
    assert unregistered(modules) == []
    # nothing but wires stands between the ends
    between = [module["cells"] for name, module in modules.items() if name.count("__") == 1]
    assert [len(cells) for cells in between] == [7, 7]
    top = {name: cell for name, cell in modules["crossings"]["cells"].items() if cell["type"] != "$logic_not"}
    assert set(top) == {"u_link", "u_shell"}  # and the inverted reset
    assert all(cell["type"] in modules for cells in between for cell in cells.values())
    for name in ("launch", "arrival", "room", "credit"):
        assert re.search(rf'keep = "true" \*\)\n  \(\* shreg_extract = "no" \*\)\n  [a-z ]*reg .*\b{name}\b', text)


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("old", "new"), [("arrival <= sent", "arrival <= ~sent"), ("credit <= space", "credit <= space & valid")]
)
def test_logic_between_dies_is_noticed(old: str, new: str, tmp_path: Path) -> None:
    file, text = tmp_path / CROSSINGS, crossings_text(Axi(64))
    assert old in text
    file.write_text(text.replace(old, new))
    assert unregistered(netlist([file], "crossings", tmp_path / "n.json"))


def cells_of(modules: dict[str, Any], top: str, path: str = "") -> dict[str, str]:
    """Return the module of every cell and register by path, with a register's name as Vivado forms it."""
    names = {}
    for name, cell in modules[top]["cells"].items():
        if cell["type"] in modules:
            names[f"{path}{name}"] = cell["type"]
            names |= cells_of(modules, cell["type"], f"{path}{name}/")
    registers = {bit for c in modules[top]["cells"].values() if "dff" in c["type"] for bit in c["connections"]["Q"]}
    for name, wire in modules[top]["netnames"].items():
        names |= {f"{path}{name}_reg[{k}]": "FDRE" for k, bit in enumerate(wire["bits"]) if bit in registers}
    return names


@pytest.mark.rtl
@pytest.mark.parametrize("board", ["vcu118", "u50"])
def test_every_cell_that_the_floorplan_names_exists(board: str, designs: Path, tmp_path: Path) -> None:
    folder = project(board, designs, tmp_path).folder
    sources = [folder / name for name in [*read_list(folder), CROSSINGS, "dynagate.v"]]
    cells = cells_of(netlist(sources, "dynagate", tmp_path / "n.json"), "dynagate")
    text = (folder / FLOORPLAN).read_text()
    patterns = re.findall(r"NAME =~ ([^ }]+)(?: && REF_NAME == (\w+))?}", text)
    assert len(patterns) == 6
    matches = {
        pattern: {name for name, kind in cells.items() if fnmatchcase(name, pattern) and reference in ("", kind)}
        for pattern, reference in patterns
    }
    assert all(matches.values()), matches
    assert matches["*shell"] == {"shell"}
    assert matches["*u_crossings/u_shell"] == {"u_crossings/u_shell"}
    assert len(matches["*u_crossings/*/launch_reg*"]) == len(matches["*u_crossings/*/arrival_reg*"])
    assert "-add {SLR1}" in text


@pytest.mark.parametrize("board", ["pynq-z2", "kv260"])
def test_a_device_of_one_die_has_no_floorplan(board: str, designs: Path, tmp_path: Path) -> None:
    folder = project(board, designs, tmp_path).folder
    assert not (folder / FLOORPLAN).exists()
    assert not (folder / CROSSINGS).exists()
    assert "crossings" not in (folder / "dynagate.v").read_text()
    assert "| crossings |" not in (folder / "README.md").read_text()


def test_a_project_lists_the_cycles_of_crossings(designs: Path, tmp_path: Path) -> None:
    text = (project("vcu118", designs, tmp_path).folder / "README.md").read_text()
    assert (
        f"| crossings | {LATENCY} cycles in each stream, {2 * LATENCY} from the first beat in to the first out" in text
    )


@pytest.mark.rtl
def test_a_design_behind_crossings_has_the_same_results(designs: Path, tmp_path: Path) -> None:
    """The wrapper of the project in place of the shell, with pauses on both streams."""
    folder, built = project("u50", designs, tmp_path).folder, designed_for("u50", designs)
    names = [*read_list(folder), CROSSINGS, "dynagate.v"]
    texts = {name: (folder / name).read_text() for name in names}
    for name, text in texts.items():
        inside = re.sub(r"\baccelerator\b", "shell_inside", text)
        texts[name] = (
            re.sub(r"\bdynagate\b", "accelerator", inside).replace("ap_clk", "aclk").replace("ap_rst_n", "aresetn")
        )
    for pauses in ((0.0, 0.0), (0.3, 0.5)):
        link = SimShellLink(shell_library(texts=texts), built.design, pauses=pauses)
        with Function(StreamDevice(ShellSession(built.design, link).driver())) as accelerator:
            check_accelerator(built, accelerator)
