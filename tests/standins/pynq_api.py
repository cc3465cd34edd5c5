"""The part of pynq's face that PynqLink uses, over the model of AXI DMA. A long test has the real pynq there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.standins.axi_dma import ADDRESS, CONTROL, IDLE, INTO, LENGTH, OUT_OF, STATUS, AxiDma
from tests.standins.board import Board

ACCELERATOR = 0x43C00000
BUFFER_MAX_SIZE = (1 << 14) - 1


class Buffer(np.ndarray):
    """What the processor sees. The memory has what was flushed, and the processor sees that once it invalidates."""

    memory: Any
    physical_address: int

    def flush(self) -> None:
        self.memory[:] = self

    def invalidate(self) -> None:
        self[:] = self.memory

    def freebuffer(self) -> None:
        pass


class Channel:
    def __init__(self, dma: AxiDma, offset: int) -> None:
        self._dma, self._mmio, self._offset, self.transferred = dma, dma, offset, 0
        self.start()

    @property
    def running(self) -> bool:
        return not self._dma.read(self._offset + STATUS) & 1

    @property
    def idle(self) -> bool:
        return bool(self._dma.read(self._offset + STATUS) & IDLE)

    @property
    def error(self) -> bool:
        return bool(self._dma.read(self._offset + STATUS) & 0x70)

    def start(self) -> None:
        self._dma.write(self._offset + CONTROL, 1)
        self._first = True

    def stop(self) -> None:
        self._dma.write(self._offset + CONTROL, 0)

    def transfer(self, array: Buffer, start: int = 0, nbytes: int = 0) -> None:
        if not self.running:
            raise RuntimeError("DMA channel not started")
        if not self.idle and not self._first:
            raise RuntimeError("DMA channel not idle")
        if nbytes > BUFFER_MAX_SIZE:
            raise ValueError(f"Transfer size is {nbytes} bytes, which exceeds the maximum DMA buffer size")
        if self._offset == INTO:
            array.flush()
        self._array, self._first = array, False
        self._dma.write(self._offset + ADDRESS, array.physical_address)
        self._dma.write(self._offset + LENGTH, nbytes)

    def wait(self) -> None:
        while not self.idle:
            pass
        if self._offset == OUT_OF:
            self._array.invalidate()
        self.transferred = self._dma.read(self._offset + LENGTH)


class Pynq:
    """The module, for one board with one overlay."""

    def __init__(self, board: Board) -> None:
        module = self
        self._memories: dict[int, np.ndarray[Any, Any]] = {}
        model = AxiDma(board, lambda address: self._memories[address])

        class DMA:
            buffer_max_size = BUFFER_MAX_SIZE

            def __init__(self) -> None:
                self.sendchannel, self.recvchannel = Channel(model, INTO), Channel(model, OUT_OF)

        class Overlay:
            device = "a board"
            ip_dict = {"axi_dma_0": {}, "accelerator_0": {"phys_addr": ACCELERATOR}}  # noqa: RUF012

            def __init__(self, path: str) -> None:
                if Path(path).suffix != ".bit":
                    raise RuntimeError("No Devices Found")
                self.axi_dma_0 = DMA()

        class MMIO:
            def __init__(self, base_addr: int, length: int = 4, device: Any = None) -> None:
                assert (base_addr, device) == (ACCELERATOR, "a board")

            def read(self, offset: int = 0) -> int:
                return board.read_register(offset)

            def write(self, offset: int, data: int) -> None:
                board.write_register(offset, data)

        self.Overlay, self.MMIO = Overlay, MMIO
        self._module = module

    def allocate(self, shape: tuple[int, ...], dtype: str = "u4", target: Any = None) -> Buffer:
        buffer = np.zeros(shape, dtype).view(Buffer)
        buffer.physical_address = 0x10000000 * (len(self._memories) + 1)
        buffer.memory = self._memories[buffer.physical_address] = np.zeros(buffer.nbytes, np.uint8)
        return buffer
