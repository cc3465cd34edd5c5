"""README and docs: their Python runs, and the figures are the ones that the command prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dynagate import robots
from dynagate.host.report import check_on_simulator

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
APART = "contributing.md"
"""It adds to the tables of operations and functions, so `test_contributing` runs it in interpreters of its own."""


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != APART], ids=lambda p: p.name)
def test_python_on_the_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch, designs: Path) -> None:
    monkeypatch.chdir(designs.parent.parent)  # where `make run` keeps its design too
    space: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S):
        exec(compile(block, page.name, "exec"), space)


def test_readme_shows_what_make_run_prints(designs: Path) -> None:
    report = check_on_simulator(
        robots.load("iiwa14"), "forward_dynamics_gradient", ii=8, folder=designs, states=1024, seed=1
    )
    assert report.passed
    assert report.text() in (ROOT / "README.md").read_text()


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
