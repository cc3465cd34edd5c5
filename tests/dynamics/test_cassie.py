"""Agility's Cassie as MuJoCo Menagerie has it, with its four loops, against Pinocchio and MuJoCo.

Nothing of Menagerie is part of this project: DYNAGATE_MENAGERIE names a folder that has it.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynagate import Region, Robot, RobotWarning

from tests.constrained_robots import FORWARD, assert_close, by_lcaba, by_pinocchio, run, settled, with_stances
from tests.mjcf_robots import in_mujoco
from tests.samples import State

mujoco = pytest.importorskip("mujoco")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def path() -> Path:
    found = Path(os.environ.get("DYNAGATE_MENAGERIE", "menagerie")) / "agility_cassie" / "cassie.xml"
    if not found.exists():
        pytest.skip(f"{found} is not there; DYNAGATE_MENAGERIE names a folder with MuJoCo Menagerie")
    return found


@pytest.fixture(scope="module")
def cassie(path: Path) -> Robot:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RobotWarning)
        return Robot.from_mjcf(path, damping=False)


def rigid(robot: Robot) -> Robot:
    """But for a compliance that shares the forces of the planar loops, which three rows hold twice."""
    hard = (replace(own, stiffness=0.0, damping=0.0, compliance=1e-8) for own in robot.constraints)
    return replace(robot, constraints=tuple(hard))


@pytest.fixture(scope="module")
def state(cassie: Robot) -> State:
    """Closed loops, which velocities keep closed."""
    state = with_stances(cassie, Region.of(rigid(cassie), velocity=2.0).sample(FORWARD, 6, 1))
    return settled(rigid(cassie), {**state, "active": np.ones((6, 4))})


def test_what_is_read(path: Path) -> None:
    with pytest.warns(
        RobotWarning, match="springs of joints 'left-shin', 'left-heel-spring', 'right-shin', 'right-hee"
    ):
        robot = Robot.from_mjcf(path)
    assert (robot.nq, robot.nv, len(robot.constraints), robot.constraint_rows) == (35, 32, 4, 12)


def test_closed_loops_are_pinocchios(cassie: Robot, state: State) -> None:
    """`constraintDynamics` and `lcaba`."""
    robot = rigid(cassie)
    robot = replace(robot, links=tuple(replace(link, joint=replace(link.joint, armature=0.0)) for link in robot.links))
    got = run(robot, FORWARD, state)
    assert_close(got, {"qdd": by_pinocchio(robot, state, (1e-12, 1e-6, 100))["qdd"]}, 1e-6)
    for found, expected in zip(by_lcaba(robot, state, (1e-12, 1e-4, 500)), got["qdd"], strict=True):
        # its proximal steps leave the spin of rods of 4e-6 kg m² less exact
        np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_closed_loops_are_mujocos(path: Path, cassie: Robot, state: State) -> None:
    """At rest, with MuJoCo's own compliance: it leaves the change of J out. Springs are left out here."""
    still = {**state, "qd": np.zeros_like(state["qd"])}
    got = run(cassie, FORWARD, still)["qdd"]
    model = mujoco.MjModel.from_xml_path(str(path))
    model.jnt_stiffness[:] = 0.0
    model.opt.solver, model.opt.tolerance = mujoco.mjtSolver.mjSOL_NEWTON, 0.0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    data = mujoco.MjData(model)
    for q, tau, qdd in zip(still["q"], state["tau"], got, strict=True):
        data.qpos[:], turn, _ = in_mujoco(cassie, q, np.zeros(cassie.nv))
        data.qvel[:], data.qfrc_applied[:] = 0.0, np.linalg.solve(turn.T, tau)
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(turn @ qdd, data.qacc, atol=1e-3 * np.abs(data.qacc).max())
