"""Exact derivatives of forward dynamics, next to finite differences. For everyone who optimizes or learns motions.

It prints the largest difference between both, relative to the largest derivative, and the size of a batch.
"""

import dynagate as dg
import numpy as np

robot = dg.robots.load("iiwa14")  # or dg.Robot.from_file("my_robot.urdf")
dynamics = dg.compile(robot, "forward_dynamics")
gradient = dg.compile(robot, "forward_dynamics_gradient")

random = np.random.default_rng(0)
q = dg.integrate(robot, dg.neutral(robot), random.uniform(-0.5, 0.5, robot.nv))  # rad
qd, tau = random.uniform(-1.0, 1.0, (2, robot.nv))  # rad/s, N m
exact = gradient(q, qd, tau)  # qdd, dqdd_dq, dqdd_dqd, and minv, which is the derivative by tau

step = 1e-6 * np.eye(robot.nv)  # one small step for each joint: a batch of states in one call
ahead, behind = (dynamics(dg.integrate(robot, q, sign * step), qd, tau).qdd for sign in (1, -1))
numeric = (ahead - behind).T / 2e-6
difference = np.abs(exact.dqdd_dq - numeric).max() / np.abs(numeric).max()
print(f"largest difference of dqdd_dq from finite differences: {difference:.1e}")

states = random.uniform(-1.0, 1.0, (3, 1024, robot.nv))
batch = gradient(*states)
print(f"a batch of 1024 states: dqdd_dq has shape {batch.dqdd_dq.shape}")
