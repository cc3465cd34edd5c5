"""Amaranth's netlists as they are read back from RTLIL: modules of wires, cells, processes and connections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Bits(NamedTuple):
    """Bits low to high of a wire; of a constant, whose digits `name` then is, low is -1."""

    name: str
    high: int
    low: int

    @property
    def width(self) -> int:
        return len(self.name) if self.low < 0 else self.high - self.low + 1


Signal = tuple[Bits, ...]
"""Highest bits first."""


def width_of(signal: Signal) -> int:
    return sum(part.width for part in signal)


@dataclass
class Wire:
    """kind: "input", "output", or "" inside. init: digits of the register's value at the start."""

    name: str
    width: int
    kind: str
    init: str | None


@dataclass
class Cell:
    """kind: an operator such as $add, or a module's name. parameters: as RTLIL writes them."""

    kind: str
    name: str
    parameters: dict[str, str] = field(default_factory=dict)
    ports: dict[str, Signal] = field(default_factory=dict)


class Assign(NamedTuple):
    target: Signal
    value: Signal


class SwitchCase(NamedTuple):
    """patterns: digits 0, 1 and -; none of them is the case that takes all that is left."""

    patterns: tuple[str, ...]
    body: Body


class Switch(NamedTuple):
    test: Signal
    cases: list[SwitchCase]


Body = list["Assign | Switch"]


class MemoryBlock(NamedTuple):
    name: str
    width: int
    size: int
    attributes: dict[str, str]


@dataclass
class Module:
    name: str
    wires: dict[str, Wire] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    processes: list[Body] = field(default_factory=list)
    connections: list[Assign] = field(default_factory=list)
    memories: dict[str, MemoryBlock] = field(default_factory=dict)


_PART = re.compile(r"(?P<digits>\d+'[01x-]*)|(?P<name>[\\$]\S+)(?: \[(?P<high>\d+)(?::(?P<low>\d+))?\](?=\s|$))?|[{}]")


def modules_of(text: str) -> list[Module]:
    """The modules of RTLIL that Amaranth wrote."""
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
    """Takes out what makes values of no bits."""
    module.cells = [c for c in module.cells if () not in (c.ports.get(port) for port in ("Y", "Q", "DATA"))]
    module.processes = [p for p in module.processes if not isinstance(p[0], Assign) or p[0].target]
    module.connections = [c for c in module.connections if c.target]
    module.memories = {name: memory for name, memory in module.memories.items() if memory.width and memory.size}


def _statement(module: Module, word: str, rest: str, attributes: dict[str, str], lines: Iterator[str]) -> None:
    if word == "wire":
        *options, name = rest.split()
        kind = next((option for option in options if option in ("input", "output")), "")
        width = int(options[options.index("width") + 1])
        init = attributes.get("\\init")
        module.wires[name] = Wire(name, width, kind, None if init is None else init.partition("'")[2])
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
    cases = []
    line = next(lines)
    while line != "end":
        patterns = tuple(pattern.partition("'")[2] for pattern in line.removeprefix("case").strip().split(", "))
        body, line = _body(module, lines)
        cases.append(SwitchCase(patterns if patterns != ("",) else (), body))
    return cases


def _signals(module: Module, text: str) -> list[Signal]:
    """The signals that stand in a line."""
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
    if match["digits"] is not None:
        digits = match["digits"].partition("'")[2]
        return (Bits(digits, -1, -1),) if digits else ()
    name = match["name"]
    if match["high"] is None:
        width = module.wires[name].width
        return (Bits(name, width - 1, 0),) if width else ()
    high = int(match["high"])
    return (Bits(name, high, int(match["low"] or high)),)
