"""Predictive control by sampled torques (MPPI) in a closed loop. For costs that have no derivatives.

In each period of 20 ms the controller rolls out 512 random torque sequences, weights them by their cost, and applies
the first torque of the mean. It prints the distance from the goal at the start and at the end.
"""

import dynagate as dg
import numpy as np
from dynagate.control import Cost

robot = dg.robots.load("two_joint_arm")
gravity = dg.compile(robot, "gravity_torque")
cost = Cost.quadratic(q=20.0, qd=0.5, tau=1e-3, final=5.0)
options = {"samples": 512, "temperature": 0.1, "spread": [1.0, 0.3], "nodes": 4, "seed": 1}
controller = dg.mppi(robot, knots=25, dt=0.02, cost=cost, bounds=True, **options)
plant = dg.Rollout(robot, steps=1, dt=0.02)

q, qd, goal = np.array([0.2, -0.4]), np.zeros(2), np.array([0.9, 0.5])  # rad, rad/s
hold = gravity(goal).gravity_torque  # N m: the torque that costs nothing
path, guess = [q], np.tile(gravity(q).gravity_torque, (25, 1))
for _ in range(75):  # 1.5 s
    plan = controller(q, qd, guess, goal=goal, hold=hold)
    after = plant(q, qd, plan.tau[:1])
    q, qd = after.q[-1], after.qd[-1]
    guess = np.concatenate([plan.tau[1:], plan.tau[-1:]])  # the last plan, shifted by one knot
    path.append(q)

print(f"the arm went from {np.abs(path[0] - goal).max():.3f} to {np.abs(q - goal).max():.3f} rad from the goal")
