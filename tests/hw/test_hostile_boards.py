"""Board files and boards of somebody else: nothing in them becomes code in Tcl, make or a shell, and no option."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from dynagate.hw import boards
from dynagate.hw.boards import BoardError
from dynagate.hw.targets.project import ProjectError, write_project

from tests.projects import designed

FOLDER = Path(boards.__file__).parent

CODE = {
    "command": "x[exec touch CANARY]",
    "command first": "[exec touch CANARY]",
    "variable": "x$::env(HOME)",
    "next command": "x; exec touch CANARY",
    "next line": "x\\nexec touch CANARY",
    "end of braces": "x} ; exec touch CANARY; set y {",
    "backslash": "x\\\\",
    "quote": 'x\\"',
    "shell": "x`touch CANARY`",
    "option": "-run",
    "option with a value": "85k --run=CANARY",
    "other letters": "xcvü9p",
    "nothing": "",
}
FIELDS = {
    "vcu118": ('title = "AMD VCU118"', 'part = "xcvu9p-flga2104-2L-e"', 'board_part = "xilinx.com:vcu118:part0:2.4"'),
    "kv260": ('connections = "som240_1_connector xilinx.com:kv260_carrier:som240_1_connector:1.3"',),
    "u250": ('memory_bank = "DDR[0]"', 'platform = "xilinx_u250_gen3x16_xdma_4_1_202210_1"'),
    "ulx3s": ('device = "85k"', 'package = "CABGA381"', 'clk_25mhz = "G2"'),
}
TEXTS = [(board, line, case) for board, lines in FIELDS.items() for line in lines for case in CODE]


@pytest.mark.parametrize(("board", "line", "case"), TEXTS)
def test_code_in_a_text_is_refused(board: str, line: str, case: str, tmp_path: Path) -> None:
    name = line.partition(" ")[0]
    with pytest.raises(BoardError, match=rf"theirs.toml: [a-z.]*{name} .*; expected letters, digits"):
        boards.read(_changed(tmp_path, board, line, f'{name} = "{CODE[case]}"'))


NUMBERS = [
    ("clock_mhz = 250", "clock_mhz = nan", "expected float @ board.clock_mhz"),
    ("clock_mhz = 250", "clock_mhz = inf", "expected float @ board"),
    ("gigatransfers = 8.0", "gigatransfers = inf", "expected float @ board"),
    ("lanes = 16", "lanes = 1e300", "expected int"),
    ("dsp = 6840", f"dsp = 1{'0' * 400}", "expected int @ board.resources.dsp"),
    ("share = 0.27", "share = nan", "expected float @ board.share"),
    ("share = 0.27", f"share = {'[' * 3000}{']' * 3000}", "is not a board's file: .*recursion.*; expected TOML"),
    ("share = 0.27", "share = [[[[0.27]]]]", "expected float @ board.share"),
    ('title = "AMD VCU118"', 'title = "x"\ntitle = "y"', "expected TOML"),
    ('title = "AMD VCU118"', f'title = "{"x" * 10**6}\n', "expected TOML"),
]


@pytest.mark.parametrize(("old", "new", "message"), NUMBERS, ids=[new[:30] for _, new, _ in NUMBERS])
def test_what_is_no_number_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=message):
        boards.read(_changed(tmp_path, "vcu118", old, new))


@pytest.mark.parametrize("field", ["title", "part", "board_part"])
def test_the_writer_of_scripts_refuses_code_of_boards_that_no_file_describes(
    field: str, designs: Path, tmp_path: Path
) -> None:
    board = boards.load("pynq-z2")
    built, choice = designed(board, designs)
    hostile = replace(choice, board=replace(board, **{field: "xc7z[exec touch CANARY]"}))
    with pytest.raises(ProjectError, match=r"'xc7z\[exec touch CANARY\]' in \w+\.\w+: '\[' could be code"):
        write_project(built, hostile, tmp_path / "projects")
    assert not list((tmp_path / "projects").iterdir())


def _changed(folder: Path, board: str, old: str, new: str) -> Path:
    text = (FOLDER / f"{board}.toml").read_text()
    assert old in text
    path = folder / "theirs.toml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path
