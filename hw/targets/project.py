"""Write the project that makes a bitstream with a vendor's tools, and run the tools if they are installed."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dynagate.base import storage
from dynagate.base.errors import ArgumentError
from dynagate.base.ownership import head_lines, with_head
from dynagate.base.process import completed, ending
from dynagate.base.progress import Progress, quiet
from dynagate.base.untrusted import plain_text
from dynagate.design import files as design_files
from dynagate.design.verilog_list import LIST, files_of, module_meanings
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.hw.boards import TOOLS, Board
from dynagate.hw.boards.scripts import OUT_OF_CONTEXT, OUT_OF_CONTEXT_MEANINGS, ProjectError, out_of_context, rendered
from dynagate.hw.bodies.pipeline import Pipeline
from dynagate.hw.build import SHELL_TOP, TOP, build_request
from dynagate.hw.datasheet import markdown_table, register_table
from dynagate.hw.designs import Design
from dynagate.hw.plan.plan import Plan
from dynagate.hw.processor.board import BoardCores
from dynagate.hw.request import DesignRequest
from dynagate.hw.rtl import crossing
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.regmap import REGISTERS, Register, with_processor
from dynagate.hw.rtl.wrapper import MODULE, wrapper
from dynagate.hw.targets.board_fit import BoardFit, fastest_plan, rate_text
from dynagate.hw.targets.toolchain import Toolchain
from dynagate.hw.units.table import HARDWARE, Own

DEFAULT_FOLDER = Path("build") / "boards"
"""Default parent folder of projects."""
FLOORPLAN = "floorplan.xdc"
"""Name of the constraints that place an accelerator on a die of a device of several."""
CROSSINGS = f"{crossing.MODULE}.v"
"""Name of the file with the registers between dies."""
CLOCK = "clock.json"
"""Name of the file in which Vivado's script records the requested clock and the clock that the device makes."""
README = "README.md"
"""Name of the instructions in a project."""
KERNEL = "accelerator"
"""Name of the RTL kernel on a card, which holds the module `dynagate`."""
CLOCK_TOLERANCE = 0.01
"""Difference between the requested clock and the clock that the device makes, as a share, above which a warning is
printed."""
LAST_LINES = 20
"""Number of output lines in the error of a failed tool."""
_VERSION = re.compile(r"\bv(20\d\d\.\d)\b")


@dataclass(frozen=True)
class ProcessorBlock:
    """The processor of a Zynq device as a block in Vivado: names of its block, interfaces, pins and parameters."""

    cell: str
    """Name of the block."""
    vlnv: str
    """Identifier of the block in Vivado's catalog."""
    rule: str
    automation: str
    master: str
    """Interface of the processor that accesses the accelerator's registers."""
    memory: str
    """Interface of the processor that the DMA engine uses."""
    clock: str
    reset: str
    clock_inputs: tuple[str, ...]
    address_bits: int
    fixed: Mapping[str, str]
    """Parameters that every design has."""
    width: str
    """Parameter for the bits of the memory port."""
    frequency: str
    """Parameter for the requested clock in MHz."""
    actual_frequency: str
    """Parameter that holds the clock in MHz that the processor's dividers make."""


PROCESSORS = {
    "xc7z": ProcessorBlock(
        cell="processing_system7_0",
        vlnv="xilinx.com:ip:processing_system7",
        rule="xilinx.com:bd_rule:processing_system7",
        automation='make_external "FIXED_IO, DDR" apply_board_preset "1" Master "Disable" Slave "Disable"',
        master="M_AXI_GP0",
        memory="S_AXI_HP0",
        clock="FCLK_CLK0",
        reset="FCLK_RESET0_N",
        clock_inputs=("M_AXI_GP0_ACLK", "S_AXI_HP0_ACLK"),
        address_bits=32,
        fixed={"PCW_USE_M_AXI_GP0": "1", "PCW_USE_S_AXI_HP0": "1"},
        width="PCW_S_AXI_HP0_DATA_WIDTH",
        frequency="PCW_FPGA0_PERIPHERAL_FREQMHZ",
        actual_frequency="PCW_ACT_FPGA0_PERIPHERAL_FREQMHZ",
    ),
    "xck": ProcessorBlock(
        cell="zynq_ultra_ps_e_0",
        vlnv="xilinx.com:ip:zynq_ultra_ps_e",
        rule="xilinx.com:bd_rule:zynq_ultra_ps_e",
        automation='apply_board_preset "1"',
        master="M_AXI_HPM0_FPD",
        memory="S_AXI_HP0_FPD",
        clock="pl_clk0",
        reset="pl_resetn0",
        clock_inputs=("maxihpm0_fpd_aclk", "saxihp0_fpd_aclk"),
        address_bits=40,
        fixed={
            "PSU__USE__M_AXI_GP0": "1",
            "PSU__USE__M_AXI_GP1": "0",
            "PSU__USE__M_AXI_GP2": "0",
            "PSU__USE__S_AXI_GP2": "1",
        },
        width="PSU__SAXIGP2__DATA_WIDTH",
        frequency="PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ",
        actual_frequency="PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ",
    ),
}
"""Zynq processors, by the beginning of the part's name."""


