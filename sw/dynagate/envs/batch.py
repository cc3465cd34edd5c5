"""A batch of robots with one task: their states, and one call in C that applies an action to all of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import of_shape
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.envs.draws import PER_EPISODE, uniform
from dynagate.envs.task import Task
from dynagate.integrators.feedback import BRAKE, STIFFNESS
from dynagate.native.kernel import Kernel
from dynagate.native.loop import LoopKernel

Flags = npt.NDArray[np.bool_]

PUSHES = 1 << 15
"""Index of the first random draw of an episode that is used for pushes."""


class Outcome(NamedTuple):
    """Results of an action. The arrays belong to the batch, and the next action overwrites them."""

    observation: Array
    """Observations (batch, size)."""
    reward: Array
    """Rewards (batch,)."""
    terminated: Flags
    """Whether an end condition holds (batch,)."""
    truncated: Flags
    """Whether the episode reached its length (batch,)."""
    diverged: Flags
    """Whether the state was not finite (batch,)."""
    converged: Flags
    """Whether contact forces were found in every step (batch,)."""


class EnvBatch:
    """A batch of robots with one task.

    Args:
        task: The task.
        count: Number of robots.
        dtype: Number format of the simulation, "float32" or "float64".
        threads: Number of threads that share the robots.
    """

    def __init__(self, task: Task, count: int, *, dtype: npt.DTypeLike = "float32", threads: int = 1) -> None:
        self.task, self.count, self.seeded = task, count, False
        kernel = LoopKernel(task.loop, np.dtype(dtype), threads=threads)
        self.dtype = kernel.dtype
        self._see = Kernel(task.seeing, self.dtype)
        constants = {"failed"} if task.contact else set()
        self._inputs = {
            port.name: np.zeros((1 if port.name in constants else count, *port.shape), self.dtype)
            for port in task.loop.inputs
        }
        self._outputs = {port.name: np.zeros((count, *port.shape), self.dtype) for port in task.loop.outputs}
        self._run = kernel.bound(self._inputs, self._outputs, count, 1)
        self._seed, self._episodes, self._steps = 0, np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._seen = self._outputs["observation"]
        self._last = np.zeros_like(self._seen)

    @property
    def q(self) -> Array:
        """The configurations (batch, nq)."""
        return self._inputs["q"]

    @property
    def qd(self) -> Array:
        """The velocities (batch, nv)."""
        return self._inputs["qd"]

    def reset(self, seed: int | None = None) -> Array:
        """Begin an episode for all robots, and return their observations. A seed restarts the random numbers."""
        if seed is not None:
            self._seed, self.seeded = int(seed) % (1 << 32), True
            self._episodes[:] = -1
        self._last[:] = self.restart(np.ones(self.count, bool))
        return self._last.copy()

    def restart(self, which: Flags) -> Array:
        """Begin an episode for the robots in the mask `which` (batch,), and return their observations."""
        rows = np.flatnonzero(which)
        self._episodes[rows] += 1
        self._steps[rows] = 0
        state = start(self.task, self._drawn(rows))
        for name, value in state.items():
            if name in self._inputs:
                self._inputs[name][rows] = value
        seen = self._observed({name: value.astype(self.dtype) for name, value in state.items()}, len(rows))
        self._last[rows] = seen
        return seen

    def _drawn(self, rows: npt.NDArray[np.int64]) -> Array:
        """Return random numbers (rows, draws) from 0 to 1 for the episodes of some robots."""
        draws = self._episodes[rows, None] * PER_EPISODE + np.arange(draws_of(self.task))
        return uniform(self._seed, rows[:, None], draws)

    def _observed(self, state: dict[str, Array], count: int) -> Array:
        """Return the observations (count, size) of states."""
        named = {"q_next": state["q"], "qd_next": state["qd"], **state}
        inputs = {
            port.name: np.ascontiguousarray(named[port.name])
            if port.name in named
            else np.zeros((count, *port.shape), self.dtype)
            for port in self.task.seeing.inputs
        }
        outputs = self._see.new_outputs(count)
        self._see(inputs, self._see.written(outputs), count)
        self._see.clear(outputs)
        return outputs["observation"]

    def step(self, actions: npt.ArrayLike) -> Outcome:
        """Apply an action (batch, joints) to each robot.

        Raises:
            ArgumentError: The actions have a wrong shape, `reset` was not called, or an observation or reward of a
                robot with a finite state is not finite.
        """
        if not self.seeded:
            raise ArgumentError("step() before reset(); expected reset() first", code="DG-ENV-001")
        inputs, outputs = self._inputs, self._outputs
        inputs["action"][:] = of_shape("actions", actions, inputs["action"].shape, self.dtype, finite=False)
        self._push()
        self._last[:] = self._seen if self._steps.any() else self._last
        self._run()
        self._steps += 1
        states = np.concatenate([outputs["q_next"], outputs["qd_next"]], axis=1)
        diverged: Flags = np.logical_not(np.isfinite(states).all(axis=1))
        self._check_terms(diverged)
        if diverged.any():
            outputs["observation"][diverged], outputs["reward"][diverged] = self._last[diverged], 0.0
        inputs["q"][:], inputs["qd"][:] = outputs["q_next"], outputs["qd_next"]
        if "r" in inputs:
            inputs["r"][:] = outputs["swept"]
        if "last_action" in inputs:
            np.clip(inputs["action"], -1.0, 1.0, out=inputs["last_action"])
        terminated: Flags = np.logical_or((outputs["ends"] > 0.0).any(axis=1), diverged)
        truncated: Flags = np.logical_and(self._steps >= self.task.episode, ~terminated)
        converged: Flags = np.logical_not(diverged)
        if "failed_next" in outputs:
            converged = np.equal(outputs["failed_next"], 0.0)
        return Outcome(outputs["observation"], outputs["reward"], terminated, truncated, diverged, converged)

    def _check_terms(self, diverged: Flags) -> None:
        """Raise ArgumentError if a reward or an observation of a robot with a finite state is not finite."""
        for what, names in (("terms", list(self.task.rewards)), ("observation", None)):
            wrong = ~np.isfinite(self._outputs[what]) & ~diverged[:, None]
            if wrong.any():
                robot, entry = np.argwhere(wrong)[0].tolist()
                parts = self.task.observation_parts.items()
                name = names[entry] if names else next(name for name, part in parts if entry < part.stop)
                raise ArgumentError(
                    f"{'reward' if names else 'observation'} '{name}' is {self._outputs[what][robot, entry]} in "
                    f"environment {robot}, whose state is finite; expected a function with finite values, without a "
                    "division by 0",
                    code="DG-ENV-002",
                )

    def _push(self) -> None:
        """Add a horizontal velocity in a random direction to the base of each robot whose next push is due."""
        push = self.task.random.push
        if push is None:
            return
        interval = max(1, round(push[0] / (self.task.dt * self.task.decimation)))
        rows = np.flatnonzero(self._steps % interval == interval - 1)
        if rows.size:
            draws = self._episodes[rows] * PER_EPISODE + PUSHES + self._steps[rows]
            angle = 2.0 * np.pi * uniform(self._seed, rows, draws)
            self._inputs["qd"][rows, :2] += push[1] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def draws_of(task: Task) -> int:
    """Return how many random numbers the start of an episode needs."""
    return 2 * len(task.joints) + task.random.size + sum(low.size for low, _ in task.inputs.values())


def start(task: Task, draws: Any) -> dict[str, Any]:
    """Return the start of episodes from random numbers (batch, draws) from 0 to 1: state, gains, parameters and inputs.

    The arrays belong to numpy or to another framework with the same operators.
    """
    joints, (places, rates) = len(task.joints), task.places
    away = task.start_noise * (2.0 * draws[:, : 2 * joints] - 1.0)
    none = draws[:, :1] * 0.0
    q = task.stance + away[:, :joints] @ np.eye(task.robot.nq)[places]
    qd = away[:, joints:] @ np.eye(task.robot.nv)[rates]
    place = 2 * joints + task.random.size
    parameters, stiffness, damping = task.random.values(draws[:, 2 * joints : place])
    state = {"q": q, "qd": qd, **parameters}
    for name, factor, gain in zip((STIFFNESS, BRAKE), (stiffness, damping), task.gains, strict=True):
        state[name] = factor[:, None] * gain
    for name, (low, high) in task.inputs.items():
        state[name] = low + draws[:, place : place + low.size].reshape(-1, *low.shape) * (high - low)
        place += low.size
    state["last_action"] = none + np.zeros(joints)
    if task.contact is not None:
        state["r"] = none + np.zeros(3 * task.contact.pairs)
    return state
