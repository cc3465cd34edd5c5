"""Makes a failing case smaller: entries are dropped and numbers made simpler as long as it fails.

A case is JSON whose entries may nearly all be left out, and a run of it takes a second; so this needs no knowledge of
robots or loops, and far fewer runs than a search over the choices of a generator would.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

Case = dict[str, Any]
Path = tuple[Any, ...]


def shrunk(case: Case, fails: Callable[[Case], bool], seconds: float) -> Case:
    """The smallest case that was found in this time, the case itself at worst."""
    end = time.monotonic() + seconds
    best, smaller = case, True
    while smaller:
        smaller = False
        for path in list(_paths(best)):
            for candidate in _changes(best, path):
                if time.monotonic() > end:
                    return best
                if fails(candidate):
                    best, smaller = candidate, True
                    break
    return best


def _paths(case: Case) -> Iterator[Path]:
    """All places in a case: those near the root first, as there is most to drop; in a list the last one first, so that
    dropping one does not move those that are still to come."""
    level: list[tuple[Path, Any]] = [((), case)]
    while level:
        below: list[tuple[Path, Any]] = []
        for path, value in level:
            pairs: list[tuple[Any, Any]] = []
            if isinstance(value, dict):
                pairs = list(value.items())
            elif isinstance(value, list):
                pairs = list(enumerate(value))[::-1]
            below += [((*path, key), each) for key, each in pairs]
        yield from (path for path, _ in below)
        level = below


def _changes(case: Case, path: Path) -> Iterator[Case]:
    """The case with the entry at a place dropped, or with a simpler number there."""
    try:
        value = _at(case, path)
    except (KeyError, IndexError):
        return  # dropped with what held it
    if path == ("kind",):
        return
    holder = _at(case, path[:-1])
    if not isinstance(holder, list) or not all(isinstance(x, int | float) for x in holder):  # no vector
        candidate = copy.deepcopy(case)
        del _at(candidate, path[:-1])[path[-1]]
        yield candidate
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    simpler = [0, 1, value // 2] if isinstance(value, int) else [0.0, 1.0, float(f"{value:.1g}")]
    for number in simpler:
        if abs(number) < abs(value) or (number and abs(number - value) < 0.5 * abs(value) and number != value):
            candidate = copy.deepcopy(case)
            _at(candidate, path[:-1])[path[-1]] = number
            yield candidate


def _at(case: Case, path: Path) -> Any:
    value: Any = case
    for key in path:
        value = value[key]
    return value
