"""A hopper, a walker and a spider learn to walk on position-based steps (PBFD), and are tested on Newton-Euler steps
with dry friction: Figure 5 (b) of Pan & Manocha (2018), Figure 7 of 2019.

Proximal policy optimization (PPO) of Stable-Baselines3: `pip install 'dynagate[learn]'`. Rollouts run in this process
on `--jobs` threads, or on a Ray cluster (`--backend ray --cluster ADDRESS`).
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

from examples.papers.position_based.environments import CONTROL, Walking, WalkingBatch
from examples.papers.position_based.figure import Data, axes, main
from examples.papers.position_based.legged import LEGGED
from examples.papers.position_based.pictures import OBLIQUE, SIDE, overlay, skeleton
from examples.papers.position_based.pictures import animate as animated
from examples.papers.position_based.rollouts import OPTIONS, connect, whole
from examples.papers.position_based.vector_environments import environments

ENVIRONMENTS, ROUND = 64, 64
"""Side by side, and actions of each between two improvements of the policy."""

GAMMA = 0.98
"""Discount of an action: a horizon of 2.5 s."""

NOISE = -1.0
"""Logarithm of the actions' standard deviation at first. At 0 most actions lie beyond -1 or 1, and a policy whose noise
walked had a mean that stood still."""

CHOICES = {
    "robot": {"choices": (*LEGGED, "all"), "default": "all", "help": "which robot learns (%(default)s)"},
    "steps": {"type": whole, "default": 500_000, "help": "actions that each robot learns from (%(default)s)"},
    **OPTIONS,
}


class Curve(BaseCallback):
    """Actions so far and the mean reward of the last episodes, after each round of rollouts."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        rewards = [episode["r"] for episode in self.model.ep_info_buffer or ()]
        if rewards:
            self.points.append((self.num_timesteps, float(np.mean(rewards))))


def tested(model: PPO, robot: str, simulator: str, episodes: int, span: float) -> Data:
    """The policy's mean action on a simulator: meters and seconds of an episode, its mean reward, how many ended in a
    fall, and the configurations of the first."""
    env = Walking(robot, simulator=simulator, span=span)  # type: ignore[arg-type]
    rows, track = [], []
    for episode in range(episodes):
        observation, _ = env.reset(seed=1000 + episode)
        rewards, fell, over, converged = [], False, False, True
        while not (fell or over):
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, fell, over, info = env.step(action)
            rewards.append(reward)
            converged = converged and info["converged"]
            if episode == 0:
                track.append(env.q.tolist())
        rows.append((float(env.q[0]), len(rewards) * CONTROL, float(np.sum(rewards)), fell, converged))
    distance, seconds, reward, falls, sound = (np.array(column) for column in zip(*rows, strict=True))
    return {
        "meters": float(distance.mean()),
        "seconds": float(seconds.mean()),
        "reward": float(reward.mean()),
        "falls": int(falls.sum()),
        "episodes": episodes,
        "episodes with steps that did not converge": int((~sound).sum()),
        "configurations": track,
    }


def learns(robot: str, short: bool, steps: int, backend: str, jobs: int) -> Data:
    torch.set_num_threads(1)
    count, each, span = (2, 32, 1.0) if short else (ENVIRONMENTS, ROUND, 10.0)
    make = partial(WalkingBatch, robot, span=span, threads=jobs if backend == "loky" else 1)
    monitored = VecMonitor(environments(make, count, backend, jobs))
    envs = VecNormalize(monitored, norm_obs=False, gamma=GAMMA)  # large values take all of the clipped gradient
    settings = {
        "n_steps": each,
        "batch_size": count * each // 8,
        "gamma": GAMMA,
        "policy_kwargs": {"log_std_init": NOISE},
    }
    model = PPO("MlpPolicy", envs, seed=1, device="cpu", **settings)
    tests = partial(tested, robot=robot, episodes=1 if short else 10, span=span)
    before = {simulator: tests(model, simulator=simulator) for simulator in ("pbfd", "newton-euler")}
    curve, begin = Curve(), time.perf_counter()
    model.learn(2 * count * each if short else steps, callback=curve)
    taken = time.perf_counter() - begin
    envs.close()
    return {
        "robot": robot,
        "actions": model.num_timesteps,
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
    """A column for each robot: its reward by actions, dashed that of the Newton-Euler simulator, and how it moves."""
    figure, panels = axes(2 * len(data["robots"]), rows=2)
    for column, row in enumerate(data["robots"]):
        above, below = panels[column], panels[len(data["robots"]) + column]
        above.plot(*zip(*row["reward by actions"], strict=True), "o-", markersize=3, label="PBFD, as it learns")
        reward = row["after"]["newton-euler"]["reward"]
        above.axhline(reward, color="tab:red", linestyle="--", label="Newton-Euler, learned")
        above.set(title=row["robot"], xlabel="actions", ylabel="reward of an episode")
        above.legend(fontsize=7)
        lines = picture(row, "pbfd")
        overlay(below, lines, max(1, len(lines) // 8))
        below.set(xlabel="x (m)", ylabel="z (m)")
    return figure


def picture(row: Data, simulator: str) -> np.ndarray:
    """Lines of the robot in its first episode after training."""
    legged = LEGGED[row["robot"]]()
    view = SIDE if row["robot"] == "hopper" else OBLIQUE
    return skeleton(legged.robot, row["after"][simulator]["configurations"], view, legged.feet)


def animate(data: Data, path: Path) -> None:
    tracks = {row["robot"]: picture(row, "pbfd") for row in data["robots"]}
    animated(tracks, path, CONTROL)


if __name__ == "__main__":
    main("learn", measure, draw, sys.argv[1:], animate, CHOICES)
