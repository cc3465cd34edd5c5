"""Analyse a netlist: drivers and readers of wires, unread wires, and wires that only one clocked block reads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from dynagate.hw.export.rtlil import Assign, Body, Cell, Module, Signal, Switch, width_of

REGISTERS = ("$dff", "$adff")
"""Kinds of cells that are registers; one with an asynchronous reset has the ports and parameters for it too."""
Driver = Cell | Body | Signal
"""Driver of a wire: a cell, a process, or a connection."""


def wires_in(signal: Signal) -> list[str]:
    """Return the wires in a signal."""
    return [part.name for part in signal if part.low >= 0]


def wires_of(body: Body) -> list[str]:
    """Return the wires that a process reads."""
    wires: list[str] = []
    for statement in body:
        if isinstance(statement, Assign):
            wires += wires_in(statement.value)
        else:
            wires += wires_in(statement.test)
            for case in statement.cases:
                wires += wires_of(case.body)
    return wires


def wires_into(cell: Cell) -> list[str]:
    """Return the wires that a cell reads; for an instance, all wires connected to it."""
    results = {"$memrd_v2": "DATA", **dict.fromkeys(REGISTERS, "Q")}
    result = results.get(cell.kind, "Y" if cell.kind.startswith("$") else "")
    return [wire for port, signal in cell.ports.items() if port != result for wire in wires_in(signal)]


def count_reads(module: Module) -> Counter[str]:
    """Return how often each wire is read."""
    reads: Counter[str] = Counter()
    for cell in module.cells:
        reads.update(wires_into(cell))
    for process in module.processes:
        reads.update(wires_of(process))
    for connection in module.connections:
        reads.update(wires_in(connection.value))
    return reads


def _is_step(name: str) -> bool:
    """Return whether a wire is an intermediate value that no user looks for.

    Such wires have no name, double another name, or are a field of a port or an exact result (`units.rescale.fit`).
    """
    return "$" in name or "." in name or name.endswith("_exact")


def prune(known: Mapping[str, Module], top: Module, shown: Collection[str]) -> None:
    """Remove unread values, and inputs that their module does not read.

    Args:
        known: Modules by name; they are changed.
        top: Top module.
        shown: Names of values that remain.
    """
    unread: dict[str, set[str]] = {}

    def visit(module: Module) -> None:
        for cell in module.cells:
            kind = cell.kind.removeprefix("\\")
            if kind in known and kind not in unread:
                visit(known[kind])
            for port in unread.get(kind, ()):
                cell.ports.pop(port, None)
        reads = _without_unread(module, shown)
        inputs = [n for n, wire in module.wires.items() if wire.kind == "input" and not reads[n] and n not in shown]
        if module is not top:
            unread[module.name] = {name.removeprefix("\\") for name in inputs}
            for name in inputs:
                del module.wires[name]

    visit(top)


def _without_unread(module: Module, shown: Collection[str]) -> Counter[str]:
    """Remove the unread operations and names of a module. Return how often each wire is read."""
    reads = count_reads(module)

    def idle(name: str) -> bool:
        return reads[name] <= 0 and name not in shown and not module.wires[name].kind

    while True:
        connections = [c for c in module.connections if idle(c.target[0].name)]
        cells = [c for c in module.cells if "Y" in c.ports and c.kind.startswith("$") and idle(c.ports["Y"][0].name)]
        if not connections and not cells:
            return reads
        reads.subtract(wire for connection in connections for wire in wires_in(connection.value))
        reads.subtract(wire for cell in cells for wire in wires_into(cell))
        gone = {id(c) for c in (*connections, *cells)}
        module.connections = [c for c in module.connections if id(c) not in gone]
        module.cells = [c for c in module.cells if id(c) not in gone]


def drivers_of(module: Module) -> dict[str, Driver]:
    """Return the driver of each wire, except outputs of instances.

    A cell, a process or a connection drives a complete wire.
    """
    drivers: dict[str, Driver] = {}
    for cell in module.cells:
        for port in ("Y", "Q", "DATA") if cell.kind.startswith("$") and not cell.kind.startswith("$mem") else ():
            if port in cell.ports:
                drivers[cell.ports[port][0].name] = cell
        if cell.kind == "$memrd_v2":
            drivers[cell.ports["DATA"][0].name] = cell
    for process in module.processes:
        first = process[0]
        assert isinstance(first, Assign)
        drivers[first.target[0].name] = process
    for target, value in module.connections:
        drivers[target[0].name] = value
    return drivers


def instance_outputs(
    module: Module, known: Mapping[str, Module], drivers: Mapping[str, Driver]
) -> dict[str, tuple[Cell, str]]:
    """Return the instance and port that drive each wire.

    A wire of an external module counts as driven by that module if nothing else drives it.
    """
    outputs: dict[str, tuple[Cell, str]] = {}
    instances = [cell for cell in module.cells if not cell.kind.startswith("$")]
    for cell in sorted(instances, key=lambda cell: cell.kind.removeprefix("\\") not in known):
        other = known.get(cell.kind.removeprefix("\\"))
        for port, signal in cell.ports.items():
            if len(signal) != 1 or signal[0].low:
                continue
            wire = signal[0].name
            if other is not None:
                drives = other.wires[f"\\{port}"].kind == "output"
            else:
                drives = wire not in outputs and wire not in drivers and module.wires[wire].kind != "input"
            if drives:
                outputs[wire] = cell, port
    return outputs


Block = tuple[Signal, Signal]
"""A clock and an enable, or no enable: registers with the same pair are assigned in one block."""


class Update(NamedTuple):
    """Statements that assign a register."""

    body: Body
    """The statements."""
    enable: Signal = ()
    """Enable of all statements; empty without one."""
    process: Body | None = None
    """Process that contains the statements, if there is one."""


def update_of(cell: Cell, drivers: Mapping[str, Driver], reads: Mapping[str, int]) -> Update:
    """Return the statements that assign the register of a cell.

    Args:
        cell: A register.
        drivers: Driver of each wire.
        reads: Number of readers of each wire.
    """
    source, own = cell.ports["D"], cell.ports["Q"]
    process = drivers.get(source[0].name) if len(source) == 1 else None
    named = not source[0].name.startswith("$")
    if not isinstance(process, list) or named or reads[source[0].name] != 1:
        return Update([Assign(own, source)])
    first, *others = process
    assert isinstance(first, Assign)
    if first.value != own or not first.target[0].width == width_of(own) == width_of(source):
        return Update(process, (), process)
    if len(others) == 1 and isinstance(switch := others[0], Switch) and _is_enable(switch):
        return Update(switch.cases[0].body, switch.test, process)
    return Update(others, (), process)


def _is_enable(switch: Switch) -> bool:
    """Return whether a switch tests one bit and has a single case, 1."""
    return width_of(switch.test) == 1 and [case.patterns for case in switch.cases] == [("1",)]


def blocks_of(module: Module, drivers: Mapping[str, Driver], reads: Mapping[str, int]) -> dict[str, Block]:
    """Return the block of each intermediate value that only the registers of one block read.

    A simulator computes such a value only in cycles in which its block reads it.
    """
    readers = _readers(module, drivers, reads)
    blocks: dict[str, Block | None] = {}

    def block_of(wire: str) -> Block | None:
        if wire not in blocks:
            blocks[wire] = None
            step = _is_step(wire) and not module.wires[wire].kind and _is_expression(drivers.get(wire))
            if step and readers[wire]:
                their = {block_of(by) if isinstance(by, str) else by for by in readers[wire]}
                blocks[wire] = their.pop() if len(their) == 1 else None
        return blocks[wire]

    for wire in module.wires:
        block_of(wire)
    return {wire: block for wire, block in blocks.items() if block is not None}


def _readers(
    module: Module, drivers: Mapping[str, Driver], reads: Mapping[str, int]
) -> dict[str, set[str | Block | None]]:
    """Return the readers of each wire: a block, another wire (through an operation), or None for anything else."""
    readers: dict[str, set[str | Block | None]] = defaultdict(set)
    inside: set[int] = set()  # processes that are written as a register's statements
    for cell in module.cells:
        if cell.kind in REGISTERS:
            body, enable, process = update_of(cell, drivers, reads)
            inside.add(id(process))
            for wire in wires_of(body):
                readers[wire].add((cell.ports["CLK"], enable))
            for wire in wires_in(enable):
                readers[wire].add(None)
        else:
            plain = cell.kind.startswith("$") and "Y" in cell.ports
            for wire in wires_into(cell):
                readers[wire].add(cell.ports["Y"][0].name if plain else None)
    for process in module.processes:
        if id(process) not in inside:
            for wire in wires_of(process):
                readers[wire].add(None)
    for target, value in module.connections:
        for wire in wires_in(value):
            readers[wire].add(target[0].name)
    return readers


def _is_expression(driver: Driver | None) -> bool:
    """Return whether a driver is one operation, or a connection."""
    if isinstance(driver, Cell):
        return driver.kind not in (*REGISTERS, "$memrd_v2")
    return isinstance(driver, tuple)
