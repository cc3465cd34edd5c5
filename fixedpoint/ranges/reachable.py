"""Bound the values that nodes have for any input that its formats hold, by interval arithmetic over integers.

Hardware relies on these bounds: an operation that never overflows has no overflow bit, and the register of a value has
only the bits that the value uses. The bounds hold for every integer of every input, inside of the region or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from dynagate.fixedpoint.elementary import signed_bits
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.intervals import Interval, point
from dynagate.fixedpoint.operations import FIXED
from dynagate.fixedpoint.operations.row import Unit
from dynagate.fixedpoint.ranges.images import image

MAX_BOXES, MAX_DIVIDED = 1 << 14, 3
"""Largest number of boxes of intervals, and largest number of angles whose ranges are divided at the same time."""
MAX_NODES = 1 << 13
"""Largest number of nodes in all passes over a graph with more angles, one of which is divided in each pass."""
PIECES = 512
"""Pieces of the angle in such a pass."""
ROUNDING = 2.0
"""Largest difference between an integer and the exact result of its operands, in units of the last place."""


class Reachable(NamedTuple):
    """Values that nodes may have for any input that its formats hold."""

    low: tuple[float, ...]
    """Smallest value, by node."""
    high: tuple[float, ...]
    """Largest value, by node."""
    overflows: tuple[bool, ...]
    """Which nodes may overflow."""
    widths: tuple[int, ...]
    """Smallest number of bits, with the sign, that holds all values of a node."""
    exact_widths: tuple[int | None, ...]
    """Smallest number of bits, with the sign, that holds all rounded results of a node before they wrap or saturate;
    None if no number is known."""


def reachable(formatted: FormattedGraph) -> Reachable:
    """Return bounds on each node's values for all inputs that its formats hold.

    A node that may overflow has all values of its format. The ranges of angles are divided into boxes: those of few
    angles at the same time, those of more angles in a pass for each angle. The bounds of all passes hold.

    Args:
        formatted: Graph with formats.
    """
    formats = formatted.formats
    bounds = _Bounds([fmt.limits for fmt in formats])
    for boxes in _divisions(formatted):
        _narrow(formatted, boxes, bounds)
    widths = tuple(
        min(fmt.width, _width(math.ceil(a / fmt.step), math.floor(b / fmt.step)))
        for fmt, a, b in zip(formats, bounds.low, bounds.high, strict=True)
    )
    exact = tuple(
        _width(math.ceil(a / fmt.step), math.floor(b / fmt.step)) if math.isfinite(a) and math.isfinite(b) else None
        for fmt, (a, b) in zip(formats, bounds.exact, strict=True)
    )
    return Reachable(tuple(bounds.low), tuple(bounds.high), tuple(bounds.overflows), widths, exact)


class _Bounds:
    """Bounds of all nodes, which each pass over the graph narrows.

    Args:
        limits: Smallest and largest value that the format of each node holds.
    """

    def __init__(self, limits: Sequence[tuple[float, float]]) -> None:
        self.low, self.high = [low for low, _ in limits], [high for _, high in limits]
        self.overflows = [True] * len(limits)
        self.exact = [(-math.inf, math.inf)] * len(limits)
        """Smallest and largest result before it wraps or saturates, by node."""

    def of(self, node: int) -> Interval:
        """Return the interval of a node's values."""
        return Interval(np.float64(self.low[node]), np.float64(self.high[node]))

    def narrow(self, node: int, values: Interval, limits: tuple[float, float]) -> Interval:
        """Narrow the bounds of a node, and return the intervals (boxes,) of its values.

        Args:
            node: The node.
            values: Intervals (boxes,) of its results before they wrap or saturate.
            limits: Smallest and largest value of its format.
        """
        least, most = limits
        fits = (values.low >= least) & (values.high <= most)
        own = Interval(np.where(fits, values.low, least), np.where(fits, values.high, most)).within(self.of(node))
        self.low[node], self.high[node] = float(np.min(own.low)), float(np.max(own.high))
        low, high = self.exact[node]
        self.exact[node] = max(low, float(np.min(values.low))), min(high, float(np.max(values.high)))
        self.overflows[node] = self.overflows[node] and not (
            self.exact[node][0] >= least and self.exact[node][1] <= most
        )
        return own


def _narrow(formatted: FormattedGraph, boxes: dict[int, Interval], bounds: _Bounds) -> None:
    """Narrow the bounds of all nodes by a pass over the graph.

    Args:
        formatted: Graph with formats.
        boxes: Intervals (boxes,) of divided inputs.
        bounds: Bounds of all nodes.
    """
    nodes = formatted.graph.nodes
    last = {a: i for i, node in enumerate(nodes) for a in node.args}
    ranges: dict[int, Interval] = {}
    for i, node in enumerate(nodes):
        if node.op == "input":
            ranges[i], bounds.overflows[i] = boxes.get(i, bounds.of(i)), False
            continue
        values = _with_rounding(formatted, i, [ranges[a] for a in node.args])
        ranges[i] = bounds.narrow(i, values, formatted.formats[i].limits)
        for a in node.args:
            if last[a] == i:
                ranges.pop(a, None)


def _divisions(formatted: FormattedGraph) -> Iterator[dict[int, Interval]]:
    """Yield the boxes of each pass: intervals of the inputs whose sine or cosine is computed."""
    nodes = formatted.graph.nodes
    operands = {node.args[0] for node in nodes if node.op in ("sin", "cos")}
    angles = sorted(i for i in operands if nodes[i].op == "input")
    if not angles:
        yield {}
    elif len(angles) <= MAX_DIVIDED:
        yield _boxes(formatted, angles, int(MAX_BOXES ** (1.0 / len(angles))))
    else:
        for i in angles[: max(MAX_NODES // len(nodes), 1)]:
            yield _boxes(formatted, [i], PIECES)


def _boxes(formatted: FormattedGraph, angles: Sequence[int], pieces: int) -> dict[int, Interval]:
    """Return the intervals (boxes,) of inputs, whose ranges are divided into equal pieces."""
    number = np.arange(pieces ** len(angles))
    boxes = {}
    for k, i in enumerate(angles):
        ends = np.linspace(*formatted.formats[i].limits, pieces + 1)
        place = number // pieces**k % pieces
        boxes[i] = Interval(ends[place], ends[place + 1])
    return boxes


def _with_rounding(formatted: FormattedGraph, node: int, operands: Sequence[Interval]) -> Interval:
    """Return the interval of a node's integers before they wrap or saturate."""
    to = formatted.formats[node]
    values = _image(formatted, node, operands)
    slack = ROUNDING * to.step
    meaning = FIXED[formatted.graph.nodes[node].op].meaning
    if isinstance(meaning, Unit):
        largest = float(np.minimum(np.max(values.magnitude), to.limits[1]))
        slack += meaning.errs(*formatted.operand_formats(node), to, largest)
    return Interval(values.low - slack, values.high + slack)


def _image(formatted: FormattedGraph, node: int, operands: Sequence[Interval]) -> Interval:
    """Return the interval of a node in real arithmetic, with its constant in fixed point."""
    row = formatted.graph.nodes[node]
    if node not in formatted.constants:
        return image(row, operands)
    value, constant = formatted.constants[node]
    return FIXED[row.op].image(*operands, point(value * constant.step))


def _width(low: int, high: int) -> int:
    """Return the number of bits, with the sign, of the integers from low to high; at least 2."""
    return max(2, signed_bits((low, high)))
