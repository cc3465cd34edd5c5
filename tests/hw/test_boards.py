"""Boards: their files, the interval that is chosen for them, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from dynagate import Region, robots, trace
from dynagate.design.words import beats
from dynagate.fixedpoint.assign import assign
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.hw import boards
from dynagate.hw.boards import Board, BoardError
from dynagate.hw.plan.plan import Plan, plan
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.targets.board_fit import LONGEST, BoardFit, FitError, fastest_plan, uses
from dynagate.hw.targets.families import FAMILIES
from dynagate.hw.targets.project import write_project
from dynagate.hw.targets.synth import synthesize

from tests import tcl
from tests.projects import designed
from tests.vivado import Vivado

FOLDER = Path(boards.__file__).parent


@pytest.fixture(scope="module")
def formatted() -> FormattedGraph:
    arm = robots.load("two_joint_arm")
    return assign(trace(arm, "forward_dynamics_gradient"), Region.of(arm))


def shrunk(board: Board, **resources: int) -> Board:
    """The board with so many of some resources, all of them allowed."""
    return replace(board, share=1.0, resources=replace(board.resources, **resources))


@pytest.mark.parametrize("name", boards.names())
def test_boards_are_what_their_files_say(name: str) -> None:
    board = boards.load(name)
    text = (FOLDER / f"{name}.toml").read_text()
    assert board.name == name
    assert f'part = "{board.part}"' in text
    assert text.startswith("# ")  # the documents that the figures are from
    measured = board.flow in FAMILIES and board.flow != "ecp5"
    assert re.search(rf"^clock_mhz = \d+ # {'the oscillator' if measured else 'assumed'}", text, re.M)
    assert 0 < board.allowed("dsp") < board.resources.dsp
    assert board.link.limit.derivation


def test_there_are_these_boards() -> None:
    vendor = ["kv260", "pynq-z2", "u250", "u50", "vcu118"]
    assert boards.names() == sorted([*vendor, "ulx3s", "crosslink-nx-evn", "gatemate-evb", "tang-nano-20k"])


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [
        ("vcu118", 8 * 16 * 128 / 130 / 8 * 256 / 280),  # GT/s, lanes, encoding, bits of a byte, payload of a packet
        ("pynq-z2", 1.05 * 2 / 2),  # GT/s of 16 bits, each way half
        ("kv260", 2.4 * 8 / 2),
        ("ulx3s", 3e6 / 10 / 1e9),
    ],
)
def test_link_rates_by_hand(name: str, gigabytes: float) -> None:
    assert boards.load(name).link.limit.bytes_per_second == pytest.approx(gigabytes * 1e9)


FAULTS = [
    ('flow = "vivado-xdma"', 'flow = "quartus"', "flow 'quartus'; expected one of vivado-xdma, vitis, zynq, ecp5"),
    ('multiplier = "DSP48E2"', 'multiplier = "DSP58"', "resources.multiplier 'DSP58'; expected one of DSP48E2"),
    ("dsp = 6840", "dsp = 0", "resources.dsp 0; expected 1 or more"),
    ("dsp = 6840", 'dsp = "6840"', "expected int @ board.resources.dsp"),
    ("lut_inputs = 6", "lut_inputs = 5", "resources.lut_inputs 5; expected one of 4, 6"),
    ("dsp = 6840", "dsp = 3", "share 0.27 leaves none of resources.dsp 3; expected a larger share"),
    ("share = 0.27", "share = 1.5", "share 1.5; expected more than 0, at most 1"),
    ("dies = 3", "dies = 0", "dies 0; expected 1 or more"),
    ("die = 1", "die = 3", "die 3; expected 0 to 2 for a device of 3 dies"),
    ("share = 0.27", "share = 0.5", "share 0.5; expected at most 1 of 3 dies, 0.333"),
    ("clock_mhz = 250", "clock_mhz = 0", "clock_mhz 0; expected more than 0"),
    ("width = 512", "width = 500", "link.width 500; expected one of 32, 64, 128, 256, 512"),
    ('tlast = "batch"', 'tlast = "never"', "link.tlast 'never'; expected one of sample, batch"),
    ("[link.pcie]", "[link.usb]", "extra fields found.*usb"),
    ("gigatransfers = 8.0", "gigatransfers = 0.0", "link of 0 bytes per second"),
    ("lanes = 16", "lanes = true", "expected int @ board.link.pcie.lanes"),
    ('title = "AMD VCU118"', "", "required field missing @ board.title"),
    ('title = "AMD VCU118"', "title", "is not a board's file: .*; expected TOML"),
    (
        "[link.pcie]",
        "[link.serial]\nbaud = 9600\n[link.pcie]",
        "link has not one limit; expected one table of link.pcie",
    ),
    ('reset = "pcie_perstn"', "", "no interfaces.reset; expected it in a board of flow vivado-xdma"),
    ('"xcvu9p-flga2104-2L-e"', '"xc; exec rm"', "part 'xc; exec rm'; expected letters, digits"),
    ('clock = "pcie_refclk"', 'clock = "[exec rm]"', "interfaces.clock .*; expected letters, digits"),
]


@pytest.mark.parametrize(("old", "new", "message"), FAULTS, ids=range(len(FAULTS)))
def test_a_file_that_is_no_board_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = (FOLDER / "vcu118.toml").read_text()
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(BoardError, match=message) as error:
        boards.read_board(path)
    assert str(path) in str(error.value)


def test_an_unknown_board_is_named() -> None:
    message = (
        r"no board 'vcu119' \(did you mean 'vcu118'\?\); expected one of crosslink-nx-evn, gatemate-evb, .*, vcu118"
    )
    with pytest.raises(BoardError, match=message):
        boards.load("vcu119")


def test_a_new_board_is_one_file(designs: Path, tmp_path: Path) -> None:
    """A VCU118 with half the lanes, by its file alone, up to Vivado's script."""
    text = (FOLDER / "vcu118.toml").read_text()
    text = text.replace("lanes = 16", "lanes = 8").replace("width = 512", "width = 256")
    path = tmp_path / "half.toml"
    path.write_text(text)
    board = boards.read_board(path)
    folder = write_project(*designed(board, designs), tmp_path / "projects").folder
    assert folder.name.endswith("-half")
    vivado = Vivado(folder).run("build.tcl", tcl.engines()[0])
    assert vivado.cells["xdma_0"].settings["pl_link_cap_max_link_width"] == "X8"
    assert vivado.cells["xdma_0"].interfaces["M_AXIS_H2C_0"].width == 256


