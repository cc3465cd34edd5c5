"""Files that can run programs or name others are read on the caller's word alone."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import dynagate
import pytest
from click.testing import CliRunner
from dynagate import Robot, RobotError, robots
from dynagate.cli import main

ARM = robots.path("two_joint_arm").read_text()
MACROS = """<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><link name="base"/>
<link name="a"><inertial><mass value="${(lambda: [c for c in ().__class__.__base__.__subclasses__()
  if c.__name__ == 'Popen'][0](['touch', 'RAN']).wait())() + 1}"/>
  <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
<joint name="j" type="continuous"><parent link="base"/><child link="a"/><axis xyz="0 1 0"/></joint></robot>"""
MUJOCO = """<mujoco><include file="other.xml"/></mujoco>"""
OTHER = """<mujoco><worldbody><body><joint name="x" type="slide"/><geom size="0.1"/></body></worldbody></mujoco>"""

BY_XACRO = "expected a file that xacro has expanded, or one that you trust, by Robot.from_xacro (--trust-robot)"
BY_MUJOCO = "expected <robot>, or a file that you trust, by Robot.from_mjcf (--trust-robot)"
INCLUDE = '<xacro:include filename="leg.xacro"'
FILES = {
    "expression": ("r.xacro", MACROS, "is a macro; " + BY_XACRO),
    "include": (
        "r.urdf",
        ARM.replace("</robot>", f"{INCLUDE} xmlns:xacro='http://www.ros.org/wiki/xacro'/></robot>"),
        "<xacro:include> is a macro; " + BY_XACRO,
    ),
    "mujoco": ("r.urdf", MUJOCO, "root element is <mujoco>; " + BY_MUJOCO),
    "mujoco, xml": ("r.xml", MUJOCO, "root element is <mujoco>; " + BY_MUJOCO),
}
READERS: dict[str, Callable[[Path], object]] = {
    "from_urdf": Robot.from_urdf,
    "load": robots.load,
    "compile": lambda file: dynagate.compile(file, "forward_dynamics"),
    "rollout": lambda path: dynagate.Rollout(str(path), steps=1, dt=0.01),
}


def write(folder: Path, name: str, text: str) -> Path:
    (folder / "other.xml").write_text(OTHER)
    path = folder / name
    path.write_text(text.replace("RAN", str(folder / "ran")))
    return path


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", FILES)
def test_refused_without_the_callers_word(case: str, reader: str, tmp_path: Path) -> None:
    name, text, message = FILES[case]
    with pytest.raises(RobotError, match=re.escape(message)):
        READERS[reader](write(tmp_path, name, text))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("case", FILES)
def test_the_command_line_names_its_option(case: str, tmp_path: Path) -> None:
    name, text, message = FILES[case]
    result = CliRunner().invoke(main, ["info", str(write(tmp_path, name, text))])
    assert result.exit_code == 1
    assert re.sub(r"by \S+ \((.*)\)$", r"with \1", message) in result.output
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("case", "module"), [("expression", "xacro"), ("mujoco", "mujoco")])
def test_read_with_the_callers_word(case: str, module: str, tmp_path: Path) -> None:
    pytest.importorskip(module)
    name, text, _ = FILES[case]
    path = write(tmp_path, name, text)
    result = CliRunner().invoke(main, ["info", str(path), "--trust-robot"])
    assert result.exit_code == 0, result.output
    robot = Robot.from_xacro(path) if module == "xacro" else Robot.from_mjcf(path)
    assert robot.nv == 1
    # which is why the word is asked for
    assert (tmp_path / "ran").exists() == (module == "xacro")


@pytest.mark.parametrize(("case", "module"), [("include", "xacro"), ("mujoco", "mujoco")])
def test_no_module_of_the_folder_runs(case: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user works in the folder that the robot came in."""
    pytest.importorskip(module)
    name, text, _ = FILES[case]
    if module == "xacro":
        name, text = "r.xacro", text.replace(INCLUDE, '<xacro:property name="x" value="1"')
    path = write(tmp_path, name, text)
    for planted in ("sitecustomize", "struct", "json", "numpy", module, "glfw", "yaml"):
        (tmp_path / f"{planted}.py").write_text("open('canary', 'a').write(__file__)\n")
    monkeypatch.setenv("PYTHONPATH", "")
    command = [str(Path(sysconfig.get_path("scripts")) / "dynagate"), "info", path.name, "--trust-robot"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "canary").exists(), (tmp_path / "canary").read_text()


def test_mujoco_stays_in_its_own_process(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    path = write(tmp_path, *FILES["mujoco, xml"][:2])
    program = f"import sys, dynagate; dynagate.Robot.from_mjcf({str(path)!r}); sys.exit('mujoco' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_option_changes_nothing_for_other_robots(tmp_path: Path) -> None:
    path = write(tmp_path, "arm.urdf", ARM)
    for name in ("two_joint_arm", str(path)):
        assert robots.load_trusted(name) == robots.load("two_joint_arm")
