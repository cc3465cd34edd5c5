"""Tasks as Gymnasium environments: a vector of robots that share one call in C, and a single robot."""

from __future__ import annotations

import time
from os import PathLike
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from dynagate.base.arguments import check_count, shown
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.envs.batch import EnvBatch
from dynagate.envs.task import Task

if TYPE_CHECKING:
    from dynagate.views.scene.browser import View

LARGEST = 1 << 22
"""Largest number of environments."""

RENDER_MODES = "rgb_array", "browser"

SHOWN_EVERY = 0.5
"""Least time between two motions that the page in the browser receives, s."""

BOUND = 1e6
"""Largest magnitude of an observation's entry, because Gymnasium needs finite spaces; larger entries are clipped."""


def _spaces(task: Task) -> tuple[Any, Any]:
    """Return the spaces of observations and actions of one environment."""
    size = max(part.stop for part in task.observation_parts.values())
    return (
        spaces.Box(-BOUND, BOUND, (size,), np.float32),
        spaces.Box(-1.0, 1.0, (len(task.joints),), np.float32),
    )


def _bounded(observation: Array) -> Array:
    """Return observations as float32, clipped to BOUND."""
    return np.clip(observation, -BOUND, BOUND).astype(np.float32)


class RobotVectorEnv(VectorEnv[Any, Any, Any]):
    """Many robots with one task.

    Episodes that end restart in the same step. `info["final_obs"]` then holds the last observations, with the mask
    `info["_final_obs"]`. `info["diverged"]` marks robots whose state was not finite: they are reset with a reward of 0
    and their last finite observation, and the other robots continue. `info["converged"]` marks robots whose contact
    forces were found in every step.
    """

    metadata = {"render_modes": list(RENDER_MODES), "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        task: Task,
        num_envs: int = 1,
        *,
        dtype: npt.DTypeLike = "float32",
        threads: int = 1,
        render_mode: str | None = None,
    ) -> None:
        check_count("num_envs", num_envs, LARGEST)
        if render_mode not in (None, *RENDER_MODES):
            raise ArgumentError(
                f"render_mode={shown(render_mode)}; expected 'rgb_array', 'browser' or None", code="DG-ENV-020"
            )
        self.task, self.num_envs, self.render_mode = task, num_envs, render_mode
        self.metadata = {**self.metadata, "render_fps": round(1.0 / (task.dt * task.decimation))}
        self.single_observation_space, self.single_action_space = _spaces(task)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.batch = EnvBatch(task, num_envs, dtype=dtype, threads=threads)
        self._motion: list[Array] = []
        self._episode: list[Array] = []
        self.page: View | None = None
        self._shown = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin an episode in all environments. The same seed gives the same episodes."""
        super().reset(seed=seed)
        if seed is None and not self.batch.seeded:
            seed = int(self.np_random.integers(1 << 32))
        seen = _bounded(self.batch.reset(seed))
        self._motion, self._episode = [self.batch.q[0].astype(np.float64)], []
        return seen, {}

    def step(self, actions: npt.ArrayLike) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Apply an action (num_envs, joints), from -1 to 1, in all environments."""
        done = self.batch.step(actions)
        info: dict[str, Any] = {"diverged": done.diverged, "converged": done.converged}
        ended = done.terminated | done.truncated
        seen = _bounded(done.observation)
        if ended.any():
            last = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(ended):
                last[i] = seen[i].copy()
            info |= {"final_obs": last, "_final_obs": ended}
            seen[ended] = _bounded(self.batch.restart(ended))
        if self.render_mode is not None:
            self._record(bool(ended[0]))
        return seen, done.reward.astype(np.float64), done.terminated, done.truncated, info

    def _record(self, ended: bool) -> None:
        """Record the configuration of the first robot."""
        if ended:
            self._episode, self._motion = self._motion, []
        self._motion.append(self.batch.q[0].astype(np.float64))

    def draw(self, file: str | PathLike[str]) -> None:
        """Write the last complete episode of the first robot, or else its present one, as `dynagate.draw` does.

        Args:
            file: The file, whose name ends in .html, .gif, .png or .svg.

        Raises:
            ArgumentError: There is no render_mode, `reset` was not called, or the file cannot be written.
        """
        from dynagate.views.scene.pictures import draw

        motion = self._episode or self._motion
        if self.render_mode is None or not motion:
            raise ArgumentError(
                "draw() has no motion; expected render_mode='rgb_array' or 'browser', and reset() first",
                code="DG-ENV-027",
            )
        draw(self.task.robot, np.array(motion), file, dt=self.task.period)

    def _show(self) -> None:
        """Show the present episode of the first robot in the browser, at most once in SHOWN_EVERY seconds."""
        from dynagate.views.scene.browser import view

        if self.page is None:
            self.page = view(self.task.robot, np.array(self._motion), dt=self.task.period)
        elif time.monotonic() - self._shown > SHOWN_EVERY:
            self.page.q = np.array(self._motion)
            self._shown = time.monotonic()

    def close_extras(self, **kwargs: Any) -> None:
        """Close the page in the browser."""
        if self.page is not None:
            self.page.close()
            self.page = None

    def render(self) -> Any:
        """Return a picture (480, 640, 3) of each robot with render_mode "rgb_array", else None.

        With "browser", show the present episode of the first robot on a page that plays it.
        """
        if self.render_mode == "browser" and self._motion:
            self._show()
        if self.render_mode != "rgb_array":
            return None
        from dynagate.views.scene.pictures import pixels

        return tuple(pixels(self.task.robot, q.astype(np.float64)) for q in self.batch.q)


class SingleEnv(gymnasium.Env[Any, Any]):
    """One robot as a Gymnasium `Env`, from a vector with one robot: `SingleEnv(LeggedEnv("hyq", feet))`."""

    metadata = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012  Gymnasium's

    def __init__(self, env: RobotVectorEnv) -> None:
        if env.num_envs != 1:
            raise ArgumentError(f"SingleEnv of {env.num_envs} environments; expected num_envs=1", code="DG-ENV-021")
        self.env, self.render_mode, self.metadata = env, env.render_mode, env.metadata
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        seen, _ = self.env.reset(seed=seed)
        return seen[0], {}

    def step(self, action: npt.ArrayLike) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Apply an action (joints,), from -1 to 1."""
        seen, reward, terminated, truncated, info = self.env.step(np.asarray(action)[None])
        last = info["final_obs"][0] if "final_obs" in info else seen[0]
        own = {name: bool(info[name][0]) for name in ("diverged", "converged")}
        return last, float(reward[0]), bool(terminated[0]), bool(truncated[0]), own

    def render(self) -> Any:
        """Return a picture (480, 640, 3), with render_mode "rgb_array"; else None."""
        pictures = self.env.render()
        return None if pictures is None else pictures[0]

    def draw(self, file: str | PathLike[str]) -> None:
        """Write the last complete episode, or else the present one, to a file, as `RobotVectorEnv.draw` does."""
        self.env.draw(file)

    def close(self) -> None:
        """Close the page in the browser."""
        self.env.close()
