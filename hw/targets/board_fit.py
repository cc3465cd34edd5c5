"""Choose the initiation interval of a design on a board: as short as the board's resources and its link allow.

Three limits bound the interval from below. The link carries a limited number of bytes per second. A stream carries one
beat per cycle, and a sample has several beats. The plan needs multiplier blocks, lookup tables and registers, fewer of
them for longer intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dynagate.base.errors import Error
from dynagate.base.untrusted import plain_text
from dynagate.design.words import beats, sample_bytes
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.hw.boards import FLOWS, Board
from dynagate.hw.plan.cost import lookup_tables, shell_tables
from dynagate.hw.plan.plan import Plan, Stages, plan
from dynagate.hw.units.latencies import parts
from dynagate.hw.units.table import products_of

LONGEST = 64
"""Longest interval that is tried, in cycles.

Beyond it, multiplexers take what multipliers save, latency rises, and scheduling takes minutes (docs/boards.md).
"""
TABLES_PER_ESTIMATE = {6: 1.0, 4: 1.5}
"""Lookup tables with this many inputs per table that `hw.plan.cost` estimates.

The factor for 4 inputs is measured on the two-joint arm's gradient at II = 8: Yosys' ECP5 netlist has 4,368 tables (a
CCU2C counts as two, a TRELLIS_DPR16X4 as four), and the estimate is 3,023.
"""


class FitError(Error, ValueError):
    """The design does not fit its board; the text names the resource and an interval that would fit."""


class Bound(NamedTuple):
    """A lower bound of the interval."""

    cycles: float
    """The bound in cycles, not rounded."""
    reason: str
    """Reason as text."""


@dataclass(frozen=True)
class Rates:
    """Modeled samples per second of each part."""

    datapath: float
    """One sample per interval."""
    stream: float
    """Limit by the beats of the longer side of a sample."""
    link: float
    """Limit by the bytes of the longer side of a sample."""

    @property
    def end_to_end(self) -> float:
        """Return the smallest rate, which streaming can reach."""
        return min(self.datapath, self.stream, self.link)

    @property
    def decided_by(self) -> str:
        """Return the part with the smallest rate; among equal ones the link, then the stream."""
        return min(("link", "stream", "datapath"), key=lambda name: getattr(self, name))


@dataclass(frozen=True)
class BoardFit:
    """A plan for a board."""

    board: Board
    plan: Plan
    clock_mhz: float
    """Assumed clock of the datapath in MHz."""
    reason: str
    """Why no shorter interval was chosen."""
    uses: dict[str, int]
    """Estimated use of the board's resources."""

    @property
    def rates(self) -> Rates:
        """Return the modeled rates at the assumed clock."""
        clock, formatted = self.clock_mhz * 1e6, self.plan.formatted
        longest, most = _longest_beats(formatted, self.board), most_bytes(formatted, self.board)
        return Rates(clock / self.plan.ii, clock / longest, self.board.link.limit.bytes_per_second / most)


def rate_text(rate: float) -> str:
    """Return a rate with three digits as text, such as "3.4 thousand"."""
    for unit, factor in ((" million", 1e6), (" thousand", 1e3)):
        if rate >= factor:
            return f"{rate / factor:.3g}{unit}"
    return f"{rate:.3g}"


def uses(planned: Plan, board: Board) -> dict[str, int]:
    """Estimate the board's resources that a plan and its AXI shell take.

    Returns:
        "dsp" in the board's multiplier blocks, "lut", and "ff" (only registers between units).
    """
    limits = planned.schedule.problem.limits
    blocks = {
        name: sum(blocks_of_product(widths[0], widths[1], board) for widths in products_of(unit.kind, unit.key))
        for name, unit in planned.classes.items()
    }
    estimated = lookup_tables(planned).total() + shell_tables(planned, board.link.width).total()
    tables = estimated * TABLES_PER_ESTIMATE[board.resources.lut_inputs]
    return {
        "dsp": sum(limits[name] * count for name, count in blocks.items()),
        "lut": math.ceil(tables),
        "ff": planned.register_bits(),
    }


def blocks_of_product(wide: int, narrow: int, board: Board) -> int:
    """Return the board's multiplier blocks for one product.

    Free tools receive products cut for the board's blocks. Vendors' tools receive products cut for 27 × 18 bits
    (`multiply.parts`), and divide each part again if the board's blocks are smaller.
    """
    block = board.resources.blocks
    if not FLOWS[board.flow].cuts_products:
        return block.blocks(wide, narrow)
    return sum(block.blocks(width_a, width_b) for _, width_a, _, width_b, *_ in parts(wide, narrow))


