"""FPGA boards, each described by a file: `load("vcu118")` reads hw/boards/vcu118.toml."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynagate.base.errors import ArgumentError, Error
from dynagate.base.nearest import nearest
from dynagate.base.storage import read_file
from dynagate.base.structure import structured
from dynagate.fixedpoint.wordlength.goal import MULTIPLIERS, Multiplier
from dynagate.hw.rtl.axi import PER_BATCH, PER_SAMPLE, WIDTHS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOOLS = {"vivado-xdma": "vivado", "vitis": "v++", "zynq": "vivado"}
"""Program of the vendor that each flow needs on the path."""
LINKS = ("xdma", "xrt", "pynq", "uart")
"""Kinds of links between the host and a board."""


@dataclass(frozen=True)
class FlowRow:
    """Properties of the boards of one flow."""

    link: str
    """Kind of the link."""
    fields: tuple[str, ...]
    """Fields that a board's file must have, although boards of other flows may lack them."""
    toolchain: str
    """Subclass of `hw.targets.toolchain.Toolchain` that makes the bitstream, as "module:class"."""
    cuts_products: bool = False
    """Whether the tools divide a product again if the board's multiplier blocks are smaller than the gateware assumes.
    """


_VENDOR, _FREE = "dynagate.hw.targets.project:VendorTools", "dynagate.hw.targets.routes:FreeTools"
FLOWS = {
    "vivado-xdma": FlowRow(
        "xdma",
        ("board_part", "link.pcie", "interfaces.pcie", "interfaces.clock", "interfaces.reset"),
        _VENDOR,
        cuts_products=True,
    ),
    "vitis": FlowRow("xrt", ("platform", "memory_bank", "link.pcie"), _VENDOR, cuts_products=True),
    "zynq": FlowRow(
        "pynq",
        ("board_part", "link.memory", "addresses.axi_dma_0", "addresses.accelerator_0"),
        _VENDOR,
        cuts_products=True,
    ),
    "ecp5": FlowRow(
        "uart",
        (
            *("oscillator_mhz", "nextpnr.package", "nextpnr.speed", "link.serial"),
            *("pins.clk_25mhz", "pins.ftdi_rxd", "pins.ftdi_txd"),
        ),
        _FREE,
    ),
    "nexus": FlowRow("uart", ("oscillator_mhz", "link.serial", "pins.clock", "pins.rx", "pins.tx"), _FREE),
    "gowin": FlowRow("uart", ("oscillator_mhz", "nextpnr", "link.serial", "pins.clock", "pins.rx", "pins.tx"), _FREE),
    "gatemate": FlowRow("uart", ("oscillator_mhz", "link.serial", "pins.clock", "pins.rx", "pins.tx"), _FREE),
}
"""Properties of each flow, by name."""
_NAME = re.compile(r"\w[\w.:-]*", flags=re.ASCII), "letters, digits and _ . : -"
"""Pattern of names in a board's file, and its description."""
_WORDS = re.compile(r"\w[\w.:+ -]*", flags=re.ASCII), "letters, digits, blanks and _ . : + -"
"""Pattern of texts with blanks."""
_BANK = re.compile(r"\w+(\[[0-9]+(:[0-9]+)?\])?", flags=re.ASCII), "letters, digits and _, as DDR[0] or HBM[0:3]"
"""Pattern of memory banks."""
_PART = re.compile(r"\w[\w.:/-]*", flags=re.ASCII), "letters, digits and _ . : / -"
"""Pattern of ordering codes."""
_SCRIPTS = {"part": _PART, "name": _WORDS, "title": _WORDS, "connections": _WORDS, "memory_bank": _BANK}
"""Patterns of fields that go into scripts; fields that are not listed match `_NAME`.

No match is code in Tcl, make or a shell, and none is an option.
"""
_FOLDER = Path(__file__).parent


class BoardError(Error, ValueError):
    """No such board, or a board's file with errors; the text names the file and the field."""


@dataclass(frozen=True)
class BoardResources:
    """Resources of the whole device."""

    multiplier: str
    """Type of the multiplier blocks, a key of `fixedpoint.wordlength.goal.MULTIPLIERS`."""
    dsp: int
    """Number of multiplier blocks."""
    lut_inputs: int
    """Inputs of a lookup table."""
    lut: int
    """Number of lookup tables."""
    ff: int
    """Number of flip-flops."""
    bram: int
    """Number of block RAMs."""
    bram_kbit: int
    """Kilobits of a block RAM."""

    @property
    def blocks(self) -> Multiplier:
        """Return the type of the multiplier blocks."""
        return MULTIPLIERS[self.multiplier]


