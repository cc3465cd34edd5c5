"""Model-predictive path integral control of iiwa14: thousands of rollouts a control step, by `dynagate.Rollout`.

    python examples/mppi.py [--seconds 2] [--samples 1024] [--folder build/mppi]

It writes motion.png and cost.json to the folder. The method is that of Williams, Aldrich & Theodorou, "Model predictive
path integral control", 2017: torques that did well among random ones are averaged, weighted by their cost.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from dynagate import Robot, Rollout, evaluate, robots, trace

START = np.array([0.0, 0.3, 0.0, -1.2, 0.0, 0.8, 0.0])
GOAL = np.array([0.6, 0.6, -0.3, -1.5, 0.2, 1.0, 0.3])
DT, HORIZON = 0.02, 25
TEMPERATURE, ACCELERATION = 0.05, 1.0
"""How much better torques must be to count more, and what their spread accelerates each joint by, rad/s²."""


class Controller:
    """samples: rollouts a step. The torques are those against gravity, a damping, and what the rollouts add."""

    def __init__(self, robot: Robot, goal: np.ndarray, samples: int, device: str = "cpu", seed: int = 0) -> None:
        self.n, self.goal, self.samples = robot.nv, goal, samples
        self.rollout = Rollout(robot, steps=HORIZON, dt=DT, device=device, dtype=np.float32)
        self.inverse = trace(robot, "inverse_dynamics")
        inertia = evaluate(trace(robot, "mass_matrix"), {"q": goal[None]})["m"][0]
        self.scale = ACCELERATION * np.diag(inertia)
        self.random = np.random.default_rng(seed)
        self.plan = np.zeros((HORIZON, self.n))

    def gravity(self, q: np.ndarray) -> np.ndarray:
        zero = np.zeros((1, self.n))
        return evaluate(self.inverse, {"q": q[None], "qd": zero, "qdd": zero})["tau"][0]

    def costs(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        """Of rollouts (samples, HORIZON + 1, n); infinite for those that diverge."""
        with np.errstate(all="ignore"):
            cost = np.sum((q - self.goal) ** 2, axis=(1, 2)) + 0.02 * np.sum(qd**2, axis=(1, 2))
        return np.where(np.isfinite(cost), cost, np.inf)

    def torque(self, q: np.ndarray, qd: np.ndarray) -> tuple[np.ndarray, float]:
        """The torque now (n,), and the mean cost of the rollouts with their weights."""
        hold = self.gravity(q)
        # straight lines over the horizon: smooth, and few numbers to draw
        first, last = self.random.normal(size=(2, self.samples, 1, self.n))
        noise = (first + (last - first) * np.linspace(0.0, 1.0, HORIZON)[:, None]) * self.scale
        noise[0] = 0.0  # the plan itself
        torques = hold + self.plan + noise
        start = np.tile(q, (self.samples, 1)), np.tile(qd, (self.samples, 1))
        motion = self.rollout(*start, torques)
        cost = self.costs(motion.q, motion.qd)
        weight = np.exp(-(cost - cost.min()) / (TEMPERATURE * cost.min()))
        weight /= weight.sum()
        self.plan += np.einsum("s,sti->ti", weight, noise)
        now = hold + self.plan[0]
        self.plan = np.concatenate([self.plan[1:], self.plan[-1:]])
        return now, float(weight @ np.where(np.isfinite(cost), cost, 0.0))


def reach(robot: Robot, start: np.ndarray, goal: np.ndarray, steps: int, samples: int, device: str = "cpu") -> tuple:
    """Joint angles (steps + 1, n), the cost of every step, and the seconds of a control step."""
    controller = Controller(robot, goal, samples, device)
    plant = Rollout(robot, steps=10, dt=DT / 10, integrator="rk4")
    q, qd = start.copy(), np.zeros(robot.nv)
    path, costs = [q], []
    began = time.perf_counter()
    for _ in range(steps):
        torque, cost = controller.torque(q, qd)
        after = plant(q, qd, np.tile(torque, (10, 1)))
        q, qd = after.q[-1], after.qd[-1]
        path.append(q)
        costs.append(cost)
    return np.array(path), costs, (time.perf_counter() - began) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--folder", type=Path, default=Path("build/mppi"))
    options = parser.parse_args()
    path, costs, seconds = reach(robots.load("iiwa14"), START, GOAL, round(options.seconds / DT), options.samples)
    left = np.linalg.norm(path[-1] - GOAL)
    print(f"{left:.3f} of {np.linalg.norm(START - GOAL):.3f} rad are left; a control step took {1e3 * seconds:.1f} ms")
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "cost.json").write_text(json.dumps({"cost": costs, "seconds": seconds}, indent=1) + "\n")
    import matplotlib.pyplot as plt

    figure, (angles, cost) = plt.subplots(1, 2, figsize=(9, 3.5))
    angles.plot(DT * np.arange(len(path)), path)
    angles.set(xlabel="s", ylabel="rad", title="Joint angles of iiwa14")
    cost.semilogy(DT * np.arange(len(costs)), costs)
    cost.set(xlabel="s", title="Mean cost of the rollouts")
    figure.tight_layout()
    figure.savefig(options.folder / "motion.png")


if __name__ == "__main__":
    main()
