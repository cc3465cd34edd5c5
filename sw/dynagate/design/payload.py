"""Payloads: integers to the bits of a stream and back, by the layout in design.json."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dynagate.design.design import Stream

Words = npt.NDArray[np.uint32]


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