@dataclass(frozen=True)
class VendorFlow:
    """How a vendor's tools make a bitstream."""

    templates: Mapping[str, tuple[str, str]]
    """Template and description of each file, by file name."""
    products: tuple[str, ...]
    """Files that the tools write."""
    tool: str
    """Command that must be on the path."""
    constraints: str | None = None
    """Name of the constraints file, if there is one."""
    clock: str = "aclk"
    """Name of the wrapper's clock port."""
    reset: str = "aresetn"
    """Name of the wrapper's reset port."""
    registers_at: str = ""
    """Place of the registers as the host sees it, for README.md."""
    link: str = ""
    """Link to pass to `dynagate.open`."""
    commands: tuple[str, ...] = ("make",)
    """Commands for README.md."""
    seen: str = ""
    """How to see that the board runs the design, for README.md."""
    has_processor: bool = False
    """Whether the device has a processor, which the block design configures."""
    runs: str = "Vivado"
    """Name of the tool that runs for hours, for README.md."""
    clock_file: str | None = CLOCK
    """Name of the file with the clock that the device makes; None if the tool chooses the clock itself."""
    versions: tuple[str, str] = ("2022.1", "2025.2")
    """Oldest and newest supported version of the tool (docs/boards.md)."""


FLOWS = {
    "vivado-xdma": VendorFlow(
        {
            "build.tcl": ("vivado-xdma.tcl", "Vivado: block design, synthesis, place and route"),
            "board.xdc": ("vivado-xdma.xdc", "constraints"),
            "board.sdc": ("vivado-xdma.sdc", "the timing of `board.xdc` for other tools"),
            "Makefile": ("vivado.mk", "calls Vivado"),
        },
        ("accelerator.bit",),
        TOOLS["vivado-xdma"],
        constraints="board.xdc",
        link="xdma:/dev/xdma0",
        registers_at="byte 0 of the XDMA driver's user device (`/dev/xdma0_user`)",
        seen="The last line is the worst slack. `timing.txt` and `utilization.txt` hold the reports.",
    ),
    "zynq": VendorFlow(
        {
            "build.tcl": ("zynq.tcl", "Vivado: block design, synthesis, place and route"),
            "Makefile": ("vivado.mk", "calls Vivado"),
        },
        ("accelerator.bit", "accelerator.hwh"),
        TOOLS["zynq"],
        link="pynq:accelerator.bit",
        has_processor=True,
        registers_at="the address of `accelerator_0` in the processor's address map",
        seen="The last line is the worst slack. Both files go to the board, into one folder.",
    ),
    "vitis": VendorFlow(
        {
            "package.tcl": ("vitis.tcl", "Vivado: the accelerator as an RTL kernel"),
            "read_samples.cpp": ("read_samples.cpp", "kernel: card memory to stream"),
            "write_results.cpp": ("write_results.cpp", "kernel: stream to card memory"),
            "link.cfg": ("vitis.cfg", "v++: kernels, streams and memory"),
            "Makefile": ("vitis.mk", "calls Vivado and v++"),
        },
        ("accelerator.xclbin",),
        TOOLS["vitis"],
        clock="ap_clk",
        reset="ap_rst_n",
        link="xrt:accelerator.xclbin",
        registers_at="byte 0 of the kernel `accelerator`",
        clock_file=None,
        versions=("2022.2", "2025.2"),
        seen="`clocks.txt` holds the clock: v++ lowers it where timing is not met.",
        runs="v++, which runs Vivado,",
    ),
}
"""Flows of vendors, by name."""


