"""Reaching problems for Crocoddyl, with dynamics rolled out in float64 and derivatives from any backend."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.base.extras import brought_by
from dynagate.graph import trace
from dynagate.native.kernel import Kernel
from dynagate.robot import Robot, RobotError

with brought_by("mpc", __name__):
    import crocoddyl

RUNAWAY = 1e3
"""Position in rad or velocity in rad/s at which a controller or an iterate has failed."""

Derivatives = Callable[[dict[str, Floats]], dict[str, Floats]]
"""A function from {q, qd, tau}, (batch, n) each, to {dqdd_dq, dqdd_dqd, minv}, (batch, n, n) each."""


@dataclass(frozen=True)
class Reach:
    """A reaching problem: from rest at one configuration to rest at another, with a quadratic cost.

    When tracking, the reference moves by `sway` to both sides of the goal, and every torque is disturbed.
    """

    start: tuple[float, ...]
    """First configuration (nv,), rad or m."""
    goal: tuple[float, ...]
    """Last configuration (nv,), rad or m."""
    knots: int = 50
    """Number of steps."""
    dt: float = 0.02
    """Time step, s."""
    distance: float = 1.0
    """Weight of the squared distance from the goal."""
    velocity: float = 1e-2
    """Weight of squared velocities."""
    torque: float = 1e-4
    """Weight of squared torques in excess of those that hold the goal."""
    end: float = 1e2
    """Factor of the state weights at the last knot."""
    sway: float | tuple[float, ...] = 0.3
    """Amplitude of the reference when tracking, rad or m, for all joints or one per joint."""
    noise: float | tuple[float, ...] = 1.0
    """Standard deviation of the torque disturbance, N m or N, for all joints or one per joint."""


class _Batch:
    """The derivatives of all knots at once: the first knot that needs them computes those of every knot's latest
    state.
    """

    def __init__(self, knots: int, n: int, derivatives: Derivatives) -> None:
        self.x, self.u = np.zeros((knots, 2 * n)), np.zeros((knots, n))
        self._derivatives, self._n = derivatives, n
        self._done_x, self._done_u = np.full_like(self.x, np.nan), np.full_like(self.u, np.nan)
        self._values: dict[str, Floats] = {}

    def of(self, knot: int, x: Floats, u: Floats) -> tuple[Floats, Floats, Floats]:
        """Return ∂q̈/∂q, ∂q̈/∂q̇ and M⁻¹ (n, n) of one knot at state x and torques u."""
        self.x[knot], self.u[knot] = x, u
        if not (np.array_equal(self._done_x[knot], x) and np.array_equal(self._done_u[knot], u)):
            self._done_x, self._done_u = self.x.copy(), self.u.copy()
            n = self._n
            # Crocoddyl aborts the process if a Python model raises an exception
            x_all, u_all = (np.clip(np.nan_to_num(v), -1e6, 1e6) for v in (self.x, self.u))
            self._values = self._derivatives({"q": x_all[:, :n], "qd": x_all[:, n:], "tau": u_all})
        return tuple(self._values[key][knot] for key in ("dqdd_dq", "dqdd_dqd", "minv"))


class _Step(crocoddyl.ActionModelAbstract):
    """One step of semi-implicit Euler, v' = v + q̈ dt and q' = q + v' dt, and its part of the cost."""

    def __init__(self, reach: Reach, knot: int, batch: _Batch, model: Robotics, hold: Floats, target: Floats) -> None:
        self.n = len(reach.start)
        super().__init__(crocoddyl.StateVector(2 * self.n), self.n, 0)
        self._reach, self._knot, self._batch, self._model, self._hold = reach, knot, batch, model, hold
        self._target = target
        self._weights = np.array([reach.distance] * self.n + [reach.velocity] * self.n)

    def calc(self, data: Any, x: Floats, u: Floats | None = None) -> None:
        away = x - self._target
        data.cost = 0.5 * self._reach.dt * float(away @ (self._weights * away))
        if u is None:
            data.xnext[:] = x
            return
        push = u - self._hold
        data.cost += 0.5 * self._reach.dt * self._reach.torque * float(push @ push)
        data.xnext[:] = self._model.step(x, u, self._reach.dt)
        self._batch.x[self._knot], self._batch.u[self._knot] = x, u

    def calcDiff(self, data: Any, x: Floats, u: Floats | None = None) -> None:
        n, dt = self.n, self._reach.dt
        data.Lx[:] = dt * self._weights * (x - self._target)
        data.Lxx[:, :] = np.diag(dt * self._weights)
        if u is None:
            return
        data.Lu[:] = dt * self._reach.torque * (u - self._hold)
        data.Luu[:, :] = np.eye(n) * dt * self._reach.torque
        by_q, by_qd, by_tau = self._batch.of(self._knot, x, u)
        velocity_by_x = np.hstack([dt * by_q, np.eye(n) + dt * by_qd])
        data.Fx[:, :] = np.vstack([np.hstack([np.eye(n), np.zeros((n, n))]) + dt * velocity_by_x, velocity_by_x])
        data.Fu[:, :] = np.vstack([dt * dt * by_tau, dt * by_tau])


