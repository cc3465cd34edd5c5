"""Arrays to the words of a design's streams and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.design.design import AxiStreams, Design, Field, Port, Stream
from dynagate.design.payload import Words, pack_integers, unpack_integers
from dynagate.fixedpoint.format import quantise, to_float
from dynagate.host.inputs import Arrays, check_range


def pack_inputs(design: Design, arrays: Arrays, batch: int) -> Words:
    """Arrays (batch, *shape) by name, as `inputs.checked` gives them -> payload words (batch, words).

    Raises ValueError that names the input which is outside the range that the formats were chosen for.
    """
    columns = {
        index: quantise(column, design.input.fields[index].format).value
        for index, column in _input_columns(design, arrays, batch)
    }
    return pack_integers(design.input, columns, batch)


def _input_columns(design: Design, arrays: Arrays, batch: int) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
    """Index and values (batch,) of each input field, checked against the range its format was chosen for."""
    for port in design.input.ports:
        flat = arrays[port.name].astype(np.float64).reshape(batch, len(port.fields))
        for k, index in enumerate(port.fields):
            field = design.input.fields[index]
            check_range(port, k, flat[:, k], field.range, field.format.step)
            yield index, flat[:, k]


def unpack_outputs(design: Design, words: Words) -> tuple[dict[str, npt.NDArray[np.float64]], npt.NDArray[np.bool_]]:
    """Payload words -> float64 arrays (batch, *shape) by name, and which samples overflowed on their way."""
    columns = [
        to_float(integers, field.format)
        for integers, field in zip(unpack_integers(design.output, words), design.output.fields, strict=True)
    ]
    outputs = _output_arrays(design, columns)
    overflow = np.zeros(len(words), dtype=bool)
    for place in design.output.overflow_bits:
        word, bit = divmod(place, 32)
        overflow |= (words[:, word] >> np.uint32(bit) & np.uint32(1)).astype(bool)
    return outputs, overflow


def _output_arrays(design: Design, columns: Sequence[npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Arrays (batch, *shape) by name. columns: (batch,) for each output field."""
    return {
        port.name: np.stack([columns[index] for index in port.fields], axis=1).reshape(-1, *port.shape)
        for port in design.output.ports
    }


@dataclass(frozen=True)
class _Columns:
    """The words of a port in a sample: a slice where they follow each other. low, high: what an input may be."""

    name: str
    shape: tuple[int, ...]
    words: Any
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]

    @classmethod
    def of(cls, stream: Stream) -> list[_Columns]:
        return [cls._of(port, [stream.fields[index] for index in port.fields]) for port in stream.ports]

    @classmethod
    def _of(cls, port: Port, fields: Sequence[Field]) -> _Columns:
        first, count = (port.fields[0] if port.fields else 0), len(port.fields)
        in_order = port.fields == tuple(range(first, first + count))
        low = np.array([field.range[0] - field.format.step for field in fields])
        high = np.array([field.range[1] + field.format.step for field in fields])
        return cls(port.name, port.shape, slice(first, first + count) if in_order else list(port.fields), low, high)


class FloatWords:
    """Arrays to the float32 words of a design's AXI streams and back, batch after batch."""

    def __init__(self, design: Design, axi: AxiStreams) -> None:
        self.design, self.axi = design, axi
        self._inputs = [port for port in _Columns.of(design.input) if port.name not in axi.parameters]
        self._outputs = _Columns.of(design.output)

    def fill(self, arrays: Arrays, samples: Words) -> None:
        """Writes arrays (batch, *shape) by name into the input stream's words (batch, beats, words of a beat). The tag
        and what is left of the last beat stay as they are. Raises ValueError as `pack_inputs` does."""
        flat = _rows(samples).view(np.float32)
        for port in self._inputs:
            values = arrays[port.name].reshape(len(samples), len(port.low))
            if not (np.all(values >= port.low) and np.all(values <= port.high)):
                self._refuse(arrays, len(samples))
            flat[:, port.words] = values

    def _refuse(self, arrays: Arrays, batch: int) -> None:
        for _ in _input_columns(self.design, arrays, batch):
            pass

    def take(self, words: Words) -> tuple[dict[str, npt.NDArray[np.float32]], npt.NDArray[np.bool_]]:
        """Words of the output stream (batch, beats, words of a beat) -> float32 arrays (batch, *shape) by name, and
        which samples have no result: all their words are NaN. Raises ValueError: only some words of a sample are."""
        values = _rows(words)[:, : len(self.design.output.fields)].view(np.float32)
        nan = np.isnan(values)
        empty = np.asarray(nan.all(axis=1))
        if (torn := nan.any(axis=1) & ~empty).any():
            raise ArgumentError(f"some words of result {int(np.argmax(torn))} are NaN; expected all of them or none")
        outputs = {
            port.name: np.array(values[:, port.words], order="C").reshape(len(words), *port.shape)
            for port in self._outputs
        }
        return outputs, empty


class FixedWords:
    """Arrays to the packed integers of a design's AXI streams and back, batch after batch: as `FloatWords`, in
    float64."""

    def __init__(self, design: Design, axi: AxiStreams) -> None:
        self.design, self.axi = design, axi
        self._results = _close_together(design.output)

    def fill(self, arrays: Arrays, samples: Words) -> None:
        count = self.axi.words.input
        _rows(samples)[:, :count] = pack_inputs(self.design, arrays, len(samples))[:, :count]

    def take(self, words: Words) -> tuple[dict[str, npt.NDArray[np.float64]], npt.NDArray[np.bool_]]:
        """As of `FloatWords`: results that cannot be used are NaN."""
        rows = _rows(words)[:, : self.axi.words.output]
        columns = [
            to_float(integers, field.format)
            for integers, field in zip(unpack_integers(self._results, rows), self._results.fields, strict=True)
        ]
        word, bit = divmod(self._results.bits, 32)
        empty = (rows[:, word] >> np.uint32(bit) & np.uint32(1)).astype(bool)
        outputs = _output_arrays(self.design, columns)
        for array in outputs.values():
            array[empty] = np.nan
        return outputs, empty


def stream_words(design: Design, axi: AxiStreams) -> FloatWords | FixedWords:
    """What a design's AXI streams carry."""
    return FixedWords(design, axi) if axi.word == "fixed" else FloatWords(design, axi)


def _close_together(stream: Stream) -> Stream:
    """The stream with its fields one after the other from bit 0 up."""
    fields, low = [], 0
    for field in stream.fields:
        fields.append(replace(field, lsb=low))
        low += field.width
    return replace(stream, bits=low, fields=tuple(fields))


def pack_floats(design: Design, axi: AxiStreams, arrays: Arrays, batch: int) -> Words:
    """Arrays (batch, *shape) by name -> words of the input stream (batch, beats, words of a beat), tags 0.

    A sample begins with a beat of its own; the rest of its last beat is 0. Raises ValueError as `pack_inputs` does.
    """
    words = np.zeros((batch, axi.beats.input, axi.lanes), dtype=np.uint32)
    stream_words(design, axi).fill(arrays, words)
    return words


def _rows(words: Words) -> Words:
    """A row of words for each sample; a view."""
    return words.reshape(len(words), words.shape[1] * words.shape[2])


def tag_words(words: Words, after: int) -> Words:
    """The tags in words (batch, beats, words of a beat), which stand after so many others; a view."""
    return _rows(words)[:, after]
