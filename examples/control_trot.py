"""HyQ trots: iLQR plans torques over a given schedule of contacts, from a URDF file to a motion.

    python examples/control_trot.py [--folder build/trot]

One diagonal pair of feet stands while the other swings, with all four feet on the ground in between. The cost rewards
bent legs and a moving trunk. The example writes motion.gif and cost.json. The first run compiles the solver, which
takes a minute.
"""

import argparse
import json
import time
from pathlib import Path

import dynagate
import numpy as np
from dynagate import Robot, evaluate, neutral, robots, trace
from dynagate.control import Cost

FEET = ("lf_foot", "rf_foot", "lh_foot", "rh_foot")
DT, STRIDE, STAND = 0.01, 15, 5
PHASES = [(0, 3), (1, 2), (0, 3), (1, 2)]  # pairs of feet on the ground
KNOTS = len(PHASES) * (STRIDE + STAND) + STAND
SPEED = 0.25  # m/s
BEND = np.array([[0.0, 0.6, -1.2]] * 2 + [[0.0, -0.6, 1.2]] * 2)  # rad: hip sideways, hip and knee of each leg
LIFT = np.array([[0.0, 0.3, -0.6]] * 2 + [[0.0, -0.3, 0.6]] * 2)


def trotting() -> tuple[Robot, np.ndarray, np.ndarray]:
    """Return HyQ with contacts at its feet, the active contacts (knots, 4), and the target configurations (knots + 1,
    nq).
    """
    robot = robots.load("hyq", floating_base=True)
    for foot in FEET:
        robot = robot.with_contact(foot, damping=20.0)
    active, goal = np.ones((KNOTS, 4)), np.tile(neutral(robot), (KNOTS + 1, 1))
    goal[:, 7:] = BEND.ravel()
    goal[:, 0] = SPEED * DT * np.arange(KNOTS + 1)
    for k, standing in enumerate(PHASES):
        first = STAND + k * (STRIDE + STAND)
        height = np.sin(np.pi * np.arange(STRIDE) / STRIDE)
        for leg in set(range(4)) - set(standing):
            active[first : first + STRIDE, leg] = 0.0
            goal[first : first + STRIDE, 7 + 3 * leg : 10 + 3 * leg] += height[:, None] * LIFT[leg]
    return robot, active, goal


def standing(robot: Robot, active: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return torques (knots, nv) that hold the robot still at the targets, on the feet that stand."""
    still = np.zeros((KNOTS, robot.nv))
    inverse = trace(robot, "constrained_inverse_dynamics", outputs=["tau"])
    torques = evaluate(inverse, {"q": goal[:-1], "qd": still, "qdd": still, "active": active})["tau"]
    return np.concatenate([still[:, :6], torques[:, 6:]], axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/trot"))
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    robot, active, goal = trotting()
    weights = [20.0, 20.0, 100.0, 50.0, 50.0, 50.0, *[5.0] * 12]
    cost = Cost.quadratic(q=weights, qd=0.05, tau=1e-5, final=2.0, each=True)
    began = time.perf_counter()
    with dynagate.ilqr(robot, knots=KNOTS, dt=DT, cost=cost, constrained=True, tolerance=1e-4) as solver:
        ready = time.perf_counter()
        plan = solver(goal[0], np.zeros(robot.nv), standing(robot, active, goal), goal=goal, active=active)
    print(f"the solver was ready in {ready - began:.0f} s; cost {plan.costs[0]:.0f} -> {plan.cost:.2f}", end=" ")
    print(f"in {plan.iterations} iterations, {1e3 * (time.perf_counter() - ready):.0f} ms")
    print(f"the trunk moved {plan.q[-1, 0]:.2f} m and sank {-1e3 * plan.q[:, 2].min():.0f} mm at most")
    dynagate.draw(robot, plan.q, folder / "motion.gif", dt=DT)
    result = {"cost": plan.costs[: plan.iterations + 1].tolist(), "q": plan.q.tolist(), "active": active.tolist()}
    (folder / "cost.json").write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
