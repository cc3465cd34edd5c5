"""Trajectories of eight robots, kept in kept_trajectories.json: whatever computes a method, its results stay.

The variational and the position-based ones are those of the papers' own classes, loops over links with tolerances near
rounding, at the commit that added the file. `python -m tests.motion.test_kept_trajectories` writes it anew, by
rollouts.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Robot, RobotWarning, Rollout, robots
from dynagate.forces import Contact, Force, Plane, Point, Servo
from dynagate.integrators.implicit.position_based_method import PositionBasedIntegrator
from dynagate.integrators.implicit.variational_method import VariationalIntegrator
from dynagate.integrators.methods import METHODS
from dynagate.integrators.motion import Integrator

from tests.robots import DATA, random_urdf

KEPT = Path(__file__).parents[1] / "kept_trajectories.json"
STEPS, DT, BATCH = 6, 0.005, 2
KEPT_METHODS: dict[str, Integrator] = {
    "rk4": METHODS["rk4"],
    "variational": VariationalIntegrator(tolerance=1e-12),
    "position_based": PositionBasedIntegrator(tolerance=1e-10),
}
FILES = {
    "bolt": "bolt_description/robots/bolt.urdf",
    "jaco": "kinova_description/robots/kinova.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    "ur10": "ur_description/urdf/ur10_robot.urdf",
}
FORCES: dict[str, Force] = {
    "servo": Servo(30.0, 2.0),
    "contact": Contact([Point("forearm", (0.0, 0.0, 0.3))], [Plane((0.0, 0.0, 1.0), 0.8)], 1e4, 1e3),
}
"""On the arm, in position-based steps. The servo's target is TARGET."""
TARGET = 0.2
QUICK = ("two_joint_arm", "tree", "ur10")
NAMES = (*QUICK, "bolt", "hyq", "iiwa14", "jaco", "solo12")


def robot_of(name: str, folder: Path) -> Robot:
    """A robot that ships, one of other people, or "tree": branches and sliding joints, some with rotors and dampers."""
    if name in FILES:
        return Robot.from_urdf(DATA / FILES[name])
    if name != "tree":
        return robots.load(name)
    text = random_urdf(4).replace("</joint>", '<dynamics damping="0.3" friction="0"/></joint>')
    (folder / "tree.urdf").write_text(text)
    return Robot.from_urdf(folder / "tree.urdf")


def inputs(robot: Robot) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q0 and q̇0 (batch, nv), tau (batch, steps, nv)."""
    random, shape = np.random.default_rng(0), (BATCH, robot.nv)
    q0, qd0 = random.uniform(-0.5, 0.5, (2, *shape))
    return q0, qd0, random.uniform(-1.0, 1.0, (BATCH, STEPS, robot.nv))


def moved(robot: Robot, method: str, forces: Sequence[Force] = ()) -> dict[str, Any]:
    """q and q̇ (batch, nv) after the last step."""
    rollout = Rollout(robot, steps=STEPS, dt=DT, integrator=KEPT_METHODS[method], device="numpy", forces=forces)
    targets = {name: np.full(robot.nv, TARGET) for name in rollout.force_inputs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RobotWarning)
        track = rollout(*inputs(robot), **targets)
    assert track.converged.all()
    return {"q": track.q[:, -1], "qd": track.qd[:, -1]}


def keep(folder: Path) -> None:
    """Writes the file anew."""
    rows = {
        f"{name} {method} {of}": [float(f"{x:.13g}") for x in np.ravel(array)]
        for name in NAMES
        for method in KEPT_METHODS
        for of, array in moved(robot_of(name, folder), method).items()
    }
    rows |= {
        f"two_joint_arm {name} {of}": [float(f"{x:.13g}") for x in np.ravel(array)]
        for name, force in FORCES.items()
        for of, array in moved(robots.load("two_joint_arm"), "position_based", [force]).items()
    }
    KEPT.write_text("{\n" + ",\n".join(f'"{key}": {json.dumps(row)}' for key, row in rows.items()) + "\n}\n")


def check(name: str, results: dict[str, Any]) -> None:
    kept = json.loads(KEPT.read_text())
    for of, array in results.items():
        expected = np.reshape(kept[f"{name} {of}"], array.shape)
        np.testing.assert_allclose(array, expected, rtol=0, atol=1e-9 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(n, marks=pytest.mark.long) for n in NAMES[len(QUICK) :])])
def test_trajectories_stay(name: str, tmp_path: Path) -> None:
    robot = robot_of(name, tmp_path)
    for method in KEPT_METHODS:
        check(f"{name} {method}", moved(robot, method))


@pytest.mark.parametrize("name", FORCES)
def test_trajectories_under_forces_stay(name: str) -> None:
    check(f"two_joint_arm {name}", moved(robots.load("two_joint_arm"), "position_based", [FORCES[name]]))


if __name__ == "__main__":
    keep(Path("build"))
