"""The page of figures has the command of each script, and the runner runs, resumes and refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.papers.index import rows, scripts

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "examples.papers", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_each_row_of_the_page_has_a_command_that_exists() -> None:
    commands = [
        line.split("|")[-3].strip(" `") for line in PAGE.splitlines() if re.search(r"\| `(python|dynagate) ", line)
    ]
    assert [row.command for row in rows()] == commands
    assert len(commands) > 20
    assert all(row.figure and row.published and row.ours and row.verdict and row.paper for row in rows())
    for script in scripts().values():
        words = script.arguments(Path("results"), short=True)[1:]
        path = words[0] if words[0].endswith(".py") else f"{words[1].replace('.', '/')}.py"
        assert words[1] == "dynagate" or (ROOT / path).exists(), script


def test_a_command_of_no_kind_is_refused_by_its_row() -> None:
    page = "| figure | the paper | ours | command | verdict |\n|---|---|---|---|---|\n| 9 | 1 | 2 | `perl x` | no |\n"
    (row,) = rows(page)
    with pytest.raises(ValueError, match="docs/papers.md, 9: no kind of command in .* fits `perl x`"):
        print(row.script)


def test_names() -> None:
    listed = run("--list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(scripts())
    refused = run("variational/figure_9")
    assert refused.returncode == 2
    assert "no script variational/figure_9; expected one of dynagate/bench, dynagate/run" in refused.stderr


@pytest.mark.long
def test_a_script_runs_and_is_not_run_again(tmp_path: Path) -> None:
    arguments = ("--short", "--folder", str(tmp_path), "variational/figure_4a")
    first, second, again = run(*arguments), run(*arguments), run(*arguments, "--again")
    assert (tmp_path / "short" / "variational" / "figure_4a" / "figure_4a.png").exists()
    assert "exit status 0" in first.stdout
    assert "s of processor time" in first.stdout
    assert re.search(r"done +4a, convergence: confirmed", first.stdout)
    assert "finished before" in second.stdout
    assert "exit status" not in second.stdout
    assert "exit status 0" in again.stdout


@pytest.mark.long
def test_a_script_that_fails_fails_the_run(tmp_path: Path) -> None:
    name = "examples/parallel_forward_dynamics"
    (tmp_path / "short" / name / "figure2.png").mkdir(parents=True)  # the script cannot write its picture
    failed = run("--short", "--folder", str(tmp_path), name, "--again")
    assert failed.returncode == 1
    assert failed.stdout.endswith(f"failed: {name}\n")


@pytest.mark.long
def test_all_scripts_in_short_form(tmp_path: Path) -> None:
    done = run("--short", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
