"""The backward pass of iLQR over the knots: one graph for each knot, or loops over blocks of its matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.control.cost import DT, CostGraphs, Expansion
from dynagate.control.forward import split_states, with_cost
from dynagate.control.knot_step import KnotStep, Steps
from dynagate.control.numbers import Floats
from dynagate.control.riccati import CostToGo, Gains, moved, regularized, riccati
from dynagate.control.riccati_blocks import LARGEST_UNROLLED, Blocked
from dynagate.control.shooting import SingleShooting
from dynagate.control.terminal_unit import OneUnit
from dynagate.control.torque_bounds import FreeTorques
from dynagate.dynamics.spatial import select, zeros
from dynagate.graph import Graph
from dynagate.graph.derivatives import output_values
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording
from dynagate.robot import Robot

NOW = {"q": "qs_new", "qd": "qds_new", "tau": "us_new"}
"""Names in the backward pass of the state and torques of a knot."""
SUMS = {"fall_new": "fall_sum", "right_new": "right_sum"}
"""Values that are summed over the knots."""


@dataclass(frozen=True)
class Backward:
    """A backward pass in which each knot is a graph without inner loops."""

    robot: Robot
    """The robot."""
    costs: CostGraphs
    """The cost."""
    step: KnotStep
    """The step from knot to knot."""
    numbers: Floats
    """The arithmetic: floating point, or integers of a chip."""
    torques: FreeTorques
    """The bounds of torques."""
    unit: OneUnit
    """The unit of the cost, for formats of integers."""
    shooting: SingleShooting
    """The gaps between knots."""

    def sweep(self, knots: int, each: tuple[str, ...]) -> Loop:
        """Return the loop from the last knot to the first, given the inputs of each knot besides its state and
        torques.
        """
        steps, linear = self.step.derivatives(NOW)
        return Loop(
            "sweep",
            self.robot.name,
            (*split_states(self.step, "drives_new"), *steps, self._driven(linear), *self._knot()),
            {"slope_next": "slope", "curvature_next": "curvature", **SUMS, **self.shooting.sums, **self.unit.carry},
            Count(knots),
            (*NOW.values(), *(("drives_new",) if self.step.states else ()), *self._gaps, *each),
            ("gains_new", "feeds_new"),
            (*SUMS, *self.numbers.first_gain, *self.shooting.sums),
            backwards=True,
        )

    def end(self) -> Graph:
        """Return the graph of the value of the last state."""

        def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
            reg = recording.input("reg_now", ())[()]
            cost = self._of_states(self.costs.final.expansion(recording, values))
            return self._begun(CostToGo(cost.by_x, regularized(cost.by_xx, reg)))

        return with_cost(self.costs, "end", True, record).named({"q": "q_last_new", "qd": "qd_last_new"}, {})

    @property
    def _gaps(self) -> tuple[str, ...]:
        return tuple(f"{name}_new" for name in self.shooting.plan)

    def _begun(self, value: CostToGo) -> dict[str, Any]:
        return self.unit.begun(value)

    def _derivatives(self, a: Array, b: Array) -> dict[str, Array]:
        """Return the derivatives of a step, by the state and by the torques that there are, as `_knot` reads them."""
        return {"a": a, "b": b}

    def _driven(self, linear: Graph) -> Graph:
        """Return the graph of a step's derivatives by the state and by the torques that there are."""
        recording = Recording(linear.name, linear.robot)
        values = recording.replay(linear, {port.name: recording.input_like(port) for port in linear.inputs})
        outputs = output_values(linear.outputs, values)
        return recording.graph(self._derivatives(outputs["a"], outputs["b"][:, self.torques.driven]))

    def _knot(self) -> Steps:
        n, nx, nu = self.robot.nv, self.step.size, len(self.torques.driven)

        def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
            slope, curvature = recording.input("slope", (nx,)), recording.input("curvature", (nx, nx), symmetric=True)
            a, b = recording.input("a", (nx, nx)), recording.input("b", (nx, nu))
            sums = {name: recording.input(name, ()) for name in ("reg_now", *SUMS.values())}
            after, rise = self.shooting.ahead(recording, CostToGo(slope, curvature))
            if self.step.moves_by_velocity:
                unit = np.eye(n, nx).astype(object)
                after, a, b = (
                    moved(after, values[DT][()] if self.step.dt is None else self.step.dt),
                    np.concatenate([unit, a[n:]]),
                    np.concatenate([zeros(n, nu), b[n:]]),
                )
            cost = self._of_driven(self.costs.running.expansion(recording, values))
            held, reg = self.torques.held({"us_new": values["tau"]}), sums["reg_now"][()]

            def solve(cost: Expansion, reg: Any) -> tuple[CostToGo, Gains]:
                return riccati(after, a, b, cost, reg, held, finite=self.numbers.finite)

            value, gains = self.unit.back(recording, solve, cost, reg)
            return {**value, **rise, **self._gains(sums, gains)}

        return (with_cost(self.costs, "riccati", False, record).named(NOW, {}),)

    def _gains(self, sums: Mapping[str, Array], gains: Gains) -> Mapping[str, Any]:
        """Return the gains of all joints, of which passive ones have none, and sums over the knots."""
        gain, feed = zeros(self.robot.nv, self.step.size), zeros(self.robot.nv)
        gain[self.torques.driven], feed[self.torques.driven] = gains.gain, gains.feed
        return {
            **self.numbers.gains(gain, feed),
            "fall_new": sums["fall_sum"][()] + gains.fall,
            "right_new": select(gains.right, sums["right_sum"][()], 0.0),
        }

    def _of_driven(self, cost: Expansion) -> Expansion:
        """Return a cost by the states, and by the torques that there are."""
        k, cost = self.torques.driven, self._of_states(cost)
        return cost._replace(by_u=cost.by_u[k], by_ux=cost.by_ux[k], by_uu=cost.by_uu[np.ix_(k, k)])

    def _of_states(self, cost: Expansion) -> Expansion:
        """Return a cost of q and q̇ as one of the states, which include those of actuators."""
        more = self.step.size - len(cost.by_x)
        if not more:
            return cost
        by_ux = np.concatenate([cost.by_ux, zeros(len(cost.by_ux), more)], axis=1)
        by_xx = np.concatenate([cost.by_xx, zeros(len(cost.by_xx), more)], axis=1)
        by_xx = np.concatenate([by_xx, zeros(more, self.step.size)])
        return cost._replace(by_x=np.concatenate([cost.by_x, zeros(more)]), by_xx=by_xx, by_ux=by_ux)


