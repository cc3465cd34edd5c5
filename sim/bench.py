"""cocotb drivers: streams with pauses and back-pressure, and a scoreboard. Used inside the simulator.

The benches take their vectors from the file that DYNAGATE_VECTORS names (`sim.runner` writes it), so that what is
expected is worked out outside the simulator, by the integer executor.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

PERIOD_NS = 10

Pauses = Callable[[], Iterator[bool]]
"""True where the side of the handshake pauses for a cycle."""


def vectors() -> dict[str, Any]:
    with np.load(os.environ["DYNAGATE_VECTORS"]) as file:
        return {key: file[key] for key in file.files}


def pause_patterns(seed: int) -> dict[str, Pauses]:
    """No pauses, rare ones, mostly pauses, and bursts of both."""
    source = random.Random(seed)

    def random_pauses(chance: float) -> Pauses:
        def pauses() -> Iterator[bool]:
            while True:
                yield source.random() < chance

        return pauses

    def bursts() -> Iterator[bool]:
        while True:
            yield from [source.random() < 0.5] * source.randint(1, 40)

    return {
        "never": random_pauses(0.0),
        "rare": random_pauses(0.1),
        "mostly": random_pauses(0.8),
        "bursts": bursts,
    }


def rounds(count: int, names: Sequence[str]) -> Iterator[tuple[str, str, slice]]:
    """Every pair of patterns, of the source and of the sink, with its share of this many samples."""
    pairs = list(itertools.product(names, names))
    share = max(count // len(pairs), 1)
    for k, (gaps, stalls) in enumerate(pairs):
        yield gaps, stalls, slice(k * share, count if k == len(pairs) - 1 else (k + 1) * share)


async def start(dut: Any) -> None:
    """Clock and reset."""
    Clock(dut.clk, PERIOD_NS, unit="ns").start()
    dut.rst.value = 1
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


class Stream:
    """One stream port of the design under test, by its prefix."""

    def __init__(self, dut: Any, prefix: str) -> None:
        self.clk = dut.clk
        self.payload, self.valid, self.ready = (
            getattr(dut, f"{prefix}__{part}") for part in ("payload", "valid", "ready")
        )

    async def send(self, items: list[int], pauses: Iterator[bool]) -> None:
        """Offer each item until it is taken; valid never falls before that."""
        for item in items:
            while next(pauses):
                self.valid.value = 0
                await FallingEdge(self.clk)
            self.payload.value = item
            self.valid.value = 1
            while True:
                await ReadOnly()
                taken = int(self.ready.value) == 1
                await RisingEdge(self.clk)
                await FallingEdge(self.clk)
                if taken:
                    break
        self.valid.value = 0

    async def receive(self, count: int, pauses: Iterator[bool]) -> list[int]:
        """Take `count` items, not ready where the pattern pauses."""
        items: list[int] = []
        while len(items) < count:
            self.ready.value = 0 if next(pauses) else 1
            await ReadOnly()
            if int(self.valid.value) == 1 and int(self.ready.value) == 1:
                items.append(int(self.payload.value))
            await RisingEdge(self.clk)
            await FallingEdge(self.clk)
        self.ready.value = 0
        return items

    async def expect_silence(self, cycles: int) -> None:
        """Nothing more may come: a duplicate would."""
        self.ready.value = 1
        for _ in range(cycles):
            await ReadOnly()
            assert int(self.valid.value) == 0, "an output came that belongs to no input"
            await RisingEdge(self.clk)
            await FallingEdge(self.clk)


def words_to_int(words: Any) -> int:
    """A payload of little-endian 32-bit words as one integer."""
    return int.from_bytes(np.ascontiguousarray(words, dtype="<u4").tobytes(), "little")
