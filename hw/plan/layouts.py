"""Which number of a result is in which lane of which beat (plain Python).

Results of several functions, or of one whose outputs are chosen, have different layouts. Their beats are counted
through: the first layout has beats 0, 1, ..., the next one those after it.
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
    """The numbers of a result with some outputs: entry k has those of the outputs whose bits in k + 1 are 1. outputs:
    the numbers of each. numbers: of a result with all outputs, in order."""
    every = range(1, 1 << len(outputs))
    return [chosen_numbers([each for k, each in enumerate(outputs) if mask >> k & 1], numbers) for mask in every]


@dataclass(frozen=True)
class LaneColumn:
    """The numbers that a lane converts: each once, and per beat the place of its number among them."""

    numbers: tuple[int, ...]
    places: tuple[int | None, ...]

    @property
    def filled(self) -> set[int]:
        """Beats that have a number here."""
        return {beat for beat, place in enumerate(self.places) if place is not None}

    @property
    def place_is_beat(self) -> bool:
        return all(place in (None, beat) for beat, place in enumerate(self.places))


@dataclass(frozen=True)
class Layouts:
    """ends: for each function, the numbers of its results in the order of their words, in each of the layouts that they
    may have. width: bits of a beat. lane: bits of a number."""

    ends: tuple[tuple[tuple[int, ...], ...], ...]
    width: int
    lane: int

    @property
    def lanes(self) -> int:
        return self.width // self.lane

    @cached_property
    def _flat(self) -> list[tuple[int, ...]]:
        return list(chain.from_iterable(self.ends))

    def _words(self, numbers: Sequence[int]) -> int:
        return math.ceil(len(numbers) * self.lane / WORD)

    @property
    def longest(self) -> int:
        """Words of the longest result, without its tag."""
        return max(map(self._words, self._flat))

    @cached_property
    def _lengths(self) -> list[int]:
        return [beats(self._words(numbers), self.width) for numbers in self._flat]

    @property
    def beats(self) -> int:
        return sum(self._lengths)

    @cached_property
    def _first(self) -> list[int]:
        return [sum(self._lengths[:k]) for k in range(len(self._lengths))]

    @property
    def first_beats(self) -> list[list[int]]:
        """Return the first beats of the layouts of each function."""
        first = iter(self._first)
        return [[next(first) for _ in layouts] for layouts in self.ends]

    @property
    def last_beats(self) -> set[int]:
        return {first + length - 1 for first, length in zip(self._first, self._lengths, strict=True)}

    @property
    def tags(self) -> dict[int, set[int]]:
        """The beats that have the tag in this word of theirs."""
        tagged: dict[int, set[int]] = {}
        for first, length, numbers in zip(self._first, self._lengths, self._flat, strict=True):
            tagged.setdefault(self._words(numbers) % (self.width // WORD), set()).add(first + length - 1)
        return tagged

    @cached_property
    def columns(self) -> dict[int, LaneColumn]:
        """The lanes that have numbers."""
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
