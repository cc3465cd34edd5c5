"""Faults between the link and a card, by chance: those that a link passes over, and those that it must name."""

from __future__ import annotations

import errno
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence

from dynagate.host.dma import CONTROL, SOFT_RESET

from tests.standins.xdma import LocalCard, failure

PASSED_OVER = ("short read", "short write", "EAGAIN", "EINTR", "stall")
"""A call of the accelerator does not notice these."""

NAMED = (
    *("cut write", "lost beat in", "doubled beat in", "lost beat out", "doubled beat out", "stale result"),
    *("lost result", "soft reset", "EIO", "ETIMEDOUT"),
)


class FaultyCard:
    """A card whose transfers go wrong. chance: of a fault in each transfer. sample, result: bytes. seen: how many of
    each kind there were; asleep: whether there are none for now."""

    def __init__(self, card: LocalCard, kinds: Sequence[str], chance: float, seed: int) -> None:
        self._card, self._kinds, self._chance = card, kinds, chance
        axi = card.board.axi
        self._beat = 4 * axi.lanes
        self._sample, self._result = self._beat * axi.beats.input, self._beat * axi.beats.output
        self._turn, self._lock = random.Random(seed), threading.Lock()
        self._rest, self._old = b"", deque[bytes](maxlen=50)
        self.seen: Counter[str] = Counter()
        self.asleep = False

    def _fault(self, possible: Sequence[str]) -> str | None:
        with self._lock:
            kinds = [kind for kind in possible if kind in self._kinds]
            if self.asleep or not kinds or self._turn.random() > self._chance:
                return None
            kind = self._turn.choice(kinds)
            self.seen[kind] += 1
            return kind

    def _part(self, count: int, step: int) -> int:
        """Bytes up to a random boundary inside."""
        return step * self._turn.randrange(max(count // step, 1))

    def write(self, data: bytes) -> int:
        common = ("EAGAIN", "EINTR", "stall", "EIO", "soft reset")
        kind = self._fault((*common, "short write", "cut write", "lost beat in", "doubled beat in"))
        self._common(kind)
        if kind == "short write" and (count := self._part(len(data), self._sample)):
            return self._card.write(data[:count])
        if kind == "cut write" and self._sample > self._beat:
            return self._card.write(data[: self._part(len(data), self._sample) + self._beat])
        where = self._part(len(data), self._beat)
        if kind == "lost beat in":
            rest = data[:where] + data[where + self._beat :]
            if rest:
                self._card.write(rest)
            return len(data)
        if kind == "doubled beat in":
            self._card.write(data[: where + self._beat] + data[where:])
            return len(data)
        return self._card.write(data)

    def read(self, most: int) -> bytes:
        out = ("lost beat out", "doubled beat out", "stale result", "lost result")
        kind = self._fault(("EAGAIN", "EINTR", "stall", "EIO", "ETIMEDOUT", "soft reset", "short read", *out))
        self._common(kind)
        data = self._rest or self._card.read(most)
        self._rest = b""
        self._old.append(data[: self._result])
        where = self._part(len(data), self._beat)
        if kind == "lost beat out":
            data = data[:where] + data[where + self._beat :]
        elif kind == "lost result":
            data = data[self._result :]
        elif kind == "doubled beat out":
            data = data[: where + self._beat] + data[where:]
        elif kind == "stale result":
            data = self._turn.choice(self._old) + data
        if kind == "short read":
            most = self._turn.randrange(1, most + 1)
        self._rest = data[most:]
        return data[:most]

    def _common(self, kind: str | None) -> None:
        if kind == "stall":
            time.sleep(0.002 * self._turn.random())
        elif kind == "soft reset":
            self._card.board.write_register(CONTROL.address, SOFT_RESET)
        elif kind in ("EAGAIN", "EINTR", "EIO", "ETIMEDOUT"):
            raise failure(getattr(errno, kind))

    def pread(self, place: int) -> bytes:
        return self._card.pread(place)

    def pwrite(self, data: bytes, place: int) -> int:
        return self._card.pwrite(data, place)
