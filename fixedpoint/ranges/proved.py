"""Prove ranges and errors: bounds that hold for every state of a region.

The range of a node is its interval over the region's box. The bound of its error adds up the errors of its operands and
its own rounding. Both hold for every state; usually no state reaches them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from dynagate.base.arguments import UNIT
from dynagate.base.arrays import Floats
from dynagate.dynamics import CODE, ROLLOUT
from dynagate.fixedpoint.format import FLOOR, Arithmetic, Format
from dynagate.fixedpoint.intervals import Interval, IntervalWithError, ProofError, outward, point
from dynagate.fixedpoint.operations import FIXED, Formula, Unit
from dynagate.fixedpoint.ranges.images import images
from dynagate.fixedpoint.ranges.pivots import pivot_ranges
from dynagate.fixedpoint.ranges.sampled import input_bounds
from dynagate.fixedpoint.ranges.unit_vectors import unit_ranges
from dynagate.graph import OPS, Graph
from dynagate.graph.certificate import FUNCTIONS as CERTIFIED
from dynagate.graph.graph import Node
from dynagate.graph.ops import TRIG
from dynagate.graph.region import Region

if TYPE_CHECKING:
    from dynagate.fixedpoint.formatted import FormattedGraph

PIECES = 64
"""Number of pieces into which an angle is split: sine and cosine are then bounded together on each piece."""

PRICE = 0.05
"""Time of one core in ms to bound the range and the error of a node over PIECES boxes, for budgets."""

ABOVE = 1.0 + 2.0**-47
"""Factor that makes an error bound larger than the sum of a dozen positive terms, each rounded in float64."""

STREAMED = {"float32": (24, 150, 2.0**128)}
"""Rounding (a, b, limit) of a stream's number type: at most 2**-a of the number, or 2**-b; numbers from the limit on
are lost.
"""


@dataclass(frozen=True)
class ProvedRanges:
    """Ranges of all nodes of a graph over a region."""

    graph: Graph
    region: Region
    intervals: tuple[Interval, ...]
    """Interval of each node in real arithmetic."""
    numbers: Mapping[str, str]
    """Type that streams round each port to, by name."""

    @cached_property
    def largest(self) -> Floats:
        """Return the largest magnitude of each node, (nodes,)."""
        return np.array([float(interval.magnitude) for interval in self.intervals])

    @property
    def reach(self) -> Floats:
        """Return the magnitude that formats must hold: the largest, since proved ranges need no guard."""
        return self.largest

    def rounded(self, graph: Graph, arithmetic: Arithmetic) -> ErrorBounds:
        """Return the error bounds, to be filled in the order of the graph."""
        return ErrorBounds(self, arithmetic, self.intervals)


def proved_ranges(
    graph: Graph, region: Region, milliseconds: float, numbers: Mapping[str, str] | None = None
) -> ProvedRanges:
    """Prove the range of every node over all states of a region.

    Args:
        graph: The graph.
        region: Operating region.
        milliseconds: Effort for splitting the box, in ms of one core at a fixed price per node. A request gives the
            same ranges on every machine.
        numbers: Type that streams round each port to, by name.

    Raises:
        ProofError: The region does not bound an input, or a divisor may be zero.
    """
    if graph.name == ROLLOUT:
        raise ProofError(
            'proved ranges of a rollout; expected ranges="sampled" (without --proved): its states return as inputs and '
            "may leave the region",
            code="DG-PROOF-001",
        )
    known: Mapping[int, Interval] = unit_ranges(graph) | pivot_ranges(graph, region.robot)
    for boxes in _splittings(graph, input_box(graph, region), milliseconds):
        with np.errstate(all="ignore"):  # infinite ranges raise an error below
            values = images(graph, boxes, known)
        _check_bounded(graph, region, values)
        known = dict(enumerate(_hull(value) for value in values))
    return ProvedRanges(graph, region, tuple(known[i] for i in range(len(graph))), numbers or {})


def _hull(value: Interval) -> Interval:
    """Return the smallest interval that contains all boxes."""
    return Interval(np.float64(np.min(value.low)), np.float64(np.max(value.high)))


def _splittings(graph: Graph, box: Mapping[int, Interval], milliseconds: float) -> Iterator[dict[int, Interval]]:
    """Yield the box, then the box with one input after the other split, as long as the effort allows.

    Split inputs are angles and numbers that are squared.
    """
    yield dict(box)
    bent = [i for i in graph.input_nodes if any(_is_bent(graph.nodes[u]) for u in graph.users[i])]
    for i in bent[: int(milliseconds / (PRICE * len(graph)))]:
        ends = np.linspace(box[i].low, box[i].high, PIECES + 1)
        yield {**box, i: Interval(ends[:-1], ends[1:])}


def _is_bent(node: Node) -> bool:
    """Return whether an operation is a sine, a cosine or a square."""
    return node.op in TRIG or (node.op == "mul" and node.args[0] == node.args[1])


def input_box(graph: Graph, region: Region) -> dict[int, Interval]:
    """Return the intervals of the inputs, by node."""
    bounds = input_bounds(graph, region, np.full(len(graph), np.inf))
    unit = {port.nodes[k] for port in graph.inputs for span in port.unit_vectors for k in range(*span)}
    return {
        i: Interval(np.float64(low), np.float64(high)) if i not in unit else outward(low - UNIT, high + UNIT)
        for i, (low, high) in bounds.items()
    }


def _check_bounded(graph: Graph, region: Region, values: Sequence[Interval]) -> None:
    """Raise ProofError if a divisor may be zero, the region does not bound an input, or a number is too large."""
    for i, node in enumerate(graph.nodes):
        if FIXED[node.op].positive and not np.all(values[a := node.args[0]].low > 0.0):
            low, high = _hull(values[a])
            raise ProofError(
                f"node '{node.name}'{_joint(graph, region, i)} of {graph.name} is the {node.op} of "
                f"'{graph.nodes[a].name}', which lies between {low:.3g} and {high:.3g} by intervals and is not proved "
                f"to be positive; expected {_instead(graph)}, or a function that does not divide, such as "
                "inverse_dynamics",
                code="DG-PROOF-002",
            )
    joints = [link.joint.name for link in region.robot.links for _ in range(link.joint.nv)]
    for i, node in enumerate(graph.nodes):
        if np.isfinite(values[i].low).all() and np.isfinite(values[i].high).all():
            continue
        if node.op != "input":
            raise ProofError(
                f"node '{node.name}'{_joint(graph, region, i)} of {graph.name} has no finite interval; expected "
                "smaller limits",
                code="DG-PROOF-003",
            )
        port = next(port for port in graph.inputs if i in port.nodes)
        names = f" of joints {', '.join(map(repr, dict.fromkeys(joints)))}" if port.shape == (len(joints),) else ""
        raise ProofError(
            f"{graph.name}: the region has no limits for input '{port.name}'{names}, so no range is proved; expected a "
            'region that limits it (acceleration= for qdd, effort= for tau), or ranges="sampled" (without --proved)',
            code="DG-PROOF-004",
        )


def _instead(graph: Graph) -> str:
    """Return the option to suggest when a function cannot be proved."""
    certified = ", perhaps with certificate=True (--certificate)" if graph.name in CERTIFIED else ""
    return f'ranges="sampled" (without --proved){certified}'


def _joint(graph: Graph, region: Region, node: int) -> str:
    """Return the joint of the link in a node's name, for errors."""
    for place in graph.scope_paths[node]:
        number = place.removeprefix("link")
        if place != number and number.isdigit() and int(number) < len(region.robot.links):
            return f" (joint '{region.robot.links[int(number)].joint.name}')"
    return ""


