"""Reaching with Crocoddyl: dynamics rolled out in float64, their derivatives from any backend."""

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
"""rad or rad/s: a controller that gets there has failed, and so has an iterate."""

Derivatives = Callable[[dict[str, Floats]], dict[str, Floats]]
"""{q, qd, tau}, (batch, n) each -> {dqdd_dq, dqdd_dqd, minv}, (batch, n, n) each."""


@dataclass(frozen=True)
class Reach:
    """From rest at `start` to rest at `goal` (rad or m), `knots` steps of `dt` seconds. Weights of the squared distance
    from the goal, of velocities, of torques beyond those that hold the goal, and of the end. When tracking, the
    reference moves by `sway` (rad or m) to both sides of the goal, and every torque is disturbed with the standard
    deviation `noise` (N m or N): for all joints, or one a joint."""

    start: tuple[float, ...]
    goal: tuple[float, ...]
    knots: int = 50
    dt: float = 0.02
    distance: float = 1.0
    velocity: float = 1e-2
    torque: float = 1e-4
    end: float = 1e2
    sway: float | tuple[float, ...] = 0.3
    noise: float | tuple[float, ...] = 1.0


class _Batch:
    """The derivatives of all knots at once: the first knot that asks computes those of every knot's last state."""

    def __init__(self, knots: int, n: int, derivatives: Derivatives) -> None:
        self.x, self.u = np.zeros((knots, 2 * n)), np.zeros((knots, n))
        self._derivatives, self._n = derivatives, n
        self._done_x, self._done_u = np.full_like(self.x, np.nan), np.full_like(self.u, np.nan)
        self._values: dict[str, Floats] = {}

    def of(self, knot: int, x: Floats, u: Floats) -> tuple[Floats, Floats, Floats]:
        self.x[knot], self.u[knot] = x, u
        if not (np.array_equal(self._done_x[knot], x) and np.array_equal(self._done_u[knot], u)):
            self._done_x, self._done_u = self.x.copy(), self.u.copy()
            n = self._n
            # Crocoddyl ends the program where a Python model raises
            x_all, u_all = (np.clip(np.nan_to_num(v), -1e6, 1e6) for v in (self.x, self.u))
            self._values = self._derivatives({"q": x_all[:, :n], "qd": x_all[:, n:], "tau": u_all})
        return tuple(self._values[key][knot] for key in ("dqdd_dq", "dqdd_dqd", "minv"))


class _Step(crocoddyl.ActionModelAbstract):
    """One step of semi-implicit Euler, v' = v + q̈ dt and q' = q + v' dt, and its share of the cost."""

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
    """The last state's cost."""

    def __init__(self, reach: Reach, batch: _Batch, model: Robotics, hold: Floats, target: Floats) -> None:
        super().__init__(reach, 0, batch, model, hold, target)
        self._weights = self._weights * reach.end / reach.dt


@dataclass(frozen=True)
class Solution:
    """success: the solver converged, iterations: that it took, cost: of the trajectory rolled out in float64."""

    success: bool
    iterations: int
    cost: float
    states: Floats
    torques: Floats


class Robotics:
    """A robot's float64 dynamics, compiled. Raises RobotError: its configuration is no vector of angles."""

    def __init__(self, robot: Robot) -> None:
        if robot.nq != robot.nv:
            raise RobotError(f"robot '{robot.name}' has quaternions; expected joints of one degree of freedom")
        self.robot = robot
        self._forward = Kernel(trace(robot, "forward_dynamics"), np.float64)
        self._inverse = Kernel(trace(robot, "inverse_dynamics"), np.float64)

    def torque(self, q: Floats, qd: Floats, qdd: Floats) -> Floats:
        """τ (n,)."""
        outputs = self._inverse.new_outputs(1)
        self._inverse({"q": q[None], "qd": qd[None], "qdd": qdd[None]}, self._inverse.written(outputs), 1)
        return np.asarray(outputs["tau"][0])

    def step(self, x: Floats, u: Floats, dt: float) -> Floats:
        """The state after one step of semi-implicit Euler."""
        n = self.robot.nv
        outputs = self._forward.new_outputs(1)
        self._forward({"q": x[None, :n], "qd": x[None, n:], "tau": u[None]}, self._forward.written(outputs), 1)
        velocity = x[n:] + dt * outputs["qdd"][0]
        return np.concatenate([x[:n] + dt * velocity, velocity])


def solve(robot: Robot, reach: Reach, derivatives: Derivatives, *, iterations: int = 100) -> Solution:
    """The trajectory by feasibility-driven DDP. Raises RobotError: the reach is not one of this robot."""
    model = Robotics(robot)
    if len(reach.start) != robot.nv or len(reach.goal) != robot.nv:
        raise RobotError(f"reaching needs a start and a goal of {robot.nv} angles for robot '{robot.name}'")
    still = np.zeros(robot.nv)
    hold = model.torque(np.array(reach.goal), still, still)
    target = np.concatenate([reach.goal, still])
    start = np.concatenate([reach.start, still])
    solver = _solver(model, reach, derivatives, start, [target] * (reach.knots + 1), [hold] * reach.knots)
    guess = [start.copy() for _ in range(reach.knots + 1)]
    with _interrupts_wait():
        done = solver.solve(guess, [hold.copy() for _ in range(reach.knots)], iterations, False)
    return Solution(bool(done), int(solver.iter), float(solver.cost), np.array(solver.xs), np.array(solver.us))


def _solver(
    model: Robotics,
    reach: Reach,
    derivatives: Derivatives,
    start: Floats,
    targets: Sequence[Floats],
    holds: Sequence[Floats],
) -> Any:
    batch = _Batch(reach.knots, model.robot.nv, derivatives)
    steps = [_Step(reach, k, batch, model, holds[k], targets[k]) for k in range(reach.knots)]
    end = _End(reach, batch, model, holds[-1], targets[-1])
    solver = crocoddyl.SolverFDDP(crocoddyl.ShootingProblem(start, steps, end))
    solver.th_stop = 1e-7
    return solver


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Ctrl-C counts at the end: Crocoddyl aborts the process where a Python model raises while it solves."""
    if threading.current_thread() is not threading.main_thread():  # the only one that receives it
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
"""Fields of a `Reach` whose plans follow a path."""


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
    """Tracking error (steps, n) in rad of a receding-horizon controller whose torques are disturbed.

    path: seconds -> q, q̇, q̈. plans: fields of the `Reach` that each plan solves, in place of those of TRACKED: `noise`
    is the standard deviation in N m of the disturbance of every torque, seeded; one, or one a joint. Each step takes
    this many solver iterations from the last step's solution, shifted. start: the state (2 nv,); the path's unless
    given.
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
