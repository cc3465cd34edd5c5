"""Links of a design to a Verilated accelerator behind each stand-in."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dynagate.host import DeviceLink
from dynagate.host.drivers import ShellDriver, ShellSession
from dynagate.host.sim_links import SimShellLink
from dynagate.host.xdma_link import XdmaLink
from dynagate.hw.designs import Design
from dynagate.sim.verilate import shell_library

from tests.standins.board import Board
from tests.standins.pynq_api import Pynq
from tests.standins.xdma import CardSystem, LocalCard, device_files
from tests.standins.xrt import PyXrt


def board(built: Design, timeout: float = 2.0, **options: Any) -> Board:
    return Board(
        SimShellLink(shell_library(built.module("accelerator"), built.module("datapath")), built.design, **options),
        timeout,
    )


def xdma_link(built: Design, board: Board, **options: Any) -> DeviceLink:
    folder = Path(tempfile.mkdtemp())
    return XdmaLink(device_files(folder), built.design, system=CardSystem(LocalCard(board)), **options)


def pynq_link(built: Design, board: Board, **options: Any) -> DeviceLink:
    from dynagate.host.pynq_link import PynqLink

    path = Path(tempfile.mkdtemp()) / "accelerator.bit"
    path.touch()
    with patch.dict(sys.modules, pynq=Pynq(board)):
        return PynqLink(str(path), built.design, **options)


def xrt_link(built: Design, board: Board, **options: Any) -> DeviceLink:
    from dynagate.host.xrt_link import XrtLink

    path = Path(tempfile.mkdtemp()) / "accelerator.xclbin"
    path.touch()
    with patch.dict(sys.modules, pyxrt=PyXrt(board)):
        return XrtLink(str(path), built.design, **options)


STANDINS: dict[str, Callable[..., DeviceLink]] = {"xdma": xdma_link, "pynq": pynq_link, "xrt": xrt_link}


def driver(which: str, built: Design, **options: Any) -> ShellDriver:
    return ShellSession(built.design, STANDINS[which](built, board(built, **options))).driver()
