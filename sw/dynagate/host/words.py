"""Arrays to the words of a design's streams and back, with checks of ranges, tags and flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.design import native_codec
from dynagate.design.codec import Words, row_bits
from dynagate.design.design import AxiStreams, DesignRecord, Field, Stream, StreamPort
from dynagate.design.words import FIXED
from dynagate.fixedpoint.format import carried
from dynagate.fixedpoint.models.evaluate import EXACT, infinite
from dynagate.graph.packing import ZERO
from dynagate.host.inputs import Arrays, as_streamed
from dynagate.host.links import DeviceError
from dynagate.host.tags import COUNT_MASK, Tags, check_tags, tags_from
from dynagate.native.compile import CompileError

F64, F32 = np.dtype(np.float64), np.dtype(np.float32)
Flags = npt.NDArray[np.bool_]


def pack_inputs(design: DesignRecord, arrays: Arrays, batch: int, numbers: Mapping[str, str] = EXACT) -> Words:
    """Return the payloads of inputs.

    Args:
        design: Design whose datapath is streamed without a shell.
        arrays: Array of each input, (batch, *shape).
        batch: Number of samples.
        numbers: Type that the streams of a shell would round each input to, by name.

    Returns:
        The payloads, (batch, words).

    Raises:
        EntryError: An input is outside the range that its format was chosen for.
    """
    words = design.input.codec.zeros(batch)
    values = checked_values(design, design.input.ports, arrays, batch, numbers)
    design.input.codec.put(words, values, fields_of(design.input.ports))
    return words


def checked_values(
    design: DesignRecord, ports: Sequence[StreamPort], arrays: Arrays, batch: int, numbers: Mapping[str, str]
) -> npt.NDArray[np.float64]:
    """Return the numbers of inputs as a stream rounds them.

    Args:
        design: Design whose datapath is streamed.
        ports: The inputs.
        arrays: Array of each input, (batch, *shape).
        batch: Number of samples.
        numbers: Type that the streams of a shell would round each input to, by name.

    Returns:
        The numbers, (batch, numbers).

    Raises:
        EntryError: An input is outside the range that its format was chosen for.
    """
    columns = []
    for port in ports:
        flat = arrays[port.name].astype(np.float64).reshape(batch, len(port.fields))
        for k, index in enumerate(port.fields):
            field = design.input.fields[index]
            columns.append(as_streamed(port, k, flat[:, k], field.range, field.format, numbers.get(port.name)))
    return np.stack(columns, axis=1) if columns else np.zeros((batch, 0))


def fields_of(ports: Sequence[StreamPort]) -> list[int]:
    """Return the fields of several ports.

    Args:
        ports: The ports.

    Returns:
        Indices of the fields, in order.
    """
    return [index for port in ports for index in port.fields]


def unpack_outputs(
    design: DesignRecord, words: Words, numbers: Mapping[str, str] = EXACT
) -> tuple[dict[str, npt.NDArray[Any]], Flags]:
    """Return the results in payloads.

    Args:
        design: Design whose datapath is streamed without a shell.
        words: Payloads (batch, words).
        numbers: Type that the streams of a shell would round each output to, by name.

    Returns:
        float64 arrays (batch, *shape) by name, and which samples overflowed, (batch,).
    """
    exact = _output_arrays(design.output, design.output.codec.values(words), F64)
    outputs = {name: carried(value, numbers.get(name)) for name, value in exact.items()}
    return outputs, infinite(outputs) | row_bits(words, design.output.overflow_bits).any(axis=1)


def _output_arrays(stream: Stream, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> dict[str, npt.NDArray[Any]]:
    """Return arrays (batch, *shape) by name from the numbers of results, (batch, fields). Entries without a field are
    zero."""
    outputs = {}
    for port in stream.ports:
        flat = np.zeros((len(values), len(port.fields)), dtype)
        places = [k for k, index in enumerate(port.fields) if index != ZERO]
        flat[:, places] = values[:, [port.fields[k] for k in places]]
        outputs[port.name] = flat.reshape(len(values), *port.shape)
    return outputs


@dataclass(frozen=True)
class _Range:
    """Values that the entries of an input may have: the range that their formats were chosen for, and one rounding step
    more.
    """

    name: str
    """Name of the input."""
    low: npt.NDArray[np.float64]
    """Lowest values, (entries,)."""
    high: npt.NDArray[np.float64]
    """Highest values, (entries,)."""

    @classmethod
    def of(cls, port: StreamPort, fields: Sequence[Field]) -> _Range:
        own = [fields[k] for k in port.fields]
        low = np.array([field.range[0] - field.format.step for field in own])
        return cls(port.name, low, np.array([field.range[1] + field.format.step for field in own]))

    def holds(self, arrays: Arrays, batch: int) -> bool:
        """Return whether an array of the input lies inside."""
        values = arrays[self.name].reshape(batch, len(self.low))
        return bool(np.all(values >= self.low) and np.all(values <= self.high))


class StreamWords:
    """Arrays to the words of a design's AXI streams and back, batch after batch.

    Streams of float32 numbers are converted in C. They are converted in numpy if there is no compiler, if arrays are
    neither float64 nor float32, or if an error must name a number. All other streams are converted in numpy.
    """

    def __init__(self, design: DesignRecord, axi: AxiStreams, tags: Tags | None = None, *, native: bool = True) -> None:
        """Prepare the conversion.

        Args:
            design: Record that describes the streams.
            axi: Streams of the shell.
            tags: Tags of the device; by default new ones.
            native: Use compiled C if there is a compiler.
        """
        self.design, self.axi, self.tags = design, axi, Tags() if tags is None else tags
        self._ports = [port for port in design.input.ports if port.name not in axi.parameters]
        self._fields = fields_of(self._ports)
        self._ranges = [_Range.of(port, design.input.fields) for port in self._ports]
        self._native = native
        self.device_rounds = axi.word != FIXED and design.wire.output.flag is None
        """Whether the device rounds the inputs to their formats, and so finds those that do not fit."""
        self._numbers = EXACT if self.device_rounds else design.numbers
        self._dtype = F32 if self.device_rounds else F64

    @cached_property
    def functions(self) -> Any:
        """The functions in C, or None."""
        if not (self._native and native_codec.has_source(self.design, self.axi)):
            return None
        try:
            return native_codec.functions(self.design, self.axi)
        except CompileError:
            return None

    def fill(self, arrays: Arrays, samples: Words) -> int:
        """Write inputs and tags into the words of samples.

        Args:
            arrays: Array of each input, (batch, *shape).
            samples: Words of the input stream, (batch, beats, words of a beat). The rest of the last beat stays as it
                is.

        Returns:
            The tag of the first sample. The others follow.

        Raises:
            EntryError: An input is outside the range that its format was chosen for.
        """
        values = [arrays[port.name] for port in self._ports]
        function = self.filling(values)
        if function is None:
            rows, count = self._filled(arrays, len(samples)), self.axi.words.input
            first = self.tags.take(len(samples))
            _rows(samples)[:, :count] = rows
            tag_words(samples, count)[...] = tags_from(first, len(samples))
            return first
        first = self.tags.take(len(samples))
        address = samples.__array_interface__["data"][0]
        tag = (first & ~COUNT_MASK, first & COUNT_MASK)
        if function(native_codec.pointers(values), address, len(samples), *tag):
            self.refuse(arrays, len(samples))
        return first

    def filling(self, values: Sequence[npt.NDArray[Any]]) -> Any:
        """Return the C function that packs samples directly from arrays.

        Args:
            values: Arrays of the inputs, in order.

        Returns:
            The function; None without a C compiler, or if it cannot read one of the arrays.
        """
        dtypes = {array.dtype for array in values}
        if len(dtypes) != 1 or self.functions is None or not all(array.flags.c_contiguous for array in values):
            return None
        kinds = {F64: self.functions.dynagate_fill_f64, F32: self.functions.dynagate_fill_f32}
        return kinds.get(dtypes.pop())

    def _filled(self, arrays: Arrays, batch: int) -> Words:
        """Return the words of inputs, (batch, words)."""
        codec = self.design.wire.input
        words = codec.zeros(batch)
        if self.device_rounds:
            if not all(each.holds(arrays, batch) for each in self._ranges):
                self.refuse(arrays, batch)
            columns = [arrays[port.name].reshape(batch, len(port.fields)) for port in self._ports]
            values = np.concatenate(columns, axis=1)
        else:
            values = checked_values(self.design, self._ports, arrays, batch, self._numbers)
        with np.errstate(over="ignore"):
            codec.put(words, values, self._fields)
        return words

    def refuse(self, arrays: Arrays, batch: int) -> None:
        """Check inputs as `pack_inputs` does.

        Args:
            arrays: Array of each input, (batch, *shape).
            batch: Number of samples.

        Raises:
            EntryError: An input is outside its range.
        """
        if self.device_rounds:
            checked_values(self.design, self.design.input.ports, arrays, batch, EXACT)

    def new_outputs(self, batch: int) -> dict[str, npt.NDArray[np.float32]]:
        """Return arrays for results.

        Args:
            batch: Number of samples.

        Returns:
            Arrays (batch, *shape) by name.
        """
        return {port.name: np.empty((batch, *port.shape), np.float32) for port in self.design.output.ports}

    def take(self, text: str, words: Words, first: int) -> tuple[dict[str, npt.NDArray[Any]], Flags]:
        """Return the results in words of the output stream, and which cannot be used.

        Args:
            text: The device, for errors.
            words: Words of the output stream, (batch, beats, words of a beat).
            first: Tag of the first sample.

        Returns:
            Arrays (batch, *shape) by name, and flags (batch,). Results that cannot be used are NaN, unless the device
            is a core that saturates.

        Raises:
            DeviceError: A result is another sample's, or only some words of a result are NaN.
        """
        if self.functions is None or not len(words):
            return self._take(text, words, first)
        outputs, empty = self.new_outputs(len(words)), np.empty(len(words), np.bool_)
        to, address = native_codec.pointers(list(outputs.values())), words.__array_interface__["data"][0]
        tag = (first & ~COUNT_MASK, first & COUNT_MASK)
        status = self.functions.dynagate_take(to, address, len(words), *tag, empty.__array_interface__["data"][0])
        if status & ~native_codec.SOME_NAN:
            self._take(text, words, first)
        return outputs, empty

    def _take(self, text: str, words: Words, first: int) -> tuple[dict[str, npt.NDArray[Any]], Flags]:
        check_tags(text, tags_from(first, len(words)), tag_words(words, self.axi.words.output))
        return self.untagged(text, words)

    def untagged(self, text: str, words: Words) -> tuple[dict[str, npt.NDArray[Any]], Flags]:
        """Return what `take` returns, in numpy, for words whose tags were checked.

        Args:
            text: Description of the device, for errors.
            words: Words of the results.

        Returns:
            Arrays (batch, *shape) by name, and which samples overflowed, (batch,).
        """
        codec, rows = self.design.wire.output, _rows(words)[:, : self.axi.words.output]
        values = codec.values(rows)
        if codec.flag is None:
            nan = np.isnan(values)
            empty = np.asarray(nan.all(axis=1))
            if (torn := nan.any(axis=1) & ~empty).any():
                raise DeviceError(
                    f"{text}: some words of result {int(np.argmax(torn))} are NaN; expected all of them or none",
                    code="DG-DEVICE-068",
                )
            return _output_arrays(self.design.output, values, self._dtype), empty
        outputs = _output_arrays(self.design.output, values, self._dtype)
        empty = np.asarray(codec.flags(rows) & 1, np.bool_)
        for array in () if self.design.saturates else outputs.values():
            array[empty] = np.nan
        return outputs, empty

    def numbers(self, samples: Words) -> npt.NDArray[Any]:
        """Return the numbers in samples of the input stream.

        Args:
            samples: Words (batch, beats, words of a beat).

        Returns:
            The numbers, (batch, numbers).
        """
        return self.design.wire.input.values(_rows(samples))


def _rows(words: Words) -> Words:
    """A row of words for each sample; a view."""
    return words.reshape(len(words), words.shape[1] * words.shape[2])


def tag_words(words: Words, after: int) -> Words:
    """Return a view of the tags in samples or results.

    Args:
        words: Words (batch, beats, words of a beat).
        after: Number of words in front of the tag.

    Returns:
        The tags, (batch,).
    """
    return _rows(words)[:, after]
