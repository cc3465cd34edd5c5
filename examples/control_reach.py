"""iiwa14's hand follows a moving target: iLQR in a closed loop, from a URDF file to torques.

    python examples/control_reach.py [--robot iiwa14] [--seconds 1.5] [--folder build/control_reach]

Every 20 ms the solver plans half a second ahead, starting from its last plan shifted by one knot. The simulated robot
takes steps of 2 ms with disturbed torques. The example writes motion.gif and cost.json.
"""

import argparse
import json
import time
from pathlib import Path

import dynagate
import numpy as np
from dynagate import Robot, Rollout, evaluate, robots, trace
from dynagate.control import Cost

START = np.array([0.0, 0.3, 0.0, -1.2, 0.0, 0.8, 0.0])
KNOTS, DT, INNER = 25, 0.02, 10
NOISE = 1.0  # N m: standard deviation of the disturbance of each torque


class Controller:
    """An iLQR controller for a robot with a frame named `hand`."""

    def __init__(self, robot: Robot) -> None:
        cost = Cost.quadratic(qd=0.1, tau=1e-4, frame="hand", place=400.0, final=1.0)
        self.solver = dynagate.ilqr(robot, knots=KNOTS, dt=DT, cost=cost, bounds=True, iterations=3)
        self.inverse = trace(robot, "inverse_dynamics")
        self.plan = None

    def torque(self, q: np.ndarray, qd: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return the torques (nv,) for the next 20 ms."""
        still = {"q": q[None], "qd": np.zeros((1, len(qd))), "qdd": np.zeros((1, len(qd)))}
        hold = evaluate(self.inverse, still)["tau"][0]
        warm = None if self.plan is None else self.plan.shifted()
        self.plan = self.solver(q, qd, warm=warm, target=target, hold=hold)
        return self.plan.tau[0]


def followed(robot: Robot, start: np.ndarray, seconds: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return joint angles (steps + 1, n), the hand's distance from its target, m, and the seconds of each plan."""
    controller, random = Controller(robot), np.random.default_rng(0)
    plant = Rollout(robot, steps=INNER, dt=DT / INNER)
    hand = trace(robot, "frame_pose_hand", outputs=["frame_position"])
    q, qd, path, away, took = start, np.zeros(robot.nv), [start], [], []
    first = evaluate(hand, {"q": q[None]})["frame_position"][0]
    for step in range(round(seconds / DT)):
        turn = 2.0 * np.pi * min(step * DT, 1.0)
        target = first + 0.15 * np.array([np.cos(turn) - 1.0, np.sin(turn), 0.0])
        began = time.perf_counter()
        torque = controller.torque(q, qd, target)
        took.append(time.perf_counter() - began)
        after = plant(q, qd, torque + NOISE * random.normal(size=(INNER, robot.nv)))
        q, qd = after.q[-1], after.qd[-1]
        path.append(q)
        away.append(np.linalg.norm(evaluate(hand, {"q": q[None]})["frame_position"][0] - target))
    return np.array(path), np.array(away), np.array(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="iiwa14", help="a robot that ships, or the path of a URDF file")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--folder", type=Path, default=Path("build/control_reach"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    arm = robots.load(options.robot)
    robot = arm.with_frame("hand", on=arm.links[-1].name)
    start = START if robot.nv == len(START) else np.full(robot.nv, 0.3)
    path, away, took = followed(robot, start, options.seconds)
    print(f"a plan took {1e3 * np.median(took):.1f} ms (median) and {1e3 * took[1:].max():.1f} ms at most")
    print(f"the hand was {1e3 * away.max():.0f} mm from its target at most, and ended {1e3 * away[-1]:.1f} mm from it")
    dynagate.draw(robot, path, options.folder / "motion.gif", dt=DT)
    (options.folder / "cost.json").write_text(json.dumps({"away": away.tolist(), "seconds": took.tolist()}) + "\n")


if __name__ == "__main__":
    main()