@dataclass(frozen=True)
class Project:
    """A project on disk."""

    folder: Path
    """Folder of the files and, once the tools have run, of their products."""
    flow: VendorFlow

    def what_to_type(self) -> str:
        """Return the command that makes the bitstream on a computer with the tools."""
        command = f"make -C {shlex.quote(str(self.folder))}"
        return f"{self.flow.tool} is not on the path; where it is, type: {command}"


def bitstream_design(
    request: DesignRequest,
    board: Board,
    *,
    ii: int | None = None,
    clock_mhz: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Progress = quiet,
) -> tuple[Design[Pipeline], BoardFit]:
    """Build a design for a board with the board's streams and the shortest interval that fits.

    Args:
        request: Robot, function and options. The board determines `ii`, `axi` and `budget`.
        board: The board.
        ii: Interval to use if it fits.
        clock_mhz: Clock in MHz; the board's unless given.
        folder: Parent folder of designs.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The design, and how its interval was chosen.

    Raises:
        FitError: The design does not fit the board.
        ArgumentError: An option does not fit the function or the design.
    """
    choices: list[BoardFit] = []

    def planner(formatted: FormattedGraph) -> Plan:
        choices.append(fastest_plan(formatted, board, ii=ii, clock_mhz=clock_mhz, stages=request.stages))
        return choices[-1].plan

    asked = replace(request, axi=Axi(board.link.width, board.link.tlast), budget=None)
    settings: dict[str, Any] = {} if folder is None else {"folder": folder}
    built = build_request(asked, progress=progress, planner=planner, **settings)
    return built, choices[-1]


@dataclass(frozen=True)
class _Content:
    """Values for the templates of a project."""

    board: Board
    clock_mhz: float
    title: str
    digest: str
    """Hash of the design."""
    axi: Axi
    files: Mapping[str, str]
    """Names of the Verilog files of the accelerator, with descriptions."""
    meanings: Mapping[str, str]
    """Descriptions of other files."""
    registers: Mapping[str, Register]
    opened: str
    """File that the host opens."""
    note: str
    table: str
    """Table of the design for README.md."""
    drawing: str
    """Diagram for README.md."""
    head: tuple[str, ...]
    """First lines of the files."""


def write_project(
    built: Design[Pipeline], choice: BoardFit, folder: str | os.PathLike[str] = DEFAULT_FOLDER
) -> Project:
    """Write the project of a design into a folder of its own.

    Files that tools wrote there before remain. An interruption leaves no incomplete project.

    Args:
        built: Design of a board.
        choice: How its interval was chosen.
        folder: Parent folder of projects.

    Raises:
        ProjectError: The folder cannot be written.
    """
    tops = {TOP: "the datapath", SHELL_TOP: "the datapath behind AXI"}
    verilog = [file.name for top in tops for file in files_of(built.folder / f"{top}.v")]
    meanings = {
        **module_meanings(verilog, tops),
        LIST: "the list of these files",
        design_files.FILE: "what the host reads: layouts, formats, registers, the design's hash",
    }
    content = _Content(
        choice.board,
        choice.clock_mhz,
        f"{plain_text(built.robot.name)} {built.graph.name}",
        built.design.hash,
        Axi(choice.board.link.width, choice.board.link.tlast),
        {name: (built.folder / name).read_text(encoding="utf-8") for name in meanings},
        meanings,
        REGISTERS,
        '"."',
        "",
        choice_table(choice),
        diagram(choice),
        built.design.head,
    )
    return _written(content, Path(folder) / f"{built.folder.name}-{choice.board.name}")


