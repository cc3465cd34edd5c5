"""Stand-ins of the commands of Vivado that our scripts call. They check their arguments and keep the block design.

A command takes the options that Vivado documents (UG835) and no others. Objects must exist before they are named. When
the design is validated, every interface must be connected once, every input driven, both ends of a connection must have
one clock and one width, and every address that a master reaches must be assigned, in its window and without overlap.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests import tcl
from tests.tcl import TclError
from tests.vivado_blocks import (
    AXIS,
    BLOCKS,
    DIFFERENTIAL,
    MEMORY_MAPPED,
    PCIE,
    SEGMENT_INTERFACES,
    Block,
    Interface,
    Pin,
    Segment,
)

STREAM_SIGNALS = {"TDATA", "TVALID", "TREADY", "TLAST", "TKEEP"}
LITE_SIGNALS = {
    *("AWADDR", "AWPROT", "AWVALID", "AWREADY", "WDATA", "WSTRB", "WVALID", "WREADY", "BRESP", "BVALID"),
    *("BREADY", "ARADDR", "ARPROT", "ARVALID", "ARREADY", "RDATA", "RRESP", "RVALID", "RREADY"),
}
FROM_MASTER = re.compile(r"T(DATA|VALID|LAST|KEEP)|(AW|AR)(ADDR|PROT|VALID)|W(DATA|STRB|VALID)|[BR]READY")
"""Signals that the master of an interface drives."""
ACTUAL_CLOCKS = {
    "PCW_ACT_FPGA0_PERIPHERAL_FREQMHZ": "PCW_FPGA0_PERIPHERAL_FREQMHZ",
    "PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ": "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ",
}
"""Parameter of a processor that reports a clock, and the one that requests it."""
SIZES = {"K": 2**10, "M": 2**20, "G": 2**30}


def parsed(
    arguments: tuple[str, ...], *, flags: str = "", values: str = "", least: int = 0, most: int = 0
) -> tuple[dict[str, str], list[str]]:
    """Options by name, and what is left. flags, values: names of options without and with a value."""
    options: dict[str, str] = {}
    rest: list[str] = []
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        name = word.removeprefix("-")
        if not word.startswith("-"):
            rest.append(word)
        elif name in flags.split():
            options[name] = "1"
        elif name in values.split():
            if not queue:
                raise TclError(f"option -{name} has no value")
            options[name] = queue.pop(0)
        else:
            raise TclError(f"no option -{name}; expected one of {flags} {values}")
    if not least <= len(rest) <= most:
        raise TclError(f"{len(rest)} arguments {rest}; expected {least} to {most}")
    return options, rest


def words(text: str) -> list[str]:
    """The elements of a Tcl list without nested lists."""
    return re.findall(r"\{([^{}]*)\}|(\S+)", text) and [
        braced or plain for braced, plain in re.findall(r"\{([^{}]*)\}|(\S+)", text)
    ]


@dataclass
class Cell:
    """A block of the design. settings: of its parameters."""

    name: str
    block: Block
    vlnv: str
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def interfaces(self) -> dict[str, Interface]:
        return self.block.interfaces(self.settings)

    @property
    def pins(self) -> dict[str, Pin]:
        return self.block.pins(self.settings)


@dataclass
class Vivado:
    """slack: in ns, of place and route. folder: of the script. registers: address of each that was declared.

    pulse: total of pulse widths that are missed, in ns. clock: that the device makes, as Vivado reports it; the
    requested one if None.
    """

    folder: Path
    slack: float = 0.1
    pulse: float = 0.0
    clock: str | None = None
    part: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    sources: list[Path] = field(default_factory=list)
    constraints: list[Path] = field(default_factory=list)
    cells: dict[str, Cell] = field(default_factory=dict)
    ports: dict[str, Pin] = field(default_factory=dict)
    interface_ports: dict[str, Interface] = field(default_factory=dict)
    nets: list[set[str]] = field(default_factory=list)
    connections: list[tuple[str, str]] = field(default_factory=list)
    addresses: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    registers: dict[str, int] = field(default_factory=dict)
    core: dict[str, Any] = field(default_factory=dict)
    alone: list[ModulePort] = field(default_factory=list)
    clocks: set[str] = field(default_factory=set)
    engine: str = ""
    printed: list[str] = field(default_factory=list)

    def run(self, script: str, engine: str) -> Vivado:
        """Source a script of the folder. Raises TclError."""
        commands = {
            name.removeprefix("do_").replace("ipx_", "ipx::"): getattr(self, name)
            for name in dir(self)
            if name.startswith("do_")
        }
        self.engine = engine
        tcl.run(self.folder / script, commands, engine)
        return self

    # project and files

    def do_puts(self, *arguments: str) -> None:
        if len(arguments) == 1:
            self.printed.append(arguments[0])
        else:
            self._in_folder(arguments[0].removeprefix("file ")).write_text(arguments[1] + "\n")

    def do_open(self, *arguments: str) -> str:
        name, access = arguments
        if access != "w":
            raise TclError(f"open {name} {access}")
        return f"file {name}"

    def do_close(self, channel: str) -> None:
        if not Path(channel.removeprefix("file ")).is_file():
            raise TclError(f"nothing was written to {channel}")

    def do_create_project(self, *arguments: str) -> None:
        options, rest = parsed(arguments, flags="force in_memory", values="part", most=2)
        self.part = options["part"]
        if "in_memory" not in options:
            name, folder = rest
            self._in_folder(folder)
            self.steps.append(f"project {name}")

    def do_close_project(self, *arguments: str) -> None:
        parsed(arguments, flags="delete")

    def do_current_project(self) -> str:
        return "project"

    def do_current_fileset(self) -> str:
        return "sources"

    def do_add_files(self, *arguments: str) -> None:
        options, (names,) = parsed(arguments, flags="norecurse", values="fileset", least=1, most=1)
        target = self.constraints if options.get("fileset") == "constrs_1" else self.sources
        for name in words(names):
            path = Path(name)
            if not path.is_file():
                raise TclError(f"add_files: no file {name}")
            target.append(path)

    def do_update_compile_order(self, *arguments: str) -> None:
        parsed(arguments, values="fileset")

    def do_get_files(self, *arguments: str) -> str:
        _, (name,) = parsed(arguments, least=1, most=1)
        if "design" not in self.steps or name != "system.bd":
            raise TclError(f"get_files: no file {name}")
        return "system.bd"

    def _in_folder(self, name: str) -> Path:
        path = Path(name)
        if not path.is_relative_to(self.folder):
            raise TclError(f"{name} is outside of {self.folder}")
        return path

    # properties

    def do_set_property(self, *arguments: str) -> None:
        options, rest = parsed(arguments, values="dict", least=1, most=3)
        if "dict" in options:
            pairs, target = words(options["dict"]), rest[0]
            items = list(zip(pairs[::2], pairs[1::2], strict=True))
        else:
            name, value, target = rest
            items = [(name, value)]
        if not target:
            raise TclError("set_property of nothing")
        for name, value in items:
            self._set(name, value, target)

    def _set(self, name: str, value: str, target: str) -> None:
        kind, _, place = target.partition(" ")
        if kind == "cell":
            self._configure(self.cells[place], name, value)
        elif kind in ("port", "interface_port"):
            if name not in ("CONFIG.FREQ_HZ", "CONFIG.POLARITY"):
                raise TclError(f"port {place} has no property {name}")
        elif kind == "project":
            if name not in ("board_part", "board_connections", "target_language"):
                raise TclError(f"a project has no property {name}")
            self.properties[name] = value
        elif kind == "sources" and name == "top":
            self.properties[name] = value
        elif kind in ("core", "map", "block", "register", "bus"):
            self._set_kernel(kind, place, name, value)
        else:
            raise TclError(f"no property {name} of {target}")

    def _configure(self, cell: Cell, name: str, value: str) -> None:
        parameter = name.removeprefix("CONFIG.")
        if parameter == name or parameter not in cell.block.parameters:
            raise TclError(f"{cell.vlnv} has no parameter {name}")
        allowed = cell.block.parameters[parameter]
        if allowed is not None and value not in allowed:
            raise TclError(f"{cell.name}: {name} is {value}; expected one of {', '.join(allowed)}")
        cell.settings[parameter] = value

    def do_get_property(self, *arguments: str) -> str:
        _, (name, target) = parsed(arguments, least=2, most=2)
        if (name, target) == ("SLACK", "path worst"):
            return f"{self.slack}"
        if (source := self._clock_source(name, target)) is not None:
            self._after("validated")
            return str(source) if self.clock is None else self.clock
        results = {"PROGRESS": "100%", "STATS.WNS": f"{self.slack}", "STATS.WHS": "0.01", "STATS.TPWS": f"{self.pulse}"}
        if name not in results or target not in ("run synth_1", "run impl_1"):
            raise TclError(f"no property {name} of {target}")
        return results[name]

    def _clock_source(self, name: str, target: str) -> str | float | None:
        """The clock that a property reports, as it was requested; None if the property reports no clock."""
        if name == "CONFIG.FREQ_HZ" and target == "pin datapath_clock/clk_out1":
            return float(self.cells["datapath_clock"].settings["CLKOUT1_REQUESTED_OUT_FREQ"]) * 1e6
        kind, _, place = target.partition(" ")
        for actual, requested in ACTUAL_CLOCKS.items():
            if kind == "cell" and name == f"CONFIG.{actual}" and requested in self.cells[place].block.parameters:
                return self.cells[place].settings[requested]
        return None

    # block design

    def do_create_bd_design(self, *arguments: str) -> None:
        _, (name,) = parsed(arguments, least=1, most=1)
        if name != "system":
            raise TclError(f"design {name}; the script names system elsewhere")
        self.steps.append("design")

    def do_create_bd_cell(self, *arguments: str) -> str:
        options, (name,) = parsed(arguments, values="type vlnv reference", least=1, most=1)
        if name in self.cells:
            raise TclError(f"cell {name} exists")
        if options.get("type") == "module":
            block, vlnv = self._module(options["reference"]), f"xilinx.com:module_ref:{options['reference']}"
        else:
            vlnv = options.get("vlnv", "")
            if vlnv not in BLOCKS:
                raise TclError(f"no IP '{vlnv}' in the catalog")
            block = BLOCKS[vlnv]
        self.cells[name] = Cell(name, block, vlnv)
        return f"cell {name}"

    def _module(self, name: str) -> Block:
        return module_block(verilog_module(self.sources, name), name)

    def do_create_bd_intf_port(self, *arguments: str) -> str:
        options, (name,) = parsed(arguments, values="mode vlnv", least=1, most=1)
        kinds = {
            "xilinx.com:interface:pcie_7x_mgt_rtl:1.0": PCIE,
            "xilinx.com:interface:diff_clock_rtl:1.0": DIFFERENTIAL,
        }
        if options["vlnv"] not in kinds or options["mode"] not in ("Master", "Slave"):
            raise TclError(f"no interface {options}")
        # inside the design, a port that is a master outside is driven: it takes what a cell's master gives
        self.interface_ports[name] = Interface(kinds[options["vlnv"]], options["mode"] == "Slave")
        return f"interface_port {name}"

    def do_create_bd_port(self, *arguments: str) -> str:
        options, (name,) = parsed(arguments, values="dir type from to", least=1, most=1)
        if options.get("type") not in ("clk", "rst", "data") or options.get("dir") not in ("I", "O"):
            raise TclError(f"port {name}: {options}")
        self.ports[name] = Pin(options["type"], options["dir"] == "I")
        return f"port {name}"

    def do_get_bd_cells(self, name: str) -> str:
        return self._named("cell", name, self.cells)

    def do_get_bd_ports(self, name: str) -> str:
        return self._named("port", name, self.ports)

    def do_get_bd_intf_ports(self, name: str) -> str:
        return self._named("interface_port", name, self.interface_ports)

    def do_get_bd_pins(self, name: str) -> str:
        return self._named("pin", name, self._pins())

    def do_get_bd_intf_pins(self, name: str) -> str:
        return self._named("interface", name, self._interfaces())

    def do_get_bd_addr_spaces(self, name: str) -> str:
        spaces = {f"{cell.name}/{space.name}" for cell in self.cells.values() for space in cell.block.spaces}
        return self._named("space", name, spaces)

    def do_get_bd_addr_segs(self, name: str) -> str:
        return self._named("segment", name, self._segments())

    @staticmethod
    def _named(kind: str, name: str, known: Any) -> str:
        if name not in known:
            raise TclError(f"no {kind} '{name}'; there are {', '.join(sorted(known))}")
        return f"{kind} {name}"

    def _pins(self) -> dict[str, Pin]:
        return {f"{cell.name}/{name}": pin for cell in self.cells.values() for name, pin in cell.pins.items()}

    def _interfaces(self) -> dict[str, Interface]:
        return {f"{cell.name}/{name}": i for cell in self.cells.values() for name, i in cell.interfaces.items()}

    def _segments(self) -> dict[str, Segment]:
        return {
            f"{cell.name}/{segment.interface}/{segment.name}": segment
            for cell in self.cells.values()
            for segment in cell.block.segments
        }

    def do_apply_bd_automation(self, *arguments: str) -> None:
        options, (target,) = parsed(arguments, values="rule config", least=1, most=1)
        cell = self.cells[target.removeprefix("cell ")]
        if options["rule"] != cell.block.rule:
            raise TclError(f"rule {options['rule']} for {cell.vlnv}")
        if 'apply_board_preset "1"' not in options["config"]:
            raise TclError(f"{cell.name} without its board's preset: {options['config']}")
        if "board_part" not in self.properties:
            raise TclError("a board's preset without board_part")

    def do_connect_bd_net(self, *arguments: str) -> None:
        _, targets = parsed(arguments, values="net", least=2, most=99)
        net = set(targets)
        for known in [other for other in self.nets if other & net]:
            self.nets.remove(known)
            net |= known
        self.nets.append(net)

    def do_connect_bd_intf_net(self, *arguments: str) -> None:
        _, (first, second) = parsed(arguments, values="intf_net", least=2, most=2)
        one, other = self._interface(first), self._interface(second)
        if one.kind != other.kind:
            raise TclError(f"{first} is {one.kind}, {second} is {other.kind}")
        if one.master == other.master:
            raise TclError(f"{first} and {second} are both {'masters' if one.master else 'slaves'}")
        for pair in self.connections:
            for target in (first, second):
                if target in pair:
                    raise TclError(f"{target} is connected twice")
        self.connections.append((first, second) if one.master else (second, first))

    def _interface(self, target: str) -> Interface:
        kind, _, name = target.partition(" ")
        if kind not in ("interface", "interface_port"):
            raise TclError(f"'{target}' is no interface")
        return self.interface_ports[name] if kind == "interface_port" else self._interfaces()[name]

    # addresses

    def do_assign_bd_address(self, *arguments: str) -> None:
        options, rest = parsed(arguments, flags="force", values="offset range target_address_space", most=1)
        if not rest:
            for space, segment in set(self._reached()) - set(self.addresses):
                self.addresses[space, segment] = self._fixed(segment)
            return
        segment = rest[0].removeprefix("segment ")
        space = options["target_address_space"].removeprefix("space ")
        text = options["range"]
        size = int(text[:-1]) * SIZES[text[-1]] if text[-1] in SIZES else int(text, 0)
        self.addresses[space, segment] = int(options["offset"], 0), size

    def _fixed(self, segment: str) -> tuple[int, int]:
        row = self._segments()[segment]
        if row.offset is None:
            raise TclError(f"{segment} has no address of its own: Vivado would choose one that no host knows")
        return row.offset, row.range

    def _reached(self) -> Iterator[tuple[str, str]]:
        """Address spaces and the segments that their masters reach."""
        for cell in self.cells.values():
            for space in cell.block.spaces:
                if space.interface in cell.interfaces:
                    for slave in self._slaves(f"interface {cell.name}/{space.interface}"):
                        for name, segment in self._segments().items():
                            owner = name.split("/")[0]
                            interface = SEGMENT_INTERFACES.get(segment.interface, segment.interface)
                            if f"interface {owner}/{interface}" == slave:
                                yield f"{cell.name}/{space.name}", name

    def _slaves(self, master: str) -> Iterator[str]:
        for start, end in self.connections:
            if start != master:
                continue
            owner = self.cells.get(end.partition(" ")[2].split("/")[0])
            if owner is not None and owner.block.passes_on:
                for name, interface in owner.interfaces.items():
                    if interface.master:
                        yield from self._slaves(f"interface {owner.name}/{name}")
            else:
                yield end

    # validation

    def do_save_bd_design(self) -> None:
        """What validation propagates is lost in a design that was saved before it. Scripts that Vivado writes itself
        (write_bd_tcl) validate, then save."""
        self._after("validated")
        self.steps.append("saved")

    def do_validate_bd_design(self) -> None:
        for fault in self._faults():
            raise TclError(f"validate_bd_design: {fault}")
        self.steps.append("validated")

    def _faults(self) -> Iterator[str]:
        yield from self._open()
        yield from self._driven()
        yield from self._mismatched()
        yield from self._addressed()

    def _open(self) -> Iterator[str]:
        connected = {target for pair in self.connections for target in pair}
        for name, interface in self._interfaces().items():
            if f"interface {name}" not in connected and not interface.optional:
                yield f"interface {name} is not connected"
        for name in self.interface_ports:
            if f"interface_port {name}" not in connected:
                yield f"port {name} is not connected"
        on_nets = set().union(*self.nets)
        for name, pin in self._pins().items():
            if not pin.output and not pin.optional and f"pin {name}" not in on_nets:
                yield f"pin {name} is not connected"

    def _driven(self) -> Iterator[str]:
        pins = {f"pin {name}": pin for name, pin in self._pins().items()}
        pins |= {f"port {name}": pin for name, pin in self.ports.items()}
        for net in self.nets:
            drivers = [name for name in net if pins[name].output]
            if len(drivers) != 1:
                yield f"net of {sorted(net)} has {len(drivers)} drivers"
            kinds = {pins[name].kind for name in net}
            if len(kinds) > 1:
                yield f"net of {sorted(net)} is {' and '.join(sorted(kinds))}"

    def _mismatched(self) -> Iterator[str]:
        for master, slave in self.connections:
            if "interface_port" in (master.split()[0], slave.split()[0]):
                continue
            clocks = [self._clocks(target) for target in (master, slave)]
            if not clocks[0] & clocks[1]:
                yield f"{master} and {slave} have different clocks"
            if self._interface(master).kind == AXIS:
                widths = {self._width(master, True), self._width(slave, False)} - {None}
                if len(widths) > 1:
                    yield f"{master} and {slave} have {' and '.join(map(str, sorted(map(int, widths))))} bits"  # type: ignore[arg-type]

    def _clocks(self, target: str) -> set[int]:
        """Nets of the clocks that an interface may have."""
        cell = target.partition(" ")[2].split("/")[0]
        names = {f"pin {cell}/{clock}" for clock in self._interface(target).clocks}
        return {k for k, net in enumerate(self.nets) if net & names}

    def _width(self, target: str, master: bool) -> int | None:
        """Bits of a stream; a converter's are those of its other side."""
        interface = self._interface(target)
        cell = target.partition(" ")[2].split("/")[0]
        if interface.width is not None or not master:
            return interface.width
        (source,) = (start for start, end in self.connections if end == f"interface {cell}/S_AXIS")
        return self._width(source, True)

    def _addressed(self) -> Iterator[str]:
        reached = set(self._reached())
        for space, segment in reached - set(self.addresses):
            yield f"{segment} has no address in {space}"
        for space, segment in set(self.addresses) - reached:
            yield f"{segment} has an address in {space}, which does not reach it"
        windows = {f"{c.name}/{s.name}": s for c in self.cells.values() for s in c.block.spaces}
        for (space, segment), (offset, size) in self.addresses.items():
            if size < self._segments()[segment].range or size & (size - 1) or offset % size:
                yield f"{segment} at {offset:#x}, {size:#x} bytes; expected a multiple of a power of two, large enough"
            if offset < windows[space].first or offset + size - 1 > windows[space].last:
                yield f"{segment} at {offset:#x} is outside of {space}"
            for (other_space, other), (start, length) in self.addresses.items():
                overlap = offset < start + length and start < offset + size
                if other_space == space and other != segment and overlap:
                    yield f"{segment} and {other} overlap in {space}"

    # runs

    def do_generate_target(self, kind: str, target: str) -> None:
        self._after("saved")
        if (kind, target) != ("all", "system.bd"):
            raise TclError(f"generate_target {kind} {target}")
        self._write("vivado/accelerator.gen/sources_1/bd/system/hw_handoff/system.hwh", hwh(self))
        self.steps.append("generated")

    def do_make_wrapper(self, *arguments: str) -> str:
        self._after("generated")
        options, _ = parsed(arguments, flags="top", values="files")
        if options != {"top": "1", "files": "system.bd"}:
            raise TclError(f"make_wrapper {options}")
        name = "vivado/accelerator.gen/sources_1/bd/system/hdl/system_wrapper.v"
        return str(self._write(name, "module system_wrapper; endmodule\n"))

    def do_launch_runs(self, *arguments: str) -> None:
        options, (name,) = parsed(arguments, values="jobs to_step", least=1, most=1)
        if name not in ("synth_1", "impl_1") or not options["jobs"].isdigit():
            raise TclError(f"launch_runs {name} {options}")
        if self.properties.get("top") != "system_wrapper":
            raise TclError("the top is not the design's wrapper")
        self._after("ran synth_1" if name == "impl_1" else "generated")
        if options.get("to_step") == "write_bitstream":
            self._after("timing")
            self._write("vivado/accelerator.runs/impl_1/system_wrapper.bit", "bits")
        self.steps.append(f"launched {name}")

    def do_wait_on_run(self, name: str) -> None:
        self._after(f"launched {name}")
        self.steps.append(f"ran {name}")

    def do_get_runs(self, name: str) -> str:
        self._after(f"ran {name}")
        return f"run {name}"

    def do_open_run(self, name: str) -> None:
        self._after(f"ran {name}")

    def do_report_timing_summary(self, *arguments: str) -> None:
        self._report("timing", arguments, flags="report_unconstrained")

    def do_report_utilization(self, *arguments: str) -> None:
        self._report("utilization", arguments, flags="hierarchical")

    def _report(self, name: str, arguments: tuple[str, ...], *, flags: str = "", values: str = "") -> None:
        self._after("route_design" if self.alone else "ran impl_1")
        options, _ = parsed(arguments, flags=flags, values=f"file {values}")
        self._in_folder(options["file"]).write_text(name)
        self.steps.append(name)

    def _after(self, step: str) -> None:
        if step not in self.steps:
            raise TclError(f"too early: expected {step} before")

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    # a module alone: what UG835 has of the commands, in the order of UG892's example of the non-project flow

    def do_read_verilog(self, *arguments: str) -> None:
        _, (names,) = parsed(arguments, flags="sv", values="library", least=1, most=1)
        self.do_add_files(names)

    def do_read_xdc(self, *arguments: str) -> None:
        options, (name,) = parsed(arguments, values="mode", least=1, most=1)
        if options.get("mode") not in (None, "out_of_context") or not Path(name).is_file():
            raise TclError(f"read_xdc {name} {options}")
        self.constraints.append(Path(name))

    def do_synth_design(self, *arguments: str) -> None:
        """Constraints of a file are applied when its design is opened: ports that it names must be there (UG903)."""
        options, _ = parsed(arguments, values="top part mode")
        if options.get("part") != self.part or options.get("mode") != "out_of_context":
            raise TclError(f"synth_design {options} of a project for {self.part}")
        self.alone = verilog_module(self.sources, options["top"])
        commands = {name: getattr(self, f"xdc_{name}") for name in ("create_clock", "get_ports")}
        commands |= {f"set_{way}_delay": getattr(self, f"xdc_set_{way}_delay") for way in ("input", "output")}
        for path in self.constraints:
            tcl.run(path, commands, self.engine)
        if not self.clocks:
            raise TclError("no clock: every path would be unconstrained")
        self.steps.append("synth_design")

    def xdc_get_ports(self, *arguments: str) -> str:
        _, (pattern,) = parsed(arguments, least=1, most=1)
        known = {port.name + "[*]" * (port.width > 1): port.name for port in self.alone}
        names = [known.get(name, "") for name in pattern.split()]
        if not all(names):
            raise TclError(f"no ports {arguments}; there are {', '.join(known)}")
        return "ports " + " ".join(names)

    def xdc_create_clock(self, *arguments: str) -> None:
        options, (port,) = parsed(arguments, flags="add", values="period name", least=1, most=1)
        if not float(options["period"]) > 0 or len(port.split()) != 2:
            raise TclError(f"create_clock {options} of {port}")
        self.clocks.add(options["name"])

    def xdc_set_input_delay(self, *arguments: str) -> None:
        self._delay(True, arguments)

    def xdc_set_output_delay(self, *arguments: str) -> None:
        self._delay(False, arguments)

    def _delay(self, into: bool, arguments: tuple[str, ...]) -> None:
        options, (delay, ports) = parsed(arguments, flags="max min", values="clock", least=2, most=2)
        _, *names = ports.split()
        ways = {port.into for port in self.alone if port.name in names}
        if options["clock"] not in self.clocks or ways != {into} or set(names) & self.clocks or float(delay) < 0:
            raise TclError(f"a delay of {delay} at {ports} {options}; expected ports of one way, not the clock's")

    def do_opt_design(self) -> None:
        self._implement("opt_design", "synth_design")

    def do_place_design(self) -> None:
        self._implement("place_design", "opt_design")

    def do_phys_opt_design(self) -> None:
        self._implement("phys_opt_design", "place_design")

    def do_route_design(self) -> None:
        self._implement("route_design", "place_design")

    def _implement(self, step: str, before: str) -> None:
        self._after(before)
        self.steps.append(step)

    def do_report_cdc(self, *arguments: str) -> None:
        self._report("cdc", arguments, flags="details")

    def do_report_methodology(self, *arguments: str) -> None:
        self._report("methodology", arguments)

    def do_report_high_fanout_nets(self, *arguments: str) -> None:
        self._report("fanout", arguments, values="max_nets")

    def do_report_control_sets(self, *arguments: str) -> None:
        self._report("resets", arguments, flags="verbose")

    def do_write_checkpoint(self, *arguments: str) -> None:
        _, (name,) = parsed(arguments, flags="force", least=1, most=1)
        self._after("route_design")
        self._in_folder(name).write_text("checkpoint")

    def do_get_timing_paths(self, *arguments: str) -> str:
        self._after("route_design")
        parsed(arguments, flags="setup hold", values="max_paths nworst")
        return "path worst"

    # kernels

    def do_ipx_package_project(self, *arguments: str) -> None:
        options, _ = parsed(
            arguments, flags="import_files force", values="root_dir vendor library taxonomy set_current"
        )
        top = self.properties.get("top", "")
        self.core = {
            "root": self._in_folder(options["root_dir"]),
            "ports": verilog_module(self.sources, top),
            "block": module_block(verilog_module(self.sources, top), top),
            "clocks": {},
            "maps": {name for name in self._block_of(top).interfaces({}) if name.startswith("s_axil")},
        }

    def _block_of(self, top: str) -> Any:
        return module_block(verilog_module(self.sources, top), top)

    def do_ipx_current_core(self) -> str:
        if not self.core:
            raise TclError("no core is packaged")
        return "core core"

    def do_ipx_associate_bus_interfaces(self, *arguments: str) -> None:
        options, _ = parsed(arguments, values="busif clock reset", least=1, most=1)
        if options["busif"] not in self.core["block"].interfaces({}):
            raise TclError(f"no interface {options['busif']}")
        if options["clock"] not in self.core["block"].pins({}):
            raise TclError(f"no clock {options['clock']}")
        self.core["clocks"][options["busif"]] = options["clock"]

    def do_ipx_add_memory_map(self, name: str, core: str) -> str:
        """package_project makes one of each AXI slave: public scripts get it and add registers to its block reg0
        (Xilinx/Vitis_Accel_Examples, rtl_kernels/*/scripts/package_kernel.tcl)."""
        if name in self.core["maps"]:
            raise TclError(f"memory map {name} exists already")
        self.core["maps"].add(name)
        return f"map {name}"

    def do_ipx_get_memory_maps(self, *arguments: str) -> str:
        _, (name,) = parsed(arguments, values="of_objects", least=1, most=1)
        if name not in self.core["maps"]:
            raise TclError(f"no memory map {name}")
        return f"map {name}"

    def do_ipx_get_address_blocks(self, *arguments: str) -> str:
        options, (name,) = parsed(arguments, values="of_objects", least=1, most=1)
        if name != "reg0" or not options["of_objects"].startswith("map "):
            raise TclError(f"no address block {name} in '{options['of_objects']}'")
        return f"block {name}"

    def do_ipx_get_bus_interfaces(self, *arguments: str) -> str:
        _, (name,) = parsed(arguments, values="of_objects", least=1, most=1)
        if name not in self.core["block"].interfaces({}):
            raise TclError(f"no interface {name}")
        return f"bus {name}"

    def do_ipx_add_address_block(self, name: str, place: str) -> str:
        if not place.startswith("map "):
            raise TclError(f"an address block in '{place}'")
        return f"block {name}"

    def do_ipx_add_register(self, name: str, place: str) -> str:
        if not place.startswith("block ") or name in self.registers:
            raise TclError(f"register {name} in '{place}'")
        self.registers[name] = -1
        return f"register {name}"

    def _set_kernel(self, kind: str, place: str, name: str, value: str) -> None:
        allowed = {
            "core": ("name", "version", "sdx_kernel", "sdx_kernel_type", "ipi_drc"),
            "map": (),
            "bus": ("slave_memory_map_ref",),
            "block": ("range", "width"),
            "register": ("address_offset", "size"),
        }[kind]
        if name not in allowed:
            raise TclError(f"a {kind} has no property {name}")
        if name == "address_offset":
            self.registers[place] = int(value, 0)
        self.core[f"{kind} {name}"] = value

    def do_ipx_create_xgui_files(self, core: str) -> None:
        parsed((core,), least=1, most=1)

    def do_ipx_update_checksums(self, core: str) -> None:
        parsed((core,), least=1, most=1)

    def do_ipx_check_integrity(self, *arguments: str) -> None:
        parsed(arguments, flags="kernel quiet", least=1, most=1)
        streams = {name for name in self.core["block"].interfaces({}) if name not in self.core["clocks"]}
        if streams:
            raise TclError(f"interfaces without a clock: {', '.join(sorted(streams))}")
        if not {"ap_clk", "ap_rst_n"} <= set(self.core["block"].pins({})):
            raise TclError("a kernel has ap_clk and ap_rst_n")
        if len(set(self.registers.values())) != len(self.registers) or min(self.registers.values()) < 0:
            raise TclError("registers without an address of their own")
        if max(self.registers.values()) + 4 > int(self.core["block range"], 0):
            raise TclError("registers outside of their block")

    def do_ipx_save_core(self, core: str) -> None:
        self.steps.append("core")

    def do_package_xo(self, *arguments: str) -> None:
        self._after("core")
        options, _ = parsed(arguments, flags="force", values="ctrl_protocol xo_path kernel_name ip_directory")
        if options["kernel_name"] != self.core["core name"] or Path(options["ip_directory"]) != self.core["root"]:
            raise TclError(f"package_xo of another core: {options}")
        if (self.core["core sdx_kernel"], self.core["core sdx_kernel_type"]) != ("true", "rtl"):
            raise TclError("the core is no RTL kernel")
        if options["ctrl_protocol"] != "user_managed":
            raise TclError("registers of its own need user_managed")
        self._in_folder(options["xo_path"]).write_text("xo")


