"""Trains a policy through rollouts: a small network swings an arm to stand still, on the integers that will ship.

Torques come from a network of the state, one step of the fixed-point datapath after another; the gradient passes the
rounding straight through. Adam takes 40 steps of it.
"""

from __future__ import annotations

import torch
from dynagate import Region, robots
from dynagate.torch import function

torch.manual_seed(1)
torch.set_num_threads(1)
arm = robots.load("two_joint_arm")
region = Region.of(arm, velocity=20.0, effort=(10.0, 2.0))  # N m: the formats are for all that the policy may ask for
step = function(arm, "step", backend="fixed", region=region, dt=0.01)
policy = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).double()
optimiser = torch.optim.Adam(policy.parameters(), lr=0.01)
strength = torch.tensor([8.0, 1.0], dtype=torch.float64)  # N m
start = 0.1 * torch.randn(32, 4, dtype=torch.float64)


def cost() -> torch.Tensor:
    """Mean over 20 steps of 10 ms of squared speed, and of the squared distance from q = 0."""
    state, total = start, torch.zeros(())
    for _ in range(20):
        torque = strength * torch.tanh(policy(state))
        state = torch.cat(step(state[:, :2], state[:, 2:], torque), dim=1)
        total = total + (state**2).sum(dim=1).mean() / 20
    return total


first = float(cost().detach())
for _ in range(40):
    optimiser.zero_grad()
    loss = cost()
    loss.backward()
    optimiser.step()
last = float(cost().detach())
if __name__ == "__main__":
    print(f"cost {first:.2f} before, {last:.2f} after 40 steps")
