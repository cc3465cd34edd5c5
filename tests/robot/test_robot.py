"""What can be done to a robot after it was read, and what the reader can be told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynagate import Region, Robot, RobotError, RobotWarning, evaluate, robots, trace
from dynagate.dynamics import FUNCTIONS, Tree
from dynagate.graph.reference_gradient import relative_errors
from dynagate.robot.vectors import matrix3, vector3

from tests import tolerances
from tests.oracle import compare, pinocchio_model
from tests.robots import random_robot
from tests.samples import inputs_of, states


@pytest.mark.parametrize("seed", [6, *(pytest.param(s, marks=pytest.mark.long) for s in (8, 12, 20))])
def test_armature_adds_to_the_diagonal_of_m_in_every_form(seed: int, tmp_path: Path) -> None:
    plain, path = random_robot(seed, tmp_path)
    armature = np.linspace(0.1, 0.9, plain.nv)
    model = pinocchio_model(path)
    for link, value in zip(plain.links, armature, strict=True):
        model.armature[model.joints[model.getJointId(link.joint.name)].idx_v] = value
    compare(plain.with_armature(armature), model, count=3, frames=["middle"])


def test_armature_must_fit_the_robot() -> None:
    robot = robots.load("two_joint_arm")
    assert [link.joint.armature for link in robot.with_armature(0.2).links] == [0.2, 0.2]
    with pytest.raises(RobotError, match="3 armatures for 2 joints of robot 'two_joint_arm'"):
        robot.with_armature([1.0, 2.0, 3.0])
    for armature in (-1.0, float("nan"), float("inf")):
        with pytest.raises(RobotError, match=f"armature={armature}; expected a finite number, 0 or more"):
            robot.with_armature(armature)


def test_a_rotor_is_felt_through_its_gear() -> None:
    robot = robots.load("two_joint_arm")
    assert [link.joint.armature for link in robot.with_armature([1e-4, 2e-4], gear=[-100, 50]).links] == [1.0, 0.5]
    with pytest.raises(RobotError, match="3 gears for 2 joints of robot 'two_joint_arm'"):
        robot.with_armature(1e-4, gear=[1, 2, 3])
    with pytest.raises(RobotError, match="gear=1e\\+200; expected a finite number, at most 1e"):
        robot.with_armature(1e-4, gear=1e200)


def test_payload_is_a_body_bolted_on(tmp_path: Path) -> None:
    inertia = ((0.001, 0.0, 0.0), (0.0, 0.002, 0.0), (0.0, 0.0, 0.003))
    bolt = """<joint name="bolt" type="fixed"><parent link="forearm"/><child link="tool"/></joint>
      <link name="tool"><inertial><origin xyz="0.1 0 0.4"/><mass value="0.8"/>
      <inertia ixx="0.001" iyy="0.002" izz="0.003" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""
    path = tmp_path / "tool.urdf"
    path.write_text(robots.path("two_joint_arm").read_text().replace("</robot>", bolt))
    loaded = robots.load("two_joint_arm").with_payload("forearm", 0.8, (0.1, 0.0, 0.4), inertia)
    for name in ("com", "inertia", "mass"):
        np.testing.assert_allclose(getattr(loaded.links[1], name), getattr(Robot.from_urdf(path).links[1], name))


def test_payload_faults_are_named() -> None:
    robot = robots.load("two_joint_arm")
    inertia = ((0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.1))
    with pytest.raises(RobotError, match="no moving link 'hand'; expected one of upper_arm, forearm"):
        robot.with_payload("hand", 1.0, (0.0, 0.0, 0.0), inertia)
    with pytest.raises(RobotError, match="payload has mass 0.0; expected a finite number above 0"):
        robot.with_payload("forearm", 0.0, (0.0, 0.0, 0.0), inertia)


@pytest.mark.parametrize("seed", [9, *(pytest.param(s, marks=pytest.mark.long) for s in (3, 5))])
def test_locked_joint_is_fixed_where_it_is_held(seed: int, tmp_path: Path) -> None:
    robot, path = random_robot(seed, tmp_path)
    revolute = [link.joint.name for link in robot.links if link.joint.type != "continuous"]
    lock = {name: 0.3 + 0.1 * k for k, name in enumerate(revolute[:2])}
    locked = Robot.from_urdf(path, lock=lock)
    assert locked.nv == robot.nv - len(lock)
    compare(locked, pinocchio_model(path, lock), count=3, frames=["middle"])


def test_reader_options(tmp_path: Path) -> None:
    text = robots.path("two_joint_arm").read_text()
    path = tmp_path / "arm.urdf"
    path.write_text(text.replace("<axis", '<dynamics damping="0.7" friction="0.2"/><axis', 1))
    message = (
        r"arm.urdf: Coulomb friction of joint 'shoulder' acts with forces=\[dynagate.forces.Friction\(\)\] .*only; "
    )
    with pytest.warns(RobotWarning, match=message + "ignore_friction=True"):
        assert Robot.from_urdf(path).links[0].joint.friction == 0.2
    assert Robot.from_urdf(path, ignore_friction=True).links[0].joint.damping == 0.7
    assert Robot.from_urdf(path, ignore_friction=True, damping=False) == robots.load("two_joint_arm")
    with pytest.raises(RobotError, match=r"arm.urdf: lock names joint 'wrist', which the file does not define"):
        Robot.from_urdf(path, lock={"wrist": 0.0})
    path.write_text(text.replace('izz="0.0008"', 'izz="-1"'))
    assert Robot.from_urdf(path, allow_unphysical=True).links[1].inertia[2][2] == -1.0