class ErrorBounds:
    """Error bounds of all nodes, computed one node after the other in the order of the graph.

    Args:
        proved: Proved ranges of the graph.
        arithmetic: Rounding of the graph.
        ranges: Interval of each node; endpoints are numbers or (boxes,).
        known: Further bounds of the errors.
    """

    margin = 1.0
    """Factor by which formats exceed the deviation; proved bounds need none."""

    def __init__(
        self,
        proved: ProvedRanges,
        arithmetic: Arithmetic,
        ranges: Sequence[Interval],
        known: Sequence[float] | None = None,
    ) -> None:
        graph, numbers = proved.graph, proved.numbers
        self._graph, self._region, self._arithmetic = graph, proved.region, arithmetic
        self._ranges, self._known = ranges, known
        self._numbers = {i: numbers[port.name] for port in graph.inputs if port.name in numbers for i in port.nodes}
        self._codes = {i for port in graph.inputs if port.name == CODE.name for i in port.nodes}
        self._formats: list[Format] = []
        self._constant: float | None = None
        self.carried: list[Any] = []
        self.errors: list[Any] = []

    def deviation(self, i: int, constant: float | None) -> float:
        """Return the largest difference between node i, computed exactly from rounded operands, and its real value.

        Args:
            i: Node.
            constant: Its constant as it is stored.

        Raises:
            ProofError: Rounding may make an operand zero that must be positive.
        """
        node = self._graph.nodes[i]
        operands = [IntervalWithError(self._ranges[a], self.errors[a]) for a in node.args]
        if constant is not None and node.constant is not None:
            operands.append(IntervalWithError(point(node.constant), abs(constant - node.constant)))
        error = FIXED[node.op].error(*operands)
        if not np.all(np.isfinite(error)):
            self._refuse(i)
        if node.op == "input":
            error = _streamed(self._ranges[i].magnitude, self._numbers.get(i))
        self._constant = constant
        self.carried.append(error * ABOVE)
        return float(np.max(error)) * ABOVE

    def round(self, i: int, to: Format) -> None:
        """Set the format of node i, which must be the node of the last call of `deviation`."""
        error = (self.carried[i] + self._rounding(i, to)) * ABOVE
        self.errors.append(error if self._known is None else np.minimum(error, self._known[i]))
        self._formats.append(to)

    def _refuse(self, i: int) -> NoReturn:
        """Raise ProofError for an operand that rounding may make zero."""
        graph, node = self._graph, self._graph.nodes[i]
        a = node.args[0]
        error, least = float(np.max(self.errors[a])), float(np.min(self._ranges[a].low))
        more = math.ceil(math.log2(error) - math.log2(least)) + 1
        raise ProofError(
            f"node '{node.name}'{_joint(graph, self._region, i)} of {graph.name}: its operand '{graph.nodes[a].name}' "
            f"errs by up to {error:.3g} and is proved to be {least:.3g} or more, so it may be zero when rounded; "
            f"expected {self._formats[a].width + max(more, 1)} bits or more, or {_instead(graph)}",
            code="DG-PROOF-005",
        )

    def _rounding(self, i: int, to: Format) -> Any:
        """Return the largest change by node i's rounding, its unit, and the rounding of a constant term."""
        node = self._graph.nodes[i]
        meaning = FIXED[node.op].meaning
        kind = OPS[node.op].constant
        if node.op == "input":
            if i in self._codes:
                return 0.0
            beyond = self._ranges[i].magnitude + self.carried[i] - to.limits[1]  # inputs saturate
            return np.maximum(to.step / 2.0, beyond)
        if kind == "exponent":
            return 0.0
        sources = [self._formats[a] for a in node.args]
        if isinstance(meaning, Unit):
            return meaning.errs(*sources, to, self._ranges[i].magnitude + self.carried[i])
        term = 0.0
        if kind in ("term", "value"):
            held = float(self._constant or 0.0)
            term = abs(math.floor(math.ldexp(held, to.frac) + 0.5) * to.step - held)
            sources.append(Format(to.width, to.frac))
        elif kind == "factor":
            sources.append(Format(to.width, Fraction(self._constant or 0.0).denominator.bit_length() - 1))
        if meaning.exact(sources).frac <= to.frac:
            return term
        return term + (to.step if self._arithmetic.rounding == FLOOR else to.step / 2.0)