@pytest.mark.parametrize(
    ("multiplier", "wide", "narrow", "blocks"),
    [
        ("DSP48E2", 24, 24, 2),
        ("DSP48E1", 24, 24, 2),
        ("18x18", 24, 24, 4),
        ("DSP48E2", 27, 18, 1),
        ("DSP48E1", 27, 18, 2),
        ("18x18", 18, 18, 1),
        ("18x18", 27, 18, 2),
        ("DSP48E2", 30, 24, 2),
        ("DSP48E1", 30, 24, 2),
        ("DSP48E1", 30, 27, 4),
        ("DSP48E2", 32, 32, 4),
    ],
)
def test_blocks_of_a_product_by_multiplier(multiplier: str, wide: int, narrow: int, blocks: int) -> None:
    from dynagate.hw.targets.board_fit import blocks_of_product

    board = boards.load("vcu118")
    assert (
        blocks_of_product(wide, narrow, replace(board, resources=replace(board.resources, multiplier=multiplier)))
        == blocks
    )


@pytest.mark.long
@pytest.mark.parametrize(("family", "name"), [("xcup", "vcu118"), ("xc7", "pynq-z2"), ("ecp5", "ulx3s")])
def test_blocks_are_those_of_the_netlist(family: str, name: str, designs: Path) -> None:
    """And the estimated lookup tables are not far from the netlist's."""
    import dynagate

    axi = Axi(boards.load(name).link.width, boards.load(name).link.tlast)
    built = dynagate.build(robots.load("two_joint_arm"), "forward_dynamics_gradient", ii=8, axi=axi, folder=designs)
    synthesis = synthesize(built, family)
    expected = uses(built.hardware.plan, boards.load(name))
    assert synthesis.multipliers == expected["dsp"]
    # a CCU2C is two tables, and a TRELLIS_DPR16X4 takes two slices with their four
    tables = synthesis.lookup_tables + 2 * synthesis.count("CCU2C") + 3 * synthesis.count("TRELLIS_DPR")
    assert tables == pytest.approx(expected["lut"], rel=0.25)


