"""Errors of the outputs of fixed-point graphs, measured on a small sample of the operating region.

A design whose formats were found for an accuracy goal has a `Statement` with confidence instead. The errors here tell a
designer whether a chosen word length is of any use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from dynagate.base.arrays import Floats
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_fixed
from dynagate.graph.certificate import CERTIFICATE
from dynagate.graph.evaluate import evaluate
from dynagate.graph.parts import part_graph, parts_of
from dynagate.graph.region import KINDS, Kind, Region, part_states

STATES = 256
"""Number of states of each kind (`Region.sample`) on which errors are measured."""

SEED = 53
"""Seed of these states. Formats are chosen with other seeds."""


@dataclass(frozen=True)
class SampledError:
    """Error of one output block in the sampled states of one kind."""

    error: float
    """Largest absolute error of an entry against float64, in the block's units; NaN if every state overflowed."""
    largest: float
    """Largest magnitude of an entry in float64, in the block's units."""

    @property
    def share(self) -> float:
        """Return the error as a share of the largest magnitude; 0 for a block that is always 0."""
        return self.error / self.largest if self.largest > 0.0 else 0.0


@dataclass(frozen=True)
class SampledErrors:
    """Errors and overflows of a design in `STATES` states of each kind."""

    outputs: Mapping[Kind, Mapping[str, SampledError]]
    """Errors by kind of states and output, without the states that overflow."""
    overflows: Mapping[Kind, int]
    """Number of states of each kind that overflow; for several functions, of the function with the most."""


def sampled_errors(formatted: FormattedGraph, region: Region) -> SampledErrors:
    """Measure the outputs of the integer model against float64.

    Args:
        formatted: Graph with formats. The functions of a graph with several are measured one after the other.
        region: Operating region that the states are drawn from.

    Returns:
        Errors of every output but "certificate", which has no reference.
    """
    outputs: dict[Kind, dict[str, SampledError]] = {kind: {} for kind in KINDS}
    overflows: dict[Kind, int] = {}
    for k, kind in enumerate(KINDS):
        for own, states in _states(formatted, region, SEED + k, kind):
            result, expected = evaluate_fixed(own, states), evaluate(own.graph, states)
            sound = ~result.overflow
            overflows[kind] = max(overflows.get(kind, 0), int(result.overflow.sum()))
            for name, value in expected.items():
                if name != CERTIFICATE:
                    outputs[kind][name] = _error(result.outputs[name][sound], value[sound])
    return SampledErrors(outputs, overflows)


def _states(
    formatted: FormattedGraph, region: Region, seed: int, kind: Kind
) -> Iterator[tuple[FormattedGraph, dict[str, Floats]]]:
    """Yield each function of a graph with the states to compute it for."""
    parts = parts_of(formatted.graph.name)
    if not parts:
        yield formatted, region.states(formatted.graph, STATES, seed, kind)
    for part in parts:
        yield formatted.of_part(part), part_states(part_graph(formatted.graph, part), part, region, STATES, seed, kind)


def _error(measured: Floats, expected: Floats) -> SampledError:
    if not expected.size:
        return SampledError(np.nan, np.nan)
    return SampledError(float(np.abs(measured - expected).max()), float(np.abs(expected).max()))
