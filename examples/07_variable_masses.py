"""Masses as inputs: identify a payload from torques by one least-squares solve. For everyone who calibrates robots.

The ten inertial parameters of the forearm are an input, and the torques are linear in them. The derivative by the input
is the matrix of the least-squares problem. It prints the payload's mass and place, estimated and true.
"""

import dynagate as dg
import numpy as np
from dynagate import jacobian

robot = dg.robots.load("two_joint_arm")
mass, com = 0.8, np.array([0.0, 0.0, 0.25])  # kg, m in the forearm's frame
loaded = robot.with_payload("forearm", mass, tuple(com), np.zeros((3, 3)))

# the data: states, and the torques of the loaded arm with noise of 1 mN m
random = np.random.default_rng(1)
q, qd, qdd = random.normal(size=(3, 200, robot.nv))
torques = dg.compile(loaded, "inverse_dynamics")(q, qd, qdd).tau
torques = torques + 1e-3 * random.normal(size=torques.shape)

# each column of A: the torques by one of the forearm's parameters, which are inputs of the graph: mass m, first moments
# m c (3), and the inertia xx, xy, yy, xz, yz, zz about the link's origin
varied = robot.with_variable("forearm")
regressor = jacobian(dg.trace(varied, "inverse_dynamics"), ["tau"], ["forearm"])
forearm = np.tile(varied.parameters["forearm"], (200, 1))
columns = dg.evaluate(regressor, {"q": q, "qd": qd, "qdd": qdd, "forearm": forearm})["dtau_dforearm"].reshape(-1, 10)

# torques are linear in the parameters, and those that do not move the torques of a planar arm stay 0
empty = dg.compile(robot, "inverse_dynamics")(q, qd, qdd).tau
payload = np.linalg.lstsq(columns, (torques - empty).ravel(), rcond=1e-9)[0]
print(f"mass: estimated {payload[0]:.4f} kg, true {mass:.4f} kg")
print(f"height of its center: estimated {1e3 * payload[3] / payload[0]:.2f} mm, true {1e3 * com[2]:.2f} mm")
