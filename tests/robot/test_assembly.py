"""Robots with other parts, roots, names and sizes, and robots written as URDF and read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
import pytest
from dynagate import Mimic, Robot, RobotError, RobotWarning, evaluate, robots, trace
from dynagate.base.errors import ArgumentTypeError
from dynagate.robot.writing import rpy_of

from tests.robots import floating_robot, random_robot

ARM = robots.load("two_joint_arm")


def values(robot: Robot, function: str, **inputs: np.ndarray) -> np.ndarray:
    results = evaluate(trace(robot, function), {name: np.asarray(value)[None] for name, value in inputs.items()})
    return np.asarray(next(iter(results.values())))[0]


def state(robot: Robot, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    q = random.uniform(-1.0, 1.0, robot.nq)
    for part in robot.quaternions():
        q[part] /= np.linalg.norm(q[part])
    return {"q": q, "qd": random.normal(size=robot.nv), "qdd": random.normal(size=robot.nv)}


def same_dynamics(robot: Robot, other: Robot, tolerance: float = 1e-12) -> None:
    for seed in range(3):
        inputs = state(robot, seed)
        if seed == 2:
            inputs["qd"] *= 0.0
        first, second = (values(each, "inverse_dynamics", **inputs) for each in (robot, other))
        np.testing.assert_allclose(first, second, rtol=tolerance, atol=tolerance * max(1.0, np.abs(first).max()))


def again(robot: Robot, tmp_path: Path, **options: Any) -> Robot:
    path = tmp_path / "again.urdf"
    assert robot.to_urdf(path) == path.read_text()
    return Robot.from_urdf(path, **options)


def hand(tmp_path: Path) -> Robot:
    """Return a gripper with a heavy palm that floats, two fingers of which one mimics the other, and a frame."""
    palm = (
        '<robot name="hand"><link name="palm"><inertial><origin xyz="0 0.01 0.05"/><mass value="0.5"/><inertia '
        'ixx="0.001" iyy="0.002" izz="0.0015" ixy="0.0001" ixz="0" iyz="0"/></inertial></link>'
    )
    finger = (
        '<link name="{0}"><inertial><origin xyz="0 0 0.03"/><mass value="0.1"/><inertia ixx="1e-4" iyy="1e-4" '
        'izz="5e-5" ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="{0}_slide" type="prismatic">'
        '<parent link="palm"/><child link="{0}"/><origin xyz="0 {1} 0.1" rpy="0 0 {2}"/><axis xyz="0 1 0"/>'
        '<limit lower="0" upper="0.04" effort="20" velocity="1"/>{3}</joint>'
    )
    tip = (
        '<link name="tip"/><joint name="tip_fixed" type="fixed"><parent link="palm"/><child link="tip"/>'
        '<origin xyz="0 0 0.15"/></joint></robot>'
    )
    path = tmp_path / "hand.urdf"
    second = finger.format("right", -0.02, 3.141592653589793, '<mimic joint="left_slide"/>')
    path.write_text(palm + finger.format("left", 0.02, 0.3, "") + second + tip)
    return Robot.from_urdf(path, floating_base=True)


def merged(arm: Robot, tool: Robot, on: str, pose: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> pinocchio.Model:
    """Return what Pinocchio makes of both robots' files, joined by a fixed joint in the text."""
    inner = arm.to_urdf().split("</robot>")[0]
    text = tool.to_urdf()
    body = text[text.index("<link") : text.index("</robot>")]
    roll, pitch, yaw = rpy_of(pose[0])
    seat = (
        f'<joint name="seat" type="fixed"><parent link="{on}"/><child link="palm"/><origin '
        f'xyz="{" ".join(map(str, pose[1]))}" rpy="{roll} {pitch} {yaw}"/></joint>'
    )
    start, end = body.index('<joint name="root_joint"'), body.index("</joint>", body.index('<joint name="root_joint"'))
    body = body[:start] + body[end + len("</joint>") :]
    body = body.replace('<link name="base"/>', "").replace('<link name="base_link"/>', "")
    path = tmp_path / "merged.urdf"
    path.write_text(inner + body + seat + "</robot>")
    return pinocchio.buildModelFromUrdf(str(path), mimic=True)


