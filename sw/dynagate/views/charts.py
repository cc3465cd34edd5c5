"""Charts of a design's page: word lengths of nodes, and errors of outputs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from dynagate.graph.region import KINDS, Kind
from dynagate.views.svg import BLUE, FAINT, GREEN, GRID, ORANGE, RED, Canvas, shortened

WIDE, LEFT, TOP = 700, 130, 26
KIND_COLORS = dict(zip(KINDS, (BLUE, ORANGE, GREEN), strict=True))
"""Color of each kind of states."""


def draw_widths(widths: Sequence[int]) -> str:
    """Return a histogram of word lengths as SVG. `widths` holds the bits of each node, at least one."""
    counts = Counter(widths)
    low, high = min(counts), max(counts)
    bar = min((WIDE - 80) / (high - low + 1), 40.0)
    tall, left = 160, 50
    canvas = Canvas(max(left + (high - low + 1) * bar + 30, 300), tall + 60, "nodes by width")
    most = max(counts.values())
    for part in (0.0, 0.5, 1.0):
        y = TOP + tall * (1 - part)
        canvas.line([(left, y), (left + (high - low + 1) * bar, y)], color=GRID)
        canvas.text(left - 6, y + 4, f"{most * part:g}", size=10, color=FAINT, anchor="end")
    every = math.ceil((high - low + 1) / 24)
    for width in range(low, high + 1):
        x, height = left + (width - low) * bar, tall * counts[width] / most
        hint = f"{counts[width]} nodes of {width} bits"
        canvas.rectangle(x + 1, TOP + tall - height, max(bar - 2, 1), height, fill=BLUE, hint=hint)
        if (width - low) % every == 0:
            canvas.text(x + bar / 2, TOP + tall + 14, str(width), size=10, color=FAINT, anchor="middle")
    canvas.text(left, TOP + tall + 30, "bits", size=11)
    canvas.text(4, 14, "nodes", size=11)
    return canvas.markup()


def draw_errors(errors: Mapping[Kind, Mapping[str, float]], goals: Mapping[str, float]) -> str:
    """Return a chart of errors on a logarithmic axis as SVG.

    Args:
        errors: Errors by kind of states, then by output block.
        goals: Error limit of each output block.
    """
    values = [x for blocks in errors.values() for x in blocks.values() if 0.0 < x < math.inf]
    values += [x for x in goals.values() if x > 0.0]
    low = math.floor(math.log10(min(values, default=1e-3)))
    high = max(math.ceil(math.log10(max(values, default=1.0))), low + 1)
    blocks = list(dict.fromkeys(block for each in errors.values() for block in each))
    row, chart = 14 * len(errors) + 12, WIDE - LEFT - 80
    canvas = Canvas(WIDE, TOP + row * len(blocks) + 50, "error by output block")

    def x_of(value: float) -> float:
        return LEFT + chart * (min(max(math.log10(value), low), high) - low) / (high - low)

    bottom = TOP + row * len(blocks)
    for power in range(low, high + 1):
        canvas.line([(x_of(10.0**power), TOP), (x_of(10.0**power), bottom)], color=GRID)
        canvas.text(x_of(10.0**power), bottom + 14, f"1e{power}", size=10, color=FAINT, anchor="middle")
    for k, block in enumerate(blocks):
        y = TOP + k * row + 6
        canvas.text(LEFT - 8, y + row / 2, shortened(block, 18), anchor="end")
        for n, (kind, by_block) in enumerate(errors.items()):
            error = by_block[block]
            end = x_of(error) if 0.0 < error < math.inf else LEFT + (chart if error else 0)
            hint = f"{block}, {kind}: {error:.1e}"
            canvas.rectangle(LEFT, y + 14 * n, end - LEFT, 11, fill=KIND_COLORS[kind], hint=hint)
            canvas.text(end + 4, y + 14 * n + 10, f"{error:.1e}", size=10)
        if block in goals:
            goal = x_of(goals[block])
            canvas.line([(goal, y - 3), (goal, y + row - 9)], color=RED, width=2)
    x = LEFT
    for kind in errors:
        canvas.rectangle(x, bottom + 26, 12, 12, fill=KIND_COLORS[kind])
        canvas.text(x + 16, bottom + 36, kind, size=11)
        x += 90
    if goals:
        canvas.line([(x, bottom + 26), (x, bottom + 38)], color=RED, width=2)
        canvas.text(x + 6, bottom + 36, "asked for", size=11)
    return canvas.markup()
