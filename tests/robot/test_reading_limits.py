"""Robot files and arguments that ask for too much end in one line, soon."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from dynagate import Robot, RobotError, robots
from dynagate.base.errors import ArgumentTypeError
from dynagate.robot import sandbox

XACRO = '<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro">{}</robot>'
NESTED = "".join(
    f'<xacro:macro name="m{k}"><xacro:m{k - 1}/><xacro:m{k - 1}/></xacro:macro>' if k else '<xacro:macro name="m0"/>'
    for k in range(25)
)
MJCF = """<mujoco>{}<worldbody><body pos="{}"><joint name="j" type="slide"/><geom size="0.1" pos="{}"/></body>
  {}</worldbody></mujoco>"""
COPIES = '<replicate count="1000000" offset="1 0 0"><geom size="0.1"/></replicate>'
FIELD = '<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset>'

SLOW = "takes more than 1 s; expected a smaller file, with fewer copies and smaller numbers"
FILES = {
    "nested macros": ("xacro", XACRO.format(NESTED + "<xacro:m24/>"), "xacro " + SLOW),
    "large power": ("xacro", XACRO.format('<link name="${10**10**8}"/>'), "xacro " + SLOW),
    "copies": ("mujoco", MJCF.format("", "0 0 0", "0 0 0", COPIES), "MuJoCo " + SLOW),
    "large field": ("mujoco", MJCF.format(FIELD, "0 0 0", "0 0 0", ""), "MuJoCo needs more than 3 GiB of memory"),
    "far joint": ("mujoco", MJCF.format("", "1e300 0 0", "0 0 0", ""), "joint 'j' has an origin or axis that is not"),
    "far mass": ("mujoco", MJCF.format("", "0 0 0", "1e300 0 0", ""), "a body on link 'body_1' has a mass, center of"),
}


@pytest.mark.parametrize("case", FILES)
def test_files_that_ask_for_too_much(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, text, message = FILES[case]
    pytest.importorskip(module)
    path = tmp_path / "r.xml"
    path.write_text(text)
    monkeypatch.setattr(sandbox, "SECONDS", 1)
    with pytest.raises(RobotError, match=re.escape(message)) as caught:
        Robot.from_xacro(path) if module == "xacro" else Robot.from_mjcf(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("attribute", ["xyz", "value"])
def test_numbers_that_cannot_be_squared(attribute: str, tmp_path: Path) -> None:
    path = tmp_path / "r.urdf"
    text = robots.path("two_joint_arm").read_text()
    path.write_text(re.sub(rf'{attribute}="[^" ]*', lambda found: f'{attribute}="1e300', text, count=1))
    with pytest.raises(RobotError, match=r"that is not finite; expected finite numbers up to 1e\+100"):
        Robot.from_urdf(path)


READERS = ["from_urdf", "from_mjcf", "from_xacro"]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("path", [None, 3, b"r.urdf"])
def test_paths_of_another_type(reader: str, path: Any) -> None:
    message = f"{reader}({path!r}); expected the path of a robot's file, a str or Path"
    with pytest.raises(ArgumentTypeError, match=re.escape(message)):
        getattr(Robot, reader)(path)


@pytest.mark.parametrize("lock", [["elbow"], "elbow"])
def test_locks_of_another_type(lock: Any, tmp_path: Path) -> None:
    message = f"lock={lock!r}; expected positions in rad or m by joint, such as {{'joint': 0.0}}"
    with pytest.raises(ArgumentTypeError, match=re.escape(message)):
        robots.load("two_joint_arm", lock=lock)
    with pytest.raises(ArgumentTypeError, match=re.escape(message)):
        Robot.from_mjcf(tmp_path / "none.xml", lock=lock)


def test_another_readers_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_reader.py").write_text("def fail():\n    raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RobotError, match="a reader failed with status 3"):
        sandbox.read_apart("a reader", import_module("failing_reader").fail)
