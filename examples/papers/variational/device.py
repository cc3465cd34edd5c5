"""RIQN with M⁻¹ from elsewhere: a device computes M⁻¹ once a step, the host keeps the residual in float64.

The update only leads to the root, which the residual defines. So an inverse with few digits takes more iterations and
the result is as exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.robot import Robot

from examples.papers.compiled import fused
from examples.papers.variational.articulated import factorize, pose
from examples.papers.variational.links import Links
from examples.papers.variational.loops import prepare, residual
from examples.papers.variational.state import CONVERGED, TURNED, UNSOLVED, State, Steps
from examples.papers.variational.steps import SINGULAR, guess_increment

Array = npt.NDArray[Any]


@fused
def start_batch(
    links: Links,
    guess: int,
    q: np.ndarray,
    past: np.ndarray,
    age: int,
    momentum: np.ndarray,
    tau: np.ndarray,
    external: np.ndarray,
    dt: float,
    rotation: np.ndarray,
    offset: np.ndarray,
    load: np.ndarray,
    impulse: np.ndarray,
    delta: np.ndarray,
) -> None:
    """What a step keeps and its first guess, of each trajectory: all arrays (batch, ...), past (4, batch, links)."""
    n = q.shape[1]
    u, d, work = np.empty((n, 6)), np.empty(n), np.empty((n, 6))
    for k in range(len(q)):
        pose(links, q[k], rotation[k], offset[k])
        factorize(links, rotation[k], offset[k], u, d)
        own = np.ascontiguousarray(past[:, k])
        guess_increment(links, guess, rotation[k], offset[k], u, d, own, age, tau[k], external[k], dt, delta[k], work)
        share = 1.0 if age else 0.5
        prepare(links, rotation[k], offset[k], own[0], momentum[k], tau[k], external[k], dt, share, load[k], impulse[k])


@fused
def residual_batch(
    links: Links,
    active: np.ndarray,
    rotation: np.ndarray,
    offset: np.ndarray,
    delta: np.ndarray,
    load: np.ndarray,
    impulse: np.ndarray,
    dt: float,
    f: np.ndarray,
    momentum: np.ndarray,
    widest: np.ndarray,
) -> None:
    """f, momentum and widest of the active trajectories."""
    n = f.shape[1]
    moved, work = np.empty((n, 7)), np.empty((n, 6))
    for k in active:
        widest[k] = residual(
            links, rotation[k], offset[k], delta[k], load[k], impulse[k], dt, moved, f[k], momentum[k], work
        )


class DeviceSteps:
    """Steps of a batch with M⁻¹ of `inverse`, a function of q (batch, nv). aligned: turns forces (batch, links, 6) into
    the joints' axes; guess, dt, tolerance, most: as `Variational` takes them."""

    def __init__(
        self,
        links: Links,
        inverse: Callable[[Array], Array],
        aligned: Callable[[Array], Array],
        *,
        guess: int,
        dt: float,
        tolerance: float,
        most: int,
    ) -> None:
        self._links, self._inverse, self._aligned = links, inverse, aligned
        self._guess, self._dt, self._tolerance, self._most = guess, dt, tolerance, most

    def run(self, state: State, steps: int, tau: Array, external: Array | None) -> Steps:
        """tau (steps or 1, batch, nv), external (steps or 1, batch, links, 6)."""
        batch, nv = state.q.shape
        q = np.empty((batch, steps + 1, nv))
        q[:, 0] = state.q
        iterations, residuals = np.zeros((batch, steps), dtype=np.int64), np.empty((batch, steps))
        status, done = np.full(batch, CONVERGED), np.full(batch, steps)
        forces = np.zeros((1, batch, len(self._links.parent), 6)) if external is None else external
        with np.errstate(all="ignore"):
            for k in range(steps):
                pushed = self._aligned(forces[min(k, len(forces) - 1)])
                state, iterations[:, k], residuals[:, k], ended = self._step(state, tau[min(k, len(tau) - 1)], pushed)
                new = (status == CONVERGED) & (ended != CONVERGED)
                status[new], done[new] = ended[new], k
                q[:, k + 1] = state.q
        return Steps(q, iterations, residuals, state, status, done)

    def _step(self, state: State, tau: Array, external: Array) -> tuple[State, Array, Array, Array]:
        """The state after a step, in which a trajectory that has failed stays at rest; the number of residual
        evaluations, the residual in N m s and the status of each trajectory (batch,)."""
        batch, n = state.q.shape
        rotation, offset, load = np.empty((batch, n, 9)), np.empty((batch, n, 3)), np.empty((batch, n, 6))
        impulse, f, delta = np.empty((batch, n)), np.empty((batch, n)), np.empty((batch, n))
        start_batch(
            self._links, self._guess, state.q, state.past, state.age, state.momentum, tau, external, self._dt,
            rotation, offset, load, impulse, delta,
        )  # fmt: skip
        minv = self._inverse(state.q)
        momentum, widest, error = np.empty_like(state.momentum), np.zeros(batch), np.zeros(batch)
        iterations, active = np.zeros(batch, dtype=np.int64), np.arange(batch)
        for _ in range(self._most):
            residual_batch(
                self._links, active, rotation, offset, delta, load, impulse, self._dt, f, momentum, widest
            )  # fmt: skip
            iterations[active] += 1
            error[active] = np.linalg.norm(f[active], axis=1) / self._dt
            active = active[~(error[active] <= self._tolerance)]
            if not len(active):
                break
            delta[active] -= np.einsum("kij,kj->ki", minv[active], f[active])
        status = np.where(widest > SINGULAR, TURNED, CONVERGED)
        status[active] = UNSOLVED
        delta[status != CONVERGED] = 0.0
        momentum[status != CONVERGED] = 0.0
        following = State(state.q + delta, np.stack([delta, *state.past[:-1]]), momentum, state.age + 1)
        return following, iterations, error, status


def device_inverse(robot: Robot, accelerator: Any) -> Callable[[Array], Array]:
    """M⁻¹ of an accelerator of the robot's "mass_matrix_inverse", opened on any device, for the option `inverse`.
    Angles are brought within ±π before, so that they stay within the formats."""
    turning = [part.start for joint, part, _ in robot.moving() if not joint.kind.sliding]

    def inverse(q: Array) -> Array:
        wrapped = q.copy()
        wrapped[:, turning] = np.remainder(q[:, turning] + np.pi, 2.0 * np.pi) - np.pi
        return np.asarray(accelerator(q=wrapped).minv, dtype=np.float64)

    return inverse
