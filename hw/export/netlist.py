"""Convert gateware to RTLIL and Verilog, with one module for all equal units.

Amaranth writes a module for every instance. Modules with equal bodies are merged, so that a reader sees each unit once,
and Yosys and Verilator process it once.
"""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from amaranth.back import rtlil
from dynagate.design.verilog_list import PLAIN, file_of
from dynagate.hw.export.identifiers import LEVEL, Names, instance_name, module_name, with_stream_ports
from dynagate.hw.export.rtlil import modules_of
from dynagate.hw.export.style import clock_domain, target_of
from dynagate.hw.export.verilog import verilog_of

_MODULE = re.compile(r"^(?:attribute [^\n]*\n)*module \\(\S+)\n", flags=re.M)
_END = "\nend\n"
"""Text behind the last line of a module: lines inside a module are indented."""
_CELL_BLOCK = re.compile(r"^\s*cell \\(\S+) .*?^\s*end\n", flags=re.M | re.S)
_CONNECT = re.compile(r"^(\s*connect )\\(\S+) ", flags=re.M)
_WIRE = re.compile(r"^\s*wire .*\\(\S+)$", flags=re.M)
_NUMBERED = re.compile(r"port\$\d+\$\d+")
_NUMBERED_PORT = re.compile(r"\\(port\$\d+\$\d+)(?=[ \n])")
_CELL = re.compile(r"^(\s*cell )\\(\S+)( )", flags=re.M)
_INSTANCE = re.compile(r"^(\s*cell \\\S+ )\\(\S+)$", flags=re.M)
_STYLED = re.compile(r"^ *attribute \\ram_style [^\n]*\n *memory [^\n]* \\(\S+)$", flags=re.M)
_READ = re.compile(r'^ *parameter \\MEMID "\\\\(\S+)"\n(?: *parameter [^\n]*\n)*', flags=re.M)
_COLLISION = re.compile(r"(COLLISION_X_MASK 1')0$", flags=re.M)
_ZEROS = re.compile(
    r'^  cell \$meminit_v2 [^\n]*\n    parameter \\MEMID "\\\\(\S+)"\n(?:    (?!connect \\DATA)[^\n]*\n)*'
    r"    connect \\DATA \d+'0+\n"
    r"(?:    [^\n]*\n)*  end\n",
    flags=re.M,
)
"""Pattern of a cell that initialises a memory with 0."""


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the garbage collector, unless another Python thread runs.

    A conversion creates millions of objects and hardly any garbage; the collector would take a third of the time.
    """
    pauses = gc.isenabled() and threading.active_count() == 1
    if pauses:
        gc.disable()
    try:
        yield
    finally:
        if pauses:
            gc.enable()


def rtlil_text(component: Any, name: str, platform: Any = None) -> str:
    """Return the RTLIL of a component, with equal modules merged and plain names of modules, instances and streams.

    A memory with a `ram_style` has an undefined output if it is read and written at once. Block RAMs of most devices
    have the same property, and Yosys would otherwise add logic for a defined output.

    Args:
        component: Component of Amaranth.
        name: Name of its module.
        platform: Device that it is elaborated for, such as a `units.multiply.DspTarget`.
    """
    with _no_collection():
        missing = partial(clock_domain, platform)
        text = rtlil.convert(component, name=name, platform=platform, emit_src=False, missing_domain=missing)
    return _merged({module: _without_collisions(body) for module, body in _bodies(text)}, name)


def _bodies(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the RTLIL of each module in a text."""
    for body in text.split(_END):
        if (head := _MODULE.search(body)) is not None:
            yield head[1], body[head.start() :] + _END


def _without_collisions(module: str) -> str:
    """Make the output of a module's memories undefined if a word is read and written at once."""
    styled = set(_STYLED.findall(module))

    def read(match: re.Match[str]) -> str:
        clocked = match[1] in styled and "CLK_ENABLE 1" in match[0]
        return _COLLISION.sub(r"\g<1>1", match[0]) if clocked else match[0]

    return _READ.sub(read, module) if styled else module


