"""Environments of Stable-Baselines3 side by side: in this process, in others, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv


def environments(makers: list[Callable[[], Any]], backend: str, jobs: int) -> VecEnv:
    """Environments side by side: in this process, in `jobs` processes, or on `jobs` Ray workers."""
    if backend == "ray":
        return RayVecEnv(makers, jobs)
    return DummyVecEnv(makers) if jobs == 1 else SubprocVecEnv(makers, start_method="spawn")


class RayVecEnv(VecEnv):
    """Environments on Ray workers, each with its share of them; a step of all is one message to each worker."""

    def __init__(self, makers: list[Callable[[], Any]], workers: int) -> None:
        import ray

        self._ray = ray
        remote = ray.remote(_Worker)
        self._shares = [part.tolist() for part in np.array_split(np.arange(len(makers)), min(workers, len(makers)))]
        self._workers = [remote.remote([makers[i] for i in share]) for share in self._shares]
        spaces = ray.get(self._workers[0].spaces.remote())
        super().__init__(len(makers), *spaces)

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        return self._ray.get([getattr(worker, method).remote(*arguments) for worker in self._workers])

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

    def get_attr(self, name: str, indices: Any = None) -> list[Any]:
        values = [value for part in self._all("get", name) for value in part]
        return [values[i] for i in self._get_indices(indices)]

    def set_attr(self, name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError("environments on Ray keep what they were made with")

    def env_method(self, name: str, *arguments: Any, indices: Any = None, **named: Any) -> list[Any]:
        raise NotImplementedError("environments on Ray take reset and step")

    def env_is_wrapped(self, wrapper: type, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]


class _Worker:
    """Some environments in a Ray worker."""

    def __init__(self, makers: list[Callable[[], Any]]) -> None:
        self.envs = DummyVecEnv(makers)

    def spaces(self) -> tuple[Any, Any]:
        return self.envs.observation_space, self.envs.action_space

    def get(self, name: str) -> list[Any]:
        return self.envs.get_attr(name)

    def reset(self, seed: int | None) -> Any:
        self.envs.seed(seed)
        return self.envs.reset()

    def step(self, actions: np.ndarray) -> Any:
        return self.envs.step(actions)
