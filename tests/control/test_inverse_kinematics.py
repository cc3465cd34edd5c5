"""Inverse kinematics: configurations against Pinocchio's forward kinematics, limits, starts, refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pinocchio
import pytest
from click.testing import CliRunner
from dynagate import Policy, Robot, RobotError, RobotWarning, robots
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.cli import main
from dynagate.control import FramePose, FramePosition, FrameRotation, LookAt
from dynagate.control.chip_ik import ChipIk
from dynagate.control.ik import IkOptions
from dynagate.fixedpoint.format import SATURATE, Arithmetic
from dynagate.fixedpoint.fuse import fused
from dynagate.fixedpoint.models.loops import LoopTrajectories, integers_of
from dynagate.host.inverse_kinematics import InverseKinematics
from dynagate.host.links import DeviceError
from dynagate.hw.processor.checker.replay import Memory
from dynagate.hw.processor.compiler.loops import loop_instructions
from dynagate.hw.processor.compiler.motion import angles_of
from dynagate.hw.processor.compiler.schedule import schedule
from dynagate.hw.processor.compiler.solver import formatted_solver
from dynagate.hw.processor.isa.shape import Core
from dynagate.robot import Mimic

from tests.oracle import pinocchio_of
from tests.replays import replayed_iteration

ARM = robots.load("two_joint_arm")
IIWA = robots.load("iiwa14")
HAND = "link_7"


def kinematics(robot: Robot, q: np.ndarray, name: str) -> np.ndarray:
    """Return the poses (batch, 4, 4) of a frame by Pinocchio, at configurations (batch, nq)."""
    model, frame = pinocchio_of(robot), robot.frame(name)
    data, poses = model.createData(), []
    local = pinocchio.SE3(np.array(frame.rotation), np.array(frame.translation))
    for each in q:
        pinocchio.forwardKinematics(model, data, np.asarray(each, np.float64))
        poses.append((data.oMi[model.getJointId(robot.links[frame.link].joint.name)] * local).homogeneous)
    return np.array(poses)


def distances(poses: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the larger one of the distance in m and the angle in rad, (batch,), between poses (batch, 4, 4)."""
    turns = poses[:, :3, :3] @ np.swapaxes(targets[:, :3, :3], 1, 2)
    angles = [np.linalg.norm(pinocchio.log3(turn)) for turn in turns]
    return np.maximum(np.linalg.norm(poses[:, :3, 3] - targets[:, :3, 3], axis=1), angles)