class _End(_Step):
    """The cost of the last state."""

    def __init__(self, reach: Reach, batch: _Batch, model: Robotics, hold: Floats, target: Floats) -> None:
        super().__init__(reach, 0, batch, model, hold, target)
        self._weights = self._weights * reach.end / reach.dt


@dataclass(frozen=True)
class ReachSolution:
    """Result of a solver."""

    success: bool
    """Whether the solver converged."""
    iterations: int
    """Number of iterations."""
    cost: float
    """Cost of the trajectory, rolled out in float64."""
    states: Floats
    """States (knots + 1, 2 nv)."""
    torques: Floats
    """Torques (knots, nv), N m or N."""


class Robotics:
    """Compiled float64 dynamics of a robot. Raises RobotError if the robot has quaternions."""

    def __init__(self, robot: Robot) -> None:
        if robot.nq != robot.nv:
            raise RobotError(
                f"robot '{robot.name}' has quaternions; expected joints of one degree of freedom", code="DG-MPC-006"
            )
        self.robot = robot
        self._forward = Kernel(trace(robot, "forward_dynamics"), np.float64)
        self._inverse = Kernel(trace(robot, "inverse_dynamics"), np.float64)

    def torque(self, q: Floats, qd: Floats, qdd: Floats) -> Floats:
        """Return the joint torques τ (n,) for accelerations qdd (n,)."""
        outputs = self._inverse.new_outputs(1)
        self._inverse({"q": q[None], "qd": qd[None], "qdd": qdd[None]}, self._inverse.written(outputs), 1)
        return np.asarray(outputs["tau"][0])

    def step(self, x: Floats, u: Floats, dt: float) -> Floats:
        """Return the state (2 nv,) after one step of semi-implicit Euler."""
        n = self.robot.nv
        outputs = self._forward.new_outputs(1)
        self._forward({"q": x[None, :n], "qd": x[None, n:], "tau": u[None]}, self._forward.written(outputs), 1)
        velocity = x[n:] + dt * outputs["qdd"][0]
        return np.concatenate([x[:n] + dt * velocity, velocity])


def solve(robot: Robot, reach: Reach, derivatives: Derivatives, *, iterations: int = 100) -> ReachSolution:
    """Return the optimal trajectory by feasibility-driven DDP. Raise RobotError if the reach does not fit the robot."""
    model = Robotics(robot)
    if len(reach.start) != robot.nv or len(reach.goal) != robot.nv:
        raise RobotError(
            f"reaching needs a start and a goal of {robot.nv} angles for robot '{robot.name}'", code="DG-MPC-007"
        )
    still = np.zeros(robot.nv)
    hold = model.torque(np.array(reach.goal), still, still)
    target = np.concatenate([reach.goal, still])
    start = np.concatenate([reach.start, still])
    solver = _solver(model, reach, derivatives, start, [target] * (reach.knots + 1), [hold] * reach.knots)
    guess = [start.copy() for _ in range(reach.knots + 1)]
    with _interrupts_wait():
        done = solver.solve(guess, [hold.copy() for _ in range(reach.knots)], iterations, False)
    return ReachSolution(bool(done), int(solver.iter), float(solver.cost), np.array(solver.xs), np.array(solver.us))


