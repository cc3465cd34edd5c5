"""Elements of URDF files beyond plain joints: planar, universal and screw joints, rotors, loops, and robots by name."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Robot, RobotError, RobotWarning, evaluate, robots, trace
from dynagate.base.errors import MissingExtraError

BODY = """<link name="{}"><inertial><origin xyz="0.1 0.2 -0.3" rpy="0.1 0.2 0.3"/><mass value="2"/>
<inertia ixx="0.5" iyy="0.4" izz="0.3" ixy="0.01" ixz="0.02" iyz="0.03"/></inertial></link>"""
ONE = '<link name="base"/>' + BODY.format("arm")


def joint(kind: str, inside: str = "", *, name: str = "j", ends: str = "base arm", tag: str = "joint") -> str:
    parent, child = ends.split()
    return (
        f'<{tag} name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0.1 0 1" rpy="0.3 -0.2 0.5"/>{inside}</{tag}>'
    )


def read(tmp_path: Path, body: str, **options: Any) -> tuple[Robot, list[str]]:
    path = tmp_path / "r.urdf"
    path.write_text(f'<robot name="r" xmlns:drake="http://drake.mit.edu">{body}</robot>')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        robot = Robot.from_urdf(path, **options)
    told = [re.sub(r" \[DG-[A-Z]+-\d+\]", "", str(each.message)) for each in caught if each.category is RobotWarning]
    return robot, [text.removeprefix("r.urdf: ") for text in told]


def values(robot: Robot, function: str, **inputs: np.ndarray) -> np.ndarray:
    results = evaluate(trace(robot, function), {name: value[None] for name, value in inputs.items()})
    return np.asarray(next(iter(results.values())))[0]


@pytest.mark.parametrize("axis", ["0 0 1", "0 1 0", "1 0 0", "0 0 -1", "0.6 0 -0.8", "0.36 0.48 0.8"])
def test_a_planar_joint_is_mujocos(axis: str, tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    body = ONE + joint("planar", f'<axis xyz="{axis}"/><dynamics damping="0.5"/>')
    robot, told = read(tmp_path, body)
    assert (robot.joint_names, told) == (("j_TX", "j_TY", "j_RZ"), [])
    model = mujoco.MjModel.from_xml_string(f'<robot name="r">{body}</robot>')
    assert [model.joint(k).name for k in range(3)] == list(robot.joint_names)
    data, random = mujoco.MjData(model), np.random.default_rng(3)
    for q in (np.zeros(3), random.normal(size=3)):
        qd, qdd = random.normal(size=(2, 3))
        data.qpos[:], data.qvel[:], data.qacc[:] = q, qd, qdd
        mujoco.mj_inverse(model, data)
        expected = data.qfrc_inverse
        np.testing.assert_allclose(values(robot, "inverse_dynamics", q=q, qd=qd, qdd=qdd), expected, atol=1e-12)
    assert all(link.joint.damping == 0.5 for link in robot.links)


def turned(angle: float, k: int) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    turn = np.eye(3)
    i, j = (k + 1) % 3, (k + 2) % 3
    turn[[i, i, j, j], [i, j, i, j]] = c, -s, s, c
    return turn


def test_a_universal_joint_turns_about_x_then_y(tmp_path: Path) -> None:
    robot, told = read(tmp_path, ONE + joint("universal", tag="drake:joint"))
    assert (robot.joint_names, told) == (("j_RX", "j_RY"), [])
    above = turned(0.5, 2) @ turned(-0.2, 1) @ turned(0.3, 0)

    def energy(q: np.ndarray) -> float:
        return float(9.81 * 2.0 * (above @ turned(q[0], 0) @ turned(q[1], 1) @ [0.1, 0.2, -0.3])[2])

    for q in (np.zeros(2), np.array([0.7, -1.2])):
        slopes = [(energy(q + d) - energy(q - d)) / 2e-5 for d in 1e-5 * np.eye(2)]
        np.testing.assert_allclose(values(robot, "gravity_torque", q=q), slopes, atol=1e-8)


def test_a_screw_moves_by_its_pitch_at_each_turn(tmp_path: Path) -> None:
    inside = '<axis xyz="0 0 1"/><drake:screw_thread_pitch value="0.05"/>'
    robot, told = read(tmp_path, ONE + joint("screw", inside, tag="drake:joint"))
    plain, _ = read(tmp_path, ONE + joint("continuous", '<axis xyz="0 0 1"/>'))
    assert (robot.nv, robot.joint_names, told) == (1, ("j", "j_TZ"), [])
    q = np.array([0.4])
    expected = values(plain, "mass_matrix", q=q) + 2.0 * (0.05 / (2.0 * np.pi)) ** 2
    np.testing.assert_allclose(values(robot, "mass_matrix", q=q), expected, rtol=1e-12)


def test_drakes_ball_and_fixed_joints_are_read(tmp_path: Path) -> None:
    ball, _ = read(tmp_path, ONE + joint("ball", tag="drake:joint"))
    assert ball == read(tmp_path, ONE + joint("spherical"))[0]


def test_limits_of_several_axes(tmp_path: Path) -> None:
    robot, told = read(tmp_path, ONE + joint("planar", '<limit lower="-1" upper="1" velocity="3" effort="4"/>'))
    assert told == ["position limits of joint 'j' are not read, because it is planar"]
    assert robot.velocity.tolist() == [3.0] * 3
    assert robot.effort.tolist() == [4.0] * 3
    assert not np.isfinite(robot.lower).any()
    held, _ = read(tmp_path, ONE + joint("planar"), lock={"j_TY": 0.5})
    assert held.joint_names == ("j_TX", "j_RZ")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (joint("planar", '<mimic joint="k"/>'), "is planar and mimics another; expected a joint of one axis"),
        (joint("planar", '<axis xyz="0 0 0"/>'), "a direction that is not zero"),
        (joint("planar", '<axis xyz="0 nan 0"/>'), "expected 3 finite"),
        (joint("planar").replace("<child", "<kid"), "joint 'j_RZ' has no <child link=>"),
        (joint("planar") + '<link name="j_TX_link"/>', "needs the name 'j_TX_link'"),
        (joint("screw", tag="drake:joint"), "is a screw without <drake:screw_thread_pitch value=>"),
        (joint("screw", '<drake:screw_thread_pitch value="0"/>', tag="drake:joint"), "has a pitch of 0 m/rad"),
    ],
)
def test_joints_of_several_axes_that_are_refused(body: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(RobotError, match=fault):
        read(tmp_path, ONE + body)


TURN = ONE + joint("continuous")
MOTOR = '<transmission name="t">{}<joint name="j"/><actuator name="a">{}</actuator></transmission>'


@pytest.mark.parametrize(
    ("own", "inside", "armature"),
    [
        ("", '<drake:rotor_inertia value="1e-4"/><drake:gear_ratio value="-100"/>', 1.0),
        ("", '<drake:rotor_inertia value="1e-4"/>', 1e-4),
        ("", "<motorInertia>1e-4</motorInertia><mechanicalReduction> 50 </mechanicalReduction>", 0.25),
        ("<mechanicalReduction>50</mechanicalReduction>", '<drake:rotor_inertia value="1e-4"/>', 0.25),
        ("", "<mechanicalReduction>50</mechanicalReduction>", 0.0),
    ],
)
def test_a_rotor_is_an_armature(own: str, inside: str, armature: float, tmp_path: Path) -> None:
    robot, told = read(tmp_path, TURN + MOTOR.format(own, inside))
    assert told == []
    assert robot.links[0].joint.armature == pytest.approx(armature, rel=1e-15)
    plain = values(read(tmp_path, TURN)[0], "mass_matrix", q=np.zeros(1))
    np.testing.assert_allclose(values(robot, "mass_matrix", q=np.zeros(1)), plain + armature, rtol=1e-14)


def test_the_rotors_of_a_joint_add_up(tmp_path: Path) -> None:
    motor = MOTOR.format("", '<drake:rotor_inertia value="0.5"/>')
    assert read(tmp_path, TURN + motor + motor)[0].links[0].joint.armature == 1.0


@pytest.mark.parametrize(
    ("inside", "fault"),
    [
        ('<drake:rotor_inertia value="-1"/>', "has rotor inertia -1 kg m²"),
        ('<drake:rotor_inertia value="1"/><drake:gear_ratio value="0"/>', "gear ratio 0; expected"),
        ("<drake:rotor_inertia/>", "expected 1 finite number"),
        ('<drake:rotor_inertia value="nan"/>', "expected 1 finite number"),
    ],
)
def test_rotors_that_are_refused(inside: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(RobotError, match=fault):
        read(tmp_path, TURN + MOTOR.format("", inside))


CHAIN = ONE + BODY.format("fore") + joint("continuous") + joint("continuous", name="k", ends="arm fore")
ENDS = {
    "constraint": '<constraint name="c" type="{kind}"><parent link="base"/><parent_origin xyz="0 0 0.5" '
    'rpy="0.1 0 0"/><parent_axis xyz="0 1 0"/><child link="fore"/><child_origin xyz="0.1 0 0"/>'
    '<child_axis xyz="0 1 0"/></constraint>',
    "loop_joint": '<loop_joint name="c" type="{kind}"><axis xyz="0 1 0"/><link1 link="base" xyz="0 0 0.5" '
    'rpy="0.1 0 0"/><link2 link="fore" xyz="0.1 0 0"/></loop_joint>',
}


@pytest.mark.parametrize("tag", ENDS)
@pytest.mark.parametrize(("kind", "own"), [("revolute", "hinge"), ("fixed", "fixed"), ("spherical", "point")])
def test_a_loop_of_a_file_is_with_loop(tag: str, kind: str, own: str, tmp_path: Path) -> None:
    robot, told = read(tmp_path, CHAIN + ENDS[tag].format(kind=kind))
    assert told == [
        "loop 'c' is read: constrained functions, such as constrained_forward_dynamics, hold it; all others see the "
        "open tree"
    ]
    axis = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).T if own == "hinge" else np.eye(3)
    plain, _ = read(tmp_path, CHAIN)
    same = plain.with_frame("c_1", "base", (0.0, 0.0, 0.5), turned(0.1, 0) @ axis)
    same = same.with_frame("c_2", "fore", (0.1, 0.0, 0.0), axis).with_loop("c_1", "c_2", own)
    assert robot.constraints == same.constraints
    for name in ("c_1", "c_2"):
        np.testing.assert_allclose(robot.frame(name).translation, same.frame(name).translation, atol=1e-15)
        # only the z axis of a hinge counts
        turns = [np.array(each.frame(name).rotation)[:, 2 if own == "hinge" else slice(None)] for each in (robot, same)]
        np.testing.assert_allclose(*turns, atol=1e-15)


def test_drakes_ball_constraint_is_a_loop(tmp_path: Path) -> None:
    ball = (
        '<drake:ball_constraint><drake:ball_constraint_body_A name="base"/><drake:ball_constraint_body_B name="fore"/>'
        '<drake:ball_constraint_p_AP value="0 0 0.5"/><drake:ball_constraint_p_BQ value="0.1 0 0"/>'
        "</drake:ball_constraint>"
    )
    robot, told = read(tmp_path, CHAIN + ball + ball)
    assert [each.kind for each in robot.constraints] == ["point", "point"]
    assert robot.frame("ball_constraint_1_2").translation == (0.1, 0.0, 0.0)
    assert "'ball_constraint_1', 'ball_constraint_2' is read" in told[0]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (ENDS["constraint"].replace('link="fore"', 'link="none"'), "loop 'c' holds link 'none', which the file does"),
        (ENDS["constraint"].replace('<child link="fore"/>', ""), "loop 'c' has 0 <child>; expected one"),
        (ENDS["constraint"].replace("0 0 0.5", "0 0"), "expected 3 finite"),
        (ENDS["loop_joint"].replace("0 1 0", "0 0 0"), "a direction that is not zero"),
        (ENDS["loop_joint"] + '<link name="c_2"/>' + joint("fixed", name="f", ends="fore c_2"), "needs the name 'c_2'"),
    ],
)
def test_loops_that_are_refused(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(RobotError, match=fault):
        read(tmp_path, CHAIN + text.format(kind="revolute"))


def test_a_loop_within_a_link_is_named(tmp_path: Path) -> None:
    within = ENDS["loop_joint"].replace('"base"', '"fore"').format(kind="revolute")
    robot, told = read(tmp_path, CHAIN + within)
    assert robot.constraints == ()
    assert told == ["loop 'c' is between places of one link and is not read"]


def test_a_file_without_masses_is_for_kinematics(tmp_path: Path) -> None:
    empty = '<link name="base"/><link name="arm"/>' + joint("continuous")
    with pytest.raises(RobotError, match=r"no link that moves has a mass.*; to read it, add allow_unphysical=True"):
        read(tmp_path, empty)
    robot, _ = read(tmp_path, empty, allow_unphysical=True)
    assert robot.nv == 1
    with pytest.raises(RobotError, match="'j'"):
        trace(robot, "forward_dynamics")


def test_robots_of_the_package_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package itself copies repositories by git, so a folder of its form stands here for it."""
    monkeypatch.setitem(sys.modules, "robot_descriptions", None)
    monkeypatch.delitem(sys.modules, "robot_descriptions")
    folder = tmp_path / "robot_descriptions"
    folder.mkdir()
    (folder / "__init__.py").touch()
    path = robots.path("two_joint_arm")
    (folder / "two_description.py").write_text(f"URDF_PATH = {str(path)!r}\n")
    (folder / "broken_description.py").write_text("raise OSError('no network')\n")
    (folder / "empty_description.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert robots.load("two_description") == robots.load("two_joint_arm")
    assert robots.load_trusted("two_description") == robots.load("two_joint_arm")
    for name, fault in (
        ("tow_description", "has no robot 'tow_description', near to 'two_description'|did you mean 'two_description'"),
        ("broken_description", "cannot fetch 'broken_description': no network"),
        ("empty_description", "has no file of URDF or MJCF"),
    ):
        with pytest.raises(RobotError, match=fault):
            robots.load(name)


def test_without_the_package_its_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "robot_descriptions", raising=False)
    with pytest.raises(MissingExtraError, match="pip install robot_descriptions"):
        robots.load("panda_description")
