"""ECP5: the multiplier's registers, the clock, and a bitstream whose netlist computes the integers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import dynagate
import numpy as np
import pytest
from amaranth.hdl import Const, Module, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate import Robot, build, robots
from dynagate.base.process import run
from dynagate.design.files import DesignError, load
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.wordlength.goal import MULT18X18, Goal
from dynagate.host.links import DeviceError
from dynagate.hw import boards
from dynagate.hw.boards import pll
from dynagate.hw.designs import Design
from dynagate.hw.export.netlist import rtlil_text
from dynagate.hw.export.yosys import run_yosys
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.targets import routes
from dynagate.hw.targets.families import lpf, multiplier_limit
from dynagate.hw.targets.synth import SynthesisError
from dynagate.hw.units.latencies import dsp_blocks, parts
from dynagate.hw.units.mult18x18 import Ecp5
from dynagate.hw.units.multiply import Multiply
from dynagate.hw.units.slice_multiplexer import select_way
from dynagate.hw.units.slot_selects import by_number
from dynagate.robot import Joint, Link
from dynagate.sim.cells import models
from dynagate.sim.runner import UnitCase, run_unit_bench

from tests.board_programs import TINY
from tests.netlist_board import check_netlist
from tests.operands import pairs

ULX3S = boards.load("ulx3s")


@pytest.fixture(scope="module")
def small(designs: Path) -> Design:
    """A design that synthesis is soon done with."""
    arm = robots.load("two_joint_arm")
    return build(arm, "inverse_dynamics", ii=16, policy=Policy(word=12), axi=Axi(32), folder=designs)


# the multiplier


def test_blocks_with_their_own_registers_compute_what_inferred_ones_do(units: Path) -> None:
    cases, netlists = {}, []
    for widths in ((18, 18), (24, 24), (24, 30), (36, 27)):
        a, b = pairs(Format(widths[0], 0), Format(widths[1], 0))
        c = np.where(np.arange(len(a)) % 3, 1 << (sum(widths) - 4), 0)
        exact = np.array([int(x) * int(y) + int(z) for x, y, z in zip(a, b, c, strict=True)])
        unit = Multiply(*widths)
        cases[f"multiply_{widths[0]}_{widths[1]}"] = UnitCase(unit, {"a": a, "b": b, "c": c}, {"p": exact})
        netlists.append(rtlil_text(unit, "multiply", Ecp5()))
    run_unit_bench("multiply", cases, units, platform=Ecp5(), models=models("\n".join(netlists), "ecp5"))


def test_a_step_of_a_product_adds_at_most_two_blocks() -> None:
    """So the latency that the plan counts for 27 x 18 blocks holds."""
    assert [len(parts(a, b, MULT18X18)) for a, b in ((18, 18), (19, 18), (24, 24), (35, 35), (36, 18))] == [
        1,
        2,
        4,
        4,
        3,
    ]
    for a in range(2, 50):
        for b in range(2, 50):
            assert len(parts(a, b, MULT18X18)) <= 2 * dsp_blocks(a, b)
            assert max(max(part.bits_a, part.bits_b) for part in parts(a, b, MULT18X18)) <= 18


def test_no_clock_is_claimed_that_the_block_cannot_keep() -> None:
    """Time from clock to output, and setup before the product's register, in Project Trellis' database."""
    assert [round(multiplier_limit(speed)) for speed in (6, 7, 8)] == [237, 269, 311]


# the multiplexers of operands


class Chosen(wiring.Component):
    """One of some signed numbers, the last of them a constant."""

    def __init__(self, widths: list[int], chosen: Callable[[Module, Sequence[Value], Value], Value]) -> None:
        self.widths, self.chosen = widths, chosen
        ways = {f"way_{k}": In(signed(width)) for k, width in enumerate(widths)}
        super().__init__({**ways, "select": In(range(len(widths) + 1)), "o": Out(signed(max(widths) + 2))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ways = [*(getattr(self, f"way_{k}") for k in range(len(self.widths))), Const(-3, 4)]
        with m.If(self.select < len(ways)):  # a number beyond them may choose any
            m.d.comb += self.o.eq(self.chosen(m, ways, self.select))
        return m


@pytest.mark.parametrize("widths", [[3, 1, 4, 2, 4], [2] * 11 + [3], [3, 2] * 10], ids=["6", "13", "21"])
def test_multiplexers_of_slices_choose_as_plain_ones(widths: list[int], tmp_path: Path) -> None:
    """Proved, with Yosys' models of the cells."""

    def slices(m: Module, ways: Sequence[Value], select: Value) -> Value:
        m.submodules.choose = inner = Module()
        return select_way(inner, ways, select)

    def plain(m: Module, ways: Sequence[Value], select: Value) -> Value:
        return by_number(ways, select)

    for chosen in (plain, slices):
        (tmp_path / f"{chosen.__name__}.il").write_text(rtlil_text(Chosen(widths, chosen), chosen.__name__))
    assert "L6MUX21" in (tmp_path / "slices.il").read_text()
    run_yosys(
        [
            f"read_rtlil {tmp_path / 'slices.il'}",
            "read_verilog +/lattice/common_sim.vh",
            "hierarchy -top slices",  # with the tables' contents
            "proc",
            "flatten",
            "setattr -mod -unset top slices",
            f"read_rtlil {tmp_path / 'plain.il'}",
            "proc",
            "flatten plain",
            "miter -equiv -make_outputs plain slices both",
            "flatten both",
            "sat -verify -prove trigger 0 both",
        ]
    )


