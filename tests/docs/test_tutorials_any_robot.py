"""Tutorials and examples, followed with robots that do not ship: their paths in the place of the robot's name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.newcomer import ROOT, blocks
from tests.robots import DATA

TUTORIALS = ROOT / "docs" / "tutorials"
EXAMPLES = ROOT / "examples"
NAMES = {
    "robotics": 'robots.path("two_joint_arm")',
    "learning": 'robot = "two_joint_arm"',
    "hardware": "export ROBOT=two_joint_arm",
    "hour": "export ROBOT=two_joint_arm",
    "legged": 'robot = "hyq"',
}
"""What a reader replaces, by page."""

LINK = """<link name="{name}"><inertial><origin xyz="{com}"/><mass value="{mass}"/>
  <inertia ixx="{i}" iyy="{i}" izz="{i}" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
JOINT = """<joint name="{name}_joint" type="{type}"><parent link="{parent}"/><child link="{name}"/>
  <origin xyz="{at}" rpy="{turn}"/><axis xyz="{axis}"/>
  <limit lower="{low}" upper="{high}" velocity="2" effort="50"/></joint>"""


def urdf(name: str, *joints: tuple[str, str, str, str, str, float]) -> str:
    """A robot of (link, parent, type, origin, axis, mass)."""
    parts = [f'<robot name="{name}"><link name="base"/>']
    for link, parent, kind, at, axis, mass in joints:
        reach = 0.3 if kind == "prismatic" else 2.5
        parts.append(LINK.format(name=link, com="0.02 0 0.1", mass=mass, i=0.02 * mass))
        places = {"at": at, "turn": "0 0.3 0", "axis": axis, "low": -reach, "high": reach}
        parts.append(JOINT.format(name=link, type=kind, parent=parent, **places))
    return "\n".join([*parts, "</robot>"])


SMALL = {
    "slider": urdf(
        "slider",
        ("column", "base", "continuous", "0 0 0.1", "0 0 1", 4.0),
        ("carriage", "column", "prismatic", "0 0 0.3", "1 0 0", 2.0),
        ("tool", "carriage", "revolute", "0.1 0 0.2", "0 1 0", 0.5),
    ),
    "two_hands": urdf(
        "two_hands",
        ("torso", "base", "revolute", "0 0 0", "0 0 1", 5.0),
        ("right", "torso", "revolute", "0 -0.2 0.4", "0 1 0", 1.5),
        ("left", "torso", "revolute", "0 0.2 0.4", "0 1 0", 1.5),
        ("left_hand", "left", "revolute", "0 0 0.3", "1 0 0", 0.8),
    ),
}
UR3 = DATA / "ur_description" / "urdf" / "ur3_robot.urdf"


