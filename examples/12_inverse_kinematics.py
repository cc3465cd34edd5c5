"""Joint angles for poses of a hand, in a batch and along a circle. For everyone who moves arms.

iiwa14 reaches a thousand random poses, then follows a circle with its hand pointing down. It prints how many poses it
reaches within the joints' limits, the largest error by forward kinematics, and the largest step of a joint.
"""

import dynagate as dg
import numpy as np

robot = dg.robots.load("iiwa14")
solver = dg.inverse_kinematics(robot, ["link_7"])
kinematics = dg.compile(robot, "frame_pose_link_7")


def poses_at(q):
    """Return the poses (..., 4, 4) of the hand."""
    pose = np.tile(np.eye(4), (*q.shape[:-1], 1, 1))
    results = kinematics(q)
    pose[..., :3, :3], pose[..., :3, 3] = results.frame_rotation, results.frame_position
    return pose


random = np.random.default_rng(0)
poses = poses_at(random.uniform(robot.lower, robot.upper, (1000, 7)))
found = solver(link_7=poses)
inside = ((found.q >= robot.lower) & (found.q <= robot.upper)).all(axis=1)
print(f"reached {np.sum(found.converged & inside)} of 1000 poses within limits")
print(f"largest error {np.abs(poses_at(found.q) - poses)[found.converged].max():.1e}")

angle = np.linspace(0.0, 2.0 * np.pi, 80)
circle = np.tile(np.diag([-1.0, 1.0, -1.0, 1.0]), (80, 1, 1))
circle[:, :3, 3] = np.stack([0.6 + 0.12 * np.cos(angle), 0.12 * np.sin(angle), np.full(80, 0.3)], axis=1)
path = [solver([0.0, 0.6, 0.0, -1.4, 0.0, 1.1, 0.0], link_7=circle[0]).q]
for pose in circle[1:]:
    path.append(solver(path[-1], link_7=pose).q)  # each search starts at the previous solution
path = np.array(path)
print(f"along the circle {np.abs(np.diff(path, axis=0)).max():.3f} rad is the largest step of a joint")
