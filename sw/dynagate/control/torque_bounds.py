"""Bounds of torques in the backward pass of iLQR."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.control.riccati import Held
from dynagate.dynamics.spatial import array, select

NEAR = 1e-12
"""Distance from a bound, relative to its range, within which a torque counts as at the bound."""


@dataclass(frozen=True)
class FreeTorques:
    """Torques without bounds, for `nv` joints that all have motors."""

    nv: int

    @property
    def driven(self) -> Array:
        """The joints with motors."""
        return np.arange(self.nv)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The inputs of a knot that `held` reads."""
        return {}

    def held(self, values: Mapping[str, Array]) -> Held | None:
        """Return the function that flags torques at a bound; None without bounds. `values` has `us_new` (nv,)."""
        return None


@dataclass(frozen=True)
class BoundedTorques(FreeTorques):
    """low, high (nv,): N m or N; equal for joints without a motor."""

    low: Array
    high: Array

    @property
    def driven(self) -> Array:
        return np.flatnonzero(self.low != self.high)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"us_new": (self.nv,)}

    def held(self, values: Mapping[str, Array]) -> Held | None:
        """Return the function that flags torques at a bound: positive if a descent step would leave the bound."""
        driven = self.driven
        low, high = self.low[driven], self.high[driven]
        near = np.where(np.isfinite(high - low), NEAR * (high - low), 0.0)
        inner = (low + near).tolist(), (high - near).tolist()

        def one(x: Any, low: float, high: float, slope: Any) -> Any:
            above = select(x - high, -slope, -1.0) if math.isfinite(high) else -1.0
            return select(low - x, slope, above) if math.isfinite(low) else above

        def held(slope: Array) -> Array:
            torques = values["us_new"][driven]
            return array([one(x, a, b, g) for x, a, b, g in zip(torques, *inner, slope, strict=True)])

        return held


def torques_of(nv: int, bounds: tuple[Array, Array] | None) -> FreeTorques:
    """Return iLQR's handling of lower and upper torques (nv,); `FreeTorques` for no bounds."""
    return FreeTorques(nv) if bounds is None else BoundedTorques(nv, *bounds)