_PORT = re.compile(r"((?:\(\*.*?\*\)\s*)*)(input|output) (?:wire|reg) (?:\[(\d+):0\] )?(\w+)")
_MARK = re.compile(r'\(\* (\w+) = "([^"]*)" \*\)')


@dataclass(frozen=True)
class ModulePort:
    name: str
    into: bool
    width: int
    marks: dict[str, str]


def verilog_module(sources: list[Path], name: str) -> list[ModulePort]:
    """The ports of a module, from its Verilog."""
    for path in sources:
        if match := re.search(rf"^module {re.escape(name)} \((.*?)^\);", path.read_text(), re.M | re.S):
            return [
                ModulePort(port[4], port[2] == "input", int(port[3] or 0) + 1, dict(_MARK.findall(port[1])))
                for port in _PORT.finditer(match[1])
            ]
    raise TclError(f"no module {name} in {', '.join(path.name for path in sources)}")


def module_block(ports: list[ModulePort], name: str) -> Block:
    """What Vivado takes a module for, by the attributes of its ports."""
    signals: dict[str, dict[str, ModulePort]] = {}
    kinds: dict[str, str] = {}
    pins: dict[str, Pin] = {}
    clock_of: dict[str, str] = {}
    for port in ports:
        definition, interface, signal = port.marks["X_INTERFACE_INFO"].split()
        kind = definition.split(":")[2]
        if kind in ("clock", "reset"):
            if (interface, signal) != (port.name, "CLK" if kind == "clock" else "RST"):
                raise TclError(f"{name}: {port.name} is {definition} {interface} {signal}")
            pins[port.name] = Pin("clk" if kind == "clock" else "rst", not port.into)
            settings = dict(item.strip().split(" ") for item in port.marks["X_INTERFACE_PARAMETER"].split(","))
            clock_of |= dict.fromkeys(settings.get("ASSOCIATED_BUSIF", "").split(":"), port.name)
        else:
            signals.setdefault(interface, {})[signal] = port
            kinds[interface] = kind
    interfaces = {}
    for interface, by_signal in signals.items():
        expected = STREAM_SIGNALS if kinds[interface] == AXIS else LITE_SIGNALS
        if set(by_signal) != expected:
            raise TclError(f"{name}: {interface} has {sorted(by_signal)}; expected {sorted(expected)}")
        masters = {bool(FROM_MASTER.fullmatch(signal)) != port.into for signal, port in by_signal.items()}
        if len(masters) != 1:
            raise TclError(f"{name}: signals of {interface} go both ways")
        width = by_signal["TDATA"].width if kinds[interface] == AXIS else None
        if interface not in clock_of:
            raise TclError(f"{name}: {interface} has no clock")
        interfaces[interface] = Interface(kinds[interface], masters.pop(), (clock_of[interface],), width)
    segments = tuple(
        Segment(interface, "reg0", None, 2 ** by_signal["AWADDR"].width)
        for interface, by_signal in signals.items()
        if kinds[interface] == MEMORY_MAPPED
    )
    return Block({}, lambda settings: interfaces, lambda settings: pins, segments)


