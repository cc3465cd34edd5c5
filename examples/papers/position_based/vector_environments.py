"""Vectors of environments for Stable-Baselines3: Gymnasium's in this process, or shares of them on a Ray cluster."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from stable_baselines3.common.vec_env import VecEnv

Make = Callable[[int], VectorEnv]
"""So many environments, whose episodes begin anew in the step in which they end."""


def environments(make: Make, count: int, backend: str, jobs: int) -> VecEnv:
    """Environments in this process, or on `jobs` Ray workers."""
    return RayVecEnv(make, count, jobs) if backend == "ray" else LocalVecEnv(make(count))


class _Steps(VecEnv):
    """What takes reset and step alone."""

    @abstractmethod
    def _get(self, name: str) -> Any:
        """An attribute of the vectors."""

    def get_attr(self, name: str, indices: Any = None) -> list[Any]:
        return [self._get(name)] * len(list(self._get_indices(indices)))

    def set_attr(self, name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError("these environments keep what they were made with")

    def env_method(self, name: str, *arguments: Any, indices: Any = None, **named: Any) -> list[Any]:
        raise NotImplementedError("these environments take reset and step")

    def env_is_wrapped(self, wrapper: type, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]


class LocalVecEnv(_Steps):
    """A vector of Gymnasium."""

    def __init__(self, envs: VectorEnv) -> None:
        self.envs = envs
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def _get(self, name: str) -> Any:
        return getattr(self.envs, name)

    def reset(self) -> Any:
        observations, _ = self.envs.reset(seed=self._seeds[0])
        self._reset_seeds()
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        observations, rewards, fallen, over, info = self.envs.step(self._actions)
        ended, infos = fallen | over, [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(ended):
            infos[i] = {"terminal_observation": info["final_obs"][i], "TimeLimit.truncated": over[i] and not fallen[i]}
        return observations, rewards.astype(np.float32), ended, infos

    def close(self) -> None:
        self.envs.close()


class RayVecEnv(_Steps):
    """Vectors on Ray workers; a step of all is one message to each worker."""

    def __init__(self, make: Make, count: int, workers: int) -> None:
        import ray

        self._ray = ray
        remote = ray.remote(_Worker)
        self._shares = [part.tolist() for part in np.array_split(np.arange(count), min(workers, count))]
        self._workers = [remote.remote(make, len(share)) for share in self._shares]
        super().__init__(count, *ray.get(self._workers[0].spaces.remote()))

    def _get(self, name: str) -> Any:
        return self._ray.get(self._workers[0].get.remote(name))

    def reset(self) -> Any:
        seeds = [self._seeds[share[0]] for share in self._shares]
        calls = zip(self._workers, seeds, strict=True)
        observations = self._ray.get([worker.reset.remote(seed) for worker, seed in calls])
        self._reset_seeds()
        return np.concatenate(observations)

    def step_async(self, actions: np.ndarray) -> None:
        self._waiting = [
            worker.step.remote(actions[share]) for worker, share in zip(self._workers, self._shares, strict=True)
        ]

    def step_wait(self) -> Any:
        parts = self._ray.get(self._waiting)
        observations, rewards, dones = (np.concatenate([part[k] for part in parts]) for k in range(3))
        return observations, rewards, dones, [info for part in parts for info in part[3]]

    def close(self) -> None:
        for worker in self._workers:
            self._ray.kill(worker)


class _Worker:
    """A vector in a Ray worker."""

    def __init__(self, make: Make, count: int) -> None:
        self.envs = LocalVecEnv(make(count))

    def spaces(self) -> tuple[Any, Any]:
        return self.envs.observation_space, self.envs.action_space

    def get(self, name: str) -> Any:
        return getattr(self.envs.envs, name)

    def reset(self, seed: int | None) -> Any:
        self.envs.seed(seed)
        return self.envs.reset()

    def step(self, actions: np.ndarray) -> Any:
        return self.envs.step(actions)
