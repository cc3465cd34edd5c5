"""A cart-pole swings up: iLQR plans the motion, whose gains then hold it against a push.

    python examples/control_cartpole.py [--folder build/cartpole]

It writes motion.gif and cost.json. The cart has a motor and an effort limit; the pole has none.
"""

import argparse
import json
import time
from pathlib import Path

import dynagate
import numpy as np
from dynagate import Robot
from dynagate.control import Cost
from dynagate.dynamics.spatial import cos, sin

URDF = """<robot name="cart_pole">
  <link name="rail"/>
  <link name="cart"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="pole"><inertial><origin xyz="0 0 0.5"/><mass value="0.3"/>
    <inertia ixx="0.006" iyy="0.006" izz="0.0001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="slide" type="prismatic"><parent link="rail"/><child link="cart"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" velocity="20" effort="12"/></joint>
  <joint name="hinge" type="continuous"><parent link="cart"/><child link="pole"/><axis xyz="1 0 0"/></joint>
  <link name="tip"/><joint name="end" type="fixed"><parent link="pole"/><child link="tip"/><origin xyz="0 0 1"/></joint>
</robot>"""
KNOTS, DT = 100, 0.02


def robot_of(folder: Path) -> Robot:
    """The cart-pole: q is the cart's place, m, and the pole's angle, 0 where it stands."""
    path = folder / "cart_pole.urdf"
    path.write_text(URDF)
    return Robot.from_urdf(path).with_passive("hinge")


def away(knot) -> list:
    """Residuals of the pole's angle, by its tip, of the cart's place and of both speeds."""
    place, angle = knot.q
    return [1.0 - cos(angle), sin(angle), 0.3 * place, 0.2 * knot.qd[0], 0.2 * knot.qd[1]]


def cost() -> Cost:
    return Cost(
        lambda knot: [0.3 * x for x in away(knot)] + [0.03 * knot.tau[0]], lambda knot: [20.0 * x for x in away(knot)]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/cartpole"))
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    robot = robot_of(folder)
    hanging, rest = np.array([0.0, np.pi]), np.zeros(2)
    guess = np.zeros((KNOTS, 2))
    guess[:, 0] = 2.0 * np.sin(np.arange(KNOTS) * DT * 4.0)
    with dynagate.open(robot, "ilqr", knots=KNOTS, dt=DT, cost=cost(), bounds=True, iterations=300) as solver:
        began = time.perf_counter()
        plan = solver(hanging, rest, guess)
        seconds = time.perf_counter() - began
    print(f"cost {plan.costs[0]:.1f} -> {plan.cost:.2f} in {plan.iterations} iterations, {1e3 * seconds:.0f} ms")
    print(f"the pole ends {abs(plan.q[-1, 1]):.3f} rad from upright, at most {abs(plan.tau).max():.1f} N")
    assert np.cos(plan.q[-1, 1]) > 0.99, "the pole does not stand"
    dynagate.draw(robot, plan.q, folder / "motion.gif", dt=DT)
    result = {"cost": plan.costs[: plan.iterations + 1].tolist(), "seconds": seconds}
    (folder / "cost.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
