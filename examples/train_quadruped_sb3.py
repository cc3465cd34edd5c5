"""Train a quadruped to walk at a commanded speed, by PPO of stable-baselines3 on `dynagate.envs.LeggedEnv`.

    pip install '.[rl,learn]'
    python -m examples.train_quadruped_sb3 --folder walk

The task, the options and the files are those of `train_quadruped.py`. PyTorch's CPU build is enough.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from dynagate.envs import LeggedEnv
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from examples import walking

HORIZON = 24
"""Actions of each robot in an update."""


class Adapter(VecEnv):
    """Environments of `dynagate.envs` as a `VecEnv`: all robots are stepped by one call in C."""

    def __init__(self, env: LeggedEnv) -> None:
        self.env, self.actions, self.rewards = env, np.zeros(env.action_space.shape), 0.0
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> Any:
        return self.env.reset(seed=0)[0]

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        seen, reward, terminated, truncated, info = self.env.step(self.actions)
        self.rewards = float(reward.mean())
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(terminated | truncated):
            infos[i] = {"terminal_observation": info["final_obs"][i], "TimeLimit.truncated": bool(truncated[i])}
        return seen, reward, terminated | truncated, infos

    def close(self) -> None:
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.env, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self.env, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        return [getattr(self.env, method_name)(*args, **kwargs)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


class Curve(BaseCallback):
    """Keep the processor time in s and the mean reward of each update."""

    def __init__(self, adapter: Adapter) -> None:
        super().__init__()
        self.adapter, self.begin, self.sums = adapter, time.process_time(), 0.0
        self.curve: list[tuple[float, float]] = []

    def _on_step(self) -> bool:
        self.sums += self.adapter.rewards
        return True

    def _on_rollout_end(self) -> None:
        self.curve.append((time.process_time() - self.begin, self.sums / HORIZON))
        print(f"update {len(self.curve)}: {self.curve[-1][0]:.0f} s, mean reward {self.curve[-1][1]:.3f}", flush=True)
        self.sums = 0.0


def layers_of(policy: Any) -> list[tuple[Any, Any]]:
    """Return the matrices and offsets of the actor."""
    modules = [each for each in policy.mlp_extractor.policy_net if isinstance(each, torch.nn.Linear)]
    return [(each.weight.detach().numpy().T, each.bias.detach().numpy()) for each in (*modules, policy.action_net)]


def main() -> None:
    parser = walking.options(__doc__)
    parser.add_argument("--updates", type=int, default=200, help="Number of updates of the policy.")
    chosen = vars(parser.parse_args())
    torch.set_num_threads(chosen["threads"])
    adapter = Adapter(walking.environment(chosen, chosen["robots"]))
    model = PPO(
        "MlpPolicy",
        adapter,
        n_steps=HORIZON,
        batch_size=HORIZON * chosen["robots"] // 4,
        n_epochs=4,
        gamma=0.98,
        learning_rate=1e-3,
        ent_coef=-0.002,  # keeps the policy from needing its own noise
        max_grad_norm=1.0,
        policy_kwargs={"net_arch": [128, 128], "activation_fn": torch.nn.ELU, "log_std_init": -1.0},
        seed=chosen["seed"],
        device="cpu",
    )
    curve = Curve(adapter)
    model.learn(chosen["updates"] * HORIZON * chosen["robots"], callback=curve)
    walking.finish(chosen, layers_of(model.policy), curve.curve)


if __name__ == "__main__":
    main()
