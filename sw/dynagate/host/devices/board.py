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
    """A design on a board.

    link: where the board is: "xdma:/dev/xdma0", "pynq:PATH.bit", "xrt:PATH.xclbin" or "uart:/dev/ttyUSB0", and options
    behind it such as ",channel=1,timeout=2"; docs/driver.md lists them.
    """

    name: ClassVar[str] = "board"

    link: str | None = None

    def text(self, folder: Path, progress: Progress) -> LinkText:
        """Return the link of a design's folder, about to be opened. Raise ArgumentError if there is none."""
        if self.link is None:
            raise ArgumentError(f"device '{self.name}' without a link; expected link='xdma:/dev/xdma0' or another")
        text = LinkText.of(self.link, str(folder))
        progress(f"opening {self.link}")
        return text


def open_design(source: DesignSource, options: BoardExecutor, progress: Progress = quiet) -> Executor:
    """Open a pipeline on a board."""
    text, design = options.text(source.folder, progress), source.stored
    return shell_device(design, text.opened(design), shows_progress=progress is not quiet)
