"""Frames of the serial protocol between host and device (plain Python, used by both).

A frame lies between two END bytes. In it, END and ESC are written as ESC and another byte (SLIP, RFC 1055), so a
receiver that lost synchronisation finds the next frame at the next END. A frame consists of 32-bit words, low byte
first: a header, the payload, and the CRC-32 of both (zlib's). A damaged frame is dropped.

Bits 0 to 7 of the header are the kind, 8 to 15 an argument, 16 to 31 a number.

=======  ==============================  ==============================================================
kind     from the host                   the device's answer, whose kind has ANSWER added
=======  ==============================  ==============================================================
RESET    number: of the request          the number; VERSION, and the words of samples that can wait
READ     argument: address; number       argument: response of AXI4-Lite; the number; the value
WRITE    the same; the value             argument: response; the number
SAMPLE   number: of the sample           number: of the result; its words
REFUSED                                  argument: a Refusal; number: of the sample that it expected
=======  ==============================  ==============================================================

Samples are numbered from 0 after a reset, modulo 65536. The device accepts only the next number. It numbers results in
order, so a result belongs to the sample with the same number. After a refusal, it accepts no sample until a reset.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

VERSION = 1
"""Version of the protocol; a host refuses other versions."""
BAUD = 3_000_000
"""Default bits per second: the most of common USB adapters (FTDI DS_FT231X)."""
END, ESC, ESC_END, ESC_ESC = 0xC0, 0xDB, 0xDC, 0xDD
"""Bytes of the framing: end of a frame, escape, and the bytes that stand for END and ESC after an escape."""
_STRAY = re.compile(rb"\xdb(?![\xdc\xdd])")
"""Pattern of an ESC byte with a wrong successor."""
ANSWER = 0x80
"""Added to the kind of a frame for the device's answer."""
NUMBERS = 1 << 16
"""Number of different sample numbers."""
LEAST_WAITING = 512
"""Smallest number of 32-bit words of samples that can wait in the device: one block RAM."""


class FrameKind(IntEnum):
    """Kind of a frame."""

    RESET = 1
    READ = 2
    WRITE = 3
    SAMPLE = 4
    REFUSED = 5


class Refusal(IntEnum):
    """Reason for a refused sample.

    ORDER: a sample with another number than the next one arrived, so a sample was lost. SIZE: a sample has too few or
    too many words.
    """

    ORDER = 1
    SIZE = 2


def waiting_words(beats: int) -> int:
    """Return the number of 32-bit words of samples that can wait in the device: a power of two, at least four samples.

    Args:
        beats: Words of a sample.
    """
    return max(LEAST_WAITING, 1 << (4 * beats).bit_length())


@dataclass(frozen=True)
class SerialFrame:
    """A frame of the serial protocol."""

    kind: int
    argument: int = 0
    number: int = 0
    payload: bytes = b""

    def encoded(self) -> bytes:
        """Return the bytes on the line. The payload has whole 32-bit words."""
        content = bytes([self.kind, self.argument, *self.number.to_bytes(2, "little")]) + self.payload
        content += zlib.crc32(content).to_bytes(4, "little")
        content = content.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc")
        return b"\xc0" + content + b"\xc0"


class Decoder:
    """Finds frames in a stream of bytes. `damaged` counts the frames that were dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self.damaged = 0

    def feed(self, received: bytes) -> Iterator[SerialFrame]:
        """Yield the complete frames that end in these bytes."""
        *contents, self._rest = (self._rest + received).split(b"\xc0")
        for content in contents:
            if content:
                frame = _decoded(content)
                if frame is None:
                    self.damaged += 1
                else:
                    yield frame


def _decoded(content: bytes) -> SerialFrame | None:
    """Return the frame between two END bytes; None if it is damaged."""
    if _STRAY.search(content):
        return None
    plain = content.replace(b"\xdb\xdc", b"\xc0").replace(b"\xdb\xdd", b"\xdb")
    if len(plain) < 8 or len(plain) % 4 or zlib.crc32(plain[:-4]) != int.from_bytes(plain[-4:], "little"):
        return None
    return SerialFrame(plain[0], plain[1], int.from_bytes(plain[2:4], "little"), plain[4:-4])
