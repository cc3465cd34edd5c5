"""Executor "board": a design on a board, behind a link."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.progress import Progress
from dynagate.host.board_links import LinkText
from dynagate.host.devices.face import Executor
from dynagate.host.devices.options import DESIGN, ROLLOUT_DESIGN, DesignSource, DeviceOptions, taken_for
from dynagate.host.devices.stream import stream_device
from dynagate.host.devices.turns import StreamTurns
from dynagate.host.drivers import ShellDriver
from dynagate.host.ring_drivers import ShellRingDriver


@explained
@dataclass(frozen=True)
class Board(DeviceOptions):
    """A design on a board.

    link: where the board is: "xdma:/dev/xdma0", "pynq:PATH.bit", "xrt:PATH.xclbin" or "uart:/dev/ttyUSB0", and options
    behind it such as ",channel=1,timeout=2"; docs/driver.md lists them.
    """

    name: ClassVar[str] = "board"
    opens: ClassVar[tuple[str, ...]] = (DESIGN, ROLLOUT_DESIGN)

    link: str | None = field(default=None, metadata=taken_for(DESIGN))

    def of_design(self, source: DesignSource, progress: Progress | None = None) -> Executor:
        if self.link is None:
            raise ArgumentError(f"device '{self.name}' without a link; expected link='xdma:/dev/xdma0' or another")
        text, design, shows = LinkText.of(self.link, str(source.folder)), source.kept, progress is not None
        if progress:
            progress(f"opening {self.link}")
        if design.body.ring is None:
            return stream_device(ShellDriver, design, text.opened(design), shows_progress=shows)
        return StreamTurns(design, ShellRingDriver(design, text.opened(design), shows_progress=shows))
