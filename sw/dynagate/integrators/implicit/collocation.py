"""Collocation in positions: the nodes of a step, and the weights of derivatives at the nodes."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from dynagate.integrators.implicit.position_based_links import Floats


class Collocation(NamedTuple):
    """A polynomial of degree K through K + 1 nodes, two of them known and K - 1 of them unknown.

    times (K + 1,): of the nodes from the step's begin, in steps, known ones first. first, second (K - 1, K + 1):
    weights of the first and the second derivative at each unknown node, the last of them the step's end.
    """

    times: Floats
    first: Floats
    second: Floats

    @property
    def combined(self) -> Floats:
        """Weights (K - 1, K - 1) of the forces at unknown nodes in sums, each of which depends on one node's inertia.

        The Jacobian of the forces of a step has blocks of both signs. That of the sums has blocks near M / dt² on its
        diagonal and 0 elsewhere, so its pivots are positive.
        """
        return np.asarray(np.linalg.inv(self.second[:, 2:]), dtype=np.float64)


@cache
def collocation(order: int) -> Collocation:
    """Nodes at the roots of the Legendre polynomial of degree K - 2 on the step, at its end, at its begin and, as the
    step before had it, one before (Pan & Manocha 2018, §4.1)."""
    if order == 2:
        nodes = np.array([-1.0, 0.0, 1.0])
    else:
        roots = np.polynomial.legendre.Legendre.basis(order - 2).roots()
        inner = 0.5 + 0.5 * np.sort(np.real(roots))
        nodes = np.concatenate([[inner[-1] - 1.0, 0.0], inner, [1.0]])
    basis = [np.polynomial.Polynomial(row) for row in np.linalg.inv(np.vander(nodes, increasing=True)).T]
    first, second = (np.array([[p.deriv(n)(t) for p in basis] for t in nodes[2:]]) for n in (1, 2))
    return Collocation(nodes, first, second)
