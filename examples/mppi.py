"""Model-predictive path integral control of iiwa14 or another arm: thousands of rollouts a step, by `dynagate.Rollout`.

    python examples/mppi.py [--robot iiwa14] [--device cpu] [--beside mujoco] [--samples 1024] [--folder build/mppi]

It writes motion.png and cost.json. Devices are those of rollouts (cpu, cuda, numpy, fixed), and `mujoco.rollout`.
Random torques are averaged by cost: Williams, Aldrich & Theodorou, "Model predictive path integral control", 2017.
"""

import json
import time

import matplotlib.pyplot as plt
import numpy as np
from dynagate import Region, Robot, Rollout, evaluate, trace
from reach import TOO_LONG, arm_of, ends, parser_of

GOAL = np.array([0.6, 0.6, -0.3, -1.5, 0.2, 1.0, 0.3])
DT, HORIZON = 0.02, 25
TEMPERATURE, ACCELERATION = 0.05, 1.0
"""How much better torques must be to count more, and what their spread accelerates each joint by, rad/s²."""


def rollouts_of(robot: Robot, device: str):
    """(q0, qd0, tau) -> q, qd (batch, HORIZON, n), and which trajectories are of use (batch,)."""
    if device == "mujoco":
        from dynagate.bench.mujoco_peer import MujocoRollout

        peer = MujocoRollout(robot, DT)
        return lambda *start: (*peer(*start), True)
    region = Region.of(robot, velocity=8.0, acceleration=80.0)
    own = {"cpu": {"dtype": np.float32}, "fixed": {"region": region}}
    rollout = Rollout(robot, steps=HORIZON, dt=DT, device=device, **own.get(device, {}))

    def run(*start: np.ndarray) -> tuple:
        motion = rollout(*start)
        return motion.q[:, 1:], motion.qd[:, 1:], motion.diverged < 0

    return run


class Controller:
    """samples: rollouts a step. The torques are those against gravity, and what the rollouts add."""

    def __init__(self, robot: Robot, goal: np.ndarray, samples: int, device: str = "cpu", seed: int = 0) -> None:
        self.n, self.goal, self.samples = robot.nv, goal, samples
        self.rollout, self.random = rollouts_of(robot, device), np.random.default_rng(seed)
        self.inverse = trace(robot, "inverse_dynamics")
        self.scale = ACCELERATION * np.diag(evaluate(trace(robot, "mass_matrix"), {"q": goal[None]})["m"][0])
        self.plan, self.zero = np.zeros((HORIZON, self.n)), np.zeros((1, self.n))

    def costs(self, q: np.ndarray, qd: np.ndarray, useful: np.ndarray) -> np.ndarray:
        """Of rollouts (samples, HORIZON, n); infinite for those that diverge or overflow."""
        with np.errstate(all="ignore"):
            cost = np.sum((q - self.goal) ** 2 + 0.02 * qd**2, axis=(1, 2))
        return np.where(np.isfinite(cost) & useful, cost, np.inf)

    def torque(self, q: np.ndarray, qd: np.ndarray) -> tuple[np.ndarray, float]:
        """The torque now (n,), and the mean cost of the rollouts with their weights."""
        hold = evaluate(self.inverse, {"q": q[None], "qd": self.zero, "qdd": self.zero})["tau"][0]
        # straight lines over the horizon: smooth, and few numbers to draw
        first, last = self.random.normal(size=(2, self.samples, 1, self.n))
        noise = (first + (last - first) * np.linspace(0.0, 1.0, HORIZON)[:, None]) * self.scale
        noise[0] = 0.0  # the plan itself
        torques = hold + self.plan + noise
        cost = self.costs(*self.rollout(np.tile(q, (self.samples, 1)), np.tile(qd, (self.samples, 1)), torques))
        if not np.isfinite(cost.min()):
            raise SystemExit(f"all rollouts diverge: {TOO_LONG}")
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
    q, qd, path, costs = start, np.zeros(robot.nv), [start], []
    began = time.perf_counter()
    for _ in range(steps):
        torque, cost = controller.torque(q, qd)
        after = plant(q, qd, np.tile(torque, (10, 1)))
        if after.diverged >= 0:
            raise SystemExit(f"the motion diverges: {TOO_LONG}")
        q, qd = after.q[-1], after.qd[-1]
        path, costs = [*path, q], [*costs, cost]
    return np.array(path), costs, (time.perf_counter() - began) / steps


def main() -> None:
    parser = parser_of(__doc__, "mppi")
    parser.add_argument("--beside", metavar="DEVICE", help="run this device too, and compare")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--samples", type=int, default=1024)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    figure, (angles, cost) = plt.subplots(1, 2, figsize=(9, 3.5))
    robot = arm_of(options)
    start, goal = ends(robot, GOAL)
    results = {}
    for device in filter(None, (options.device, options.beside)):
        steps = round(options.seconds / DT)
        path, costs, seconds = reach(robot, start, goal, steps, options.samples, device)
        left = np.linalg.norm(path[-1] - goal) / np.linalg.norm(start - goal)
        print(f"{device}: {left:.1%} of the way is left; a control step took {1e3 * seconds:.1f} ms")
        results[device] = {"cost": costs, "seconds": seconds}
        angles.plot(DT * np.arange(len(path)), path, linestyle="-" if device == options.device else ":")
        cost.semilogy(DT * np.arange(len(costs)), costs, label=f"{device}, {1e3 * seconds:.1f} ms a step")
    (options.folder / "cost.json").write_text(json.dumps(results, indent=1) + "\n")
    angles.set(xlabel="s", ylabel="rad", title=f"Joint angles of {robot.name}")
    cost.set(xlabel="s", title="Mean cost of the rollouts")
    cost.legend()
    figure.savefig(options.folder / "motion.png", bbox_inches="tight")


if __name__ == "__main__":
    main()
