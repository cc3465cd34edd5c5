"""What robot files have that is not read: named in one warning, or read."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Robot, RobotError, RobotWarning, evaluate, trace
from dynagate.robot.visuals import mesh_bytes, visuals

BASE = '<link name="base"/>'
ARM = """<link name="arm"><inertial><origin xyz="0 0.2 0"/><mass value="1"/>
<inertia ixx="1" iyy="1" izz="0.5" ixy="0" ixz="0" iyz="0"/></inertial></link>"""


def joint(kind: str = "continuous", origin: str = "xyz='0 0 1'", inside: str = "") -> str:
    return (
        f'<joint name="turn" type="{kind}"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>'
        f"<origin {origin}/>{inside}</joint>"
    )


def read(tmp_path: Path, body: str, head: str = "", **options: Any) -> tuple[Robot, list[str]]:
    path = tmp_path / "robot.urdf"
    path.write_text(f'<robot name="r" {head}>{body}</robot>')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        robot = Robot.from_urdf(path, **options)
    return robot, [
        re.sub(r" \[DG-[A-Z]+-\d+\]", "", str(each.message)) for each in caught if each.category is RobotWarning
    ]


def test_a_quaternion_is_the_rotation_of_its_angles(tmp_path: Path) -> None:
    half = 0.7071067811865476
    robot, told = read(tmp_path, BASE + ARM + joint(origin=f"xyz='0 0 1' quat_xyzw='0 {half} 0 {half}'"))
    same, _ = read(tmp_path, BASE + ARM + joint(origin=f"xyz='0 0 1' rpy='0 {np.pi / 2} 0'"))
    assert robot == same
    assert told == []
    torque = evaluate(trace(robot, "gravity_torque"), {"q": np.zeros((1, 1))})["gravity_torque"]
    np.testing.assert_allclose(torque, [[1.962]], rtol=1e-12)
    for wrong, fault in (
        ("0 0 0 2", "of length 2; expected 1"),
        ("0 0 1", "expected 4 finite"),
        ("nan 0 0 1", "finite"),
    ):
        with pytest.raises(RobotError, match=fault):
            read(tmp_path, BASE + ARM + joint(origin=f"quat_xyzw='{wrong}'"))
    with pytest.raises(RobotError, match="rpy and quat_xyzw; expected one"):
        read(tmp_path, BASE + ARM + joint(origin="rpy='0 0 0' quat_xyzw='0 0 0 1'"))


LIMIT = '<limit lower="{}" upper="{}" effort="{}" velocity="{}"/>'


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_infinite_limits_are_none(kind: str, tmp_path: Path) -> None:
    robot, told = read(tmp_path, BASE + ARM + joint(kind, inside=LIMIT.format("-inf", "inf", "inf", "inf")))
    own = robot.links[0].joint
    assert (own.lower, own.upper, own.effort, own.velocity, told) == (None, None, None, None, [])
    for wrong in ("nan", "inf"):
        with pytest.raises(RobotError):
            read(tmp_path, BASE + ARM + joint(kind, inside=LIMIT.format(wrong, "1", "1", "1")))


def test_a_slide_without_limits_is_read_with_the_option(tmp_path: Path) -> None:
    with pytest.raises(RobotError, match="add unlimited=True"):
        read(tmp_path, BASE + ARM + joint("prismatic"))
    robot, _ = read(tmp_path, BASE + ARM + joint("prismatic"), unlimited=True)
    assert (robot.nv, robot.links[0].joint.lower) == (1, None)


NAMED: dict[str, tuple[str, str, str]] = {
    "limits of acceleration": (
        BASE + ARM + joint("revolute", inside='<limit lower="-1" upper="1" acceleration="3" jerk="5"/>'),
        "",
        "attributes 'acceleration', 'jerk' in <limit> of 'turn' are not read",
    ),
    "an unknown attribute": (
        BASE + ARM.replace("<mass ", "<mass unit='g' ") + joint(),
        "",
        "'unit' in <mass> of 'arm'",
    ),
    "a later version": (BASE + ARM + joint(), 'version="2.0"', "version='2.0' is read as 1.2"),
    "a rotor": (
        BASE + ARM + joint() + '<transmission name="motor" xmlns:drake="d"><joint name="turn"/><actuator name="a">'
        '<joint name="other"/><drake:rotor_inertia value="1e-4"/></actuator><joint name="other"/></transmission>',
        "",
        "rotor inertia and gear ratio of transmission 'motor' are not read, because each has several joints",
    ),
    "a constraint": (
        BASE + ARM + joint() + '<constraint name="c" type="slider"/>',
        "",
        "<constraint> of 'c' is not read; robot.with_loop",
    ),
    "a bushing": (
        BASE + ARM + joint() + '<drake:linear_bushing_rpy xmlns:drake="d"/>',
        "",
        "<linear_bushing_rpy> of robot is not read; robot.with_loop",
    ),
    "a loop": (BASE + ARM + joint() + '<loop_joint name="l"/>', "", "<loop_joint> of 'l' is not read; robot.with_loop"),
    "limits of 0": (
        BASE + ARM + joint("revolute", inside=LIMIT.format(-1, 1, 0, 0)),
        "",
        "velocity and effort limit 0 of joint 'turn' is kept, so bounds=True holds such a joint; unlimited=True",
    ),
    "a spring of a simulation": (
        BASE + ARM + joint() + '<gazebo reference="turn"><springStiffness>3</springStiffness></gazebo>',
        "",
        "<springStiffness> in <gazebo> of 'turn' is not read",
    ),
    "a loop of a simulation": (
        BASE + ARM + joint() + '<gazebo><joint name="loop" type="revolute"/></gazebo>',
        "",
        "<joint> in <gazebo> of 'loop' is not read; robot.with_loop",
    ),
    "several attributes": (
        BASE + ARM + joint(inside='<dynamics damping="1" K="7000" mu_viscous="16"/>'),
        "",
        "attributes 'K', 'mu_viscous' in <dynamics> of 'turn' are not read",
    ),
    "a link without gravity": (
        BASE + ARM.replace("</link>", "<gravity>0</gravity></link>") + joint(),
        "",
        "<gravity> of 'arm' is not read",
    ),
    "an element of joints": (
        BASE + ARM + joint(inside='<spring stiffness="3"/>'),
        "",
        "<spring> of 'turn' is not read",
    ),
}


@pytest.mark.parametrize("case", NAMED)
def test_what_is_not_read_is_named(case: str, tmp_path: Path) -> None:
    body, head, text = NAMED[case]
    _, told = read(tmp_path, body, head)
    assert any(text in each for each in told), told
    assert len(told) == 1


def test_what_changes_no_dynamics_is_not_named(tmp_path: Path) -> None:
    others = (
        '<material name="m"/><gazebo reference="arm"><mu1>1</mu1></gazebo><transmission name="t"><joint name="turn"/>'
    )
    shape = '<visual><geometry><box size="1 1 1"/></geometry></visual><gravity>1</gravity><kinematic>0</kinematic>'
    more = '<origin xyz="0 0 0" rpy="0 -0 0"/><collision_checking/><self_filter/><surface/></link>'
    own = '<calibration rising="0"/>' + LIMIT.format(-1, 1, 1, 1).replace("/>", ' current="1" gear_velocity="2"/>')
    own += '<joint_properties friction="0.0" damping="0"/><dynamics damping="1" mu_coulomb="0"/>'
    spring = '</transmission><gazebo reference="turn"><springStiffness>0</springStiffness></gazebo>'
    body = BASE + ARM.replace("</link>", shape + more) + joint("revolute", inside=own) + others + spring
    assert read(tmp_path, body, 'version="1.0"')[1] == []


def test_many_names_are_cut_in_one_warning(tmp_path: Path) -> None:
    body, above = BASE, "base"
    for k in range(9):
        body += ARM.replace('"arm"', f'"arm{k}"') + joint(inside='<spring k="1"/>').replace("turn", f"turn{k}").replace(
            '"arm"', f'"arm{k}"'
        ).replace('"base"', f'"{above}"')
        above = f"arm{k}"
    _, told = read(tmp_path, body)
    assert told == ["robot.urdf: <spring> of 'turn0', 'turn1', 'turn2', 'turn3' and 5 more is not read"]


def test_limits_of_0_are_none_with_the_option(tmp_path: Path) -> None:
    robot, told = read(tmp_path, BASE + ARM + joint("revolute", inside=LIMIT.format(-1, 1, 0, 0)), unlimited=True)
    assert (robot.links[0].joint.effort, robot.links[0].joint.velocity, told) == (None, None, [])


def test_all_faults_come_in_one_error(tmp_path: Path) -> None:
    bad = ARM.replace('ixx="1" iyy="1"', 'ixx="9" iyy="1"')
    more = (
        '<link name="c"><inertial><mass value="x"/></inertial></link><joint name="k" type="fixed"><parent link="arm"/>'
    )
    with pytest.raises(RobotError, match="allow_unphysical") as error:
        read(tmp_path, BASE + bad + joint("revolute") + more + '<child link="c"/></joint>')
    assert "unlimited=True" in str(error.value)


def test_a_urdf_whose_joints_mimic_is_not_for_mujoco(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    second = ARM.replace('"arm"', '"hand"') + joint(inside='<mimic joint="turn" multiplier="2"/>').replace(
        'name="turn"', 'name="follow"'
    ).replace('"arm"', '"hand"').replace('"base"', '"arm"')
    path = tmp_path / "robot.urdf"
    path.write_text(f'<robot name="r">{BASE}{ARM}{joint()}{second}</robot>')
    assert Robot.from_urdf(path).nv == 1
    with pytest.raises(RobotError, match="a URDF in which a joint mimics 'turn'; expected Robot.from_urdf"):
        Robot.from_mjcf(path)


@pytest.mark.parametrize("inside", ["/>", "><origin xyz='0 0 1'/></xacro:pelvis_sensor>"])
def test_a_call_of_a_macro_that_is_not_defined_is_left_out(inside: str, tmp_path: Path) -> None:
    body = BASE + ARM + joint() + '<xacro:pelvis_sensor parent="arm"' + inside
    robot, told = read(tmp_path, body, 'xmlns:xacro="http://ros.org/wiki/xacro"')
    assert robot == read(tmp_path, BASE + ARM + joint())[0]
    assert told == ["robot.urdf: line 2: <xacro:pelvis_sensor> is left out: it calls a macro that is not defined"]
    for own in ('<xacro:macro name="m"/>', "<xacro:group><link name='x'/></xacro:group>"):
        with pytest.raises(RobotError, match="is a macro") as error:
            read(tmp_path, BASE + ARM + joint() + own, 'xmlns:xacro="http://ros.org/wiki/xacro"', lax=True)
        assert "lax" not in str(error.value)


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000, "folder/" + "x" * 300, "a\0b", "\udcff.urdf"])
def test_a_name_that_no_file_can_have_is_refused(name: str, tmp_path: Path) -> None:
    for read_file in (Robot.from_urdf, Robot.from_mjcf, Robot.from_xacro, visuals):
        with pytest.raises(RobotError, match="no such file"):
            read_file(tmp_path / name)
    for mesh in (name, f"package://{name}"):
        with pytest.raises(RobotError, match="is missing in"):
            mesh_bytes(tmp_path / "robot.urdf", mesh, tmp_path)
