"""Print a program: a line for each instruction, with the names of the graph."""

from __future__ import annotations

from dynagate.hw.processor.compiler.instructions import SUM, Instruction, OperandSource
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule, ScheduledInstruction
from dynagate.hw.processor.isa.shape import LOAD, STORE


def listing(scheduled: ProgramSchedule) -> str:
    """Return the program of a schedule as text.

    A line has the cycle, the unit, the value that is computed, the memory and the address of the result, and "out" if
    the result leaves the core. The last memory is the one that all units share.
    """
    names = {i: name for interface in scheduled.instructions.interfaces for i, name in interface.names.items()}

    def name(source: OperandSource) -> str:
        if source.node is None:
            return str(source.integer)
        if source.node == scheduled.instructions.start:
            return "start"
        if source.previous:
            return f"previous {name(OperandSource(source.node))}"
        return names.get(source.node, f"copy{source.node}")

    def place(slot: ScheduledInstruction) -> str:
        where = [] if slot.place is None else [f"{slot.bank}.{slot.place}"]
        return " ".join(["->", *where, *(["out"] if slot.instruction.out else [])])

    lines = [
        f"{cycle:5}  in  {name(OperandSource(node))} -> {scheduled.core.shared}.{scheduled.fixed[OperandSource(node)]}"
        for node, cycle in scheduled.arrivals.items()
    ]
    for slot in scheduled.slots:
        result = name(OperandSource(slot.instruction.result))
        lines.append(f"{slot.cycle:5}  {slot.unit:2}  {result} = {_text(slot.instruction, name)} {place(slot)}")
    return "\n".join(sorted(lines, key=lambda line: int(line.split()[0]))) + "\n"


def _text(each: Instruction, name: object) -> str:
    """Return the text of the value that an instruction computes."""
    assert callable(name)
    if each.kind in (LOAD, STORE):
        where = f"{each.address} {'-' if each.backwards else '+'} turn"
        return f"{each.kind}({where}{'' if each.kind == LOAD else f', {name(each.a)}'})"
    if each.kind != SUM:
        return f"{each.kind}({', '.join(map(name, each.sources))})"
    if each.select:
        first, second = name(each.b), _moved(each, name)
        condition = f"{name(each.a)} {'<=' if each.product_negative else '>'} 0"
        text = f"{first} if {condition} else {second}"
    else:
        text = f"{'-' if each.product_negative else ''}{name(each.a)} * {name(each.b)}"
        if each.c != OperandSource(None, 0):
            text += f" {'-' if each.addend_negative else '+'} {_moved(each, name)}"
    return f"({text}) >> {each.down}" if each.down else text


def _moved(each: Instruction, name: object) -> str:
    """Return the addend with its shift."""
    assert callable(name)
    return f"({name(each.c)} << {each.up})" if each.up else str(name(each.c))
