"""Random turns over robots, contacts, methods, steps: no number is lost in silence, and energy falls where it must."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate.dynamics.configuration import neutral
from dynagate.forces import Contact, Plane, Point
from dynagate.robot import Robot, RobotWarning

from examples.papers.position_based.inertia import paired
from examples.papers.position_based.integrator import PositionBased, PositionBasedWarning, Trajectory
from examples.papers.position_based.kinematics import move, place
from examples.papers.position_based.state import potential
from tests.robots import DATA, JACO, SOLO

pytestmark = pytest.mark.long  # Numba compiles for half a minute

FILES: dict[str, tuple[Path, bool]] = {
    "jaco": (JACO, False),
    "solo12 on a floating base": (SOLO, True),
    "ur10": (DATA / "ur_description" / "urdf" / "ur10_robot.urdf", False),
}
STEPS = (0.001, 0.01, 0.05, 0.1)
OPTIMIZERS: list[tuple[Any, Any]] = [("lm", "energy"), ("lm-full", "energy"), ("lm", "forces")]


@cache
def robot_of(name: str) -> Robot:
    path, floating = FILES[name]
    return Robot.from_urdf(path, floating_base=floating)


def state(robot: Robot, sim: PositionBased, where: str, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """q and q̇: near rest, at the joints' limits, or anywhere at some speed."""
    v, speed = 1e-6 * random.normal(size=robot.nv), 1e-6
    if where != "rest":
        v, speed = random.uniform(-1.0, 1.0, robot.nv), 2.0
    for link, _, part in robot.slices():
        sides = [side for side in (link.joint.lower, link.joint.upper) if side is not None]
        if where == "limits" and link.joint.nv == 1 and sides:
            v[part] = random.choice(sides)
    q = np.empty(robot.nq)
    move(sim.links, neutral(robot), v, q)
    return q, speed * random.normal(size=robot.nv)


def ran(sim: PositionBased, q: np.ndarray, qd: np.ndarray, steps: int) -> tuple[Trajectory, bool]:
    """The trajectory, and whether a warning says that steps did not converge."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        track = sim.run(q, qd, steps)
    assert all(issubclass(warning.category, PositionBasedWarning | RobotWarning) for warning in caught)
    return track, any("did not converge" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("seed", range(24))
def test_a_turn(seed: int) -> None:
    """Steps that did not converge are warned of, and only these may hold numbers that are not finite."""
    random = np.random.default_rng(seed)
    name, where = list(FILES)[seed % 3], ("rest", "limits", "random")[seed // 3 % 3]
    robot, dt = robot_of(name), float(random.choice(STEPS))
    method, objective = OPTIMIZERS[random.integers(3)]
    points = [Point(link.name, link.com) for link in robot.links if link.mass > 0.0]
    planes = (Plane(offset=-0.2), Plane.slope(float(random.uniform(0.0, 40.0))))
    model: Any = "pbd" if objective == "energy" else random.choice(["pbd", "pbfd"])
    stiffness, friction = 10.0 ** random.uniform(2.0, 6.0, 2)
    touching = Contact(points, planes[: random.integers(1, 3)], stiffness, friction, model=model)
    contact = touching if random.random() < 0.7 else None
    sim = PositionBased(robot, dt, method=method, objective=objective, contact=contact, iterations=100)
    track, warned = ran(sim, *state(robot, sim, where, random), 4)
    assert warned == (not track.converged.all())
    assert np.isfinite(track.q[1:][track.converged]).all()
    assert np.isfinite(track.energy[1:][track.converged]).all()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("dt", STEPS)
def test_a_step_from_rest_loses_energy(name: str, dt: float) -> None:
    """½ |ΔT/dt|² + V of the step's end is at most V of its begin: the minimum is not above the start, at any dt."""
    robot = robot_of(name)
    sim = PositionBased(robot, dt, method="lm-full")
    links, nv = sim.links, robot.nv
    q, _ = state(robot, sim, "random", np.random.default_rng(0))
    for _ in range(3):
        track, _ = ran(sim, q, np.zeros(nv), 1)
        poses = np.empty((2, len(robot.links), 3, 4))
        for pose, configuration in zip(poses, track.q, strict=True):
            place(links, configuration, pose, np.empty((nv, 6)))
        change = poses[1] - poses[0]
        kinetic = 0.5 * paired(links, change, change) / dt**2
        assert track.converged.all()
        assert kinetic > 0.0
        assert kinetic + potential(links, poses[1], poses[0]) <= 1e-9
        q = track.q[-1]