VERSIONS = {"axi_dma": "7.1", "processing_system7": "5.5"}
"""Of blocks whose version pynq looks at."""


def hwh(design: Vivado) -> str:
    """The hardware description that Vivado writes beside the bitstream, as far as pynq reads it."""
    root = ElementTree.Element("EDKSYSTEM", EDWVERSION="1.2", VIVADOVERSION="2023.2")
    ElementTree.SubElement(root, "SYSTEMINFO", ARCH="zynq", DEVICE=design.part, NAME="system")
    ElementTree.SubElement(root, "EXTERNALPORTS")
    ElementTree.SubElement(root, "EXTERNALINTERFACES")
    modules = ElementTree.SubElement(root, "MODULES")
    for cell in design.cells.values():
        kind = cell.vlnv.split(":")[2]
        vlnv = f"{cell.vlnv}:{VERSIONS.get(kind, '1.0')}"
        module = ElementTree.SubElement(
            modules, "MODULE", FULLNAME=f"/{cell.name}", INSTANCE=cell.name, MODTYPE=kind, VLNV=vlnv
        )
        parameters = ElementTree.SubElement(module, "PARAMETERS")
        for name, value in {**cell.block.preset, **cell.settings}.items():
            for spelling in dict.fromkeys((name.upper(), name)):  # generics of the module, and of the block
                ElementTree.SubElement(parameters, "PARAMETER", NAME=spelling, VALUE=value)
        ElementTree.SubElement(module, "PORTS")
        buses = ElementTree.SubElement(module, "BUSINTERFACES")
        for name, interface in cell.interfaces.items():
            ElementTree.SubElement(
                buses,
                "BUSINTERFACE",
                NAME=name,
                TYPE="MASTER" if interface.master else "SLAVE",
                VLNV=f"xilinx.com:interface:{interface.kind}:1.0",
            )
        memory = ElementTree.SubElement(module, "MEMORYMAP")
        for space in cell.block.spaces:
            for (owner, segment), (offset, size) in design.addresses.items():
                if owner == f"{cell.name}/{space.name}":
                    instance, interface_name, block = segment.split("/")
                    ElementTree.SubElement(
                        memory,
                        "MEMRANGE",
                        ADDRESSBLOCK=block,
                        BASEVALUE=f"0x{offset:08X}",
                        HIGHVALUE=f"0x{offset + size - 1:08X}",
                        INSTANCE=instance,
                        MASTERBUSINTERFACE=space.interface,
                        MEMTYPE="MEMORY" if "DDR" in block else "REGISTER",
                        SLAVEBUSINTERFACE=SEGMENT_INTERFACES.get(interface_name, interface_name),
                    )
    return ElementTree.tostring(root, encoding="unicode")


def main(arguments: list[str]) -> None:
    """`vivado -mode batch -notrace -source SCRIPT` for a test that calls it by make."""
    options, _ = parsed(tuple(arguments), flags="notrace", values="mode source")
    if options["mode"] != "batch":
        raise SystemExit(f"mode {options['mode']}")
    try:
        design = Vivado(Path.cwd()).run(options["source"], tcl.engines()[0])
    except TclError as error:
        raise SystemExit(f"ERROR: {error}") from None
    print("\n".join(design.printed))


if __name__ == "__main__":
    main(sys.argv[1:])
