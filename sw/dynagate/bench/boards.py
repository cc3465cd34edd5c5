"""Modeled rates of streaming from each board, and the measured cost of the driver on this computer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial

from dynagate.base.progress import Progress, quiet
from dynagate.base.text_table import Column, table_lines
from dynagate.bench.driver import BATCH, DriverCost
from dynagate.design.design import ChosenFormats
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import trace
from dynagate.graph.region import Region
from dynagate.hw import boards
from dynagate.hw.build import design_record
from dynagate.hw.plan.plan import plan
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.targets.board_fit import BoardFit, FitError, fastest_plan, rate_text
from dynagate.robot import Robot

FUNCTIONS = ("inverse_dynamics", "forward_dynamics", "forward_dynamics_gradient")
"""Functions that are modeled by default."""
SHORT_ROUNDS = 30
"""Rounds of the driver's measurement."""


@dataclass(frozen=True)
class BoardRow:
    """Modeled rates of one function on one board, in samples per second (`choice.Rates`)."""

    function: str
    board: str
    ii: int
    """Initiation interval in cycles."""
    latency: int
    """Latency in cycles."""
    clock_mhz: float
    """Assumed clock, MHz."""
    datapath: float
    """Rate of the datapath."""
    stream: float
    """Rate of the stream."""
    link: float
    """Rate of the link."""
    end_to_end: float
    """The smallest of these rates."""
    decided_by: str
    """Name of the smallest rate."""
    driver: DriverCost
    """Cost of the driver, measured on this computer."""


@dataclass(frozen=True)
class RefusedDesign:
    """A function that does not fit a board."""

    function: str
    board: str
    reason: str
    """Reason in the words of `dynagate bitstream`."""


def board_rows(
    robot: Robot, region: Region, functions: Sequence[str] = FUNCTIONS, progress: Progress = quiet
) -> list[BoardRow | RefusedDesign]:
    """Return the rates of each function on each board, at the smallest interval that fits, as `dynagate bitstream`
    chooses it.
    """
    return list(_rows(robot, region, functions, progress))


def _rows(
    robot: Robot, region: Region, functions: Sequence[str], progress: Progress
) -> Iterator[BoardRow | RefusedDesign]:
    """Yield the rates of each function on each board."""
    for function in functions:
        formatted = assign(trace(robot, function), region, Policy())
        planned = cache(partial(plan, formatted))
        for name in boards.names():
            progress(f"the boards: {function} on {name}")
            try:
                yield _row(robot, region, fastest_plan(formatted, boards.load(name), planned=planned))
            except FitError as error:
                yield RefusedDesign(function, name, str(error))


def _row(robot: Robot, region: Region, choice: BoardFit) -> BoardRow:
    """Return the rates of one design on its board."""
    rates = choice.rates
    return BoardRow(
        choice.plan.formatted.graph.name,
        choice.board.name,
        choice.plan.ii,
        choice.plan.latency,
        choice.clock_mhz,
        rates.datapath,
        rates.stream,
        rates.link,
        rates.end_to_end,
        rates.decided_by,
        _driver_cost(robot, region, choice),
    )


def _driver_cost(robot: Robot, region: Region, choice: BoardFit) -> DriverCost:
    """Return the measured cost of the driver for a design."""
    policy, link = Policy(), choice.board.link
    chosen = ChosenFormats(policy.word, policy=asdict(policy))
    options = AlgorithmOptions().as_dict()
    design = design_record(robot, region, choice.plan, chosen, options, Axi(link.width, link.tlast))
    return DriverCost.measured(design, region, rounds=SHORT_ROUNDS)


COLUMNS: list[Column[BoardRow]] = [
    Column("function", 28, lambda row: row.function, left=True),
    Column("board", 9, lambda row: row.board, left=True),
    Column("II", 4, lambda row: row.ii),
    Column("MHz", 5, lambda row: row.clock_mhz, "g"),
    Column("datapath", 15, lambda row: rate_text(row.datapath)),
    Column("stream", 15, lambda row: rate_text(row.stream)),
    Column("link", 15, lambda row: rate_text(row.link)),
    Column("end to end", 15, lambda row: rate_text(row.end_to_end)),
    Column("by", 9, lambda row: row.decided_by, left=True, gap=2),
    Column("driver", 19, lambda row: f"{row.driver.call_ns / 1e3:.1f} µs + {row.driver.sample_ns:.1f} ns"),
]
"""Columns of the printed table."""


def board_table(rows: Sequence[BoardRow | RefusedDesign]) -> str:
    """Return a table with a line for each function and board, the link models, and the designs that do not fit."""
    fitting = [row for row in rows if isinstance(row, BoardRow)]
    refused = [row for row in rows if isinstance(row, RefusedDesign)]
    lines = [
        "boards: samples a second of a stream of batches, modeled (clocks assumed, nothing was measured on a board);",
        f"driver: one core's time here for a call and a sample, measured in batches of {BATCH} on a device of no time",
        *table_lines(COLUMNS, fitting),
    ]
    models = {name: boards.load(name).link.limit.derivation for name in sorted({row.board for row in rows})}
    lines += [f"link of {name}, modeled: {text}" for name, text in models.items()]
    return "\n".join([*lines, *(f"not on {row.board}: {row.reason}" for row in refused)])
