"""How far a rollout in integers drifts from float64, and the shortest word for which it stays near enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.fixedpoint.assign import LARGEST_WORD, Policy
from dynagate.graph.region import Region
from dynagate.host.rollouts import Rollout, Trajectories
from dynagate.integrators.trajectories import motions

SHORTEST = 18
"""Bits that the search begins with."""


@dataclass(frozen=True)
class Drift:
    """Drift of trajectories in fixed point against float64, by semi-implicit Euler steps within a region."""

    word: int
    """Word length in bits."""
    errors: npt.NDArray[Any]
    """Relative errors (trajectories, steps + 1) of the states: the larger one of the errors of q and q̇, each a norm
    over the norm of their ranges in the trajectory. Errors are infinite after an overflow.
    """

    def end(self, quantile: float) -> float:
        """Return the error after the last step that a share of the trajectories does not exceed.

        Args:
            quantile: The share, 0 to 1.

        Returns:
            The relative error.
        """
        return float(np.quantile(self.errors[:, -1], quantile, method="higher"))


def drift(region: Region, word: int, *, steps: int = 200, dt: float = 5e-3, count: int = 200, seed: int = 1) -> Drift:
    """Compute the drift of trajectories with one word length.

    Args:
        region: Operating region of the robot.
        word: Word length in bits.
        steps: Number of steps.
        dt: Time step in s.
        count: Number of trajectories.
        seed: Seed of their first states and torques.

    Returns:
        The drift.

    Raises:
        ArgumentError: The word length, time step or number of trajectories is not possible.
    """
    start = motions(region, steps, dt, count, seed)
    options: dict[str, Any] = {"steps": steps, "dt": dt}
    exact = Rollout(region.robot, device="numpy", **options)(*start)
    fixed = Rollout(region.robot, device="fixed", region=region, policy=Policy(word=word), **options)(*start)
    for joint, at, _ in region.robot.moving():
        if region.robot.is_periodic(joint):  # angles that come back between -π and π
            fixed.q[..., at] += 2.0 * np.pi * np.round((exact.q[..., at] - fixed.q[..., at]) / (2.0 * np.pi))
    return Drift(word, _errors(fixed, exact))


def _errors(fixed: Trajectories, exact: Trajectories) -> npt.NDArray[Any]:
    each = [
        np.linalg.norm(a - b, axis=-1) / np.linalg.norm(np.ptp(b, axis=1), axis=-1)[:, None]
        for a, b in ((fixed.q, exact.q), (fixed.qd, exact.qd))
    ]
    errors = np.maximum(*each)
    step = np.arange(errors.shape[1])
    overflowed = (fixed.diverged >= 0)[:, None] & (step >= fixed.diverged[:, None])
    return np.where(overflowed, np.inf, errors)


def shortest_word(
    region: Region,
    error: float = 1e-3,
    quantile: float = 0.99,
    *,
    steps: int = 200,
    dt: float = 5e-3,
    count: int = 200,
    seed: int = 1,
) -> list[Drift]:
    """Find by bisection the shortest word length whose drift is small enough.

    Args:
        region: Operating region of the robot.
        error: Largest relative error after the last step.
        quantile: Share of the trajectories that must keep it, 0 to 1.
        steps: Number of steps.
        dt: Time step in s.
        count: Number of trajectories.
        seed: Seed of their first states and torques.

    Returns:
        The drift with each word length that was tried; that of the shortest sufficient one is the last.

    Raises:
        ArgumentError: No word length is sufficient.
    """
    low, high, tried = SHORTEST - 1, LARGEST_WORD + 1, dict[int, Drift]()
    while high - low > 1:
        word = (low + high) // 2
        tried[word] = drift(region, word, steps=steps, dt=dt, count=count, seed=seed)
        if tried[word].end(quantile) <= error:
            high = word
        else:
            low = word
    if high > LARGEST_WORD:
        raise ArgumentError(
            f"words of {LARGEST_WORD} bits drift by {tried[LARGEST_WORD].end(quantile):.1e} in {steps} steps; expected "
            f"a larger error than {error:g}, or fewer steps"
        )
    return [*(tried[word] for word in tried if word != high), tried[high]]
