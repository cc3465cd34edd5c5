"""Bound the accelerations that residual torques cause in a region: weights w with |M⁻¹ r| <= |w r| for all r and
states.

With c the largest lengths of the columns of M⁻¹ and σ the smallest singular value of diag(c) M, w is c / σ: the length
of M⁻¹ r is at most that of diag(c) r over σ. Scaled by c, σ is of the order of one for joints of any size. It is proved
if a few thousand boxes of positions suffice, as for arms and legs of a few joints, else sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
from dynagate.base.arrays import Floats
from dynagate.fixedpoint.intervals import Interval
from dynagate.fixedpoint.ranges.images import images
from dynagate.fixedpoint.ranges.proved import input_box
from dynagate.fixedpoint.ranges.unit_vectors import unit_ranges
from dynagate.graph import Graph, trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region

STATES = 8192
"""Number of sampled positions of each kind."""
MARGIN = 0.9
"""Share of the smallest sampled singular value that is used as the bound."""

ENOUGH = 0.7
"""Share of the smallest sampled singular value at which a proof ends."""

MOST_VALUES = 10_000_000
"""Largest number of nodes times boxes of a proof."""

SLACK = 1e-9
"""Relative bound above the float64 errors of singular values of scaled matrices."""


@dataclass(frozen=True)
class MassBound:
    """A bound of M⁻¹."""

    scale: Floats
    """Scale c of each degree of freedom, (nv,), in 1/(kg m²) or 1/kg."""
    least: float
    """Bound σ of the smallest singular value."""
    proved: bool
    """Whether it holds for every state, or else for a sample."""

    @property
    def weights(self) -> Floats:
        """Return the weights w, (nv,)."""
        return self.scale / self.least


def mass_bound(region: Region) -> MassBound:
    """Return the bound for all positions of a region."""
    graph = trace(region.robot, "mass_matrix")
    positions = [region.sample("mass_matrix", STATES, seed=3, kind=kind)["q"] for kind in ("uniform", "limits")]
    matrices = evaluate(graph, {"q": np.concatenate(positions)})["m"]
    scale = np.max(np.linalg.norm(np.linalg.inv(matrices), axis=1), axis=0)
    sampled = float(np.min(np.linalg.svd(scale[:, None] * matrices, compute_uv=False)))
    proved = min(_proved(graph, region, scale, part, ENOUGH * sampled) for part in _blocks(graph))
    if proved > 0.0:
        return MassBound(scale, proved, True)
    return MassBound(scale, MARGIN * sampled, False)


def _blocks(graph: Graph) -> list[list[int]]:
    """Return the degrees of freedom that M couples, in groups."""
    (port,) = graph.outputs
    size = port.shape[0]
    coupled = np.array([not graph.nodes[i].is_zero for i in port.nodes]).reshape(size, size)
    groups: list[list[int]] = []
    for d in range(size):
        joined = [group for group in groups if coupled[d, group].any()]
        groups = [group for group in groups if group not in joined] + [[*chain(*joined), d]]
    return groups


def _read(graph: Graph, nodes: Sequence[int]) -> list[int]:
    """Return the inputs that nodes depend on."""
    needed = set(nodes)
    for i in reversed(range(len(graph))):
        if i in needed:
            needed.update(graph.nodes[i].args)
    return [i for i in graph.input_nodes if i in needed]


def _proved(graph: Graph, region: Region, scale: Floats, part: Sequence[int], enough: float) -> float:
    """Return a bound of the smallest singular value of a block of diag(c) M over all positions; 0 if it needs too many
    boxes.
    """
    (port,) = graph.outputs
    entries = np.array(port.nodes).reshape(port.shape)[np.ix_(part, part)]
    box, known = input_box(graph, region), unit_ranges(graph)
    split = _read(graph, entries.ravel().tolist())
    low, high = (np.array([[float(box[i][end])] for i in split]).reshape(len(split), 1) for end in (0, 1))
    least, count = np.inf, 0
    while low.shape[1]:
        count += low.shape[1]
        if count * len(graph) > MOST_VALUES:
            return 0.0
        boxes = {**box, **{i: Interval(low[k], high[k]) for k, i in enumerate(split)}}
        bounds = _smallest(images(graph, boxes, known), entries, scale[list(part)], low.shape[1])
        if not split:
            return max(float(np.min(bounds)), 0.0)
        least = min(least, float(np.min(bounds, initial=np.inf, where=bounds >= enough)))
        low, high = _halved(low[:, bounds < enough], high[:, bounds < enough])
    return least


def _halved(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Halve boxes along their widest side; endpoints are (inputs, boxes)."""
    widest, every = np.argmax(high - low, axis=0), np.arange(low.shape[1])
    middle = 0.5 * (low[widest, every] + high[widest, every])
    upper, lower = low.copy(), high.copy()
    upper[widest, every], lower[widest, every] = middle, middle
    return np.concatenate([low, upper], axis=1), np.concatenate([lower, high], axis=1)


def _smallest(values: Sequence[Interval], entries: npt.NDArray[np.int64], scale: Floats, count: int) -> Floats:
    """Return bounds of the smallest singular values, (boxes,): those of the midpoints minus the largest radii
    (Weyl).
    """
    low, high = (
        np.stack([np.broadcast_to(values[i][end], count) for i in entries.ravel().tolist()], axis=1).reshape(
            count, *entries.shape
        )
        * scale[:, None]
        for end in (0, 1)
    )
    middle, radius = 0.5 * (low + high), 0.5 * (high - low)
    own, others = (np.linalg.svd(x, compute_uv=False) for x in (middle, radius))
    slack = SLACK * np.max(np.abs(middle), axis=(1, 2))
    bounds: Floats = own[:, -1] - others[:, 0] - slack
    return bounds
