"""Torques of a quadruped that pushes itself up, with forces in friction cones. For everyone who moves legged robots.

HyQ stands on slopes from 0 to 40 degrees and should accelerate upwards. It prints for each slope the friction that the
feet use, the largest torque as a part of its limit, and the acceleration of the trunk sideways, which 40 degrees cannot
avoid. Then it prints a derivative of a torque, next to a difference.
"""

import dynagate as dg
import numpy as np

dog = dg.Robot.from_file(dg.robots.path("hyq"), floating_base=True)
feet = ["lf_foot", "rf_foot", "lh_foot", "rh_foot"]
solver = dg.whole_body_torque(dog, feet, friction=0.6, device="numpy")
q, qdd = dg.neutral(dog), np.zeros(dog.nv)
q[7:] = [0.0, 0.6, -1.2, 0.0, 0.6, -1.2, 0.0, -0.6, 1.2, 0.0, -0.6, 1.2]
qdd[5] = 1.0  # upwards, m/s²

angle = np.radians([0.0, 10.0, 20.0, 30.0, 40.0])
normal = np.stack([np.sin(angle), 0.0 * angle, np.cos(angle)], axis=1)
ground = np.repeat(normal[:, None], 4, axis=1)
found = solver(q, qdd=qdd, normal=ground)
up = np.einsum("sfi,si->sf", found.force, normal)
side = np.linalg.norm(found.force - up[..., None] * normal[:, None], axis=2)
effort = dog.effort[6:]
for k, degrees in enumerate(np.degrees(angle)):
    load = np.abs(found.tau[k, 6:] / effort).max()
    used, away = side[k].sum() / up[k].sum(), np.linalg.norm(found.qdd[k, 3:5])
    print(f"slope {degrees:.0f}: friction {used:.3f}, torque {load:.2f} of its limit, {away:.3f} m/s² sideways")

slopes = solver.sensitivity(q, qdd=qdd)
step = 1e-4 * np.eye(dog.nv)[5]
after, before = (solver(q, qdd=qdd + sign * step).tau for sign in (1.0, -1.0))
knee = dog.nv - 1
print(
    f"a knee's torque by the acceleration {slopes.qdd[knee, 5]:.5f}, {(after - before)[knee] / 2e-4:.5f} by differences"
)
