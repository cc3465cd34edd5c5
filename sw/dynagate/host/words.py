"""Arrays to the words of a design's streams and back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.design.design import AxiStreams, Field, Port, Stream, Streamed
from dynagate.design.payload import Words, pack_integers, unpack_integers
from dynagate.design.program import ProgramDesign
from dynagate.design.words import FIXED, FLOAT32, WORD
from dynagate.fixedpoint.evaluate import EXACT, infinite
from dynagate.fixedpoint.format import Format, carried, quantize, to_float
from dynagate.graph.packing import ZERO
from dynagate.host import native_words
from dynagate.host.inputs import Arrays, brought
from dynagate.host.links import DeviceError
from dynagate.host.tags import COUNT_MASK, Tags, check_tags, tags_from
from dynagate.native.compile import CompileError

F64, F32 = np.dtype(np.float64), np.dtype(np.float32)


def pack_inputs(design: Streamed, arrays: Arrays, batch: int, numbers: Mapping[str, str] = EXACT) -> Words:
    """Arrays (batch, *shape) by name, as `inputs.checked` gives them -> payload words (batch, words).

    numbers: as of `fixedpoint.evaluate`.
    Raises ValueError that names the input which is outside the range that the formats were chosen for.
    """
    columns = {
        index: quantize(column, design.input.fields[index].format).value
        for index, column in _input_columns(design, arrays, batch, numbers)
    }
    return pack_integers(design.input, columns, batch)


def _input_columns(
    design: Streamed, arrays: Arrays, batch: int, numbers: Mapping[str, str] = EXACT
) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
    """Index and values (batch,) of each input field, checked against the range its format was chosen for."""
    for port in design.input.ports:
        flat = arrays[port.name].astype(np.float64).reshape(batch, len(port.fields))
        for k, index in enumerate(port.fields):
            field = design.input.fields[index]
            yield index, brought(port, k, flat[:, k], field.range, field.format, numbers.get(port.name))


def unpack_outputs(
    design: Streamed, words: Words, numbers: Mapping[str, str] = EXACT
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.bool_]]:
    """Payload words -> float64 arrays (batch, *shape) by name, and which samples overflowed on their way. numbers: as
    of `fixedpoint.evaluate`."""
    columns = [
        to_float(integers, field.format)
        for integers, field in zip(unpack_integers(design.output, words), design.output.fields, strict=True)
    ]
    exact = _output_arrays(design, columns)
    outputs = {name: carried(value, numbers.get(name)) for name, value in exact.items()}
    overflow = infinite(outputs)
    for place in design.output.overflow_bits:
        word, bit = divmod(place, 32)
        overflow |= (words[:, word] >> np.uint32(bit) & np.uint32(1)).astype(bool)
    return outputs, overflow


def _output_arrays(design: Streamed, columns: Sequence[npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Arrays (batch, *shape) by name. columns: (batch,) for each output field."""
    each = [*columns, np.zeros_like(columns[0])]  # the last one, which ZERO means
    return {
        port.name: np.stack([each[index] for index in port.fields], axis=1).reshape(-1, *port.shape)
        for port in design.output.ports
    }


@dataclass(frozen=True)
class _Columns:
    """Which numbers of a sample a port's entries are: `numbers` at `places` in it, each a slice where they follow each
    other; the other entries are zero. low, high: what an input may be."""

    name: str
    shape: tuple[int, ...]
    numbers: Any
    places: Any
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]

    @classmethod
    def of(cls, stream: Stream) -> list[_Columns]:
        return [cls._of(port, stream.fields) for port in stream.ports]

    @classmethod
    def _of(cls, port: Port, fields: Sequence[Field]) -> _Columns:
        places = [k for k, index in enumerate(port.fields) if index != ZERO]
        numbers = [port.fields[k] for k in places]
        low = np.array([fields[k].range[0] - fields[k].format.step for k in numbers])
        high = np.array([fields[k].range[1] + fields[k].format.step for k in numbers])
        return cls(port.name, port.shape, _as_slice(numbers), _as_slice(places), low, high)


def _as_slice(places: list[int]) -> slice | list[int]:
    """A slice where the places follow each other."""
    first = places[0] if places else 0
    last = first + len(places)
    return slice(first, last) if places == list(range(first, last)) else places


