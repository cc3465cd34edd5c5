"""A hand that goes around a ball and stops, by optimal control with constraints. For everyone who plans motions.

iLQR plans 30 knots of a two-joint arm, once without and once with constraints. It prints the smallest distance of the
tip from the ball's center, the speed at the end and the cost of both plans, or how much a constraint is violated.
"""

import dynagate as dg
import numpy as np
from dynagate.control import Constraint, Cost

robot = dg.robots.load("two_joint_arm").with_frame("tip", on="forearm", translation=(0.0, 0.0, 0.36))
RADIUS, BALL = 0.15, np.array([0.5, 0.0, 0.66])


def outside(knot):
    """Return a number that is above 0 inside of the ball."""
    x, _, z = knot.position("tip") - BALL
    return RADIUS**2 - x * x - z * z


def at_rest(knot):
    """Return what is 0 at the end."""
    return knot.qd


cost = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=100.0)
constraints = [Constraint(outside, at="all", scale=0.1), Constraint(at_rest, equal=True, at="end")]
tip = dg.compile(robot, "frame_pose_tip")
plans = {}
for name, kept in (("free", []), ("constrained", constraints)):
    solver = dg.ilqr(robot, knots=30, dt=0.02, cost=cost, constraints=kept, iterations=400)
    plan = plans[name] = solver([0.0, 0.1], [0.0, 0.0], goal=[1.2, 0.3])
    distance = np.linalg.norm(tip(plan.q).frame_position - BALL, axis=-1).min()
    print(f"{name}: distance {distance:.4f} m, last speed {np.abs(plan.qd[-1]).max():.4f} rad/s, cost {plan.cost:.3f}")
print("largest violation", np.array2string(plan.violation, precision=1), "converged", plan.converged)
