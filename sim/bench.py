"""Vectors and pauses of cocotb benches. Used inside the simulator.

The benches take their vectors from the file that DYNAGATE_VECTORS names (`sim.runner` writes it), so that what is
expected is worked out outside the simulator, by the integer executor.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

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
