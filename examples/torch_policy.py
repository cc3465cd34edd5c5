"""Train a policy through rollouts: a small network brings an arm to rest, with the integers of the fixed-point
datapath.

    python examples/torch_policy.py [two_joint_arm | PATH]

The network computes torques from the state, and the fixed-point datapath computes each step. The gradient ignores the
rounding (straight-through). Adam takes 40 steps.
"""

from __future__ import annotations

import sys

import torch
from dynagate import Region, robots
from dynagate.torch import function

torch.manual_seed(1)
torch.set_num_threads(1)
robot = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else "two_joint_arm"
arm = robots.load(robot)
n = arm.nv
effort = (10.0, 2.0) if robot == "two_joint_arm" else arm.effort  # N m
region = Region.of(arm, velocity=20.0, effort=effort)  # formats must cover every torque of the policy
step = function(arm, "step", backend="fixed", region=region, dt=0.01)
policy = torch.nn.Sequential(torch.nn.Linear(2 * n, 16), torch.nn.Tanh(), torch.nn.Linear(16, n)).double()
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
strength = torch.tensor([8.0, 1.0] if robot == "two_joint_arm" else 0.5 * arm.effort, dtype=torch.float64)  # N m
start = 0.1 * torch.randn(32, 2 * n, dtype=torch.float64)


def cost() -> torch.Tensor:
    """Return the mean over 20 steps of 10 ms of the squared speed plus the squared distance from q = 0."""
    state, total = start, torch.zeros(())
    for _ in range(20):
        torque = strength * torch.tanh(policy(state))
        state = torch.cat(step(state[:, :n], state[:, n:], torque), dim=1)
        total = total + (state**2).sum(dim=1).mean() / 20
    return total


first = float(cost().detach())
for _ in range(40):
    optimizer.zero_grad()
    loss = cost()
    loss.backward()
    optimizer.step()
last = float(cost().detach())
if __name__ == "__main__":
    print(f"cost {first:.2f} before, {last:.2f} after 40 steps")
