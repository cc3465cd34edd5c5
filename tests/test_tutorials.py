"""Tutorials, and the three commands from pip to a checked simulation, followed as a newcomer does. Downloads."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from .newcomer import ROOT, Newcomer, blocks, clone

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
INSTALL = ROOT / "docs" / "install.md"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where pip finds the wheel: it is built by the block that opens docs/install.md."""
    newcomer = Newcomer.at(tmp_path_factory.mktemp("wheel"))
    (_, build), *_ = blocks(INSTALL, "sh")
    newcomer.call(build, folder=clone(newcomer.folder / "clone"))
    places = [newcomer.environment["PIP_FIND_LINKS"], os.environ.get("PIP_FIND_LINKS", "")]
    return " ".join(places).strip()


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_newcomer_follows_a_tutorial(page: Path, index: str, tmp_path: Path) -> None:
    newcomer = Newcomer.at(tmp_path)
    newcomer.environment["PIP_FIND_LINKS"] = index
    ((_, install),) = blocks(page, "console")
    start = time.monotonic()
    newcomer.call(install)
    installed = time.monotonic()
    text = newcomer.follow(blocks(page, "sh|python"))
    print(f"{page.stem}: {installed - start:.0f} s to install, {time.monotonic() - installed:.0f} s to follow\n{text}")
    assert f"dynagate of {newcomer.folder}/" in text
    assert str(ROOT) not in text
    assert "Warning" not in text


@pytest.mark.parametrize("page", [INSTALL, ROOT / "README.md"], ids=lambda page: page.stem)
def test_three_commands_lead_to_a_checked_simulation(page: Path, index: str, tmp_path: Path) -> None:
    """Outside of the clone where the wheel is at hand; of the README, in a clone."""
    newcomer = Newcomer.at(tmp_path)
    newcomer.environment["PIP_FIND_LINKS"] = index
    if page != INSTALL:
        clone(newcomer.folder)
    (_, commands), *_ = blocks(page, "sh", heading="In three commands" if page == INSTALL else "")
    assert len(commands.splitlines()) == 3
    start = time.monotonic()
    text = newcomer.call(commands)
    print(f"{page.stem}: {time.monotonic() - start:.0f} s")
    assert text.splitlines()[-1] == "PASS"
