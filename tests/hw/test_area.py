"""Areas in a library of standard cells, which is small enough here to add them up by hand."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from click.testing import CliRunner
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.hw.targets.area import area
from dynagate.hw.targets.synth import SynthesisError

HEAD = """library (few_cells) {
  delay_model : table_lookup;
  time_unit : "1ns";
  capacitive_load_unit (1, pf);
  lu_table_template (table) {
    variable_1 : input_net_transition; variable_2 : total_output_net_capacitance;
    index_1 ("0.01, 0.1"); index_2 ("0.01, 0.1");
  }
"""
TABLES = "".join(
    f'{name} (table) {{ values ("0.1, 0.2", "0.2, 0.3"); }} '
    for name in ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
)
"""Delays, which ABC wants to see; they decide nothing here."""


def gate(name: str, area: float, function: str, pins: str) -> str:
    """A gate whose output falls where an input rises."""
    arcs = "".join(f'timing () {{ related_pin : "{p}"; timing_sense : negative_unate; {TABLES} }} ' for p in pins)
    inputs = "".join(f"pin ({pin}) {{ direction : input; capacitance : 0.001; }} " for pin in pins)
    output = f'pin (Y) {{ direction : output; function : "{function}"; {arcs} }}'
    return f"cell ({name}) {{ area : {area}; {inputs} {output} }}\n"


GATES = "".join(
    gate(*row)
    for row in (
        ("INV", 0.5, "!A", "A"),
        ("BUF", 0.75, "A", "A"),
        ("NAND", 1.25, "!(A & B)", "AB"),
        ("NOR", 1.5, "!(A | B)", "AB"),
    )
)
"""ABC takes no library of fewer classes."""
FLIP_FLOP = """
  cell (DFF) { area : 7.5; ff (IQ, IQN) { next_state : "D"; clocked_on : "C"; }
    pin (C) { direction : input; clock : true; } pin (D) { direction : input; }
    pin (Q) { direction : output; function : "IQ"; } }
"""


class Chain(wiring.Component):
    """Three registers in a chain, and the NAND of the last two."""

    def __init__(self) -> None:
        super().__init__({"i": In(1), "o": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stages = [Signal(name=f"stage{k}", reset_less=True) for k in range(3)]
        m.d.sync += [after.eq(before) for before, after in zip([self.i, *stages], stages, strict=False)]
        m.d.comb += self.o.eq(~(stages[1] & stages[2]))
        return m


def library(tmp_path: Path, *parts: str) -> Path:
    path = tmp_path / "a b.lib"  # with a blank, which is no business of Yosys'
    path.write_text(HEAD + "".join(parts) + "}\n")
    return path


def test_the_area_of_a_chain_is_that_of_its_cells(tmp_path: Path) -> None:
    path = library(tmp_path, GATES, FLIP_FLOP)
    found = area({"chain": Chain()}, path, lambda text: None)
    assert found.cells == {"DFF": 3, "NAND": 1}
    assert (found.library, found.total, found.registers) == ("few_cells", 3 * 7.5 + 1.25, 3 * 7.5)
    assert "area 24 in the library's unit (µm² as a rule), 95% of it flip-flops; 4 cells" in found.text("a chain")
    assert "only an area" in found.text("a chain")
    packed = tmp_path / "packed.lib.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert area({"chain": Chain()}, packed, lambda text: None) == found


def test_what_a_library_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(SynthesisError, match="(?s)few_cells does not do: Yosys failed .*D flip-flops are not supp"):
        area({"chain": Chain()}, library(tmp_path, GATES), lambda text: None)
    for name, content in (("text", b"no library"), ("cut", gzip.compress(b"library (x) {")[:12])):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(
            ArgumentError, match=rf"{name}.* expected a liberty file of standard cells, .lib or .lib.gz"
        ):
            area({}, tmp_path / name, lambda text: None)


ASKED = ["synth", "two_joint_arm", "--function", "inverse_dynamics", "--ii", "64", "--word", "12"]


@pytest.mark.long
def test_the_command_says_an_area_alone(designs: Path, tmp_path: Path) -> None:
    path = library(tmp_path, GATES, FLIP_FLOP)
    done = CliRunner().invoke(main, [*ASKED, "--folder", str(designs), "--liberty", str(path)])
    assert done.exit_code == 0, done.output
    assert re.search(
        r"two_joint_arm inverse_dynamics, II = 64 in few_cells, by Yosys [\d.]+\n  area [\d,]+ in ", done.output
    )
    assert "no clock is measured" in done.output


def test_what_the_command_refuses_is_said_before_any_work(tmp_path: Path) -> None:
    path = library(tmp_path, GATES, FLIP_FLOP)
    (tmp_path / "notes.txt").write_text("nothing of the kind")
    for options, message in (
        (["--liberty", str(path), "--family", "xc7"], "--family with --liberty; expected one of them"),
        (["--liberty", str(tmp_path / "nowhere.lib")], "nowhere.lib' does not exist"),
        (["--liberty", str(tmp_path / "notes.txt")], "names no library in its first"),
    ):
        refused = CliRunner().invoke(main, [*ASKED, "--folder", str(tmp_path / "nothing"), *options])
        assert refused.exit_code != 0
        assert message in refused.output
        assert not (tmp_path / "nothing").exists()
