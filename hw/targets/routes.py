"""Make the bitstream of a design with free tools: Yosys, nextpnr and a packer, all from Python wheels.

The boards belong to a family of `hw.targets.families`. The bitstream holds the design's accelerator behind a serial
line. The placed and routed netlist is also written as Verilog, so that it can be simulated against the integers
(`dynagate.sim.line`).
"""

from __future__ import annotations

import json
import math
import shlex
import shutil
import sysconfig
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amaranth.hdl import ClockDomain, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out
from dynagate.base.errors import ArgumentError
from dynagate.base.process import run
from dynagate.base.progress import Progress, quiet
from dynagate.base.untrusted import plain_text
from dynagate.design import files as design_files
from dynagate.design.files import BITSTREAM
from dynagate.design.words import WORD
from dynagate.hw.boards import Board, UartBridge, pll
from dynagate.hw.boards.scripts import rendered
from dynagate.hw.bodies.pipeline import Pipeline
from dynagate.hw.build import shell_of
from dynagate.hw.datasheet import markdown_table
from dynagate.hw.designs import Design
from dynagate.hw.export.netlist import rtlil_text
from dynagate.hw.export.yosys import YosysError, run_yosys
from dynagate.hw.plan.plan import Plan
from dynagate.hw.processor.isa.packets import longest_packet
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.shell.core_shell import CoreShell, check_shell
from dynagate.hw.rtl import uart
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.datapath import Datapath
from dynagate.hw.rtl.frames import BAUD
from dynagate.hw.targets.families import ASKED_MHZ, FAMILIES, Family
from dynagate.hw.targets.synth import SynthesisError, check_defined
from dynagate.hw.targets.toolchain import Toolchain
from dynagate.hw.units.latencies import dsp_blocks
from dynagate.hw.units.mult18x18 import Ecp5
from dynagate.hw.units.table import products_of

if TYPE_CHECKING:
    from dynagate.hw.processor.board import BoardCores
    from dynagate.hw.targets.board_fit import BoardFit

TOP = "board"
"""Name of the outermost module."""
LED, BOOT = "led_0", "wifi_gpio0"
"""Pins that a board may have: an LED that is on while the clock runs, and a pin that is held high.

The latter keeps a second processor of the board from loading another bitstream.
"""
README = "README.md"
"""Name of the instructions in the folder of a bitstream."""
SEEDS = (1, 2, 3)
"""Seeds of the placement that are tried in order."""


def multipliers(plan: Plan) -> int:
    """Return the 18 × 18 bit multiplier blocks of a plan."""
    limits = plan.schedule.problem.limits
    return sum(
        limits[name]
        * sum(dsp_blocks(widths[0], widths[1], Ecp5.multiplier) for widths in products_of(unit.kind, unit.key))
        for name, unit in plan.classes.items()
    )


@dataclass(frozen=True)
class Gateware:
    """Gateware behind the serial line."""

    modules: Callable[[], dict[str, Any]]
    """Function that returns the modules by name, each for a file of its own."""
    beats: int | None
    """Words of a sample; None if samples have different lengths."""
    longest: int = 0
    """Largest number of words of a sample, if `beats` is None."""
    blocks: int | None = None
    """Number of multiplier blocks; None if only synthesis counts them."""
    interval: int = 0
    """Initiation interval of a datapath in cycles."""
    title: str = "A processor's cores"
    """Title of README.md."""
    design: str | None = None
    """Text of design.json; None for a processor's cores."""

    @classmethod
    def of(cls, built: Design[Pipeline]) -> Gateware:
        """Return the gateware of a design.

        Raises:
            ArgumentError: The design has no AXI shell with 32-bit streams.
        """
        axi = built.design.axi
        if axi is None or axi.width != WORD:
            raise ArgumentError(
                f"{built.folder} has no AXI shell of {WORD} bits; expected a build with axi=Axi({WORD})",
                code="DG-SYNTH-014",
            )

        def modules() -> dict[str, Any]:
            datapath = Datapath(built.hardware.plan, built.design.device_hash)
            return {"datapath": datapath, "accelerator": shell_of(built, datapath)}

        title = f"{plain_text(built.robot.name)} {built.graph.name}"
        design = (built.folder / design_files.FILE).read_text(encoding="utf-8")
        return cls(modules, axi.beats.input, 0, multipliers(built.hardware.plan), built.hardware.plan.ii, title, design)

    @classmethod
    def of_cores(cls, core: Core, cores: int) -> Gateware:
        """Return a number of processor cores behind a serial line."""
        axi = Axi(WORD, words=core.stream_words)
        check_shell(core, axi, cores)
        return cls(lambda: {"accelerator": CoreShell(core, axi, cores, has_tlast=False)}, None, longest_packet(core))


