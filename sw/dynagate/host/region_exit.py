"""Explain why a trajectory in fixed point overflowed: which quantity left the operating region, and where."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dynagate.base.arrays import Array
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region

TOLERANCE = 1e-3
"""Share of a limit by which a value may exceed it, as rounding does, and still count as inside the region."""

MARGIN = 1.2
"""Factor by which a suggested limit exceeds the value that left the region."""


@dataclass(frozen=True)
class RegionExit:
    """Compares one step of a rollout with the operating region that its formats were chosen for."""

    region: Region
    """The operating region."""
    graph: Graph | None
    """Graph of a step, evaluated in float64 to find the acceleration; None if the device has none."""
    dt: float
    """Time step in s."""

    def text(self, state: Mapping[str, Array]) -> str:
        """Name the quantities of a step that are outside of the region, with the option that raises each limit.

        Args:
            state: Inputs of the step, (1, *shape) each: q and qd before it, tau, and dt if the step takes it.

        Returns:
            A text to follow "in step 3: ", or "" if every quantity is inside the region.
        """
        if not all(np.isfinite(value).all() for value in state.values()):
            return ""
        return "; ".join([*self._positions(state["q"][0]), *self._rates(state)])

    def _positions(self, q: Array) -> Iterator[str]:
        """Yield a text on the first joint whose position is outside of its limits."""
        low, high = self.region.lower, self.region.upper
        for joint, at, _ in self.region.robot.moving():
            k = at.start
            if joint.kind.single and not joint.kind.endless and not low[k] - TOLERANCE <= q[k] <= high[k] + TOLERANCE:
                yield (
                    f"the position of joint '{joint.name}' is {q[k]:.3g} {joint.kind.units[0]}, outside of its limits "
                    f"{low[k]:g} to {high[k]:g}: a force such as Limits(stiffness=...) keeps it inside"
                )
                return

    def _rates(self, state: Mapping[str, Array]) -> Iterator[str]:
        """Yield texts on the velocity before the step, the acceleration in it, and the velocity after it."""
        region = self.region
        fast = list(self._excess("velocity", state["qd"][0], region.velocity, "/s"))
        yield from fast
        if self.graph is None:
            return
        dt = float(state["dt"].flat[0]) if "dt" in state else self.dt
        after = evaluate(self.graph, {port.name: np.asarray(state[port.name], float) for port in self.graph.inputs})
        if region.acceleration is not None:
            rate = (after["qd_next"] - state["qd"])[0] / dt
            yield from self._excess("acceleration", rate, region.acceleration, "/s²")
        if not fast:
            yield from self._excess("velocity after the step", after["qd_next"][0], region.velocity, "/s")

    def _excess(self, name: str, values: Array, limits: tuple[float, ...], per: str) -> Iterator[str]:
        """Yield a text on the entry (nv,) that exceeds its limit by the largest factor, if one does."""
        ratio = np.abs(values) / limits
        k = int(np.argmax(ratio))
        if not ratio[k] > 1.0 + TOLERANCE:
            return
        joint = next(joint for joint, _, at in self.region.robot.moving() if at.start <= k < at.stop)
        unit = f"{joint.kind.units[0]}{per}"
        option, limit = name.split()[0], rounded_up(MARGIN * abs(float(values[k])))
        yield (
            f"the {name} of joint '{joint.name}' is {values[k]:.3g} {unit}, and the region allows {limits[k]:g} {unit}"
            f": pass region=dynagate.Region.of(robot, {option}={limit:g}) (--{option} {limit:g})"
        )


def rounded_up(value: float) -> float:
    """Round a positive number up to two significant digits.

    Args:
        value: The number.

    Returns:
        The rounded number.
    """
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit) * unit
