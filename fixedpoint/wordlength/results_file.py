"""Results of a sweep in a file, a line of JSON for each point, from which an interrupted sweep continues."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from dynagate.base.errors import ArgumentTypeError, Error
from dynagate.base.storage import read_file

Point = TypeVar("Point")
"""A dataclass with fields that are texts, whole numbers and numbers."""
LONGEST_TEXT = 60
"""Longest option, in characters, that a file holds as it is; it holds a digest of longer ones."""


SECONDS = "seconds"
"""Name of the elapsed time in a line of the file."""


class SweepError(Error, ValueError):
    """A results file is damaged or of another sweep; the text names it."""


class SweepCell(NamedTuple):
    """Place of a point in a sweep. Points of one series cost about as much as their neighbors."""

    series: str
    word: int
    """Word length in bits."""


class Timed(NamedTuple, Generic[Point]):
    """A point and what it cost."""

    point: Point
    seconds: float
    """Elapsed time in s."""


@dataclass(frozen=True)
class SweepProgress(Generic[Point]):
    """State of a sweep after a point."""

    points: list[Point]
    """Finished points, in the order of the result."""
    total: int
    """Number of all points."""
    remaining: float | None
    """Estimate of the remaining time, s; None until each series that is missing has a point."""


def timed(measure: Callable[..., Point], *arguments: Any) -> Timed[Point]:
    """Return a point and the elapsed time of its measurement."""
    began = time.perf_counter()
    return Timed(measure(*arguments), time.perf_counter() - began)


def coarse_to_fine(cells: Sequence[SweepCell]) -> list[SweepCell]:
    """Return the cells in the order of their measurement: the shortest and longest word of each series, then halves.

    A sweep that is interrupted then covers the whole range, and costs are interpolated instead of extrapolated.
    """
    series: dict[str, list[SweepCell]] = {}
    for cell in sorted(set(cells), key=lambda cell: cell.word):
        series.setdefault(cell.series, []).append(cell)
    ranks = {cell: rank for own in series.values() for rank, cell in enumerate(_halved(own))}
    return sorted(ranks, key=lambda cell: ranks[cell])


def _halved(cells: Sequence[SweepCell]) -> list[SweepCell]:
    """Return the last cell, the first one, and then the middle of the widest gap each time."""
    last = len(cells) - 1
    taken = [last, 0] if last else [0]
    while len(taken) < len(cells):
        places = sorted(taken)
        low, high = max(pairwise(places), key=lambda gap: gap[1] - gap[0])
        taken.append((low + high) // 2)
    return [cells[k] for k in taken]


def remaining_seconds(costs: Mapping[SweepCell, float], missing: Sequence[SweepCell], lanes: float) -> float | None:
    """Estimate the time that missing cells take, from the measured cost of others.

    Args:
        costs: Elapsed time of each measured cell, s.
        missing: Cells without a point.
        lanes: Number of points that are measured at the same time.

    Returns:
        Elapsed time in s; None if a series has no measured cell. Costs between two measured word lengths are
        interpolated; beyond them, the nearest one counts.
    """
    each = []
    for cell in missing:
        own = sorted((other.word, seconds) for other, seconds in costs.items() if other.series == cell.series)
        if not own:
            return None
        words, seconds = zip(*own, strict=True)
        each.append(float(np.interp(cell.word, words, seconds)))
    return max(sum(each) / max(lanes, 1.0), max(each, default=0.0))


class ResultsFile(Generic[Point]):
    """The points of a sweep, kept in a file as they are measured.

    Args:
        path: The file; None keeps the points in memory only.
        subject: What is swept, with all its options by name. A file of another subject is refused.
        kind: Class of the points.
        cell: Function that returns the cell of a point.

    Raises:
        SweepError: The file is damaged or of another sweep.
    """

    def __init__(
        self, path: Path | None, subject: Mapping[str, object], kind: type[Point], cell: Callable[[Point], SweepCell]
    ) -> None:
        self._path, self._kind, self._cell = path, kind, cell
        self._subject = {name: _recorded(value) for name, value in sorted(subject.items())}
        self._points: dict[SweepCell, Point] = {}
        self._costs: dict[SweepCell, float] = {}
        if path:
            self._read(path)

    def completed(
        self,
        cells: Sequence[SweepCell],
        measured: Callable[[Sequence[SweepCell]], Iterable[Timed[Point]]],
        progress: Callable[[SweepProgress[Point]], Any] | None = None,
        lanes: int = 1,
    ) -> list[Point]:
        """Measure the cells that are missing, add each point to the file at once, and return the points of all cells.

        Args:
            cells: The cells, in the order of the result.
            measured: Function that yields a point for each cell that it receives, in any order.
            progress: Function that receives the state of the sweep before the first point and after each one.
            lanes: Number of points that are measured at the same time.
        """
        began, busy = time.perf_counter(), 0.0

        def report() -> None:
            if progress:
                missing = [cell for cell in cells if cell not in self._points]
                own = max(lanes, busy / max(time.perf_counter() - began, 1e-9))  # a cluster has more
                points = [self._points[cell] for cell in cells if cell in self._points]
                progress(SweepProgress(points, len(cells), remaining_seconds(self._costs, missing, own)))

        report()
        for point, seconds in measured(coarse_to_fine([cell for cell in cells if cell not in self._points])):
            busy += seconds
            self._points[self._cell(point)], self._costs[self._cell(point)] = point, seconds
            if self._path:
                with self._path.open("a") as file:
                    line = {**asdict(point), SECONDS: round(seconds, 4)}  # type: ignore[call-overload]
                    file.write(json.dumps(line) + "\n")
            report()
        return [self._points[cell] for cell in cells]

    def _read(self, path: Path) -> None:
        """Read the points in the file; a new file gets the options. A last line that was cut short is dropped."""
        head = json.dumps({"sweep": self._subject}) + "\n"
        content = read_file(path) if path.exists() else b""
        whole = content.rfind(b"\n") + 1
        if not whole and head.encode().startswith(content):  # a kill may have cut the first line, too
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(head)
            return
        for number, line in enumerate(content[:whole].splitlines() or [content], 1):
            try:
                entry = json.loads(line.decode())
                if number == 1:
                    self._check(path, entry["sweep"])
                    continue
                seconds = entry.pop(SECONDS, 0.0)
                if type(seconds) not in (int, float):
                    raise ArgumentTypeError(f"{SECONDS} is {seconds!r}; expected a number", code="DG-FORMAT-050")
                point = self._point(entry)
            except SweepError:
                raise
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise SweepError(
                    f"{path} is damaged in line {number} ({type(error).__name__}: {error}); delete the line, or move "
                    "it away to begin anew",
                    code="DG-FORMAT-046",
                ) from None
            self._points[self._cell(point)], self._costs[self._cell(point)] = point, float(seconds)
        if whole < len(content):
            os.truncate(path, whole)

    def _check(self, path: Path, there: Mapping[str, Any]) -> None:
        """Raise SweepError if the options of the file are not those of this sweep, and name those that differ."""
        names = sorted({**self._subject, **there})
        changed = [name for name in names if self._subject.get(name) != there.get(name)]
        if changed:
            listed = ", ".join(_difference(name, there.get(name), self._subject.get(name)) for name in changed)
            raise SweepError(
                f"{path} holds another sweep: {listed}. Expected the same options to continue it, or another folder",
                code="DG-FORMAT-045",
            )

    def _point(self, entry: Any) -> Point:
        """Return the point in a line of the file. Raise TypeError if it holds no point."""
        kinds: dict[Any, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float)}
        point = self._kind(**entry)
        for field in fields(point):  # type: ignore[arg-type]
            if type(getattr(point, field.name)) not in kinds[field.type]:
                raise ArgumentTypeError(
                    f"{field.name} is {getattr(point, field.name)!r}; expected {field.type}", code="DG-FORMAT-047"
                )
        return point


def _recorded(value: object) -> object:
    """Return an option as the file holds it."""
    if (
        value is None
        or isinstance(value, bool | int | float)
        or (isinstance(value, str) and len(value) <= LONGEST_TEXT)
    ):
        return value
    return f"#{hashlib.sha256(repr(value).encode()).hexdigest()[:16]}"


def _difference(name: str, there: object, here: object) -> str:
    """Return text on an option that differs."""
    if any(isinstance(value, str) and value.startswith("#") for value in (there, here)):
        return f"another {name}"
    return f"{name} {'left out' if there is None else there} there, {'left out' if here is None else here} here"


def write_csv(points: Sequence[Any], path: Path) -> None:
    """Write the points of a sweep as a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(points[0])])
        writer.writeheader()
        writer.writerows(asdict(point) for point in points)
