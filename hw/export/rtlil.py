"""Parse the RTLIL that Amaranth writes: modules with wires, cells, processes and connections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Bits(NamedTuple):
    """A part of a signal: bits of a wire, or a constant."""

    name: str
    """Name of the wire, or the digits of the constant."""
    high: int
    """Highest bit of the wire."""
    low: int
    """Lowest bit of the wire; -1 for a constant."""

    @property
    def width(self) -> int:
        """Return the number of bits."""
        return len(self.name) if self.low < 0 else self.high - self.low + 1


Signal = tuple[Bits, ...]
"""Parts of a signal, the highest bits first."""


def width_of(signal: Signal) -> int:
    """Return the number of bits of a signal."""
    return sum(part.width for part in signal)


@dataclass
class Wire:
    """A wire of a module."""

    name: str
    width: int
    kind: str
    """"input", "output", or "" for an internal wire."""
    init: str | None
    """Digits of the initial value, for a register."""
    attributes: dict[str, str] = field(default_factory=dict)
    """Attributes for synthesis, as RTLIL writes them."""


@dataclass
class Cell:
    """An operation or an instance."""

    kind: str
    """Operator such as $add, or the name of a module."""
    name: str
    parameters: dict[str, str] = field(default_factory=dict)
    """Parameters as RTLIL writes them."""
    ports: dict[str, Signal] = field(default_factory=dict)


class Assign(NamedTuple):
    """An assignment or a connection."""

    target: Signal
    value: Signal


class SwitchCase(NamedTuple):
    """A case of a switch."""

    patterns: tuple[str, ...]
    """Patterns of the digits 0, 1 and -; empty for the default case."""
    body: Body


class Switch(NamedTuple):
    """A switch with its cases."""

    test: Signal
    cases: list[SwitchCase]


Body = list["Assign | Switch"]
"""Statements of a process or a case."""


class MemoryBlock(NamedTuple):
    """A memory of a module."""

    name: str
    width: int
    size: int
    attributes: dict[str, str]


@dataclass
class Module:
    """A module of a netlist."""

    name: str
    wires: dict[str, Wire] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    processes: list[Body] = field(default_factory=list)
    connections: list[Assign] = field(default_factory=list)
    memories: dict[str, MemoryBlock] = field(default_factory=dict)


_PART = re.compile(r"(?P<digits>\d+'[01x-]*)|(?P<name>[\\$]\S+)(?: \[(?P<high>\d+)(?::(?P<low>\d+))?\](?=\s|$))?|[{}]")


INTENT = ("\\keep", "\\max_fanout", "\\shreg_extract")
"""Attributes of registers that synthesis reads."""


def modules_of(text: str) -> list[Module]:
    """Return the modules of RTLIL that Amaranth wrote."""
    lines = (line for line in (line.strip() for line in text.splitlines()) if line)
    modules = []
    attributes: dict[str, str] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "attribute":
            name, _, value = rest.partition(" ")
            attributes[name] = value
            continue
        if word == "module":
            modules.append(Module(rest.removeprefix("\\")))
        elif word != "end":
            _statement(modules[-1], word, rest, attributes, lines)
        attributes = {}
    for module in modules:
        _drop_empty(module)
    return modules


def _drop_empty(module: Module) -> None:
    """Remove operations, processes and connections whose results have no bits."""
    module.cells = [c for c in module.cells if () not in (c.ports.get(port) for port in ("Y", "Q", "DATA"))]
    module.processes = [p for p in module.processes if not isinstance(p[0], Assign) or p[0].target]
    module.connections = [c for c in module.connections if c.target]
    module.memories = {name: memory for name, memory in module.memories.items() if memory.width and memory.size}


def _statement(module: Module, word: str, rest: str, attributes: dict[str, str], lines: Iterator[str]) -> None:
    """Parse a statement of a module."""
    if word == "wire":
        *options, name = rest.split()
        kind = next((option for option in options if option in ("input", "output")), "")
        width = int(options[options.index("width") + 1])
        init = attributes.get("\\init")
        intent = {key: value for key, value in attributes.items() if key in INTENT}
        module.wires[name] = Wire(name, width, kind, None if init is None else init.partition("'")[2], intent)
    elif word == "memory":
        _, bits, _, size, name = rest.split()
        module.memories[name] = MemoryBlock(name, int(bits), int(size), attributes)
    elif word == "cell":
        kind, name = rest.split()
        module.cells.append(_cell(module, kind, name, lines))
    elif word == "process":
        module.processes.append(_body(module, lines)[0])
    elif word == "connect":
        target, value = _signals(module, rest)
        module.connections.append(Assign(target, value))
    else:
        raise ValueError(f"RTLIL statement '{word}'; expected one that Amaranth writes")


def _cell(module: Module, kind: str, name: str, lines: Iterator[str]) -> Cell:
    """Parse a cell."""
    cell = Cell(kind, name)
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "end":
            break
        if word == "parameter":
            *_, key, value = rest.split(" ", 2) if rest.startswith("signed ") else rest.split(" ", 1)
            cell.parameters[key.removeprefix("\\")] = value
        else:
            port, _, value = rest.partition(" ")
            (cell.ports[port.removeprefix("\\")],) = _signals(module, value)
    return cell


def _body(module: Module, lines: Iterator[str]) -> tuple[Body, str]:
    """Parse the statements up to the next `case` or `end`, and return them with that line."""
    body: Body = []
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "assign":
            target, value = _signals(module, rest)
            body.append(Assign(target, value))
        elif word == "switch":
            (test,) = _signals(module, rest)
            body.append(Switch(test, _cases(module, lines)))
        else:
            return body, line
    return body, "end"


def _cases(module: Module, lines: Iterator[str]) -> list[SwitchCase]:
    """Parse the cases of a switch."""
    cases = []
    line = next(lines)
    while line != "end":
        patterns = tuple(pattern.partition("'")[2] for pattern in line.removeprefix("case").strip().split(", "))
        body, line = _body(module, lines)
        cases.append(SwitchCase(patterns if patterns != ("",) else (), body))
    return cases


def _signals(module: Module, text: str) -> list[Signal]:
    """Return the signals in a line."""
    signals: list[Signal] = []
    several: list[Bits] | None = None
    for match in _PART.finditer(text):
        if match[0] == "{":
            several = []
            continue
        if match[0] == "}":
            signals.append(tuple(several or ()))
            several = None
            continue
        parts = _bits(module, match)
        if several is None:
            signals.append(parts)
        else:
            several += parts
    return signals


def _bits(module: Module, match: re.Match[str]) -> Signal:
    """Return the part of a signal that a match describes."""
    if match["digits"] is not None:
        digits = match["digits"].partition("'")[2]
        return (Bits(digits, -1, -1),) if digits else ()
    name = match["name"]
    if match["high"] is None:
        width = module.wires[name].width
        return (Bits(name, width - 1, 0),) if width else ()
    high = int(match["high"])
    return (Bits(name, high, int(match["low"] or high)),)
