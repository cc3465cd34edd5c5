"""Results of a sweep in a file, a line of JSON for each point, from which an interrupted sweep continues."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

from dynagate.base.errors import ArgumentTypeError, Error
from dynagate.base.storage import read_file

Point = TypeVar("Point")
"""A dataclass with fields that are texts, whole numbers and numbers."""
Cell = TypeVar("Cell", bound=Hashable)


class SweepError(Error, ValueError):
    """A results file is damaged or of another sweep; the text names it."""


class ResultsFile(Generic[Point, Cell]):
    """The points of a sweep, kept in a file as they are measured.

    Args:
        path: The file; None keeps the points in memory only.
        subject: What is swept, with all its options. A file of another subject is refused.
        kind: Class of the points.
        cell: Function that returns the cell of a point, by which it is found again.

    Raises:
        SweepError: The file is damaged or of another sweep.
    """

    def __init__(self, path: Path | None, subject: object, kind: type[Point], cell: Callable[[Point], Cell]) -> None:
        self._path, self._kind, self._cell = path, kind, cell
        self._key = hashlib.sha256(repr(subject).encode()).hexdigest()[:16]
        self._points: dict[Cell, Point] = self._read(path) if path else {}

    def completed(
        self,
        cells: Sequence[Cell],
        measured: Callable[[Sequence[Cell]], Iterable[Point]],
        progress: Callable[[int, int], Any] | None = None,
    ) -> list[Point]:
        """Measure the cells that are missing, add each point to the file at once, and return the points of all cells.

        Args:
            cells: The cells, in the order of the result.
            measured: Function that yields a point for each cell that it receives, in any order.
            progress: Function that receives the number of finished cells and of all cells.
        """
        missing = [cell for cell in cells if cell not in self._points]
        progress = progress or (lambda done, of: None)
        progress(len(cells) - len(missing), len(cells))
        for point in measured(missing):
            self._points[self._cell(point)] = point
            if self._path:
                with self._path.open("a") as file:
                    file.write(json.dumps(asdict(point)) + "\n")  # type: ignore[call-overload]
            progress(sum(cell in self._points for cell in cells), len(cells))
        return [self._points[cell] for cell in cells]

    def _read(self, path: Path) -> dict[Cell, Point]:
        """Return the points in the file; a new file gets its key. A last line that was cut short is dropped."""
        head = json.dumps({"sweep": self._key}) + "\n"
        content = read_file(path) if path.exists() else b""
        whole = content.rfind(b"\n") + 1
        if not whole and head.encode().startswith(content):  # a kill may have cut the first line, too
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(head)
            return {}
        points: dict[Cell, Point] = {}
        for number, line in enumerate(content[:whole].splitlines() or [content], 1):
            try:
                entry = json.loads(line.decode())
                if number == 1:
                    if entry["sweep"] != self._key:
                        raise SweepError(
                            f"{path} holds another sweep; expected this robot, function, region and states",
                            code="DG-FORMAT-045",
                        )
                    continue
                point = self._point(entry)
            except SweepError:
                raise
            except (ValueError, KeyError, TypeError) as error:
                raise SweepError(
                    f"{path} is damaged in line {number} ({type(error).__name__}: {error}); delete the line, or move "
                    "it away to begin anew",
                    code="DG-FORMAT-046",
                ) from None
            points[self._cell(point)] = point
        if whole < len(content):
            os.truncate(path, whole)
        return points

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


def write_csv(points: Sequence[Any], path: Path) -> None:
    """Write the points of a sweep as a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(points[0])])
        writer.writeheader()
        writer.writerows(asdict(point) for point in points)
