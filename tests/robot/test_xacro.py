"""URDF with macros, expanded by xacro."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from dynagate import Robot, RobotError, robots
from dynagate.base.errors import MissingExtraError
from dynagate.cli import main

pytest.importorskip("xacro")

MACRO = """<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:arg name="mass" default="2"/>
  <xacro:property name="arm" value="0.5"/><link name="base"/>
  <xacro:macro name="piece" params="name parent">
    <link name="${name}"><inertial><origin xyz="0 0 ${arm / 2}"/><mass value="$(arg mass)"/>
      <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
    <joint name="to_${name}" type="revolute"><parent link="${parent}"/><child link="${name}"/>
      <origin xyz="0 0 ${arm}"/><axis xyz="0 1 0"/><limit lower="-1" upper="${pi / 2}" velocity="1" effort="1"/></joint>
  </xacro:macro>
  <xacro:piece name="a" parent="base"/><xacro:piece name="b" parent="a"/></robot>"""


def write(folder: Path, text: str = MACRO) -> Path:
    path = folder / "robot.urdf.xacro"
    path.write_text(text)
    return path


def test_macros_are_expanded(tmp_path: Path) -> None:
    path = write(tmp_path)
    robot = Robot.from_xacro(path)
    assert [link.joint.name for link in robot.links] == ["to_a", "to_b"]
    assert (robot.links[0].mass, robot.links[1].com, robot.links[1].joint.translation) == (
        2.0,
        (0, 0, 0.25),
        (0, 0, 0.5),
    )
    assert Robot.from_xacro(path, {"mass": "3"}, lock={"to_b": 0.0}).links[0].mass == 6.0


REFUSED = {
    "not XML": ("<robot", "xacro cannot expand it: "),
    "no such name": (MACRO.replace("${arm}", "${leg}"), "xacro cannot expand it: name 'leg' is not defined"),
    "no such argument": (MACRO.replace("$(arg mass)", "$(arg weight)"), "xacro cannot expand it: Undefined"),
    "no such file": (MACRO.replace('<link name="base"/>', '<xacro:include filename="none.xacro"/>'), "none.xacro"),
    "endless": (
        MACRO.replace("<joint name", '<xacro:piece name="c" parent="a"/><joint name'),
        "xacro cannot expand it: macros that call themselves",
    ),
    "program": (MACRO.replace("${arm / 2}", "${__import__('os').getpid()}"), "xacro cannot expand it: "),
    "nan": (MACRO.replace("${arm / 2}", "${float('nan')}"), "<origin xyz='0 0 nan'>"),
    "no robot": ("<mujoco/>", "root element is <mujoco>"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_refused(case: str, tmp_path: Path) -> None:
    text, message = REFUSED[case]
    with pytest.raises(RobotError, match=r"(?s)robot\.urdf\.xacro: .*" + re.escape(message)):
        Robot.from_xacro(write(tmp_path, text))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(RobotError, match="no such file .*; expected a xacro file"):
        Robot.from_xacro(tmp_path / "none.xacro")


@pytest.mark.parametrize(("module", "name", "text"), [("xacro", "r.xacro", MACRO), ("mujoco", "r.xml", "<mujoco/>")])
def test_a_missing_package_is_named_with_its_extra(
    module: str, name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    path = tmp_path / name
    path.write_text(text)
    extra = {"mujoco": "mjcf"}.get(module, module)
    with pytest.raises(
        MissingExtraError, match=re.escape(f"by the module '{module}'; pip install 'dynagate[{extra}]'")
    ):
        Robot.from_xacro(path) if module == "xacro" else Robot.from_mjcf(path)
    result = CliRunner().invoke(main, ["info", str(path), "--trust-robot"])
    assert result.exit_code == 1
    assert f"pip install 'dynagate[{extra}]'" in result.output


def test_on_the_command_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main, ["emit", str(write(tmp_path)), "--trust-robot", "--function", "mass_matrix", "--folder", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output


def test_a_file_of_any_format_is_read(tmp_path: Path) -> None:
    arm = robots.load("two_joint_arm")
    assert Robot.from_file(robots.path("two_joint_arm")) == arm
    assert Robot.from_file(str(robots.path("two_joint_arm")), floating_base=True).nv == arm.nv + 6
    (tmp_path / "arm.urdf.xacro").write_text(robots.path("two_joint_arm").read_text())
    (tmp_path / "arm.xml").write_text("<mujoco><worldbody/></mujoco>")
    for name, text in (("arm.urdf.xacro", "is xacro, which can run any program"), ("arm.xml", "is MJCF, which names")):
        with pytest.raises(RobotError, match=f"{name} {text}.*; expected trust=True for a file that you"):
            Robot.from_file(tmp_path / name)
    assert Robot.from_file(tmp_path / "arm.urdf.xacro", trust=True).nv == arm.nv
    with pytest.raises(RobotError, match=r"arguments= for two_joint_arm.urdf; expected a .xacro file"):
        Robot.from_file(robots.path("two_joint_arm"), arguments={})
    with pytest.raises(ValueError, match="trust='yes'; expected True or False"):
        Robot.from_file(tmp_path / "arm.xml", trust="yes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="path=3; expected the path of a robot's file"):
        Robot.from_file(3)  # type: ignore[arg-type]
    with pytest.raises(RobotError, match="none.urdf: no such file"):
        Robot.from_file("none.urdf")
