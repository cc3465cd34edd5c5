"""Boards of other families that free tools route: their constraints, what is refused, and routed bitstreams."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from dynagate import build, robots
from dynagate.base.errors import ArgumentError
from dynagate.fixedpoint.assign import Policy
from dynagate.hw import boards, routes
from dynagate.hw.axi import Axi
from dynagate.hw.boards import FREE
from dynagate.hw.build import Build
from dynagate.hw.families import FAMILIES, free_first_carries
from dynagate.hw.netlist import rtlil_text

FREE_BOARDS = [name for name in boards.names() if boards.load(name).flow in FREE]
OTHERS = [name for name in FREE_BOARDS if boards.load(name).flow != "ecp5"]


@pytest.fixture(scope="module")
def small(designs: Path) -> Build:
    arm = robots.load("two_joint_arm")
    return build(arm, "inverse_dynamics", ii=16, policy=Policy(word=18), axi=Axi(32), folder=designs)


def test_each_free_flow_has_a_board_and_a_family() -> None:
    assert {boards.load(name).flow for name in FREE_BOARDS} == set(FREE) == set(FAMILIES)


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


def test_an_oscillator_without_a_loop_is_the_clock_or_is_refused(small: Build, tmp_path: Path) -> None:
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
def test_a_small_design_is_routed(name: str, small: Build, tmp_path: Path) -> None:
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