# the clock


def test_clocks_of_the_loop() -> None:
    clocks = pll.settings(25.0, 20.0, 200.0)
    assert [clock.megahertz for clock in clocks] == [12.5 * k for k in range(16, 1, -1)]
    for clock in clocks:
        assert 25.0 * clock.feedback / clock.into == clock.megahertz
        assert 400.0 <= clock.megahertz * clock.out <= 800.0
    assert pll.fastest(25.0, 99.0).megahertz == 87.5
    assert [clock.megahertz for clock in pll.settings(25.0, 390.0, 450.0)] == [400.0]
    with pytest.raises(ValueError, match=r"no clock of up to 1 MHz from 25 MHz; expected 3.125 or more"):
        pll.fastest(25.0, 1.0)


def test_the_loop_is_set_as_project_trellis_sets_it() -> None:
    script = Path(sys.executable).parent / "yowasp-ecppll"
    text = subprocess.run([script, "-i", "25", "-o", "100"], capture_output=True, text=True, check=True)
    said = {name: int(value) for name, value in re.findall(r"(\w+) divisor: (\d+)", text.stdout)}
    clock = pll.fastest(25.0, 100.0)
    assert said == {"Refclk": clock.into, "Feedback": clock.feedback, "clkout0": clock.out}


# what is refused


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        (
            {"flow": "vivado-xdma"},
            {},
            "board 'ulx3s' has flow 'vivado-xdma'; expected a board on a serial line, of flow ecp5, nexus, gowin",
        ),
        ({}, {"seeds": ()}, "no seed; expected one or more"),
        (
            {},
            {"baud": 30_000_000},
            "30000000 baud from a clock of 100 MHz is 3 clocks a bit, 11.1% off; expected 4 clocks",
        ),
        ({}, {"megahertz": 2.0}, "no clock of up to 2 MHz from 25 MHz; expected 3.125 or more"),
    ],
    ids=["flow", "seeds", "baud", "clock"],
)
def test_what_makes_no_sense_is_refused_first(
    changes: dict, options: dict, message: str, small: Design, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        routes.bitstream(small, replace(ULX3S, **changes), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_design_that_does_not_fit_is_refused(small: Design, tmp_path: Path) -> None:
    few = replace(ULX3S, resources=replace(ULX3S.resources, dsp=3))
    message = r"\d+ multiplier blocks planned, Radiona ULX3S 85F has 3; expected a larger interval than 16 or shorter"
    with pytest.raises(ValueError, match=message):
        routes.bitstream(small, few, tmp_path / "out")


def test_a_design_without_a_narrow_shell_is_refused(designs: Path, tmp_path: Path) -> None:
    arm = robots.load("two_joint_arm")
    for axi in (None, Axi(64)):
        built = build(arm, "inverse_dynamics", ii=16, policy=Policy(word=18), axi=axi, folder=designs)
        with pytest.raises(ValueError, match=r"has no AXI shell of 32 bits; expected a build with axi=Axi\(32\)"):
            routes.bitstream(built, ULX3S, tmp_path / "out")


def test_a_rollout_keeps_its_ring(designs: Path, tmp_path: Path) -> None:
    arm = robots.load("two_joint_arm")
    built = build(arm, "rollout", ii=16, policy=Policy(word=18), axi=Axi(32), folder=designs)
    routes.Flow(routes.Gateware.of(built), ULX3S, tmp_path, 3_000_000, lambda text: None)
    assert "\\accelerator__ring__states" in (tmp_path / "accelerator.il").read_text()


def test_missing_tools_are_named(small: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(
        SynthesisError, match=r"nextpnr-ecp5 is not installed; expected the extra: pip install 'dynagate"
    ):
        routes.bitstream(small, ULX3S, tmp_path / "out")


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("exit 3", "sh failed with status 3: [DG-SYSTEM-006]\nlast words"),
        ("kill -TERM $$", "sh was ended by signal SIGTERM; a time limit or another program stopped it: run it again:"),
        (
            "kill -KILL $$",
            "sh was ended by signal SIGKILL; the system does that where memory runs out: run it again with",
        ),
        (
            "kill -SEGV $$",
            "sh was ended by signal SIGSEGV; a bug of its own: run it again, or with another version of it",
        ),
    ],
)
def test_a_tool_that_fails_or_is_killed_says_so(end: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SynthesisError, match=re.escape(message)):
        run(["sh", "-c", f"echo last words; {end}"], SynthesisError, place=tmp_path)


def test_constraints_name_the_pins_of_the_top() -> None:
    text = lpf(ULX3S, routes.pins(ULX3S), 87.5)
    located = dict(re.findall(r'LOCATE COMP "(\w+)" SITE "(\w+)";', text))
    assert located == {"clk_25mhz": "G2", "ftdi_txd": "M1", "ftdi_rxd": "L4", "led_0": "B2", "wifi_gpio0": "L2"}
    assert list(located) == routes.pins(ULX3S)
    assert text.endswith('FREQUENCY PORT "clk_25mhz" 25 MHZ;\nFREQUENCY NET "clk" 87.5 MHZ;\n')


def test_a_slower_clock_is_routed_for_the_first_one(
    monkeypatch: pytest.MonkeyPatch, small: Design, tmp_path: Path
) -> None:
    flow = routes.Flow(routes.Gateware.of(small), ULX3S, tmp_path, 3_000_000, lambda text: None)
    asked, found = [], iter([91.0, 76.0, 88.0])
    monkeypatch.setattr(flow, "synthesize", lambda clock, mhz: asked.append((clock.megahertz, mhz)) or {})
    monkeypatch.setattr(flow, "route", lambda seed: next(found))
    clock, _, tried = flow.fastest(pll.fastest(25.0, 100.0), 25.0, (1, 2))
    assert asked == [(100.0, 100.0), (87.5, 100.0)]
    assert (clock.megahertz, tried) == (87.5, {1: 88.0})


# the folder of a bitstream


def routed_as(folder: Path) -> routes.Routed:
    """Measurements as a route would give them."""
    clocks = {"megahertz": 87.5, "routed_mhz": 91.9, "limit_mhz": 237.0, "slowest": "a to b, 9.0 ns", "seed": 1}
    files = {"bitstream": folder / "ulx3s.bit", "netlist": folder / "netlist.v"}
    line = {"baud": 3_000_000, "clocks_per_bit": 29, "cells": {}, "versions": {"Yosys": "1"}, "seconds": {}}
    return routes.Routed(**files, part=ULX3S.part, speed=6, seeds={1: 91.9}, **clocks, **line)


def test_the_folder_of_a_bitstream_opens_and_says_how(small: Design, tmp_path: Path) -> None:
    routes.write_board_files(routed_as(tmp_path), routes.Gateware.of(small), ULX3S)
    text = (tmp_path / "README.md").read_text()
    assert text.startswith(f"# two_joint_arm {small.graph.name} on Radiona ULX3S 85F\n")
    for part in ("openFPGALoader --board ulx3s ulx3s.bit", 'link="uart:/dev/ttyUSB0"', "| clock | 87.5 MHz |"):
        assert part in text
    assert load(tmp_path) == load(small.folder)
    with pytest.raises(DeviceError, match="there is no such port"):
        dynagate.open(tmp_path, link=f"uart:{tmp_path / 'ttyUSB0'}")


def test_the_folder_of_cores_asks_for_a_program(tmp_path: Path) -> None:
    routes.write_board_files(replace(routed_as(tmp_path), baud=115_200), routes.Gateware.of_cores(TINY, 1), ULX3S)
    text = (tmp_path / "README.md").read_text()
    assert text.startswith("# A processor's cores on Radiona ULX3S 85F\n")
    assert "dynagate build ROBOT --board ulx3s" in text
    assert 'dynagate.open("PROGRAM", device="board", link="uart:/dev/ttyUSB0,baud=115200")' in text
    with pytest.raises(DesignError, match="holds a bitstream of a processor's cores and no design; expected the fold"):
        dynagate.open(tmp_path, link="uart:/dev/ttyUSB0")


def test_the_command_assumes_the_clock_that_it_routes_for_first() -> None:
    assert routes.first_clock(ULX3S).megahertz == 100.0
    assert routes.first_clock(ULX3S, 90.0).megahertz == 87.5
    assert routes.first_clock(boards.load("tang-nano-20k")).megahertz == 27.0


# the netlist


def netlist_of(built: Design, folder: Path) -> dict[str, int]:
    """Synthesize a design with a serial line of 4 clocks per bit, compare it with its integers and count its cells."""
    flow = routes.Flow(routes.Gateware.of(built), ULX3S, folder, 25_000_000, lambda text: None)
    cells = flow.synthesize(pll.fastest(25.0, 100.0), 100.0)
    assert cells["MULT18X18D"] == routes.multipliers(built.hardware.plan)
    assert cells["EHXPLLL"] == 1
    text = (folder / "netlist.v").read_text()
    assert text.count('REG_INPUTA_CLK("CLK0")') == text.count('REG_OUTPUT_CLK("CLK0")') == cells["MULT18X18D"]
    check_netlist(built, folder / "netlist.v", 4)
    return cells


def test_the_netlist_of_one_joint_computes_the_integers(designs: Path, tmp_path: Path) -> None:
    hinge = Joint("hinge", "revolute", axis=(0, 1, 0), lower=-1.0, upper=1.0, velocity=1.0, effort=5.0)
    inertia = ((0.02, 0.0, 0.0), (0.0, 0.02, 0.0), (0.0, 0.0, 0.02))
    pendulum = Robot("pendulum", (Link("rod", -1, hinge, 1.0, (0.1, 0.0, 0.2), inertia),))
    built = build(pendulum, "inverse_dynamics", ii=16, policy=Policy(word=12), axi=Axi(32), folder=designs)
    assert netlist_of(built, tmp_path)["MULT18X18D"] > 0


@pytest.mark.long
def test_the_netlist_computes_the_integers(small: Design, tmp_path: Path) -> None:
    cells = netlist_of(small, tmp_path)
    assert cells["MULT18X18D"] > small.hardware.plan.dsp_blocks() // 2
    assert cells["L6MUX21"] >= 3 * 12  # 11 to 16 ways for each bit of an operand; 23 in all without wide multiplexers


@pytest.fixture(scope="module")
def routed_arm(designs: Path) -> tuple[Design, routes.Routed]:
    arm = robots.load("two_joint_arm")
    built = build(arm, "forward_dynamics_gradient", ii=16, axi=Axi(32), folder=designs)
    return built, routes.bitstream(built, ULX3S, designs.parent / "ulx3s" / built.folder.name)


@pytest.mark.long
def test_the_arm_s_gradient_is_routed(routed_arm: tuple[Design, routes.Routed]) -> None:
    built, routed = routed_arm
    assert routed.routed_mhz >= routed.megahertz >= 100.0
    assert routed.bitstream.stat().st_size > 100_000
    assert routed.bitstream.read_bytes().find(b"LFE5U-85F") > 0
    assert load(routed.bitstream.parent).hash == built.design.hash
    assert "## What to type" in (routed.bitstream.parent / "README.md").read_text()
    content = json.loads((routed.bitstream.parent / "bitstream.json").read_text())
    assert (content["seed"], content["megahertz"]) == (routed.seed, routed.megahertz)
    assert (
        routed.loading == f"to load it: openFPGALoader --board ulx3s {routed.bitstream}; or fujprog {routed.bitstream}"
    )
    text = routed.text()
    assert f"clock {routed.megahertz:g} MHz, measured: routed for {routed.routed_mhz:.1f} MHz" in text
    assert "nextpnr does not time the path inside a multiplier block" in text
    check_netlist(built, routed.netlist, routed.clocks_per_bit)


@pytest.mark.long
def test_iiwa14_s_inverse_dynamics_is_routed_for_100_mhz(designs: Path) -> None:
    goal = Goal(1e-3, dsp=MULT18X18)
    built = build(robots.load("iiwa14"), "inverse_dynamics", ii=16, goal=goal, axi=Axi(32), folder=designs)
    routed = routes.bitstream(built, ULX3S, designs.parent / "ulx3s" / built.folder.name)
    assert routed.routed_mhz >= routed.megahertz >= 100.0
