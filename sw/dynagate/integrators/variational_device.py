"""RIQN with M⁻¹ from elsewhere: a device computes M⁻¹ once a step, the host keeps the residual in float64.

The update only leads to the root, which the residual defines. So an inverse with few digits takes more iterations and
the result is as exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.integrators.articulated_loops import factorise, pose
from dynagate.integrators.links import Links, compiled
from dynagate.integrators.variational_loops import prepare, residual
from dynagate.integrators.variational_steps import CONVERGED, SINGULAR, TURNED, UNSOLVED, guess_increment
from dynagate.robot import Robot

Array = npt.NDArray[Any]


@compiled
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
        factorise(links, rotation[k], offset[k], u, d)
        own = np.ascontiguousarray(past[:, k])
        guess_increment(links, guess, rotation[k], offset[k], u, d, own, age, tau[k], external[k], dt, delta[k], work)
        share = 1.0 if age else 0.5
        prepare(links, rotation[k], offset[k], own[0], momentum[k], tau[k], external[k], dt, share, load[k], impulse[k])


@compiled
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
    """Steps of a batch with M⁻¹ of `inverse`, a function of q (batch, nv). The methods are those of `GraphSteps`."""

    def __init__(
        self, links: Links, inverse: Callable[[Array], Array], guess: int, aligned: Callable[[Array], Array], batch: int
    ) -> None:
        n = len(links.parent)
        self._links, self._inverse, self._guess, self._aligned = links, inverse, guess, aligned
        self.inputs = {"tau": np.zeros((batch, n)), "f_ext": np.zeros((batch, n, 6))}
        self.squared = np.zeros(batch)
        self._rotation, self._offset = np.empty((batch, n, 9)), np.empty((batch, n, 3))
        self._load, self._impulse, self._f = np.empty((batch, n, 6)), np.empty((batch, n)), np.empty((batch, n))
        self._widest = np.zeros(batch)

    def set(self, q: Array, past: Array, age: int, momentum: Array, dt: float) -> None:
        self.q, self._past, self._momentum = q.copy(), past.copy(), momentum.copy()
        self._age, self._dt = age, dt

    def state(self) -> tuple[Array, Array, Array]:
        return self.q.copy(), self._past.copy(), self._momentum.copy()

    def step(self, share: float, limit: float, most: int) -> tuple[Array, Array]:
        batch, delta = len(self.q), np.empty_like(self.q)
        kept = (self._rotation, self._offset)
        external = self._aligned(self.inputs["f_ext"])
        start_batch(
            self._links, self._guess, self.q, self._past, self._age, self._momentum, self.inputs["tau"], external,
            self._dt, *kept, self._load, self._impulse, delta,
        )  # fmt: skip
        minv = self._inverse(self.q)
        iterations, active = np.zeros(batch, dtype=np.int64), np.arange(batch)
        for _ in range(most):
            residual_batch(
                self._links, active, *kept, delta, self._load, self._impulse, self._dt, self._f, self._momentum,
                self._widest,
            )  # fmt: skip
            iterations[active] += 1
            self.squared[active] = np.sum(self._f[active] ** 2, axis=1)
            active = active[~(self.squared[active] <= limit)]
            if not len(active):
                break
            delta[active] -= np.einsum("kij,kj->ki", minv[active], self._f[active])
        status = np.where(self._widest > SINGULAR, TURNED, CONVERGED)
        status[active] = UNSOLVED
        delta[status != CONVERGED] = 0.0
        self._momentum[status != CONVERGED] = 0.0
        self.q += delta
        self._past[1:] = self._past[:-1].copy()
        self._past[0] = delta
        self._age += 1
        return iterations, status


def device_inverse(robot: Robot, accelerator: Any) -> Callable[[Array], Array]:
    """M⁻¹ of an accelerator of the robot's "mass_matrix_inverse", opened on any device, for the option `inverse`.
    Angles are brought within ±π before, so that they stay within the formats."""
    turning = [part.start for link, part, _ in robot.slices() if link.joint.type != "prismatic"]

    def inverse(q: Array) -> Array:
        wrapped = q.copy()
        wrapped[:, turning] = np.remainder(q[:, turning] + np.pi, 2.0 * np.pi) - np.pi
        return np.asarray(accelerator(q=wrapped).minv, dtype=np.float64)

    return inverse
