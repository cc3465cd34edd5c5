"""An optimal motion by iLQR, and its gains against a push. For everyone who plans motions.

A two-joint arm reaches with bounded torques. It prints the cost before and after, how close the arm
comes to the goal, and how much of a push remains with and without the solver's gains.
"""

import dynagate as dg
import numpy as np
from dynagate.control import Cost

KNOTS, DT = 60, 0.02  # number of torques, and seconds per torque
robot = dg.robots.load("two_joint_arm")
cost = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=200.0)
solver = dg.ilqr(robot, knots=KNOTS, dt=DT, cost=cost, bounds=True)  # bounds are the file's effort limits

start, goal = np.array([0.0, 0.0]), np.array([0.8, 0.5])  # rad
plan = solver(start, np.zeros(2), goal=goal)
print(f"cost {plan.costs[0]:.1f} -> {plan.cost:.2f} in {plan.iterations} iterations, converged: {plan.converged}")
print(f"the motion ends {1e3 * np.abs(plan.q[-1] - goal).max():.1f} mrad from the goal")

pushed = start + 0.01  # rad, beside the start of the plan
free = dg.Rollout(robot, steps=KNOTS, dt=DT)
closed = dg.Rollout(robot, steps=KNOTS, dt=DT, feedback=True)
apart = [
    np.abs(motion.q[-1] - plan.q[-1]).max()
    for motion in (
        free(pushed, np.zeros(2), plan.tau),
        closed(pushed, np.zeros(2), plan.tau, gain=plan.gains, q_ref=plan.q[:-1], qd_ref=plan.qd[:-1]),
    )
]
print(f"pushed by 10 mrad, it ends {1e3 * apart[0]:.1f} mrad away without gains, {1e3 * apart[1]:.3f} mrad with them")
