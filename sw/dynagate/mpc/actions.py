"""Crocoddyl action models whose dynamics and derivatives are compiled: a step in time, and the costs on top."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.base.extras import brought_by
from dynagate.integrators.linearised import linearised_step_graph
from dynagate.integrators.step import StepOptions, step_graph
from dynagate.native.kernel import Kernel
from dynagate.robot import RobotError
from dynagate.robot.checked import RobotOrName, robot_of

with brought_by("mpc", __name__):
    import crocoddyl

Array = npt.NDArray[np.float64]


class Step:
    """One time step of a robot at a single state, x = (q, q̇) (2 nv,) and torques u (nv,), in C and float64.

    robot: also the path of a URDF file, or the name of one that ships. dt: seconds. options: integrator, form,
    friction, friction_speed, stops and forces without inputs of `dynagate.Rollout`.
    Raises ValueError: an option is none of these; RobotError: the robot has quaternions; CompileError.
    """

    def __init__(self, robot: RobotOrName, dt: float, **options: Any) -> None:
        self.robot = robot_of(robot)
        if self.robot.nq != self.robot.nv:
            raise RobotError(f"robot '{self.robot.name}' has quaternions; expected joints of one degree of freedom")
        if dt is None:
            raise ArgumentError("dt=None for a step; expected a constant time step in seconds")
        chosen = StepOptions(dt, **options)
        self._next = _Single(step_graph(self.robot, chosen))
        self._linear = _Single(linearised_step_graph(self.robot, chosen))

    def next(self, x: Array, u: Array) -> Array:
        """The next state (2 nv,), from x (2 nv,), rad, m, rad/s and m/s, and u (nv,), N m or N."""
        results = self._next(x, u)
        return np.concatenate([results["q_next"][0], results["qd_next"][0]])

    def linearised(self, x: Array, u: Array) -> tuple[Array, Array]:
        """A (2 nv, 2 nv) = ∂x⁺/∂x and B (2 nv, nv) = ∂x⁺/∂u. The arrays are written over by the next call."""
        results = self._linear(x, u)
        return results["a"][0], results["b"][0]


class _Single:
    """A step's graph on arrays that stay where they are."""

    def __init__(self, graph: Any) -> None:
        kernel = Kernel(graph, np.float64)
        self._inputs, self._outputs = kernel.new_inputs(1), kernel.new_outputs(1)
        call = kernel.bound(self._inputs, kernel.written(self._outputs), 1)
        assert call is not None
        self._call, self._kernel = call, kernel

    def __call__(self, x: Array, u: Array) -> dict[str, Array]:
        n = len(u)
        self._inputs["q"][0], self._inputs["qd"][0], self._inputs["tau"][0] = x[:n], x[n:], u
        self._call()
        return self._outputs


class ActionModel(crocoddyl.ActionModelAbstract):
    """A running knot: x⁺ = step(x, u), and the cost ½ (x - target)ᵀ diag(state) (x - target) + ½ uᵀ diag(torque) u.

    step: shared by all knots of a problem. target: (2 nv,). state_weights: (2 nv,); torque_weights: (nv,), of u - hold.
    hold: (nv,), zeros unless given. A diverging step gives NaN, which Crocoddyl's line search refuses.
    For costs of another form derive a class and override `calc_cost` and `calc_cost_diff`.
    Raises ValueError: an array of another shape.
    """

    def __init__(
        self,
        step: Step,
        target: npt.ArrayLike,
        state_weights: npt.ArrayLike,
        torque_weights: npt.ArrayLike,
        hold: npt.ArrayLike | None = None,
    ) -> None:
        n = step.robot.nv
        super().__init__(crocoddyl.StateVector(2 * n), n, 0)
        self.step = step
        self.target = _of_shape("target", target, 2 * n)
        self.state_weights = _of_shape("state_weights", state_weights, 2 * n)
        self.torque_weights = _of_shape("torque_weights", torque_weights, n)
        self.hold = _of_shape("hold", np.zeros(n) if hold is None else hold, n)

    def calc(self, data: Any, x: Array, u: Array | None = None) -> None:
        data.xnext[:] = x if u is None else self.step.next(x, u)
        data.cost = self.calc_cost(x, u)

    def calcDiff(self, data: Any, x: Array, u: Array | None = None) -> None:
        self.calc_cost_diff(data, x, u)
        if u is not None:
            data.Fx[:, :], data.Fu[:, :] = self.step.linearised(x, u)

    def calc_cost(self, x: Array, u: Array | None) -> float:
        """The cost of the knot at x (2 nv,) and u (nv,); u is None at the end of a problem."""
        away = x - self.target
        cost = 0.5 * float(away @ (self.state_weights * away))
        if u is not None:
            push = u - self.hold
            cost += 0.5 * float(push @ (self.torque_weights * push))
        return cost

    def calc_cost_diff(self, data: Any, x: Array, u: Array | None) -> None:
        """Fills data's Lx (2 nv,), Lxx (2 nv, 2 nv), Lu (nv,) and Luu (nv, nv) at x (2 nv,) and u (nv,) or None."""
        data.Lx[:] = self.state_weights * (x - self.target)
        data.Lxx[:, :] = np.diag(self.state_weights)
        if u is not None:
            data.Lu[:] = self.torque_weights * (u - self.hold)
            data.Luu[:, :] = np.diag(self.torque_weights)


class TerminalModel(ActionModel):
    """The last knot: the cost of its state, no torques and no step. step, target, state_weights: as of `ActionModel`.
    Raises ValueError: an array of another shape."""

    def __init__(self, step: Step, target: npt.ArrayLike, state_weights: npt.ArrayLike) -> None:
        super().__init__(step, target, state_weights, np.zeros(step.robot.nv))


def _of_shape(name: str, value: npt.ArrayLike, size: int) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != (size,):
        raise ArgumentError(f"{name} has shape {array.shape}; expected ({size},)")
    return array