def configurations(robot: Robot, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(robot.lower, robot.upper, (count, robot.nq))


def solver_of(*args: Any, **options: Any) -> InverseKinematics:
    opened = dynagate.inverse_kinematics(*args, **options)
    assert isinstance(opened, InverseKinematics)
    return opened


BEYOND = pytest.mark.filterwarnings("ignore:.* starts beyond its limits")
"""HyQ's knees cannot be straight."""


@pytest.fixture(scope="module")
def solver() -> Iterator[InverseKinematics]:
    with solver_of(IIWA, [HAND]) as opened:
        yield opened


def test_poses_are_reached_within_limits(solver: InverseKinematics) -> None:
    targets = kinematics(IIWA, configurations(IIWA, 64), HAND)
    found = solver(configurations(IIWA, 64, seed=1), link_7=targets)
    assert found.converged.all()
    assert (distances(kinematics(IIWA, found.q, HAND), targets) <= 1e-6).all()
    assert ((found.q >= IIWA.lower) & (found.q <= IIWA.upper)).all()
    assert found.starts.max() > 1, "no problem needed a second start"
    assert found.iterations.max() <= 60


def test_numpy_and_c_find_the_same(solver: InverseKinematics) -> None:
    targets = kinematics(IIWA, configurations(IIWA, 6, seed=2), HAND)
    with solver_of(IIWA, [HAND], device="numpy") as reference:
        expected, found = reference(link_7=targets), solver(link_7=targets)
    np.testing.assert_allclose(found.q, expected.q, atol=1e-6)
    np.testing.assert_array_equal(found.starts, expected.starts)


def test_a_problem_does_not_depend_on_the_others(solver: InverseKinematics) -> None:
    targets = kinematics(IIWA, configurations(IIWA, 24, seed=3), HAND)
    q0 = configurations(IIWA, 24, seed=4)
    whole, part = solver(q0, link_7=targets), solver(q0[5:9], link_7=targets[5:9])
    np.testing.assert_allclose(part.q, whole.q[5:9], atol=1e-9)
    np.testing.assert_array_equal(part.starts, whole.starts[5:9])


def test_leading_axes_are_broadcast(solver: InverseKinematics) -> None:
    targets = kinematics(IIWA, configurations(IIWA, 6, seed=5), HAND).reshape(3, 2, 4, 4)
    found = solver(solver(link_7=targets[0, 0]).q, link_7=targets)
    assert found.q.shape == (3, 2, 7)
    assert found.errors.shape == (3, 2, 1)
    assert found.converged.shape == found.error.shape == (3, 2)
    assert solver(link_7=targets[0, 0]).q.shape == (7,)
    assert solver(link_7=np.zeros((0, 4, 4))).q.shape == (0, 7)


@pytest.mark.parametrize("turn", [np.diag([1.0, -1.0, -1.0]), np.diag([-1.0, 1.0, -1.0]), np.diag([-1.0, -1.0, 1.0])])
def test_a_half_turn_is_no_dead_end(solver: InverseKinematics, turn: np.ndarray) -> None:
    q = np.array([0.3, 0.6, -0.2, -1.2, 0.4, 0.9, 0.1])
    target = kinematics(IIWA, q[None], HAND)[0]
    target[:3, :3] = target[:3, :3] @ turn
    found = solver(q, link_7=target)
    assert found.converged
    assert distances(kinematics(IIWA, found.q[None], HAND), target[None])[0] <= 1e-6


def test_straight_arms_bend(solver: InverseKinematics) -> None:
    """At q = 0 the arm is straight and its Jacobian singular."""
    q = np.array([[0.0, 0.02, 0.0, -0.03, 0.0, 0.01, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    targets = kinematics(IIWA, q, HAND)
    for start in (np.zeros(7), q[0], np.where(q[0] > 0.0, IIWA.upper, IIWA.lower)):
        found = solver(np.tile(start, (2, 1)), link_7=targets)
        assert found.converged.all()
        assert (distances(kinematics(IIWA, found.q, HAND), targets) <= 1e-6).all()


def test_the_best_of_an_unreachable_pose_is_flagged() -> None:
    tip = ARM.with_frame("tip", ARM.links[-1].name, (0.3, 0.0, 0.0))
    q = (
        configurations(ARM, 20000)
        if np.isfinite(ARM.lower).all()
        else np.random.default_rng(0).uniform(-np.pi, np.pi, (20000, 2))
    )
    reached = dynagate.compile(tip, "frame_pose_tip", device="numpy")(q).frame_position
    far = np.array([[0.0, 0.0, 5.0], [3.0, 0.5, -1.0]])
    with solver_of(tip, [FramePosition("tip")], device="numpy") as opened:
        found = opened(tip_position=far)
    assert not found.converged.any()
    assert (found.starts == 64).all()
    sampled = np.linalg.norm(reached[None] - far[:, None], axis=2).min(axis=1)
    np.testing.assert_array_less(found.error, sampled + 1e-9)
    np.testing.assert_array_less(sampled, found.error + 0.02)


def test_targets_beyond_limits_end_at_a_best_configuration_within_them() -> None:
    """No configuration near the one found is better, and few of those on a grid over all."""
    tip = ARM.with_frame("tip", ARM.links[-1].name, (0.3, 0.0, 0.1))
    links = tuple(replace(link, joint=replace(link.joint, lower=-0.4, upper=0.7)) for link in tip.links)
    narrow = replace(tip, links=links)
    q = np.random.default_rng(0).uniform(-2.0, 2.0, (40, 2))
    targets = kinematics(tip, q, "tip")[:, :3, 3]
    inside = ((q >= -0.4) & (q <= 0.7)).all(axis=1)
    with solver_of(narrow, [FramePosition("tip")], device="numpy", starts=8) as opened:
        found = opened(tip_position=targets)
    assert ((found.q >= -0.4) & (found.q <= 0.7)).all()
    assert found.converged[inside].all()
    grid = np.stack(np.meshgrid(*[np.linspace(-0.4, 0.7, 200)] * 2), axis=-1).reshape(-1, 2)
    reached = dynagate.compile(tip, "frame_pose_tip", device="numpy")(grid).frame_position
    errors = np.linalg.norm(reached[None] - targets[:, None], axis=2)
    near = np.abs(grid[None] - found.q[:, None]).max(axis=2) < 0.03
    assert (found.error <= np.where(near, errors, np.inf).min(axis=1) + 1e-6).all()
    assert np.mean(found.error <= errors.min(axis=1) + 1e-6) > 0.9


def test_a_start_beyond_limits_is_moved_to_them_with_one_warning() -> None:
    with solver_of(ARM, [FramePosition(ARM.links[-1].name)], device="numpy", starts=1) as opened:
        name = opened.inputs[0]
        target = kinematics(ARM, np.array([[0.2, 0.3]]), ARM.links[-1].name)[0, :3, 3]
        with pytest.warns(RobotWarning, match="starts beyond its limits"):
            found = opened(ARM.upper + 1.0, **{name: target})
        opened(ARM.upper + 1.0, **{name: target})
    assert (found.q <= ARM.upper).all()


POSE = np.eye(4)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (np.eye(3), ArgumentError, r"'link_7' has shape \(3, 3\); expected \(batch, 4, 4\)"),
        (np.full((4, 4), np.nan), ArgumentError, r"link_7 is nan in problem 0; expected finite numbers"),
        (np.diag([np.inf, 1.0, 1.0, 1.0]), ArgumentError, "link_7 is inf in problem 0"),
        (np.diag([2.0, 2.0, 2.0, 1.0]), ArgumentError, r"link_7\[0\] has the matrix .* which is no rotation"),
        (np.diag([1.0, 1.0, -1.0, 1.0]), ArgumentError, "the determinant -1.*right-handed"),
        (np.zeros((4, 4)), ArgumentError, r"last row \[0.0, 0.0, 0.0, 0.0\]; expected \[0, 0, 0, 1\]"),
        (POSE.astype(bool), ArgumentTypeError, "link_7 has dtype bool"),
        (POSE.astype(complex), ArgumentTypeError, "link_7 has dtype complex"),
        ("pose", ArgumentTypeError, "link_7"),
        (None, ArgumentTypeError, "link_7"),
        (np.ma.masked_array(POSE), ArgumentTypeError, "masked"),
    ],
)
def test_targets_are_checked(solver: InverseKinematics, value: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        solver(link_7=value)


def test_the_problem_of_a_wrong_target_is_named(solver: InverseKinematics) -> None:
    poses = np.tile(POSE, (3, 1, 1))
    poses[2, 0, 3] = np.nan
    with pytest.raises(ArgumentError, match="link_7 is nan in problem 2"):
        solver(link_7=poses)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda s: s(), ArgumentError, r"target 'link_7' is missing; expected shape \(\.\.\., 4, 4\)"),
        (lambda s: s(link_6=POSE), ArgumentError, r"no target 'link_6' \(did you mean 'link_7'\?\); expected link_7"),
        (lambda s: s(np.zeros(6), link_7=POSE), ArgumentError, r"'q0' has shape \(6,\)"),
        (lambda s: s(np.full(7, np.nan), link_7=POSE), ArgumentError, "q0 is nan in problem 0"),
        (lambda s: s(np.zeros((2, 7)), link_7=np.tile(POSE, (3, 1, 1))), ArgumentError, "do not broadcast"),
        (lambda s: s(posture=np.zeros(7), link_7=POSE), ArgumentError, "posture of a solver without weights"),
    ],
)
def test_calls_are_checked(solver: InverseKinematics, call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(solver)


@pytest.mark.parametrize(
    ("frames", "options", "error", "text"),
    [
        (["link_8"], {}, RobotError, r"no frame 'link_8' \(did you mean 'link_"),
        ([], {}, ArgumentError, "no target; expected frames"),
        ("link_7", {}, TypeError, "frames='link_7'; expected a list"),
        ([7], {}, TypeError, "frames has 7; expected the name of a frame, or a target"),
        (["link_7", "link_7"], {}, ArgumentError, "two targets take 'link_7'"),
        (["link_7", FramePosition("link_7")], {}, ArgumentError, "two targets take 'link_7_position'"),
        (["link_7"], {"iterations": 0}, ArgumentError, "iterations=0; expected a whole number of 1 or more"),
        (["link_7"], {"iterations": True}, ArgumentError, "iterations=True"),
        (["link_7"], {"starts": 0}, ArgumentError, "starts=0"),
        (["link_7"], {"starts": 10**6}, ArgumentError, "starts=1000000; expected a whole number, at most 256"),
        (["link_7"], {"seed": -1}, ArgumentError, "seed=-1"),
        (["link_7"], {"tolerance": 0.0}, ArgumentError, "tolerance=0.0; expected an error in m and rad"),
        (["link_7"], {"tolerance": np.nan}, ArgumentError, "tolerance=nan"),
        (["link_7"], {"center_of_mass": -1.0}, ArgumentError, "weight=-1.0; expected a weight of more than 0"),
        (["link_7"], {"center_of_mass": True}, ArgumentError, "weight=True"),
        (["link_7"], {"posture": [1.0, 2.0]}, ArgumentError, r"posture=\[1.0, 2.0\] has 2 numbers; expected one, or 7"),
        (["link_7"], {"posture": -1.0}, ArgumentError, "posture=-1.0; expected a weight of 0 or more"),
        (["link_7"], {"device": "fixed"}, ArgumentError, "device 'fixed'"),
        (["link_7"], {"devise": "cpu"}, TypeError, r"dynagate\.inverse_kinematics\(\) got an unexpected keyword"),
    ],
)
def test_options_are_checked(frames: Any, options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        dynagate.inverse_kinematics(IIWA, frames, **options)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: FramePose("", 1.0), "frame=''; expected a name"),
        (lambda: FramePose("a", position=0.0), "position=0.0; expected a weight of more than 0"),
        (lambda: FrameRotation("a", weight=np.nan), "weight=nan"),
        (lambda: LookAt("a", axis=(0.0, 0.0, 0.0)), "expected a direction of a length above 0"),
        (lambda: LookAt("a", axis=(1.0, 0.0)), "axis=.*; expected three finite numbers"),
    ],
)
def test_targets_of_no_meaning_are_refused(make: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        make()


def test_a_closed_solver_says_so() -> None:
    opened = solver_of(ARM, [FramePosition(ARM.links[-1].name)], device="numpy")
    assert repr(opened) == f"<InverseKinematics two_joint_arm, {opened.inputs[0]}, on numpy>"
    opened.close()
    with pytest.raises(DeviceError, match="is closed; open it again"):
        opened(**{opened.inputs[0]: np.zeros(3)})


def test_a_bound_call_reads_its_arrays_again(solver: InverseKinematics) -> None:
    targets = kinematics(IIWA, configurations(IIWA, 2, seed=7), HAND)
    pose = targets[:1].copy()
    call = solver.bind(link_7=pose)
    pose[...] = targets[1:]
    np.testing.assert_allclose(call().q, solver(link_7=targets[1:]).q)
    assert re.fullmatch(r"<IkSolution of \(1,\), 1 converged, largest error .*>", repr(call()))


def floating_problem() -> tuple[Robot, np.ndarray]:
    robot = robots.load("hyq", floating_base=True)
    q = dynagate.neutral(robot)
    q[7:] = np.clip(0.3, robot.lower[7:], robot.upper[7:])
    return robot, q


@BEYOND
def test_a_floating_robot_stands_on_its_feet_with_its_center_of_mass_in_place() -> None:
    robot, start = floating_problem()
    feet = ["lf_foot", "rh_foot"]
    frames = [*(FramePosition(foot) for foot in feet), FrameRotation("trunk")]
    random = np.random.default_rng(0)
    goals = dynagate.integrate(robot, start, random.uniform(-0.2, 0.2, (5, robot.nv)))
    goals[:, 7:] = np.clip(goals[:, 7:], robot.lower[7:], robot.upper[7:])
    values = {f"{foot}_position": kinematics(robot, goals, foot)[:, :3, 3] for foot in feet}
    values["trunk_rotation"] = kinematics(robot, goals, "trunk")[:, :3, :3]
    model = pinocchio_of(robot)
    data = model.createData()
    values["center_of_mass"] = np.array([pinocchio.centerOfMass(model, data, q) for q in goals])
    with solver_of(robot, frames, center_of_mass=1.0, device="numpy") as opened:
        found = opened(start, **values)
    assert found.converged.all()
    assert found.errors.shape == (5, 4)
    np.testing.assert_allclose(np.linalg.norm(found.q[:, 3:7], axis=1), 1.0, atol=1e-9)
    for foot in feet:
        np.testing.assert_allclose(kinematics(robot, found.q, foot)[:, :3, 3], values[f"{foot}_position"], atol=2e-6)
    centers = [pinocchio.centerOfMass(model, data, q).copy() for q in found.q]
    np.testing.assert_allclose(centers, values["center_of_mass"], atol=2e-6)
    assert (found.q[:, 7:] >= robot.lower[7:]).all()


@pytest.mark.parametrize("axis", [(0.0, 0.0, 1.0), (1.0, 2.0, 0.5)])
def test_a_camera_looks_at_points(axis: tuple[float, float, float]) -> None:
    points = np.random.default_rng(3).uniform([0.4, -0.6, -0.2], [1.5, 0.6, 1.2], (12, 3))
    with solver_of(IIWA, [LookAt(HAND, axis)], device="numpy") as opened:
        found = opened(np.full(7, 0.3), link_7_look_at=points)
    poses = kinematics(IIWA, found.q, HAND)
    ways = points - poses[:, :3, 3]
    ahead = poses[:, :3, :3] @ (np.array(axis) / np.linalg.norm(axis))
    sines = np.linalg.norm(np.cross(ahead, ways), axis=1) / np.linalg.norm(ways, axis=1)
    assert found.converged.all()
    assert (sines <= 2e-6).all()
    assert (np.sum(ahead * ways, axis=1) > 0.0).all()


def test_a_camera_that_looks_away_turns_round() -> None:
    q = np.array([0.3, 0.6, -0.2, -1.2, 0.4, 0.9, 0.1])
    pose = kinematics(IIWA, q[None], HAND)[0]
    behind = pose[:3, 3] - 0.7 * pose[:3, 2]
    with solver_of(IIWA, [LookAt(HAND)], device="numpy", starts=1) as opened:
        assert opened(q, link_7_look_at=behind).converged


def test_targets_come_before_the_posture() -> None:
    """Seven joints have one direction left at a pose: the posture is as near there as the pose lets it be."""
    rest = np.array([0.2, 0.5, 0.1, -1.3, 0.2, 0.8, 0.3])
    shifted = rest + np.random.default_rng(1).uniform(-0.15, 0.15, (6, 7))
    targets = kinematics(IIWA, shifted, HAND)
    weights = np.array([1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 1.0])
    with solver_of(IIWA, [HAND], posture=weights, device="numpy") as opened:
        found = opened(rest, posture=rest, link_7=targets)
    assert found.converged.all()
    assert (distances(kinematics(IIWA, found.q, HAND), targets) <= 1e-6).all()
    jacobian = dynagate.compile(IIWA, f"frame_jacobian_{HAND}", device="numpy")(found.q).frame_jacobian
    slopes = weights * (found.q - rest)
    for matrix, slope in zip(jacobian, slopes, strict=True):
        still = np.linalg.svd(matrix)[2][6]
        assert abs(still @ slope) < 1e-3
    assert np.linalg.norm(slopes, axis=1).min() > 0.01


def test_joints_that_mimic_others_follow() -> None:
    """The last joint turns twice as far as the first, with an offset."""
    first, last = ARM.links[0].joint.name, ARM.links[-1]
    coupled = replace(last, joint=replace(last.joint, mimic=Mimic(first, 0.6, 0.2)))
    single = replace(ARM, links=(*ARM.links[:-1], coupled)).with_frame("tip", last.name, (0.3, 0.0, 0.1))
    assert single.nq == 1
    q = np.linspace(*single_range(single), 9)[1:-1, None]
    whole = np.concatenate([q, 0.6 * q + 0.2], axis=1)
    targets = kinematics(ARM.with_frame("tip", last.name, (0.3, 0.0, 0.1)), whole, "tip")[:, :3, 3]
    with solver_of(single, [FramePosition("tip")], device="numpy") as opened:
        found = opened(tip_position=targets)
    assert found.converged.all()
    np.testing.assert_allclose(found.q, q, atol=1e-5)


def single_range(robot: Robot) -> tuple[float, float]:
    """Return the limits of the only joint, within a turn."""
    return max(float(robot.lower[0]), -3.0), min(float(robot.upper[0]), 3.0)


def test_a_posture_moves_an_arm_that_is_at_its_pose() -> None:
    start = np.array([-0.5261, 0.7372, 1.0324, -1.7557, 2.4264, -1.076, 0.7571])
    pose = kinematics(IIWA, start[None], HAND)[0]
    with solver_of(IIWA, [HAND], posture=1.0, device="numpy", starts=1) as opened:
        found = opened(start, posture=np.full(7, 0.2), link_7=pose)
    jacobian = dynagate.compile(IIWA, f"frame_jacobian_{HAND}", device="numpy")
    still = [np.linalg.svd(jacobian(q).frame_jacobian)[2][6] for q in (start, found.q)]
    before, after = (abs(v @ (q - 0.2)) for v, q in zip(still, (start, found.q), strict=True))
    assert found.converged
    assert after < 1e-4 < 0.1 < before


def test_the_sensitivity_is_that_of_differences() -> None:
    """A robot with a floating base, whose targets move: the smallest motion keeps to them to first order."""
    robot, q = floating_problem()
    frames = [FramePose("trunk"), FramePosition("lf_foot"), LookAt("rh_lower_leg")]
    random = np.random.default_rng(5)
    q = dynagate.integrate(robot, q, random.uniform(-0.1, 0.1, robot.nv))
    q[7:] = np.clip(q[7:], robot.lower[7:] + 0.05, robot.upper[7:] - 0.05)
    pose, foot, leg = (kinematics(robot, q[None], name)[0] for name in ("trunk", "lf_foot", "rh_lower_leg"))
    values = {
        "trunk": pose,
        "lf_foot_position": foot[:3, 3],
        "rh_lower_leg_look_at": leg[:3, 3] + 0.8 * leg[:3, 2],
    }
    step = 1e-5
    moved = {name: x.copy() for name, x in values.items()}
    moved["trunk"][:3, :3] = pinocchio.exp3(step * random.normal(size=3)) @ pose[:3, :3]
    moved["trunk"][:3, 3] += step * random.normal(size=3)
    moved["lf_foot_position"] += step * random.normal(size=3)
    moved["rh_lower_leg_look_at"] += step * random.normal(size=3)
    with solver_of(robot, frames, device="numpy", starts=1) as opened:
        slopes = opened.sensitivity(q, **values)
        assert slopes["trunk"].shape == (robot.nv, 4, 4)
        change = sum(np.tensordot(slopes[name], moved[name] - x, x.ndim) for name, x in values.items())
        after = dynagate.integrate(robot, q, change)
        still, error = (opened(start, **moved) for start in (after, q))
        assert error.converged
        assert error.iterations > 0
        assert still.converged
        assert still.iterations == 0
    assert np.linalg.norm(change) > step


def test_joints_at_limits_have_no_sensitivity() -> None:
    q = np.array([0.3, IIWA.upper[1], -0.2, -1.2, 0.4, 0.9, 0.1])
    with solver_of(IIWA, [HAND], device="numpy") as opened:
        slopes = opened.sensitivity(q, link_7=kinematics(IIWA, q[None], HAND)[0])["link_7"]
    assert not slopes[1].any()
    assert all(slopes[k].any() for k in (0, 2, 3, 4, 5, 6))


def test_derivatives_in_jax() -> None:
    """Kinematics of the solution for kinematics of q, by q: what of q is left over moves nothing."""
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        from dynagate.jax import function, inverse_kinematics

        kinematics_of = function(IIWA, f"frame_pose_{HAND}", backend="numpy")
        solve = inverse_kinematics(IIWA, [HAND], device="numpy", tolerance=1e-10, starts=1)
        q = np.array([0.3, 0.6, -0.2, -1.2, 0.4, 0.9, 0.1])

        def pose(q: Any) -> Any:
            place = kinematics_of(q)
            upper = jax.numpy.concatenate([place.frame_rotation, place.frame_position[:, None]], axis=1)
            return jax.numpy.concatenate([upper, np.array([[0.0, 0.0, 0.0, 1.0]])])

        def again(x: Any) -> Any:
            return solve(q + 0.02, link_7=pose(x)).q

        slopes = jax.jacfwd(again)(q)
        jacobian = dynagate.compile(IIWA, f"frame_jacobian_{HAND}", device="numpy")(np.asarray(again(q))).frame_jacobian
        expected = (
            np.linalg.pinv(jacobian)
            @ dynagate.compile(IIWA, f"frame_jacobian_{HAND}", device="numpy")(q).frame_jacobian
        )
        np.testing.assert_allclose(slopes, expected, atol=1e-8)
        np.testing.assert_allclose(jax.jacrev(again)(q), slopes, atol=1e-12)
        batch = jax.jit(jax.vmap(lambda x: solve(q, link_7=pose(x))))(np.tile(q, (3, 1)) + 0.01)
        assert batch.q.shape == (3, 7)
        assert (batch.error < 1e-10).all()
        with pytest.raises(ArgumentError, match=r"no target 'link_6' \(did you mean"):
            solve(q, link_6=np.eye(4))
    finally:
        jax.config.update("jax_enable_x64", before)


def test_derivatives_of_a_floating_base_in_jax() -> None:
    """The numbers of a quaternion move as the differences of solutions do."""
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        from dynagate.jax import inverse_kinematics

        floating = Robot.from_file(robots.path("two_joint_arm"), floating_base=True)
        solve = inverse_kinematics(floating, [FramePosition("forearm")], device="numpy", tolerance=1e-12, starts=1)
        q = dynagate.integrate(floating, dynagate.neutral(floating), np.linspace(-0.3, 0.4, floating.nv))
        place = kinematics(floating, q[None], "forearm")[0, :3, 3]
        slopes = jax.jacfwd(lambda x: solve(q, forearm_position=x).q)(place)
        way = np.array([1.0, -2.0, 0.5]) * 1e-6
        again = solve(q, forearm_position=place + way).q
        np.testing.assert_allclose(slopes @ way, again - q, atol=1e-10)
        assert np.abs(again[3:7] - q[3:7]).max() > 1e-8
    finally:
        jax.config.update("jax_enable_x64", before)


def near_problems(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return starts (count, 7) and poses near them, as a controller meets them."""
    random = np.random.default_rng(seed)
    q = random.uniform(0.8 * IIWA.lower, 0.8 * IIWA.upper, (count, 7))
    return q + random.uniform(-0.2, 0.2, q.shape), kinematics(IIWA, q, HAND)


def test_fixed_point_finds_nearly_the_same() -> None:
    q0, poses = near_problems(64, seed=0)
    with solver_of(IIWA, [HAND], device="numpy", tolerance=1e-3, starts=1) as opened:
        fixed = opened.on_integers(q0, link_7=poses)
        q0, poses = near_problems(32, seed=1)
        expected, found = opened(q0, link_7=poses), fixed(q0, link_7=poses)
    assert repr(fixed).endswith("on fixed>")
    assert found.converged.mean() >= 0.9
    together = found.converged & expected.converged
    assert (distances(kinematics(IIWA, found.q, HAND), poses)[together] <= 1.3e-3).all()
    np.testing.assert_allclose(found.q[together], expected.q[together], atol=0.02)
    assert not np.array_equal(found.q, expected.q)


def test_problems_that_give_no_ranges_are_refused(solver: InverseKinematics) -> None:
    far = np.tile(np.eye(4), (4, 1, 1))
    far[:, 0, 3] = 9.0
    with pytest.raises(ArgumentError, match="4 of 4 problems do not converge from their start in float64; expected 50"):
        solver.on_integers(link_7=far)
    with pytest.raises(ArgumentError, match="word=33; expected a whole number, at most 32"):
        solver.on_integers(link_7=far, word=33)
    with (
        solver_of(ARM, [FramePosition(ARM.links[-1].name)], posture=1.0, device="numpy") as opened,
        pytest.raises(ArgumentError, match="posture of a solver in fixed point"),
    ):
        opened.on_integers(**{opened.inputs[0]: np.zeros(3)})


@pytest.mark.parametrize("name", ["inverse_kinematics", "ik"])
def test_designs_and_functions_point_to_the_solver(name: str) -> None:
    with pytest.raises(ArgumentError, match=r"a solver; write dynagate\.inverse_kinematics\(robot.*ChipIk"):
        dynagate.build(ARM, name, units=4)
    with pytest.raises(ArgumentError, match=r"write dynagate\.inverse_kinematics"):
        dynagate.compile(ARM, name)
    with pytest.raises(AttributeError, match=r"write dynagate\.inverse_kinematics\(robot, frames\)"):
        _ = dynagate.ik


def test_the_loop_is_a_program_of_a_core_with_four_units() -> None:
    """Its words, replayed, give the integers of the loop; 16 iterations take 20,000 cycles at most."""
    solver = ChipIk.of(IIWA, IkOptions((FramePose(HAND),), None, 16, 1e-3))
    targets = ("link_7_position", "link_7_rotation")

    def calls(count: int, seed: int) -> dict[str, np.ndarray]:
        q, poses = near_problems(count, seed)
        return {"q": q, targets[0]: poses[:, :3, 3], targets[1]: poses[:, :3, :3]}

    policy = Policy(27, 1.0, arithmetic=Arithmetic(overflow=SATURATE))
    formatted = formatted_solver(solver, calls(300, seed=0), policy)
    angle = angles_of(formatted.graphs(), 27)
    formatted = formatted.mapped(lambda graph: fused(graph, angle))
    core = Core(units=4, word=27, saturates=1, place_bits=12, program_bits=16)
    program = schedule(loop_instructions(formatted), core)
    assert program.longest <= 20_000
    problems = calls(16, seed=1)
    own = integers_of(formatted, problems)
    values, _ = LoopTrajectories(formatted, {}, 16).advance(own)
    results, _ = replayed_iteration(program, own, Memory())
    for name, words in results.items():
        np.testing.assert_array_equal(words, [fixed.value for fixed in values[name]], err_msg=name)
    q = np.stack([fixed.value * fixed.format.step for fixed in values["solution"]], axis=1)
    places = kinematics(IIWA, q, HAND)[:, :3, 3]
    assert np.median(np.linalg.norm(places - problems[targets[0]], axis=1)) < 2e-3


def test_the_command_solves_on_a_core(tmp_path: Path) -> None:
    command = ["run", "two_joint_arm", "--function", "inverse_kinematics_forearm", "--units", "2", "--states", "12"]
    done = CliRunner().invoke(main, [*command, "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "integers        equal; of calls that go on with the call before equal\nPASS" in done.output
    assert re.search(r"near +12 of 12 within 0\.002", done.output), done.output


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("inverse_kinematics",), "expected only its name: `dynagate run ROBOT --function inverse_kinematics_FRAME"),
        (("inverse_kinematics_forearm",), "without --units; expected a processor's units"),
        (("inverse_kinematics_nix", "--units", "2"), "nix"),
        (("inverse_kinematics_forearm", "--units", "2", "--dt", "0.1"), "--dt with --function inverse_kinematics_fo"),
        (("inverse_kinematics_forearm", "--units", "2", "--knots", "4"), "--knots does not apply to inverse_kinem"),
    ],
)
def test_options_of_the_command_are_checked(options: tuple[str, ...], text: str) -> None:
    done = CliRunner().invoke(main, ["run", "two_joint_arm", "--function", *options])
    assert done.exit_code != 0
    assert text in " ".join(done.output.split()), done.output


def test_a_posture_is_refused_on_a_chip() -> None:
    with pytest.raises(ArgumentError, match="posture of inverse kinematics on a chip; expected none"):
        ChipIk.of(IIWA, IkOptions((FramePose(HAND),), (1.0,) * 7, 16, 1e-3))


def test_a_joint_goes_on_at_the_other_end_of_a_whole_range() -> None:
    links = tuple(replace(link, joint=replace(link.joint, lower=-3.3, upper=3.3)) for link in ARM.links)
    arm = replace(ARM, links=links).with_frame("tip", ARM.links[-1].name, (0.1, 0.05, 0.3))
    q = np.array([[3.45, 0.6], [-3.45, 0.6], [0.4, 3.45], [0.4, -3.45]])
    targets = kinematics(arm, q, "tip")[:, :3, 3]
    with solver_of(arm, [FramePosition("tip")], device="numpy", starts=1) as opened:
        found = opened(np.clip(q, -3.2, 3.2), tip_position=targets)
    assert found.converged.all()
    assert (np.abs(found.q) <= 3.3).all()
    np.testing.assert_allclose(np.cos(found.q - q), 1.0, atol=1e-9)


def test_a_search_without_progress_ends(solver: InverseKinematics) -> None:
    far = np.tile(np.eye(4), (8, 1, 1))
    far[:, 0, 3] = np.linspace(2.0, 9.0, 8)
    found = solver(configurations(IIWA, 8, seed=9), link_7=far)
    assert not found.converged.any()
    assert found.iterations.max() < 40
