"""FPGA boards: one declarative file each. `load("vcu118")` reads hw/boards/vcu118.toml."""

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
"""The vendor's program of a flow, which must be on the path."""
LINKS = ("xdma", "xrt", "pynq", "uart")
"""How the host speaks to the board."""


@dataclass(frozen=True)
class FlowRow:
    """How bitstreams are made for the boards of a flow."""

    link: str
    """Kind of the link of such a board."""
    fields: tuple[str, ...]
    """Fields of the board's file that boards of other flows may lack."""
    toolchain: str
    """The subclass of `hw.targets.toolchain.Toolchain` that makes the bitstream, as "module:class"."""
    cuts_products: bool = False
    """Whether the tools cut the products of the gateware again where the multiplier blocks of the board are smaller."""


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
"""How a bitstream is made, by the flow of a board."""
_NAME = re.compile(r"\w[\w.:-]*", flags=re.ASCII), "letters, digits and _ . : -"
_WORDS = re.compile(r"\w[\w.:+ -]*", flags=re.ASCII), "letters, digits, blanks and _ . : + -"
_BANK = re.compile(r"\w+(\[[0-9]+(:[0-9]+)?\])?", flags=re.ASCII), "letters, digits and _, as DDR[0] or HBM[0:3]"
_PART = re.compile(r"\w[\w.:/-]*", flags=re.ASCII), "letters, digits and _ . : / -"
_SCRIPTS = {"part": _PART, "name": _WORDS, "title": _WORDS, "connections": _WORDS, "memory_bank": _BANK}
"""How a field may look that goes into scripts; those that are not here are a `_NAME`. Nothing of it is code in Tcl,
make or a shell, and nothing is an option."""
_FOLDER = Path(__file__).parent


class BoardError(Error, ValueError):
    """No such board, or a board's file that is not one; the text names the file and the field."""


@dataclass(frozen=True)
class BoardResources:
    """Resources of the whole device.

    multiplier: name of a row of `fixedpoint.wordlength.goal.MULTIPLIERS`. dsp: multiplier blocks of this kind. lut:
    lookup tables of `lut_inputs` inputs. ff: flip-flops. bram: blocks of memory, each of `bram_kbit` kilobits.
    """

    multiplier: str
    dsp: int
    lut_inputs: int
    lut: int
    ff: int
    bram: int
    bram_kbit: int

    @property
    def blocks(self) -> Multiplier:
        """The multiplier block."""
        return MULTIPLIERS[self.multiplier]


@dataclass(frozen=True)
class Pcie:
    """A PCI Express link. gigatransfers: per second and lane. payload: bytes of a packet (the host's MaxPayload)."""

    gigatransfers: float
    lanes: int
    payload: int = 256

    ENCODING = 128 / 130  # of generations 3 to 5
    OVERHEAD = 4 + 16 + 4  # bytes of a packet: STP token with the sequence number, header with 64-bit address, LCRC

    @property
    def bytes_per_second(self) -> float:
        """Each way, packets of full payload; without acknowledgements, flow control and the host's delays."""
        return self._raw * self.payload / (self.payload + self.OVERHEAD)

    @property
    def _raw(self) -> float:
        return self.gigatransfers * 1e9 * self.lanes * self.ENCODING / 8

    @property
    def derivation(self) -> str:
        return (
            f"PCIe {self.gigatransfers:g} GT/s × {self.lanes} lanes × 128/130 / 8 = {self._raw / 1e9:.2f} GB/s; "
            f"× {self.payload} / ({self.payload} + {self.OVERHEAD}) bytes of a packet that are payload"
        )


@dataclass(frozen=True)
class MemoryBus:
    """The memory of a processor on the same chip, which both directions share. bits: of its bus. megatransfers: per
    second."""

    bits: int
    megatransfers: float

    @property
    def bytes_per_second(self) -> float:
        """Each way, half of the bus' peak; without refresh, row changes and the processor's own accesses."""
        return self.bits / 8 * self.megatransfers * 1e6 / 2

    @property
    def derivation(self) -> str:
        return f"memory of {self.bits} bits × {self.megatransfers:g} MT/s / 8, half of it each way"


@dataclass(frozen=True)
class UartBridge:
    """An asynchronous serial line. baud: bits per second; ten of them are a byte (start, eight, stop)."""

    baud: int

    @property
    def bytes_per_second(self) -> float:
        """Each way, no pause between bytes."""
        return self.baud / 10

    @property
    def derivation(self) -> str:
        return f"{self.baud} baud / 10 bits of a byte"


