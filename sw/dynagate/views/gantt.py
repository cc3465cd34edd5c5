"""Gantt chart of a schedule: passes over cycles with the longest chain of operations, and units in use by slot."""

from __future__ import annotations

import math
from collections import Counter

from dynagate.hw.plan.plan import Plan
from dynagate.hw.plan.timeline import OperationChain, Span, chain, pass_spans, units_in_use
from dynagate.views.svg import (
    BLUE,
    FAINT,
    GREEN,
    GRID,
    INK,
    ORANGE,
    PAPER,
    PURPLE,
    RED,
    SKY,
    YELLOW,
    Canvas,
    shortened,
)

LEFT, CHART, ROW, TOP, RIGHT = 150, 800, 24, 44, 60
MOST_COLUMNS = 400
"""Largest number of cells in a row. On a longer axis a cell covers several cycles."""
COLORS = {"reciprocal": RED, "product": BLUE, "sum": GREEN, "sine, cosine": PURPLE, "input": FAINT}
"""Color of each kind of operation; OTHER is for the rest."""
OTHER = YELLOW
"""Color of operations that COLORS does not list."""
LETTERS = 20
"""Largest number of letters in a label."""


def draw_schedule(robot: str, plan: Plan) -> str:
    """Return the schedule as SVG: a row per pass, darker where more operations start, with the longest chain above."""
    rows, longest = pass_spans(plan), chain(plan)
    height = TOP + (len(rows) + 1) * ROW + 50
    title = f"{robot} {plan.formatted.graph.name}: schedule"
    canvas = Canvas(LEFT + CHART + RIGHT, height, title)
    scale = CHART / max(plan.latency, 1)
    bottom = TOP + (len(rows) + 1) * ROW
    _cycle_axis(canvas, plan.latency, scale, bottom)
    _draw_chain(canvas, longest, scale)
    most = max((max(_started(span, plan.latency).values()) for span in rows), default=1)
    for k, span in enumerate(rows, 1):
        _draw_pass(canvas, span, TOP + k * ROW, scale, plan.latency, most)
    _mark_chain(canvas, longest, scale, {span.name: k for k, span in enumerate(rows, 1)})
    for delivery in plan.deliveries:
        x = LEFT + delivery.cycle * scale
        hint = f"{delivery.name}: delivered in cycle {delivery.cycle}"
        canvas.rectangle(x - 1, TOP - 4, 2, bottom - TOP + 4, fill=ORANGE, hint=hint)
    _legend(canvas, longest, bottom + 36)
    return canvas.markup()


def _cycle_axis(canvas: Canvas, cycles: int, scale: float, bottom: float) -> None:
    """Draw the axis of cycles."""
    step = _tick_step(cycles)
    for cycle in range(0, cycles + 1, step):
        x = LEFT + cycle * scale
        canvas.line([(x, TOP), (x, bottom)], color=GRID)
        canvas.text(x, bottom + 14, str(cycle), color=FAINT, size=10, anchor="middle")
    canvas.text(LEFT + CHART + 10, bottom + 14, "cycles", color=FAINT, size=10)


def _tick_step(cycles: int) -> int:
    """Return 1, 2 or 5 times a power of ten that gives 8 to 20 ticks."""
    power = 10 ** max(math.floor(math.log10(max(cycles, 1) / 8)), 0)
    return next(power * factor for factor in (1, 2, 5, 10) if cycles / (power * factor) <= 20)


