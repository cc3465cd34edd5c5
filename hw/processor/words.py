"""Program words: a schedule in bits, and the messages that load it.

The core's stream carries packets of 32-bit words: a head, whose top four bits say what it is, the inputs of a sample or
the messages of a part of a program, and a tag, which comes back with the answer. A message is two words, a head and a
number. Its head's top four bits say what it is, the others an address.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.format import Format
from dynagate.hw.processor.instructions import SUM
from dynagate.hw.processor.schedule import FEWEST_WORDS, Schedule
from dynagate.hw.processor.shape import BLOCK_BITS, FIRST_POINT, KINDS, LANE, LEVELS, LOAD, OPERANDS, STORE, Core
from dynagate.hw.units.floating import point_into, point_out_of

Words = npt.NDArray[np.uint32]


class Kind(IntEnum):
    """Of a packet: a sample, which has its inputs after the head; or messages, whose words the head counts, which the
    core answers with 1 where it has a program then, else 0. Of a message: nothing; the beginning of a program, after
    which the core has none; a part of it; its end with the checksum."""

    SAMPLE = NOTHING = 0
    BEGIN = 1
    PART = 2
    END = 3
    MESSAGES = 4


class Region(IntEnum):
    """Of the address of a part: program words by lanes, constants by place, registers, the table of blocks by lanes;
    where streams carry float32, the tables of binary points of inputs and of results (`points`)."""

    PROGRAM = 0
    CONSTANTS = 1
    REGISTERS = 2
    BLOCKS = 3
    INPUT_POINTS = 4
    OUTPUT_POINTS = 5


KIND_SHIFT, REGION_SHIFT = 28, 24
"""Lowest bits of the kind in a head, and of the region in an address."""
REGISTERS = ("period", "inputs", "ahead", "length", "fixed", "turns")
"""The registers in order; after them the number of results of each unit. inputs: of a turn. ahead: samples under way at
a time. length: inputs of a sample. fixed: of a turn, those that all turns have. turns: of a sample."""
BLOCK_LANES = ("start", "words", "period", "control")
"""Numbers of a block in the table: its first word; its words less FEWEST_WORDS; its cycles less TURNAROUND; CONTROL."""
CONTROL = {"target": BLOCK_BITS, "level": (LEVELS - 1).bit_length(), "until": 1, "repeats": 1, "last": 1, "most": 16}
"""Bits of what follows a block. level: of the loop that it is in. repeats: that loop ends with it, which begins with
block `target` and has `most` turns at most; until: it ends after the turn in which no test was positive. last: a turn
of a sample ends with the block."""
TURNAROUND = 4
"""Cycles before its end that the sequencer has to know of a block's end."""


def pack_fields(values: Mapping[str, int], fields: Mapping[str, int]) -> int:
    word = low = 0
    for name, bits in fields.items():
        value = int(values.get(name, 0))
        assert 0 <= value < 1 << bits, f"{name} {value} in {bits} bits"
        word |= value << low
        low += bits
    return word


def unpack_fields(word: int, fields: Mapping[str, int]) -> dict[str, int]:
    values = {}
    for name, bits in fields.items():
        values[name] = word & ((1 << bits) - 1)
        word >>= bits
    return values


def program_words(scheduled: Schedule) -> list[int]:
    """A number of `core.program_word` bits for each cycle."""
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


def ahead(scheduled: Schedule) -> int:
    """Samples that may be under way: two where the results of both can wait to be sent."""
    most = scheduled.turns * max(map(len, scheduled.outputs))
    return 2 if 2 * most <= 1 << scheduled.core.output_bits else 1


def messages(scheduled: Schedule) -> Words:
    """What loads a program, (messages, 2): all but the inputs of samples."""
    core = scheduled.core
    parts: list[tuple[int, int]] = []
    for cycle, word in enumerate(program_words(scheduled)):
        for lane in range(core.lanes):
            parts.append((_address(Region.PROGRAM, cycle << core.lane_bits | lane), word >> (LANE * lane) & 0xFFFFFFFF))
    for source, place in scheduled.fixed.items():
        if source.node is None:
            parts.append((_address(Region.CONSTANTS, place), source.integer & 0xFFFFFFFF))
    inputs, per_turn = len(scheduled.instructions.inputs), len(scheduled.instructions.per_turn)
    values = [scheduled.period, inputs, ahead(scheduled)]
    values += [scheduled.inputs, inputs - per_turn, scheduled.turns]
    for k, value in enumerate([*values, *(scheduled.turns * len(results) for results in scheduled.outputs)]):
        parts.append((_address(Region.REGISTERS, k), value))
    parts += _table(scheduled)
    if core.floats:
        parts += _points(Region.INPUT_POINTS, input_formats(scheduled), point_into)
        parts += _points(Region.OUTPUT_POINTS, output_formats(scheduled), point_out_of)
    begin = [(Kind.BEGIN << KIND_SHIFT, core.device_hash & 0xFFFFFFFF)]
    body = np.array(parts, dtype=np.uint64).astype(np.uint32)
    end = [(Kind.END << KIND_SHIFT, checksum(body))]
    return np.concatenate([np.array(begin, np.uint64), body, np.array(end, np.uint64)]).astype(np.uint32)


