"""Describe the streams of a program: the words of samples and of results."""

from __future__ import annotations

from dynagate.design.design import Field, Sides, Stream, StreamPort
from dynagate.design.program import ProgramFunction, ProgramLoop
from dynagate.design.words import WORD
from dynagate.dynamics import CODE
from dynagate.graph.packing import ZERO
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule
from dynagate.hw.processor.isa.shape import BLOCK_BITS
from dynagate.integrators.step import CARRY

SCOPE = "program"
"""Name of the only overflow flag of a sample."""


def streams_of(scheduled: ProgramSchedule) -> tuple[Sides[Stream], tuple[ProgramFunction, ...], ProgramLoop | None]:
    """Return the streams of the first function, the description of each function, and that of a loop."""
    first = Sides(_input_stream(scheduled, 0), _output_stream(scheduled, 0))
    return first, _functions(scheduled), _loop(scheduled)


def _functions(scheduled: ProgramSchedule) -> tuple[ProgramFunction, ...]:
    """Describe each of several functions for the host; empty for a single function."""
    interfaces = scheduled.instructions.interfaces
    if len(interfaces) == 1:
        return ()
    return tuple(
        ProgramFunction(
            interface.name,
            scheduled.instructions.entries[k],
            scheduled.cycles_of(k),
            scheduled.fewest_of(k),
            Sides(_input_stream(scheduled, k), _output_stream(scheduled, k)),
        )
        for k, interface in enumerate(interfaces)
    )


def _loop(scheduled: ProgramSchedule) -> ProgramLoop | None:
    """Describe the loop of a rollout for the host; None without a loop."""
    program_of, interface = scheduled.instructions, scheduled.instructions.interface
    if program_of.start is None:
        return None
    strides = {result: len(results) for results in scheduled.outputs for result in results}
    outputs = tuple(strides[program_of.outputs[i]] for i in interface.result_nodes)
    carry = program_of.formatted.carry or CARRY
    return ProgramLoop(tuple(carry.items()), scheduled.steps, 1, len(program_of.per_iteration), outputs)


def _input_stream(scheduled: ProgramSchedule, function: int) -> Stream:
    """Return the layout of the inputs of a function, whose code is in the head."""
    program_of, interface = scheduled.instructions, scheduled.instructions.interfaces[function]
    place = {i: k for k, i in enumerate(interface.input_nodes)}
    inputs = program_of.blocks[program_of.entries[function]].inputs
    order = {i: k for k, i in enumerate(sorted(inputs, key=lambda i: scheduled.arrivals[i]))}
    fields = tuple(
        Field(interface.names[i], WORD * (1 + order[i]), fmt.width, fmt.frac, *interface.bounds[i])
        for i, fmt in ((i, interface.formats[i]) for i in interface.input_nodes)
    )
    ports = tuple(
        StreamPort(p.name, p.shape, tuple(place[i] for i in p.nodes), p.unit_vectors, p.switches, p.parameter)
        for p in interface.inputs
    )
    if len(program_of.interfaces) > 1:
        entry = program_of.entries[function]
        fields += (Field(CODE.name, 0, BLOCK_BITS + 1, 0, float(entry), float(entry)),)
        ports += (StreamPort(CODE.name, (), (len(fields) - 1,)),)
    return Stream(WORD * (1 + scheduled.inputs), fields, ports)


def _output_stream(scheduled: ProgramSchedule, function: int) -> Stream:
    """Return the layout of the results of a function."""
    interface, outputs = scheduled.instructions.interfaces[function], scheduled.instructions.outputs
    position: dict[int, int] = {}
    first = 0
    for results in scheduled.outputs_of(function):  # a unit's results of all iterations follow each other
        position |= {result: first + k for k, result in enumerate(results)}
        first += scheduled.steps * len(results)
    place = {i: k for k, i in enumerate(interface.result_nodes)}
    fields = tuple(
        Field(interface.names[i], WORD * position[outputs[i]], interface.formats[i].width, interface.formats[i].frac)
        for i in interface.result_nodes
    )
    ports = tuple(StreamPort(p.name, p.shape, tuple(place.get(i, ZERO) for i in p.nodes)) for p in interface.outputs)
    return Stream(WORD * (first + 1), fields, ports, WORD * first, (SCOPE,))
