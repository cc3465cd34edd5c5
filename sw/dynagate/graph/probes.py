"""Random input values (probes) at which the passes test whether nodes are equal.

A term that is negligible at one probe must matter at another. The magnitudes of the inputs are therefore drawn
independently, over more decades from probe to probe. Some inputs are zero: single entries, or a whole port, such as the
velocities of a robot at rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Floats
from dynagate.graph.graph import Port
from dynagate.graph.rebuild import RecordedPort

DECADES = 6.0
"""Magnitudes at the last probe are spread by this many decades around the typical size of their input, up
and down.
"""
ZERO = 0.125
"""Probability that an entry is zero at a probe, and that a whole port is."""


def probes(
    inputs: Sequence[RecordedPort], ports: Mapping[str, Port], count: int, plain: int, seed: int
) -> dict[int, Floats]:
    """Draw probes for the inputs of a recording.

    Args:
        inputs: Input ports.
        ports: Sizes and unit vectors of the inputs, by name.
        count: Number of probes.
        plain: The first probes, this many, have the inputs' own sizes and no zeros.
        seed: Seed of the generator.

    Returns:
        Input node -> its values (count,).
    """
    random = np.random.default_rng(seed)
    values: dict[int, Floats] = {}
    for name, _, entries in inputs:
        sizes = {entry[0]: size for entry, size in zip(entries, ports[name].sizes, strict=True)}
        zeros = _zeros(random, len(sizes), count, plain) | _zeros(random, 1, count, plain)
        for (node, size), is_zero in zip(sizes.items(), zeros, strict=True):
            drawn = random.uniform(-2.5, 2.5, count) * magnitudes(random, count, plain) * size
            values[node] = np.where(is_zero, 0.0, drawn)
        for start, stop in ports[name].unit_vectors:
            unit = [entry[0] for entry in entries[start:stop]]
            drawn = random.normal(size=(len(unit), count)) * [magnitudes(random, count, plain) for _ in unit]
            values.update(zip(unit, drawn / np.linalg.norm(drawn, axis=0), strict=True))
    return values


def magnitudes(random: np.random.Generator, count: int, plain: int) -> Floats:
    """Return random factors (count,): 1 for the first `plain` probes, then over more and more decades."""
    spread = np.concatenate([np.zeros(plain), np.linspace(0.0, DECADES, count - plain)])
    return np.asarray(10.0 ** (random.uniform(-1.0, 1.0, count) * spread))


def _zeros(random: np.random.Generator, entries: int, count: int, plain: int) -> npt.NDArray[np.bool_]:
    return (random.random((entries, count)) < ZERO) & (np.arange(count) >= plain)
