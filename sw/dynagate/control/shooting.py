"""Single and multiple shooting in iLQR: how the state at the end of a knot leads to the state of the next one.

In multiple shooting the first guess has states of its own. Between the end of a knot and the next state is a gap. An
accepted step of length α leaves 1 - α of every gap, so a full step closes all of them.

Reference:
    Mastalli et al., "Crocoddyl: an efficient and versatile framework for multi-contact optimal control", 2020, for
    gaps in the backward pass and in the rollout. Li, Wensing et al., "A unified perspective on multiple shooting in
    differential dynamic programming", 2023, for a merit of cost and gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.control.forward import recorded
from dynagate.control.knot_step import Steps
from dynagate.control.riccati import CostToGo
from dynagate.control.riccati_blocks import Blocked
from dynagate.dynamics.configuration import advance, between
from dynagate.dynamics.spatial import absolute, both_signs, chosen, largest, select, zeros
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop
from dynagate.graph.ops import BEYOND
from dynagate.graph.recorder import Recording
from dynagate.robot import Robot

CLOSED = 1e-10
"""Largest entry of a gap, in rad, m, rad/s or m/s, with which a motion may have converged."""
GAPS = "gaps"
"""Gaps of a plan, (knots, 2 nv): the velocity that leads from the end of a knot's step to the next state."""
GAPS_NEW = f"{GAPS}_new"
"""Gaps of the accepted motion."""
NEXT = ("qs_next", "qds_next")
"""Inputs of the first iteration with the guess of the state after each knot."""


@dataclass(frozen=True)
class SingleShooting:
    """Each knot begins where the step of the knot before ends."""

    robot: Robot

    sums: ClassVar[Mapping[str, str]] = {}
    """Sums over the knots of the backward pass: result -> input."""
    plan: ClassVar[Mapping[str, str]] = {}
    """Values of each knot that the next iteration receives: name -> name in the line search."""
    carry: ClassVar[Mapping[str, str]] = {}
    """Further values that the next iteration receives."""
    numbers: ClassVar[tuple[str, ...]] = ()
    """Names of numbers () that the graphs of the line search and of its verdict read."""
    largest: ClassVar[Mapping[str, str]] = {}
    """Values that a rollout carries from knot to knot: result -> input."""
    guess: ClassVar[tuple[str, ...]] = ()
    """Names of inputs with an entry for each knot, of the first iteration."""

    begin: ClassVar[Mapping[str, float]] = {}
    """Further inputs of the first iteration."""
    ends: ClassVar[tuple[str, ...]] = ()
    """Results besides those of the plan."""

    def joined(self, steps: Steps) -> Steps:
        """Return the steps of a knot from q0 and qd0 to the next state, q_end and qd_end."""
        return steps

    def expected(self, x: Mapping[str, Any], fall: Any, alpha: Any) -> tuple[Any, Any]:
        """Return the decrease of merit that the line search expects, and the decrease that gaps add to the cost's.

        Args:
            x: The values of `numbers`, by name.
            fall: Decrease of the cost by the feed-forward term, to first order.
            alpha: Step length.
        """
        return fall * alpha * (1.0 + alpha * -0.5), 0.0

    def flat(self, x: Mapping[str, Any], fall: Any) -> Any:
        """Return the decrease below which every step is accepted."""
        return fall

    def remaining(self, accepted: Any, x: Mapping[str, Any], fall: Any) -> tuple[Any, dict[str, Any]]:
        """Return the decrease that decides whether a motion has converged, and further results of the rule."""
        return fall, {}

    def ahead(self, recording: Recording, value: CostToGo) -> tuple[CostToGo, dict[str, Any]]:
        """Return the cost to go about the end of a step, from that about the next state, and the results in `sums`."""
        return value, {}

    def in_blocks(self, blocks: Blocked, steps: Steps) -> Steps:
        """Return the steps of a backward pass in blocks, about the ends of steps."""
        return steps

    @classmethod
    def check_integers(cls) -> None:
        """Raise ArgumentError if fixed point has no such shooting."""