def _streamed(magnitude: Any, number: str | None) -> Any:
    """Return the largest change when a number is rounded to a stream's type."""
    if number is None:
        return 0.0
    relative, absolute, _ = STREAMED[number]
    return np.maximum(magnitude * 2.0**-relative, 2.0**-absolute)


@dataclass(frozen=True)
class Proof:
    """Bounds that hold for every state of a region. No node overflows."""

    graph: Graph
    low: Floats
    """Smallest value of each node in real arithmetic, (nodes,)."""
    high: Floats
    """Largest value of each node in real arithmetic, (nodes,)."""
    error: Floats
    """Largest difference between those values and the integers, (nodes,), with rounding on streams."""

    def largest(self, name: str) -> float:
        """Return the largest magnitude of an entry of an output."""
        nodes = list(self._nodes(name))
        return float(np.maximum(np.abs(self.low), np.abs(self.high))[nodes].max())

    def error_of(self, name: str) -> float:
        """Return the largest error of an entry of an output."""
        return float(self.error[list(self._nodes(name))].max())

    def streamed(self, numbers: Mapping[str, str]) -> Proof:
        """Return the bounds with outputs rounded to the types of their streams."""
        errors = self.error.copy()
        sizes = np.maximum(np.abs(self.low), np.abs(self.high)) + self.error
        for port in self.graph.outputs:
            nodes = list(dict.fromkeys(port.nodes))
            more = _streamed(sizes[nodes], numbers.get(port.name))
            errors[nodes] = np.maximum(errors[nodes], (self.error[nodes] + more) * ABOVE)
        return replace(self, error=errors)

    def _nodes(self, name: str) -> tuple[int, ...]:
        """Return the nodes of an output."""
        return next(port.nodes for port in self.graph.outputs if port.name == name)


