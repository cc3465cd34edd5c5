"""docs/contributing.md: each of its exercises runs as it stands, by itself, in a fresh interpreter."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contributing.md"
EXERCISES = (
    "An operation: `abs`",
    "An algorithm: the power of the motors",
    "A joint: a cylindrical one",
    "A device: the processor's longest floats",
    "A force: a magnet",
    "A method: the implicit midpoint rule",
    "A link: a loop-back",
    "A register: results that left",
    "A board: one with a faster serial line",
    "A body: a table of torques",
    "A column of a report: the error of nine states in ten",
)
SIMULATED = ("A column of a report: the error of nine states in ten",)
"""Exercises that compile and simulate hardware of their own, for the long tests."""


def program(text: str, title: str) -> str:
    """The Python blocks under a heading, in the lines that they have on the page, so that an error names the line."""
    lines: list[str] = []
    here = python = False
    for line in text.splitlines():
        if line.startswith("```"):
            python = here and line == "```python"
        elif line.startswith("## ") and not python:
            here = line == f"## {title}"
        lines.append(line if python and not line.startswith("```") else "")
    return "\n".join(lines) + "\n"


def test_the_page_has_these_exercises() -> None:
    sections = re.split(r"^## (.*)$", PAGE.read_text(), flags=re.M)
    titles = [title for title, text in zip(sections[1::2], sections[2::2], strict=True) if "```python\n" in text]
    assert tuple(titles) == EXERCISES


def test_the_quick_tests_are_there() -> None:
    """Those that `make test-fast` names, which are run without the others."""
    lines = [line for line in (ROOT / "tests" / "fast.txt").read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines)) > 20
    for line in lines:
        file, _, test = line.partition("::")
        assert f"def {test or 'test_'}" in (ROOT / file).read_text(), line


@pytest.mark.parametrize(
    "title",
    [pytest.param(title, marks=pytest.mark.long) if title in SIMULATED else title for title in EXERCISES],
    ids=lambda title: title.split(":")[0],
)
def test_an_exercise_runs(title: str, tmp_path: Path) -> None:
    script = tmp_path / "contributing.py"
    script.write_text(program(PAGE.read_text(), title))
    assert "assert" in script.read_text()
    done = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
