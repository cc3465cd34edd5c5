"""A batch of robots with one task: their states, and one call in C that applies an action to all of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import of_shape
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.envs.delays import PAST_ACTIONS, TICK
from dynagate.envs.draws import DELAY, PER_EPISODE, PUSH, PUSH_PHASE, PUSHES, namespace, uniform
from dynagate.envs.task import Task
from dynagate.integrators.feedback import BRAKE, STIFFNESS
from dynagate.native.kernel import Kernel
from dynagate.native.loop import LoopKernel

Flags = npt.NDArray[np.bool_]


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
    """Whether the state or the action was not finite (batch,)."""
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
        constants = {"failed", TICK} if task.contact else {TICK}
        self._inputs = {
            port.name: np.zeros((1 if port.name in constants else count, *port.shape), self.dtype)
            for port in task.loop.inputs
        }
        self._outputs = {port.name: np.zeros((count, *port.shape), self.dtype) for port in task.loop.outputs}
        self._run = kernel.bound(self._inputs, self._outputs, count, 1)
        self._seed, self._episodes, self.steps = 0, np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._seen = self._outputs["observation"]
        self._last = np.zeros_like(self._seen)
        self.push_phase, self.pushes = np.zeros(count), np.zeros((count, task.push_count, 2))

    @property
    def q(self) -> Array:
        """The configurations (batch, nq)."""
        return self._inputs["q"]

    @property
    def qd(self) -> Array:
        """The velocities (batch, nv)."""
        return self._inputs["qd"]

    @property
    def actuators(self) -> dict[str, Array]:
        """The states of actuators (batch, numbers) by name."""
        return {name: self._inputs[earlier] for name, earlier in self.task.driven_states.items()}

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
        self.steps[rows] = 0
        state = start(self.task, self._drawn(rows))
        for name, value in state.items():
            if name in self._inputs:
                self._inputs[name][rows] = value
        if PUSHES in state:
            self.push_phase[rows], self.pushes[rows] = state[PUSH_PHASE], state[PUSHES]
        seen = self._observed({name: value.astype(self.dtype) for name, value in state.items()}, len(rows))
        self._last[rows] = seen
        return seen

    def _drawn(self, rows: npt.NDArray[np.int64]) -> Array:
        """Return random numbers (rows, draws) from 0 to 1 for the episodes of some robots."""
        draws = self._episodes[rows, None] * PER_EPISODE + np.arange(self.task.draws)
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
        if PUSH in inputs:
            inputs[PUSH][:] = push_at(self.task, self.push_phase, self.pushes, self.steps)
        self._last[:] = self._seen if self.steps.any() else self._last
        self._run()
        self.steps += 1
        driven = self.task.driven_states
        states = np.concatenate([outputs[name] for name in ("q_next", "qd_next", *driven)], axis=1)
        finite: Flags = np.isfinite(states).all(axis=1) & np.isfinite(inputs["action"]).all(axis=1)
        diverged: Flags = np.logical_not(finite)
        check_finite(self.task, outputs["terms"], outputs["observation"], diverged)
        if diverged.any():
            outputs["observation"][diverged], outputs["reward"][diverged] = self._last[diverged], 0.0
        inputs["q"][:], inputs["qd"][:] = outputs["q_next"], outputs["qd_next"]
        for name, earlier in driven.items():
            inputs[earlier][:] = outputs[name]
        if "r" in inputs:
            inputs["r"][:] = outputs["swept"]
        if "last_action" in inputs:
            np.clip(inputs["action"], -1.0, 1.0, out=inputs["last_action"])
        if PAST_ACTIONS in inputs:
            past = inputs[PAST_ACTIONS]
            past[:, 1:] = past[:, :-1].copy()
            np.clip(inputs["action"], -1.0, 1.0, out=past[:, 0])
        terminated: Flags = np.logical_or((outputs["ends"] > 0.0).any(axis=1), diverged)
        truncated: Flags = np.logical_and(self.steps >= self.task.episode, ~terminated)
        converged: Flags = np.logical_not(diverged)
        if "failed_next" in outputs:
            converged = np.equal(outputs["failed_next"], 0.0)
        return Outcome(outputs["observation"], outputs["reward"], terminated, truncated, diverged, converged)


def check_finite(task: Task, terms: Array, observation: Array, diverged: Flags) -> None:
    """Raise ArgumentError if a reward or an observation of a robot with a finite state is not finite.

    Args:
        task: The task.
        terms: Terms of the rewards (batch, terms).
        observation: Observations (batch, size).
        diverged: Whether the robots' states were not finite (batch,).
    """
    parts = task.observation_parts.items()
    for what, values in (("reward", terms), ("observation", observation)):
        wrong = ~np.isfinite(values) & ~diverged[:, None]
        if wrong.any():
            robot, entry = np.argwhere(wrong)[0].tolist()
            rewards = list(task.rewards)
            name = rewards[entry] if what == "reward" else next(name for name, part in parts if entry < part.stop)
            raise ArgumentError(
                f"{what} '{name}' is {values[robot, entry]} in environment {robot}, whose state is finite; expected a "
                "function with finite values, without a division by 0",
                code="DG-ENV-002",
            )


def push_at(task: Task, phase: Any, pushes: Any, steps: Any) -> Any:
    """Return the velocities (batch, 2), m/s, that are added to the bases before an action; zeros for most actions.

    The arrays belong to numpy or to another framework with the same functions.

    Args:
        task: The task, with pushes.
        phase: Offset (batch,) of the pushes, in actions.
        pushes: Velocities (batch, pushes, 2) of the episode's pushes.
        steps: Number (batch,) of actions in the episode so far.
    """
    assert task.random.pushes is not None
    library, interval = namespace(pushes), task.random.pushes.actions(task.period)
    count = steps + phase.astype(steps.dtype)
    velocity = library.take_along_axis(pushes, (count // interval)[:, None, None], axis=1)[:, 0]
    return library.where((count % interval == interval - 1)[:, None], velocity, 0.0)


def start(task: Task, draws: Any) -> dict[str, Any]:
    """Return the start of episodes from random numbers (batch, draws) from 0 to 1.

    It has the state, with that of actuators, gains, parameters, inputs, the delay in steps of the simulation, and
    pushes, by name.

    The arrays belong to numpy or to another framework with the same functions.
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
    if task.random.delay is not None:
        least, most = task.random.delay
        seconds = least + draws[:, place] * (most - least)
        state[DELAY] = namespace(draws).floor(seconds * (1.0 / task.dt) + 0.5)
        state[PAST_ACTIONS] = none[:, None] + np.zeros((task.past_actions, joints))
        place += 1
    if task.random.pushes is not None:
        state |= task.random.pushes.drawn(draws[:, place:], task.period)
    state["last_action"] = none + np.zeros(joints)
    for name, earlier in task.driven_states.items():
        state[earlier] = none + np.zeros(task.drive.sizes[name])
    if task.contact is not None:
        state["r"] = none + np.zeros(3 * task.contact.pairs)
    return state
