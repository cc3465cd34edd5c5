"""Crocoddyl's state manifold for robots with quaternions: x = (q, q̇), with directions (2 nv,) along velocities."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.base.extras import brought_by
from dynagate.dynamics import tree_of
from dynagate.dynamics.configuration import advance, between, difference, integrate, neutral, normalized
from dynagate.graph import Graph
from dynagate.graph.derivatives import jacobian
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.native.kernel import Kernel
from dynagate.robot import Robot

with brought_by("mpc", __name__):
    import crocoddyl


class Single:
    """A graph compiled to C for one state, with fixed arrays for its inputs and results."""

    def __init__(self, graph: Graph) -> None:
        kernel = Kernel(graph, np.float64)
        self._inputs, self._outputs = kernel.new_inputs(1), kernel.new_outputs(1)
        call = kernel.bound(self._inputs, kernel.written(self._outputs), 1)
        assert call is not None
        self._call, self._kernel = call, kernel

    def __call__(self, **inputs: Floats) -> dict[str, Floats]:
        """Return the results by name (1, ...). The next call overwrites them."""
        for name, value in inputs.items():
            self._inputs[name][0] = value
        self._call()
        return self._outputs


class State(crocoddyl.StateAbstract):
    """The manifold of x = (q, q̇) (nq + nv,), where q moves as in `dynagate.integrate`. Directions are (2 nv,)."""

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot.nq + robot.nv, 2 * robot.nv)
        self.robot, self._random = robot, np.random.default_rng(0)
        self._difference = Single(_derivatives(robot, "between"))
        self._advance = Single(_derivatives(robot, "advance"))

    def _parts(self, x: Floats) -> tuple[Floats, Floats]:
        return x[: self.robot.nq], x[self.robot.nq :]

    def zero(self) -> Floats:
        """Return the neutral configuration at rest."""
        return np.concatenate([neutral(self.robot), np.zeros(self.robot.nv)])

    def rand(self) -> Floats:
        """Return a random state with numbers between -1 and 1."""
        drawn = self._random.uniform(-1.0, 1.0, self.robot.nq)
        return np.concatenate([normalized(self.robot, drawn), self._random.uniform(-1.0, 1.0, self.robot.nv)])

    def diff(self, x0: Floats, x1: Floats) -> Floats:
        """Return the direction (2 nv,) from x0 to x1."""
        (q0, v0), (q1, v1) = self._parts(x0), self._parts(x1)
        return np.concatenate([difference(self.robot, q0, q1), v1 - v0])

    def integrate(self, x: Floats, dx: Floats) -> Floats:
        """Return the state reached from x along a direction (2 nv,)."""
        q, v = self._parts(x)
        n = self.robot.nv
        return np.concatenate([integrate(self.robot, q, dx[:n]), v + dx[n:]])

    def Jdiff(self, x0: Floats, x1: Floats, firstsecond: Any = None) -> Any:
        """Return the derivatives (2 nv, 2 nv) of `diff` with respect to its first and second state."""
        result = self._difference(q=self._parts(x0)[0], q_next=self._parts(x1)[0])
        first, second = self._blocks(result["dmoved_dq"][0], -1.0), self._blocks(result["dmoved_dq_next"][0], 1.0)
        return _requested(firstsecond, first, second)

    def Jintegrate(self, x: Floats, dx: Floats, firstsecond: Any = None) -> Any:
        """Return the derivatives (2 nv, 2 nv) of `integrate` with respect to its state and direction."""
        q, v = self._parts(x)[0], dx[: self.robot.nv]
        result = self._advance(q=q, v=v, origin=integrate(self.robot, q, v))
        first, second = self._blocks(result["dmoved_dq"][0], 1.0), self._blocks(result["dmoved_dv"][0], 1.0)
        return _requested(firstsecond, first, second)

    def _blocks(self, of_configuration: Floats, of_velocity: float) -> Floats:
        """Return a derivative (2 nv, 2 nv) from its block for configurations and its factor for velocities."""
        n = self.robot.nv
        result = np.zeros((2 * n, 2 * n))
        result[:n, :n], result[n:, n:] = of_configuration, of_velocity * np.eye(n)
        return result


def _requested(firstsecond: Any, first: Floats, second: Floats) -> Any:
    """Return the derivatives that Crocoddyl requests by its enumeration."""
    if firstsecond == crocoddyl.Jcomponent.first:
        return first
    if firstsecond == crocoddyl.Jcomponent.second:
        return second
    return [first, second]


def _derivatives(robot: Robot, name: str) -> Graph:
    """Record the derivatives of a motion between configurations as a graph.

    "between" gives ∂moved/∂q and ∂moved/∂q_next, where `moved` is the velocity between two configurations. "advance"
    gives ∂moved/∂q and ∂moved/∂v, where `moved` is the configuration reached, along velocities at that configuration
    `origin`.
    """
    recording, sizes = Recording(name, robot.name), typical_sizes(tree_of(robot))
    units = tuple((part.start, part.stop) for part in robot.quaternions())
    q = recording.input("q", (robot.nq,), sizes["q"], unit_vectors=units)
    if name == "between":
        q_next = recording.input("q_next", (robot.nq,), sizes["q"], unit_vectors=units)
        graph = recording.graph({"moved": between(robot, q, q_next)})
        return jacobian(graph, inputs=["q", "q_next"], robot=robot)
    v = recording.input("v", (robot.nv,), sizes["qd"])
    origin = recording.input("origin", (robot.nq,), sizes["q"], unit_vectors=units)
    graph = recording.graph({"moved": between(robot, origin, advance(robot, q, v))})
    return jacobian(graph, inputs=["q", "v"], robot=robot)
