"""HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

MAX_ROWS = 60
"""Largest number of rows of a table that a notebook shows."""


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as HTML, given the names of the columns and the rows. Rows after MAX_ROWS are only counted."""
    listed = list(rows)
    names = "".join(f"<th>{escape(str(name))}</th>" for name in head)
    body = ["".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in listed[:MAX_ROWS]]
    lines = "".join(f"<tr>{cells}</tr>" for cells in body)
    rest = f"<p>... and {len(listed) - MAX_ROWS} more</p>" if len(listed) > MAX_ROWS else ""
    return f"<table><thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table>{rest}"


def arrays_table(arrays: Mapping[str, Any]) -> str:
    """Return a table of arrays as HTML: their names, shapes and types, and the values of small ones."""
    rows = []
    for name, array in arrays.items():
        shape, kind = tuple(getattr(array, "shape", ())), getattr(array, "dtype", type(array).__name__)
        size = 1
        for length in shape:
            size *= length
        rows.append((name, shape, kind, str(array) if size <= 8 else ""))
    return html_table(("name", "shape", "type", "value"), rows)
