"""PD control with gravity compensation in a loop of 1 kHz. For everyone who writes controllers for arms.

The controller believes its own model; the simulated arm carries a payload of 1 kg that the controller does not know.
It prints the error that remains with and without gravity compensation, in mrad.
"""

import dynagate as dg
import numpy as np

robot = dg.robots.load("iiwa14")
gravity = dg.compile(robot, "gravity_torque")
loaded = robot.with_payload(robot.links[-1].name, 1.0, (0.0, 0.0, 0.1), np.zeros((3, 3)))
plant = dg.Rollout(loaded, steps=1, dt=1e-3)

goal = np.array([0.5, 0.6, -0.3, -1.2, 0.3, 0.8, 0.2])  # rad
stiffness = np.array([600.0, 600.0, 300.0, 300.0, 60.0, 60.0, 20.0])  # N m / rad
damping = np.array([80.0, 80.0, 30.0, 30.0, 3.0, 3.0, 0.5])  # N m s / rad


def reach(compensate: bool) -> np.ndarray:
    """Return the joint angles of 2 s of control, (2001, 7)."""
    q, qd = np.zeros(robot.nq), np.zeros(robot.nv)
    path = [q]
    for _ in range(2000):
        tau = stiffness * (goal - q) - damping * qd
        if compensate:
            tau = tau + gravity(q).gravity_torque
        tau = np.clip(tau, -robot.effort, robot.effort)
        after = plant(q, qd, tau[None])  # torques have an axis for the steps
        q, qd = after.q[-1], after.qd[-1]
        path.append(q)
    return np.array(path)


path, sagging = reach(True), reach(False)
for name, motion in (("with gravity compensation", path), ("without", sagging)):
    print(f"{name}: {1e3 * np.abs(motion[-1] - goal).max():.1f} mrad from the goal")