def write_core_project(
    content: BoardCores, folder: str | os.PathLike[str] = DEFAULT_FOLDER, *, clock_mhz: float | None = None
) -> Project:
    """Write the project of a board's processor cores, which run the programs of all robots.

    Args:
        content: Cores of the board.
        folder: Parent folder of projects.
        clock_mhz: Clock in MHz; the board's unless given.

    Raises:
        ProjectError: The folder cannot be written.
    """
    from dynagate.hw.processor.shell.core_shell import shell_text

    board, core = content.board, content.core
    clock = board.clock_mhz if clock_mhz is None else clock_mhz
    name = f"{SHELL_TOP}.v"
    rows = [
        ("board", f"{board.title}, {board.part}"),
        ("cores", f"{content.cores}, which take samples in turn"),
        ("each", core.text),
        ("clock", f"{clock:g} MHz, assumed"),
        *_die_rows(board),
    ]
    between = BETWEEN[board.link.kind]
    stream = f"AXI4-Stream, {board.link.width} bits: packets of {'float32' if core.floats else 'integers'}"
    drawing = _boxes(
        (
            ("host", *between),
            (stream,),
            (content.title, core.text),
            (stream,),
            (*reversed(between), "host"),
        )
    )
    own = _Content(
        board,
        clock,
        content.title,
        core.hash,
        content.axi,
        {name: shell_text(core, content.axi, content.cores, has_tlast=board.link.kind != "uart")},
        {name: "the cores behind AXI, the same for all robots"},
        with_processor(),
        '"PROGRAM"',
        f"PROGRAM is the folder that `dynagate build ROBOT --board {board.name}` prints.",
        markdown_table(("", ""), rows),
        drawing,
        head_lines(f"dynagate bitstream --core --board {board.name} --only-project"),
    )
    return _written(own, Path(folder) / f"cores-{board.name}-{core.hash[:12]}")


def _written(content: _Content, target: Path) -> Project:
    """Write the files of a project."""
    if content.board.flow not in FLOWS:
        raise ArgumentError(
            f"{content.board.name} has flow {content.board.flow}; expected one of {', '.join(FLOWS)}",
            code="DG-SYNTH-011",
        )
    flow = FLOWS[content.board.flow]
    storage.check_folder(target, ProjectError, "a project")
    with storage.scratch(target.parent, ProjectError, target.name) as place:
        scratch = place / target.name
        scratch.mkdir()
        for name, text in {**content.files, **_texts(content, flow)}.items():
            (scratch / name).write_text(text, encoding="utf-8")
        storage.put(scratch, target, last=README)
    return Project(target, flow)


def run_tool(project: Project, *, progress: Progress = quiet) -> list[Path] | None:
    """Run the vendor's tools on a project.

    Args:
        project: The project.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        Files that the tools wrote; None if the tools are not on the path.

    Raises:
        ProjectError: A tool fails. The text has the end of its output, and make.log all of it.
    """
    flow = project.flow
    if not check_tool(flow):
        return None
    progress(f"{flow.tool}: synthesis, place and route")
    log = project.folder / "make.log"
    with log.open("w", encoding="utf-8") as output:
        done = completed(["make", "-C", str(project.folder), "-f", "Makefile"], stdout=output, stderr=subprocess.STDOUT)
    products = [project.folder / name for name in flow.products]
    missing = [path.name for path in products if not path.is_file()]
    if done.returncode != 0 or missing:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:])
        what = ending(done.returncode) if done.returncode else f"failed ({', '.join(missing)} not written)"
        raise ProjectError(f"{flow.tool} {what}; {log} ends in\n{tail}", code="DG-SYNTH-012")
    return products


def check_tool(flow: VendorFlow) -> bool:
    """Return whether a flow's tool is on the path.

    Raises:
        ProjectError: The tool has a version that is not supported.
    """
    if shutil.which(flow.tool) is None:
        return False
    said = _VERSION.search(completed([flow.tool, "-version"]).stdout)
    oldest, newest = flow.versions
    if said is not None and not oldest <= said[1] <= newest:
        raise ProjectError(
            f"{flow.tool} on the path is {said[1]}; expected {oldest} to {newest}, or --only-project and another tool",
            code="DG-SYNTH-013",
        )
    return True


