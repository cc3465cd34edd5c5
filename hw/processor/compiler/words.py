"""Encode a schedule: the words of its program, and the messages that load it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from dynagate.fixedpoint.format import Format
from dynagate.hw.processor.compiler.instructions import SUM
from dynagate.hw.processor.compiler.schedule import FEWEST_WORDS
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule
from dynagate.hw.processor.isa.packets import (
    BLOCK_LANES,
    CONTROL,
    KIND_SHIFT,
    REGION_SHIFT,
    TURNAROUND,
    MemoryRegion,
    PacketKind,
    Words,
    checksum,
    pack_fields,
)
from dynagate.hw.processor.isa.shape import FIRST_POINT, KINDS, LANE, LOAD, OPERANDS, STORE
from dynagate.hw.units.floating import point_into, point_out_of


def program_words(scheduled: ProgramSchedule) -> list[int]:
    """Return a number of `core.program_word` bits for each cycle."""
    core, words = scheduled.core, [0] * scheduled.words
    for slot in scheduled.slots:
        each = slot.instruction
        places = dict(zip(OPERANDS, map(scheduled.location, each.sources), strict=False))
        values = {name: bank << core.place_bits | place for name, (bank, place) in places.items()}
        if each.kind == SUM:
            values |= {name: int(getattr(each, name)) for name in ("product_negative", "addend_negative", "select")}
            values |= {"up": each.up, "down": each.down, "out": int(each.out)}
            values |= {"place": slot.place or 0, "write": int(slot.place is not None)}
        else:
            kind, mask = KINDS.index(each.kind) + 1, (1 << core.function_fields["shift"]) - 1
            function = {"kind": kind, "place": slot.place or 0, "shift": each.shift & mask}
            if each.kind in (LOAD, STORE):
                function |= {"address": each.address, "down": int(each.backwards)}
            words[slot.cycle] |= pack_fields(function, core.function_fields) << (core.units * core.unit_bits)
        if each.test:
            words[slot.cycle] |= pack_fields({"test": 1}, core.function_fields) << (core.units * core.unit_bits)
        words[slot.cycle] |= pack_fields(values, core.unit_fields) << (slot.unit * core.unit_bits)
    return words


def ahead(scheduled: ProgramSchedule) -> int:
    """Return how many samples may be under way: two if the results of both can wait to be sent, else one."""
    most = scheduled.steps * max(map(len, scheduled.outputs))
    return 2 if 2 * most <= 1 << scheduled.core.output_bits else 1


def messages(scheduled: ProgramSchedule) -> Words:
    """Return the messages that load a program, (messages, 2): everything except the inputs of samples."""
    core = scheduled.core
    parts: list[tuple[int, int]] = []
    for cycle, word in enumerate(program_words(scheduled)):
        for lane in range(core.lanes):
            parts.append(
                (_address(MemoryRegion.PROGRAM, cycle << core.lane_bits | lane), word >> (LANE * lane) & 0xFFFFFFFF)
            )
    for source, place in scheduled.fixed.items():
        if source.node is None:
            parts.append((_address(MemoryRegion.CONSTANTS, place), source.integer & 0xFFFFFFFF))
    inputs, per_iteration = len(scheduled.instructions.inputs), len(scheduled.instructions.per_iteration)
    values = [scheduled.period, inputs, ahead(scheduled)]
    values += [scheduled.inputs, inputs - per_iteration, scheduled.steps]
    for k, value in enumerate([*values, *(scheduled.steps * len(results) for results in scheduled.outputs)]):
        parts.append((_address(MemoryRegion.REGISTERS, k), value))
    parts += _table(scheduled)
    if core.floats:
        parts += _points(MemoryRegion.INPUT_POINTS, input_formats(scheduled), point_into)
        parts += _points(MemoryRegion.OUTPUT_POINTS, output_formats(scheduled), point_out_of)
    begin = [(PacketKind.BEGIN << KIND_SHIFT, core.device_hash & 0xFFFFFFFF)]
    body = np.array(parts, dtype=np.uint64).astype(np.uint32)
    end = [(PacketKind.END << KIND_SHIFT, checksum(body))]
    return np.concatenate([np.array(begin, np.uint64), body, np.array(end, np.uint64)]).astype(np.uint32)


def _table(scheduled: ProgramSchedule) -> list[tuple[int, int]]:
    """Return addresses and numbers of the table of blocks."""
    parts = []
    for k, (block, placed) in enumerate(zip(scheduled.instructions.blocks, scheduled.blocks, strict=True)):
        control = {"last": int(block.last), "level": block.level}
        if (end := block.repeat) is not None:
            control |= {"target": end.target, "level": end.level, "until": int(end.until), "repeats": 1}
            control["most"] = end.most
        row = (placed.start, placed.words - FEWEST_WORDS, placed.period - TURNAROUND, pack_fields(control, CONTROL))
        lanes = len(BLOCK_LANES)
        parts += [(_address(MemoryRegion.BLOCKS, lanes * k + lane), value) for lane, value in enumerate(row)]
    return parts


Formats = dict[int, list[Format]]
"""Formats of the words of samples or results, by the first block of a function."""


def input_formats(scheduled: ProgramSchedule) -> Formats:
    """Return the formats of the inputs of samples, in the order of their words."""
    program, formats = scheduled.instructions, Formats()
    for entry, interface in zip(program.entries, program.interfaces, strict=True):
        whole = Format(scheduled.core.word, 0)  # of the word that says where a loop starts, and of those of no input
        nodes = sorted(program.blocks[entry].inputs, key=lambda node: scheduled.arrivals[node])
        own = [interface.formats.get(node, whole) for node in nodes]
        later = own[len(own) - len(program.per_iteration) :] if program.per_iteration else []
        formats[entry] = own + later * (scheduled.steps - 1)
    return formats


def output_formats(scheduled: ProgramSchedule) -> Formats:
    """Return the formats of the results of samples, in the order of their words."""
    program, formats = scheduled.instructions, Formats()
    for k, (entry, interface) in enumerate(zip(program.entries, program.interfaces, strict=True)):
        own = {program.outputs[node]: interface.formats[node] for node in interface.result_nodes}
        whole = Format(scheduled.core.word, 0)  # of results that mean nothing
        results = [[own.get(result, whole) for result in results] for results in scheduled.outputs_of(k)]
        formats[entry] = [fmt for unit in results for fmt in unit * scheduled.steps]
    return formats


def _points(region: MemoryRegion, formats: Formats, point: Callable[[Format], int]) -> list[tuple[int, int]]:
    """Return addresses and numbers of a table of binary points: the row of each function's first point, then all
    points.
    """
    parts, place = [], FIRST_POINT
    for entry, own in formats.items():
        parts.append((_address(region, entry), place))
        parts += [(_address(region, place + k), point(fmt) & 0xFFFFFFFF) for k, fmt in enumerate(own)]
        place += len(own)
    return parts


def _address(region: MemoryRegion, place: int) -> int:
    """Return the head of a message with a part of a program."""
    return PacketKind.PART << KIND_SHIFT | region << REGION_SHIFT | place
