"""The driver `xdma` under its real client: the link's calls of the system, answered by a Verilated accelerator.

The device files are plain files, so that the kernel's own locks hold and a process that is killed lets go of them. A
process of its own reaches the card through a socket (`serve`, `RemoteCard`).
"""

from __future__ import annotations

import errno
import os
import struct
import threading
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any, Protocol

from dynagate.host.xdma_link import System

from tests.standins.board import Board, TooLate


def failure(code: int) -> OSError:
    return OSError(code, os.strerror(code))


class Card(Protocol):
    def write(self, data: bytes) -> int: ...
    def read(self, most: int) -> bytes: ...
    def pread(self, place: int) -> bytes: ...
    def pwrite(self, data: bytes, place: int) -> int: ...


class LocalCard:
    """As libxdma.c: a write ends with TLAST, a read of a file opened with O_TRUNC too; who waits too long gets
    ETIMEDOUT."""

    def __init__(self, board: Board) -> None:
        self.board = board

    def _check(self) -> None:
        if not self.board.plugged:
            raise failure(errno.ENODEV)

    def write(self, data: bytes) -> int:
        self._check()
        if len(data) % (4 * self.board.lanes):
            raise failure(errno.EINVAL)
        try:
            self.board.push(data)
        except TooLate:
            raise failure(errno.ETIMEDOUT) from None
        return len(data)

    def read(self, most: int) -> bytes:
        self._check()
        try:
            data, _ = self.board.pull(most)
        except TooLate:
            self._check()
            raise failure(errno.ETIMEDOUT) from None
        return data

    def pread(self, place: int) -> bytes:
        return struct.pack("<I", self.board.read_register(place))

    def pwrite(self, data: bytes, place: int) -> int:
        self.board.write_register(place, struct.unpack("<I", data)[0])
        return len(data)


class CardSystem(System):
    """The system's calls where the files are those of a card."""

    def __init__(self, card: Card) -> None:
        self.card = card

    def read(self, file: int, data: memoryview) -> int:
        came = self.card.read(len(data))
        data[: len(came)] = came
        return len(came)

    def write(self, file: int, data: memoryview) -> int:
        return self.card.write(bytes(data))

    def pread(self, file: int, count: int, place: int) -> bytes:
        return self.card.pread(place)

    def pwrite(self, file: int, data: bytes, place: int) -> int:
        return self.card.pwrite(data, place)


def device_files(folder: Path) -> str:
    """The path of a card whose device files are in a folder."""
    for name in ("user", "h2c_0", "c2h_0"):
        (folder / f"xdma0_{name}").touch()
    return str(folder / "xdma0")


class Served:
    """A card for other processes."""

    def __init__(self, card: Card, address: str) -> None:
        self._card, self._listener = card, Listener(address, "AF_UNIX")
        self._answering: list[threading.Thread] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                return
            self._answering.append(threading.Thread(target=self._answer, args=(connection,), daemon=True))
            self._answering[-1].start()

    def _answer(self, connection: Any) -> None:
        try:
            while True:
                name, arguments = connection.recv()
                try:
                    connection.send((getattr(self._card, name)(*arguments), 0))
                except OSError as error:
                    connection.send((None, error.errno))
        except (EOFError, OSError):
            connection.close()

    def close(self) -> None:
        """Transfers of processes that have ended end with them, as the driver ends them before their file closes."""
        self._listener.close()
        for thread in self._answering:
            thread.join(10.0)


class RemoteCard:
    """A card of another process; each thread has a connection of its own."""

    def __init__(self, address: str) -> None:
        self._address, self._own = address, threading.local()

    def _call(self, name: str, *arguments: Any) -> Any:
        if not hasattr(self._own, "connection"):
            self._own.connection = Client(self._address, "AF_UNIX")
        self._own.connection.send((name, arguments))
        result, code = self._own.connection.recv()
        if code:
            raise failure(code)
        return result

    def write(self, data: bytes) -> int:
        return self._call("write", data)

    def read(self, most: int) -> bytes:
        return self._call("read", most)

    def pread(self, place: int) -> bytes:
        return self._call("pread", place)

    def pwrite(self, data: bytes, place: int) -> int:
        return self._call("pwrite", data, place)
