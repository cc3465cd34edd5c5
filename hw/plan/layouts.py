"""Layouts of results on the output stream: which number is in which lane of which beat (plain Python).

Results of several functions, or of a function whose outputs are chosen at run time, have different layouts. Beats are
numbered across all layouts: the first layout has beats 0, 1, ..., and the next layout continues the count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from dynagate.design.words import WORD, beats
from dynagate.graph.packing import chosen_numbers


def choices(outputs: Sequence[Sequence[int]], numbers: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the layout of a result for every choice of outputs.

    Args:
        outputs: Numbers of each output.
        numbers: Numbers of a result with all outputs, in order.

    Returns:
        Entry k holds the numbers of the outputs whose bits are 1 in k + 1.
    """
    every = range(1, 1 << len(outputs))
    return [chosen_numbers([each for k, each in enumerate(outputs) if mask >> k & 1], numbers) for mask in every]


@dataclass(frozen=True)
class LaneColumn:
    """Numbers that the converter of one lane handles."""

    numbers: tuple[int, ...]
    """The numbers, each once."""
    places: tuple[int | None, ...]
    """Index into `numbers` for each beat; None if the lane is empty in that beat."""

    @property
    def filled(self) -> set[int]:
        """Return the beats in which the lane has a number."""
        return {beat for beat, place in enumerate(self.places) if place is not None}

    @property
    def place_is_beat(self) -> bool:
        """Return whether the index of a number equals its beat, so that no table is needed."""
        return all(place in (None, beat) for beat, place in enumerate(self.places))


@dataclass(frozen=True)
class Layouts:
    """Layouts of the results of all functions on one stream."""

    ends: tuple[tuple[tuple[int, ...], ...], ...]
    """For each function and each of its layouts, the numbers of a result in the order of their words."""
    width: int
    """Bits of a beat."""
    lane: int
    """Bits of a number."""

    @property
    def lanes(self) -> int:
        """Return the numbers per beat."""
        return self.width // self.lane

    @cached_property
    def _flat(self) -> list[tuple[int, ...]]:
        return list(chain.from_iterable(self.ends))

    def _words(self, numbers: Sequence[int]) -> int:
        return math.ceil(len(numbers) * self.lane / WORD)

    @property
    def longest(self) -> int:
        """Return the 32-bit words of the longest result, without its tag."""
        return max(map(self._words, self._flat))

    @cached_property
    def _lengths(self) -> list[int]:
        return [beats(self._words(numbers), self.width) for numbers in self._flat]

    @property
    def beats(self) -> int:
        """Return the number of beats of all layouts together."""
        return sum(self._lengths)

    @cached_property
    def _first(self) -> list[int]:
        return [sum(self._lengths[:k]) for k in range(len(self._lengths))]

    @property
    def first_beats(self) -> list[list[int]]:
        """Return the first beat of each layout, by function."""
        first = iter(self._first)
        return [[next(first) for _ in layouts] for layouts in self.ends]

    @property
    def last_beats(self) -> set[int]:
        """Return the last beat of each layout."""
        return {first + length - 1 for first, length in zip(self._first, self._lengths, strict=True)}

    @property
    def tags(self) -> dict[int, set[int]]:
        """Return the beats with a tag, by the word of the beat that holds the tag."""
        tagged: dict[int, set[int]] = {}
        for first, length, numbers in zip(self._first, self._lengths, self._flat, strict=True):
            tagged.setdefault(self._words(numbers) % (self.width // WORD), set()).add(first + length - 1)
        return tagged

    @cached_property
    def columns(self) -> dict[int, LaneColumn]:
        """Return, by lane, the numbers that the lane converts. Lanes without numbers are left out."""
        rows: list[list[int | None]] = []
        for numbers, length in zip(self._flat, self._lengths, strict=True):
            padded = [*numbers, *[None] * (length * self.lanes - len(numbers))]
            rows += [padded[k : k + self.lanes] for k in range(0, len(padded), self.lanes)]
        columns = {}
        for lane in range(self.lanes):
            entries = [row[lane] for row in rows]
            numbers = tuple(dict.fromkeys(entry for entry in entries if entry is not None))
            place = {number: k for k, number in enumerate(numbers)}
            if numbers:
                columns[lane] = LaneColumn(numbers, tuple(None if e is None else place[e] for e in entries))
        return columns
