"""The same motions in float64 and in the integers of a word length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Array
from dynagate.dynamics.configuration import difference
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.models.loops import LoopTrajectories, integers_of, values_of
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.region import Region
from dynagate.host.rollouts import Rollout
from dynagate.hw.processor.compiler.motion import motion_and_formats
from dynagate.integrators.chip_motion import FAILURES, STATE, ChipMotion, solves
from dynagate.robot import Robot


@dataclass(frozen=True)
class ComparedMotions:
    """States of the same trajectories in float64 and in integers."""

    robot: Robot
    exact: tuple[Array, Array]
    """q and q̇ in float64, (trajectories, steps + 1, ·)."""
    fixed: tuple[Array, Array]
    """q and q̇ in integers, (trajectories, steps + 1, ·)."""
    overflowed: npt.NDArray[np.bool_]
    """States at or after an overflow, (trajectories, steps + 1)."""
    unsolved: npt.NDArray[np.bool_]
    """Trajectories with a step that float64 solves and the integers do not, (trajectories,)."""

    def moved(self) -> Array:
        """Return the difference q of the integers ⊖ q of float64, (trajectories, steps + 1, nv), rad or m.

        Angles that come back between -π and π differ by less than π.
        """
        moved = difference(self.robot, self.exact[0], self.fixed[0])
        for joint, _, dof in self.robot.moving():
            if self.robot.is_periodic(joint):
                moved[..., dof] = np.mod(moved[..., dof] + np.pi, 2.0 * np.pi) - np.pi
        return moved


def compared_motions(
    region: Region,
    word: int,
    start: tuple[Array, Array, Array],
    *,
    dt: float,
    seed: int,
    options: AlgorithmOptions | None,
) -> ComparedMotions:
    """Return motions that float64 and integers begin in the same states, with the same torques.

    Args:
        region: Region that the motions stay in.
        word: Word length in bits.
        start: First q and q̇, (trajectories, ·), and torques (trajectories, steps, nv).
        dt: Time step, s.
        seed: Seed of the states near `start` from which motions with contacts can begin.
        options: As of `drift`.

    Raises:
        ToleranceError: The integrator does not converge in words of this many bits.
        ArgumentError: Integers refuse an option.
    """
    if options is not None and solves(options):
        return _solved(region, word, start, options, seed)
    count, steps = start[2].shape[:2]
    own: dict[str, Any] = {"steps": steps, "dt": dt}
    if options is not None:
        own |= {name: value for name, value in options.changed().items() if name != "dt"}
    exact = Rollout(region.robot, device="numpy", **own)(*start)
    fixed = Rollout(region.robot, device="fixed", region=region, policy=Policy(word=word), **own)(*start)
    step = np.arange(steps + 1)
    overflowed = (fixed.diverged >= 0)[:, None] & (step >= fixed.diverged[:, None])
    states = (exact.q, exact.qd), (fixed.q, fixed.qd)
    return ComparedMotions(region.robot, *states, overflowed, np.zeros(count, dtype=bool))


def _solved(
    region: Region, word: int, start: tuple[Array, Array, Array], options: AlgorithmOptions, seed: int
) -> ComparedMotions:
    """Return the motions of an integrator that solves equations, as a program of the small processor computes them."""
    robot, (q0, qd0, tau) = region.robot, start
    options, formatted = motion_and_formats(robot, options, region, Policy(word=word))
    motion = ChipMotion.of(robot, options, word, options.tolerance)
    q0 = motion.feasible(q0, region, seed)
    reference = ChipMotion.of(robot, options, None)
    exact = reference.exact(q0, qd0, tau)
    integers = LoopTrajectories(formatted, integers_of(formatted, motion.begun(q0, qd0)))
    states: list[tuple[Array, Array]] = []
    overflowed = [np.zeros(len(q0), dtype=bool)]
    for k in range(tau.shape[1]):
        values, flagged = integers.advance(integers_of(formatted, {"tau": tau[:, k]}))
        states.append((values_of(values[STATE[0]], (robot.nq,)), values_of(values[STATE[1]], (robot.nv,))))
        overflowed.append(flagged.copy())
    unsolved = values_of(values[FAILURES], ()) > 0.0 if FAILURES in values else np.zeros(len(q0), dtype=bool)
    if unsolved.any():
        unsolved = unsolved & reference.solved(q0, qd0, tau)
    own = [np.stack(values, axis=1) for values in zip(*states, strict=True)]

    def begun(q: Array, qd: Array) -> tuple[Array, Array]:
        return np.concatenate([q0[:, None], q], axis=1), np.concatenate([qd0[:, None], qd], axis=1)

    both = begun(exact[STATE[0]], exact[STATE[1]]), begun(own[0], own[1])
    return ComparedMotions(robot, *both, np.stack(overflowed, axis=1), unsolved & ~overflowed[-1])