def test_a_gripper_on_an_arm_is_pinocchios(tmp_path: Path) -> None:
    gripper = hand(tmp_path)
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    arm = robots.load("iiwa14")
    on = arm.links[-1].name
    robot = arm.with_robot(gripper, on, (0.01, 0.02, 0.1), turn)
    assert robot.joint_names == (*arm.joint_names, "left_slide", "right_slide")
    assert robot.frame("palm").link == 6
    assert robot.frame("tip").translation == pytest.approx((0.01, 0.02, 0.25))
    model = merged(arm, gripper, on, (turn, np.array([0.01, 0.02, 0.1])), tmp_path)
    for seed in range(3):
        inputs = state(robot, seed)
        expected = pinocchio.rnea(model, model.createData(), inputs["q"], inputs["qd"], inputs["qdd"])
        np.testing.assert_allclose(values(robot, "inverse_dynamics", **inputs), expected, atol=1e-11)


def test_two_arms_on_one_base_do_not_feel_each_other() -> None:
    both = ARM.with_robot(ARM, ARM.frames[0].name, (1.0, 0.0, 0.0), prefix="second_")
    assert both.joint_names == ("shoulder", "elbow", "second_shoulder", "second_elbow")
    inputs = state(both, 1)
    halves = [{name: value[k : k + 2] for name, value in inputs.items()} for k in (0, 2)]
    expected = np.concatenate([values(ARM, "inverse_dynamics", **half) for half in halves])
    np.testing.assert_allclose(values(both, "inverse_dynamics", **inputs), expected, atol=1e-13)


def test_attached_constraints_and_passive_joints_come_along() -> None:
    other = ARM.with_frame("end", "forearm", (0.0, 0.0, 0.4)).with_contact("end").with_passive("elbow")
    both = ARM.with_robot(other, "forearm", prefix="b_")
    assert (both.constraints[0].frame, both.passive) == ("b_end", ("b_elbow",))


def test_branches_are_removed() -> None:
    both = ARM.with_robot(ARM, "forearm", prefix="b_").with_robot(ARM, "upper_arm", prefix="c_")
    rest = both.without("b_upper_arm")
    assert rest.joint_names == ("shoulder", "elbow", "c_shoulder", "c_elbow")
    same_dynamics(rest, ARM.with_robot(ARM, "upper_arm", prefix="c_"))
    held = both.with_contact("b_forearm").with_passive("b_elbow", "c_elbow")
    assert (held.without("b_forearm").constraints, held.without("b_forearm").passive) == ((), ("c_elbow",))


def test_held_joints_are_those_of_lock(tmp_path: Path) -> None:
    for seed in (1, 4, 9):
        robot, path = random_robot(seed, tmp_path)
        if len(robot.links) < 2:
            continue
        held = {robot.joint_names[k]: 0.3 - 0.1 * k for k in range(0, len(robot.links) - 1, 2)}
        same_dynamics(robot.with_locked(held), Robot.from_urdf(path, lock=held, unlimited=True), 1e-11)
    gripper = hand(tmp_path)
    moved = ARM.with_robot(gripper, "forearm").with_locked({"left_slide": 0.02})
    assert moved.joint_names == ARM.joint_names
    assert moved.frame("right").translation[1] == pytest.approx(-0.04)


