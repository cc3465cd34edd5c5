"""Modeled rates of programs on the processor cores of each board, from the cycles of their schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress, quiet
from dynagate.base.text_table import Column, table_lines
from dynagate.bench.boards import FUNCTIONS
from dynagate.design.words import WORD
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.fuse import FuseError
from dynagate.graph import trace
from dynagate.graph.region import Region
from dynagate.hw import boards
from dynagate.hw.processor.board import BoardCores, cores_of
from dynagate.hw.processor.compiler.instructions import Instructions, ProgramError, instructions
from dynagate.hw.processor.compiler.schedule import check_program_fits, schedule
from dynagate.hw.processor.compiler.scheduled import OUTPUT_OVERHEAD_CYCLES, ProgramSchedule
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.targets.board_fit import Rates, rate_text
from dynagate.robot import Robot

OVERHEAD = 2
"""Words of a packet in addition to inputs or results: a header or flag, and a tag."""


@dataclass(frozen=True)
class CoreRow:
    """Modeled rates of one function on a board's cores."""

    function: str
    board: str
    cores: int
    """Number of cores."""
    cycles: int
    """Cycles of one sample on one core."""
    clock_mhz: float
    """Assumed clock, MHz."""
    rates: Rates
    """Rates in samples per second: `datapath` for all cores together, `stream` for the words at one per cycle."""


@dataclass(frozen=True)
class NoCore:
    """A function that fits no core of a board."""

    function: str
    board: str
    reason: str
    """Reason in the words of `dynagate build`."""


def core_rows(
    robot: Robot, region: Region, functions: Sequence[str] = FUNCTIONS, progress: Progress = quiet
) -> list[CoreRow | NoCore]:
    """Return the rates of each function as a program for the cores of each board that has cores."""
    return list(_rows(robot, region, functions, progress))


def _rows(robot: Robot, region: Region, functions: Sequence[str], progress: Progress) -> Iterator[CoreRow | NoCore]:
    """Yield the rates of each function on the cores of each board."""
    known: dict[Core, ProgramSchedule] = {}
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
                check_program_fits(known[own.core])
                yield _row(function, own, known[own.core])
            except (ProgramError, FuseError) as error:
                yield NoCore(function, name, str(error))


def _program(formatted: FormattedGraph, core: Core) -> Instructions:
    return instructions(core.fused(formatted))


def _row(function: str, own: BoardCores, scheduled: ProgramSchedule) -> CoreRow:
    """Return the rates of one scheduled program on a board's cores."""
    clock = own.board.clock_mhz * 1e6
    inputs, results = scheduled.inputs + OVERHEAD, sum(map(len, scheduled.outputs)) + OVERHEAD
    sending = max(results + 2 * own.core.units + OUTPUT_OVERHEAD_CYCLES, inputs)
    most = max(inputs, results) * WORD // 8
    rates = Rates(own.cores * clock / scheduled.period, clock / sending, own.board.link.limit.bytes_per_second / most)
    return CoreRow(function, own.board.name, own.cores, scheduled.period, own.board.clock_mhz, rates)


def _decided_by(row: CoreRow) -> str:
    return "cores" if row.rates.decided_by == "datapath" else row.rates.decided_by


COLUMNS: list[Column[CoreRow]] = [
    Column("function", 28, lambda row: row.function, left=True),
    Column("board", 9, lambda row: row.board, left=True),
    Column("cores", 6, lambda row: row.cores),
    Column("cycles", 8, lambda row: row.cycles),
    Column("MHz", 6, lambda row: row.clock_mhz, "g"),
    Column("cores", 15, lambda row: rate_text(row.rates.datapath)),
    Column("stream", 15, lambda row: rate_text(row.rates.stream)),
    Column("link", 15, lambda row: rate_text(row.rates.link)),
    Column("end to end", 15, lambda row: rate_text(row.rates.end_to_end)),
    Column("by", 9, _decided_by, left=True, gap=2),
]
"""Columns of the printed table."""


def core_table(rows: Sequence[CoreRow | NoCore]) -> str:
    """Return a table with a line for each function and board, and the programs that fit no core."""
    return "\n".join(
        [
            "the processor's cores: samples a second of programs, modeled",
            *table_lines(COLUMNS, [row for row in rows if isinstance(row, CoreRow)]),
            *(f"no core of {row.board}: {row.reason}" for row in rows if isinstance(row, NoCore)),
        ]
    )