def chain_of(count: int) -> Robot:
    arm = robots.load("two_joint_arm")
    links = tuple(
        replace(arm.links[k % 2], name=f"link_{k}", parent=k - 1, joint=replace(arm.links[k % 2].joint, name=f"j{k}"))
        for k in range(count)
    )
    return Robot("chain", links)


@pytest.mark.filterwarnings("ignore:graph 'forward_dynamics' of 'chain' keeps operations")
def test_a_chain_of_forty_joints() -> None:
    """Deep recursion and long numbers: forward dynamics undoes inverse dynamics.

    The degrees of the terms exceed what exact arithmetic follows, so that equal terms may stay apart.
    """
    chain = chain_of(40).with_armature(1.0)
    state = states(chain, 2, seed=1)
    for form in ("mass_matrix_solve", "aba"):
        qdd = evaluate(trace(chain, "forward_dynamics", form=form), inputs_of("forward_dynamics", state))["qdd"]
        assert relative_errors(qdd, state["qdd"]).max() <= tolerances.IDENTITY


def scaled(robot: Robot, length: float, mass: float) -> Robot:
    """The robot in other units, or a larger or heavier one that moves as it does."""
    links = []
    for link in robot.links:
        joint = replace(link.joint, translation=vector3(length * np.array(link.joint.translation)))
        com, inertia = length * np.array(link.com), length**2 * mass * np.array(link.inertia)
        links.append(replace(link, joint=joint, mass=mass * link.mass, com=vector3(com), inertia=matrix3(inertia)))
    return replace(robot, links=tuple(links), gravity=vector3(length * np.array(robot.gravity)))


@pytest.mark.parametrize("mass", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("length", [1e-6, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("name", ["two_joint_arm", "iiwa14"])
def test_no_number_has_an_absolute_scale(name: str, length: float, mass: float) -> None:
    """An arm in millimeters and milligrams: M, torques and accelerations are those of the arm in meters, scaled."""
    robot = robots.load(name)
    other = scaled(robot, length, mass)
    state = states(robot, 3, seed=2)
    unit = length**2 * mass
    for function, factor in {"mass_matrix": unit, "inverse_dynamics": unit, "forward_dynamics": 1.0}.items():
        inputs = inputs_of(function, state)
        expected = evaluate(trace(robot, function), inputs)
        if "tau" in inputs:
            inputs["tau"] = unit * inputs["tau"]
        for output, got in evaluate(trace(other, function), inputs).items():
            assert relative_errors(got / factor, expected[output]).max() <= tolerances.SCALED, function
    gradients = [trace(r, "forward_dynamics_gradient").counts() for r in (robot, other)]
    ours, theirs = ([counts.mul, counts.add, counts.neg, counts.depth] for counts in gradients)
    np.testing.assert_allclose(ours, theirs, atol=2)  # scaled numbers are rounded, so two equal ones may differ


def test_one_joint_robot_has_every_function() -> None:
    arm = robots.load("two_joint_arm")
    single = Robot("single", arm.links[:1])
    state = states(single, 2, seed=1)
    state["minv"] = evaluate(trace(single, "mass_matrix_inverse"), {"q": state["q"]})["minv"]
    for name, function in FUNCTIONS.items():
        for form in function.forms_for(single):
            assert evaluate(trace(single, name, form=form), inputs_of(name, state))


def test_fewest_operations_is_no_worse_than_any_frame() -> None:
    robot = robots.load("iiwa14")

    def operations(frame: str | int | dict[int, int]) -> int:
        counts = trace(robot, "inverse_dynamics_gradient", frame=frame).counts()
        return counts.products + counts.add + counts.neg

    assert operations("fewest") == min(operations({0: k}) for k in range(-1, 7))


def test_accurate_frame_errs_no_more_than_others() -> None:
    robot = robots.load("iiwa14")
    inputs = Region.of(robot).sample("forward_dynamics_gradient_given_minv", 200, seed=5)

    def error(frame: str | int) -> float:
        graph = trace(robot, "forward_dynamics_gradient_given_minv", frame=frame)
        rough = evaluate(graph, {key: value.astype(np.float32) for key, value in inputs.items()})
        exact = evaluate(graph, {key: value.astype(np.float32).astype(np.float64) for key, value in inputs.items()})
        return float(np.median(relative_errors(rough["dqdd_dq"], exact["dqdd_dq"])))

    errors = [error(frame) for frame in ("base", *range(7))]
    assert error("accurate") <= 1.05 * min(errors) < 0.8 * max(errors)


def test_robot_without_joints_is_refused() -> None:
    with pytest.raises(RobotError, match="robot 'stone' has no moving joint; expected at least one"):
        Robot("stone", ())
    arm = robots.load("two_joint_arm")
    with pytest.raises(RobotError, match="link 'upper_arm' has parent index 3; expected -1 .* to -1"):
        Robot("twisted", (replace(arm.links[0], parent=3),))
    with pytest.raises(RobotError, match="joint 'shoulder' has axis .*; expected a unit vector"):
        Robot("skewed", (replace(arm.links[0], joint=replace(arm.links[0].joint, axis=(1.0, 1.0, 0.0))),))
    with pytest.raises(RobotError, match="robot 'afloat' has gravity .*nan.*; expected three finite numbers in m/s²"):
        Robot("afloat", arm.links, gravity=(0.0, 0.0, float("nan")))
    assert Tree(arm).nv == 2
