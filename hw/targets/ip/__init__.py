"""Package an accelerator for the tools that integrate it: IP-XACT, SystemRDL, C, VHDL, FuseSoC, LiteX and Amaranth.

All files follow from the record of a design. The Verilog is copied next to them, so the folder can be moved.
"""

from __future__ import annotations

import shutil
from os import PathLike
from pathlib import Path

from dynagate.base.errors import ArgumentError
from dynagate.base.storage import write
from dynagate.base.untrusted import file_name
from dynagate.design.files import load
from dynagate.design.program import PROGRAM, ProgramBody
from dynagate.design.verilog_list import read_list
from dynagate.hw.processor.streams import with_bench_streams
from dynagate.hw.targets.ip.amaranth_component import amaranth_component
from dynagate.hw.targets.ip.c_header import c_header
from dynagate.hw.targets.ip.core import IpCore
from dynagate.hw.targets.ip.fusesoc import fusesoc_core
from dynagate.hw.targets.ip.ipxact import ipxact_component
from dynagate.hw.targets.ip.litex import litex_module
from dynagate.hw.targets.ip.systemrdl import systemrdl
from dynagate.hw.targets.ip.vhdl import vhdl_entity
from dynagate.hw.targets.project import ProjectError

RTL = "rtl"
"""Folder of the Verilog inside the package."""


def write_ip(folder: str | PathLike[str], output: str | PathLike[str] | None = None) -> Path:
    """Write the package of the accelerator in a design's folder, and return the folder of the package.

    The package holds component.xml (IP-XACT, IEEE 1685-2014), registers.rdl (SystemRDL 2.0), registers.h (C), a
    FuseSoC core file, a LiteX module, Amaranth components, a VHDL entity, and the Verilog in `rtl`. The package of a
    program holds the Verilog of its cores, and program.bin, which a host streams to them.

    Args:
        folder: Folder of a program, or of a design with an AXI shell.
        output: Folder of the package, by default `ip` in the design's folder. Files of the same names are replaced.

    Raises:
        DesignError: The folder has no design, or a damaged one.
        ArgumentError: The design has no AXI shell, no Verilog, or its program has no bench and thus no Verilog.
        ProjectError: The package cannot be written.
    """
    folder = Path(folder)
    design = load(folder)
    if isinstance(design.body, ProgramBody):
        if design.body.shell is None:
            raise ArgumentError(
                f"{folder} is a program without a bench, so it has no Verilog; expected a program with a bench. "
                "`dynagate bitstream --core --board NAME` writes the core of a board",
                code="DG-SYNTH-007",
            )
        design = with_bench_streams(design)
    if design.axi is None:
        raise ArgumentError(
            f"{folder} has no AXI shell; expected a design that was built with axi=Axi(64) (--axi 64)",
            code="DG-SYNTH-008",
        )
    names = read_list(folder)
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise ArgumentError(
            f"{folder} has no {missing[0]}; expected the Verilog of the design: build it again", code="DG-SYNTH-009"
        )
    core = IpCore.of(design, [f"{RTL}/{name}" for name in names])
    copies = {name: f"{RTL}/{name}" for name in names} | ({PROGRAM: PROGRAM} if design.is_loaded else {})
    place = Path(output) if output is not None else folder / "ip"
    texts = {
        "component.xml": ipxact_component(core),
        "registers.rdl": systemrdl(core),
        "registers.h": c_header(core),
        f"{file_name(core.name)}.core": fusesoc_core(core),
        f"{core.name}_litex.py": litex_module(core),
        f"{core.name}_amaranth.py": amaranth_component(core),
        f"{core.name}.vhd": vhdl_entity(core),
    }
    try:
        (place / RTL).mkdir(parents=True, exist_ok=True)
        for name, to in copies.items():
            shutil.copyfile(folder / name, place / to)
    except OSError as error:
        raise ProjectError(f"cannot write the package into {place} ({error.strerror})", code="DG-SYNTH-010") from error
    for name, text in texts.items():
        write(place / name, text, ProjectError)
    return place