@dataclass(frozen=True)
class MultipleShooting(SingleShooting):
    """Each knot begins in a state of its own, until steps have closed the gaps."""

    sums: ClassVar[Mapping[str, str]] = {"rise_new": "rise_sum"}
    plan: ClassVar[Mapping[str, str]] = {GAPS: "gaps_try"}
    carry: ClassVar[Mapping[str, str]] = {"rise_new": "rise", "apart_new": "apart"}
    numbers: ClassVar[tuple[str, ...]] = ("rise", "apart", "apart_next")
    largest: ClassVar[Mapping[str, str]] = {"apart_next": "apart_most"}
    guess: ClassVar[tuple[str, ...]] = NEXT

    begin: ClassVar[Mapping[str, float]] = dict.fromkeys(("rise", "rise_sum", "apart", "apart_most"), 0.0)
    ends: ClassVar[tuple[str, ...]] = ("apart_new",)

    def joined(self, steps: Steps) -> Steps:
        reached = {"q_end": "q_reached", "qd_end": "qd_reached"}
        return (*(step.renamed(reached) for step in steps), self._joint())

    def _joint(self) -> Graph:
        """Return the graph from the end of a step to the next state, with the gap that is left."""
        robot, n = self.robot, self.robot.nv
        shapes: dict[str, tuple[int, ...]] = {"q_reached": (robot.nq,), "qd_reached": (n,), GAPS: (2 * n,)}
        shapes |= {"qs_next": (robot.nq,), "qds_next": (n,), **dict.fromkeys(("alpha", "opened", "apart_most"), ())}
        shapes["fresh"] = ()

        def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
            q, qd = x["q_reached"], x["qd_reached"]
            first = np.concatenate([between(robot, q, x["qs_next"]), x["qds_next"] - qd])
            opened = select(x["fresh"][()], x["opened"][()], 0.0)
            gap = chosen(opened, first, x[GAPS] * (1.0 - x["alpha"][()]))
            return {
                "q_end": advance(robot, q, gap[:n]),
                "qd_end": qd + gap[n:],
                "gaps_try": gap,
                "apart_next": largest(both_signs(gap), x["apart_most"][()]),
            }

        return recorded("gap", robot.name, shapes, record)

    def expected(self, x: Mapping[str, Any], fall: Any, alpha: Any) -> tuple[Any, Any]:
        """Return the expected decrease of a merit, cost + 2 w⁺ times the part of the gaps that is left.

        The quadratic model's cost changes by w - fall / 2 with a full step, in which w is the change as gaps close. The
        decrease of the merit is concave in the step length, so it is at least α times that of a full step.
        """
        own, _ = super().expected(x, fall, alpha)
        rise = x["rise"]
        return own + alpha * absolute(rise), alpha * 2.0 * select(rise, rise, 0.0)

    def flat(self, x: Mapping[str, Any], fall: Any) -> Any:
        return fall + absolute(x["rise"])

    def remaining(self, accepted: Any, x: Mapping[str, Any], fall: Any) -> tuple[Any, dict[str, Any]]:
        apart = select(accepted, x["apart_next"], x["apart"])
        return select(apart - CLOSED, BEYOND, fall), {"apart_new": apart}

    def ahead(self, recording: Recording, value: CostToGo) -> tuple[CostToGo, dict[str, Any]]:
        away = self._away(recording.input(GAPS_NEW, (2 * self.robot.nv,)), len(value.slope))
        bent, total = value.curvature @ away, recording.input("rise_sum", ())[()]
        rise = value.slope @ away + (bent @ away) * 0.5
        return CostToGo(value.slope + bent, value.curvature), {"rise_new": total + rise}

    def in_blocks(self, blocks: Blocked, steps: Steps) -> Steps:
        name, nx, (count, row) = self.robot.name, blocks.nx, blocks.state

        def split(x: Mapping[str, Array]) -> Mapping[str, Any]:
            away = self._away(x[GAPS_NEW], nx)
            return {"away": away, "away_rows": blocks.rows(away)}

        def bend(x: Mapping[str, Array]) -> Mapping[str, Any]:
            bent, own = x["curvature"] @ x["away"], x["away_rows"]
            rise = x["slope"] @ own + (bent @ own) * 0.5
            return {"slope_bent": x["slope"] + bent, "rise_new": x["rise_sum"][()] + rise}

        shapes = {"slope": (row,), "curvature": (row, nx), "away": (nx,), "away_rows": (row,), "rise_sum": ()}
        body = recorded("bent", name, shapes, bend, "riccati")
        rows = ("slope", "curvature", "away_rows")
        bent = Loop("bent_rows", name, (body,), self.sums, Count(count), rows, ("slope_bent",), tuple(self.sums))
        first = recorded("away", name, {GAPS_NEW: (2 * self.robot.nv,)}, split, "riccati")
        return (first, bent, *(step.renamed({"slope": "slope_bent"}) for step in steps))

    @staticmethod
    def _away(gap: Array, size: int) -> Array:
        """Return the way from the next state to the end of a step, in the numbers of a state."""
        return np.concatenate([-gap, zeros(size - len(gap))])

    @classmethod
    def check_integers(cls) -> None:
        raise ArgumentError(
            "shooting='multiple' in fixed point; expected shooting='single', whose motions have no gaps",
            code="DG-SOLVER-066",
        )


def shooting_class(multiple: bool) -> type[SingleShooting]:
    """Return the kind of shooting."""
    return MultipleShooting if multiple else SingleShooting
