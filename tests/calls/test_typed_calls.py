"""An editor completes the options of the public calls, and a type checker reports wrong ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import jedi
import pytest

HERE = Path(__file__).parents[1]
CALLS = HERE / "typed_calls.py"


@pytest.mark.parametrize(
    ("call", "begun", "option"),
    [
        ("dynagate.compile('two_joint_arm', 'rnea', ", "thr", "threads="),
        ("dynagate.compile('two_joint_arm', 'rnea', ", "ext", "external_forces="),
        ("dynagate.open('folder', ", "pau", "pauses="),
        ("dynagate.build('two_joint_arm', 'rnea', ", "uni", "units="),
        ("dynagate.build('two_joint_arm', 'rnea', ", "per", "per_sample="),
        ("dynagate.Rollout('two_joint_arm', ", "line", "linearize="),
        ("dynagate.ilqr('two_joint_arm', ", "joint", "joint_bounds="),
        ("dynagate.mppi('two_joint_arm', ", "tem", "temperature="),
        ("dynagate.Robot.from_file('arm.urdf', ", "tru", "trust="),
    ],
)
def test_an_editor_completes_options(call: str, begun: str, option: str) -> None:
    script = jedi.Script(f"import dynagate\n{call}{begun}", project=jedi.Project(HERE.parent / "sw"))
    assert option in [each.name for each in script.complete()]


@pytest.mark.parametrize(
    ("text", "begun", "name"),
    [
        ("dynagate.", "comp", "compile"),
        ("dynagate.compile('two_joint_arm', 'rnea').", "choos", "choosing"),
        ("dynagate.build('two_joint_arm', 'rnea').", "lat", "latency"),
        ("dynagate.open('folder').", "tra", "transfer"),
    ],
)
def test_an_editor_completes_names(text: str, begun: str, name: str) -> None:
    script = jedi.Script(f"import dynagate\n{text}{begun}", project=jedi.Project(HERE.parent / "sw"))
    assert name in [each.name for each in script.complete()]


def test_a_type_checker_reports_wrong_options_and_types() -> None:
    """With the cache of `make lint`, which has read the package."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(CALLS)]
    output = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent).stdout
    found = dict(re.findall(r"typed_calls\.py:(\d+): error: ([^\n]*)", output))
    expected = {
        str(number): line.partition("# error: ")[2]
        for number, line in enumerate(CALLS.read_text().splitlines(), 1)
        if "# error: " in line
    }
    assert found.keys() == expected.keys(), output
    for number, text in expected.items():
        assert text in found[number]
