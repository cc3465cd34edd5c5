"""How large every node gets over a sample of states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate_nodes


@dataclass(frozen=True)
class Ranges:
    """largest: |value| of every node, (nodes,); samples: how many states it was seen over."""

    largest: npt.NDArray[np.float64]
    samples: int


def sampled_ranges(graph: Graph, inputs: dict[str, npt.NDArray[np.float64]]) -> Ranges:
    """Largest magnitudes over a batch of inputs, (batch, *shape) each. Raises ValueError: a node is not finite."""
    values = evaluate_nodes(graph, inputs)
    largest = np.array([float(np.max(np.abs(v))) for v in values])
    if not np.isfinite(largest).all():
        node = graph.nodes[int(np.argmin(np.isfinite(largest)))]
        raise ValueError(f"node '{node.name}' of {graph.name} is not finite somewhere in the region")
    return Ranges(largest, len(next(iter(inputs.values()))))
