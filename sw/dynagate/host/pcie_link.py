"""A PCIe card in simulation behind the driver of real ones: `dynagate.open(design, link="pcie")`.

`XdmaLink` makes the calls of the system that it makes for a card. Here another process answers them: it simulates the
host's memory, the kernel's part of the driver, a root complex, the link, a DMA engine and the design's own Verilog
(`sim.pcie.serve`). What is measured is simulated time.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import tempfile
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

from dynagate.base.errors import ArgumentError
from dynagate.base.process import python_command, python_environment
from dynagate.design.codec import Words
from dynagate.design.design import DesignRecord
from dynagate.host.links import BatchTiming, DeviceError
from dynagate.host.xdma_link import System, XdmaLink
from dynagate.sim.pcie.link import LinkCase
from dynagate.sim.pcie.link import PcieRate as Lanes

STARTED_S = 300.0
"""Seconds until the simulated host must have found the card, after a new design was compiled."""
GIVEN_UP_S = 1.0
"""Seconds without a request on the simulated link after which a transfer counts as stuck."""
CLOSED_S = 10.0
"""Seconds until the process must have ended."""


class PcieLink(XdmaLink):
    """Link to an accelerator on a simulated PCIe card, with the driver of Xilinx's XDMA.

    Args:
        folder: Folder of a design with an AXI shell.
        design: Its record.
        generation: Generation of the PCIe link.
        width: Lanes of the PCIe link.
        max_payload: Largest number of bytes in a write, as of `sim.pcie.link.LinkCase`.
        read_request: Largest number of bytes in a read request, as of `sim.pcie.link.LinkCase`.
        seed: Seed of the random numbers in the simulation.
        timeout: As of `DmaLink`.

    Raises:
        ArgumentError: The folder has no accelerator, or PCIe does not allow one of the numbers.
        DeviceError: The simulation does not start, or as `XdmaLink` raises it.
    """

    def __init__(
        self,
        folder: str,
        design: DesignRecord,
        *,
        generation: int = 3,
        width: int = 8,
        max_payload: int = 256,
        read_request: int = 512,
        seed: int = 1,
        timeout: float = 30.0,
    ) -> None:
        case = LinkCase(Lanes(generation, width), max_payload=max_payload, read_request=read_request)
        self._check_design(design, timeout)
        if not os.path.isfile(Path(folder) / "accelerator.v"):
            raise ArgumentError(f"no accelerator.v in {folder}; expected the folder of the design", code="DG-LINK-029")
        self._samples = self._requests = 0
        self._due = {"write": 0, "read": 0}
        self.card = SimulatedCard(Path(folder), case, seed, min(timeout, GIVEN_UP_S))
        text = f"a simulated card at PCIe {case.link}"
        super().__init__(text, design, timeout=timeout, system=CardFiles(self.card))

    def write(self, samples: Words, results: int | None = None) -> None:
        self._check()
        if not self._under_way:
            self._times(anew=True)
            self._samples = 0
            self._due = {"write": 0, "read": 0}
        for which in self._due:
            self._due[which] += -(-len(samples) // self._largest)
        super().write(samples, results)
        self._samples += len(samples)

    def _moves(self) -> bool:
        """Return whether requests still pass over the link: a simulated card may take longer for a packet than a real
        one.
        """
        before, self._requests = self._requests, self._asked("moved")
        return self._requests != before

    def _transfer(self, which: str, file: int, data: memoryview) -> int:
        self._due[which] -= 1
        self.card.follows[which] = self._due[which] > 0
        return super()._transfer(which, file, data)

    @property
    def transfer(self) -> BatchTiming:
        """Timing of the batches since the link was last idle, in cycles of the device's clock: from the first doorbell
        to the last result in the host's memory, in total and for each sample.
        """
        first, last = self._times(anew=False)
        return BatchTiming(round(last - first), (last - first) / max(self._samples, 1))

    def _times(self, *, anew: bool) -> tuple[float, float]:
        first, last = self._asked("times", anew)
        return first, last

    def _asked(self, name: str, *arguments: object) -> Any:
        try:
            return self.card.call(name, *arguments)
        except OSError as error:
            raise self._broken("request", error) from None

    def _close(self) -> None:
        super()._close()
        self.card.close()


class SimulatedCard:
    """The process that simulates the card, and the requests to it from any thread.

    Args:
        folder: Folder of the design.
        seconds: Seconds without a request on the PCIe link after which a transfer counts as stuck.

    Raises:
        DeviceError: The process ends before the card is found.
    """

    def __init__(self, folder: Path, case: LinkCase, seed: int, seconds: float) -> None:
        self._place = tempfile.TemporaryDirectory()
        place = Path(self._place.name)
        self._listener = Listener(str(place / "card"), "AF_UNIX")
        settings = {
            "folder": str(folder.absolute()),
            "case": asdict(case),
            "address": str(place / "card"),
            "seconds": seconds,
            "seed": seed,
        }
        self._log = place / "log.txt"
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                python_command("from dynagate.sim.pcie.card import main\nmain(sys.argv[1])", json.dumps(settings)),
                cwd=place,
                env=python_environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._connection: Any = None
        self._lock, self._count = threading.Lock(), 0
        self._waiting: dict[int, Future[Any]] = {0: Future()}
        self.follows = {"write": False, "read": False}
        """Whether a transfer of the kind begins as soon as the one under way has ended."""
        for work in (self._listen, self._watch):
            threading.Thread(target=work, daemon=True).start()
        try:
            self._waiting[0].result(STARTED_S)
        except (OSError, TimeoutError):
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
            self.close()
            raise DeviceError(
                "\n".join(["the simulation of a PCIe card did not start:", *lines]), code="DG-LINK-030"
            ) from None

    def _listen(self) -> None:
        with suppress(OSError, EOFError):
            self._connection = self._listener.accept()
            while True:
                number, result, code = self._connection.recv()
                with self._lock:
                    future = self._waiting.pop(number)
                if code:
                    future.set_exception(OSError(code, os.strerror(code)))
                else:
                    future.set_result(result)

    def _watch(self) -> None:
        """Who waits for a process that has ended waits for ever."""
        self._process.wait()
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(_gone())

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a method in the process.

        Args:
            name: Name of the method.
            arguments: Its arguments.

        Returns:
            Its result.

        Raises:
            OSError: The transfer failed, as the system reports it for a real card.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self._process.poll() is not None:
                raise _gone()
            self._count += 1
            self._waiting[self._count] = future
            try:
                self._connection.send((self._count, name, arguments))
            except OSError:
                raise _gone() from None
        return future.result()

    def close(self) -> None:
        """Ends the process."""
        with suppress(OSError, AttributeError), self._lock:
            self._connection.send((0, "close", ()))
        try:
            self._process.wait(CLOSED_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._listener.close()
        if self._connection is not None:
            self._connection.close()
        self._place.cleanup()


def _gone() -> OSError:
    return OSError(errno.ENODEV, os.strerror(errno.ENODEV))


class CardFiles(System):
    """The system's calls where the files are those of a simulated card."""

    def __init__(self, card: SimulatedCard) -> None:
        self.card, self.files = card, 0

    def open(self, path: str, flags: int) -> int:
        self.files += 1
        return self.files

    def close(self, file: int) -> None:
        pass

    def lock(self, file: int) -> None:
        """Do nothing, since no other process can open the simulated card.

        Args:
            file: Number of the open file.
        """

    def read(self, file: int, data: memoryview) -> int:
        came = self.card.call("read", len(data), self.card.follows["read"])
        data[: len(came)] = came
        return len(came)

    def write(self, file: int, data: memoryview) -> int:
        return int(self.card.call("write", bytes(data), self.card.follows["write"]))

    def pread(self, file: int, count: int, place: int) -> bytes:
        return bytes(self.card.call("pread", place))

    def pwrite(self, file: int, data: bytes, place: int) -> int:
        return int(self.card.call("pwrite", data, place))