def verilog_text(
    component: Any,
    name: str,
    platform: Any = None,
    *,
    blank: bool = False,
    zeroed: Collection[str] = (),
    shown: Collection[str] = (),
    style: str = PLAIN,
) -> str:
    """Return the Verilog of a component.

    Args:
        component: Component of Amaranth.
        name: Name of its module.
        platform: Device that it is elaborated for, instead of the style's.
        blank: Whether memories of zeros have no initial value, except those in `zeroed`.
        zeroed: Names of memories that keep their zeros.
        shown: Names of values that remain although nothing reads them.
        style: Style of the text, "plain" or "strict".
    """
    text = rtlil_text(component, name, platform or target_of(style))
    if blank:
        text = _ZEROS.sub(lambda cell: cell[0] if cell[1] in zeroed else "", text)
    return "\n".join(verilog_of(modules_of(text), shown, style).values())


def verilog_files(component: Any, name: str, shown: Collection[str] = (), style: str = PLAIN) -> dict[str, str]:
    """Return the Verilog of a component, divided into files, by file name.

    The top module has a file of its own. Each of its submodules has a file with all modules inside it, named after
    both.

    Args:
        component: Component of Amaranth.
        name: Name of its module.
        shown: Names of values that remain although nothing reads them.
        style: Style of the text, "plain" or "strict".
    """
    modules = modules_of(rtlil_text(component, name, target_of(style)))
    groups: dict[str, list[str]] = {file_of(name, ""): []}
    for module, text in verilog_of(modules, shown, style).items():
        part = re.sub(r"_v\d+$", "", module.removeprefix(name).removeprefix(LEVEL).partition(LEVEL)[0])
        groups.setdefault(file_of(name, part), []).append(text)
    return {file: "\n".join(texts) for file, texts in groups.items()}


def _merged(bodies: dict[str, str], top: str) -> str:
    """Merge modules with equal bodies; the result has the name of the first without its number."""
    modules = _with_plain_ports(bodies)
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
    taken, shorter = Names([top]), {}
    for name in modules:
        if name != top:
            shorter[name] = taken.unique(module_name(re.sub(r"_\d+(?=\.|$)", "", name)), "v")
    texts = []
    for name, body in modules.items():
        body = _with_plain_instances(_renamed(body, shorter))
        if name == top:
            body = with_stream_ports(body)
        texts.append(body.replace(f"module \\{name}\n", f"module \\{shorter.get(name, name)}\n", 1))
    return "\n".join(texts)


def _with_plain_instances(body: str) -> str:
    """Rename the instances in a module."""
    taken = Names()
    return _INSTANCE.sub(lambda cell: f"{cell[1]}\\{taken.unique(instance_name(cell[2]))}", body)


def _with_plain_ports(modules: dict[str, str]) -> dict[str, str]:
    """Renumber the ports that Amaranth numbered, so that equal modules have equal port names."""
    plain: dict[str, dict[str, str]] = {}
    for name, body in modules.items():
        numbered = dict.fromkeys(m[1] for m in _WIRE.finditer(body) if _NUMBERED.fullmatch(m[1]))
        plain[name] = {old: f"port_{k}" for k, old in enumerate(numbered)}

    def cell(match: re.Match[str]) -> str:
        ports = plain.get(match[1], {})
        return _CONNECT.sub(lambda c: f"{c[1]}\\{ports.get(c[2], c[2])} ", match[0])

    result = {}
    for name, body in modules.items():
        result[name] = _with_ports(_CELL_BLOCK.sub(cell, body), plain[name])
    return result


def _with_ports(body: str, names: Mapping[str, str]) -> str:
    """Rename the numbered ports in a body."""
    return _NUMBERED_PORT.sub(lambda port: f"\\{names.get(port[1], port[1])}", body)


def _renamed(body: str, names: dict[str, str]) -> str:
    """Rename the modules of the instances in a body."""
    return _CELL.sub(lambda m: f"{m[1]}\\{names.get(m[2], m[2])}{m[3]}", body)
