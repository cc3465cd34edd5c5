"""Executor "board": a design on a board, behind a link."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.progress import Progress, quiet
from dynagate.host.board_links import LinkText
from dynagate.host.devices.face import Executor
from dynagate.host.devices.options import DeviceOptions
from dynagate.host.devices.sim import shell_device
from dynagate.host.devices.sources import DesignSource


@explained
@dataclass(frozen=True)
class BoardExecutor(DeviceOptions):
    """Options of a design on a board."""

    name: ClassVar[str] = "board"

    link: str | None = None
    """Address of the board: "xdma:/dev/xdma0", "pynq:PATH.bit", "xrt:PATH.xclbin" or "uart:/dev/ttyUSB0", and then
    options such as ",channel=1,timeout=2", which docs/driver.md lists. None if a single board is connected.
    """

    def text(self, folder: Path, progress: Progress) -> LinkText:
        """Return the address of the board, parsed.

        Args:
            folder: Folder of the design.
            progress: Function that receives a line of text before the board is opened.

        Returns:
            The parts of the address.

        Raises:
            ArgumentError: No address is given and none is found, or the address is wrong.
        """
        if self.link is None:
            raise ArgumentError(
                f"device '{self.name}' without a link; expected link='xdma:/dev/xdma0' or another", code="DG-DEVICE-007"
            )
        text = LinkText.of(self.link, str(folder))
        progress(f"opening {self.link}")
        return text


def open_design(source: DesignSource, options: BoardExecutor, progress: Progress = quiet) -> Executor:
    """Open a pipeline on a board.

    Args:
        source: The design.
        options: Options of the board.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The device that computes the functions of the design.
    """
    text, design = options.text(source.folder, progress), source.stored
    return shell_device(design, text.opened(design), shows_progress=progress is not quiet)
