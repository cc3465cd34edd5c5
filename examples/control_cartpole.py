"""A cart-pole swings up and stands, planned by a simulated core of the size of a ULX3S's.

    python examples/control_cartpole.py [--device sim|fixed|cpu] [--folder build/cartpole]

Every 40 ms iLQR plans the second ahead, from its last torques: in float64 (cpu), whose states give the ranges of fixed
point; as integers (fixed); on the core (sim). It writes motion.gif and cost.json. The pole has no motor.
"""

import argparse
import json
from pathlib import Path

import dynagate
import numpy as np
from dynagate import Region, Robot, Rollout
from dynagate.control import Cost, cos, sin
from dynagate.hw import ChipIlqr, build_solver

URDF = """<robot name="cart_pole"><link name="rail"/>
  <link name="cart"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="pole"><inertial><origin xyz="0 0 0.5"/><mass value="0.3"/>
    <inertia ixx="0.006" iyy="0.006" izz="0.0001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="slide" type="prismatic"><parent link="rail"/><child link="cart"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" velocity="20" effort="12"/></joint>
  <joint name="hinge" type="continuous"><parent link="cart"/><child link="pole"/><axis xyz="1 0 0"/></joint>
  <link name="tip"/><joint name="end" type="fixed"><parent link="pole"/><child link="tip"/><origin xyz="0 0 1"/></joint>
</robot>"""
KNOTS, DT, CALLS, UNITS, WORD = 25, 0.04, 50, 4, 27
GUESS = np.array([3.0, 0.0])  # N, initial force of every knot in the first plan


def away(knot) -> list:
    """Residuals of the pole's angle, by its tip, of the cart's place and of both speeds."""
    place, angle = knot.q
    return [1.0 - cos(angle), sin(angle), 0.3 * place, 0.2 * knot.qd[0], 0.2 * knot.qd[1]]


def swing(robot: Robot, plan) -> tuple[np.ndarray, np.ndarray, list]:
    """q and q̇ (CALLS + 1, 2), and plans. plan: of q, q̇ and the last plan, whose tau begins with what acts."""
    plant, last, plans = Rollout(robot, steps=1, dt=DT), None, []
    q, qd = np.zeros((2, CALLS + 1, 2))
    q[0, 1] = np.pi
    for k in range(CALLS):
        plans.append(last := plan(q[k], qd[k], last))
        after = plant(q[k], qd[k], last.tau.reshape(-1, 2)[:1])
        q[k + 1], qd[k + 1] = after.q[1], after.qd[1]
    return q, qd, plans


def main() -> None:
    """Run the example from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("sim", "fixed", "cpu"), default="sim")
    parser.add_argument("--folder", type=Path, default=Path("build/cartpole"))
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    (asked.folder / "cart_pole.urdf").write_text(URDF)
    robot = Robot.from_urdf(asked.folder / "cart_pole.urdf").with_passive("hinge")
    cost = Cost(lambda knot: [*away(knot), 0.03 * knot.tau[0]], lambda knot: [5.0 * x for x in away(knot)])
    least = {"iterations": 8, "tolerance": 1e-3, "regularization": (1e-7, 1.0), "bounds": True}
    solver = dynagate.ilqr(robot, knots=KNOTS, dt=DT, cost=cost, **least)
    q, qd, plans = swing(robot, lambda q, qd, last: solver(q, qd, last.shifted().tau if last else [GUESS] * KNOTS))
    if asked.device != "cpu":
        known = {"q": q[:-1:2], "qd": qd[:-1:2], "guess": np.tile(GUESS, (CALLS // 2, 1))}
        chip, region = ChipIlqr.of(robot, cost, solver.options), Region.of(robot, velocity=20.0)
        built = build_solver(chip, known, UNITS, word=WORD, region=region, folder=asked.folder)
        with dynagate.open(built, device=asked.device) as core:
            q, _, plans = swing(robot, lambda q, qd, last: core(q=q, qd=qd, guess=GUESS, warm=float(last is not None)))
        print(
            f"{sum(int(x.iterations) for x in plans)} iterations of {built.latency} cycles or more "
            f"on {built.hardware.core}"
        )
    print(f"the pole ends at cos {np.cos(q[-1, 1]):.4f}, cost {plans[0].cost:.2f} -> {plans[-1].cost:.4f}")
    assert np.cos(q[-1, 1]) > 0.99, "the pole does not stand"
    dynagate.draw(robot, q, asked.folder / "motion.gif", dt=DT)
    result = {"cost": [float(plan.cost) for plan in plans], "q": q.tolist()}
    (asked.folder / "cost.json").write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