def error_bounds(formatted: FormattedGraph, ranges: ProvedRanges, milliseconds: float) -> tuple[Floats, Floats]:
    """Return error bounds of all nodes before and after their rounding, over proved ranges in which no node overflows.

    Args:
        formatted: Graph with formats.
        ranges: Proved ranges.
        milliseconds: Effort, as in `proved_ranges`.

    Raises:
        ProofError: A divisor may round to zero.
    """
    graph, known = formatted.graph, dict(enumerate(ranges.intervals))
    carried = errors = np.full(len(graph), np.inf)
    for boxes in _splittings(graph, input_box(graph, ranges.region), milliseconds):
        bounds = ErrorBounds(ranges, formatted.arithmetic, images(graph, boxes, known), errors.tolist())
        for i, fmt in enumerate(formatted.formats):
            value, held = formatted.constants.get(i, (0, None))
            bounds.deviation(i, None if held is None else value * held.step)
            bounds.round(i, fmt)
        carried = np.minimum(carried, [np.max(x) for x in bounds.carried])
        errors = np.minimum(errors, [np.max(x) for x in bounds.errors])
    return carried, errors


def prove(
    formatted: FormattedGraph, region: Region, milliseconds: float, numbers: Mapping[str, str] | None = None
) -> Proof:
    """Prove ranges and errors for all states of a region, for given formats.

    Args:
        formatted: Graph with formats.
        region: Operating region.
        milliseconds: Effort for ranges and for errors, as in `proved_ranges`.
        numbers: Type that streams round each input and output to, by name.

    Raises:
        ProofError: A range cannot be proved, a node may overflow, or the error of an output exceeds its values.
    """
    graph = formatted.graph
    ranges = proved_ranges(graph, region, milliseconds, numbers)
    carried, errors = error_bounds(formatted, ranges, milliseconds)
    for i in range(len(graph)):
        _check_fits(formatted, region, ranges.intervals, carried, errors, i)
    low, high = (np.array([float(end) for end in ends]) for ends in zip(*ranges.intervals, strict=True))
    proof = Proof(graph, low, high, errors)
    for port in graph.outputs:
        _check_output(formatted, proof, port.name, ranges.numbers.get(port.name))
    return proof.streamed(ranges.numbers)


def _check_fits(
    formatted: FormattedGraph,
    region: Region,
    ranges: Sequence[Interval],
    carried: Floats,
    errors: Floats,
    i: int,
) -> None:
    """Raise ProofError if node i may overflow.

    Args:
        formatted: Graph with formats.
        region: Operating region, which names joints in the error.
        ranges: Range of each node in real arithmetic.
        carried: Error bound of each node before its rounding.
        errors: Error bound of each node after its rounding.
        i: The node.
    """
    graph, fmt, node = formatted.graph, formatted.formats[i], formatted.graph.nodes[i]
    where = f"node '{node.name}'{_joint(graph, region, i)} of {graph.name}"
    if OPS[node.op].constant == "exponent":
        return  # the same bits as its operand
    is_rounded = isinstance(FIXED[node.op].meaning, Formula)
    beyond = float(carried[i]) if is_rounded else float(errors[i])
    low, high = float(ranges[i].low) - beyond, float(ranges[i].high) + beyond
    half = 0.5 if is_rounded else 0.0
    if node.op == "input":  # saturates
        low, high = low + fmt.step, high - fmt.step
    top, bottom = math.floor(math.ldexp(high, fmt.frac) + half), math.floor(math.ldexp(low, fmt.frac) + half)
    if top > fmt.highest or bottom < fmt.lowest:
        more = max(top.bit_length(), (-bottom).bit_length()) + 1 - fmt.width
        raise ProofError(
            f"{where} goes from {low:.3g} to {high:.3g} in the region, rounding included, and its format {fmt} holds "
            f"{fmt.limits[0]:.3g} to {fmt.limits[1]:.3g}; expected {fmt.width + max(more, 1)} bits with {fmt.frac} of "
            "them behind the point",
            code="DG-PROOF-006",
        )


def _check_output(formatted: FormattedGraph, proof: Proof, name: str, number: str | None) -> None:
    """Raise ProofError if the error of an output exceeds its values, or a stream cannot carry it."""
    largest, error = proof.largest(name), proof.error_of(name)
    if error >= largest > 0.0:
        widest = max(fmt.width for fmt in formatted.formats)
        raise ProofError(
            f"output '{name}' of {proof.graph.name}: the proved error, {error:.3g}, is no less than its largest value, "
            f"{largest:.3g}; expected {widest + math.ceil(math.log2(error) - math.log2(largest)) + 1} bits or more",
            code="DG-PROOF-007",
        )
    if number is not None and largest + error >= STREAMED[number][2]:
        raise ProofError(
            f"output '{name}' of {proof.graph.name} reaches {largest:.3g}, more than {number} on the streams holds; "
            "expected words float32 or fixed",
            code="DG-PROOF-008",
        )