def pins(board: Board) -> list[str]:
    """Return the pins that a design uses on a board."""
    return [*FAMILIES[board.flow].ports, *(pin for pin in (LED, BOOT) if pin in board.pins)]


class Top(wiring.Component):
    """Outermost module: the board's pins, the clock, and the modules `serial`, `accelerator` and `datapath` in other
    files.
    """

    def __init__(self, board: Board, clock: pll.Clock) -> None:
        self.board, self.source, self.ports = board, clock, FAMILIES[board.flow].ports
        super().__init__({pin: In(1) if pin in self.ports[:2] else Out(1) for pin in pins(board)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = sync = ClockDomain()
        locked, runs = Signal(), Signal()
        megahertz = self.board.oscillator_mhz
        assert megahertz is not None
        self.source.drive(m, megahertz, getattr(self, self.ports.clock), sync.clk, locked)
        m.submodules.lock = FFSynchronizer(locked, runs, reset_less=True)
        m.d.comb += sync.rst.eq(~runs)
        m.submodules.serial = Instance(
            uart.TOP,
            i_clk=sync.clk,
            i_rst=sync.rst,
            i_rx=getattr(self, self.ports.rx),
            o_tx=getattr(self, self.ports.tx),
        )
        m.d.comb += [getattr(self, pin).eq(runs) for pin in (LED, BOOT) if pin in pins(self.board)]
        return m


@dataclass(frozen=True)
class Routed:
    """A bitstream and the measurements of place and route."""

    bitstream: Path
    """File of the bitstream."""
    netlist: Path
    """Verilog netlist of Yosys' cells."""
    part: str
    """Ordering code of the device."""
    speed: int | None
    """Speed grade, if nextpnr needs one."""
    megahertz: float
    """Clock of the bitstream in MHz."""
    routed_mhz: float
    """Clock that the slowest routed path allows, in MHz."""
    limit_mhz: float | None
    """Bound of the multiplier block in MHz, if it is not timed."""
    slowest: str
    """Description of the slowest path."""
    seed: int
    """Seed of the placement."""
    seeds: dict[int, float]
    """MHz by tried seed."""
    baud: int
    """Bits per second of the serial line."""
    clocks_per_bit: int
    cells: dict[str, int]
    """Number of cells, by type."""
    versions: dict[str, str]
    """Version of each tool."""
    seconds: dict[str, float]
    """Wall time in seconds, by tool."""
    note: str = ""
    """Note on paths that the figures leave out."""

    @property
    def loading(self) -> str:
        """Return the command that loads the bitstream onto the board."""
        file = shlex.quote(str(self.bitstream))
        return f"to load it: openFPGALoader --board {self.bitstream.stem} {file}; or fujprog {file}"

    def text(self) -> str:
        """Return the measurements for a terminal."""
        cells = ", ".join(f"{count} {kind}" for kind, count in self.cells.items())
        tried = ", ".join(f"{mhz:.1f} MHz with seed {seed}" for seed, mhz in self.seeds.items())
        grade = "" if self.speed is None else f", speed grade {self.speed}"
        return "\n".join(
            [
                f"{self.bitstream}: {self.part}{grade}",
                f"  clock {self.megahertz:g} MHz, measured: routed for {self.routed_mhz:.1f} MHz with seed {self.seed}",
                f"  tried: {tried}",
                f"  slowest path: {self.slowest}",
                f"  serial line of {self.baud} baud, {self.clocks_per_bit} clocks a bit",
                f"  {cells}",
                f"  {', '.join(f'{tool} {number}' for tool, number in self.versions.items())}; "
                + ", ".join(f"{tool} {seconds:.0f} s" for tool, seconds in self.seconds.items()),
                *([f"  {self.note}"] if self.note else []),
            ]
        )


def bitstream(
    built: Design[Pipeline],
    board: Board,
    folder: Path,
    *,
    megahertz: float = ASKED_MHZ,
    baud: int | None = None,
    seeds: Sequence[int] = SEEDS,
    progress: Progress = quiet,
) -> Routed:
    """Make the bitstream of a design in its AXI shell.

    The folder then holds the bitstream, netlist.v, the constraints, nextpnr's report and log, bitstream.json with the
    measurements, design.json, with which `dynagate.open` opens the folder, and README.md.

    Args:
        built: Design with 32-bit streams.
        board: Board of a family that free tools route.
        folder: Folder of the bitstream.
        megahertz: Clock to try first. If no route meets it, the fastest clock that one meets is used.
        baud: Bits per second of the serial line; the board's unless given.
        seeds: Seeds of the placement, tried until one meets the clock.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        ArgumentError: Free tools do not route the board, the design has no shell with 32-bit streams or too many
            multipliers, or the clock cannot make the baud rate.
        SynthesisError: A tool is missing or fails, or the design does not fit.
    """
    gateware = Gateware.of(built)
    return route(gateware, board, folder, megahertz=megahertz, baud=baud, seeds=seeds, progress=progress)


def route(
    gateware: Gateware,
    board: Board,
    folder: Path,
    *,
    megahertz: float = ASKED_MHZ,
    baud: int | None = None,
    seeds: Sequence[int] = SEEDS,
    progress: Progress = quiet,
) -> Routed:
    """Make the bitstream of gateware behind a serial line, with the arguments of `bitstream`."""
    family, oscillator, clock, baud = _checked(gateware, board, megahertz, baud, seeds)
    limit = family.limit(board)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (f"{board.name}.{family.suffix}", BITSTREAM, design_files.FILE, README):  # files of an earlier design
        (folder / name).unlink(missing_ok=True)
    flow = Flow(gateware, board, folder, baud, progress)
    clock, cells, tried = flow.fastest(clock, oscillator, seeds)
    seed = max(tried, key=lambda seed: tried[seed])
    result = Routed(
        bitstream=flow.pack(seed),
        netlist=folder / "netlist.v",
        part=board.part,
        speed=board.nextpnr.speed if board.nextpnr else None,
        megahertz=clock.megahertz,
        routed_mhz=tried[seed],
        limit_mhz=limit if math.isfinite(limit) else None,
        slowest=flow.slowest[seed],
        seed=seed,
        seeds=tried,
        baud=flow.baud,
        clocks_per_bit=uart.clocks_per_bit(clock.megahertz, flow.baud),
        cells=cells,
        versions={"Yosys": version("pyosys"), family.nextpnr: version(family.wheel)},
        seconds=dict(flow.seconds),
        note=family.note.format(limit=limit),
    )
    write_board_files(result, gateware, board)
    return result


def write_board_files(routed: Routed, gateware: Gateware, board: Board) -> None:
    """Write the files that a user and the host need next to a bitstream: measurements, design.json and README.md."""
    texts = {BITSTREAM: json.dumps(asdict(routed), indent=1, default=lambda path: path.name) + "\n"}
    if gateware.design is not None:
        texts[design_files.FILE] = gateware.design
    baud = "" if routed.baud == BAUD else f",baud={routed.baud}"
    rows = [
        ("board", f"{board.title}, {board.part}"),
        ("clock", f"{routed.megahertz:g} MHz"),
        ("routed for", f"{routed.routed_mhz:.1f} MHz with seed {routed.seed}"),
        ("slowest path", routed.slowest),
        ("serial line", f"{routed.baud} baud, {routed.clocks_per_bit} clocks a bit"),
        ("tools", ", ".join(f"{tool} {number}" for tool, number in routed.versions.items())),
    ]
    context = {
        "title": gateware.title,
        "board": board,
        "bitstream": routed.bitstream.name,
        "design": gateware.design,
        "link": f"uart:/dev/ttyUSB0{baud}",
        "table": markdown_table(("", ""), rows),
        "note": routed.note,
    }
    texts |= rendered({README: "routed.md"}, context)
    for name, text in texts.items():
        (routed.bitstream.parent / name).write_text(text, encoding="utf-8")


def first_clock(board: Board, megahertz: float = ASKED_MHZ) -> pll.Clock:
    """Return the clock that a bitstream of this board is routed for first.

    Raises:
        ValueError: Free tools do not route this board, or its oscillator cannot make a clock of up to `megahertz`.
    """
    if board.flow not in FAMILIES or board.oscillator_mhz is None or not isinstance(board.link.limit, UartBridge):
        raise ArgumentError(
            f"board '{board.name}' has flow '{board.flow}'; expected a board on a serial line, of flow "
            f"{', '.join(FAMILIES)}",
            code="DG-SYNTH-015",
        )
    family = FAMILIES[board.flow]
    return family.clock(board.oscillator_mhz, min(megahertz, family.limit(board)))


def _checked(
    gateware: Gateware, board: Board, megahertz: float, baud: int | None, seeds: Sequence[int]
) -> tuple[Family, float, pll.Clock, int]:
    """Return the board's family, oscillator in MHz, first clock and baud.

    Raises the errors of `bitstream` that need no tool.
    """
    clock = first_clock(board, megahertz)
    family, serial = FAMILIES[board.flow], board.link.limit
    assert board.oscillator_mhz is not None
    assert isinstance(serial, UartBridge)
    if not seeds:
        raise ArgumentError("no seed; expected one or more", code="DG-SYNTH-016")
    needed, there = gateware.blocks or 0, board.resources.dsp
    if needed > there:
        raise ArgumentError(
            f"{needed} multiplier blocks planned, {board.title} has {there}; expected a larger interval than "
            f"{gateware.interval} or shorter words",
            code="DG-SYNTH-017",
        )
    baud = baud or serial.baud
    uart.clocks_per_bit(clock.megahertz, baud)
    for tool in (family.nextpnr, family.packer):
        _tool(tool, family.extra)
    return family, board.oscillator_mhz, clock, baud


class Flow:
    """Runs of the tools for one design. All files are in the folder, the only one that the tools' sandbox sees."""

    def __init__(self, gateware: Gateware, board: Board, folder: Path, baud: int, progress: Progress) -> None:
        self.board, self.folder, self.baud, self.progress = board, folder, baud, progress
        self.gateware, self.family = gateware, FAMILIES[board.flow]
        self.slowest: dict[int, str] = {}
        self.seconds: defaultdict[str, float] = defaultdict(float)
        progress("Amaranth: accelerator to RTLIL")
        self._names = []
        for name, component in gateware.modules().items():
            self._write(f"{name}.il", rtlil_text(component, name, self.family.fabric))
            self._names.append(name)

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def fastest(
        self, clock: pll.Clock, oscillator: float, seeds: Sequence[int]
    ) -> tuple[pll.Clock, dict[str, int], dict[int, float]]:
        """Synthesize and route for a clock, or for the fastest clock that a seed meets.

        Another clock changes the netlist, and so every path by chance. nextpnr stops shortening paths that meet the
        requested clock. All routes request the first clock, so that a slower one is met with slack.

        Returns:
            The clock, the number of cells by type, and MHz by seed.
        """
        requested = clock.megahertz
        while True:
            cells = self.synthesize(clock, requested)
            tried: dict[int, float] = {}
            for seed in seeds:
                tried[seed] = self.route(seed)
                if tried[seed] >= clock.megahertz:
                    return clock, cells, tried
            best = max(tried.values())
            clock = self.family.clock(oscillator, best)
            self.progress(f"routed for {best:.1f} MHz: again for {clock.megahertz:g} MHz")

    def synthesize(self, clock: pll.Clock, requested: float) -> dict[str, int]:
        """Synthesize for a clock, and return the number of cells by type. requested: clock that routes request, in
        MHz.
        """
        modules = board_modules(self.board, self.gateware, clock, self.baud)
        for name, component in modules.items():
            self._write(f"{name}.il", rtlil_text(component, name, self.family.fabric))
        sources = [f"read_rtlil {self.folder / name}.il" for name in (*modules, *reversed(self._names))]
        json_file = self.folder / "netlist.json"
        self._timed(
            f"Yosys: synthesis for {clock.megahertz:g} MHz",
            "Yosys",
            lambda: _yosys(
                [
                    *sources,
                    *(text.format(top=TOP) for text in self.family.synthesis),
                    f"write_json {json_file}",
                    f"write_verilog -noattr {self.folder / 'netlist.v'}",
                ]
            ),
        )
        constraints, text = self.family.constraints
        self._write(constraints, text(self.board, pins(self.board), requested))
        netlist = json.loads(json_file.read_text())
        check_defined(netlist["modules"][TOP])
        cells = netlist["modules"][TOP]["cells"]
        self.family.mend(cells)
        json_file.write_text(json.dumps(netlist), encoding="utf-8")
        counts = Counter(cell["type"] for cell in cells.values())
        block, planned = self.family.block, self.gateware.blocks
        if block is not None and planned not in (None, counts[block]):
            raise SynthesisError(
                f"the netlist has {counts[block]} {block} blocks; the plan counts {planned}", code="DG-SYNTH-018"
            )
        return {kind: counts[kind] for kind in sorted(counts) if not kind.startswith("$")}

    def route(self, seed: int) -> float:
        """Place and route with a seed. Return the MHz of the slowest path, whose description goes to `slowest`."""
        family = self.family
        command = [_tool(family.nextpnr, family.extra), *family.options(self.board), "--json", "netlist.json"]
        command += [*family.routed.format(seed=seed).split(), "--seed", str(seed), "--report", f"seed{seed}.json"]
        command += ["--timing-allow-fail", "--log", f"seed{seed}.log", "--quiet"]
        self._timed(f"nextpnr: place and route, seed {seed}", "nextpnr", lambda: self._run(command))
        report = json.loads((self.folder / f"seed{seed}.json").read_text())
        self.slowest[seed] = _slowest(report)
        return min(float(clock["achieved"]) for clock in report["fmax"].values())

    def pack(self, seed: int) -> Path:
        """Make the bitstream of a routed seed."""
        family = self.family
        target = self.folder / f"{self.board.name}.{family.suffix}"
        routed = family.routed.format(seed=seed).rpartition(" ")[2].rpartition("=")[2]
        command = [_tool(family.packer, family.extra), *family.pack(self.board, routed, target.name)]
        self._timed(f"{family.packer}: bitstream", family.packer, lambda: self._run(command))
        return target

    def _run(self, command: Sequence[str]) -> None:
        run(command, SynthesisError, place=self.folder, lines=10)

    def _timed(self, text: str, tool: str, work: Callable[[], None]) -> None:
        self.progress(text)
        start = time.monotonic()
        work()
        self.seconds[tool] += round(time.monotonic() - start, 1)


def _slowest(report: Any) -> str:
    """Return the cells at both ends of the slowest path between registers, as text."""
    paths = [path for path in report["critical_paths"] if "posedge" in path["from"] and "posedge" in path["to"]]
    steps = max(paths, key=lambda path: sum(step["delay"] for step in path["path"]))["path"]
    total = sum(step["delay"] for step in steps)
    wires = sum(step["delay"] for step in steps if step["type"] == "routing")
    return f"{steps[0]['from']['cell']} to {steps[-1]['to']['cell']}, {total:.1f} ns, of which {wires:.1f} ns in wires"


def board_modules(board: Board, gateware: Gateware, clock: pll.Clock, baud: int) -> dict[str, Any]:
    """Return the modules around `accelerator` on a board, by name.

    Raises:
        ArgumentError: The clock cannot make the baud rate.
    """
    clocks = uart.clocks_per_bit(clock.megahertz, baud)
    return {TOP: Top(board, clock), uart.TOP: uart.Serial(gateware.beats, clocks, gateware.longest)}


def _tool(name: str, extra: str) -> str:
    """Return the path of a tool. Raise SynthesisError if it is missing."""
    scripts = sysconfig.get_path("scripts")
    script = shutil.which(f"yowasp-{name}", path=scripts) or shutil.which(name, path=scripts)
    if script is None:
        raise SynthesisError(
            f"{name} is not installed; expected the extra: pip install 'dynagate[{extra}]'", code="DG-SYNTH-019"
        )
    return script


def _yosys(passes: Sequence[str]) -> None:
    """Run Yosys. Raise SynthesisError if it fails."""
    try:
        run_yosys(passes)
    except YosysError as error:
        raise SynthesisError(str(error), code="DG-SYNTH-020") from None


class FreeTools(Toolchain):
    """Free tools, which place and route a design behind a serial line."""

    has_project = False

    def check(self) -> None:
        pass

    def first_clock(self, megahertz: float | None) -> float:
        return first_clock(self.board, ASKED_MHZ if megahertz is None else megahertz).megahertz

    def make_design(self, built: Design[Pipeline], choice: BoardFit, folder: Path, progress: Progress) -> list[str]:
        place = folder / f"{built.folder.name}-{self.board.name}"
        return self._route(Gateware.of(built), choice.clock_mhz, place, progress)

    def make_cores(self, cores: BoardCores, megahertz: float | None, folder: Path, progress: Progress) -> list[str]:
        place = folder / f"cores-{self.board.name}-{cores.core.hash[:12]}"
        return self._route(Gateware.of_cores(cores.core, cores.cores), megahertz, place, progress)

    def _route(self, gateware: Gateware, megahertz: float | None, place: Path, progress: Progress) -> list[str]:
        clock = ASKED_MHZ if megahertz is None else megahertz
        routed = route(gateware, self.board, place, megahertz=clock, progress=progress)
        return [routed.text(), routed.loading, f"to open it: {routed.bitstream.parent / README}"]
