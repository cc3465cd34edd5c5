"""A reach by Crocoddyl, beside its own model: the same arm, cost and solver, solve times of one run.

    python examples/bridges/crocoddyl_reach.py [two_joint_arm | PATH]

Crocoddyl's model is C++ over Pinocchio and called from C++; ours is called through Python, knot by knot.
"""

from __future__ import annotations

import sys
import time

import crocoddyl
import numpy as np
import pinocchio
from dynagate import robots
from dynagate.mpc.actions import ActionModel, StepDerivatives, TerminalModel

KNOTS, DT = 50, 0.02
robot = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else "two_joint_arm"
arm = robots.load(robot, damping=False)  # Crocoddyl's model has no damping or friction
n = arm.nv
start, target = (np.concatenate([np.resize(q, n), np.zeros(n)]) for q in ([0.3, 0.2], [-1.0, 1.1]))
weights = np.repeat([1.0, 0.1], n)


model = pinocchio.buildModelFromUrdf(str(robots.path(robot) if robot in robots.names() else robot))


def in_its_order(x: np.ndarray) -> np.ndarray:
    """A state of ours in Pinocchio's order of joints, continuous ones as two numbers."""
    _, order = arm.permutation(list(model.names)[1:])
    q = pinocchio.integrate(model, pinocchio.neutral(model), x[:n][order])
    return np.concatenate([q, x[n:][order]])


def ours() -> crocoddyl.ShootingProblem:
    step = StepDerivatives(arm, DT)
    running = ActionModel(step, target, DT * weights, DT * 1e-2 * np.ones(n))
    return crocoddyl.ShootingProblem(start, [running] * KNOTS, TerminalModel(step, target, 100.0 * weights))


def its_own() -> crocoddyl.ShootingProblem:
    state = crocoddyl.StateMultibody(model)
    actuation = crocoddyl.ActuationModelFull(state)
    activation = crocoddyl.ActivationModelWeightedQuad(weights)
    away = crocoddyl.CostModelResidual(state, activation, crocoddyl.ResidualModelState(state, in_its_order(target), n))
    torque = crocoddyl.CostModelResidual(state, crocoddyl.ResidualModelControl(state, n))
    running, terminal = crocoddyl.CostModelSum(state, n), crocoddyl.CostModelSum(state, n)
    running.addCost("away", away, 1.0)
    running.addCost("torque", torque, 1e-2)
    terminal.addCost("away", away, 100.0)
    models = []
    for costs, dt in ((running, DT), (terminal, 0.0)):
        motion = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)
        # Use the mass matrix: with ABA, Crocoddyl 3.2 gives wrong accelerations with Pinocchio 4.1.
        motion.armature = np.zeros(n)
        models.append(crocoddyl.IntegratedActionModelEuler(motion, dt))
    return crocoddyl.ShootingProblem(in_its_order(start), [models[0]] * KNOTS, models[1])


def solved(problem: crocoddyl.ShootingProblem) -> tuple[crocoddyl.SolverFDDP, float]:
    """The solver when it is done, and the shortest of three solve times in seconds."""
    shortest = np.inf
    for _ in range(3):
        solver = crocoddyl.SolverFDDP(problem)
        begin = time.perf_counter()
        assert solver.solve([problem.x0] * (KNOTS + 1), [np.zeros(n)] * KNOTS, 200, False)
        shortest = min(shortest, time.perf_counter() - begin)
    return solver, shortest


(own, own_seconds), (solver, seconds) = solved(its_own()), solved(ours())
if __name__ == "__main__":
    for name, each, took in (("Crocoddyl's model", own, own_seconds), ("dynagate's", solver, seconds)):
        print(f"{name:18} cost {each.cost:.6f}, {each.iter} iterations, {1e3 * took:.1f} ms")
    print(f"ratio per iteration {seconds / solver.iter / (own_seconds / own.iter):.2f}")