def actual_clock(project: Project) -> tuple[float, float] | None:
    """Return the requested clock and the clock that the device makes, both in MHz; None if the tools recorded none.

    Raises:
        ProjectError: The file is damaged.
    """
    if project.flow.clock_file is None or not (path := project.folder / project.flow.clock_file).is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        clocks = float(content["requested_mhz"]), float(content["actual_mhz"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProjectError(f"{path} is damaged: {error!r}; expected two clocks in MHz", code="DG-SYNTH-029") from None
    if not all(0 < clock < math.inf for clock in clocks):
        raise ProjectError(f"{path} has the clocks {clocks}; expected two positive numbers of MHz", code="DG-SYNTH-030")
    return clocks


def clock_lines(project: Project, choice: BoardFit | None = None) -> list[str]:
    """Return lines on the clock that the device makes, with the design's rates at it; none if the tools recorded none.

    Args:
        project: A project whose tools have run.
        choice: The design and its modeled rates; None for cores.

    Raises:
        ProjectError: The file of the clock is damaged.
    """
    if (clocks := actual_clock(project)) is None:
        return []
    requested, actual = clocks
    lines = [f"clock {actual:g} MHz, read back from {project.flow.tool}; {requested:g} MHz were requested"]
    if choice is not None:
        rates = replace(choice, clock_mhz=actual).rates
        lines.append(f"end to end {rate_text(rates.end_to_end)} samples/s at this clock, modeled")
    if abs(actual - requested) > CLOCK_TOLERANCE * requested:
        lines.append(
            f"warning: the clock is {actual / requested - 1:+.1%} off; the table above is for {requested:g} MHz"
        )
    return lines


def choice_table(choice: BoardFit) -> str:
    """Return a table of the chosen design, its resources and its modeled rates."""
    board, planned, rates = choice.board, choice.plan, choice.rates
    kinds = {"dsp": board.resources.multiplier, "lut": "lookup tables", "ff": "flip-flops between units"}
    rows: list[tuple[str, str]] = [
        ("board", f"{board.title}, {board.part}"),
        ("initiation interval", f"{planned.ii} cycles: {choice.reason}"),
        ("latency", f"{planned.latency} cycles in the datapath"),
        *_die_rows(board),
    ]
    for name, count in choice.uses.items():
        share = count / getattr(board.resources, name)
        rows.append((kinds[name], f"{count} of {getattr(board.resources, name)} ({share:.1%}), estimated"))
    rows += [
        ("clock", f"{choice.clock_mhz:g} MHz, assumed"),
        ("datapath", f"{rate_text(rates.datapath)} samples/s, modeled"),
        ("stream", f"{rate_text(rates.stream)} samples/s, modeled: {board.link.width} bits a cycle"),
        ("link", f"{rate_text(rates.link)} samples/s, modeled: {board.link.limit.derivation}"),
        ("end to end", f"{rate_text(rates.end_to_end)} samples/s, modeled: the {rates.decided_by} decides"),
    ]
    return markdown_table(("", ""), rows)


def _texts(content: _Content, flow: VendorFlow) -> dict[str, str]:
    """Return the text of every file that is made from a template, by name."""
    templates = {**flow.templates, **_floorplan(content.board)}
    crossed = [CROSSINGS] if content.board.dies > 1 else []
    meanings = {
        **content.meanings,
        **dict.fromkeys(crossed, "registers for the streams where they cross from die to die"),
        f"{MODULE}.v": "the same with interfaces that Vivado recognizes",
        **{name: meaning for name, (_, meaning) in templates.items()},
        **dict(zip(OUT_OF_CONTEXT, OUT_OF_CONTEXT_MEANINGS, strict=True)),
    }
    sources = (*(name for name in content.files if name.endswith(".v")), f"{MODULE}.v", *crossed)
    constraints = [] if flow.constraints is None else [flow.constraints, *_floorplan(content.board)]
    context: dict[str, Any] = {
        "board": content.board,
        "digest": content.digest,
        "title": content.title,
        "module": MODULE,
        "kernel": KERNEL,
        "clock": content.clock_mhz,
        "sources": sources,
        "constraints": constraints,
        "products": " ".join(flow.products),
        "processor": _processor(content) if flow.has_processor else None,
        "registers": tuple(content.registers.values()),
        "registers_table": register_table(content.registers),
        "registers_at": flow.registers_at,
        "commands": flow.commands,
        "seen": flow.seen,
        "runs": flow.runs,
        "clock_file": flow.clock_file,
        "link": flow.link,
        "opened": content.opened,
        "note": content.note,
        "tool_line": f"It needs `{flow.tool}` on the path.",
        "diagram": content.drawing,
        "table": content.table,
        "files": meanings,
    }
    texts = rendered(
        {name: template for name, (template, _) in templates.items()} | {README: README}, context, content.head
    )
    head = (f"{content.title}; design {content.digest}", *content.head)
    wrapped = wrapper(content.axi, clock=flow.clock, reset=flow.reset, crossings=bool(crossed))
    texts[f"{MODULE}.v"] = with_head(f"{MODULE}.v", wrapped, head)
    texts |= {name: with_head(name, crossing.crossings_text(content.axi), head) for name in crossed}
    texts |= out_of_context(
        content.title,
        content.digest,
        {name: {**content.files, **texts}[name] for name in sources},
        MODULE,
        flow.clock,
        part=content.board.part,
        clock_mhz=content.clock_mhz,
        head=content.head,
    )
    return texts


def _floorplan(board: Board) -> dict[str, tuple[str, str]]:
    """Return the template and the description of the floorplan; empty for a device of one die."""
    return {FLOORPLAN: (FLOORPLAN, "the accelerator's die")} if board.dies > 1 else {}


def _die_rows(board: Board) -> list[tuple[str, str]]:
    """Return the rows of a project's table for a device of several dies."""
    if board.dies == 1:
        return []
    cycles = f"{crossing.LATENCY} cycles in each stream, {2 * crossing.LATENCY} from the first beat in to the first out"
    return [
        ("die", f"SLR{board.die} of {board.dies}; registers where streams cross"),
        ("crossings", f"{cycles}, more than datasheet.md lists"),
    ]


def _processor(content: _Content) -> dict[str, Any]:
    """Return the values that the Zynq template needs for the processor."""
    board = content.board
    (row,) = (row for prefix, row in PROCESSORS.items() if board.part.startswith(prefix))
    configuration = {**row.fixed, row.width: str(board.link.width), row.frequency: f"{content.clock_mhz:g}"}
    return {**vars(row), "configuration": configuration}


BETWEEN = {
    "xdma": ("PCI Express", "XDMA engine", "clock converters"),
    "xrt": ("PCI Express", "card memory", "kernels read_samples, write_results"),
    "pynq": ("processor's memory", "axi_dma_0"),
    "uart": ("serial line",),
}
"""Blocks between host and accelerator in the diagram, by kind of link."""


def diagram(choice: BoardFit) -> str:
    """Return a text diagram of a sample's path from host to host."""
    planned, board = choice.plan, choice.board
    graph = planned.formatted.graph
    units = [f"{count} × {kind}" for kind, count in sorted(planned.unit_counts().items())]
    adders = sum(isinstance(HARDWARE[node.op], Own) for node in graph.nodes)
    between = BETWEEN[board.link.kind]
    return _boxes(
        (
            ("host", *between),
            (f"AXI4-Stream, {board.link.width} bits", f"{len(graph.input_nodes)} float32 words in"),
            ("accelerator: float32 to integers", "FIFO of samples"),
            (
                f"datapath: a sample every {planned.ii} cycles, {planned.latency} cycles each",
                ", ".join([*units, f"{adders} × add"]),
            ),
            ("accelerator: integers to float32", "FIFO of results, registers"),
            (f"AXI4-Stream, {board.link.width} bits", f"{len(graph.result_nodes)} float32 words out"),
            (*reversed(between), "host"),
        )
    )


def _boxes(boxes: Sequence[Sequence[str]]) -> str:
    """Return boxes below each other, joined by arrows."""
    width = max(len(line) for box in boxes for line in box)
    edge = "+" + "-" * (width + 2) + "+"
    drawn = ["\n".join([edge, *(f"| {line:<{width}} |" for line in box), edge]) for box in boxes]
    return ("\n" + " " * (width // 2 + 1) + "v\n").join(drawn)


class VendorTools(Toolchain):
    """Projects for a vendor's tools, which are run if they are installed."""

    has_project = True

    def check(self) -> None:
        if not self.only_project:
            check_tool(FLOWS[self.board.flow])

    def first_clock(self, megahertz: float | None) -> float | None:
        return megahertz

    def make_design(self, built: Design[Pipeline], choice: BoardFit, folder: Path, progress: Progress) -> list[str]:
        return self._run(write_project(built, choice, folder), progress, choice)

    def make_cores(self, cores: BoardCores, megahertz: float | None, folder: Path, progress: Progress) -> list[str]:
        return self._run(write_core_project(cores, folder, clock_mhz=megahertz), progress)

    def _run(self, project: Project, progress: Progress, choice: BoardFit | None = None) -> list[str]:
        products = None if self.only_project else run_tool(project, progress=progress)
        to_type = [project.what_to_type()] if products is None and not self.only_project else []
        clock = [] if products is None else clock_lines(project, choice)
        return [*clock, str(project.folder), *to_type, *map(str, products or ())]
