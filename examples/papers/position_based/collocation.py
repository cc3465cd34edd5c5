"""Collocation in positions: where a step's nodes are, and weights of second derivatives there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from dynagate.integrators.position_based_links import Floats


class Collocation(NamedTuple):
    """A polynomial of degree K through K + 1 nodes, two of them known and K - 1 of them unknown.

    times (K + 1,): of the nodes from the step's begin, in steps, known ones first. second (K - 1, K + 1): weights of
    the second derivative at each unknown node. first (K + 1,): weights of the first derivative at the step's end.
    """

    times: Floats
    second: Floats
    first: Floats


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
    second = np.array([[p.deriv(2)(t) for p in basis] for t in nodes[2:]])
    return Collocation(nodes, second, np.array([p.deriv(1)(1.0) for p in basis]))
