"""The linear-time variational integrator with all solvers and residuals of the paper, as loops over its links.

`dynagate.Rollout(robot, integrator="variational")` steps by RIQN on every device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.base.arguments import is_whole, of_shape, real
from dynagate.base.errors import ArgumentError, ArgumentTypeError, Error
from dynagate.dynamics import Tree
from dynagate.dynamics.recursions.invertible import check_invertible
from dynagate.integrators.limits import warn_beyond_limits
from dynagate.robot import Robot

from examples.papers.variational import steps as loops
from examples.papers.variational.device import DeviceSteps
from examples.papers.variational.links import check_joints, links_of
from examples.papers.variational.state import CONVERGED, PAST, TURNED, State, Steps
from examples.papers.variational.steps import RESIDUALS, SOLVERS, Method

Array = npt.NDArray[Any]
Inverse = Callable[[Array], Array]
"""Configurations (batch, nv) -> M⁻¹ (batch, nv, nv)."""

GUESSES = (1, 2, 3, 4)


@dataclass(frozen=True)
class Failure:
    """A trajectory that ended early. step: the one that failed; residual: its norm in N m s after the last iteration; q
    (nv,), qd (nv,): configuration and mean velocity of the last step that converged; reason: in words."""

    trajectory: int
    step: int
    residual: float
    q: Array
    qd: Array
    reason: str


class VariationalError(Error, RuntimeError):
    """Steps that failed. failures: one of each trajectory; trajectory: what was computed, NaN after a failure."""

    def __init__(self, failures: list[Failure], trajectory: Trajectory) -> None:
        self.failures, self.trajectory = failures, trajectory
        first, more = failures[0], len(failures) - 1
        others = f" (and {more} other trajector{'y' if more == 1 else 'ies'})" if more else ""
        super().__init__(
            f"step {first.step} of trajectory {first.trajectory}{others}: {first.reason}; the last good state is in "
            "the error's failures, what was computed in its trajectory"
        )


@dataclass(frozen=True)
class Trajectory:
    """Steps of one trajectory, or of a batch with one more axis in front.

    q (steps + 1, nv): configurations, the first one given; iterations (steps,): residual evaluations of each step;
    residuals (steps,): norm of its residual in N m s; dt: in s; state: to go on from; failures: trajectories that ended
    early, whose later numbers are NaN (iterations 0).
    """

    q: Array
    iterations: Array
    residuals: Array
    dt: float
    state: State
    failures: list[Failure]
    _links: Any = field(repr=False)

    @property
    def qd(self) -> Array:
        """Mean velocities of the steps (steps, nv)."""
        return np.diff(self.q, axis=-2) / self.dt

    def energy(self) -> Array:
        """Kinetic plus potential energy (steps,) in J, as the discrete Lagrangian has them: ½ Σ Vᵀ G V over a step and
        the mean of the potential at both ends."""
        q = self.q[None] if self.q.ndim == 2 else self.q
        kinetic, potential = np.empty((len(q), q.shape[1] - 1)), np.empty(q.shape[:2])
        for k, configurations in enumerate(q):
            loops.energies(self._links, np.ascontiguousarray(configurations), self.dt, kinetic[k], potential[k])
        total = kinetic + 0.5 * (potential[:, 1:] + potential[:, :-1])
        return total[0] if self.q.ndim == 2 else total


class Variational:
    """The linear-time variational integrator of Lee, Liu, Park & Srinivasa for trees of revolute and prismatic joints.

    dt: s. solver: "riqn", "newton" or "broyden". guess: 1 to 3, the paper's IG1 to IG3, or 4, the increments of the
    last four steps extrapolated. tolerance: of the residual impulse's norm, N m s. most: residual evaluations in a step
    before it has failed. residual: "increment", "printed" (DRNEA as the paper prints it) or "svi" (the midpoint
    baseline).
    inverse: a function of configurations (batch, nv) that returns M⁻¹ (batch, nv, nv) for RIQN's update, such as
    `device.device_inverse` has on a device; residuals stay in float64 on the host.

    Raises ValueError for an option that has no such value, RobotError that names a joint of another type or joints that
    move no mass.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float,
        solver: str = "riqn",
        guess: int = 3,
        tolerance: float = 1e-8,
        most: int = 30,
        residual: str = "increment",
        inverse: Inverse | None = None,
    ) -> None:
        _check_options(dt, solver, guess, tolerance, most, residual)
        if inverse is not None and (solver, residual) != ("riqn", "increment"):
            raise ArgumentError(
                f"solver '{solver}' with residual '{residual}' and an inverse of your own; expected 'riqn' and "
                "'increment'"
            )
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot is a {type(robot).__name__}; expected a dynagate.Robot")
        check_joints(robot)
        check_invertible(Tree(robot))
        self.robot, self.dt, self.guess = robot, float(dt), guess
        self.solver, self.residual, self.tolerance, self.most = solver, residual, float(tolerance), most
        self._links = links_of(robot)
        self._run = self._executor(inverse)

    def start(self, q0: npt.ArrayLike, qd0: npt.ArrayLike) -> State:
        """The state at configurations q0 and velocities qd0, (nv,) or (batch, nv): the discrete Legendre transform
        gives the momenta. Raises ValueError for other shapes or numbers that are not finite."""
        q, qd = self._vectors("q0", q0), self._vectors("qd0", qd0)
        if len(q) != len(qd):
            raise ArgumentError(f"q0 has {len(q)} trajectories and qd0 {len(qd)}; expected as many")
        last = np.ascontiguousarray(qd * self.dt)
        momentum = np.zeros((len(q), len(self.robot.links), 6))
        for k in range(len(q)):
            loops.begin(self._links, RESIDUALS[self.residual], q[k], last[k], momentum[k])
        return State(q, np.stack([last] * PAST), momentum, 0)

    def run(
        self,
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike,
        steps: int,
        *,
        tau: npt.ArrayLike | None = None,
        external: npt.ArrayLike | None = None,
        on_failure: str = "raise",
    ) -> Trajectory:
        """Steps from q0 at velocity qd0, (nv,) or (batch, nv).

        tau: joint forces in N m and N, (nv,), (batch, nv), or (steps, batch, nv) for each step. external: forces on the
        links [moment; force] at their origins in their frames, as the robot's file has these, (links, 6) or with the
        same axes in front; a single row for each trajectory is refused where there are as many steps, unless its axis
        of steps says which it is: (1, batch, nv). on_failure: "raise", or "keep" to return what was computed.
        Warns of joints that pass their limits. Raises ValueError for other shapes, or a tolerance below the floor that
        rounding sets; VariationalError where steps fail.
        """
        _check_run(steps, on_failure)
        state = self.start(q0, qd0)
        self._check_floor(state)
        trajectory = self.advance(state, steps, tau=tau, external=external, on_failure="keep")
        if np.ndim(q0) == 1:
            trajectory = replace(
                trajectory, q=trajectory.q[0], iterations=trajectory.iterations[0], residuals=trajectory.residuals[0]
            )
        return _judged(trajectory, on_failure)

    def advance(
        self,
        state: State,
        steps: int,
        *,
        tau: npt.ArrayLike | None = None,
        external: npt.ArrayLike | None = None,
        on_failure: str = "raise",
    ) -> Trajectory:
        """Further steps of a batch, as `run`: for forces that depend on the state. `Trajectory.state` goes on. Raises
        ValueError, too, for a state of another robot."""
        _check_run(steps, on_failure)
        state = self._checked(state)
        batch, nv, links = len(state.q), self.robot.nv, len(self.robot.links)
        torques = _per_step("tau", tau, steps, (batch, nv))
        forces = None if external is None else _per_step("external", external, steps, (batch, links, 6))
        before = state.past[0] / self.dt
        q, iterations, residuals, state, status, done = self._run(state, steps, torques, forces)
        failures = []
        for k in np.flatnonzero(status):
            last = int(done[k])
            q[k, last + 1 :], residuals[k, last + 1 :], iterations[k, last + 1 :] = np.nan, np.nan, 0
            qd = (q[k, last] - q[k, last - 1]) / self.dt if last else before[k]
            reason = self._reason(int(status[k]), float(residuals[k, last]), int(iterations[k, last]))
            failures.append(Failure(int(k), last, float(residuals[k, last]), q[k, last], qd, reason))
        warn_beyond_limits(self.robot, q)
        return _judged(Trajectory(q, iterations, residuals, self.dt, state, failures, self._links), on_failure)

    def convergence(self, q0: npt.ArrayLike, qd0: npt.ArrayLike) -> Array:
        """Norm of the residual in N m s after each evaluation of the first step from q0, qd0 (nv,), by the loops over
        links."""
        norms = self._first_step(self.start(q0, qd0), self.tolerance, self.most)
        return norms[~np.isnan(norms)]

    def floor(self, q0: npt.ArrayLike, qd0: npt.ArrayLike) -> float:
        """The smallest norm of the residual in N m s that rounding lets the first step reach: measured over twenty
        iterations after it has converged. q0, qd0: (nv,)."""
        return self._floor(self.start(q0, qd0))

    def _floor(self, state: State) -> float:
        return float(self._first_step(state, 0.0, self.most + 20)[-20:].min())

    def _first_step(self, state: State, tolerance: float, most: int) -> Array:
        """Norms (most,) of one step of the first trajectory, NaN after the one that ended it."""
        q, past, momentum = state.q[0].copy(), np.ascontiguousarray(state.past[:, 0]), state.momentum[0].copy()
        norms = np.full(most, np.nan)
        zeros, none = np.zeros(len(q)), np.zeros((0, 6))
        work = loops.workspace(len(q), SOLVERS[self.solver])
        loops.step(self._links, self._method(tolerance, most), q, past, state.age, momentum, zeros, none, norms, work)
        return norms

    def _check_floor(self, state: State) -> None:
        floor = self._floor(state)
        if self.tolerance < floor < np.inf:
            raise ArgumentError(
                f"tolerance {self.tolerance:g} N m s is below the floor of rounding, which is {floor:.2g} for robot "
                f"'{self.robot.name}' with the residual '{self.residual}' at dt {self.dt:g} s; expected "
                f"{10.0 * floor:.1g} or more"
            )

    def _executor(self, inverse: Inverse | None) -> Callable[[State, int, Array, Array | None], Steps]:
        """What takes steps with tau (steps or 1, batch, nv) and external (steps or 1, batch, links, 6)."""
        if inverse is not None:
            return DeviceSteps(
                self._links, inverse, self._aligned, guess=self.guess, dt=self.dt, tolerance=self.tolerance,
                most=self.most,
            ).run  # fmt: skip
        return self._by_loops

    def _method(self, tolerance: float, most: int) -> Method:
        """Of the loops over links."""
        return Method(RESIDUALS[self.residual], SOLVERS[self.solver], self.guess, self.dt, tolerance, most)

    def _by_loops(self, state: State, steps: int, tau: Array, external: Array | None) -> Steps:
        batch, nv = state.q.shape
        last, momentum, past = state.q.copy(), state.momentum.copy(), np.ascontiguousarray(state.past.swapaxes(0, 1))
        q = np.empty((batch, steps + 1, nv))
        q[:, 0] = last
        iterations, residuals = np.zeros((batch, steps), dtype=np.int64), np.full((batch, steps), np.nan)
        status = np.zeros(batch, dtype=np.int64)
        none, method = np.zeros((1, 0, 6)), self._method(self.tolerance, self.most)
        for k in range(batch):
            torques = np.array(tau[:, k], order="C")
            forces = none if external is None else self._aligned(external[:, min(k, external.shape[1] - 1)])
            status[k] = loops.advance(
                self._links, method, last[k], past[k], state.age, momentum[k], torques, forces, q[k, 1:],
                iterations[k], residuals[k],
            )  # fmt: skip
        following = State(last, past.swapaxes(0, 1), momentum, state.age + steps)
        done = np.count_nonzero(iterations, axis=1) - (status != CONVERGED)
        return Steps(q, iterations, residuals, following, status, done)

    def _aligned(self, external: Array) -> Array:
        """Forces (steps, links, 6) in axes turned to the joints'."""
        tree = Tree(self.robot, reduced=False)
        turned = [[np.concatenate(tree.external_force(i, row)) for i in tree.links] for row in external]
        return np.array(turned, dtype=np.float64)

    def _reason(self, status: int, residual: float, iterations: int) -> str:
        """Why a step failed, and what to do."""
        if status != TURNED:
            return (
                f"the residual is {residual:.3g} N m s after {iterations} iterations; expected {self.tolerance:g} "
                "(tolerance); take a smaller dt or another guess"
            )
        return (
            "a link or joint turns by 180 degrees in a step, where the logarithm is singular; take a smaller dt than "
            f"{self.dt:g} s"
        )

    def _checked(self, state: State) -> State:
        """A state as float64. Raises ValueError: its arrays are not those of this robot; TypeError: it is none."""
        if not isinstance(state, State):
            raise ArgumentTypeError(f"state is a {type(state).__name__}; expected that of a start or a trajectory")
        batch, nv = len(real("state.q", state.q)), self.robot.nv
        shapes = {"q": (batch, nv), "past": (PAST, batch, nv), "momentum": (batch, len(self.robot.links), 6)}
        arrays = {n: of_shape(f"state.{n}", getattr(state, n), shape, finite=False) for n, shape in shapes.items()}
        return State(**arrays, age=state.age)

    def _vectors(self, name: str, values: npt.ArrayLike) -> Array:
        array = np.array(real(name, values), dtype=np.float64, ndmin=2)
        if array.ndim != 2 or array.shape[1] != self.robot.nv or not len(array):
            raise ArgumentError(
                f"{name} has shape {np.shape(values)}; expected ({self.robot.nv},) or (batch, {self.robot.nv})"
            )
        wrong = np.argwhere(~np.isfinite(array))
        if len(wrong):
            raise ArgumentError(f"{name} of trajectory {wrong[0][0]} is not finite at {wrong[0][1]}")
        return array


