"""Write a netlist as Verilog: one line for each named value, and one clocked block per module and clock for registers.

Registers with the same enable are assigned together behind it, so a simulator tests the enable once and evaluates their
sources only in cycles in which it is 1. A value without a name and with one reader is written where it is read.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from dynagate.base.errors import ArgumentError
from dynagate.design.verilog_list import PLAIN, STRICT
from dynagate.hw.export.identifiers import INSTANCE, Names, plain
from dynagate.hw.export.readers import (
    REGISTERS,
    Block,
    Driver,
    blocks_of,
    count_reads,
    drivers_of,
    instance_outputs,
    prune,
    update_of,
)
from dynagate.hw.export.rtlil import Assign, Bits, Body, Cell, MemoryBlock, Module, Signal, Switch, Wire, width_of

START = "dynagate_start"
"""Register that every `always @*` block reads and that changes once, at the start of a simulation.

A block runs when a value changes that it reads; without this register, a block of constants would never run.
"""
LONGEST = 160
"""Largest length, in characters, of an expression that is written where it is read."""
MANY_WORDS = 64
"""Number of words of a memory above which equal initial values are written by a loop."""

_NUMBERED = re.compile(r"\\port_\d+")
_BITWISE = {"$and": "&", "$or": "|", "$xor": "^"}
"""Operators of cells that work bit by bit."""
_REDUCED = {"$reduce_or": "|", "$reduce_bool": "|", "$reduce_and": "&", "$reduce_xor": "^"}
"""Operators of cells that reduce all bits to one."""
_COMPARED = {"$eq": "==", "$ne": "!=", "$lt": "<", "$le": "<=", "$gt": ">", "$ge": ">="}
"""Operators of cells that compare."""
_CARRIED = {"$add": "+", "$sub": "-", "$mul": "*"}
"""Operators of cells with carries."""
_SHIFTED = {"$shl": "<<", "$shr": ">>", "$sshr": ">>>", "$shift": ">>"}
"""Operators of cells that shift."""
_SELF_CONTAINED = {*_BITWISE, *_REDUCED, *_COMPARED, "$not", "$mux"}
"""Cells whose values do not depend on the width of the surrounding expression."""
_NAMES = {
    **dict.fromkeys(_BITWISE, "gate"),
    **dict.fromkeys(_REDUCED, "any"),
    **dict.fromkeys(_COMPARED, "is"),
    **dict.fromkeys(_SHIFTED, "moved"),
    "$add": "sum",
    "$sub": "difference",
    "$neg": "negative",
    "$not": "inverse",
    "$mul": "product",
    "$mux": "choice",
    **dict.fromkeys(REGISTERS, "register"),
    "$memrd_v2": "word",
}
"""Base name of an unnamed value, by the cell that computes it."""


def verilog_of(modules: Sequence[Module], shown: Collection[str] = (), style: str = PLAIN) -> dict[str, str]:
    """Return the Verilog-2001 of each module, by name.

    Args:
        modules: Modules, the top first.
        shown: Names of values that remain although nothing reads them.
        style: Style of the text, "plain" or "strict".

    Raises:
        ArgumentError: The style is strict, and a memory that is written has initial values other than 0.
    """
    known = {module.name: module for module in modules}
    prune(known, modules[0], frozenset(f"\\{name}" for name in shown))
    ports = _Ports(known)
    writers: dict[str, _Writer] = {}
    writer_of = _StrictWriter if style == STRICT else _Writer
    for module in modules:
        writers[module.name] = writer_of(module, ports, writers)
    return {name.removeprefix("\\"): writer.text() for name, writer in writers.items()}


def constant(digits: str) -> str:
    """Return a Verilog constant for digits 0, 1 and x."""
    if len(digits) < 5 or set(digits) - {"0", "1"}:
        return f"{len(digits)}'b{digits}"
    return f"{len(digits)}'h{int(digits, 2):0{-(-len(digits) // 4)}x}"


def _range(width: int) -> str:
    """Return the range of a declaration."""
    return "" if width == 1 else f"[{width - 1}:0] "


class _Ports:
    """Names for ports that Amaranth numbers: after the instance that drives an output, or the wire at an input."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = modules
        self.places: dict[str, list[tuple[Module, Cell]]] = defaultdict(list)
        self.drivers: dict[str, dict[str, Driver]] = {}
        self.outputs: dict[str, dict[str, tuple[Cell, str]]] = {}
        for module in modules.values():
            self.drivers[module.name] = drivers_of(module)
            self.outputs[module.name] = instance_outputs(module, modules, self.drivers[module.name])
            for cell in module.cells:
                self.places[cell.kind.removeprefix("\\")].append((module, cell))

    def name(self, module: Module, wire: str) -> str:
        """Return the base name for a wire."""
        if not _NUMBERED.fullmatch(wire) and not wire.startswith("$"):
            return plain(wire)
        if wire in self.outputs[module.name]:
            return self.of_instance(*self.outputs[module.name][wire])
        places = self.places[module.name]
        if module.wires[wire].kind != "input":
            driver = self.drivers[module.name].get(wire)
            return _NAMES.get(driver.kind, "value") if isinstance(driver, Cell) else "value"
        if len(places) != 1:
            return "value"
        above, cell = places[0]
        signal = cell.ports[wire.removeprefix("\\")]
        if len(signal) != 1 or signal[0].low < 0:
            return "value"
        (part,) = signal
        name = self.name(above, part.name)
        return name if part.width == above.wires[part.name].width else f"{name}_{part.high}_{part.low}"

    def of_instance(self, cell: Cell, port: str) -> str:
        """Return the base name for the output of an instance."""
        other = self.modules.get(cell.kind.removeprefix("\\"))
        name = port if other is None else self.name(other, f"\\{port}")
        return plain(f"{cell.name.removeprefix(chr(92)).removeprefix(INSTANCE)}_{name}")