class BlockedBackward(Backward):
    """A backward pass of a robot with many joints, in blocks of its matrices."""

    @property
    def _blocks(self) -> Blocked:
        return Blocked(self.step.size, len(self.torques.driven))

    def _begun(self, value: CostToGo) -> dict[str, Any]:
        return {"slope": self._blocks.rows(value.slope), "curvature": self._blocks.rows(value.curvature)}

    def _derivatives(self, a: Array, b: Array) -> dict[str, Array]:
        return {"a": a, "b": b, "a_rows": self._blocks.rows(a.T), "b_rows": self._blocks.pushes(b.T)}

    def _knot(self) -> Steps:
        others: dict[str, tuple[int, ...]] = {"fall_sum": (), "right_sum": (), **self.torques.shapes}
        solve = self._blocks.solve_graph(self.robot.name, others, self.torques.held, self._gains)
        steps = self._blocks.steps(self.robot.name, solve)
        return (self._expansion(), *self.shooting.in_blocks(self._blocks, steps))

    def _expansion(self) -> Graph:
        """Return the graph of the cost of a knot about its state, in blocks."""
        rows, pushes = self._blocks.rows, self._blocks.pushes

        def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
            reg = recording.input("reg_now", ())[()]
            cost = self._of_driven(self.costs.running.expansion(recording, values))
            by_u = {"cost_u": pushes(cost.by_u), "cost_ux": pushes(cost.by_ux), "cost_uu": pushes(cost.by_uu)}
            return {"cost_x": rows(cost.by_x), "cost_xx": rows(regularized(cost.by_xx, reg)), **by_u}

        return with_cost(self.costs, "expansion", False, record).named(NOW, {})


def backward_class(step: KnotStep) -> type[Backward]:
    """Return the kind of backward pass for steps from knot to knot."""
    return BlockedBackward if step.size > LARGEST_UNROLLED else Backward
