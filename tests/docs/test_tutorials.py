"""Tutorials, and the three commands from pip to a checked simulation, followed as a newcomer does. Downloads."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from tests.newcomer import ROOT, Newcomer, blocks, clone

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
INSTALL = ROOT / "docs" / "install.md"

pytestmark = pytest.mark.long

MOST_COMMANDS = 6
"""From a fresh machine to the first result on one's own robot."""
RECORD = ROOT / "build" / "newcomer.json"


def commands(shell: str) -> int:
    """Lines that are typed."""
    return len([line for line in shell.splitlines() if line.strip() and not line.startswith("#")])


def keep(page: str, record: dict[str, int]) -> None:
    """Beside those of the other pages, for docs/install.md."""
    kept = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps({**kept, page: record}, indent=1) + "\n")


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_newcomer_follows_a_tutorial(page: Path, tmp_path: Path) -> None:
    newcomer = Newcomer.at(tmp_path)
    ((_, install),) = blocks(page, "console")
    steps = blocks(page, "sh|python")
    clone(newcomer.folder)
    start = time.monotonic()
    newcomer.call(install)
    installed = time.monotonic() - start
    text = newcomer.follow(steps)
    first, *others = (float(seconds) for seconds in re.findall(r"^block \d+ \(\w+\): ([\d.]+) s$", text, flags=re.M))
    record = {
        "commands to the first result": commands(install) + (commands(steps[0][1]) if steps[0][0] == "sh" else 1),
        "s to install": round(installed),
        "s to the first result": round(installed + first),
        "s in all": round(installed + first + sum(others)),
    }
    keep(page.stem, record)
    print(f"{page.stem}: {record}\n{text}")
    assert record["commands to the first result"] <= MOST_COMMANDS
    assert f"dynagate of {newcomer.folder}/" in text
    assert str(ROOT) not in text
    expected = "RobotWarning" if "RobotWarning" in page.read_text() else "no warning"
    assert "Warning" not in text.replace(expected, "")


def test_three_commands_lead_to_a_checked_simulation(tmp_path: Path) -> None:
    """Run the commands of the installation page in a clone."""
    newcomer = Newcomer.at(tmp_path)
    clone(newcomer.folder)
    ((_, commands),) = blocks(INSTALL, "sh", heading="Simulate a robot in three commands")
    assert len(commands.splitlines()) == 3
    start = time.monotonic()
    text = newcomer.call(commands)
    print(f"{INSTALL.stem}: {time.monotonic() - start:.0f} s")
    assert text.splitlines()[-1].startswith("PASS: ")
