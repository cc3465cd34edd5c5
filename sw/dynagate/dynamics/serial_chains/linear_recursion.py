"""Linear recursions along a serial chain, computed link by link or as a scan.

x_i = B_i x_{i-1} + c_i is an inclusive scan of the affine maps (B_i, c_i). A scan takes log2(n) levels instead of n,
and needs products B_j B_i of maps that the recursion link by link does not need. The reversed recursion
x_i = B_i x_{i+1} + c_i begins at the tip.

Reference:
    Blelloch, "Prefix sums and their applications", 1990.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from dynagate.dynamics.recursions.prefix import along

Map = TypeVar("Map")
Value = TypeVar("Value")


class Affine(NamedTuple):
    """The affine map x -> linear(x) + constant."""

    linear: Any
    """Linear part; None at the first link of the recursion, where nothing precedes."""
    constant: Any


def linear_recursion(
    maps: Sequence[Map],
    constants: Sequence[Value],
    apply: Callable[[Map, Value], Value],
    compose: Callable[[Map, Map], Map],
    part: str,
    *,
    reverse: bool = False,
    scan: bool = True,
) -> list[Value]:
    """Return x (n,) with x_0 = c_0 and x_i = B_i x_{i-1} + c_i; reversed, x_{n-1} = c_{n-1} and x_i = B_i x_{i+1} +
    c_i.

    Args:
        maps: B_i of each link. The map of the link where the recursion begins is not read.
        constants: c_i of each link.
        apply: Function that returns B x.
        compose: Function that returns B C.
        part: Name of the algorithm, for recorded operations.
        reverse: Whether the recursion begins at the tip.
        scan: Whether to compute by halves (Sklansky 1960) instead of link by link.
    """
    order = range(len(maps))[::-1] if reverse else range(len(maps))

    def combine(first: Affine, second: Affine) -> Affine:
        linear = None if first.linear is None else compose(second.linear, first.linear)
        return Affine(linear, apply(second.linear, first.constant) + second.constant)

    items = [Affine(maps[i] if k else None, constants[i]) for k, i in enumerate(order)]
    scopes = [(part, f"link{i}") for i in order]
    results = along(range(-1, len(items) - 1), items, combine, scopes, prefix=scan)
    return [result.constant for result in (results[::-1] if reverse else results)]
