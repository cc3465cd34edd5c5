"""Make the bitstream of a board: a class for free tools and one for vendors' tools, with the same methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dynagate.base.progress import Progress
from dynagate.hw.boards import FLOWS, Board

if TYPE_CHECKING:
    from dynagate.hw.bodies.pipeline import Pipeline
    from dynagate.hw.designs import Design
    from dynagate.hw.processor.board import BoardCores
    from dynagate.hw.targets.board_fit import BoardFit


class Toolchain(ABC):
    """The tools for a board.

    Args:
        board: The board.
        only_project: Whether to write the vendor's project without running the vendor's tools.
    """

    has_project: ClassVar[bool]
    """Whether a project may be written without running the tools."""

    def __init__(self, board: Board, *, only_project: bool = False) -> None:
        self.board, self.only_project = board, only_project

    @abstractmethod
    def check(self) -> None:
        """Check what can be checked before anything is built.

        Raises:
            ProjectError: The version of a tool is not supported.
        """

    @abstractmethod
    def first_clock(self, megahertz: float | None) -> float | None:
        """Return the clock in MHz that a design is built for; None for the board's own.

        Args:
            megahertz: The requested clock; None if none is.

        Raises:
            ArgumentError: The board cannot make a clock of up to this frequency.
        """

    @abstractmethod
    def make_design(self, built: Design[Pipeline], choice: BoardFit, folder: Path, progress: Progress) -> list[str]:
        """Make the bitstream of a design, or its project.

        Args:
            built: The design.
            choice: How it was chosen for the board.
            folder: Folder of all bitstreams and projects.
            progress: Function that receives a line of text before each slow stage.

        Returns:
            Lines that tell the user what was made.

        Raises:
            ProjectError, SynthesisError: A tool fails.
        """

    @abstractmethod
    def make_cores(self, cores: BoardCores, megahertz: float | None, folder: Path, progress: Progress) -> list[str]:
        """Make the bitstream of a processor's cores, or its project, as `make_design` does.

        Args:
            cores: The cores of the board.
            megahertz: The requested clock; None if none is.
            folder: Folder of all bitstreams and projects.
            progress: Function that receives a line of text before each slow stage.
        """


def toolchain(board: Board, *, only_project: bool = False) -> Toolchain:
    """Return the tools for a board, by its flow."""
    module, _, name = FLOWS[board.flow].toolchain.partition(":")
    tools: Toolchain = getattr(import_module(module), name)(board, only_project=only_project)
    return tools
