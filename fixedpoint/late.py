"""What waits long is kept in fewer bits for those that read it late.

A value waits in a row of registers, and an operation reads it from the one where it is by then. What no later one needs
of its lowest bits is not passed on. Instead of them a late reader sees a one: the middle of what they may have been,
so that next to no mean error is left, and nothing has to be rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.noise import block_adjoints, partials
from dynagate.graph import Port

Array = npt.NDArray[np.float64]
MOST = 16
"""Bits that are left out, at most."""

LEAST = 4
"""Bits that a late reader gets, at least."""

Read = tuple[int, int]
"""Which node reads, and as which operand."""


@dataclass(frozen=True)
class Stretch:
    """So many registers of a value in a row, and the reads from the last of them."""

    registers: int
    reads: tuple[Read, ...]


@dataclass(frozen=True)
class Waiting:
    """stretches: by node its registers, in order of time. registers: in all. cost: bits of them, and of multipliers."""

    stretches: Mapping[int, Sequence[Stretch]]
    registers: int
    cost: int


def drop_late(formatted: FormattedGraph, waiting: Waiting, gains: Mapping[int, Array], price: float) -> FormattedGraph:
    """The formats, with bits dropped from late reads wherever that saves more bits of registers than its noise costs.

    gains: by node and stretch, what the variance of an error in this stretch and all later ones counts (`late_gains`).
    price: bits for a noise of 1.
    """
    dropped: dict[Read, int] = {}
    for node, stretches in waiting.stretches.items():
        fmt = formatted.formats[node]
        most = max(min(MOST, fmt.width - LEAST), 0)
        noise = [price * gain * fmt.step**2 / 12.0 for gain in gains[node]]
        own = [a - b for a, b in zip(noise, [*noise[1:], 0.0], strict=True)]
        for stretch, bits in zip(stretches, _cheapest(own, [s.registers for s in stretches], most), strict=True):
            dropped |= dict.fromkeys(stretch.reads, bits) if bits else {}
    return replace(formatted, dropped=dropped).check()


def _cheapest(noise: Sequence[float], registers: Sequence[int], most: int) -> list[int]:
    """Bits dropped by stretch, none in the first and never fewer than before, for which noise · 4^bits - registers ·
    bits is least in sum."""
    cost = {0: 0.0}
    choices: list[dict[int, int]] = []  # by stretch: the bits dropped before, by those dropped there
    for k in range(1, len(registers)):
        before = {bits: min((b for b in cost if b <= bits), key=lambda b: (cost[b], b)) for bits in range(most + 1)}
        cost = {bits: cost[b] + noise[k] * 4.0**bits - registers[k] * bits for bits, b in before.items()}
        choices.append(before)
    chosen = [min(cost, key=lambda b: (cost[b], b))]
    for before in reversed(choices):
        chosen.append(before[chosen[-1]])
    return chosen[::-1]


def late_gains(
    formatted: FormattedGraph,
    inputs: Mapping[str, Array],
    port: Port,
    waiting: Waiting,
    *,
    draws: int = 1,
    seed: int = 0,
) -> dict[int, list[float]]:
    """By node and stretch the mean over the states of (∂block/∂value in this stretch and all later ones)², divided by
    the block's squared size; as `noise.block_gains`."""
    graph = formatted.graph
    values, size, adjoints = block_adjoints(graph, inputs, port, draws=draws, seed=seed)
    readers = {u for stretches in waiting.stretches.values() for s in stretches for u, _ in s.reads}
    felt = {i: adjoint for i, adjoint in adjoints if i in readers}
    found: dict[int, list[float]] = {}
    for node, stretches in waiting.stretches.items():
        total, found[node] = np.zeros(1), []
        for stretch in reversed(stretches):
            for user, k in stretch.reads:
                if user in felt:
                    moved = formatted.formats[node].frac - formatted.formats[graph.nodes[user].args[k]].frac
                    total = total + felt[user] * partials(graph, values, user)[k] * 2.0**moved
            found[node].append(float(np.mean(total * total / size)))
        found[node].reverse()
    return found
