"""The page of figures has the command of each script, and the runner runs, resumes and refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.papers.index import SCRIPTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "examples.papers", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_each_script_is_on_the_page_and_each_command_of_the_page_exists() -> None:
    commands = {row.split("|")[-3].strip(" `") for row in PAGE.splitlines() if row.startswith("|") and "`" in row}
    assert {script.shown() for script in SCRIPTS} <= commands
    assert {command for command in commands if "python" in command} <= {script.shown() for script in SCRIPTS}
    for module in re.findall(r"python -m (examples\.papers\.\S+)`", PAGE):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module


def test_names() -> None:
    listed = run("--list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [script.name for script in SCRIPTS]
    refused = run("variational/figure_9")
    assert refused.returncode == 2
    assert "no script variational/figure_9; expected one of gradient, parallel" in refused.stderr


@pytest.mark.long
def test_a_script_runs_and_is_not_run_again(tmp_path: Path) -> None:
    arguments = ("--short", "--folder", str(tmp_path), "variational/figure_4a")
    first, second, again = run(*arguments), run(*arguments), run(*arguments, "--again")
    assert (tmp_path / "short" / "variational" / "figure_4a.png").exists()
    assert "exit status 0" in first.stdout
    assert "s of processor time" in first.stdout
    assert "exists; --again runs it once more" in second.stdout
    assert "exit status" not in second.stdout
    assert "exit status 0" in again.stdout


@pytest.mark.long
def test_a_script_that_fails_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "short" / "parallel").mkdir(parents=True)
    (tmp_path / "short" / "parallel" / "figure2.png").mkdir()  # the script cannot write its picture
    failed = run("--short", "--folder", str(tmp_path), "parallel", "--again")
    assert failed.returncode == 1
    assert failed.stdout.endswith("failed: parallel\n")


@pytest.mark.long
def test_all_scripts_in_short_form(tmp_path: Path) -> None:
    done = run("--short", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