def _per_step(name: str, values: npt.ArrayLike | None, steps: int, shape: tuple[int, ...]) -> Array:
    """Forces (steps or 1, *shape); zeros for None. Raises ValueError: another shape, or one that means two things."""
    if values is None:
        return np.zeros((1, *shape))
    array = real(name, values).astype(np.float64, copy=False)
    if array.shape == shape[1:]:
        array = np.broadcast_to(array, shape)
    if array.shape == shape and shape[0] == steps > 1:
        raise ArgumentError(
            f"{name} has shape {shape}, which may be a row for each of {steps} trajectories or of {steps} steps; "
            f"expected {(1, *shape)} or {(steps, *shape)}"
        )
    if array.shape == shape:
        array = array[None]
    if array.shape not in ((1, *shape), (steps, *shape)):
        raise ArgumentError(f"{name} has shape {np.shape(values)}; expected {shape[1:]}, {shape} or {(steps, *shape)}")
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name} is not finite at {tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])}")
    return array


def _check_options(dt: float, solver: str, guess: int, tolerance: float, most: int, residual: str) -> None:
    if not (np.isfinite(dt) and dt > 0.0):
        raise ArgumentError(f"dt {dt}; expected a positive number of seconds")
    if not (np.isfinite(tolerance) and tolerance > 0.0):
        raise ArgumentError(f"tolerance {tolerance}; expected a positive number of N m s")
    if most < 1:
        raise ArgumentError(f"most {most}; expected 1 iteration or more")
    for name, value, known in (
        ("solver", solver, tuple(SOLVERS)),
        ("residual", residual, tuple(RESIDUALS)),
        ("guess", guess, GUESSES),
    ):
        if value not in known:
            raise ArgumentError(f"{name} {value!r}; expected one of {', '.join(map(str, known))}")


def _check_run(steps: int, on_failure: str) -> None:
    if not (is_whole(steps) and steps >= 1):
        raise ArgumentError(f"{steps} steps; expected a whole number of 1 or more")
    if on_failure not in ("raise", "keep"):
        raise ArgumentError(f"on_failure '{on_failure}'; expected raise or keep")


def _judged(trajectory: Trajectory, on_failure: str) -> Trajectory:
    if trajectory.failures and on_failure == "raise":
        raise VariationalError(trajectory.failures, trajectory)
    return trajectory