def test_another_root_leaves_the_motion(tmp_path: Path) -> None:
    """In free fall, accelerations of the joints at rest do not depend on which link is named the root."""
    for seed in (2, 7, 11):
        robot = floating_robot(seed, tmp_path)
        for link in (robot.links[-1], robot.links[len(robot.links) // 2]):
            other = robot.with_root(link.name)
            assert other.links[0].name == link.name
            assert sorted(other.joint_names) == sorted(robot.joint_names)
            same_dynamics(other.with_root(robot.links[0].name).with_root(link.name), other)
            random = np.random.default_rng(seed)
            position = {name: random.uniform(-1.0, 1.0) for name in robot.joint_names[1:]}
            torque = {name: random.normal() for name in robot.joint_names[1:]}
            result = []
            for each in (robot, other):
                free = [0.0] * 6 + [1.0]
                q = np.array(free + [position[name] for name in each.joint_names[1:]])
                tau = np.array([0.0] * 6 + [torque[name] for name in each.joint_names[1:]])
                each = replace(each, links=tuple(replace(x, joint=replace(x.joint, damping=0.0)) for x in each.links))
                qdd = values(each, "forward_dynamics", q=q, qd=np.zeros(each.nv), tau=tau)[6:]
                result.append([qdd[each.joint_names[1:].index(name)] for name in robot.joint_names[1:]])
            np.testing.assert_allclose(result[0], result[1], rtol=1e-8, atol=1e-9)


def test_another_root_keeps_places_and_energies(tmp_path: Path) -> None:
    """Pinocchio's model of each file: with the new root where it was, all frames are where they were."""
    robot = floating_robot(7, tmp_path)
    other = robot.with_root(robot.links[-1].name)
    models = []
    for k, each in enumerate((robot, other)):
        path = tmp_path / f"root_{k}.urdf"
        each.to_urdf(path)
        models.append(pinocchio.buildModelFromUrdf(str(path)))
    random = np.random.default_rng(1)
    joints = dict(zip(robot.joint_names[1:], random.uniform(-1.0, 1.0, len(robot.links)), strict=False))
    speeds = dict(zip(robot.joint_names[1:], random.normal(size=len(robot.links)), strict=False))
    energies, centers, placement, velocity = [], [], pinocchio.SE3.Random(), pinocchio.Motion.Random()
    for k, (model, each) in enumerate(zip(models, (robot, other), strict=True)):
        q, v = np.zeros(model.nq), np.zeros(model.nv)
        for name in each.joint_names[1:]:
            joint = model.joints[model.getJointId(name)]
            angle = joints[name]
            q[joint.idx_q : joint.idx_q + joint.nq] = [np.cos(angle), np.sin(angle)] if joint.nq == 2 else angle
            v[joint.idx_v] = speeds[name]
        root = model.joints[model.getJointId("root_joint")]
        q[root.idx_q : root.idx_q + 7] = pinocchio.SE3ToXYZQUAT(placement)
        v[root.idx_v : root.idx_v + 6] = velocity.vector
        data = model.createData()
        energies.append(
            pinocchio.computeKineticEnergy(model, data, q, v) + pinocchio.computePotentialEnergy(model, data, q)
        )
        centers.append(pinocchio.centerOfMass(model, data, q).copy())
        if k == 0:
            pinocchio.forwardKinematics(model, data, q, v)
            last = model.getJointId(robot.links[-1].joint.name)
            placement, velocity = data.oMi[last].copy(), data.v[last].copy()
    np.testing.assert_allclose(energies[0], energies[1], rtol=1e-10)
    np.testing.assert_allclose(centers[0], centers[1], atol=1e-12)


def test_names(tmp_path: Path) -> None:
    gripper = hand(tmp_path).with_contact("tip").with_passive("left_slide")
    other = gripper.with_names({"left_slide": "grip", "tip": "point"}, "a_")
    assert other.joint_names == ("a_root_joint", "a_grip", "a_right_slide")
    assert (other.constraints[0].frame, other.passive) == ("a_point", ("a_grip",))
    assert other.links[2].joint.mimic == Mimic("a_grip")
    same_dynamics(gripper, other)


def test_scale(tmp_path: Path) -> None:
    """A robot of twice the length and eight times the mass: torques of gravity grow by 16, inertias by 32."""
    robot = hand(tmp_path)
    large = robot.with_scale(2.0)
    q = state(robot, 3)["q"]
    doubled = q.copy()
    doubled[:3] *= 2.0
    doubled[7:] *= 2.0
    units = np.array([1.0] * 3 + [2.0] * 3 + [1.0])  # slides have forces, not torques
    gravity = values(robot, "gravity_torque", q=q)
    np.testing.assert_allclose(values(large, "gravity_torque", q=doubled), 8.0 * units * gravity, rtol=1e-12)
    inertia = values(robot, "mass_matrix", q=q)
    np.testing.assert_allclose(
        values(large, "mass_matrix", q=doubled), 8.0 * np.outer(units, units) * inertia, atol=1e-14
    )
    assert large.upper[7] == 0.08
    assert ARM.with_scale(2.0, mass=1.0).links[0].mass == ARM.links[0].mass


@pytest.mark.parametrize("name", robots.names())
def test_shipped_robots_are_written(name: str, tmp_path: Path) -> None:
    robot = robots.load(name)
    read = again(robot, tmp_path)
    same_dynamics(robot, read)
    assert read.frames[0] == robot.frames[0]
    np.testing.assert_array_equal(read.lower, robot.lower)
    np.testing.assert_array_equal(read.effort, robot.effort)


def test_random_robots_are_written(tmp_path: Path) -> None:
    for seed in range(6):
        robot = random_robot(seed, tmp_path)[0] if seed % 2 else floating_robot(seed, tmp_path)
        read = again(robot, tmp_path, ignore_friction=False)
        same_dynamics(robot, read)
        assert {frame.name for frame in read.frames} >= {frame.name for frame in robot.frames}


def test_all_that_a_file_holds_is_written(tmp_path: Path) -> None:
    gripper = ARM.with_robot(hand(tmp_path), "forearm").with_armature([0.1, 0.0, 0.3, 0.0]).with_damping(0.2)
    loop = (
        gripper.with_frame("c_1", "upper_arm")
        .with_frame("c_2", "left", (0.0, 0.1, 0.0))
        .with_loop("c_1", "c_2", "hinge")
    )
    with pytest.warns(RobotWarning, match="loop 'c' is read"):
        read = again(loop, tmp_path)
    same_dynamics(loop, read)
    assert [link.joint.armature for link in read.links] == [0.1, 0.0, 0.3, 0.0]
    assert read.constraints == loop.constraints
    assert {(frame.name, frame.link, frame.translation) for frame in read.frames} == {
        (frame.name, frame.link, frame.translation) for frame in loop.frames
    }


def test_what_urdf_cannot_express_is_named() -> None:
    robot = (
        replace(ARM, gravity=(0.0, 0.0, -1.6)).with_contact("forearm").with_passive("elbow").with_variable("gravity")
    )
    expected = (
        r"gravity \(0.0, 0.0, -1.6\), contact 'forearm', passive joints elbow, variable parameters gravity of robot"
    )
    with pytest.warns(RobotWarning, match=expected):
        robot.to_urdf()


def test_angles_of_any_rotation_are_exact() -> None:
    random = np.random.default_rng(0)
    rotations = [pinocchio.rpy.rpyToMatrix(*random.uniform(-4.0, 4.0, 3)) for _ in range(50)]
    near = [np.pi / 2 + d for d in (0.0, 1e-16, 1e-12, 1e-9, 1e-6, -1e-9)]
    rotations += [pinocchio.rpy.rpyToMatrix(*random.uniform(-4.0, 4.0, 1), pitch, 0.7) for pitch in near]
    for rotation in rotations:
        np.testing.assert_allclose(pinocchio.rpy.rpyToMatrix(*rpy_of(rotation)), rotation, atol=1e-15)


NAN = float("nan")


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda: ARM.with_robot(3, "forearm"), ArgumentTypeError, "other=3; expected a Robot"),
        (lambda: ARM.with_robot(ARM, "forearm"), RobotError, "both have the joint 'elbow'; expected prefix="),
        (lambda: ARM.with_robot(ARM, "hand", prefix="b"), RobotError, "has no frame 'hand'"),
        (lambda: ARM.with_robot(ARM, "forearm", prefix=2), ArgumentTypeError, "prefix=2"),
        (lambda: ARM.with_robot(ARM, "forearm", (0, 0, NAN), prefix="b"), RobotError, "translation="),
        (lambda: ARM.with_robot(ARM, "forearm", (0, 0), prefix="b"), RobotError, "translation="),
        (lambda: ARM.with_robot(ARM, "forearm", rotation=2.0 * np.eye(3), prefix="b"), RobotError, "a rotation matrix"),
        (lambda: ARM.with_robot(ARM.with_variable("gravity"), "forearm", prefix="b"), RobotError, "variable"),
        (lambda: ARM.without("hand"), RobotError, "no link or frame 'hand'"),
        (lambda: ARM.without("upper_arm"), RobotError, "would remove all links"),
        (lambda: ARM.without(3), RobotError, "3"),
        (lambda: ARM.with_root("forearm"), RobotError, "the base of robot 'two_joint_arm' is fixed"),
        (lambda: ARM.with_root("hand"), RobotError, "no moving link 'hand'"),
        (lambda: ARM.with_names({"hand": "x"}), RobotError, "no link, joint or frame 'hand'"),
        (lambda: ARM.with_names({"elbow": "shoulder"}), RobotError, "two parts would have the name 'shoulder'"),
        (lambda: ARM.with_names({"elbow": 3}), ArgumentTypeError, "expected names such as"),
        (lambda: ARM.with_names({"elbow": "a\nb"}), RobotError, "cannot be printed"),
        (lambda: ARM.with_names(["elbow"]), ArgumentTypeError, "expected names such as"),
        (lambda: ARM.with_locked({"hand": 0.0}), RobotError, "no joint 'hand'"),
        (lambda: ARM.with_locked({"elbow": NAN}), RobotError, "position of joint 'elbow' is nan"),
        (lambda: ARM.with_locked({"elbow": True}), RobotError, "position of joint 'elbow' is True"),
        (lambda: ARM.with_locked({"elbow": 0.0, "shoulder": 0.0}), RobotError, "hold all joints"),
        (lambda: ARM.with_locked(["elbow"]), ArgumentTypeError, "expected positions by joint"),
        (lambda: ARM.with_joint_equality("elbow", "shoulder").with_locked({"elbow": 0.0}), RobotError, "equality"),
        (lambda: ARM.with_scale(0.0), RobotError, "length="),
        (lambda: ARM.with_scale(1.0, mass=-1.0), RobotError, "mass="),
        (lambda: ARM.with_scale("2"), RobotError, "length="),
        (lambda: ARM.to_urdf(3), ArgumentTypeError, "expected the path"),
    ],
)
def test_changes_that_are_refused(change: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        change()


def test_a_leader_is_not_removed_alone() -> None:
    upper, forearm = ARM.links
    follower = replace(upper, name="c", parent=-1, joint=replace(upper.joint, name="c", mimic=Mimic("elbow")))
    robot = replace(ARM, links=(upper, forearm, follower))
    with pytest.raises(RobotError, match="joint 'c' mimics joint 'elbow', which would be removed"):
        robot.without("forearm")


def test_names_and_limits_that_no_file_has() -> None:
    twice = replace(ARM, links=(ARM.links[0], replace(ARM.links[1], name=ARM.links[0].name)))
    with pytest.raises(RobotError, match="2 parts have the name"):
        twice.to_urdf()
    joint = replace(ARM.links[1].joint, lower=None)
    with pytest.raises(RobotError, match="one limit of its position"):
        replace(ARM, links=(ARM.links[0], replace(ARM.links[1], joint=joint))).to_urdf()
