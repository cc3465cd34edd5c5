"""pyxrt's calls, as XrtLink makes them, over a Verilated accelerator. Names and arguments are those of pyxrt.cpp."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from tests.standins.board import Board, TooLate

KERNELS = ("read_samples:{read_samples_1}", "write_results:{write_results_1}", "accelerator:{accelerator_1}")


class xclBOSyncDirection(enum.Enum):
    XCL_BO_SYNC_BO_TO_DEVICE = 0
    XCL_BO_SYNC_BO_FROM_DEVICE = 1


class ert_cmd_state(enum.Enum):
    ERT_CMD_STATE_COMPLETED = 4
    ERT_CMD_STATE_ERROR = 5
    ERT_CMD_STATE_TIMEOUT = 8


class PyXrt:
    """The module, for one card. busy: another process has its kernels."""

    xclBOSyncDirection = xclBOSyncDirection
    ert_cmd_state = ert_cmd_state

    def __init__(self, board: Board) -> None:
        module, self.busy = self, False

        class uuid:
            def to_string(self) -> str:
                return "0123-4567"

        class xclbin:
            def __init__(self, path: str) -> None:
                self.path = path

        class device:
            def __init__(self, index: int) -> None:
                if index:
                    raise RuntimeError(f"Could not open device with index '{index}'")

            def load_xclbin(self, binary: xclbin) -> uuid:
                return uuid()

        class kernel:
            class cu_access_mode(enum.Enum):
                exclusive = 0

            def __init__(self, owner: device, of: uuid, name: str, mode: Any) -> None:
                if name not in KERNELS:
                    raise RuntimeError(f"No such kernel '{name}'")
                if module.busy:
                    raise RuntimeError(f"failed to open ip context (Device or resource busy) '{name}'")
                self.name = name

            def group_id(self, argument: int) -> int:
                return argument

        class bo:
            class flags(enum.Enum):
                normal = 0

            def __init__(self, owner: device, size: int, flags: Any, group: int) -> None:
                # the host's side, and the card's: a sync that is forgotten shows
                self.host, self.card = np.zeros(size, np.uint8), np.zeros(size, np.uint8)

            def write(self, data: Any, seek: int) -> None:
                self.host[seek : seek + len(data)] = data

            def read(self, size: int, skip: int) -> Any:
                return self.host[skip : skip + size].view(np.int8).copy()

            def sync(self, direction: Any, size: int, offset: int) -> None:
                part = slice(offset, offset + size)
                if direction is xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE:
                    self.card[part] = self.host[part]
                else:
                    self.host[part] = self.card[part]

        class run:
            def __init__(self, of: kernel) -> None:
                self.name, self.arguments, self.done = of.name, {}, 0

            def set_arg(self, place: int, value: Any) -> None:
                self.arguments[place] = value

            def start(self) -> None:
                self.memory, self.bytes = self.arguments[0].card, 4 * board.lanes * self.arguments[2]

            def wait(self, milliseconds: int) -> ert_cmd_state:
                try:
                    if self.name == KERNELS[0]:
                        board.push(self.memory[: self.bytes].tobytes())
                    while self.name == KERNELS[1] and self.done < self.bytes:
                        data, _ = board.pull(self.bytes - self.done)
                        self.memory[self.done : self.done + len(data)] = np.frombuffer(data, np.uint8)
                        self.done += len(data)
                except TooLate:
                    return ert_cmd_state.ERT_CMD_STATE_TIMEOUT
                return ert_cmd_state.ERT_CMD_STATE_COMPLETED

        class ip:
            def __init__(self, owner: device, of: uuid, name: str) -> None:
                if name not in KERNELS:
                    raise RuntimeError(f"No such ip '{name}'")

            def read_register(self, address: int) -> int:
                return board.read_register(address)

            def write_register(self, address: int, value: int) -> None:
                board.write_register(address, value)

        self.uuid, self.xclbin, self.device, self.kernel = uuid, xclbin, device, kernel
        self.bo, self.run, self.ip = bo, run, ip
