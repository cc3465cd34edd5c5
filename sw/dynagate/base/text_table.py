"""Text tables for a terminal: columns with a heading and a width, and one line for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")
ABSENT = "-"
"""Text of a missing entry."""


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table, and the entry that a row has in it.

    Args:
        head: The heading.
        width: Width in characters, without the gap.
        entry: Function from a row to its entry: a text, a number, or None for no entry.
        format: Format specification of the entries, such as ".1e".
        left: Align the column to the left. The default is the right.
        gap: Blanks before the column.
        group: Heading above the headings of adjacent columns with the same group.
    """

    head: str
    width: int
    entry: Callable[[Row], Any]
    format: str = ""
    left: bool = False
    gap: int = 0
    group: str = ""

    def text(self, row: Row) -> str:
        """Return the text of a row's entry, as wide as the column."""
        entry = self.entry(row)
        return self.placed(ABSENT if entry is None else format(entry, self.format))

    def placed(self, text: str) -> str:
        """Return a text as wide as the column with its gap."""
        return " " * self.gap + (text.ljust(self.width) if self.left else text.rjust(self.width))


def table_lines(columns: Sequence[Column[Row]], rows: Iterable[Row], indent: int = 0) -> list[str]:
    """Return the lines of a table: the headings, and one line for each row.

    Args:
        columns: The columns, from left to right.
        rows: The rows.
        indent: Blanks before each line.
    """
    lines = ["".join(column.placed(column.head) for column in columns)]
    if any(column.group for column in columns):
        lines.insert(0, "".join(_group(list(run)) for _, run in groupby(columns, key=lambda column: column.group)))
    lines += ["".join(column.text(row) for column in columns) for row in rows]
    return [(" " * indent + line).rstrip() for line in lines]


def _group(columns: Sequence[Column[Any]]) -> str:
    """Return the heading of a group, as wide as its columns."""
    first = columns[0]
    width = sum(column.gap + column.width for column in columns) - first.gap
    return Column(first.group, width, str, left=first.left, gap=first.gap).placed(first.group)


def aligned(rows: Sequence[Sequence[str]], gap: int = 2) -> list[str]:
    """Return lines of texts in columns, each as wide as its longest text and aligned to the left.

    Args:
        rows: Texts of each line, as many in every line.
        gap: Blanks between two columns.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [(" " * gap).join(map(str.ljust, row, widths)).rstrip() for row in rows]
