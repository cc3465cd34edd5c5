"""A session: a device behind a link, from its opening to its closing."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dynagate.base.errors import add_note
from dynagate.base.forks import renew_in_child
from dynagate.design.codec import Words
from dynagate.design.design import DesignRecord
from dynagate.design.files import DesignError
from dynagate.host.links import DeviceError, DeviceLink, SilenceError, closed_on_failure
from dynagate.host.registers import Registers
from dynagate.host.tags import Tags
from dynagate.host.transfers import TransferQueue
from dynagate.hw.rtl.regmap import BITS, Register


class Session(ABC):
    """A device behind a link. It owns whatever the drivers of the device's functions share.

    Args:
        design: Record of the design that the device holds.
        link: The link. The session closes it, also if an error is raised here.
        table: The device's registers by name.
        shows_progress: Show on a terminal how far a batch is that takes longer than a moment.

    Raises:
        DesignError: The device holds another design.
        DeviceError: The link fails.
    """

    def __init__(
        self, design: DesignRecord, link: DeviceLink, table: Mapping[str, Register], *, shows_progress: bool = False
    ) -> None:
        self.design, self.link, self.shows_progress = design, link, shows_progress
        self.registers = Registers(link, table)
        self.register_cache: dict[str, Any] = {}
        """Content of the writable registers, by name of the input or the register."""
        self.tags = Tags()
        self.lock = threading.RLock()
        """Held by the caller of one of the device's functions."""
        renew_in_child(self, "lock")
        self.queue = TransferQueue(self)
        self._streaming = False
        with closed_on_failure(link):
            self._check()

    def _check(self) -> None:
        """Raise DesignError if the device holds another design."""
        shown = self._hash()
        if shown != self.design.device_hash:
            raise DesignError(
                f"{self.link.text} holds design {shown:016x}; design.json describes {self.design.device_hash:016x}: "
                "build it again",
                code="DG-LINK-044",
            )

    def _hash(self) -> int:
        """Return the hash in the device's registers."""
        return self.registers.read("hash_high") << BITS | self.registers.read("hash_low")

    def _check_register(self, name: str, expected: int) -> None:
        """Raise DesignError if a register holds another value than the design describes."""
        value = self.registers.read(name)
        if value != expected:
            raise DesignError(
                f"{self.link.text} has 0x{value:X} in register '{name}'; design.json describes 0x{expected:X}: "
                "build it again",
                code="DG-LINK-045",
            )

    @abstractmethod
    def driver(self, function: Any = None) -> Any:
        """Return the driver of the design, or of one of its functions.

        Args:
            function: The function; None for the whole design.

        Returns:
            The driver.
        """

    def check_current(self, design: DesignRecord) -> None:
        """Refuse calls of a design that the device does not hold any more.

        Args:
            design: Record of the design that a caller expects.

        Raises:
            DeviceError: The device holds another design.
        """
        if design is not self.design:
            raise DeviceError(
                f"{self.link.text} has loaded another program than {design.title}; open it again", code="DG-LINK-046"
            )

    @contextmanager
    def streaming(self, design: DesignRecord) -> Iterator[None]:
        """Reserve the device for one batch of a design, when no other batch is under way. After an error the device is
        reset.

        Args:
            design: Record of the design.

        Yields:
            Nothing.
        """
        if self._streaming:
            raise DeviceError(f"{self.link.text} streams already; expected one batch at a time", code="DG-LINK-047")
        self.queue.wait()
        self.check_current(design)
        self._streaming = True
        try:
            yield
        except BaseException as error:
            self.failed(error)
            raise
        finally:
            self._streaming = False

    def read(self, results: Words, progress: Callable[[int], object] | None = None) -> None:
        """Read all results of a batch from the link.

        Args:
            results: Words (samples, beats, words of a beat), which are overwritten.
            progress: Function that receives the number of results so far.

        Raises:
            DeviceError: Results are missing.
        """
        received, count = 0, len(results)
        while received < count:
            try:
                received += self.link.read(results[received:] if received else results)
            except SilenceError as error:
                raise DeviceError(
                    f"{received} results for {count} samples: {error}{self.state()}", code="DG-LINK-048"
                ) from None
            if progress is not None:
                progress(received)

    def state(self) -> str:
        """Return what the device reports of itself when it is stuck."""
        return ""

    def failed(self, error: BaseException) -> None:
        """Reset the device after an error.

        Args:
            error: The error.

        Raises:
            DeviceError: The link is closed.
        """
        if not self.link.closed:
            self.recover_from(error)
        elif isinstance(error, DeviceError):
            raise DeviceError(f"{self.link.text} was closed while it streamed", code="DG-LINK-049") from None

    def recover_from(self, error: BaseException) -> None:
        """Reset the device after an error. If that fails, a note is added to the error.

        Args:
            error: The error.
        """
        try:
            self.recover()
        except DeviceError as failure:
            add_note(error, f"The device did not come to rest: {failure}")

    def recover(self) -> None:
        """Reset the device. Batches under way are lost.

        Raises:
            DeviceError: The device does not come to rest.
        """
        self.tags.begin_anew()
        self.register_cache.clear()
        self.link.reset()

    def close(self) -> None:
        """Fail the batches that have no results yet, and close the link."""
        self.queue.close()
        self.link.close()
