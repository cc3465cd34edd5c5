"""How the host reaches a device: what every link can do, and the link to a simulated one."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from dynagate.host.design_file import DesignError, DesignFile, Words

IDLE_CYCLES = 100_000
"""A simulated device that neither takes nor gives anything for so long is stuck."""


class DeviceError(RuntimeError):
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


class _Statistics(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("first_latency", "first_accept", "last_accept", "last_output")]


class SimLink:
    """A datapath compiled by Verilator, in this process.

    pauses: chance per cycle, 0 to 1, that the source has nothing and that the sink is not ready; seed decides when.
    Raises DesignError: the library's hash differs from the design's, or it is no such library.
    """

    def __init__(
        self, library: Path, design: DesignFile, *, pauses: tuple[float, float] = (0.0, 0.0), seed: int = 1
    ) -> None:
        self.transfer = Transfer(0, 0.0)
        self._design = design
        self._gap, self._stall = (round(255 * p) for p in pauses)
        self._seed = seed
        self._device: int | None = None
        try:
            self._library = ctypes.CDLL(str(library))
            self._declare()
        except (OSError, AttributeError) as error:
            raise DesignError(f"{library} is not a simulated datapath: {error}") from None
        self._device = self._library.dynagate_open()
        found = self._library.dynagate_hash(self._device)
        if found != design.hash:
            self.close()
            raise DesignError(
                f"{library.name} holds design {found:016x}; design.json describes {design.hash:016x}: build it again"
            )

    def _declare(self) -> None:
        words, u64, u32 = (
            np.ctypeslib.ndpointer(np.uint32, flags="C_CONTIGUOUS"),
            ctypes.c_uint64,
            ctypes.c_uint32,
        )
        device = ctypes.c_void_p
        for name, result, arguments in [
            ("open", device, []),
            ("close", None, [device]),
            ("reset", None, [device]),
            ("hash", u64, [device]),
            (
                "run",
                u64,
                [device, words, u64, words, u64, u64, u64, u64, u32, u32, ctypes.POINTER(_Statistics)],
            ),
        ]:
            function = getattr(self._library, f"dynagate_{name}")
            function.restype, function.argtypes = result, arguments

    def stream(self, payloads: Words) -> Words:
        """Payload words (count, words) in and out. Raises DeviceError where results do not come back; the device is
        reset then and stays usable."""
        if self._device is None:
            raise DeviceError("the simulated device is closed")
        count = len(payloads)
        results: Words = np.zeros((count, self._design.output.words), dtype=np.uint32)
        statistics = _Statistics()
        received = self._library.dynagate_run(
            self._device,
            np.ascontiguousarray(payloads),
            payloads.shape[1],
            results,
            results.shape[1],
            count,
            IDLE_CYCLES,
            self._seed,
            self._gap,
            self._stall,
            ctypes.byref(statistics),
        )
        if received != count:
            self._library.dynagate_reset(self._device)
            raise DeviceError(f"{received} results for {count} samples after {IDLE_CYCLES} idle cycles")
        span = statistics.last_accept - statistics.first_accept
        self.transfer = Transfer(statistics.first_latency, span / (count - 1) if count > 1 else 0.0)
        return results

    def close(self) -> None:
        if self._device is not None:
            self._library.dynagate_close(self._device)
            self._device = None
