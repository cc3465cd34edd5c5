"""A hopper, a walker and a spider learn to walk on position-based steps (PBFD), and are tested on Newton-Euler steps
with dry friction: Figure 5 (b) of Pan & Manocha (2018), Figure 7 of 2019.

Proximal policy optimisation (PPO) of Stable-Baselines3: `pip install 'dynagate[learn]'`. Rollouts run in this process,
in several (`--jobs`), or on a Ray cluster (`--backend ray --cluster ADDRESS`).
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import numpy as np
import torch
from dynagate.integrators.environments import Walking
from dynagate.integrators.legged import LEGGED
from figure import Data, axes, main
from matplotlib.figure import Figure
from ray_environments import environments
from rollouts import OPTIONS, connect
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

ENVIRONMENTS = 8
CHOICES = {
    "robot": {"choices": (*LEGGED, "all"), "default": "all", "help": "which robot learns (%(default)s)"},
    "steps": {"type": int, "default": 100_000, "help": "actions that each robot learns from (%(default)s)"},
    **OPTIONS,
}


class Curve(BaseCallback):
    """Actions so far and the mean reward of an action, after each round of rollouts."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        rewards = self.locals["rollout_buffer"].rewards
        self.points.append((self.num_timesteps, float(rewards.mean())))


def tested(model: PPO, robot: str, simulator: str, episodes: int, span: float) -> Data:
    """The policy's mean action on a simulator: metres and seconds of an episode, and how many ended in a fall."""
    env = Walking(robot, simulator=simulator, span=span)  # type: ignore[arg-type]
    rows = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=1000 + episode)
        actions, fell, over, converged = 0, False, False, True
        while not (fell or over):
            action, _ = model.predict(observation, deterministic=True)
            observation, _, fell, over, info = env.step(action)
            actions, converged = actions + 1, converged and info["converged"]
        rows.append((float(env.q[0]), actions * 0.05, fell, converged))
    distance, seconds, falls, sound = (np.array(column) for column in zip(*rows, strict=True))
    return {
        "metres": float(distance.mean()),
        "seconds": float(seconds.mean()),
        "falls": int(falls.sum()),
        "episodes": episodes,
        "episodes with steps that did not converge": int((~sound).sum()),
    }


def learns(robot: str, short: bool, steps: int, backend: str, jobs: int) -> Data:
    torch.set_num_threads(1)
    count, each, span = (2, 32, 1.0) if short else (ENVIRONMENTS, 256, 10.0)
    envs = environments([partial(Walking, robot, span=span)] * count, backend, jobs)
    model = PPO("MlpPolicy", envs, n_steps=each, batch_size=count * each // 8, seed=1, device="cpu", gamma=0.98)
    tests = partial(tested, robot=robot, episodes=1 if short else 10, span=span)
    before = {simulator: tests(model, simulator=simulator) for simulator in ("pbfd", "newton-euler")}
    curve, begin = Curve(), time.perf_counter()
    model.learn(2 * count * each if short else steps, callback=curve)
    taken = time.perf_counter() - begin
    envs.close()
    return {
        "robot": robot,
        "actions": curve.points[-1][0],
        "seconds": taken,
        "reward by actions": curve.points,
        "before": before,
        "after": {simulator: tests(model, simulator=simulator) for simulator in before},
    }


def measure(short: bool, robot: str, steps: int, backend: str, jobs: int, cluster: str | None) -> Data:
    connect(backend, cluster)
    robots = ("hopper",) if short else (tuple(LEGGED) if robot == "all" else (robot,))
    work = partial(learns, short=short, steps=steps, backend=backend, jobs=jobs)
    return {"robots": [work(name) for name in robots]}


def draw(data: Data) -> Figure:
    figure, (left, right) = axes(2)
    bars: list[Any] = []
    for row in data["robots"]:
        left.plot(*zip(*row["reward by actions"], strict=True), "o-", markersize=3, label=row["robot"])
        bars += [(f"{row['robot']}\n{simulator}", row["after"][simulator]["metres"]) for simulator in row["after"]]
    left.set(xlabel="actions", ylabel="reward of an action")
    left.legend()
    right.bar(*zip(*bars, strict=True))
    right.set(ylabel="distance of an episode (m)")
    right.tick_params(axis="x", labelsize=6)
    return figure


if __name__ == "__main__":
    main("learn", measure, draw, sys.argv[1:], more=CHOICES)
