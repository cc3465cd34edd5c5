"""Packets and messages of a core's streams, and the registers and tables that messages fill.

The core's stream carries packets of 32-bit words: a head, whose top four bits say what it is, the inputs of a sample or
the messages of a part of a program, and a tag, which comes back with the answer. A message is two words, a head and a
number. Its head's top four bits say what it is, the others an address.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from dynagate.hw.processor.isa.shape import BLOCK_BITS, LEVELS, Core

Words = npt.NDArray[np.uint32]


class PacketKind(IntEnum):
    """Kind of a packet.

    A SAMPLE has its inputs after the head. MESSAGES have a count of words in the head; the core answers 1 if it then
    has a program, else 0. Kinds of a message: NOTHING; BEGIN of a program, after which the core has none; a PART of it;
    its END with the checksum.
    """

    SAMPLE = NOTHING = 0
    BEGIN = 1
    PART = 2
    END = 3
    MESSAGES = 4


class MemoryRegion(IntEnum):
    """Memory that the address of a part selects.

    Program words by lanes, constants by place, registers, the table of blocks by lanes. If streams carry float32: the
    tables of binary points of inputs and of results (`points`).
    """

    PROGRAM = 0
    CONSTANTS = 1
    REGISTERS = 2
    BLOCKS = 3
    INPUT_POINTS = 4
    OUTPUT_POINTS = 5


KIND_SHIFT, REGION_SHIFT = 28, 24
"""Lowest bits of the kind in a head, and of the region in an address."""
REGISTERS = ("period", "inputs", "ahead", "length", "fixed", "turns")
"""The registers in order; after them the number of results of each unit. inputs: of an iteration. ahead: samples under
way at a time. length: inputs of a sample. fixed: of an iteration, those that all iterations have. iterations: of a
sample."""
BLOCK_LANES = ("start", "words", "period", "control")
"""Numbers of a block in the table: its first word; its words less FEWEST_WORDS; its cycles less TURNAROUND; CONTROL."""
CONTROL = {"target": BLOCK_BITS, "level": (LEVELS - 1).bit_length(), "until": 1, "repeats": 1, "last": 1, "most": 16}
"""Bits of what follows a block. level: of the loop that it is in. repeats: that loop ends with it, which begins with
block `target` and has `most` iterations at most; until: it ends after the iteration in which no test was positive.
last: an iteration of a sample ends with the block."""
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


MESSAGES = 32
"""Default number of program messages in a packet."""


def longest_packet(core: Core) -> int:
    """Words of the longest packet of a core."""
    return max(1 << core.input_bits, 2 * MESSAGES) + 2


def packets(loading: Words, count: int = MESSAGES) -> Words:
    """Pack the messages of a program into packets of `count` messages, (packets, words), without tags."""
    padded = np.zeros((-len(loading) % count + len(loading), 2), np.uint32)
    padded[: len(loading)] = loading
    rows = padded.reshape(-1, 2 * count)
    heads = np.full((len(rows), 1), PacketKind.MESSAGES << KIND_SHIFT | rows.shape[1], np.uint32)
    return np.concatenate([heads, rows], axis=1)


def checksum(parts: Words) -> int:
    """CRC-32 (IEEE 802.3) of the beats of all parts."""
    return zlib.crc32(np.ascontiguousarray(parts, dtype="<u4").tobytes())