def brute_force(formatted: FormattedGraph, board: Board, least: int) -> int | None:
    """The shortest interval from `least` up that fits, by trying every one."""

    def fits(planned: Plan) -> bool:
        return all(count <= board.allowed(name) for name, count in uses(planned, board).items())

    return next((ii for ii in range(least, LONGEST + 1) if fits(plan(formatted, ii))), None)


@pytest.mark.parametrize("dsp", [20, 30, 47, 64, 200])
def test_the_shortest_interval_that_fits_is_taken(dsp: int, formatted: FormattedGraph) -> None:
    board = shrunk(boards.load("vcu118"), dsp=dsp)
    choice = fastest_plan(formatted, board)
    least = 2  # by the link
    assert choice.plan.ii == brute_force(formatted, board, least)
    if choice.plan.ii > least:
        assert f"II = {choice.plan.ii - 1} takes" in choice.reason
        assert f"DSP48E2, vcu118 allows {dsp}" in choice.reason
    else:
        assert choice.reason.startswith("the link takes 1.")
    assert choice.uses == uses(choice.plan, board)


def test_the_stream_bounds_the_interval(formatted: FormattedGraph) -> None:
    board = boards.load("pynq-z2")
    longest = beats(len(formatted.graph.output_nodes), 64)
    choice = fastest_plan(formatted, board)
    assert choice.plan.ii == longest
    assert choice.reason == f"the stream of 64 bits takes {longest} cycles for the result of a sample"


def test_on_a_slow_link_the_design_that_takes_least_is_taken(formatted: FormattedGraph) -> None:
    board = boards.load("ulx3s")
    choice = fastest_plan(formatted, board)
    shares = {
        ii: max(n / board.allowed(r) for r, n in uses(plan(formatted, ii), board).items()) for ii in (1, 8, LONGEST)
    }
    assert max(n / board.allowed(r) for r, n in choice.uses.items()) <= min(shares.values())
    assert re.match(
        r"the link takes \d+\.\d cycles for the \d+ bytes of a sample's result, more than any", choice.reason
    )
    assert choice.rates.decided_by == "link"


def test_a_design_that_does_not_fit_is_refused_with_the_interval_that_does(formatted: FormattedGraph) -> None:
    board = shrunk(boards.load("vcu118"), dsp=30)
    fitting = brute_force(formatted, board, 1)
    with pytest.raises(FitError) as error:
        fastest_plan(formatted, board, ii=2)
    assert error.value.text == (
        "two_joint_arm forward_dynamics_gradient at II = 2 takes 62 DSP48E2, vcu118 allows 30 (100% of 30); "
        f"--ii {fitting} fits"
    )
    assert fastest_plan(formatted, board, ii=fitting).plan.ii == fitting


@pytest.mark.parametrize(("resource", "kind"), [("dsp", "DSP48E2"), ("lut", "lookup tables"), ("ff", "flip-flops")])
def test_a_design_that_fits_at_no_interval_is_refused(resource: str, kind: str, formatted: FormattedGraph) -> None:
    board = shrunk(boards.load("vcu118"), **{resource: 5})
    for interval in (None, 4):
        with pytest.raises(FitError, match=f"takes [0-9]+ {kind}, vcu118 allows 5.*expected a larger board"):
            fastest_plan(formatted, board, ii=interval)


def test_rates_are_arithmetic(formatted: FormattedGraph) -> None:
    choice = fastest_plan(formatted, boards.load("vcu118"), ii=4, clock_mhz=200)
    longest = beats(len(formatted.graph.output_nodes), 512)
    assert choice.rates.datapath == 200e6 / 4
    assert choice.rates.stream == 200e6 / longest
    assert choice.rates.link == pytest.approx(14.4037e9 / (64 * longest), rel=1e-4)
    assert (choice.rates.end_to_end, choice.rates.decided_by) == (50e6, "datapath")


def test_a_slower_clock_asks_for_a_shorter_interval(formatted: FormattedGraph) -> None:
    """The link feeds the same samples in fewer of its cycles."""

    def chosen(megahertz: float) -> BoardFit:
        return fastest_plan(formatted, boards.load("vcu118"), clock_mhz=megahertz)

    assert chosen(100).plan.ii < chosen(500).plan.ii