def fastest_plan(
    formatted: FormattedGraph,
    board: Board,
    *,
    ii: int | None = None,
    clock_mhz: float | None = None,
    stages: Stages | None = None,
    planned: Callable[[int], Plan] | None = None,
) -> BoardFit:
    """Return the plan with the shortest interval that fits a board and does not exceed the rate of its stream and link.

    If every interval exceeds the rate of the link, the interval with the fewest resources is chosen.

    Args:
        formatted: Graph with formats.
        board: The board.
        ii: Interval to use if it fits.
        clock_mhz: Clock in MHz; the board's unless given.
        stages: Register stages in addition to the fewest.
        planned: Function from an interval to a plan, which several boards share.

    Raises:
        FitError: The design does not fit, at this interval or at any.
    """
    clock = clock_mhz or board.clock_mhz

    def candidate(interval: int, reason: str) -> BoardFit:
        own = plan(formatted, interval, stages) if planned is None else planned(interval)
        return BoardFit(board, own, clock, reason, uses(own, board))

    if ii is not None:
        choice = candidate(ii, "asked for")
        if excess := _excess(choice):
            raise FitError(f"{_title(formatted)} at II = {ii} {excess}; {_advice(candidate, ii)}", code="DG-BOARD-009")
        return choice
    bound = max(_bounds(formatted, board, clock))
    shortest = math.ceil(bound.cycles)
    if shortest <= LONGEST:
        whole = "" if shortest == bound.cycles else f", and an interval is a whole number: {shortest}"
        return _smallest(candidate, shortest, bound.reason + whole)
    least = _smallest(candidate, 1, "")
    longer = (candidate(interval, "") for interval in _doubled(least.plan.ii))
    best = min((least, *(choice for choice in longer if not _excess(choice))), key=_share)
    reason = f"{bound.reason}, more than any interval up to {LONGEST}: this one takes least of the board"
    return BoardFit(board, best.plan, clock, reason, best.uses)


def _smallest(candidate: Callable[[int, str], BoardFit], shortest: int, reason: str) -> BoardFit:
    """Return the plan with the shortest interval that fits, from `shortest` up. Raise FitError if none fits."""
    choice = first = candidate(shortest, reason)
    if not _excess(first):
        return first
    below, doubled = first, _doubled(shortest)
    while excess := _excess(choice):
        below = choice
        interval = next(doubled, None)
        if interval is None:
            raise FitError(
                f"{_title(first.plan.formatted)} fits at no interval up to {LONGEST}: at II = {choice.plan.ii} it "
                f"{excess}; expected a larger board, shorter words (--word, --error) or another function",
                code="DG-BOARD-010",
            )
        choice = candidate(interval, "")
    while choice.plan.ii - below.plan.ii > 1:
        middle = candidate((choice.plan.ii + below.plan.ii) // 2, "")
        choice, below = (choice, middle) if _excess(middle) else (middle, below)
    reason = f"II = {below.plan.ii} {_excess(below)}"
    return BoardFit(choice.board, choice.plan, choice.clock_mhz, reason, choice.uses)


def _advice(candidate: Callable[[int, str], BoardFit], interval: int) -> str:
    """Return the interval that fits, as advice for an error."""
    try:
        return f"--ii {_smallest(candidate, interval + 1, '').plan.ii} fits"
    except FitError:
        return f"no interval up to {LONGEST} fits: expected a larger board, shorter words or another function"


def _doubled(interval: int) -> Iterator[int]:
    """Yield the intervals to try above an interval: each twice the one before, LONGEST last."""
    while interval < LONGEST:
        interval = min(2 * interval, LONGEST)
        yield interval


def _share(choice: BoardFit) -> float:
    """Return the share of the allowed amount of the scarcest resource that a plan takes."""
    return max(count / choice.board.allowed(name) for name, count in choice.uses.items())


def _excess(choice: BoardFit) -> str:
    """Return the resource that exceeds the board most, in words, or an empty string."""
    board = choice.board
    kinds = {"dsp": board.resources.multiplier, "lut": "lookup tables", "ff": "flip-flops"}
    name = max(choice.uses, key=lambda name: choice.uses[name] / board.allowed(name))
    count, allowed = choice.uses[name], board.allowed(name)
    if count <= allowed:
        return ""
    total = getattr(board.resources, name)
    return f"takes {count} {kinds[name]}, {board.name} allows {allowed} ({board.share:.0%} of {total})"


def _title(formatted: FormattedGraph) -> str:
    """Return the robot and the function."""
    return f"{plain_text(formatted.graph.robot)} {formatted.graph.name}"


def _sides(formatted: FormattedGraph) -> tuple[int, int]:
    """Return the words of a sample and of a result."""
    return len(formatted.graph.input_nodes), len(formatted.graph.result_nodes)


def _longest_beats(formatted: FormattedGraph, board: Board) -> int:
    """Return the beats of the longer side of a sample."""
    return max(beats(words, board.link.width) for words in _sides(formatted))


def most_bytes(formatted: FormattedGraph, board: Board) -> int:
    """Return the bytes of the longer side of a sample, in whole beats."""
    return max(sample_bytes(words, board.link.width) for words in _sides(formatted))


def _bounds(formatted: FormattedGraph, board: Board, clock_mhz: float) -> tuple[Bound, Bound]:
    """Return the shortest interval that the stream allows and the one that the link allows."""
    longest, most = _longest_beats(formatted, board), most_bytes(formatted, board)
    cycles = most / board.link.limit.bytes_per_second * clock_mhz * 1e6
    side = "input" if _sides(formatted)[0] > _sides(formatted)[1] else "result"
    return (
        Bound(longest, f"the stream of {board.link.width} bits takes {longest} cycles for the {side} of a sample"),
        Bound(cycles, f"the link takes {cycles:.1f} cycles for the {most} bytes of a sample's {side}"),
    )
