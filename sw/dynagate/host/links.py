"""The face of every device: an input stream, an output stream and registers. A link carries them and knows no robot."""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from dynagate.base.errors import Error, add_note
from dynagate.design.codec import Words
from dynagate.design.design import AxiStreams


class DeviceError(Error, RuntimeError):
    """The device did not do what its design says, or is closed."""


class RegisterError(DeviceError):
    """A register that the device does not have, or that it refuses to write; the text has its address."""


class OverflowedError(Error, ArithmeticError):
    """Values of some samples did not fit their formats, and the caller wants no such results."""


class OverflowWarning(UserWarning):
    """Samples of a fixed-point function overflowed, so their results are wrong; given once for each function."""


class SilenceError(DeviceError):
    """Results were expected, and no beat moved for longer than the link waits."""


@dataclass(frozen=True)
class BatchTiming:
    """Timing of a batch, in cycles of the device's clock."""

    latency: int
    """Cycles from the first beat in to the first beat out."""
    per_sample: float
    """Cycles from one accepted sample to the next, mean of the batch; 0 if the link cannot measure it."""


class DeviceLink(ABC):
    """Base class of links: one input stream, one output stream and the registers of a device.

    1. A beat is a row of 32-bit words, as many as the stream is wide. Samples are arrays (samples, beats, words).
    2. `write` passes a batch to the input stream and returns at once. The link owns the array until its results are
       read.
       At most `depth` batches are under way.
    3. `read` takes results of the oldest batch from the output stream, in the order of their samples. It returns after
       a
       short time, with the results that came until then, so that its caller can handle Ctrl-C.
    4. Registers can be read and written at any time, also while samples stream and from other threads.
    5. `reset` empties both streams and resets the device.
    6. After `close`, which may be called twice, all other methods raise DeviceError.
    """

    text: str
    """Description of the device for errors."""
    closed: bool = False
    """Whether `close` was called."""
    depth: int = 1
    """Largest number of batches under way."""

    @abstractmethod
    def write(self, samples: Words, results: int | None = None) -> None:
        """Pass a batch to the input stream.

        Args:
            samples: Words (samples, beats, words of a beat).
            results: Number of results of the batch; None for one for each sample.

        Raises:
            DeviceError: `depth` batches are under way, or the link moves exactly one result for each sample.
        """

    def _check_results(self, samples: Words, results: int | None) -> None:
        """Raise DeviceError if fewer results than samples are expected from a link that moves a result for each
        sample.
        """
        if results not in (None, len(samples)):
            raise DeviceError(
                f"{self.text} moves a result for each sample; expected every=1 instead of {results} results for "
                f"{len(samples)} steps",
                code="DG-LINK-028",
            )

    def expect(self, beats: int) -> None:  # noqa: B027
        """Set the length of the results of batches that are written later, for one of several functions or some
        outputs. The default is the longest result.

        Args:
            beats: Beats of a result.
        """

    def carry(self, axi: AxiStreams) -> None:  # noqa: B027
        """Set the lengths of samples and results for another program. No batch may be under way.

        Args:
            axi: Streams of the program, of the same width.
        """

    def allow_cycles(self, cycles: int) -> None:  # noqa: B027
        """Set how long a sample may take, if the link counts cycles.

        Args:
            cycles: Cycles of the device's clock.
        """

    @abstractmethod
    def read(self, results: Words) -> int:
        """Read results of the oldest batch.

        Args:
            results: Words (samples, beats, words of a beat), filled from the first row on.

        Returns:
            Number of rows that were filled.

        Raises:
            SilenceError: No results came, and none are under way.
            DeviceError: TLAST is not on the last beat of a packet.
        """

    @abstractmethod
    def read_register(self, address: int) -> int:
        """Read a register.

        Args:
            address: Address in bytes.

        Returns:
            Its 32 bits.

        Raises:
            RegisterError: The device reports an error.
        """

    @abstractmethod
    def write_register(self, address: int, value: int) -> None:
        """Write a register.

        Args:
            address: Address in bytes.
            value: Its 32 bits.

        Raises:
            RegisterError: The device reports an error.
        """

    @abstractmethod
    def reset(self) -> None:
        """Empties both streams and resets the device."""

    @abstractmethod
    def close(self) -> None:
        """Gives the device back."""

    def buffer(self, shape: tuple[int, int, int]) -> Words:
        """Return an array of zeros that the link can move without a copy.

        Args:
            shape: Samples, beats and words of a beat.

        Returns:
            The array, which begins at a memory page.
        """
        size = max(math.prod(shape), 1) * 4
        return np.frombuffer(mmap.mmap(-1, size), np.uint32, math.prod(shape)).reshape(shape)

    @property
    def transfer(self) -> BatchTiming:
        """Cycles of the batch that was read last; zeros where the link sees no clock."""
        return BatchTiming(0, 0.0)


@contextmanager
def closed_on_failure(link: DeviceLink) -> Iterator[DeviceLink]:
    """Close a link if the block raises an error, since the caller cannot close a link that it did not receive.

    Args:
        link: The link.

    Yields:
        The link.
    """
    try:
        yield link
    except BaseException as error:
        try:
            link.close()
        except Exception as fault:  # of any link: the first error is the one to report
            add_note(error, f"{link.text} could not be closed: {fault}")
        raise