def _table(scheduled: Schedule) -> list[tuple[int, int]]:
    """Addresses and numbers of the blocks."""
    parts = []
    for k, (block, placed) in enumerate(zip(scheduled.instructions.blocks, scheduled.blocks, strict=True)):
        control = {"last": int(block.last), "level": block.level}
        if (end := block.repeat) is not None:
            control |= {"target": end.target, "level": end.level, "until": int(end.until), "repeats": 1}
            control["most"] = end.most
        row = (placed.start, placed.words - FEWEST_WORDS, placed.period - TURNAROUND, pack_fields(control, CONTROL))
        lanes = len(BLOCK_LANES)
        parts += [(_address(Region.BLOCKS, lanes * k + lane), value) for lane, value in enumerate(row)]
    return parts


Formats = dict[int, list[Format]]
"""Of the words of samples, or of results, by the block that a function begins with."""


def input_formats(scheduled: Schedule) -> Formats:
    """Of the inputs of samples, in the order of their words."""
    program, formats = scheduled.instructions, Formats()
    for entry, face in zip(program.entries, program.faces, strict=True):
        whole = Format(scheduled.core.word, 0)  # of the word that says where a loop starts, and of those of no input
        nodes = sorted(program.blocks[entry].inputs, key=lambda node: scheduled.arrivals[node])
        own = [face.formats.get(node, whole) for node in nodes]
        later = own[len(own) - len(program.per_turn) :] if program.per_turn else []
        formats[entry] = own + later * (scheduled.turns - 1)
    return formats


def output_formats(scheduled: Schedule) -> Formats:
    """Of the results of samples, in the order of their words."""
    program, formats = scheduled.instructions, Formats()
    for k, (entry, face) in enumerate(zip(program.entries, program.faces, strict=True)):
        own = {program.outputs[node]: face.formats[node] for node in face.result_nodes}
        whole = Format(scheduled.core.word, 0)  # of results that mean nothing
        results = [[own.get(result, whole) for result in results] for results in scheduled.outputs_of(k)]
        formats[entry] = [fmt for unit in results for fmt in unit * scheduled.turns]
    return formats


def _points(region: Region, formats: Formats, point: Callable[[Format], int]) -> list[tuple[int, int]]:
    """Addresses and numbers of a table of binary points: where those of each function begin, then all of them."""
    parts, place = [], FIRST_POINT
    for entry, own in formats.items():
        parts.append((_address(region, entry), place))
        parts += [(_address(region, place + k), point(fmt) & 0xFFFFFFFF) for k, fmt in enumerate(own)]
        place += len(own)
    return parts


MESSAGES = 32
"""Of a program in a packet, where the host chooses."""


def longest_packet(core: Core) -> int:
    """Words of the longest packet of a core."""
    return max(1 << core.input_bits, 2 * MESSAGES) + 2


def packets(loading: Words, count: int = MESSAGES) -> Words:
    """What loads a program in packets of so many messages, (packets, words), all but their tags."""
    padded = np.zeros((-len(loading) % count + len(loading), 2), np.uint32)
    padded[: len(loading)] = loading
    rows = padded.reshape(-1, 2 * count)
    heads = np.full((len(rows), 1), Kind.MESSAGES << KIND_SHIFT | rows.shape[1], np.uint32)
    return np.concatenate([heads, rows], axis=1)


def checksum(parts: Words) -> int:
    """CRC-32 (IEEE 802.3) of the beats of all parts."""
    return zlib.crc32(np.ascontiguousarray(parts, dtype="<u4").tobytes())


def _address(region: Region, place: int) -> int:
    return Kind.PART << KIND_SHIFT | region << REGION_SHIFT | place
