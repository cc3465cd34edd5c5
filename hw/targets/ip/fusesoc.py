"""A FuseSoC core file (CAPI2)."""

from __future__ import annotations

from dynagate.hw.targets.ip.core import LIBRARY, TOP, VENDOR, VERSION, IpCore


def fusesoc_core(core: IpCore) -> str:
    """Return the text of the core file: the Verilog, and a target that lints it with Verilator."""
    files = "".join(f"      - {name}\n" for name in core.files)
    head = "".join(f"# {line}\n" for line in core.notice)
    return (
        f"CAPI=2:\n{head}"
        f"name: {VENDOR}:{LIBRARY}:{core.name}:{VERSION}\n"
        f"description: {core.title}\n\n"
        "filesets:\n  rtl:\n    files:\n"
        f"{files}    file_type: verilogSource\n\n"
        "targets:\n"
        f"  default:\n    filesets: [rtl]\n    toplevel: {TOP}\n\n"
        f"  lint:\n    default_tool: verilator\n    filesets: [rtl]\n    toplevel: {TOP}\n"
        "    tools:\n      verilator:\n        mode: lint-only\n"
        "        verilator_options: [-Wno-fatal, -Wno-lint, -Wno-style]\n"
    )