@dataclass(frozen=True)
class Pcie:
    """A PCI Express link."""

    gigatransfers: float
    """Gigatransfers per second and lane."""
    lanes: int
    """Number of lanes."""
    payload: int = 256
    """Payload bytes of a packet (the host's MaxPayload)."""

    ENCODING = 128 / 130  # of generations 3 to 5
    OVERHEAD = 4 + 16 + 4  # bytes of a packet: STP token with the sequence number, header with 64-bit address, LCRC

    @property
    def bytes_per_second(self) -> float:
        """Return the bytes per second in each direction, in packets of full payload.

        Acknowledgements, flow control and delays of the host are left out.
        """
        return self._raw * self.payload / (self.payload + self.OVERHEAD)

    @property
    def _raw(self) -> float:
        return self.gigatransfers * 1e9 * self.lanes * self.ENCODING / 8

    @property
    def derivation(self) -> str:
        """Return how the rate is computed, as text."""
        return (
            f"PCIe {self.gigatransfers:g} GT/s × {self.lanes} lanes × 128/130 / 8 = {self._raw / 1e9:.2f} GB/s; "
            f"× {self.payload} / ({self.payload} + {self.OVERHEAD}) bytes of a packet that are payload"
        )


@dataclass(frozen=True)
class MemoryBus:
    """Memory of a processor on the same chip, which both directions share."""

    bits: int
    """Bits of the memory bus."""
    megatransfers: float
    """Megatransfers per second."""

    @property
    def bytes_per_second(self) -> float:
        """Return the bytes per second in each direction: half of the bus' peak.

        Refresh, row changes and accesses of the processor are left out.
        """
        return self.bits / 8 * self.megatransfers * 1e6 / 2

    @property
    def derivation(self) -> str:
        """Return how the rate is computed, as text."""
        return f"memory of {self.bits} bits × {self.megatransfers:g} MT/s / 8, half of it each way"


@dataclass(frozen=True)
class UartBridge:
    """An asynchronous serial line."""

    baud: int
    """Bits per second; ten bits (start, eight data, stop) are a byte."""

    @property
    def bytes_per_second(self) -> float:
        """Return the bytes per second in each direction, without pauses between bytes."""
        return self.baud / 10

    @property
    def derivation(self) -> str:
        """Return how the rate is computed, as text."""
        return f"{self.baud} baud / 10 bits of a byte"


@dataclass(frozen=True)
class BoardLink:
    """Link between the host and a board. One of `pcie`, `memory` and `serial` limits its rate."""

    kind: str
    """One of LINKS."""
    width: int
    """Bits of the streams at the shell."""
    tlast: str
    """Unit that TLAST ends: "sample" or "batch"."""
    pcie: Pcie | None = None
    memory: MemoryBus | None = None
    serial: UartBridge | None = None

    @property
    def limit(self) -> Pcie | MemoryBus | UartBridge:
        """Return the part that limits the rate, with its `bytes_per_second` in each direction and the `derivation`."""
        (limit,) = (limit for limit in (self.pcie, self.memory, self.serial) if limit is not None)
        return limit


@dataclass(frozen=True)
class Nextpnr:
    """Options of nextpnr."""

    device: str
    """Device of ECP5 such as 85k, or family of Gowin such as GW2A-18C."""
    package: str | None = None
    """Package such as CABGA381; only for ECP5."""
    speed: int | None = None
    """Speed grade from 6 to 8; only for ECP5."""


@dataclass(frozen=True)
class Board:
    """A board."""

    name: str
    """Name of the file, and value of --board."""
    title: str
    """Name in texts for people."""
    part: str
    """Ordering code of the device."""
    flow: str
    """One of FLOWS."""
    clock_mhz: float
    """Clock of the datapath in MHz, an assumption until a routed design confirms it."""
    share: float
    """Share of every resource that a design may take, 0 to 1."""
    resources: BoardResources
    link: BoardLink
    dies: int = 1
    """Number of dies (SLR) of the device. A design takes one of them."""
    die: int = 0
    """Die for the accelerator, counted from 0. The streams cross from other dies through registers."""
    board_part: str | None = None
    """Vendor's board file."""
    platform: str | None = None
    """Platform of Vitis."""
    oscillator_mhz: float | None = None
    """Clock input of the device in MHz."""
    nextpnr: Nextpnr | None = None
    """Options of nextpnr."""
    pins: dict[str, str] = field(default_factory=dict)
    """Package pins by port."""
    interfaces: dict[str, str] = field(default_factory=dict)
    """Names of the board file's interfaces, by the name in our scripts."""
    connections: str | None = None
    """Property `board_connections` of a module on a carrier board."""
    addresses: dict[str, int] = field(default_factory=dict)
    """Base addresses in the processor's address map, by cell."""
    memory_bank: str | None = None
    """Memory bank of a card, by Vitis' name."""
    core: dict[str, int] = field(default_factory=dict)
    """Shape and number of the processor cores that fill a fair share of the board (`hw.processor.board`)."""

    def allowed(self, resource: str) -> int:
        """Return how many of a resource, "dsp", "lut", "ff" or "bram", a design may take."""
        return int(getattr(self.resources, resource) * self.share)


