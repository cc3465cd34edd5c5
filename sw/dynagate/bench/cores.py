"""What programs would reach on the processor's cores of each board, by the cycles of their schedules: modeled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress, quiet
from dynagate.bench.boards import FUNCTIONS
from dynagate.design.words import WORD
from dynagate.fixedpoint.assign import FormattedGraph, Policy, assign
from dynagate.fixedpoint.fuse import FuseError
from dynagate.graph import trace
from dynagate.graph.region import Region
from dynagate.hw import boards
from dynagate.hw.choice import Rates, rate_text
from dynagate.hw.processor.board import BoardCores, cores_of
from dynagate.hw.processor.compiler.instructions import Instructions, ProgramError, instructions
from dynagate.hw.processor.compiler.schedule import check_fits, schedule
from dynagate.hw.processor.compiler.scheduled import OUTPUT_OVERHEAD_CYCLES, Schedule
from dynagate.hw.processor.isa.shape import Core
from dynagate.robot import Robot

LINE = "{:<28}{:<9}{:>6}{:>8}{:>6}{:>15}{:>15}{:>15}{:>15}  {:<9}"
OVERHEAD = 2
"""Words of a packet besides inputs, or results: a head or a flag, and a tag."""


@dataclass(frozen=True)
class CoreRow:
    """One function on a board's cores. cycles: of a sample on one of them. clock_mhz: assumed. Rates are samples a
    second, modeled, as of a datapath: `datapath` is that of all cores, `stream` that of the words, one a cycle, and
    of what sends them."""

    function: str
    board: str
    cores: int
    cycles: int
    clock_mhz: float
    rates: Rates


@dataclass(frozen=True)
class NotHeld:
    """A function that no core of a board holds. reason: as `dynagate build` says it."""

    function: str
    board: str
    reason: str


def core_rows(
    robot: Robot, region: Region, functions: Sequence[str] = FUNCTIONS, progress: Progress = quiet
) -> list[CoreRow | NotHeld]:
    """Each function of a robot as a program for the cores of each board that has some, in the cores' words."""
    return list(_rows(robot, region, functions, progress))


def _rows(robot: Robot, region: Region, functions: Sequence[str], progress: Progress) -> Iterator[CoreRow | NotHeld]:
    known: dict[Core, Schedule] = {}
    for function in functions:
        formatted: dict[int, FormattedGraph] = {}
        known.clear()
        for name in boards.names():
            try:
                own = cores_of(boards.load(name))
            except ArgumentError:
                continue  # a board without cores
            progress(f"the cores: {function} on {name}")
            word = own.core.word
            if word not in formatted:
                formatted[word] = assign(trace(robot, function), region, Policy(word=word))
            try:
                if own.core not in known:
                    known[own.core] = schedule(_program(formatted[word], own.core), own.core)
                check_fits(known[own.core])
                yield _row(function, own, known[own.core])
            except (ProgramError, FuseError) as error:
                yield NotHeld(function, name, str(error))


def _program(formatted: FormattedGraph, core: Core) -> Instructions:
    return instructions(core.fused(formatted))


def _row(function: str, own: BoardCores, scheduled: Schedule) -> CoreRow:
    clock = own.board.clock_mhz * 1e6
    inputs, results = scheduled.inputs + OVERHEAD, sum(map(len, scheduled.outputs)) + OVERHEAD
    sending = max(results + 2 * own.core.units + OUTPUT_OVERHEAD_CYCLES, inputs)
    most = max(inputs, results) * WORD // 8
    rates = Rates(own.cores * clock / scheduled.period, clock / sending, own.board.link.limit.bytes_per_second / most)
    return CoreRow(function, own.board.name, own.cores, scheduled.period, own.board.clock_mhz, rates)


def core_table(rows: Sequence[CoreRow | NotHeld]) -> str:
    """For the terminal: a line for each function and board, and what no core holds."""
    lines = [
        "the processor's cores: samples a second of programs, modeled likewise",
        LINE.format("function", "board", "cores", "cycles", "MHz", "cores", "stream", "link", "end to end", "by"),
    ]
    for row in (row for row in rows if isinstance(row, CoreRow)):
        rates = row.rates
        texts = map(rate_text, (rates.datapath, rates.stream, rates.link, rates.end_to_end))
        decided = "cores" if rates.decided_by == "datapath" else rates.decided_by
        lines.append(
            LINE.format(row.function, row.board, row.cores, row.cycles, f"{row.clock_mhz:g}", *texts, decided).rstrip()
        )
    return "\n".join([*lines, *(f"no core of {r.board}: {r.reason}" for r in rows if isinstance(r, NotHeld))])
