"""A Zynq board with pynq: the overlay's AXI DMA in simple mode moves the streams, MMIO reaches the registers.

The board's own Python has pynq (the extra `board` installs it elsewhere). pynq.remote reaches a board from another
machine: set PYNQ_REMOTE_DEVICES to its address. A DMA transfer sets TLAST on its last beat, and one out of the device
ends with TLAST: a packet is a transfer.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from pathlib import Path
from typing import Any

from dynagate.base.errors import MissingExtraError
from dynagate.design.design import DesignRecord
from dynagate.host.dma import PACKET_BYTES, DmaLink, TimedOut
from dynagate.host.links import DeviceError
from dynagate.hw.rtl.regmap import BITS, REGISTERS

DMA_ENGINE = "xilinx.com:ip:axi_dma:7.1"
ALL_ONES = (1 << BITS) - 1
RESET, RESET_S = 1 << 2, 0.1
"""Bit of the control register that resets the DMA engine, and how long that takes at most."""
SPIN_S = 0.0005
"""A transfer is looked at without a pause for so long, which most take less than; then every so often."""


class PynqLink(DmaLink):
    """Link to an accelerator in the programmable logic of a Zynq board that runs PYNQ.

    Args:
        path: Path of the bitstream. Its .hwh file must be in the same folder.
        design: Record of the design.
        dma: Name of the AXI DMA block in the overlay.
        accelerator: Name of the accelerator block in the overlay.
        timeout: As of `DmaLink`.
        overlay: Overlay that is loaded already; None to load it.

    Raises:
        MissingExtraError: The package pynq is not installed.
        DeviceError: There is no board, bitstream or block of that name, or another process has the bitstream open.
        DesignError, ArgumentError: As `DmaLink` raises them.
    """

    def __init__(
        self,
        path: str,
        design: DesignRecord,
        *,
        dma: str = "axi_dma_0",
        accelerator: str = "accelerator_0",
        timeout: float = 10.0,
        overlay: Any = None,
    ) -> None:
        self._pynq = _pynq()
        self._lock = None if overlay is not None else _locked(path)
        try:
            overlay = self._loaded(path) if overlay is None else overlay
            self._dma, row = _engine(overlay, dma, path), _row(overlay, accelerator, path)
            most = int(self._dma.buffer_max_size)
            super().__init__(path, design, timeout=timeout, packet_bytes=min(PACKET_BYTES, most))
            device = overlay.device
            self._registers = self._pynq.MMIO(row["phys_addr"], 4 * len(REGISTERS), device=device)
            size = self._largest * max(self._in_bytes, self._out_bytes)
            self._buffers = [self._pynq.allocate((size,), dtype="u1", target=device) for _ in range(2)]
        except BaseException:
            self._unlock()
            raise

    def _loaded(self, path: str) -> Any:
        try:
            return self._pynq.Overlay(path)
        except Exception as error:  # whatever pynq's devices raise
            raise DeviceError(
                f"{path} cannot be loaded: {error}; expected a board that runs pynq", code="DG-LINK-031"
            ) from None

    def _send(self, data: memoryview) -> int:
        buffer, channel = self._buffers[0], self._dma.sendchannel
        buffer[: len(data)] = data
        self._move(channel, buffer, len(data))
        return len(data)

    def _receive(self, data: memoryview) -> int:
        buffer, channel = self._buffers[1], self._dma.recvchannel
        self._move(channel, buffer, len(data))
        count = int(channel.transferred)
        data[:count] = memoryview(buffer[:count].tobytes())
        return count

    def _move(self, channel: Any, buffer: Any, count: int) -> None:
        """Raises TimedOut, and leaves the channel ready for another transfer."""
        try:
            channel.transfer(buffer, nbytes=count)
            begin = time.monotonic()
            while not (channel.idle or channel.error):
                waited = time.monotonic() - begin
                if waited > self.timeout or self.closed:
                    self._reset_engine()
                    raise TimedOut(f"a transfer of {count} bytes did not end in {self.timeout:g} s", code="DG-LINK-032")
                if waited > SPIN_S:
                    time.sleep(SPIN_S)
            channel.wait()
        except (RuntimeError, ValueError) as error:  # pynq's
            raise DeviceError(f"{self.text}: the DMA engine failed: {error}", code="DG-LINK-033") from None

    def _reset_engine(self) -> None:
        """A channel halts only behind its transfer, for which pynq's `stop` would wait for ever. The reset of either
        channel is one of the whole engine (PG021, MM2S_DMACR.Reset)."""
        channels = (self._dma.sendchannel, self._dma.recvchannel)
        first = channels[0]
        first._mmio.write(first._offset, RESET)
        end = time.monotonic() + RESET_S
        while first._mmio.read(first._offset) & RESET and time.monotonic() < end:
            time.sleep(SPIN_S)
        for channel in channels:
            channel.start()

    def _register(self, address: int, value: int | None) -> int:
        if value is None:
            return int(self._registers.read(address)) & ALL_ONES  # pynq.remote 3.1's are signed
        self._registers.write(address, value)
        return value

    def _close(self) -> None:
        for buffer in self._buffers:
            with contextlib.suppress(Exception):
                buffer.freebuffer()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _pynq() -> Any:
    try:
        import pynq
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"a link to a Zynq board needs pynq (no module {error.name}); expected the board's own Python, or the "
            "extra: pip install 'dynagate[board]' --no-build-isolation (docs/zynq.md)",
            code="DG-LINK-034",
        ) from None
    return pynq


def _locked(path: str) -> Any:
    """The bitstream's file, locked as long as it is open."""
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - open as long as it is locked
    except OSError as error:
        raise DeviceError(
            f"{path}: {error.strerror}; expected a bitstream, which `dynagate bitstream` makes", code="DG-LINK-035"
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise DeviceError(
            f"{path} is busy: another process has it open; expected one process for a board", code="DG-LINK-036"
        ) from None
    return file


def _row(overlay: Any, name: str, path: str) -> Any:
    blocks = overlay.ip_dict
    if name not in blocks:
        raise DeviceError(f"{path} has no block '{name}'; expected one of {', '.join(blocks)}", code="DG-LINK-037")
    return blocks[name]


def _engine(overlay: Any, name: str, path: str) -> Any:
    """Return pynq's driver of a DMA engine. Raise DeviceError if it does not transfer in both directions."""
    kind = _row(overlay, name, path).get("type")
    engine = getattr(overlay, name)
    if None in (getattr(engine, side, None) for side in ("sendchannel", "recvchannel")):
        raise DeviceError(
            f"pynq has no DMA driver for both directions of block '{name}' of {path} ({kind}); expected {DMA_ENGINE}",
            code="DG-LINK-038",
        )
    return engine
