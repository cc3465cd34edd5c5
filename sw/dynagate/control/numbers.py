"""The arithmetic of iLQR: the parts that differ between floating point and the integers of a chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dynagate.base.arrays import Array
from dynagate.dynamics.spatial import chosen, select
from dynagate.graph.ops import BEYOND

FIRST = ("u_first", "gain_first")
"""Outputs on a chip: torques and gains of the first knot. Its gains and feeds have the opposite sign of other
executors'.
"""
PARTS = 4
"""Number of partial sums of a sum of products on a chip, which shorten the longest path."""

Values = Mapping[str, Array]
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Floats:
    """Floating point. A number may be infinite, and the costs of all iterations are kept."""

    finite: ClassVar[bool] = False
    """Whether all numbers are finite."""
    carry: ClassVar[Mapping[str, str]] = {"costs_new": "costs"}
    ends: ClassVar[tuple[str, ...]] = ("costs_new",)
    """Names of results in addition to the plan."""
    torque_shapes: ClassVar[Mapping[str, tuple[int, ...]]] = {}
    """Shapes of inputs of `torques` in addition to the plan."""
    first_torque: ClassVar[tuple[str, ...]] = ()
    first_gain: ClassVar[tuple[str, ...]] = ()
    counted: ClassVar[tuple[str, ...]] = ()
    """Names of counters of iterations."""

    def cost_shapes(self, iterations: int) -> Shapes:
        """Return the input with the costs of iterations."""
        return {"costs": (iterations + 1,)}

    def costs(self, values: Values, reached: Any) -> dict[str, Array]:
        """Return the costs of iterations with a new one."""
        return {"costs_new": np.append(values["costs"][1:], reached)}

    def plan(self, values: Values) -> tuple[Array, Array, Any]:
        """Return the states (nq,), (nv,) that a knot's torques are about, and the step length."""
        return values["qs"], values["qds"], values["alpha"][()]

    def torques(self, values: Values, alpha: Any, away: Array) -> Array:
        """Return the torques (nv,) of a knot at a state that is `away` (2 nv,) from the plan."""
        return values["us"] + values["feeds"] * alpha + values["gains"] @ away

    def if_finite(self, x: Any, then: Any, otherwise: Any) -> Any:
        """Return `then` if a number that is positive or falls is not infinite, else `otherwise`."""
        return select(BEYOND - x, then, otherwise)

    def with_first_torque(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return results of a knot, with the torques of the first one if they are brought out."""
        return values

    def gains(self, gain: Array, feed: Array) -> dict[str, Array]:
        """Return the gains and feeds of a knot as `torques` takes them."""
        return {"gains_new": gain, "feeds_new": feed}


@dataclass(frozen=True)
class Integers(Floats):
    """Integers of a chip. All numbers are finite, and no costs of iterations are kept."""

    finite: ClassVar[bool] = True
    carry: ClassVar[Mapping[str, str]] = {"taken_new": "taken"}
    ends: ClassVar[tuple[str, ...]] = (*FIRST, "taken_new")
    torque_shapes: ClassVar[Mapping[str, tuple[int, ...]]] = {"fresh": ()}
    first_torque: ClassVar[tuple[str, ...]] = FIRST[:1]
    first_gain: ClassVar[tuple[str, ...]] = FIRST[1:]
    counted: ClassVar[tuple[str, ...]] = ("taken",)

    def cost_shapes(self, iterations: int) -> Shapes:
        """Return no inputs, since costs of iterations are not kept."""
        return {}

    def costs(self, values: Values, reached: Any) -> dict[str, Array]:
        """Return no outputs, since costs of iterations are not kept."""
        return {}

    def plan(self, values: Values) -> tuple[Array, Array, Any]:
        """Return the plan, replaced in the first iteration, since a plan of an earlier problem in memory could
        overflow.
        """
        qs, qds, alpha = super().plan(values)
        fresh = values["fresh"][()]
        qs, qds = chosen(fresh, values["q0"], qs), chosen(fresh, values["qd0"], qds)
        return qs, qds, select(fresh, 0.0, alpha)

    def torques(self, values: Values, alpha: Any, away: Array) -> Array:
        """Return torques from a plan whose gains and feeds have the opposite sign."""
        return values["us"] - (values["feeds"] * alpha + _in_parts(values["gains"], away))

    def if_finite(self, x: Any, then: Any, otherwise: Any) -> Any:
        """Return `then`, since all integers are finite."""
        return then

    def with_first_torque(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values with the torques of the first knot."""
        return {**values, FIRST[0]: values["us_new"]}

    def gains(self, gain: Array, feed: Array) -> dict[str, Array]:
        """Return gains and feeds times -1, which `torques` subtracts."""
        gain, feed = -gain, -feed
        return {"gains_new": gain, FIRST[1]: gain, "feeds_new": feed}


FLOATS, INTEGERS = Floats(), Integers()


def _in_parts(matrix: Array, vector: Array) -> Array:
    """Return the product, in sums of few products."""
    parts = [matrix[:, k::PARTS] @ vector[k::PARTS] for k in range(PARTS) if len(vector) > k]
    while len(parts) > 1:
        parts = [sum(parts[k + 1 : k + 2], parts[k]) for k in range(0, len(parts), 2)]
    return parts[0]
