"""iLQR for a reach of iiwa14 or another arm: rollouts with A and B of every step, from `dynagate.Rollout`.

    python examples/ilqr.py [--robot iiwa14] [--device cpu] [--steps 100] [--folder build/ilqr]

It writes motion.png and cost.json. Devices are those of rollouts (cpu, cuda, numpy, fixed). A chip takes torques
and no gains, so the line search is then in C. The method is that of
Li & Todorov, "Iterative linear quadratic regulator design for nonlinear biological movement systems", 2004.
"""

import json
import time

import matplotlib.pyplot as plt
import numpy as np
from dynagate import Region, Robot, Rollout, evaluate, trace
from reach import TOO_LONG, arm_of, ends, parser_of

GOAL = np.array([1.0, 0.8, -0.4, -1.6, 0.3, 1.0, 0.5])
POSITION, SPEED, TORQUE = 200.0, 1.0, 1e-4
"""Weights of the last position and speed, rad and rad/s, and of each step's torque beyond gravity's, N m."""

FAST, WILD = 20.0, 100.0
"""rad/s on a chip, and rad and rad/s elsewhere: what no motion of use comes to."""


class Problem:
    """A reach in `steps` steps of 10 ms. robot: on a fixed base. device: of the rollouts."""

    def __init__(self, robot: Robot, start: np.ndarray, goal: np.ndarray, steps: int, device: str = "cpu") -> None:
        self.n, self.steps, self.goal = robot.nv, steps, goal
        self.start = np.concatenate([start, np.zeros(self.n)])
        region = Region.of(robot, velocity=FAST, acceleration=600.0)
        chip = {"region": region} if device == "fixed" else {}
        inside = np.concatenate([np.minimum(-np.array(region.lower), region.upper), region.velocity])
        self.bound = inside if chip else np.full(2 * self.n, WILD)
        self.rollout = Rollout(robot, steps=steps, dt=0.01, linearize=True, device=device, **chip)
        feedback = {"feedback": robot.effort.tolist(), "device": "cpu" if chip else device}
        self.closed = Rollout(robot, steps=steps, dt=0.01, **feedback)
        at_rest = dict.fromkeys(("qd", "qdd"), np.zeros((2, self.n)))
        self.first, self.hold = evaluate(trace(robot, "inverse_dynamics"), {"q": [start, goal], **at_rest})["tau"]
        self.weights = np.repeat([POSITION, SPEED], self.n)

    def cost(self, x: np.ndarray, u: np.ndarray) -> float:
        """Of states (steps + 1, 2 n) and torques (steps, n); infinite where the motion goes beyond its bounds."""
        if not (np.abs(x) < self.bound).all():
            return np.inf
        last = x[-1] - np.concatenate([self.goal, np.zeros(self.n)])
        return float(last @ (self.weights * last) + TORQUE * np.sum((u - self.hold) ** 2)) / 2

    def gains(self, x: np.ndarray, u: np.ndarray, a: np.ndarray, b: np.ndarray, near: float) -> list:
        """Feed-forward k and feedback K of every step, by the backward pass. near: a weight of the torques' changes."""
        value, slope = np.diag(self.weights), self.weights * (x[-1] - np.concatenate([self.goal, np.zeros(self.n)]))
        result = []
        for at in reversed(range(self.steps)):
            by_u = TORQUE * (u[at] - self.hold) + b[at].T @ slope
            by_uu = (TORQUE + near) * np.eye(self.n) + b[at].T @ value @ b[at]
            both = np.linalg.solve(by_uu, np.column_stack([by_u, b[at].T @ value @ a[at]]))
            k, feedback = -both[:, 0], -both[:, 1:]
            slope = a[at].T @ slope + a[at].T @ value @ b[at] @ k
            value = a[at].T @ value @ (a[at] + b[at] @ feedback)
            value = (value + value.T) / 2
            result.append((k, feedback))
        return result[::-1]

    def tried(self, x: np.ndarray, u: np.ndarray, gains: list, parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """States and torques with each part of the feed-forward, side by side: (parts, ...)."""
        k, feedback = (np.stack(each) for each in zip(*gains, strict=True))
        near = {"gain": feedback, "q_ref": x[:-1, : self.n], "qd_ref": x[:-1, self.n :]}
        first = np.split(np.tile(x[0], (len(parts), 1)), 2, axis=1)
        motion = self.closed(*first, u + parts[:, None, None] * k, **near)
        return np.concatenate([motion.q, motion.qd], axis=2), motion.tau

    def solve(self, iterations: int = 30) -> tuple[np.ndarray, np.ndarray, list[float]]:
        """States, torques, and the cost after every iteration."""
        u = np.tile(self.first, (self.steps, 1))
        parts, near, costs = 0.5 ** np.arange(8), TORQUE, []
        for _ in range(iterations):
            motion = self.rollout(self.start[: self.n], self.start[self.n :], u)
            if motion.diverged >= 0:
                raise SystemExit(f"the motion diverges at step {motion.diverged}: {TOO_LONG}")
            x = np.concatenate([motion.q, motion.qd], axis=1)
            costs = costs or [self.cost(x, u)]
            states, torques = self.tried(x, u, self.gains(x, u, motion.a, motion.b, near), parts)
            each = [self.cost(*pair) for pair in zip(states, torques, strict=True)]
            best = int(np.argmin(each))
            better = each[best] < costs[-1]
            near *= 0.2 if better else 10.0
            u = torques[best] if better else u
            costs.append(min(each[best], costs[-1]))
        return x, u, costs


def main() -> None:
    parser = parser_of(__doc__, "ilqr")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    robot = arm_of(options)
    problem = Problem(robot, *ends(robot, GOAL), options.steps, options.device)
    began = time.perf_counter()
    (x, _, costs), seconds = problem.solve(), time.perf_counter() - began
    print(f"cost {costs[0]:.3f} -> {costs[-1]:.3f} in {len(costs) - 1} iterations, {1e3 * seconds:.0f} ms")
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "cost.json").write_text(json.dumps({"cost": costs, "seconds": seconds}, indent=1) + "\n")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
    left.plot(0.01 * np.arange(options.steps + 1), x[:, : robot.nv])
    left.set(xlabel="s", ylabel="rad", title=f"Joint angles of {robot.name}")
    right.semilogy(costs, marker="o")
    right.set(xlabel="iteration", title="Cost")
    figure.savefig(options.folder / "motion.png", bbox_inches="tight")


if __name__ == "__main__":
    main()
