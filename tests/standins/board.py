"""A Verilated accelerator that DMA engines feed: beats with TLAST in, beats with TLAST out, registers."""

from __future__ import annotations

import threading
import time

import numpy as np
from dynagate.host.links import RegisterError
from dynagate.host.sim_links import IDLE, BeatQueue, SimShellLink
from dynagate.hw.rtl.regmap import BITS

FIFO = 4096
"""Beats that wait in front of the accelerator; more wait in the host's memory."""

NAP_S = 0.0002
ALL_ONES = (1 << BITS) - 1


class TooLate(Exception):
    """Nothing moved for as long as a transfer may take."""


class Board:
    """timeout: seconds that a transfer may wait. plugged: whether anybody answers. held: the clock stands still.

    What came out of the accelerator waits in `out`, which a soft reset does not empty, as a DMA engine's own FIFO.
    """

    def __init__(self, sim: SimShellLink, timeout: float = 2.0) -> None:
        self.sim, self.timeout, self.plugged = sim, timeout, True
        axi = sim.design.axi
        assert axi is not None
        self.axi, self.lanes = axi, axi.lanes
        self.out: list[tuple[bytes, bool]] = []
        self._lock = threading.RLock()
        self._ring = BeatQueue(self.lanes)
        sim.stream.in_words = self.lanes
        pausing = sim.stream.gap or sim.stream.stall
        self._idle_cycles = 4000 if pausing else sim.design.latency + 60
        self.held = False
        self._still = False

    def unsent(self) -> int:
        stream = self.sim.stream
        return int(stream.to_send - stream.sent)

    def push(self, data: bytes, last: bool = True) -> None:
        """A transfer into the accelerator. Raises TooLate: it does not take it."""
        beats = np.frombuffer(data, np.uint32).reshape(-1, self.lanes)
        ends = np.zeros(len(beats), np.uint8)
        ends[-1] = last
        end = time.monotonic() + self.timeout
        while True:
            with self._lock:
                if self.unsent() < FIFO:
                    self._ring.put(beats, ends, self.sim.stream)
                    self._still = False
                    return
                if len(self.out) < FIFO:
                    self._advance(64)
            if time.monotonic() > end:
                raise TooLate
            time.sleep(NAP_S)

    def pull(self, most: int, wait: bool = True) -> tuple[bytes, bool]:
        """A transfer of at most so many bytes out of the accelerator, up to TLAST, and whether it came to that. Raises
        TooLate."""
        beats, end = most // (4 * self.lanes), time.monotonic() + self.timeout
        taken: list[bytes] = []
        while True:
            while self.held:
                time.sleep(NAP_S)
            with self._lock:
                while self.out and len(taken) < beats:
                    words, last = self.out.pop(0)
                    taken.append(words)
                    if last or len(taken) == beats:
                        return b"".join(taken), last
                before = len(self.out)
                self._advance(beats - len(taken))
                if len(self.out) > before:
                    continue
            if not wait or time.monotonic() > end:
                if taken and not wait:
                    return b"".join(taken), False
                with self._lock:
                    self.out[:0] = [(words, False) for words in taken]
                raise TooLate
            time.sleep(NAP_S)

    def _advance(self, beats: int) -> None:
        """Runs the accelerator until there are beats, or nothing moves. Then its clock stands still until something
        goes in, so that cycles do not count how long the host takes."""
        if self._still:
            return
        words, last = np.zeros((beats, self.lanes), np.uint32), np.zeros(beats, np.uint8)
        with self.sim.opened() as device:
            stream = self.sim.stream
            stream.sink, stream.sink_last = words.ctypes.data, last.ctypes.data
            stream.out_words, stream.out_sample, stream.in_sample = self.lanes, 1, self.axi.beats.input
            stream.sink_begin, stream.to_receive = stream.received, stream.received + beats
            stream.quiet = 0
            state = self.sim.library.dynagate_run(device, stream, self._idle_cycles, 5)
            self._still = state == IDLE and not self.unsent()
            count = int(stream.received - stream.sink_begin)
            stream.to_receive = stream.received
        self.out += [(words[k].tobytes(), bool(last[k])) for k in range(count)]

    def read_register(self, address: int) -> int:
        if not self.plugged:
            return ALL_ONES
        try:
            with self._lock:
                return self.sim.read_register(address)
        except RegisterError:
            return ALL_ONES

    def write_register(self, address: int, value: int) -> None:
        if self.plugged:
            with self._lock:
                self._still = False
                self.sim.write_register(address, value)
