"""Pages on boards: their tables match the program, and their commands run up to the vendor's tool."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from dynagate.cli import main
from dynagate.hw import boards
from dynagate.hw.datasheet import register_table
from dynagate.hw.rtl.regmap import REGISTERS
from dynagate.hw.targets.project import FLOWS

from tests.projects import VENDOR

PAGES = ("boards.md", "boards_amd.md", "boards_free.md", "zynq.md", "hardware.md")
PAGE = "".join((Path(__file__).parents[2] / "docs" / page).read_text() for page in PAGES)
COMMANDS = sorted(
    {
        line
        for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S)
        for line in block.splitlines()
        if line.startswith("dynagate bitstream ")
    }
)


def board_of(command: str) -> str:
    match = re.search(r"--board ([\w-]+)", command)
    assert match is not None
    return match[1]


def test_every_board_has_a_command() -> None:
    assert {board_of(command) for command in COMMANDS} == set(boards.names())


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(line, marks=[pytest.mark.long] if "--core" in line else [])
        for line in COMMANDS
        if board_of(line) in VENDOR
    ],
)
def test_commands_run_up_to_the_tool(
    command: str, designs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    designs_folder = [] if "--core" in command else ["--folder", str(designs)]
    words = [*shlex.split(command)[1:], *designs_folder, "--project-folder", str(tmp_path)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    tool = FLOWS[boards.load(board_of(command)).flow].tool
    assert f"{tool} is not on the path; where it is, type: make -C {tmp_path}" in result.output


def test_the_table_of_boards_is_that_of_their_files() -> None:
    rows = re.findall(r"^\| \[`([\w-]+)`\]\([\w.]+#[\w-]+\) \| (.*) \|$", PAGE, re.M)
    assert sorted(name for name, _ in rows) == boards.names()
    for name, row in rows:
        board = boards.load(name)
        title, multipliers, tables, share, clock, _, rate, _ = row.split(" | ")
        assert title == board.title
        assert multipliers == f"{board.resources.dsp} {board.resources.multiplier}"
        assert (tables, share) == (str(board.resources.lut), f"{board.share:.0%}")
        assert clock == f"{board.clock_mhz:g} MHz"
        assert rate == f"{board.link.limit.bytes_per_second / 1e9:.3g} GB/s"


def test_the_register_reference_is_the_table() -> None:
    assert register_table(REGISTERS) in PAGE


@pytest.mark.parametrize("name", [name for name in VENDOR if boards.load(name).addresses])
def test_addresses_on_the_page_are_the_board_s(name: str) -> None:
    for address in boards.load(name).addresses.values():
        assert f"0x{address:08X}" in PAGE
