"""Masses as inputs: identify a payload from torques by one least-squares solve. For everyone who calibrates robots.

The ten inertial parameters of the forearm are an input of the compiled function, so that no new payload compiles
anything. Torques are linear in them. It prints the payload's mass and place, estimated and true.
"""

import dynagate as dg
import numpy as np

robot = dg.robots.load("two_joint_arm")
mass, com = 0.8, np.array([0.0, 0.0, 0.25])  # kg, m in the forearm's frame
loaded = robot.with_payload("forearm", mass, tuple(com), np.zeros((3, 3)))

# the data: states, and the torques of the loaded arm with noise of 1 mN m
random = np.random.default_rng(1)
q, qd, qdd = random.normal(size=(3, 200, robot.nv))
torques = dg.compile(loaded, "inverse_dynamics")(q, qd, qdd).tau
torques = torques + 1e-3 * random.normal(size=torques.shape)

# each column of A: the torques by one of the forearm's parameters, from one call that broadcasts 11 sets to all states:
# mass m, first moments m c (3), and the inertia xx, xy, yy, xz, yz, zz about the link's origin
dynamics = dg.compile(robot, "inverse_dynamics", variable=["forearm"])
sets = np.vstack([np.zeros(10), np.eye(10)])
each = dynamics(q, qd, qdd, sets[:, None]).tau
columns = (each[1:] - each[0]).reshape(10, -1).T

# torques are linear in the parameters, and those that do not move the torques of a planar arm stay 0
empty = dg.compile(robot, "inverse_dynamics")(q, qd, qdd).tau
payload = np.linalg.lstsq(columns, (torques - empty).ravel(), rcond=1e-9)[0]
print(f"mass: estimated {payload[0]:.4f} kg, true {mass:.4f} kg")
print(f"height of its center: estimated {1e3 * payload[3] / payload[0]:.2f} mm, true {1e3 * com[2]:.2f} mm")
