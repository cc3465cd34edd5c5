"""Stacked bar charts as SVG: groups of bars on one axis, colored parts, and the numbers next to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dynagate.views.svg import FAINT, GRID, Canvas, shortened

Bar = Mapping[str, float]
"""The size of each part of a bar, 0 or more."""

WIDE, LEFT, RIGHT, TOP = 860, 250, 90, 56
ROW, GAP = 17, 16
NOTE = 130
"""Number of characters of a line below the bars."""


def draw_bars(
    title: str,
    groups: Mapping[str, Mapping[str, Bar | str]],
    colors: Mapping[str, str],
    unit: str,
    notes: Sequence[str] = (),
) -> str:
    """Return a stacked bar chart as SVG.

    Args:
        title: Title of the chart.
        groups: Bars by group and label; a text replaces a bar that is missing.
        colors: Color of each part, in the order in which parts are stacked.
        unit: Unit of the axis.
        notes: Lines below the chart.
    """
    bars = [bar for group in groups.values() for bar in group.values() if not isinstance(bar, str)]
    most = max((sum(bar.values()) for bar in bars), default=1.0) or 1.0
    written = [line for note in notes for line in _lines(note)]
    rows = sum(ROW * len(group) + GAP + (ROW if name else 0) for name, group in groups.items())
    canvas = Canvas(WIDE, TOP + rows + 26 + 14 * len(written), title)
    canvas.text(12, 20, title, bold=True, size=14)
    _legend(canvas, colors)
    per_unit = (WIDE - LEFT - RIGHT) / most
    for value in ticks(most):
        x = LEFT + value * per_unit
        canvas.line([(x, TOP), (x, TOP + rows - GAP + 4)], color=GRID)
        canvas.text(x, TOP + rows + 4, f"{value:g}", size=10, color=FAINT, anchor="middle")
    canvas.text(WIDE - RIGHT + 24, TOP + rows + 4, unit, size=10, color=FAINT)
    y = TOP
    for name, group in groups.items():
        if name:
            canvas.text(12, y + 12, name, bold=True)
            y += ROW
        for label, bar in group.items():
            canvas.text(LEFT - 8, y + 12, shortened(label, 36), anchor="end", size=11)
            _draw(canvas, y, label, bar, colors, per_unit, unit)
            y += ROW
        y += GAP
    for k, line in enumerate(written):
        canvas.text(12, TOP + rows + 24 + 14 * k, line, size=10, color=FAINT)
    return canvas.markup()


def _draw(
    canvas: Canvas, y: float, label: str, bar: Bar | str, colors: Mapping[str, str], per_unit: float, unit: str
) -> None:
    """Draw one bar with its label and sum."""
    if isinstance(bar, str):
        canvas.text(LEFT + 4, y + 12, shortened(bar, 90), size=10, color=FAINT)
        return
    x = float(LEFT)
    for part, color in colors.items():
        width = bar.get(part, 0.0) * per_unit
        if width > 0.0:
            canvas.rectangle(x, y + 2, width, ROW - 4, fill=color, hint=f"{label}, {part}: {bar[part]:.3g} {unit}")
        x += width
    canvas.text(x + 4, y + 12, f"{sum(bar.values()):.3g}", size=10)


def _legend(canvas: Canvas, colors: Mapping[str, str]) -> None:
    """Draw the legend of the parts' colors."""
    x = LEFT
    for part, color in colors.items():
        canvas.rectangle(x, 32, 12, 12, fill=color)
        canvas.text(x + 16, 42, part, size=11)
        x += 36 + 7 * len(part)


def ticks(most: float) -> list[float]:
    """Return four to ten round numbers from 0 to `most`."""
    raw = most / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= raw)
    return [step * k for k in range(math.floor(most / step + 1e-9) + 1)]


def _lines(note: str) -> list[str]:
    """Split a note into lines of at most NOTE characters."""
    lines = [""]
    for word in note.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) + 1 > NOTE:
            lines.append(word)
        else:
            lines[-1] += (" " if lines[-1] else "") + word
    return lines
