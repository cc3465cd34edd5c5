"""Projects of bitstreams, for the tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from dynagate import Robot, robots
from dynagate.hw import boards
from dynagate.hw.boards import Board
from dynagate.hw.designs import Design
from dynagate.hw.request import DesignRequest
from dynagate.hw.targets.board_fit import BoardFit
from dynagate.hw.targets.project import FLOWS, Project, bitstream_design, write_project

FUNCTION = "forward_dynamics"
VENDOR = [name for name in boards.names() if boards.load(name).flow in FLOWS]
"""Boards whose tools are a vendor's."""
SCRIPTS = {name: "package.tcl" if boards.load(name).flow == "vitis" else "build.tcl" for name in VENDOR}


def designed(board: Board, designs: Path, robot: Robot | None = None) -> tuple[Design, BoardFit]:
    """The two-joint arm's design for a board, or another robot's."""
    request = DesignRequest(robot or robots.load("two_joint_arm"), FUNCTION)
    return bitstream_design(request, board, folder=designs)


@cache
def _design(name: str, designs: Path) -> tuple[Design, BoardFit]:
    return designed(boards.load(name), designs)


def project(name: str, designs: Path, folder: Path) -> Project:
    """The two-joint arm's project for a shipped board."""
    return write_project(*_design(name, designs), folder)


def choice_for(name: str, designs: Path) -> BoardFit:
    """How the interval of `project` was chosen."""
    return _design(name, designs)[1]


def designed_for(name: str, designs: Path) -> Design:
    """The design of `project`."""
    return _design(name, designs)[0]