class FloatWords:
    """Arrays to the numbers of a design's AXI streams and back, batch after batch: float32 in C, or in numpy where
    there is no compiler, arrays are neither float64 nor float32, or something must be named; float16 in numpy. Results
    are float32. tags: of the samples."""

    def __init__(self, design: Streamed, axi: AxiStreams, *, native: bool = True) -> None:
        self.design, self.axi, self.tags = design, axi, Tags()
        self._number = np.dtype(axi.word)
        self._inputs = [port for port in _Columns.of(design.input) if port.name not in axi.parameters]
        self._outputs = _Columns.of(design.output)
        self._native = native and not axi.parameters and self._number == F32

    @cached_property
    def functions(self) -> Any:
        """Those in C, or None."""
        try:
            return native_words.functions(self.design, self.axi) if self._native else None
        except CompileError:
            return None

    def fill(self, arrays: Arrays, samples: Words) -> int:
        """Writes arrays (batch, *shape) by name and tags into the input stream's words (batch, beats, words of a beat).
        What is left of the last beat stays as it is. Returns the first tag. Raises ValueError as `pack_inputs` does."""
        values = [arrays[port.name] for port in self._inputs]
        function = self.filling(values)
        first = self.tags.take(len(samples))
        if function is None:
            self._fill(arrays, samples, first)
        else:
            address = samples.__array_interface__["data"][0]
            tag = (first & ~COUNT_MASK, first & COUNT_MASK)
            if function(native_words.pointers(values), address, len(samples), *tag):
                self.refuse(arrays, len(samples))
        return first

    def filling(self, values: Sequence[npt.NDArray[Any]]) -> Any:
        """The function in C that reads arrays where they are, or None."""
        dtypes = {array.dtype for array in values}
        if len(dtypes) != 1 or self.functions is None or not all(array.flags.c_contiguous for array in values):
            return None
        kinds = {F64: self.functions.dynagate_fill_f64, F32: self.functions.dynagate_fill_f32}
        return kinds.get(dtypes.pop())

    def _fill(self, arrays: Arrays, samples: Words, first: int) -> None:
        flat = _rows(samples).view(self._number)
        for port in self._inputs:
            values = arrays[port.name].reshape(len(samples), len(port.low))
            if not (np.all(values >= port.low) and np.all(values <= port.high)):
                self.refuse(arrays, len(samples))
            flat[:, port.numbers] = values
        tag_words(samples, self.axi.words.input)[...] = tags_from(first, len(samples))

    def refuse(self, arrays: Arrays, batch: int) -> None:
        """Raises ValueError, as `pack_inputs` does, where an input is outside its range."""
        for _ in _input_columns(self.design, arrays, batch):
            pass

    def new_outputs(self, batch: int) -> dict[str, npt.NDArray[np.float32]]:
        return {port.name: np.empty((batch, *port.shape), np.float32) for port in self._outputs}

    def take(
        self, text: str, words: Words, first: int
    ) -> tuple[dict[str, npt.NDArray[np.float32]], npt.NDArray[np.bool_]]:
        """Words of the output stream (batch, beats, words of a beat) -> float32 arrays (batch, *shape) by name, and
        which samples have no result: all their words are NaN. first: the first sample's tag. text: the device. Raises
        DeviceError: a result is another sample's, or only some words of a result are NaN."""
        if self.functions is None or not len(words):
            return self._take(text, words, first)
        outputs, empty = self.new_outputs(len(words)), np.empty(len(words), np.bool_)
        to, address = native_words.pointers(list(outputs.values())), words.__array_interface__["data"][0]
        tag = (first & ~COUNT_MASK, first & COUNT_MASK)
        status = self.functions.dynagate_take(to, address, len(words), *tag, empty.__array_interface__["data"][0])
        if status & ~native_words.SOME_NAN:
            self._take(text, words, first)
        return outputs, empty

    def _take(
        self, text: str, words: Words, first: int
    ) -> tuple[dict[str, npt.NDArray[np.float32]], npt.NDArray[np.bool_]]:
        check_tags(text, tags_from(first, len(words)), tag_words(words, self.axi.words.output))
        return self.untagged(text, words)

    def untagged(self, text: str, words: Words) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.bool_]]:
        """`take` in numpy, of words whose tags were looked at."""
        values = _rows(words).view(self._number)[:, : len(self.design.output.fields)]
        nan = np.isnan(values)
        empty = np.asarray(nan.all(axis=1))
        if (torn := nan.any(axis=1) & ~empty).any():
            raise DeviceError(
                f"{text}: some words of result {int(np.argmax(torn))} are NaN; expected all of them or none"
            )
        outputs = {port.name: np.zeros((len(words), *port.shape), np.float32) for port in self._outputs}
        for port in self._outputs:
            outputs[port.name].reshape(len(words), math.prod(port.shape))[:, port.places] = values[:, port.numbers]
        return outputs, empty

    def numbers(self, samples: Words) -> npt.NDArray[np.floating]:
        """The numbers on the input stream, (batch, numbers) from the first on."""
        return _rows(samples).view(self._number)

    def infinite(self, outputs: Arrays) -> npt.NDArray[np.bool_]:
        """Which results, (batch,), have a number that is too large for a float16."""
        if self._number == F32:
            return np.zeros(len(next(iter(outputs.values()))), np.bool_)
        return infinite(outputs)


