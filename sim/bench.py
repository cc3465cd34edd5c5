"""Vectors and pauses for cocotb benches, which import this module inside the simulator.

The benches read vectors from the file that DYNAGATE_VECTORS names and that `sim.runner` writes. Expected results are
therefore computed outside of the simulator, by the integer model.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Pauses = Callable[[], Iterator[bool]]
"""Function that yields True in each cycle in which one side of a handshake pauses."""


def read_vectors() -> dict[str, Any]:
    """Return the arrays of the vectors file, by name."""
    with np.load(os.environ["DYNAGATE_VECTORS"]) as file:
        return {key: file[key] for key in file.files}


def pause_patterns(seed: int) -> dict[str, Pauses]:
    """Return the patterns of pauses by name: never, rare, mostly pauses, and bursts of both.

    Args:
        seed: Seed of the random patterns.
    """
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
