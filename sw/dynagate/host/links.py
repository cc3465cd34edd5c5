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
    """Timing of a batch, in cycles of the device's clock.

    latency: first beat in to first beat out. per_sample: cycles between acceptances, averaged over the batch; 0 if the
    link cannot measure it.
    """

    latency: int
    per_sample: float


class DeviceLink(ABC):
    """An input stream, an output stream and registers, however they are reached.

    1. A beat is a row of 32-bit words, as many as the stream is wide. Samples are arrays (samples, beats, words).
    2. `write` gives the input stream a batch and returns at once. The array is the link's until its results are read.
       Up to `depth` batches may be under way.
    3. `read` takes results of the oldest batch from the output stream, in the order of their samples. It returns after
       a moment, with what has come until then, so that its caller hears of Ctrl-C.
    4. Registers can be read and written at any time, while samples stream and from other threads too.
    5. `reset` empties both streams and resets the device, whatever it was doing.
    6. After `close`, which may be called again, all else raises DeviceError.

    text: what the device is, for errors. closed: whether `close` was called.
    """

    text: str
    closed: bool = False
    depth: int = 1

    @abstractmethod
    def write(self, samples: Words, results: int | None = None) -> None:
        """Gives the input stream a batch, (samples, beats, words). results: how many it has; as many unless said.
        Raises DeviceError: `depth` batches are under way, or the link moves a result for each sample."""

    def _check_results(self, samples: Words, results: int | None) -> None:
        """Raises DeviceError: fewer results than samples are expected from a link that moves a result for each
        sample.
        """
        if results not in (None, len(samples)):
            raise DeviceError(
                f"{self.text} moves a result for each sample; expected every=1 instead of {results} results for "
                f"{len(samples)} steps"
            )

    def expect(self, beats: int) -> None:  # noqa: B027
        """Results of the batches that are written from now on have this many beats: those of a function, or of some of
        its outputs. As many as the longest unless this is called."""

    def carry(self, axi: AxiStreams) -> None:  # noqa: B027
        """Samples and results have the sizes of these streams from now on, of the same width: those of another program.
        No batch is under way."""

    def allow_cycles(self, cycles: int) -> None:  # noqa: B027
        """Set how many cycles of the device's clock a sample may take, where the link counts them."""

    @abstractmethod
    def read(self, results: Words) -> int:
        """Fills rows of results, (samples, beats, words) of one batch, from the first on, and returns how many. Raises
        SilenceError where there are none and none is under way, DeviceError where TLAST is not on the last beat of a
        packet."""

    @abstractmethod
    def read_register(self, address: int) -> int:
        """The 32 bits at an address in bytes. Raises RegisterError."""

    @abstractmethod
    def write_register(self, address: int, value: int) -> None:
        """Writes the 32 bits at an address in bytes. Raises RegisterError."""

    @abstractmethod
    def reset(self) -> None:
        """Empties both streams and resets the device."""

    @abstractmethod
    def close(self) -> None:
        """Gives the device back."""

    def buffer(self, shape: tuple[int, int, int]) -> Words:
        """An array (samples, beats, words) that the link moves without another copy: page-aligned zeros."""
        size = max(math.prod(shape), 1) * 4
        return np.frombuffer(mmap.mmap(-1, size), np.uint32, math.prod(shape)).reshape(shape)

    @property
    def transfer(self) -> BatchTiming:
        """Cycles of the batch that was read last; zeros where the link sees no clock."""
        return BatchTiming(0, 0.0)


@contextmanager
def closed_on_failure(link: DeviceLink) -> Iterator[DeviceLink]:
    """Close the link if the block raises: the caller cannot close a link that was never returned."""
    try:
        yield link
    except BaseException as error:
        try:
            link.close()
        except Exception as fault:  # of any link: the first error is the one to report
            add_note(error, f"{link.text} could not be closed: {fault}")
        raise
