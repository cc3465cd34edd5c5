"""How the host reaches a device: what every link can do, and the link to a simulated one."""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from dynagate.base.errors import Error
from dynagate.host.design_file import DesignError, DesignFile, Words

IDLE_CYCLES = 100_000
"""A simulated device that neither takes nor gives anything for so long is stuck."""

SLICE_MS = 20
"""Of a stream at a time: after it Python hears of Ctrl-C."""


class DeviceError(Error, RuntimeError):
    """The device did not do what its design says."""


@dataclass(frozen=True)
class Transfer:
    """What a batch took, in cycles of the device's clock. latency: first sample in to first result out.
    per_sample: between acceptances, averaged over the batch; 0 where the link cannot see it."""

    latency: int
    per_sample: float


class Link(Protocol):
    """stream(words in) -> words out, in the same order, one payload per row."""

    transfer: Transfer

    def stream(self, payloads: Words) -> Words: ...

    def close(self) -> None: ...


class _Stream(ctypes.Structure):
    """As sim/harness.cpp has it."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "sent",
            "received",
            "quiet",
            "offering",
            "random",
            "first_accept",
            "last_accept",
            "first_output",
        )
    ]


class SimLink:
    """A datapath compiled by Verilator, in this process.

    pauses: chance per cycle, 0 to 1, that the source has nothing and that the sink is not ready; seed decides when.
    progress: show on a terminal how far a stream is that takes longer than a moment.
    Raises DesignError: the library's hash differs from the design's, or it is no such library.
    """

    def __init__(
        self,
        library: Path,
        design: DesignFile,
        *,
        pauses: tuple[float, float] = (0.0, 0.0),
        seed: int = 1,
        progress: bool = False,
    ) -> None:
        self.transfer = Transfer(0, 0.0)
        self._design = design
        self._gap, self._stall = (round(255 * p) for p in pauses)
        self._seed, self._progress = seed, progress
        self._device: int | None = None
        self._streaming = False
        try:
            self._library = ctypes.CDLL(str(library))
            self._declare()
        except (OSError, AttributeError) as error:
            raise DesignError(f"{library} is not a simulated datapath: {error}") from None
        self._device = self._library.dynagate_open()
        self._end = weakref.finalize(self, self._library.dynagate_close, self._device)
        self._end.atexit = False  # the process frees it
        hash_of_device = self._library.dynagate_hash(self._device)
        if hash_of_device != design.hash:
            self.close()
            raise DesignError(
                f"{library.name} holds design {hash_of_device:016x}; design.json describes {design.hash:016x}: "
                "build it again"
            )

    def _declare(self) -> None:
        words, u64, u32 = (
            np.ctypeslib.ndpointer(np.uint32, flags="C_CONTIGUOUS"),
            ctypes.c_uint64,
            ctypes.c_uint32,
        )
        device = ctypes.c_void_p
        stream: list[Any] = [device, ctypes.POINTER(_Stream), words, u64, words, u64, u64, u64, u32, u32, u32]
        functions: dict[str, tuple[Any, list[Any]]] = {
            "open": (device, []),
            "close": (None, [device]),
            "reset": (None, [device]),
            "hash": (u64, [device]),
            "run": (ctypes.c_int, stream),
        }
        for name, (result, arguments) in functions.items():
            function = getattr(self._library, f"dynagate_{name}")
            function.restype, function.argtypes = result, arguments

    def stream(self, payloads: Words) -> Words:
        """Payload words (count, words) in and out. Raises DeviceError where results do not come back; the device is
        reset then, as it is after Ctrl-C, and stays usable."""
        if self._device is None:
            raise DeviceError("the simulated device is closed")
        if self._streaming:
            raise DeviceError("the simulated device streams already; expected one stream at a time")
        payloads = np.ascontiguousarray(payloads)
        results: Words = np.zeros((len(payloads), self._design.output.words), dtype=np.uint32)
        self._streaming = True
        try:
            self._stream(payloads, results)
        except BaseException:
            if self._device is not None:
                self._library.dynagate_reset(self._device)
            raise
        finally:
            self._streaming = False
        return results

    def _stream(self, payloads: Words, results: Words) -> None:
        """In slices, between which Python handles signals."""
        count = len(payloads)
        stream = _Stream(random=(self._seed * 0x9E3779B97F4A7C15 + 1) % 2**64)
        if self._progress:
            with tqdm(total=count, desc="  states", delay=1.0, leave=False, disable=None) as bar:  # on a terminal
                while self._run(stream, payloads, results):
                    bar.update(stream.received - bar.n)
        else:
            while self._run(stream, payloads, results):
                pass
        if stream.received != count:
            raise DeviceError(f"{stream.received} results for {count} samples after {IDLE_CYCLES} idle cycles")
        span = stream.last_accept - stream.first_accept
        latency = stream.first_output - stream.first_accept
        self.transfer = Transfer(latency, span / (count - 1) if count > 1 else 0.0)

    def _run(self, stream: _Stream, payloads: Words, results: Words) -> bool:
        """A slice; whether there is another."""
        if self._device is None:
            raise DeviceError("the simulated device was closed while it streamed")
        return bool(
            self._library.dynagate_run(
                self._device,
                stream,
                payloads,
                payloads.shape[1],
                results,
                results.shape[1],
                len(payloads),
                IDLE_CYCLES,
                self._gap,
                self._stall,
                SLICE_MS,
            )
        )

    def close(self) -> None:
        self._device = None
        self._end()
