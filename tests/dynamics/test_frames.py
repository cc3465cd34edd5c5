"""Named frames: pose, velocity and Jacobian of links, of links on fixed joints and of places added to them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import dynagate
import numpy as np
import pinocchio
import pytest
from click.testing import CliRunner
from dynagate import Robot, RobotError, evaluate, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.robot import Mimic

from tests.robots import BASE, random_urdf
from tests.samples import states

TURN = ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
ARM = robots.load("two_joint_arm")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with joints of three kinds about any axis, and links on fixed joints."""
    path = tmp_path_factory.mktemp("frames") / "tree.urdf"
    path.write_text(random_urdf(36).replace('<link name="base"/>', BASE))
    return path


@pytest.mark.parametrize("floating_base", [False, True])
def test_frames_are_pinocchios(path: Path, floating_base: bool) -> None:
    robot = Robot.from_urdf(path, floating_base=floating_base)
    model = pinocchio.buildModelFromUrdf(str(path), *([pinocchio.JointModelFreeFlyer()] if floating_base else []))
    data = model.createData()
    state = states(robot, 1, seed=2)
    q, v = pinocchio.neutral(model), np.zeros(model.nv)
    columns: list[int] = []
    for link, iq, iv in robot.slices():
        joint, own = model.joints[model.getJointId(link.joint.name)], state["q"][0, iq]
        q[joint.idx_q : joint.idx_q + joint.nq] = own if joint.nq == len(own) else [np.cos(own[0]), np.sin(own[0])]
        v[joint.idx_v : joint.idx_v + joint.nv] = state["qd"][0, iv]
        columns += range(joint.idx_v, joint.idx_v + joint.nv)
    pinocchio.forwardKinematics(model, data, q, v)
    pinocchio.computeJointJacobians(model, data, q)
    pinocchio.updateFramePlacements(model, data)
    aligned = pinocchio.ReferenceFrame.LOCAL_WORLD_ALIGNED
    bolted = [frame.name for frame in robot.frames if frame.link >= 0]
    assert bolted
    for name in [robot.links[-1].name, *bolted[:2]]:
        frame = model.getFrameId(name, pinocchio.FrameType.BODY)
        twist = pinocchio.getFrameVelocity(model, data, frame, aligned)
        jacobian = pinocchio.getFrameJacobian(model, data, frame, aligned)[:, columns]
        expected = {
            "frame_position": data.oMf[frame].translation,
            "frame_rotation": data.oMf[frame].rotation,
            "frame_jacobian": np.vstack([jacobian[3:], jacobian[:3]]),
            "frame_velocity": np.concatenate([twist.angular, twist.linear]),
        }
        for function in ("frame_pose", "frame_velocity", "frame_jacobian"):
            graph = trace(robot, f"{function}_{name}")
            for output, value in evaluate(graph, {port.name: state[port.name] for port in graph.inputs}).items():
                np.testing.assert_allclose(value[0], expected[output], atol=1e-9, err_msg=f"{output} of {name}")


def test_a_frame_on_a_frame() -> None:
    robot = ARM.with_frame("tool", "forearm", (0.0, 0.1, 0.4), TURN).with_frame("tip", "tool", (0.2, 0.0, 0.0))
    q = {"q": np.array([[0.4, -0.9]])}
    forearm, tool, tip = (evaluate(trace(robot, f"frame_pose_{name}"), q) for name in ("forearm", "tool", "tip"))
    np.testing.assert_allclose(tool["frame_rotation"], forearm["frame_rotation"] @ TURN, atol=1e-15)
    np.testing.assert_allclose(tip["frame_rotation"], tool["frame_rotation"], atol=1e-15)
    shifted = tool["frame_position"] + tool["frame_rotation"] @ [0.2, 0.0, 0.0]
    np.testing.assert_allclose(tip["frame_position"], shifted, atol=1e-15)


@pytest.mark.parametrize(("device", "within"), [("cpu", 1e-12), ("fixed", 1e-4)])
def test_on_devices(device: str, within: float) -> None:
    robot = ARM.with_frame("tip", "forearm", (0.0, 0.0, 0.4))
    state = {"q": np.array([[0.5, -0.3], [1.0, 0.2]])}
    expected = evaluate(trace(robot, "frame_jacobian_tip"), state)["frame_jacobian"]
    with dynagate.compile(robot, "frame_jacobian_tip", device=device) as accelerator:
        np.testing.assert_allclose(accelerator(**state).frame_jacobian, expected, atol=within)


def test_a_frame_of_a_follower() -> None:
    elbow = replace(ARM.links[1].joint, mimic=Mimic("shoulder", -2.0, 0.3))
    robot = replace(ARM, links=(ARM.links[0], replace(ARM.links[1], joint=elbow)))
    full = evaluate(trace(ARM, "frame_jacobian_forearm"), {"q": np.array([[0.4, -0.5]])})["frame_jacobian"]
    state = {"q": np.array([[0.4]]), "qd": np.array([[0.7]])}
    ours = evaluate(trace(robot, "frame_jacobian_forearm"), {"q": state["q"]})["frame_jacobian"]
    np.testing.assert_allclose(ours[0, :, 0], full[0] @ [1.0, -2.0], atol=1e-12)
    velocity = evaluate(trace(robot, "frame_velocity_forearm"), state)["frame_velocity"]
    np.testing.assert_allclose(velocity[0], 0.7 * ours[0, :, 0], atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tip", "hand"), "robot 'two_joint_arm' has no frame 'hand'; expected one of upper_arm, forearm, base"),
        (("forearm", "base"), "robot 'two_joint_arm' has a frame 'forearm' already"),
        (("tip", "forearm", (np.nan, 0, 0)), "frame 'tip' has translation (nan, 0, 0); expected three finite numbers"),
        (("tip", "forearm", (0, 0, 0), np.eye(3) * 2), "frame 'tip' has rotation"),
        (("tip", "forearm", (0, 0, 0), np.diag([1, 1, -1])), "expected a rotation matrix"),
        (("tip", "forearm", (0, 0)), "frame 'tip' has translation (0, 0); expected three finite numbers"),
        (("a\nb", "forearm"), "frame 'a\\nb': a name holds a line break"),
    ],
)
def test_frames_that_are_none(arguments: tuple, message: str) -> None:
    with pytest.raises(RobotError, match=re.escape(message)):
        ARM.with_frame(*arguments)


def test_functions_of_frames_that_are_none() -> None:
    with pytest.raises(RobotError, match="has no frame 'hand'; expected one of upper_arm, forearm, base"):
        trace(ARM, "frame_pose_hand")
    odd = ARM.with_frame("a/b", "forearm")
    with pytest.raises(ArgumentError, match=re.escape("by robot.with_frame('name', on='a/b')")):
        trace(odd, "frame_jacobian_a/b")
    assert trace(odd.with_frame("ab", "a/b"), "frame_jacobian_ab").outputs[0].shape == (6, 2)


def test_on_the_command_line(tmp_path: Path) -> None:
    command = ["emit", "two_joint_arm", "--function", "frame_pose_forearm", "--folder", str(tmp_path)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
