"""Netlists: the plan's DSP blocks, and no path between registers longer than the rule."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from dynagate import build, robots
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.format import Format
from dynagate.hw.export.netlist import rtlil_text
from dynagate.hw.export.yosys import run_yosys
from dynagate.hw.plan.cost import lookup_tables
from dynagate.hw.targets import synth
from dynagate.hw.targets.synth import SynthesisError, Way, netlist_table, paths, synthesize
from dynagate.hw.units.sincos import SinCos
from dynagate.hw.units.table import unit_dsp_blocks


@pytest.mark.long
def test_arm_takes_the_dsp_blocks_of_the_plan_and_keeps_the_rule(designs: Path) -> None:
    built = build(robots.load("two_joint_arm"), "forward_dynamics", ii=4, policy=Policy(word=18), folder=designs)
    found = synthesize(built)
    assert found.multipliers == built.hardware.plan.dsp_blocks()
    assert found.breaches == {}
    assert found.lookup_tables > 500
    assert found.lookup_tables == pytest.approx(lookup_tables(built.hardware.plan).total(), rel=0.15)
    assert found.paths[Way(1, 0, 0)] > 0
    assert found.paths[Way(0, 1, 1)] > 0
    assert (built.folder / "synth-xcup.json").is_file()
    assert f"{built.hardware.plan.dsp_blocks()} DSP48E2 planned" in netlist_table(built, [found])


@pytest.mark.parametrize("source", [Format(24, 20), pytest.param(Format(27, 18), marks=pytest.mark.long)], ids=str)
def test_sines_take_the_blocks_that_are_counted(source: Format, tmp_path: Path) -> None:
    """Of angles beyond 4 rad, whose constant product is wider than a block: no block multiplies by 1."""
    to, netlist = Format(source.width, source.width - 2), tmp_path / "netlist.json"
    (tmp_path / "unit.il").write_text(rtlil_text(SinCos(source, to), "datapath"))
    run_yosys([f"read_rtlil {tmp_path / 'unit.il'}", *synth.SCRIPTS["xcup"], "flatten", f"write_json {netlist}"])
    cells = json.loads(netlist.read_text())["modules"]["datapath"]["cells"].values()
    assert sum(cell["type"] == "DSP48E2" for cell in cells) == unit_dsp_blocks("sincos", (source, to))


@pytest.mark.long
@pytest.mark.parametrize("family", ["xc7", "ecp5"])
def test_other_families(family: str, designs: Path) -> None:
    built = build(robots.load("two_joint_arm"), "forward_dynamics", ii=4, policy=Policy(word=18), folder=designs)
    found = synthesize(built, family)
    assert found.multipliers > 0
    assert (found.megahertz is not None and 50.0 < found.megahertz < 500.0) == (family == "ecp5")
    if family == "xc7":  # ECP5 adds up the parts of a product of more than 18 bits behind its multipliers
        assert all(way.multipliers + way.carries <= 1 for way in found.paths)


def test_unknown_family_is_refused(designs: Path) -> None:
    built = build(robots.load("two_joint_arm"), "forward_dynamics", ii=4, policy=Policy(word=18), folder=designs)
    with pytest.raises(SynthesisError, match="family 'max10'; expected one of xcup, xc7, ecp5"):
        synthesize(built, "max10")


def cell(kind: str, inputs: dict[str, list], outputs: dict[str, list]) -> dict:
    directions = dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output")
    return {"type": kind, "port_directions": directions, "connections": inputs | outputs}


def test_paths_count_what_lies_between_registers() -> None:
    cells = {
        "a": cell("FDRE", {"C": [1], "D": ["0"]}, {"Q": [2]}),
        "lut": cell("LUT2", {"I0": [2], "I1": [2]}, {"O": [3]}),
        "low": cell("CARRY4", {"CI": ["0"], "S": [3]}, {"CO": [4], "O": [5]}),
        "high": cell("CARRY4", {"CI": [4], "S": [3]}, {"CO": [6], "O": [7]}),
        "dsp": cell("DSP48E2", {"A": [7]}, {"P": [8]}),
        "b": cell("FDRE", {"C": [1], "D": [7]}, {"Q": [9]}),
        "c": cell("FDRE", {"C": [1], "D": [8]}, {"Q": [10]}),
    }
    assert paths(cells) == {Way(0, 1, 1): 1, Way(1, 1, 1): 1}


@pytest.mark.parametrize("content", [b"", b'{"family": "xcup"', b"[]", b"{}", b"\xff", b'{"paths": [1]}'])
def test_a_damaged_result_is_made_anew(
    content: bytes, designs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk leaves such; Yosys' part is played by what it made before."""
    built = build(robots.load("two_joint_arm"), "forward_dynamics", ii=4, policy=Policy(word=18), folder=designs)
    result = synthesize(built)
    monkeypatch.setattr(synth, "synthesize_tops", lambda *_: result)
    elsewhere = replace(built, folder=tmp_path)
    (tmp_path / "synth-xcup.json").write_bytes(content)
    assert synthesize(elsewhere) == result
    assert (tmp_path / "synth-xcup.json").read_text() == (built.folder / "synth-xcup.json").read_text()