class _Clock(NamedTuple):
    """Clock and reset of a clocked block."""

    edge: str
    """Edge and name of the clock."""
    reset: str
    """Name of the asynchronous reset, 1 to reset; "" without one."""


class _Writer:
    """Verilog of a module. Expressions are unsigned; a reader that needs a signed value casts it."""

    def __init__(self, module: Module, ports: _Ports, writers: Mapping[str, _Writer]) -> None:
        self.module = module
        self.ports, self.writers = ports, writers
        self.wires = module.wires
        self.reads = count_reads(module)
        self.drivers = ports.drivers[module.name]
        self.outputs = ports.outputs[module.name]
        self.clocked = {cell.ports["Q"][0].name: cell for cell in module.cells if cell.kind in REGISTERS}
        self.taken = Names([START])
        self.names: dict[str, str] = {}
        self.numbers: Counter[str] = Counter()
        own = [name for name in self.wires if self._has_a_name(name)]
        for name in sorted(own, key=lambda name: (not self.wires[name].kind, "$" in name)):
            self.names[name] = self.taken.unique(plain(ports.name(module, name)))
        self.memories = {name: self.taken.unique(plain(name)) for name in module.memories}
        self.asked: list[str] = []  # unnamed wires that something reads, in the order of their first readers
        self.blocks = self._blocks()
        self.steps: list[str] | None = None  # lines for intermediate values of a block, if one is written
        self.block: Block | None = None
        self.ready: dict[str, str] = {}  # expressions that are too long to stand where they are read, by wire
        self.variables: set[str] = set(self.clocked)  # names that blocks assign
        self.started = False

    def text(self) -> str:
        """Return the Verilog."""
        module, named = self.module, list(self.names)
        registers = self._registers()
        memories = [line for memory in module.memories.values() for line in self._memory(memory)]
        instances = [self._instance(cell) for cell in module.cells if not cell.kind.startswith("$")]
        logic = [self._logic(name) for name in named if self._is_logic(name)]
        for name in self.asked:  # which grows meanwhile
            if self._is_logic(name):
                logic.append(self._logic(name))
        parts = [self._head(), self._start(), *self._declarations(), *memories, *logic, *instances, *registers]
        return "".join(parts) + "endmodule\n"

    def _blocks(self) -> dict[str, Block]:
        """Return the block of each intermediate value that a clocked block assigns."""
        return blocks_of(self.module, self.drivers, self.reads)

    def _start(self) -> str:
        """Return the declaration of the register that every block without a clock reads."""
        return f"  reg {START};\n  initial {START} <= 0;\n" if self.started else ""

    def _initial(self, wire: Wire) -> str | None:
        """Return the digits of the initial value of a register; None without one."""
        return wire.init if wire.name in self.clocked else None

    def _head(self) -> str:
        """Return the module header with its ports."""
        ports = []
        for wire in self.wires.values():
            if wire.kind and wire.width:
                kind = "reg" if wire.name in self.variables else "wire"
                ports.append(f"{self._intent(wire)}  {wire.kind} {kind} {_range(wire.width)}{self.names[wire.name]}")
        return f"module {self.module.name} (\n" + ",\n".join(ports) + "\n);\n"

    def _declarations(self) -> Iterator[str]:
        """Yield the declarations of wires and registers."""
        for name, called in self.names.items():
            wire = self.wires[name]
            init = self._initial(wire)
            if wire.kind:
                if init is not None:
                    yield f"  initial {called} = {constant(init)};\n"
            elif name in self.variables:
                yield self._intent(wire)
                yield f"  reg {_range(wire.width)}{called}{'' if init is None else f' = {constant(init)}'};\n"
            else:
                yield f"  wire {_range(wire.width)}{called};\n"

    def _intent(self, wire: Wire) -> str:
        """Return the line with the attributes of a register that synthesis reads; "" without any."""
        if wire.name not in self.clocked:
            return ""
        return _attributes(wire.attributes)

    # names

    def _has_a_name(self, name: str) -> bool:
        """Return whether a wire keeps its name. Unread intermediate values do not."""
        wire = self.wires[name]
        if name.startswith("$") or not wire.width:
            return False
        return bool(wire.kind) or self.reads[name] > 0 or name in self.drivers

    def _name(self, wire: str) -> str:
        """Return the name of a wire. A wire that Amaranth numbered gets a new name and a declaration."""
        if wire not in self.names:
            if wire in self.outputs:
                base = self.ports.of_instance(*self.outputs[wire])
            else:
                kind = self.ports.name(self.module, wire)
                self.numbers[kind] += 1
                base = f"{kind}_{self.numbers[kind]}"
            self.names[wire] = self.taken.unique(base)
            self.asked.append(wire)
        if wire in self.blocks and wire not in self.variables:
            self._step(wire)
        return self.names[wire]

    def _step(self, wire: str) -> None:
        """Assign a variable in the only block whose registers read it, before the first of them."""
        assert self.steps is not None
        assert self.block is not None
        assert self.block == self.blocks[wire], wire
        self.variables.add(wire)
        cell = self.drivers[wire]
        text = self._computed(cell) if isinstance(cell, Cell) else self._value(cell)  # type: ignore[arg-type]
        self.steps.append(f"{'      ' if self.block[1] else '    '}{self.names[wire]} = {text};\n")

    # expressions

    def _source(self, signal: Signal) -> Cell | None:
        """Return the cell that is written in place of a signal: it drives the complete signal, which has no other
        reader.
        """
        if len(signal) != 1 or (name := signal[0].name) in self.names or self.reads[name] != 1:
            return None
        cell = self.drivers.get(name)
        whole = signal[0].low == 0 and signal[0].width == self.wires[name].width
        return cell if whole and isinstance(cell, Cell) and name not in self.clocked else None

    def _value(self, signal: Signal) -> str:
        """Return the right-hand side of an assignment to this many bits."""
        cell = self._source(signal)
        if cell is not None and cell.kind != "$memrd_v2":
            text = self._computed(cell)
            if len(text) <= LONGEST:
                return text
            return self._split(signal, text)
        return self._operand(signal)

    def _operand(self, signal: Signal) -> str:
        """Return an expression of exactly this width, which can stand in any context."""
        if not signal:
            return "1'b0"
        signal = self._without_reductions(signal)
        cell = self._source(signal)
        if cell is not None and cell.kind in _SELF_CONTAINED:
            text = self._computed(cell)
            if len(text) <= LONGEST:
                return f"({text})"
            return self._split(signal, text)
        if len(signal) == 1:
            return self._bits(signal[0])
        parts = []
        for part, repeated in groupby(signal):
            count, text = len(list(repeated)), _bare(self._operand((part,)))
            parts.append(f"{{{count}{{{text}}}}}" if count > 1 else text)
        return parts[0] if len(parts) == 1 else f"{{{', '.join(parts)}}}"

    def _without_reductions(self, signal: Signal) -> Signal:
        """Replace a reduction of one bit by the bit."""
        while len(signal) == 1 and signal[0].name not in self.names:
            cell = self.drivers.get(signal[0].name)
            if not isinstance(cell, Cell) or cell.kind not in _REDUCED or width_of(cell.ports["A"]) != 1:
                break
            signal = cell.ports["A"]
        return signal

    def _split(self, signal: Signal, text: str) -> str:
        """Give a name to a value whose expression is too long to stand where it is read, and return the name."""
        self.ready[signal[0].name] = text
        return self._name(signal[0].name)

    def _bits(self, part: Bits) -> str:
        """Return a part of a signal in Verilog."""
        if part.low < 0:
            return constant(part.name)
        called = self._name(part.name)
        if part.width == self.wires[part.name].width:
            return called
        return called + _slice(part)

    def _number(self, signal: Signal, signed: bool) -> str:
        """Return an operand of arithmetic, which Verilog extends by its sign."""
        if not signed:
            text = self._operand(signal)
            # an inverse is as wide as what it stands in: braces keep it as wide as it is
            return f"{{{text[1:-1]}}}" if text.startswith("(") and "~" in text else text
        if len(signal) == 1 and signal[0].low < 0:
            digits = signal[0].name
            return f"{len(digits)}'sh{int(digits, 2):x}"
        return f"$signed({_bare(self._operand(signal))})"

    def _computed(self, cell: Cell) -> str:
        """Return the expression of a cell."""
        kind, ports = cell.kind, cell.ports
        a = ports.get("A", ())
        signed = cell.parameters.get("A_SIGNED") == "1"
        if kind == "$mux":
            return f"{self._operand(ports['S'])} ? {self._operand(ports['B'])} : {self._operand(a)}"
        if kind == "$not":
            return f"{'!' if width_of(a) == 1 else '~'}{self._operand(a)}"
        if kind in _REDUCED:
            return self._operand(a) if width_of(a) == 1 else f"{_REDUCED[kind]}{self._operand(a)}"
        if kind in _BITWISE:
            return f"{self._operand(a)} {_BITWISE[kind]} {self._operand(ports['B'])}"
        if kind in _COMPARED or kind in _CARRIED:
            sign = {**_COMPARED, **_CARRIED}[kind]
            return f"{self._number(a, signed)} {sign} {self._number(ports['B'], signed)}"
        if kind == "$neg":
            return f"-{self._number(a, signed)}"
        if kind in _SHIFTED and not (kind in ("$shift", "$shr") and signed):
            return self._shifted(f"{self._number(a, signed)} {_SHIFTED[kind]} {self._operand(ports['B'])}", cell)
        raise ValueError(
            f"{kind} in module '{self.module.name}'; expected an operation that hw/export/verilog.py can write"
        )

    def _shifted(self, text: str, cell: Cell) -> str:
        """Return the expression of a shift."""
        return text

    # logic

    def _is_logic(self, name: str) -> bool:
        """Return whether a wire is driven by combinational logic outside of clocked blocks."""
        return name in self.drivers and name not in self.clocked and name not in self.blocks

    def _logic(self, name: str) -> str:
        """Return the statements that drive a wire."""
        called, driver = self._name(name), self.drivers[name]
        if name in self.ready:
            return f"  assign {called} = {self.ready[name]};\n"
        if isinstance(driver, Cell):
            if driver.kind == "$memrd_v2":
                return self._read_port(driver)
            return f"  assign {called} = {self._computed(driver)};\n"
        if isinstance(driver, tuple):
            return f"  assign {called} = {self._value(driver)};\n"
        if (parts := self._assembled(driver)) is not None:
            return f"  assign {called} = {_bare(self._operand(parts))};\n"
        if (text := self._chosen(driver, None)) is not None:
            return f"  assign {called} = {_bare(text)};\n"
        self.variables.add(name)
        return self._always(self._statements(driver, called, "=", 2))

    def _always(self, body: str) -> str:
        """Return a block without a clock."""
        self.started = True
        return f"  always @* begin\n    if ({START}) begin end\n{body}  end\n"

    def _assembled(self, process: Body) -> Signal | None:
        """Return the value of a process without conditions; None if it has conditions."""
        if not all(isinstance(statement, Assign) for statement in process):
            return None
        bits: list[Bits] = []
        for statement in process:
            assert isinstance(statement, Assign)
            (target,) = statement.target
            bits[target.low : target.high + 1] = _bits_of(statement.value)
        return _joined(bits)

    def _chosen(self, body: Body, current: str | None) -> str | None:
        """Return the value of a process as an expression, if it is short and assigns complete values; else None."""
        for statement in body:
            if isinstance(statement, Assign):
                (target,) = statement.target
                if target.low or target.width != self.wires[target.name].width:
                    return None
                current = self._operand(statement.value)
            elif not statement.test:
                current = self._chosen(statement.cases[0].body, current)
            else:
                ways = {case.patterns: case.body for case in statement.cases}
                if width_of(statement.test) != 1 or set(ways) - {("1",), ()} or ("1",) not in ways:
                    return None
                first = self._chosen(ways["1",], current)
                second = self._chosen(ways.get((), []), current)
                if first is None or second is None:
                    return None
                current = f"({self._operand(statement.test)} ? {first} : {second})"
            if current is None or len(current) > LONGEST:
                return None
        return current

    def _statements(self, body: Body, called: str, sign: str, indent: int) -> str:
        """Return assignments to a variable. sign: "=" or "<="."""
        space, lines = "  " * indent, []
        for statement in body:
            if isinstance(statement, Assign):
                (target,) = statement.target
                place = called if target.width == self.wires[target.name].width else f"{called}{_slice(target)}"
                lines.append(f"{space}{place} {sign} {self._value(statement.value)};\n")
            elif not statement.test:
                lines.append(self._statements(statement.cases[0].body, called, sign, indent))
            else:
                lines.append(self._switch(statement, called, sign, indent))
        return "".join(lines)

    def _switch(self, switch: Switch, called: str, sign: str, indent: int) -> str:
        """Return a case statement."""
        space, cases = "  " * indent, [case for case in switch.cases if case.body]
        if not cases:
            return ""
        if width_of(switch.test) == 1 and [case.patterns for case in switch.cases] in ([("1",)], [("1",), ()]):
            test = self._operand(switch.test)
            first, *others = switch.cases
            text = (
                f"{space}if ({_bare(test)}) begin\n{self._statements(first.body, called, sign, indent + 1)}{space}end"
            )
            if others and others[0].body:
                text += f" else begin\n{self._statements(others[0].body, called, sign, indent + 1)}{space}end"
            return text + "\n"
        return self._cases(switch, called, sign, indent)

    def _cases(self, switch: Switch, called: str, sign: str, indent: int) -> str:
        """Return a case statement that has more than one condition of one bit."""
        space = "  " * indent
        kind = "casez" if any("-" in pattern for case in switch.cases for pattern in case.patterns) else "case"
        lines = [f"{space}{kind} ({_bare(self._operand(switch.test))})\n"]
        for case in switch.cases:
            patterns = ", ".join(f"{len(pattern)}'b{pattern.replace('-', '?')}" for pattern in case.patterns)
            inside = self._statements(case.body, called, sign, indent + 2)
            lines.append(f"{space}  {patterns or 'default'}: begin\n{inside}{space}  end\n")
        return "".join(lines) + f"{self._end_of_cases(switch, space)}{space}endcase\n"

    def _end_of_cases(self, switch: Switch, space: str) -> str:
        """Return the last case of a statement; "" if the cases that it lists suffice."""
        return ""

    def _registers(self) -> list[str]:
        """Return one block per clock: registers that are always assigned, then those of each enable."""
        by_clock: dict[_Clock, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        resets: dict[_Clock, list[str]] = defaultdict(list)
        for cell in self.clocked.values():
            name = cell.ports["Q"][0].name
            if name.startswith("$") and not self.reads[name]:
                continue
            clock = self._clock(cell)
            body, enable, _ = update_of(cell, self.drivers, self.reads)
            test = _bare(self._operand(enable)) if enable else ""
            self.block = cell.ports["CLK"], enable
            self.steps = by_clock[clock][test]
            called, indent = self._name(name), 3 if enable else 2
            self.steps.append(self._statements(body, called, "<=", indent))
            self.steps = self.block = None
            if clock.reset:
                resets[clock].append(f"      {called} <= {_parameter(cell.parameters['ARST_VALUE'])};\n")
        return [self._block(clock, by_enable, resets[clock]) for clock, by_enable in by_clock.items()]

    def _clock(self, cell: Cell) -> _Clock:
        """Return the clock of a register, and its reset."""
        edge = "posedge" if cell.parameters["CLK_POLARITY"] == "1" else "negedge"
        reset = _bare(self._operand(cell.ports["ARST"])) if cell.kind == "$adff" else ""
        return _Clock(f"{edge} {self._operand(cell.ports['CLK'])}", reset)

    def _block(self, clock: _Clock, by_enable: Mapping[str, list[str]], resets: Sequence[str]) -> str:
        """Return a clocked block."""
        lines = [f"  always @({clock.edge}{f' or posedge {clock.reset}' if clock.reset else ''}) begin\n"]
        if resets:
            lines += [f"    if ({clock.reset}) begin\n", *resets, "    end else begin\n"]
            lines += [f"  {line}\n" for line in self._updates(by_enable).splitlines()]
            return "".join(lines) + "    end\n  end\n"
        return "".join(lines) + self._updates(by_enable) + "  end\n"

    def _updates(self, by_enable: Mapping[str, list[str]]) -> str:
        """Return the statements of a clocked block without those of its reset."""
        lines = []
        for enable, bodies in sorted(by_enable.items(), key=lambda item: bool(item[0])):
            if enable:
                lines += [f"    if ({enable}) begin\n", *bodies, "    end\n"]
            else:
                lines += bodies
        return "".join(lines)

    # memories and instances

    def _memory(self, memory: MemoryBlock) -> Iterator[str]:
        """Yield the declaration and the initial values of a memory."""
        called = self.memories[memory.name]
        yield _attributes(memory.attributes)
        yield f"  reg {_range(memory.width)}{called} [0:{memory.size - 1}];\n"
        for cell in self.module.cells:
            if _memory_of(cell) != memory.name:
                continue
            if cell.kind == "$meminit_v2":
                yield _begun(called, _words(cell, memory.width))
            elif cell.kind == "$memwr_v2":
                yield self._write_port(cell, called)

    def _write_port(self, cell: Cell, called: str) -> str:
        """Return the write port of a memory."""
        clock, address = (self._operand(cell.ports[port]) for port in ("CLK", "ADDR"))
        data, low, lines = _bits_of(cell.ports["DATA"]), 0, []
        for enable, group in groupby(_bits_of(cell.ports["EN"])):
            count = len(list(group))
            part = "" if count == len(data) else f"[{low + count - 1}:{low}]"
            value = self._operand(_joined(data[low : low + count]))
            lines.append(f"    if ({_bare(self._operand((enable,)))}) {called}[{address}]{part} <= {value};\n")
            low += count
        return f"  always @(posedge {clock}) begin\n{''.join(lines)}  end\n"

    def _read_port(self, cell: Cell) -> str:
        """Return the read port of a memory."""
        place = self._word(_memory_of(cell), self._operand(cell.ports["ADDR"]))
        name = cell.ports["DATA"][0].name
        if cell.parameters["CLK_ENABLE"] == "0":
            return f"  assign {self._name(name)} = {place};\n"
        if "1" in cell.parameters["TRANSPARENCY_MASK"].partition("'")[2]:
            raise ValueError(f"a transparent read port in module '{self.module.name}'; expected one that is not")
        self.variables.add(name)
        enable = self._operand(cell.ports["EN"])
        condition = "" if enable == "1'b1" else f"if ({_bare(enable)}) "
        clock = self._operand(cell.ports["CLK"])
        return f"  always @(posedge {clock}) {condition}{self._name(name)} <= {place};\n"

    def _word(self, memory: str, address: str) -> str:
        """Return the expression of a word in a memory."""
        return f"{self.memories[memory]}[{address}]"

    def _instance(self, cell: Cell) -> str:
        """Return an instance of a module."""
        kind = cell.kind.removeprefix("\\")
        settings = ", ".join(f".{key}({_parameter(value)})" for key, value in cell.parameters.items())
        called = self.taken.unique(cell.name.removeprefix("\\"))
        other = self.writers.get(kind)
        names = {port: port if other is None else other.names.get(f"\\{port}", port) for port in cell.ports}
        ports = [f"    .{names[port]}({_bare(self._operand(signal))})" for port, signal in cell.ports.items() if signal]
        return f"  {kind}{f' #({settings})' if settings else ''} {called} (\n" + ",\n".join(ports) + "\n  );\n"


class _StrictWriter(_Writer):
    """Verilog in the strict style (`hw.export.style`), of modules whose registers have an asynchronous reset."""

    def _blocks(self) -> dict[str, Block]:
        return {}

    def _start(self) -> str:
        return ""

    def _initial(self, wire: Wire) -> str | None:
        return None

    def _always(self, body: str) -> str:
        return f"  always @* begin\n{body}  end\n"

    def _cases(self, switch: Switch, called: str, sign: str, indent: int) -> str:
        """Return a case statement without wildcards, or a chain of conditions: patterns with wildcards may overlap."""
        if not any("-" in pattern for case in switch.cases for pattern in case.patterns):
            return super()._cases(switch, called, sign, indent)
        space, text = "  " * indent, ""
        for case in switch.cases:
            test = " || ".join(self._matches(switch.test, pattern) for pattern in case.patterns)
            text += f"{' else ' if text else space}{f'if ({test}) ' if test else ''}begin\n"
            text += f"{self._statements(case.body, called, sign, indent + 1)}{space}end"
        return text + "\n"

    def _matches(self, test: Signal, pattern: str) -> str:
        """Return the condition that a signal matches a pattern."""
        bits = [(bit, digit) for bit, digit in zip(_bits_of(test), reversed(pattern), strict=True) if digit != "-"]
        digits = "".join(digit for _, digit in reversed(bits))
        return f"({self._operand(_joined([bit for bit, _ in bits]))} == {constant(digits)})"

    def _shifted(self, text: str, cell: Cell) -> str:
        """Return the expression of a shift; of one that selects a bit, with the width of a bit."""
        width = width_of(cell.ports["A"])
        if width_of(cell.ports["Y"]) > 1 or width == 1:
            return text
        return f"|(({text}) & {constant('1'.zfill(width))})"

    def _end_of_cases(self, switch: Switch, space: str) -> str:
        return "" if any(not case.patterns for case in switch.cases) else f"{space}  default: begin\n{space}  end\n"

    def _memory(self, memory: MemoryBlock) -> Iterator[str]:
        """Yield a table as a function, or the declaration of a memory that is written."""
        cells = [cell for cell in self.module.cells if _memory_of(cell) == memory.name]
        words = [word for cell in cells if cell.kind == "$meminit_v2" for word in _words(cell, memory.width)]
        if not any(cell.kind == "$memwr_v2" for cell in cells):
            bits = max(width_of(cell.ports["ADDR"]) for cell in cells if cell.kind == "$memrd_v2")
            yield _table(self.memories[memory.name], words, bits)
            return
        if any("1" in word for word in words):
            raise ArgumentError(
                f"memory '{self.memories[memory.name]}' in module '{self.module.name}' is written and has initial "
                "values; expected zeros in the strict style",
                code="DG-SYNTH-028",
            )
        yield from (text for text in super()._memory(memory) if "  initial " not in text)

    def _word(self, memory: str, address: str) -> str:
        written = any(cell.kind == "$memwr_v2" and _memory_of(cell) == memory for cell in self.module.cells)
        return super()._word(memory, address) if written else f"{self.memories[memory]}({_bare(address)})"


def _table(called: str, words: Sequence[str], bits: int) -> str:
    """Return the function of a table. Its value is 0 behind the last word.

    Args:
        called: Name of the function.
        words: Digits of each word.
        bits: Number of bits of the address.
    """
    width = len(words[0])
    lines = [f"  function {_range(width)}{called};\n    input {_range(bits)}address;\n    case (address)\n"]
    lines += [f"      {bits}'d{k}: {called} = {constant(word)};\n" for k, word in enumerate(words)]
    lines.append(f"      default: {called} = {constant('0' * width)};\n    endcase\n  endfunction\n")
    return "".join(lines)


def _words(cell: Cell, width: int) -> list[str]:
    """Return the digits of each word that a cell initialises a memory with."""
    (data,) = cell.ports["DATA"]
    return [data.name[k : k + width] for k in range(0, len(data.name), width)][::-1]


def _attributes(attributes: Mapping[str, str]) -> str:
    """Return the line with the attributes of a declaration; "" without any."""
    return "".join(f"  (* {key.removeprefix(chr(92))} = {value} *)\n" for key, value in attributes.items())


def _memory_of(cell: Cell) -> str:
    """Return the name of the memory that a cell accesses."""
    return cell.parameters.get("MEMID", "").strip('"').replace("\\\\", "\\")


def _parameter(value: str) -> str:
    """Return a parameter in Verilog."""
    width, quote, digits = value.partition("'")
    return constant(digits) if quote and width.isdigit() else value


def _bare(text: str) -> str:
    """Return an expression without the outer parentheses that `_operand` writes."""
    return text[1:-1] if text.startswith("(") else text


def _slice(part: Bits) -> str:
    """Return the bit range of a part."""
    return f"[{part.high}]" if part.width == 1 else f"[{part.high}:{part.low}]"


def _begun(called: str, words: Sequence[str]) -> str:
    """Return the statement that initializes a memory from the bits of each word; a loop writes many equal words."""
    if len(words) > MANY_WORDS and len(set(words)) == 1:
        each = f"for (k = 0; k < {len(words)}; k = k + 1) {called}[k] = {constant(words[0])};"
        return f"  initial begin : {called}_begins\n    integer k;\n    {each}\n  end\n"
    inside = "".join(f"    {called}[{k}] = {constant(word)};\n" for k, word in enumerate(words))
    return f"  initial begin\n{inside}  end\n"


def _bits_of(signal: Signal) -> list[Bits]:
    """Return the single bits of a signal, the lowest first."""
    bits: list[Bits] = []
    for part in reversed(signal):
        if part.low < 0:
            bits += [Bits(digit, -1, -1) for digit in reversed(part.name)]
        else:
            bits += [Bits(part.name, k, k) for k in range(part.low, part.high + 1)]
    return bits


def _joined(bits: Sequence[Bits]) -> Signal:
    """Return the signal of single bits, the lowest first, in as few parts as possible."""
    parts: list[Bits] = []
    for bit in bits:
        if parts and bit.low < 0 and parts[-1].low < 0:
            parts[-1] = Bits(bit.name + parts[-1].name, -1, -1)
        elif parts and bit.low >= 0 and parts[-1].name == bit.name and parts[-1].high == bit.low - 1:
            parts[-1] = Bits(bit.name, bit.high, parts[-1].low)
        else:
            parts.append(bit)
    return tuple(reversed(parts))