def names() -> list[str]:
    """Return the names of the boards that `load` accepts."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def is_path(text: str) -> bool:
    """Return whether `load` treats a text as the path of a file, and not as the name of a board."""
    return text.endswith(".toml") or "/" in text


def load(name: str) -> Board:
    """Return a board.

    Args:
        name: Name of a file in hw/boards without .toml, or the path of a file, which ends in .toml or has a slash.

    Raises:
        BoardError: There is no such board, or its file has errors.
    """
    if is_path(name):
        return read_board(Path(name))
    if name not in names():
        raise BoardError(
            f"no board '{name}'{nearest(name, names())}; expected one of {', '.join(names())}", code="DG-BOARD-001"
        )
    return read_board(_FOLDER / f"{name}.toml")


def read_board(path: Path) -> Board:
    """Return the board that a file describes, named after the file.

    Raises:
        BoardError: The file cannot be read or has errors.
    """
    try:
        content = tomllib.loads(read_file(path).decode())
    except (OSError, ValueError, RecursionError) as error:
        raise BoardError(f"{path} is not a board's file: {error}; expected TOML", code="DG-BOARD-002") from None
    try:
        board = structured({**content, "name": path.stem}, Board, "board")
    except ArgumentError as error:
        raise BoardError(f"{path} is not a board's file: {error}", code="DG-BOARD-003") from None
    for fault in _faults(board):
        raise BoardError(f"{path}: {fault}", code="DG-BOARD-004")
    return board


def _faults(board: Board) -> list[str]:
    """Return all values of a board description that are out of range."""
    link, resources = board.link, board.resources
    faults = [
        f"{name} {value!r}; expected {expected}"
        for name, value in _texts(board)
        for pattern, expected in (_SCRIPTS.get(name, _NAME),)
        if not pattern.fullmatch(value)
    ]
    faults += [
        f"{name} {value!r}; expected one of {', '.join(map(str, allowed))}"
        for name, value, allowed in (
            ("flow", board.flow, tuple(FLOWS)),
            ("resources.multiplier", resources.multiplier, tuple(MULTIPLIERS)),
            ("resources.lut_inputs", resources.lut_inputs, (4, 6)),
            ("link.kind", link.kind, LINKS),
            ("link.width", link.width, WIDTHS),
            ("link.tlast", link.tlast, (PER_SAMPLE, PER_BATCH)),
        )
        if value not in allowed
    ]
    if sum(limit is not None for limit in (link.pcie, link.memory, link.serial)) != 1:
        faults.append("link has not one limit; expected one table of link.pcie, link.memory and link.serial")
    elif link.limit.bytes_per_second <= 0:
        faults.append(f"link of {link.limit.bytes_per_second:g} bytes per second; expected more than 0")
    if not 0 < board.share <= 1:
        faults.append(f"share {board.share:g}; expected more than 0, at most 1")
    if board.dies < 1:
        faults.append(f"dies {board.dies}; expected 1 or more")
    elif not 0 <= board.die < board.dies:
        faults.append(f"die {board.die}; expected 0 to {board.dies - 1} for a device of {board.dies} dies")
    elif board.share > 1 / board.dies:
        faults.append(f"share {board.share:g}; expected at most 1 of {board.dies} dies, {1 / board.dies:.3g}")
    if board.clock_mhz <= 0:
        faults.append(f"clock_mhz {board.clock_mhz:g}; expected more than 0")
    faults += [
        f"resources.{name} {count}; expected 1 or more"
        for name in ("dsp", "lut", "ff", "bram", "bram_kbit")
        if (count := getattr(resources, name)) < 1
    ]
    if not faults:
        faults += [
            f"share {board.share:g} leaves none of resources.{name} {getattr(resources, name)}; expected a larger share"
            for name in ("dsp", "lut", "ff")
            if board.allowed(name) < 1
        ]
    if (row := FLOWS.get(board.flow)) is not None:
        if link.kind != row.link:
            faults.append(f"link.kind {link.kind!r}; expected {row.link!r} in a board of flow {board.flow}")
        faults += [
            f"no {name}; expected it in a board of flow {board.flow}" for name in row.fields if not _has(board, name)
        ]
    return faults


def _texts(board: Board) -> list[tuple[str, str]]:
    """Return the texts that go into scripts, by field."""
    fields = ("name", "title", "part", "board_part", "platform", "connections", "memory_bank")
    named = [(name, getattr(board, name)) for name in fields]
    if board.nextpnr is not None:
        named += [("nextpnr.device", board.nextpnr.device), ("nextpnr.package", board.nextpnr.package)]
    named += [(f"pins.{port}", pin) for port, pin in board.pins.items()]
    named += [(f"interfaces.{ours}", theirs) for ours, theirs in board.interfaces.items()]
    return [(name, text) for name, text in named if text is not None]


def _has(board: Board, name: str) -> bool:
    """Return whether a board has a field, or an entry of a field, such as link.pcie."""
    value: Any = board
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part)
    return value is not None
