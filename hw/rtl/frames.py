"""Frames on a serial line: what host and device say to each other there (plain Python, for both).

A frame lies between two END bytes. Within it, END and ESC are written as ESC and another byte (SLIP, RFC 1055), so a
reader that lost its place finds it at the next END. A frame is 32-bit words, the low byte first: a header, the payload,
and the CRC-32 of both (zlib's). A damaged frame is dropped.

Header: bits 0 to 7 say the kind, 8 to 15 an argument, 16 to 31 a number.

=======  ==============================  ==============================================================
kind     from the host                   the device's answer, with ANSWER added to the kind
=======  ==============================  ==============================================================
RESET    number: of the request          the number; VERSION, and the words of samples that may wait
READ     argument: address; number       argument: response of AXI4-Lite; the number; the value
WRITE    the same; the value             argument: response; the number
SAMPLE   number: of the sample           number: of the result; its words
REFUSED                                  argument: a Refusal; number: of the sample that it expected
=======  ==============================  ==============================================================

Samples are numbered from 0 on after a reset, modulo 65536. The device accepts only the next number, so results, which
it numbers as they come, belong to the samples of the same numbers. After a refusal it takes no sample until a reset.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

VERSION = 1
"""Version of these frames; a host refuses others."""
BAUD = 3_000_000
"""Bits per second unless another is chosen: the most of the usual USB adapters (FTDI DS_FT231X)."""
END, ESC, ESC_END, ESC_ESC = 0xC0, 0xDB, 0xDC, 0xDD
_STRAY = re.compile(rb"\xdb(?![\xdc\xdd])")
"""ESC before another byte than those that it is written before."""
ANSWER = 0x80
NUMBERS = 1 << 16
LEAST_WAITING = 512
"""Words of samples that may wait in the device, at least: a block of memory."""


class FrameKind(IntEnum):
    RESET = 1
    READ = 2
    WRITE = 3
    SAMPLE = 4
    REFUSED = 5


class Refusal(IntEnum):
    """ORDER: another sample than the next one came, so one was lost. SIZE: a sample with too few or too many words."""

    ORDER = 1
    SIZE = 2


def waiting_words(beats: int) -> int:
    """Words of samples that may wait in the device: a power of two, four samples of this many beats or more."""
    return max(LEAST_WAITING, 1 << (4 * beats).bit_length())


@dataclass(frozen=True)
class SerialFrame:
    kind: int
    argument: int = 0
    number: int = 0
    payload: bytes = b""

    def encoded(self) -> bytes:
        """The bytes on the line. The payload is whole words."""
        content = bytes([self.kind, self.argument, *self.number.to_bytes(2, "little")]) + self.payload
        content += zlib.crc32(content).to_bytes(4, "little")
        content = content.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc")
        return b"\xc0" + content + b"\xc0"


class Decoder:
    """Frames of a stream of bytes. damaged: frames that were dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self.damaged = 0

    def feed(self, received: bytes) -> Iterator[SerialFrame]:
        """The whole frames that end in these bytes."""
        *contents, self._rest = (self._rest + received).split(b"\xc0")
        for content in contents:
            if content:
                frame = _decoded(content)
                if frame is None:
                    self.damaged += 1
                else:
                    yield frame


def _decoded(content: bytes) -> SerialFrame | None:
    """The frame between two END bytes; None where it is damaged."""
    if _STRAY.search(content):
        return None
    plain = content.replace(b"\xdb\xdc", b"\xc0").replace(b"\xdb\xdd", b"\xdb")
    if len(plain) < 8 or len(plain) % 4 or zlib.crc32(plain[:-4]) != int.from_bytes(plain[-4:], "little"):
        return None
    return SerialFrame(plain[0], plain[1], int.from_bytes(plain[2:4], "little"), plain[4:-4])