def _started(span: Span, cycles: int) -> Counter[int]:
    """Return the number of operations that a pass starts in each cell of its row."""
    each = max(math.ceil(cycles / MOST_COLUMNS), 1)
    return Counter(start // each for start in span.starts)


def _draw_pass(canvas: Canvas, span: Span, y: float, scale: float, cycles: int, most: int) -> None:
    """Draw the row of one pass."""
    each = max(math.ceil(cycles / MOST_COLUMNS), 1)
    canvas.text(LEFT - 8, y + 15, shortened(span.name, LETTERS), anchor="end")
    hint = f"{span.name}: cycles {span.first} to {span.last}, {len(span.starts)} operations"
    width = max((span.last - span.first) * scale, 1.0)
    canvas.rectangle(LEFT + span.first * scale, y + 3, width, ROW - 6, fill="#e4f1fa", edge=SKY, hint=hint)
    for cell, count in sorted(_started(span, cycles).items()):
        where = f"cycle {cell}" if each == 1 else f"cycles {cell * each} to {cell * each + each - 1}"
        hint = f"{span.name}, {where}: {count} operations start"
        shade = _shade(count / most)
        canvas.rectangle(
            LEFT + cell * each * scale, y + 3, max(each * scale - 0.5, 0.5), ROW - 6, fill=shade, hint=hint
        )


def _shade(part: float) -> str:
    """Return a color between light and dark blue."""
    low, high = (190, 220, 240), (0, 90, 150)
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _draw_chain(canvas: Canvas, longest: OperationChain, scale: float) -> None:
    """Draw the longest chain of operations."""
    canvas.text(LEFT - 8, TOP + 15, shortened(longest.title, LETTERS + 6), anchor="end", bold=True, size=11)
    for link in longest.links:
        width = max((link.ready - link.start) * scale - 0.5, 0.5)
        hint = f"{link.kind} {link.name}: cycles {link.start} to {link.ready}" + (
            f" after {link.wait} of waiting" if link.wait else ""
        )
        color = COLORS.get(link.kind, OTHER)
        canvas.rectangle(LEFT + link.start * scale, TOP + 3, width, ROW - 6, fill=color, hint=hint)


def _mark_chain(canvas: Canvas, longest: OperationChain, scale: float, rows: dict[str, int]) -> None:
    """Draw a thin bar for each operation of the chain in its pass' row."""
    for link in longest.links:
        if link.scope in rows:
            y = TOP + rows[link.scope] * ROW + ROW - 7
            width = max((link.ready - link.start) * scale - 0.5, 0.5)
            color = COLORS.get(link.kind, OTHER)
            canvas.rectangle(LEFT + link.start * scale, y, width, 4, fill=color, hint=f"{link.kind} {link.name}")


def _legend(canvas: Canvas, longest: OperationChain, y: float) -> None:
    """Draw the legend of the chain's colors."""
    canvas.text(10, 20, f"{longest.title}: " + _sums(longest), size=12)
    x: float = LEFT
    for kind in longest.kinds:
        canvas.rectangle(x, y - 10, 12, 12, fill=COLORS.get(kind, OTHER))
        canvas.text(x + 16, y, kind, size=11, color=INK)
        x += 36 + 7 * len(kind)
    canvas.line([(x + 6, y - 10), (x + 6, y + 2)], color=ORANGE, width=1.5)
    canvas.text(x + 14, y, "results are delivered", size=11)


def _sums(longest: OperationChain) -> str:
    """Return the cycles of the chain by kind of operation, as text."""
    parts = [f"{kind} {longest.cycles(kind)}" for kind in longest.kinds if longest.cycles(kind)]
    return ", ".join([*parts, f"waiting {longest.waiting}"]) + " cycles"


def draw_units(plan: Plan) -> str:
    """Return the use of units as SVG: a row per class of units, with a cell per slot of the initiation interval."""
    rows = units_in_use(plan)
    each = max(math.ceil(plan.ii / MOST_COLUMNS), 1)
    cells = math.ceil(plan.ii / each)
    cell = min(CHART / cells, 48.0)
    canvas = Canvas(LEFT + 90 + CHART + RIGHT, TOP + len(rows) * 34 + 30, "units in use by slot of the interval")
    left = LEFT + 90
    canvas.text(
        10, 20, "units that start an operation, by cycle modulo the interval; a full cell is all units of the class"
    )
    for k, (name, (count, used)) in enumerate(rows.items()):
        y = TOP + k * 34
        canvas.text(left - 8, y + 19, f"{count} × {shortened(name, 30)}", anchor="end", size=11)
        for column in range(cells):
            mean = _mean(used[column * each : (column + 1) * each])
            x, filled = left + column * cell, 26 * mean / count if count else 0.0
            slot = (
                f"slot {column}" if each == 1 else f"slots {column * each} to {min((column + 1) * each, plan.ii) - 1}"
            )
            hint = f"{name}, {slot}: {mean:.3g} of {count}"
            canvas.rectangle(x, y, max(cell - 1, 0.5), 26, fill=PAPER, edge=GRID, hint=hint)
            canvas.rectangle(x, y + 26 - filled, max(cell - 1, 0.5), filled, fill=BLUE, hint=hint)
        share = sum(used) / (count * plan.ii) if count else 0.0
        canvas.text(left + cells * cell + 8, y + 19, f"{share:.0%}", size=11)
    canvas.text(left, TOP + len(rows) * 34 + 16, "0", size=10, color=FAINT)
    canvas.text(left + cells * cell, TOP + len(rows) * 34 + 16, str(plan.ii), size=10, color=FAINT, anchor="end")
    return canvas.markup()


def _mean(counts: list[int]) -> float:
    return sum(counts) / len(counts)
