"""Which operand of each product is the narrow one of a multiplier block.

Every product needs one. A node that is narrow is so in all its products, and its price is the noise that its rounding
brings to the outputs: a weighted vertex cover, solved as an integer program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

Vertex = int | tuple[str, int]
"""A node, or ("constant", product)."""

GAP = 1e-3
"""As near to the best cover, in its price."""


def cheapest_cover(
    edges: Sequence[tuple[Vertex, Vertex]], price: Mapping[Vertex, float], spare: int, spared: float
) -> set[Vertex]:
    """Vertices of the least price that touch every edge but `spare`, each of which costs `spared` instead; those that
    cost nothing are all in it."""
    free = {x for x, p in price.items() if p <= 0.0}
    left = Counter(tuple(dict.fromkeys(edge)) for edge in edges if not free.intersection(edge))
    if not left:
        return free
    place = {x: k for k, x in enumerate(dict.fromkeys(x for edge in left for x in edge))}
    vertices, count = len(place), len(left)
    ends = [(row, place[x]) for row, edge in enumerate(left) for x in edge]
    ends += [(row, vertices + row) for row in range(count)]
    rows, columns = zip(*ends, strict=True)
    touched = csr_array((np.ones(len(ends)), (rows, columns)), shape=(count, vertices + count))
    times = np.array(list(left.values()), dtype=float)
    found = milp(
        np.concatenate([[price[x] for x in place], spared * times]),
        constraints=[
            LinearConstraint(touched, lb=1.0),
            LinearConstraint(np.concatenate([np.zeros(vertices), times])[None, :], ub=float(spare)),
        ],
        integrality=np.ones(vertices + count),
        bounds=Bounds(0.0, 1.0),
        options={"mip_rel_gap": GAP},
    )
    if found.x is None:
        raise ValueError(f"no cover of {len(edges)} products: {found.message}")
    return free | {x for x, k in place.items() if found.x[k] > 0.5}
