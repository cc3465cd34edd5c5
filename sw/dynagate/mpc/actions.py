"""Crocoddyl action models whose dynamics and derivatives are compiled: a step in time, and the costs on top."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Floats
from dynagate.base.errors import ArgumentError
from dynagate.base.extras import brought_by
from dynagate.forces.options import StepOptions
from dynagate.integrators.linearized import linearized_step_graph
from dynagate.integrators.step import step_graph
from dynagate.mpc.state import Single, State
from dynagate.robot.checked import RobotOrName, robot_of

with brought_by("mpc", __name__):
    import crocoddyl


class Step:
    """One time step of a robot at a single state, x = (q, q̇) (nq + nv,) and torques u (nu,), in C and float64.

    robot: also the path of a URDF file, or the name of one that ships. dt: seconds. options: integrator, form,
    constrained and forces without inputs of `dynagate.Rollout`.
    u has the joints that something drives: not floating ones, and not those of `Robot.with_passive`.
    nu: how many. state: Crocoddyl's, of directions (2 nv,), along velocities where the robot has quaternions.
    Raises ValueError: an option is none of these; RobotError: constrained without constraints; CompileError.
    """

    def __init__(self, robot: RobotOrName, dt: float, **options: Any) -> None:
        self.robot = robot_of(robot)
        if dt is None:
            raise ArgumentError("dt=None for a step; expected a constant time step in seconds")
        chosen = StepOptions(dt, **options)
        undriven = set(self.robot.undriven)
        self.driven = [d for d in range(self.robot.nv) if d not in undriven]
        self.nu, self.constraints = len(self.driven), len(self.robot.constraints) if chosen.constrained else 0
        self.state = State(self.robot) if self.robot.quaternions() else crocoddyl.StateVector(2 * self.robot.nv)
        self._tau = np.zeros(self.robot.nv)
        self._next = Single(step_graph(self.robot, chosen))
        self._linear = Single(linearized_step_graph(self.robot, chosen))

    def _inputs(self, x: Floats, u: Floats, active: Floats | None) -> dict[str, Floats]:
        self._tau[self.driven] = u
        held = {"active": np.ones(self.constraints) if active is None else active} if self.constraints else {}
        return {"q": x[: self.robot.nq], "qd": x[self.robot.nq :], "tau": self._tau, **held}

    def next(self, x: Floats, u: Floats, active: Floats | None = None) -> Floats:
        """The next state (nq + nv,), from x (nq + nv,), rad, m, rad/s and m/s, and u (nu,), N m or N. active
        (constraints,): of a constrained step, 1 where one holds and 0 where not; None for all."""
        results = self._next(**self._inputs(x, u, active))
        return np.concatenate([results["q_next"][0], results["qd_next"][0]])

    def linearized(self, x: Floats, u: Floats, active: Floats | None = None) -> tuple[Floats, Floats]:
        """A (2 nv, 2 nv) = ∂x⁺/∂x and B (2 nv, nu) = ∂x⁺/∂u. A is written over by the next call."""
        results = self._linear(**self._inputs(x, u, active))
        b: Floats = results["b"][0]
        return results["a"][0], b if self.nu == self.robot.nv else b[:, self.driven]


class ActionModel(crocoddyl.ActionModelAbstract):
    """A running knot: x⁺ = step(x, u), and the cost ½ eᵀ diag(state) e + ½ uᵀ diag(torque) u with e = x - target, along
    velocities where the robot has quaternions.

    step: shared by all knots of a problem. target: (nq + nv,). state_weights: (2 nv,); torque_weights: (nu,), of
    u - hold. hold: (nu,), zeros unless given. active: (constraints,), 1 for each that a constrained step holds, all
    unless given. A diverging step gives NaN, which Crocoddyl's line search refuses.
    For costs of another form derive a class and override `calc_cost` and `calc_cost_diff`.
    Raises ValueError: an array of another shape, or active other than 0 or 1, or without a constrained step.
    """

    def __init__(
        self,
        step: Step,
        target: npt.ArrayLike,
        state_weights: npt.ArrayLike,
        torque_weights: npt.ArrayLike,
        hold: npt.ArrayLike | None = None,
        *,
        active: npt.ArrayLike | None = None,
    ) -> None:
        n, size = step.robot.nv, step.robot.nq + step.robot.nv
        super().__init__(step.state, step.nu, 0)
        self.step = step
        self.target = _of_shape("target", target, size)
        self.state_weights = _of_shape("state_weights", state_weights, 2 * n)
        self.torque_weights = _of_shape("torque_weights", torque_weights, step.nu)
        self.hold = _of_shape("hold", np.zeros(step.nu) if hold is None else hold, step.nu)
        self.active = None if active is None else _of_shape("active", active, step.constraints)
        if self.active is not None and not np.isin(self.active, (0.0, 1.0)).all():
            raise ArgumentError(f"active is {self.active}; expected 0 or 1 for each constraint")

    def calc(self, data: Any, x: Floats, u: Floats | None = None) -> None:
        data.xnext[:] = x if u is None else self.step.next(x, u, self.active)
        data.cost = self.calc_cost(x, u)

    def calcDiff(self, data: Any, x: Floats, u: Floats | None = None) -> None:
        self.calc_cost_diff(data, x, u)
        if u is not None:
            by_state, by_torque = self.step.linearized(x, u, self.active)
            data.Fx[:, :], data.Fu[...] = by_state, by_torque.reshape(data.Fu.shape)  # of one torque a vector

    def calc_cost(self, x: Floats, u: Floats | None) -> float:
        """The cost of the knot at x (nq + nv,) and u (nu,); u is None at the end of a problem."""
        away = self.state.diff(self.target, x)
        cost = 0.5 * float(away @ (self.state_weights * away))
        if u is not None:
            push = u - self.hold
            cost += 0.5 * float(push @ (self.torque_weights * push))
        return cost

    def calc_cost_diff(self, data: Any, x: Floats, u: Floats | None) -> None:
        """Fills data's Lx (2 nv,), Lxx (2 nv, 2 nv), Lu (nu,) and Luu (nu, nu) at x (nq + nv,) and u (nu,) or None. Lxx
        leaves out how the derivative of e changes."""
        weighted = self.state_weights * self.state.diff(self.target, x)
        if self.step.robot.quaternions():
            slope = self.state.Jdiff(self.target, x, crocoddyl.Jcomponent.second)
            data.Lx[:], data.Lxx[:, :] = slope.T @ weighted, slope.T @ (self.state_weights[:, None] * slope)
        else:
            data.Lx[:], data.Lxx[:, :] = weighted, np.diag(self.state_weights)
        if u is not None:
            data.Lu[:] = self.torque_weights * (u - self.hold)
            data.Luu[...] = np.diag(self.torque_weights).reshape(data.Luu.shape)


class TerminalModel(ActionModel):
    """The last knot: the cost of its state, no torques and no step. step, target, state_weights: as of `ActionModel`.
    Raises ValueError: an array of another shape."""

    def __init__(self, step: Step, target: npt.ArrayLike, state_weights: npt.ArrayLike) -> None:
        super().__init__(step, target, state_weights, np.zeros(step.nu))


def _of_shape(name: str, value: npt.ArrayLike, size: int) -> Floats:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != (size,):
        raise ArgumentError(f"{name} has shape {array.shape}; expected ({size},)")
    return array
