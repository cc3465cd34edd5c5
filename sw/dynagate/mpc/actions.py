"""Crocoddyl action models with compiled dynamics and derivatives: a time step, and a cost on it."""

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


class StepDerivatives:
    """One time step of a robot at a single state, compiled to C in float64.

    The state is x = (q, q̇) (nq + nv,). The torques u (nu,) belong to the joints that have a motor, which excludes
    floating joints and those of `Robot.with_passive`.

    Args:
        robot: A robot, the name of one that ships, or the path of a URDF file.
        dt: Time step, s.
        options: integrator, form, constrained, and forces without inputs, as in `dynagate.Rollout`.

    Attributes:
        nu: Number of torques.
        state: Crocoddyl's state object, with directions (2 nv,), along velocities if the robot has quaternions.

    Raises:
        ArgumentError: An option is unknown.
        RobotError: The step is constrained and the robot has no constraints.
        CompileError: The C compiler is missing or failed.
    """

    def __init__(self, robot: RobotOrName, dt: float, **options: Any) -> None:
        self.robot = robot_of(robot)
        if dt is None:
            raise ArgumentError("dt=None for a step; expected a constant time step in seconds", code="DG-MPC-002")
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
        """Return the next state (nq + nv,).

        Args:
            x: State (nq + nv,), rad, m, rad/s and m/s.
            u: Torques (nu,), N m or N.
            active: (constraints,), 1 for an active constraint of a constrained step, else 0; None for all.
        """
        results = self._next(**self._inputs(x, u, active))
        return np.concatenate([results["q_next"][0], results["qd_next"][0]])

    def linearized(self, x: Floats, u: Floats, active: Floats | None = None) -> tuple[Floats, Floats]:
        """Return A = ∂x⁺/∂x (2 nv, 2 nv) and B = ∂x⁺/∂u (2 nv, nu). The next call overwrites A."""
        results = self._linear(**self._inputs(x, u, active))
        b: Floats = results["b"][0]
        return results["a"][0], b if self.nu == self.robot.nv else b[:, self.driven]


class ActionModel(crocoddyl.ActionModelAbstract):
    """A running knot of a Crocoddyl problem: x⁺ = step(x, u), with the cost ½ eᵀ diag(state) e + ½ uᵀ diag(torque) u.

    The error is e = x - target, along velocities if the robot has quaternions. A diverging step gives NaN, which
    Crocoddyl's line search rejects. For another cost, derive a class and override `calc_cost` and `calc_cost_diff`.

    Args:
        step: The time step, shared by all knots of a problem.
        target: Target state (nq + nv,).
        state_weights: Weights (2 nv,) of e.
        torque_weights: Weights (nu,) of u - hold.
        hold: Torques (nu,) without cost; zeros by default.
        active: (constraints,), 1 for each active constraint of a constrained step; all by default.

    Raises:
        ArgumentError: An array has a wrong shape, or `active` is not 0 or 1, or is set without a constrained step.
    """

    def __init__(
        self,
        step: StepDerivatives,
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
            raise ArgumentError(f"active is {self.active}; expected 0 or 1 for each constraint", code="DG-MPC-003")

    def calc(self, data: Any, x: Floats, u: Floats | None = None) -> None:
        data.xnext[:] = x if u is None else self.step.next(x, u, self.active)
        data.cost = self.calc_cost(x, u)

    def calcDiff(self, data: Any, x: Floats, u: Floats | None = None) -> None:
        self.calc_cost_diff(data, x, u)
        if u is not None:
            by_state, by_torque = self.step.linearized(x, u, self.active)
            data.Fx[:, :], data.Fu[...] = by_state, by_torque.reshape(data.Fu.shape)  # one torque: a vector

    def calc_cost(self, x: Floats, u: Floats | None) -> float:
        """Return the cost of the knot at x (nq + nv,) and u (nu,); u is None at the end of a problem."""
        away = self.state.diff(self.target, x)
        cost = 0.5 * float(away @ (self.state_weights * away))
        if u is not None:
            push = u - self.hold
            cost += 0.5 * float(push @ (self.torque_weights * push))
        return cost

    def calc_cost_diff(self, data: Any, x: Floats, u: Floats | None) -> None:
        """Fill data's Lx (2 nv,), Lxx (2 nv, 2 nv), Lu (nu,) and Luu (nu, nu) at x (nq + nv,) and u (nu,) or None.

        Lxx is the Gauss-Newton approximation: it neglects the derivative of ∂e/∂x.
        """
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
    """The last knot of a Crocoddyl problem: the cost of its state, without torques and without a step.

    Args:
        step: The time step, as in `ActionModel`.
        target: Target state (nq + nv,).
        state_weights: Weights (2 nv,) of the error.

    Raises:
        ArgumentError: An array has a wrong shape.
    """

    def __init__(self, step: StepDerivatives, target: npt.ArrayLike, state_weights: npt.ArrayLike) -> None:
        super().__init__(step, target, state_weights, np.zeros(step.nu))


def _of_shape(name: str, value: npt.ArrayLike, size: int) -> Floats:
    """Return an array (size,) of floats. Raise ArgumentError if it has another shape."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape != (size,):
        raise ArgumentError(f"{name} has shape {array.shape}; expected ({size},)", code="DG-MPC-004")
    return array
