"""Train a quadruped to walk at a commanded speed, by PPO in JAX on `dynagate.envs.LeggedEnv`.

    pip install '.[rl]'
    python -m examples.train_quadruped --robot aliengo.urdf --feet FL_foot,FR_foot,RL_foot,RR_foot \\
        --stance '*thigh*=0.8,*calf*=-1.6' --stiffness 60 --damping 2 --folder walk

The policy sends targets of joints at 50 Hz. Each update prints the mean reward of an action. The folder then has the
policy, the curve of rewards, and a motion as a GIF and as a page for a browser. Other robots are options (`--help`).
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from dynagate.envs import LeggedEnv

from examples import walking

HORIZON, EPOCHS, BATCHES = 24, 4, 4
"""Actions of each robot in an update, passes over them, and parts of a pass."""

DISCOUNT, TRACE, CLIP, RATE = 0.98, 0.95, 0.2, 1e-3

NOISE = 0.002
"""Weight of the logarithms of the actions' deviations in the loss. It keeps the policy from needing its own noise."""

Weights = dict[str, Any]


def network(key: Any, inputs: int, outputs: int) -> Weights:
    """Return the weights of an actor and a critic with two hidden layers each."""
    weights: Weights = {"deviation": jnp.full(outputs, -1.0)}
    for name, last, scale in (("actor", outputs, 0.01), ("critic", 1, 1.0)):
        sizes = (inputs, 128, 128, last)
        for k, (a, b) in enumerate(pairwise(sizes)):
            key, own = jax.random.split(key)
            gain = scale if b == last else 1.0
            weights[f"{name}{k}"] = jax.random.normal(own, (a, b)) * gain / jnp.sqrt(a), jnp.zeros(b)
    return weights


def layers(weights: Weights, name: str, x: Any) -> Any:
    for k in range(3):
        matrix, offset = weights[f"{name}{k}"]
        x = x @ matrix + offset
        x = jax.nn.elu(x) if k < 2 else x
    return x


def likelihood(weights: Weights, seen: Any, action: Any) -> Any:
    """Return the logarithm of the density of actions."""
    away = (action - layers(weights, "actor", seen)) * jnp.exp(-weights["deviation"])
    return -0.5 * (away**2).sum(-1) - weights["deviation"].sum()


@jax.jit
def act(weights: Weights, seen: Any, key: Any) -> tuple[Any, Any, Any]:
    """Return random actions, the logarithms of their densities, and values of the states."""
    mean = layers(weights, "actor", seen)
    action = mean + jnp.exp(weights["deviation"]) * jax.random.normal(key, mean.shape)
    return action, likelihood(weights, seen, action), layers(weights, "critic", seen)[..., 0]


def loss(weights: Weights, batch: dict[str, Any]) -> Any:
    ratio = jnp.exp(likelihood(weights, batch["seen"], batch["action"]) - batch["density"])
    better = (batch["advantage"] - batch["advantage"].mean()) / (batch["advantage"].std() + 1e-8)
    gain = jnp.minimum(ratio * better, jnp.clip(ratio, 1.0 - CLIP, 1.0 + CLIP) * better).mean()
    miss = ((layers(weights, "critic", batch["seen"])[..., 0] - batch["target"]) ** 2).mean()
    return 0.5 * miss - gain + NOISE * weights["deviation"].sum()


@jax.jit
def improve(weights: Weights, moments: Any, batch: dict[str, Any]) -> tuple[Weights, Any]:
    """Take one step of Adam."""
    slope = jax.grad(loss)(weights, batch)
    size = jnp.sqrt(sum((x**2).sum() for x in jax.tree.leaves(slope)))
    slope = jax.tree.map(lambda x: x / jnp.maximum(1.0, size), slope)
    count, mean, square = moments
    count = count + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slope)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, square, slope)

    def moved(w: Any, m: Any, s: Any) -> Any:
        return w - RATE * m / (1.0 - 0.9**count) / (jnp.sqrt(s / (1.0 - 0.999**count)) + 1e-8)

    return jax.tree.map(moved, weights, mean, square), (count, mean, square)


def collect(env: LeggedEnv, weights: Weights, seen: Any, key: Any) -> tuple[dict[str, Any], Any, float]:
    """Return the actions of all robots with their advantages, the last observation, and the mean reward."""
    rows = []
    for k in range(HORIZON):
        action, density, value = act(weights, seen, jax.random.fold_in(key, k))
        after, reward, terminated, truncated, _ = env.step(np.asarray(action))
        rows.append((seen, action, density, np.asarray(value), reward, terminated | truncated))
        seen = after
    seen_rows, actions, densities, values, rewards, ends = (np.stack(x) for x in zip(*rows, strict=True))
    later = np.asarray(act(weights, seen, key)[2])
    advantage, total = np.zeros_like(values), np.zeros(env.num_envs)
    for k in reversed(range(HORIZON)):
        going = 1.0 - ends[k]
        total = rewards[k] + DISCOUNT * going * later - values[k] + DISCOUNT * TRACE * going * total
        advantage[k], later = total, values[k]
    batch = {"seen": seen_rows, "action": actions, "density": densities}
    batch |= {"advantage": advantage, "target": advantage + values}
    return {name: x.reshape(-1, *x.shape[2:]) for name, x in batch.items()}, seen, float(rewards.mean())


def train(env: LeggedEnv, updates: int, seed: int = 0) -> tuple[Weights, list[tuple[float, float]]]:
    """Return the weights of a policy, and the processor time in s and mean reward of each update."""
    random, key, begin = np.random.default_rng(seed), jax.random.key(seed), time.process_time()
    seen, _ = env.reset(seed=seed)
    weights = network(key, seen.shape[1], env.single_action_space.shape[0])
    zeros = jax.tree.map(jnp.zeros_like, weights)
    moments, curve = (0, zeros, zeros), []
    for update in range(updates):
        batch, seen, reward = collect(env, weights, seen, jax.random.fold_in(key, update))
        for _ in range(EPOCHS):
            for part in np.array_split(random.permutation(len(batch["density"])), BATCHES):
                weights, moments = improve(weights, moments, {name: x[part] for name, x in batch.items()})
        curve.append((time.process_time() - begin, reward))
        print(f"update {update}: {curve[-1][0]:.0f} s of processor time, mean reward {reward:.3f}", flush=True)
    return weights, curve


def main() -> None:
    parser = walking.options(__doc__)
    parser.add_argument("--updates", type=int, default=200, help="Number of updates of the policy.")
    chosen = vars(parser.parse_args())
    weights, curve = train(walking.environment(chosen, chosen["robots"]), chosen["updates"], chosen["seed"])
    walking.finish(chosen, [weights[f"actor{k}"] for k in range(3)], curve)


if __name__ == "__main__":
    main()