@pytest.fixture(params=["slider", "two_hands", "ur3"])
def robot(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The path of a robot that does not ship."""
    if request.param == "ur3":
        return UR3
    path = tmp_path / f"{request.param}.urdf"
    path.write_text(SMALL[request.param])
    return path


def follow(page: str, robot: Path, folder: Path) -> str:
    """Runs a tutorial's blocks, those of shell in one shell and those of Python in one interpreter, in their order."""
    replaced, name = NAMES[page], re.search(r"two_joint_arm", NAMES[page])
    assert name is not None
    text = (TUTORIALS / f"{page}.md").read_text()
    assert text.count(replaced) == 1
    own = {
        "robotics": repr(str(robot)),
        "learning": f"robot = {str(robot)!r}",
        "hardware": f"export ROBOT={robot}",
        "hour": f"export ROBOT={robot}",
    }
    script, shell = folder / "follow.py", ["set -e"]
    parts = []
    for language, block in blocks(TUTORIALS / f"{page}.md", "sh|python"):
        block = block.replace(replaced, own[page])
        if language == "sh":
            shell.append(block)
        else:
            parts.append(block)
    script.write_text("\n".join(parts))
    shell.append(f"{sys.executable} {script}")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["bash", "-c", "\n".join(shell)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_pages_name_the_robot_once() -> None:
    """Whatever a reader puts there is the robot of all blocks."""
    for page, replaced in NAMES.items():
        code = "\n".join(block for _, block in blocks(TUTORIALS / f"{page}.md", "sh|python"))
        assert code.count(replaced) == 1
        others = [line for line in code.splitlines() if "two_joint_arm" in line and replaced not in line]
        if page in ("hardware", "hour"):  # its figures are the arm's, and its Python has the shell's name
            others = [line for line in others if "if robot ==" not in line and "os.environ" not in line]
        assert not others, f"{page}: {others}"
        assert f"{replaced})  # or the path" in code or f"{replaced}  # or the path" in code


@pytest.mark.long
@pytest.mark.parametrize("page", ["robotics", "learning"])
def test_a_tutorial_is_for_any_robot(page: str, robot: Path, tmp_path: Path) -> None:
    follow(page, robot, tmp_path)


ALIKE = "np.array([[0.0, 0.8, -1.6]] * 4)"
UNITREE = ("FR_foot", "FL_foot", "RR_foot", "RL_foot")
QUADRUPEDS = {
    "anymal_b_simple_description/robots/anymal.urdf": (
        ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"),
        "np.array([[0.0, 0.6, -1.2]] * 2 + [[0.0, -0.6, 1.2]] * 2)",
    ),
    "go1_description/urdf/go1.urdf": (UNITREE, ALIKE),
    "solo_description/robots/solo12.urdf": (
        ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"),
        "np.array([[0.0, 0.7, -1.4]] * 2 + [[0.0, -0.7, 1.4]] * 2)",
    ),
}
"""Feet, and a pose in which the robot stands."""


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*Coulomb friction:dynagate.RobotWarning")
@pytest.mark.parametrize("name", QUADRUPEDS)
def test_other_quadrupeds_stand_trot_and_come_down(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the blocks of the page, which assert it."""
    monkeypatch.chdir(tmp_path)
    feet, pose = QUADRUPEDS[name]
    text = "\n".join(block for _, block in blocks(TUTORIALS / "legged.md", "python"))
    for variable, value in (("robot", repr(str(DATA / name))), ("feet", repr(feet)), ("pose", pose)):
        text, count = re.subn(rf"^{variable} = .*$", f"{variable} = {value}", text, flags=re.M)
        assert count == 1
    exec(compile(text, "legged.md", "exec"), {})
    assert "<animate " in (tmp_path / "trot.svg").read_text()


@pytest.mark.long
@pytest.mark.parametrize("robot", ["slider", "two_hands"], indirect=True)
def test_the_tutorial_on_hardware_is_for_any_robot(robot: Path, tmp_path: Path) -> None:
    assert "PASS" in follow("hardware", robot, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        "drift.py --trajectories 20 --robot",
        "bridges/casadi_reach.py",
        "bridges/crocoddyl_reach.py",
    ],
    ids=lambda command: command.partition(".")[0],
)
def test_an_example_is_for_any_robot(command: str, robot: Path, tmp_path: Path) -> None:
    if robot == UR3 and command == "bridges/casadi_reach.py":
        pytest.skip("a minute of IPOPT, of which nothing is learnt beyond the small ones")
    name, *options = command.split()
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *options, str(robot)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "nan" not in done.stdout


@pytest.mark.long
def test_one_hour_leads_from_a_urdf_to_a_report(tmp_path: Path) -> None:
    """The whole way on a robot that does not ship."""
    robot = tmp_path / "slider.urdf"
    robot.write_text(SMALL["slider"])
    assert "PASS" in follow("hour", robot, tmp_path)
    for name in ("robot.svg", "fall.svg", "reach.svg"):
        assert "@keyframes" in (tmp_path / name).read_text()
    assert "<svg" in (tmp_path / "report.html").read_text()


@pytest.mark.long
@pytest.mark.parametrize("robot", ["two_hands", "ur3"], indirect=True)
def test_one_hour_is_for_any_robot(robot: Path, tmp_path: Path) -> None:
    assert "PASS" in follow("hour", robot, tmp_path)