@dataclass(frozen=True)
class BoardLink:
    """How the host speaks to the board. kind: one of LINKS. width: bits of the streams at the shell. tlast: what TLAST
    ends, a "sample" or a "batch". One of pcie, memory and serial says what limits the rate."""

    kind: str
    width: int
    tlast: str
    pcie: Pcie | None = None
    memory: MemoryBus | None = None
    serial: UartBridge | None = None

    @property
    def limit(self) -> Pcie | MemoryBus | UartBridge:
        """The part that limits the rate, with its bytes_per_second each way and the derivation in words."""
        (limit,) = (limit for limit in (self.pcie, self.memory, self.serial) if limit is not None)
        return limit


@dataclass(frozen=True)
class Nextpnr:
    """Options of nextpnr. device: of ECP5 such as 85k, of Gowin the family, such as GW2A-18C. Only for ECP5: package,
    such as CABGA381, and speed, a grade from 6 to 8."""

    device: str
    package: str | None = None
    speed: int | None = None


@dataclass(frozen=True)
class Board:
    """A board.

    name: of the file, and of --board. title: for people. part: the device's ordering code. flow: one of FLOWS.
    clock_mhz: of the datapath; an assumption until a routed design shows it. share: part of every resource that a
    design may take. board_part: the vendor's board file. platform: of Vitis. oscillator_mhz: clock input of the device.
    pins: package pins by port. interfaces: names of the board file's interfaces by our own. connections: the
    `board_connections` property of a module on a carrier. addresses: of the processor's address map, by cell.
    memory_bank: of a card, by Vitis' name. core: of the processor's cores that fill a fair share, their shape and how
    many (`hw.processor.board`).
    """

    name: str
    title: str
    part: str
    flow: str
    clock_mhz: float
    share: float
    resources: BoardResources
    link: BoardLink
    board_part: str | None = None
    platform: str | None = None
    oscillator_mhz: float | None = None
    nextpnr: Nextpnr | None = None
    pins: dict[str, str] = field(default_factory=dict)
    interfaces: dict[str, str] = field(default_factory=dict)
    connections: str | None = None
    addresses: dict[str, int] = field(default_factory=dict)
    memory_bank: str | None = None
    core: dict[str, int] = field(default_factory=dict)

    def allowed(self, resource: str) -> int:
        """How many a design may take of "dsp", "lut", "ff" or "bram"."""
        return int(getattr(self.resources, resource) * self.share)


def names() -> list[str]:
    """The boards that `load` knows."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def is_path(text: str) -> bool:
    """Whether `load` takes it for a file's path, not for the name of a board."""
    return text.endswith(".toml") or "/" in text


def load(name: str) -> Board:
    """The board of hw/boards/<name>.toml, or of a file whose path ends in .toml or has a slash. Raises BoardError."""
    if is_path(name):
        return read(Path(name))
    if name not in names():
        raise BoardError(f"no board '{name}'{nearest(name, names())}; expected one of {', '.join(names())}")
    return read(_FOLDER / f"{name}.toml")


def read(path: Path) -> Board:
    """The board of a file, named after it. Raises BoardError."""
    try:
        content = tomllib.loads(read_file(path).decode())
    except (OSError, ValueError, RecursionError) as error:
        raise BoardError(f"{path} is not a board's file: {error}; expected TOML") from None
    try:
        board = structured({**content, "name": path.stem}, Board, "board")
    except ArgumentError as error:
        raise BoardError(f"{path} is not a board's file: {error}") from None
    for fault in _faults(board):
        raise BoardError(f"{path}: {fault}")
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
    """The texts that go into scripts, by field."""
    fields = ("name", "title", "part", "board_part", "platform", "connections", "memory_bank")
    named = [(name, getattr(board, name)) for name in fields]
    if board.nextpnr is not None:
        named += [("nextpnr.device", board.nextpnr.device), ("nextpnr.package", board.nextpnr.package)]
    named += [(f"pins.{port}", pin) for port, pin in board.pins.items()]
    named += [(f"interfaces.{ours}", theirs) for ours, theirs in board.interfaces.items()]
    return [(name, text) for name, text in named if text is not None]


def _has(board: Board, name: str) -> bool:
    """Whether a board has a field, or an entry of one, named such as link.pcie."""
    value: Any = board
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part)
    return value is not None
