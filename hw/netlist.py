"""Gateware to RTLIL and Verilog, with one module for all units that are alike.

Amaranth writes a module for every instance. Those with the same body are made one, so that a reader sees each unit once
and Yosys and Verilator work on it once.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amaranth.back import rtlil, verilog
from dynagate.hw.yosys import YosysError

_MODULE = re.compile(r"^(?:attribute [^\n]*\n)*module \\(\S+)\n.*?^end\n", flags=re.M | re.S)
_CELL_BLOCK = re.compile(r"^\s*cell \\(\S+) .*?^\s*end\n", flags=re.M | re.S)
_CONNECT = re.compile(r"^(\s*connect )\\(\S+) ", flags=re.M)
_WIRE = re.compile(r"^\s*wire .*\\(\S+)$", flags=re.M)
_NUMBERED = re.compile(r"port\$\d+\$\d+")
_CELL = re.compile(r"^(\s*cell )\\(\S+)( )", flags=re.M)
_ZEROS = re.compile(
    r"^  cell \$meminit_v2 [^\n]*\n(?:    (?!connect \\DATA)[^\n]*\n)*    connect \\DATA \d+'0+\n"
    r"(?:    [^\n]*\n)*  end\n",
    flags=re.M,
)
"""A cell that gives a memory the value 0."""
_VERILOG_MODULE = re.compile(r"^(module [^;]*;\n)(.*?)(^endmodule\n)", flags=re.M | re.S)
_YOSYS_START = re.compile(r"^  reg (\\\$auto\$verilog_backend\S+) +(?:= 0)?;\n", flags=re.M)
_BARE_ALWAYS = re.compile(r"^  always @\*\n    (\S[^;]*;)\n", flags=re.M)
START = "dynagate_start"
"""A register that every `always @*` block reads and that changes once, when simulation starts."""


@contextmanager
def _no_collection() -> Iterator[None]:
    """A conversion makes millions of objects, hardly any of them garbage; to look for it takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def rtlil_text(component: Any, name: str, platform: Any = None) -> str:
    """platform: the device it is for, such as a `units.multiply.Fabric`."""
    with _no_collection():
        text = rtlil.convert(component, name=name, platform=platform, emit_src=False)
    return _merged(text, name)


def verilog_text(component: Any, name: str, platform: Any = None, *, blank: bool = False) -> str:
    """blank: memories of zeros begin with no value. Raises YosysError: Amaranth's Yosys failed, on a full disk say."""
    text = rtlil_text(component, name, platform)
    if blank:
        text = _ZEROS.sub("", text)
    try:
        # `verilog.convert` has no place for a pass between its two steps
        return _started(verilog._convert_rtlil_text(text, strip_internal_attrs=True))
    except verilog.YosysError as error:
        last = str(error).strip().rpartition("\n")[2]
        raise YosysError(f"Amaranth's Yosys wrote no Verilog of '{name}': {last}") from None


def _started(text: str) -> str:
    """The Verilog with blocks that all run when simulation starts.

    An `always @*` block runs when something that it reads changes. Where that is a constant, or a register that keeps
    its initial value, the block never runs, and what it should set stays X. Yosys lets most blocks read a register, but
    sets it where it declares it, which SystemVerilog does before any block waits (IEEE 1800, 6.8). The nonblocking
    assignment here changes it when all blocks wait.
    """
    return _VERILOG_MODULE.sub(lambda m: m[1] + _with_start(m[2]) + m[3], text)


def _with_start(body: str) -> str:
    """The body of one module."""
    declared = _YOSYS_START.search(body)
    if declared:
        body = body.replace(declared[0], "", 1).replace(f"{declared[1]} ", START)
    body, bare = _BARE_ALWAYS.subn(
        lambda m: f"  always @* begin\n    if ({START}) begin end\n    {m[1]}\n  end\n", body
    )
    return f"  reg {START};\n  initial {START} <= 0;\n{body}" if declared or bare else body


def _merged(text: str, top: str) -> str:
    """The modules with equal bodies as one, named after the first without its number."""
    modules = _with_plain_ports({match[1]: match[0] for match in _MODULE.finditer(text)})
    while True:
        by_body: dict[str, str] = {}
        same: dict[str, str] = {}
        for name, body in modules.items():
            first = by_body.setdefault(body.replace(f"module \\{name}\n", "module\n", 1), name)
            if first != name:
                same[name] = first
        if not same:
            break
        modules = {name: _renamed(body, same) for name, body in modules.items() if name not in same}
    taken: set[str] = {top}
    shorter = {}
    for name in modules:
        if name != top:
            base = candidate = re.sub(r"_\d+(?=\.|$)", "", name)
            k = 1
            while candidate in taken:
                k += 1
                candidate = f"{base}_v{k}"
            taken.add(candidate)
            shorter[name] = candidate
    return "\n".join(
        _renamed(body, shorter).replace(f"module \\{name}\n", f"module \\{shorter.get(name, name)}\n", 1)
        for name, body in modules.items()
    )


def _with_plain_ports(modules: dict[str, str]) -> dict[str, str]:
    """Ports without a name of ours have numbers that differ from one instance to the next: counted anew in each."""
    plain: dict[str, dict[str, str]] = {}
    for name, body in modules.items():
        numbered = dict.fromkeys(m[1] for m in _WIRE.finditer(body) if _NUMBERED.fullmatch(m[1]))
        plain[name] = {old: f"port_{k}" for k, old in enumerate(numbered)}

    def cell(match: re.Match[str]) -> str:
        ports = plain.get(match[1], {})
        return _CONNECT.sub(lambda c: f"{c[1]}\\{ports.get(c[2], c[2])} ", match[0])

    result = {}
    for name, body in modules.items():
        body = _CELL_BLOCK.sub(cell, body)
        for old, new in plain[name].items():
            body = body.replace(f"\\{old} ", f"\\{new} ").replace(f"\\{old}\n", f"\\{new}\n")
        result[name] = body
    return result


def _renamed(body: str, names: dict[str, str]) -> str:
    return _CELL.sub(lambda m: f"{m[1]}\\{names.get(m[2], m[2])}{m[3]}", body)
