"""Choose the 18-bit operand of each product.

The multiplier of a DSP block has a wide and a narrow (18-bit) input, so one operand of every product must have at most
18 bits. A node with at most 18 bits serves all its products. Its price is the noise that its rounding adds to the
outputs. The smallest total price is a weighted vertex cover: nodes are vertices, products are edges. HiGHS solves it as
an integer program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

Vertex = int | tuple[str, int]
"""An operand of a product: a node, or ("constant", product)."""

GAP = 1e-3
"""Relative difference to the best price at which the solver stops."""


def cheapest_cover(
    edges: Sequence[tuple[Vertex, Vertex]], price: Mapping[Vertex, float], spare: int, spared: float
) -> set[Vertex]:
    """Return the vertices with the smallest total price that cover all edges but a few.

    Args:
        edges: Two operands of each product.
        price: Price of each operand. Operands without a price are all part of the result.
        spare: Largest number of edges that are not covered.
        spared: Price of an edge that is not covered.

    Raises:
        ArgumentError: The solver fails.
    """
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
    solution = milp(
        np.concatenate([[price[x] for x in place], spared * times]),
        constraints=[
            LinearConstraint(touched, lb=1.0),
            LinearConstraint(np.concatenate([np.zeros(vertices), times])[None, :], ub=float(spare)),
        ],
        integrality=np.ones(vertices + count),
        bounds=Bounds(0.0, 1.0),
        options={"mip_rel_gap": GAP},
    )
    if solution.x is None:
        raise ValueError(
            f"scipy.optimize.milp chose no 18-bit operands for {len(edges)} products: {solution.message}; expected a "
            "solution, which always exists: try another version of scipy"
        )
    return free | {x for x, k in place.items() if solution.x[k] > 0.5}
