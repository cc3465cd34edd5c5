"""Payloads: integers to the bits of a stream and back, by the layout in design.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.fixedpoint.format import Format

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Field:
    """One number of a payload. low, high: the values an input's format was chosen for."""

    signal: str
    lsb: int
    format: Format
    low: float = -np.inf
    high: float = np.inf


@dataclass(frozen=True)
class Port:
    """A named array of fields, row-major. unit_vectors: (start, stop) of entries that have length 1 together."""

    name: str
    shape: tuple[int, ...]
    fields: tuple[int, ...]
    unit_vectors: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Stream:
    """One direction. words: 32-bit words a payload takes."""

    bits: int
    fields: tuple[Field, ...]
    ports: tuple[Port, ...]

    @property
    def words(self) -> int:
        return (self.bits + 31) // 32


def stream_of(content: Mapping[str, Any]) -> Stream:
    fields = [
        Field(f["signal"], f["lsb"], Format(f["width"], f["frac"]), f.get("low", -np.inf), f.get("high", np.inf))
        for f in content["fields"]
    ]
    ports = [
        Port(p["name"], tuple(p["shape"]), tuple(p["fields"]), tuple((a, b) for a, b in p["unit_vectors"]))
        for p in content["ports"]
    ]
    return Stream(content["bits"], tuple(fields), tuple(ports))


def pack_integers(stream: Stream, columns: Mapping[int, npt.NDArray[np.int64]], count: int) -> Words:
    """Integers by field index, (count,) each -> payload words (count, words)."""
    lanes = np.zeros((count, 2 * stream.words + 4), dtype=np.uint32)
    for index, values in columns.items():
        field = stream.fields[index]
        word, offset = divmod(field.lsb, 32)
        bits = (values & ((1 << field.format.width) - 1)).astype(np.uint64)
        low = bits << np.uint64(offset)
        lanes[:, word] |= (low & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        lanes[:, word + 1] |= (low >> np.uint64(32)).astype(np.uint32)
    return np.ascontiguousarray(lanes[:, : stream.words])


def unpack_integers(stream: Stream, words: Words) -> list[npt.NDArray[np.int64]]:
    """Payload words (count, words) -> integers (count,) per field."""
    padded = np.concatenate([words, np.zeros((len(words), 2), dtype=np.uint32)], axis=1).astype(np.uint64)
    result = []
    for field in stream.fields:
        word, offset = divmod(field.lsb, 32)
        pair = padded[:, word] | padded[:, word + 1] << np.uint64(32)
        bits = (pair >> np.uint64(offset)).astype(np.int64) & ((1 << field.format.width) - 1)
        sign = 1 << (field.format.width - 1)
        result.append((bits ^ sign) - sign)
    return result
