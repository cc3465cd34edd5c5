"""Commands in the page of tools and claims: their files, targets and options exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dynagate.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\|[^|]+\|[^|]+\| `([^`]+)` \|$", PAGE, flags=re.M)


def problems(command: str) -> list[str]:
    """What of a command is missing: files, a target of the Makefile, or a command or an option of dynagate."""
    tool, *words = command.split()
    if tool == "pytest":
        files, _, name = " ".join(words).partition(" -k ")
        missing = [word for word in files.split() if word != "--long" and not (ROOT / word).is_file()]
        return missing or [name] * (
            name not in "".join((ROOT / word).read_text() for word in files.split() if "/" in word)
        )
    if tool == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        return [word for word in words if not re.search(rf"^{word}:", makefile, flags=re.M)]
    assert tool == "dynagate", f"{tool}; expected pytest, make or dynagate"
    found = main.commands.get(words[0])
    if found is None:
        return words[:1]
    options = {option for parameter in found.params for option in parameter.opts}
    return [word for word in words if word.startswith("--") and word not in options]


def test_there_is_a_command_for_each_claim() -> None:
    assert len(COMMANDS) >= 13


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_exist(command: str) -> None:
    assert problems(command) == []


@pytest.mark.parametrize(
    "command",
    [
        "pytest tests/no_file.py",
        "pytest tests/docs/test_examples.py -k no_such_test",
        "make no_target",
        "dynagate verify --no-option",
        "dynagate no",
    ],
)
def test_missing_parts_of_commands_are_found(command: str) -> None:
    assert problems(command) == [command.split()[-1]]