def _solver(
    model: Robotics,
    reach: Reach,
    derivatives: Derivatives,
    start: Floats,
    targets: Sequence[Floats],
    holds: Sequence[Floats],
) -> Any:
    """Return Crocoddyl's solver for a reaching problem."""
    batch = _Batch(reach.knots, model.robot.nv, derivatives)
    steps = [_Step(reach, k, batch, model, holds[k], targets[k]) for k in range(reach.knots)]
    end = _End(reach, batch, model, holds[-1], targets[-1])
    solver = crocoddyl.SolverFDDP(crocoddyl.ShootingProblem(start, steps, end))
    solver.th_stop = 1e-7
    return solver


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Delay Ctrl-C until the solver ends, because Crocoddyl aborts the process if a Python model raises an
    exception.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives Ctrl-C
        yield
        return
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt


TRACKED = {"knots": 15, "distance": 100.0, "velocity": 1.0, "torque": 1e-4, "end": 1.0}
"""Fields of a `Reach` for plans that follow a path."""


def track(
    robot: Robot,
    path: Callable[[float], tuple[Floats, Floats, Floats]],
    derivatives: Derivatives,
    *,
    plans: Mapping[str, Any] | None = None,
    seconds: float = 2.0,
    iterations: int = 2,
    seed: int = 1,
    start: Floats | None = None,
) -> Floats:
    """Return the tracking error (steps, n) in rad of a receding-horizon controller with disturbed torques.

    Each step takes a few solver iterations, from the last step's solution shifted by one knot.

    Args:
        robot: The robot.
        path: Function from seconds to q, q̇ and q̈.
        derivatives: Derivatives that the controller uses.
        plans: Fields of the `Reach` that each plan solves, in place of those of TRACKED. `noise` is the standard
            deviation of the torque disturbance in N m, one number or one per joint.
        seconds: Length of the motion, s.
        iterations: Solver iterations per step.
        seed: Seed of the disturbance.
        start: First state (2 nv,); the path's by default.
    """
    model = Robotics(robot)
    random = np.random.default_rng(seed)
    n = robot.nv
    reach = Reach((0.0,) * n, (0.0,) * n, **{**TRACKED, **(plans or {})})
    horizon, dt, steps = reach.knots, reach.dt, round(seconds / reach.dt)
    x = np.concatenate(path(0.0)[:2]) if start is None else start
    xs: list[Floats] | None = None
    us: list[Floats] = []
    errors = []
    for step in range(steps):
        references = [path((step + k) * dt) for k in range(horizon + 1)]
        holds = [model.torque(*w) for w in references[:-1]]
        solver = _solver(model, reach, derivatives, x, [np.concatenate(w[:2]) for w in references], holds)
        if xs is None:
            xs, us = [np.concatenate(w[:2]) for w in references], list(holds)
        xs[0] = x
        with _interrupts_wait():
            solver.solve(xs, us, iterations, False)
        x = model.step(x, np.array(solver.us[0]) + np.asarray(reach.noise) * random.normal(size=n), dt)
        xs = [np.array(s) for s in solver.xs[1:]] + [np.array(solver.xs[-1])]
        us = [np.array(u) for u in solver.us[1:]] + [np.array(solver.us[-1])]
        if not np.all(np.abs(x) < RUNAWAY):
            return np.full((steps, n), np.inf)
        errors.append(x[:n] - path((step + 1) * dt)[0])
    return np.array(errors)