class FixedWords:
    """Arrays to the packed integers of a design's AXI streams and back, batch after batch: as `FloatWords`, in float64
    and in numpy alone."""

    functions: Any = None

    def __init__(self, design: Streamed, axi: AxiStreams) -> None:
        self.design, self.axi, self.tags = design, axi, Tags()
        self._results = design.packed_output
        self._saturates = bool(getattr(design, "core", {}).get("saturates"))  # a program's: its flags say no more

    def filling(self, values: Sequence[npt.NDArray[Any]]) -> Any:
        return None

    def refuse(self, arrays: Arrays, batch: int) -> None:
        """Nothing is left to refuse: `fill` has looked at every input."""

    def fill(self, arrays: Arrays, samples: Words) -> int:
        """As of `FloatWords`."""
        count, first = self.axi.words.input, self.tags.take(len(samples))
        _rows(samples)[:, :count] = self._packed(arrays, len(samples))[:, :count]
        tag_words(samples, count)[...] = tags_from(first, len(samples))
        return first

    def take(
        self, text: str, words: Words, first: int
    ) -> tuple[dict[str, npt.NDArray[np.float64]], npt.NDArray[np.bool_]]:
        """As of `FloatWords`: results that cannot be used are NaN, but for those of a core that saturates. Raises
        DeviceError: a result is another sample's."""
        check_tags(text, tags_from(first, len(words)), tag_words(words, self.axi.words.output))
        return self.untagged(text, words)

    def untagged(self, text: str, words: Words) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.bool_]]:
        """As of `FloatWords`."""
        rows = _rows(words)[:, : self.axi.words.output]
        columns = self._columns(rows)
        word, bit = divmod(self._results.bits, 32)
        empty = (rows[:, word] >> np.uint32(bit) & np.uint32(1)).astype(bool)
        outputs = _output_arrays(self.design, columns)
        for array in () if self._saturates else outputs.values():
            array[empty] = np.nan
        return outputs, empty

    def _packed(self, arrays: Arrays, batch: int) -> Words:
        """The words of inputs."""
        return pack_inputs(self.design, arrays, batch)

    def _columns(self, rows: Words) -> list[npt.NDArray[Any]]:
        """The values of each field of results."""
        return [
            to_float(integers, field.format)
            for integers, field in zip(unpack_integers(self._results, rows), self._results.fields, strict=True)
        ]


class ProgramFloats(FixedWords):
    """Arrays to the float32 words of a processor's streams and back: as `FixedWords`, for packets that begin with a
    head and end with a flag."""

    def _packed(self, arrays: Arrays, batch: int) -> Words:
        words = np.zeros((batch, self.axi.words.input), np.uint32)
        for index, column in _input_columns(self.design, arrays, batch, self.design.numbers):
            field = self.design.input.fields[index]
            number = FLOAT32 if field.lsb else None  # the head says by an integer which function it is
            words[:, field.lsb // WORD] = words_of_numbers(column, field.format, number)
        return words

    def _columns(self, rows: Words) -> list[npt.NDArray[Any]]:
        return [
            numbers_of_words(np.ascontiguousarray(rows[:, field.lsb // WORD]), field.format, FLOAT32)
            for field in self.design.output.fields
        ]


def words_of_numbers(values: npt.NDArray[np.float64], fmt: Format, number: str | None) -> Words:
    """Numbers as words of a processor's streams: integers of a format, or the type that the streams carry."""
    if number is None:
        return (quantize(values, fmt).value.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)
    return values.astype(np.float32).view(np.uint32)


def numbers_of_words(words: Words, fmt: Format, number: str | None) -> npt.NDArray[np.float64]:
    """The numbers in words, as of `words_of_numbers`."""
    if number is None:
        return to_float(words.view(np.int32).astype(np.int64), fmt)
    return words.view(np.float32).astype(np.float64)


def stream_words(design: Streamed, axi: AxiStreams, *, native: bool = True) -> FloatWords | FixedWords:
    """What a design's AXI streams carry. native: by functions in C where they can be compiled."""
    if axi.word == FIXED:
        return FixedWords(design, axi)
    return ProgramFloats(design, axi) if isinstance(design, ProgramDesign) else FloatWords(design, axi, native=native)


def _rows(words: Words) -> Words:
    """A row of words for each sample; a view."""
    return words.reshape(len(words), words.shape[1] * words.shape[2])


def tag_words(words: Words, after: int) -> Words:
    """The tags in words (batch, beats, words of a beat), which stand after so many others; a view."""
    return _rows(words)[:, after]
