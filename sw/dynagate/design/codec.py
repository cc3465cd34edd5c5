"""Convert between numbers and the 32-bit words of a stream.

Only this module knows at which bit of a stream a number is. The host, the benches and the simulations take a `Codec`
from the record of a design: `Stream.codec` for the payload of a bare datapath, `Design.wire` for the words of the AXI
streams. `design.native_codec` generates C for the same slots.

Words and numbers have any leading axes; the last axis has the words, or the numbers, of a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.design.words import WORD
from dynagate.fixedpoint.format import Format, quantize, to_float

Words = npt.NDArray[np.uint32]
Bits = npt.NDArray[np.unsignedinteger[Any]]
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class NumberSlot:
    """The place of a number in a sample."""

    bit: int
    """The lowest bit, counted from the first word of the sample."""
    format: Format
    """Format of the integer; for an IEEE number, the format to which the hardware converts it."""
    number: str | None = None
    """"float32" if the bits are an IEEE number; None if they are an integer."""
    fill: int = 0
    """Bits that the number occupies, filled with the sign above the integer; 0 for exactly the number's bits."""

    @property
    def bits(self) -> int:
        """Bits that the number occupies."""
        return self.fill or (self.format.width if self.number is None else WORD)


@dataclass(frozen=True)
class Codec:
    """The numbers of one side of a stream, each in a slot of its own."""

    slots: tuple[NumberSlot, ...]
    words: int
    """Number of words of a sample, without its tag."""
    flag: NumberSlot | None = None
    """Slot behind a result of an integer whose lowest bit is 1 if the result cannot be used."""

    def moved(self, words: Sequence[int]) -> Codec:
        """Return the codec with each slot this many words later: the slots of a later step of a loop."""
        pairs = zip(self.slots, words, strict=True)
        return replace(self, slots=tuple(replace(slot, bit=slot.bit + WORD * more) for slot, more in pairs))

    def zeros(self, *leading: int) -> Words:
        """Return words for samples, (*leading, words)."""
        return np.zeros((*leading, self.words), np.uint32)

    # bits

    def put_bits(self, words: Words, bits: Bits | Ints, which: Sequence[int]) -> None:
        """Write the bits of numbers, (..., len(which)), into words that are 0 there.

        Args:
            words: Words of samples, (..., words or more).
            bits: The lowest bits of each value are written, as many as its slot has.
            which: Indices of the slots.
        """
        place = self._aligned(tuple(which))
        if place is not None:
            dtype, at = place
            words.view(dtype)[..., at] = bits.astype(dtype)
            return
        for k, index in enumerate(which):
            slot = self.slots[index]
            word, offset = divmod(slot.bit, WORD)
            low = bits[..., k].astype(np.uint64) & np.uint64((1 << slot.bits) - 1)
            low <<= np.uint64(offset)
            words[..., word] |= (low & np.uint64(0xFFFFFFFF)).astype(np.uint32)
            if offset + slot.bits > WORD:
                words[..., word + 1] |= (low >> np.uint64(WORD)).astype(np.uint32)

    def bits(self, words: Words, which: Sequence[int]) -> Bits:
        """Return the bits of numbers, (..., len(which)), as unsigned integers."""
        place = self._aligned(tuple(which))
        if place is not None:
            dtype, at = place
            return np.ascontiguousarray(words).view(dtype)[..., at]
        numbers = np.zeros((*words.shape[:-1], len(which)), np.uint64)
        for k, index in enumerate(which):
            slot = self.slots[index]
            word, offset = divmod(slot.bit, WORD)
            pair = words[..., word].astype(np.uint64)
            if offset + slot.bits > WORD:
                pair |= words[..., word + 1].astype(np.uint64) << np.uint64(WORD)
            numbers[..., k] = pair >> np.uint64(offset) & np.uint64((1 << slot.bits) - 1)
        return numbers

    def _aligned(self, which: tuple[int, ...]) -> tuple[Any, Any] | None:
        """Return the unsigned type and the places of slots that all have 16 or all have 32 bits, at multiples of those.
        None if there are others."""
        slots = [self.slots[index] for index in which]
        sizes = {slot.bits for slot in slots}
        if len(sizes) != 1 or not sizes <= {16, 32}:
            return None
        (size,) = sizes
        if any(slot.bit % size for slot in slots):
            return None
        return np.dtype(f"uint{size}"), _as_slice([slot.bit // size for slot in slots])

    # integers

    def put_integers(self, words: Words, integers: Numbers, which: Sequence[int] | None = None) -> None:
        """Write integers of the slots' formats, (..., numbers), into words that are 0 there.

        Args:
            words: The words.
            integers: The integers.
            which: Slots to write, as in `put_bits`; None for all.
        """
        self.put_bits(words, integers.astype(np.int64).view(np.uint64), self._which(which))

    def integers(self, words: Words, which: Sequence[int] | None = None) -> Ints:
        """Return the integers, (..., numbers)."""
        which = self._which(which)
        bits = self.bits(words, which).astype(np.int64)
        widths = np.array([self.slots[index].format.width for index in which], np.int64)
        sign = np.int64(1) << (widths - 1)
        return np.asarray(((bits & ((sign << 1) - 1)) ^ sign) - sign)

    def from_columns(self, columns: Sequence[Numbers]) -> Words:
        """Return words with these integers, (samples,) for each slot from the first on."""
        words = self.zeros(len(columns[0]))
        self.put_integers(words, np.stack(columns, axis=-1), range(len(columns)))
        return words

    # numbers

    def put(self, words: Words, values: Numbers, which: Sequence[int] | None = None) -> None:
        """Write numbers (..., numbers), rounded to the slots' formats, into words that are 0 there.

        Args:
            words: The words.
            values: The numbers.
            which: Slots to write, as in `put_bits`; None for all.

        Raises:
            ArgumentError: A number that becomes an integer is NaN.
        """
        which = self._which(which)
        number = self._number(which)
        if number is not None:
            own = np.ascontiguousarray(values.astype(number))
            self.put_bits(words, own.view(np.uint32), which)
            return
        for k, index in enumerate(which):
            slot = self.slots[index]
            column = values[..., k : k + 1]
            if slot.number is None:
                self.put_integers(words, quantize(column, slot.format).value, [index])
            else:
                self.put(words, column, [index])

    def values(self, words: Words, which: Sequence[int] | None = None) -> Numbers:
        """Return the numbers, (..., numbers), in their own type if all slots have the same one, else in float64."""
        which = self._which(which)
        number = self._number(which)
        if number is not None:
            return np.ascontiguousarray(self.bits(words, which)).view(number)
        numbers = np.zeros((*words.shape[:-1], len(which)))
        for k, index in enumerate(which):
            slot = self.slots[index]
            one = self.integers(words, [index]) if slot.number is None else self.values(words, [index])
            numbers[..., k] = to_float(one[..., 0], slot.format) if slot.number is None else one[..., 0]
        return numbers

    def _which(self, which: Sequence[int] | None) -> Sequence[int]:
        return range(len(self.slots)) if which is None else which

    def _number(self, which: Sequence[int]) -> str | None:
        """Return the IEEE type of all these slots; None if some are integers or of another type."""
        types = {self.slots[index].number for index in which}
        return types.pop() if len(types) == 1 else None

    # the flag behind a result

    def put_flags(self, words: Words, flags: npt.ArrayLike) -> None:
        """Write the flag of each result, an integer (...); its lowest bit is 1 if the result cannot be used."""
        self._flags.put_integers(words, np.asarray(flags)[..., None])

    def flags(self, words: Words) -> Ints:
        """Return the bits of each flag, (...)."""
        return self._flags.bits(words, [0])[..., 0].astype(np.int64)

    @cached_property
    def _flags(self) -> Codec:
        assert self.flag is not None, "results without a flag"
        return Codec((self.flag,), self.words)


def _as_slice(places: list[int]) -> slice | list[int]:
    """Return a slice if the places follow each other."""
    first = places[0] if places else 0
    last = first + len(places)
    return slice(first, last) if places == list(range(first, last)) else places


def put_row_bits(words: Words, low: int, bits: npt.NDArray[np.bool_]) -> None:
    """Write single bits (rows, bits) into words (rows, words) that are 0 there, starting at bit `low`."""
    for k, column in enumerate(bits.T):
        word, offset = divmod(low + k, WORD)
        words[:, word] |= column.astype(np.uint32) << np.uint32(offset)


def row_bits(words: Words, bits: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return single bits of words (rows, words), (rows, bits)."""
    places = [divmod(bit, WORD) for bit in bits]
    flags = np.zeros((len(words), len(places)), np.bool_)
    for k, (word, offset) in enumerate(places):
        flags[:, k] = words[:, word] >> np.uint32(offset) & np.uint32(1)
    return flags
