"""Packets and messages on the streams of a core, and the registers and tables that messages write.

A packet consists of 32-bit words: a head, the inputs of a sample or messages, and a tag, which the answer returns. The
top four bits of the head are the kind of packet. A message is two words, a head and a number. The top four bits of its
head are the kind of message; the others are an address.
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
    """Kind of a packet or of a message.

    A SAMPLE has its inputs after the head. MESSAGES has the number of its words in the head; the core answers 1 if it
    then has a program, else 0. Messages are NOTHING (ignored), BEGIN (the core drops its program), PART (a part of a
    program) and END (with the checksum).
    """

    SAMPLE = NOTHING = 0
    BEGIN = 1
    PART = 2
    END = 3
    MESSAGES = 4


class MemoryRegion(IntEnum):
    """Memory that the address of a PART selects.

    PROGRAM is addressed by word and lane, CONSTANTS by address, REGISTERS by index, BLOCKS by block and lane. Cores
    with float32 streams have tables of the binary points of inputs and results, too.
    """

    PROGRAM = 0
    CONSTANTS = 1
    REGISTERS = 2
    BLOCKS = 3
    INPUT_POINTS = 4
    OUTPUT_POINTS = 5


KIND_SHIFT, REGION_SHIFT = 28, 24
"""Lowest bit of the kind in a head, and of the region in an address."""
REGISTERS = ("period", "inputs", "ahead", "length", "fixed", "steps")
"""Registers in order; the number of results of each unit follows them.

* period: smallest number of cycles from a sample to the next.
* inputs: number of inputs of a step.
* ahead: number of samples that may be under way.
* length: number of inputs of a sample.
* fixed: number of inputs that all steps of a sample share.
* steps: number of steps of a sample.
"""
BLOCK_LANES = ("start", "words", "period", "control")
"""Entries of a block in the table: its first word; its words less FEWEST_WORDS; its cycles less TURNAROUND; CONTROL."""
CONTROL = {"target": BLOCK_BITS, "level": (LEVELS - 1).bit_length(), "until": 1, "repeats": 1, "last": 1, "most": 16}
"""Bits of the fields that describe the end of a block.

* target: first block of the loop that ends here.
* level: nesting level of the block.
* until: the loop ends after the iteration in which no test was positive.
* repeats: a loop ends with the block.
* last: a step of a sample ends with the block.
* most: largest number of iterations of the loop.
"""
TURNAROUND = 4
"""Cycles before the end of a block at which the sequencer must know of the end."""


def pack_fields(values: Mapping[str, int], fields: Mapping[str, int]) -> int:
    """Return a word with values in bit fields, the first field in the lowest bits.

    Raises:
        AssertionError: A value does not fit its field.
    """
    word = low = 0
    for name, bits in fields.items():
        value = int(values.get(name, 0))
        assert 0 <= value < 1 << bits, f"{name} {value} in {bits} bits"
        word |= value << low
        low += bits
    return word


def unpack_fields(word: int, fields: Mapping[str, int]) -> dict[str, int]:
    """Return the values of the bit fields of a word, the inverse of `pack_fields`."""
    values = {}
    for name, bits in fields.items():
        values[name] = word & ((1 << bits) - 1)
        word >>= bits
    return values


MESSAGES = 32
"""Default number of program messages in a packet."""


def longest_packet(core: Core) -> int:
    """Return the number of words of the longest packet of a core."""
    return max(1 << core.input_bits, 2 * MESSAGES) + 2


def packed_messages(loading: Words, count: int = MESSAGES) -> Words:
    """Pack the messages of a program into packets.

    Args:
        loading: Messages, (messages, 2).
        count: Messages per packet; the last packet is filled with messages that do nothing.

    Returns:
        Packets (packets, words), without tags.
    """
    padded = np.zeros((-len(loading) % count + len(loading), 2), np.uint32)
    padded[: len(loading)] = loading
    rows = padded.reshape(-1, 2 * count)
    heads = np.full((len(rows), 1), PacketKind.MESSAGES << KIND_SHIFT | rows.shape[1], np.uint32)
    return np.concatenate([heads, rows], axis=1)


def checksum(parts: Words) -> int:
    """Return the CRC-32 (IEEE 802.3) of the messages with parts of a program."""
    return zlib.crc32(np.ascontiguousarray(parts, dtype="<u4").tobytes())
