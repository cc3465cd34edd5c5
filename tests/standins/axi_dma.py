"""AMD's AXI DMA in simple mode (PG021), register by register, between a memory and a Verilated accelerator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tests.standins.board import Board, TooLate

CONTROL, STATUS, ADDRESS, LENGTH = 0x00, 0x04, 0x18, 0x28
INTO, OUT_OF = 0x00, 0x30
HALTED, IDLE = 1, 2
RESET = 1 << 2


class AxiDma:
    """memory: the bytes at a physical address on, which a device's allocation gave. A transfer out of the accelerator
    advances whenever somebody looks at its status, and ends with TLAST."""

    def __init__(self, board: Board, memory: Callable[[int], npt.NDArray[np.uint8]]) -> None:
        self._board, self._memory = board, memory
        self._registers = {INTO + CONTROL: 0, OUT_OF + CONTROL: 0, INTO + STATUS: HALTED, OUT_OF + STATUS: HALTED}
        self._asked = self._done = 0

    def write(self, address: int, value: int) -> None:
        self._registers[address] = value
        if address in (INTO + CONTROL, OUT_OF + CONTROL) and value & RESET:  # of the whole engine, over at once
            self._registers |= {side + CONTROL: 0 for side in (INTO, OUT_OF)}
            self._registers |= {side + STATUS: HALTED for side in (INTO, OUT_OF)}
            self._asked = 0
            return
        for side in (INTO, OUT_OF):
            if address == side + CONTROL:
                if not value & 1 and side == OUT_OF and self._asked:
                    return  # it halts only behind the transfer (PG021, MM2S_DMACR.RS)
                self._registers[side + STATUS] = 0 if value & 1 else HALTED
                self._asked = 0 if side == OUT_OF else self._asked
        if address == INTO + LENGTH:
            self._board.push(self._at(INTO)[:value].tobytes())
            self._registers[INTO + STATUS] |= IDLE
        if address == OUT_OF + LENGTH:
            self._asked, self._done = value, 0
            self._registers[OUT_OF + STATUS] &= ~IDLE

    def read(self, address: int) -> int:
        if address == OUT_OF + STATUS and self._asked:
            self._advance()
        if address == OUT_OF + LENGTH:
            return self._done
        return self._registers.get(address, 0)

    def _advance(self) -> None:
        try:
            data, last = self._board.pull(self._asked - self._done, wait=False)
        except TooLate:
            return
        self._at(OUT_OF)[self._done : self._done + len(data)] = np.frombuffer(data, np.uint8)
        self._done += len(data)
        if last or self._done == self._asked:
            self._asked = 0
            self._registers[OUT_OF + STATUS] |= IDLE

    def _at(self, side: int) -> npt.NDArray[np.uint8]:
        return self._memory(self._registers[side + ADDRESS] | self._registers.get(side + ADDRESS + 4, 0) << 32)
