"""Cores of the processor for a board. They are the same for every robot."""

from __future__ import annotations

from dataclasses import dataclass

from dynagate.base.errors import ArgumentError
from dynagate.hw import boards
from dynagate.hw.boards import Board
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.streams import Cores
from dynagate.hw.rtl.axi import Axi


@dataclass(frozen=True, kw_only=True)
class BoardCores(Cores):
    """Cores that a board's bitstream contains."""

    board: Board

    @property
    def title(self) -> str:
        """Return a short description for reports."""
        return f"{self.cores} cores of {self.core.units} units"


def cores_of(board: Board) -> BoardCores:
    """Return the cores that a board's file lists.

    Raises:
        ArgumentError: The file has no cores, or describes cores that cannot be built.
    """
    shape = dict(board.core)
    cores = shape.pop("cores", None)
    if cores is None:
        raise ArgumentError(
            f"board '{board.name}' has no cores; expected a table [core] with cores=... in its file",
            code="DG-BOARD-007",
        )
    unknown = shape.keys() - Core.__dataclass_fields__.keys()
    if unknown:
        raise ArgumentError(
            f"board '{board.name}' has core.{min(unknown)}; expected cores, {', '.join(Core.__dataclass_fields__)}",
            code="DG-BOARD-008",
        )
    core = Core(**shape)
    axi = Axi(board.link.width, board.link.tlast, core.stream_words)
    return BoardCores(core=core, axi=axi, cores=cores, board=board)


def chosen_cores(board: str | Board, units: int | Core | Cores | None, words: str | None) -> BoardCores:
    """Return the cores of a board, its name or the path of its file.

    Args:
        board: The board.
        units: Units that the call chose besides the board; expected None.
        words: Number format of the streams that the call chose; expected the cores' or None.

    Raises:
        ArgumentError: Units or another number format are chosen, or the board has no cores.
        BoardError: There is no such board, or its file has errors.
    """
    if units is not None:
        raise ArgumentError(
            f"units={units!r:.60} with board=...; expected one of them: the board's cores have their units",
            code="DG-BOARD-011",
        )
    cores = cores_of(boards.load(board) if isinstance(board, str) else board)
    if words not in (None, cores.core.stream_words):
        raise ArgumentError(
            f"words={words!r:.40} with board='{cores.board.name}'; expected words='{cores.core.stream_words}', which "
            "its cores have, or neither",
            code="DG-BOARD-012",
        )
    return cores
