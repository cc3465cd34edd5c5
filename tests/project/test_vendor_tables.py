"""The script for a computer with a licence: projects, runs and tables, by a stand-in of Vivado."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("amaranth")

ROOT = Path(__file__).parents[2]
VIVADO = """#!/bin/sh
test -f ooc.tcl && test -f ooc.xdc || exit 3
mkdir ooc
cat > ooc/utilization.txt <<'END'
Copyright 1986-2022 Xilinx, Inc. All Rights Reserved.
1. Utilization by Hierarchy
+-------------+------------+------------+------------+---------+------+------+--------+--------+------------+
|   Instance  |   Module   | Total LUTs | Logic LUTs | LUTRAMs | SRLs |  FFs | RAMB36 | RAMB18 | DSP Blocks |
+-------------+------------+------------+------------+---------+------+------+--------+--------+------------+
| accelerator |      (top) |       4321 |       4000 |     300 |   21 | 5678 |      2 |      1 |         36 |
|   (unit)    | (datapath) |        321 |        300 |       0 |   21 |  678 |      0 |      0 |         30 |
+-------------+------------+------------+------------+---------+------+------+--------+--------+------------+
END
echo "WARNING: [Synth 8-1] one"
echo "CRITICAL WARNING: [Route 3-2] another"
echo "worst slack 0.123 ns on xc7z020clg400-1; reports in ooc"
"""
"""A stand-in of Vivado, with a report in the layout of `report_utilization -hierarchical`."""


@pytest.fixture
def script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("vendor_tables", ROOT / "packaging" / "vendor_tables.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def vivado(tmp_path: Path) -> str:
    program = tmp_path / "vivado"
    program.write_text(VIVADO)
    program.chmod(0o700)
    return str(program)


def test_a_table_has_the_figures_of_the_reports(
    script: ModuleType, vivado: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "the tables"
    options = ["--folder", str(folder), "--case", "arm-inverse-dynamics"]
    assert script.main([*options, "--vivado", vivado]) == 0
    with (folder / "vivado.csv").open() as file:
        (row,) = csv.DictReader(file)
    expected = {"part": "xc7z020clg400-1", "slack_ns": "0.123", "lut": "4321", "ff": "5678", "bram36": "2"}
    expected |= {"name": "arm-inverse-dynamics", "bram18": "1", "dsp": "36", "warnings": "1", "critical": "1"}
    assert row == expected
    assert "| 4321 | 5678 | 2 | 1 | 36 | 1 | 1 |" in (folder / "vivado.md").read_text()
    before = (folder / "vivado.csv").read_text()
    (folder / "vivado.csv").unlink()
    assert script.main([*options, "--read"]) == 0  # on another computer
    assert (folder / "vivado.csv").read_text() == before
    next(folder.glob("**/utilization.txt")).write_text("nothing")
    assert script.main([*options, "--read"]) == 1
    assert "no figures of arm-inverse-dynamics" in capsys.readouterr().err


@pytest.mark.long
def test_every_case_has_a_project(script: ModuleType, vivado: str, tmp_path: Path) -> None:
    """Five designs and two cores."""
    assert len(script.CASES) == 7
    assert sum("--core" in arguments for arguments in script.CASES.values()) == 2
    assert script.main(["--folder", str(tmp_path / "tables"), "--vivado", vivado]) == 0
