"""The Verilog writer: each operation means what the netlist means, proved by Yosys, and the text is for readers."""

from __future__ import annotations

import gc
import re
import threading
from pathlib import Path

import dynagate
import pytest
from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate import robots
from dynagate.hw.export import netlist, verilog
from dynagate.hw.export.rtlil import Cell, modules_of
from dynagate.hw.export.yosys import YosysError, run_yosys
from dynagate.sim.sources import read_sources

from tests.designs import verilog as verilog_text

INPUTS = {"a": signed(5), "b": unsigned(4), "c": signed(3), "d": signed(5), "s": unsigned(2), "e": unsigned(1)}


class Operations(wiring.Component):
    """Every operation that gateware here uses, on operands of unlike widths and signs, with and without registers."""

    def __init__(self) -> None:
        super().__init__({**{name: In(shape) for name, shape in INPUTS.items()}, "o": Out(600)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b, c, d, s, e = self.a, self.b, self.c, self.d, self.s, self.e
        values = [a + b, a - b, a * c, b * b, -a, -b, a + c + 3, (a + c) - (b + 1), ~a, ~e, a & b, a | c, b ^ d]
        values += [a == c, a != d, a < c, b < a, b <= s, a >= d, b > s, b.any(), c.all(), d.xor(), b.bool()]
        values += [a << s, b << s, b >> s, a >> s, (a ^ e.replicate(5).as_signed()) + e, Mux(e, a, b), Mux(b, c, d)]
        values += [Cat(~b, 0) == b + 1, Cat(Mux(e, ~b, b), 0) == d, (~b) + a, Mux(e, ~a, c) + b, b.bit_select(s, 2)]
        values += [Array([a, b, c])[s], a[1:4], Cat(a[4].replicate(3), b[:2]), Cat(e, e, e, 1, 0), (a + b)[1:4], a - 9]
        with m.Switch(Cat(s, e)):
            with m.Case("1--", 2):
                m.d.comb += (chosen := Signal(5)).eq(a)
            with m.Case(1):
                m.d.comb += chosen[1:3].eq(s)
        state, other, third = Signal(signed(7), init=-5), Signal(7), Signal(5)
        with m.If(e):
            m.d.sync += [state.eq(a + c), other.eq((b + d) >> 1)]
            with m.If(s[0]):
                m.d.sync += third[2:].eq(c)
        m.d.comb += self.o.eq(Cat(*values, chosen, state, other, third))
        return m


def proved(folder: Path, gold: str, gate: str) -> None:
    """That two modules `unit` are one function in all states that both start from. Raises YosysError."""
    (folder / "gold.il").write_text(gold)
    (folder / "gate.v").write_text(gate)
    passes = [f"read_rtlil {folder / 'gold.il'}", "rename unit gold", "setattr -mod -unset top gold"]
    passes += [f"read_verilog {folder / 'gate.v'}", "rename unit gate", "proc", "opt_clean"]
    passes += ["miter -equiv -flatten gold gate miter", "hierarchy -top miter", "opt -full", "async2sync"]
    run_yosys([*passes, "sat -tempinduct -verify -prove trigger 0 -set-at 1 in_rst 1 -seq 1 miter"])


def test_operations_mean_what_the_netlist_means(tmp_path: Path) -> None:
    text = netlist.verilog_text(Operations(), "unit")
    gold = netlist.rtlil_text(Operations(), "unit")
    proved(tmp_path, gold, text)
    kinds = {cell.kind for module in modules_of(gold) for cell in module.cells}
    assert kinds >= {"$add", "$sub", "$mul", "$neg", "$mux", "$eq", "$lt", "$shl", "$shr", "$reduce_xor", "$dff"}
    for old, new in (("$signed(a) * $signed(c)", "a * c"), ("{~b} == ", "~b == "), ("if (rst)", "if (!rst)")):
        assert old in text
        with pytest.raises(YosysError):
            proved(tmp_path, gold, text.replace(old, new))


def test_what_no_gateware_uses_is_refused() -> None:
    modules = modules_of(netlist.rtlil_text(Operations(), "unit"))
    cell = next(cell for cell in modules[0].cells if cell.kind == "$mul")
    modules[0].cells[modules[0].cells.index(cell)] = Cell("$pow", cell.name, cell.parameters, cell.ports)
    with pytest.raises(
        ValueError, match=r"\$pow in module 'unit'; expected an operation that hw/export/verilog.py can write"
    ):
        verilog.verilog_of(modules)


def test_a_design_reads_well(designs: Path) -> None:
    """Registers of a module are in one block, those of an enable behind it once; names are no numbers."""
    built = dynagate.build(robots.load("two_joint_arm"), "forward_dynamics", ii=4, folder=designs)
    read_sources([built.module("datapath")])
    text = verilog_text(built.module("datapath"))
    assert not re.search(r"\[-1:0\]|\bport_\d|\\\$|always @\*", text)
    for body in re.findall(r"^module .*?^endmodule", text, flags=re.M | re.S):
        assert len(re.findall(r"^  always @\(posedge clk\) begin", body, flags=re.M)) <= 2  # a memory's, and registers'
        tests = re.findall(r"^    if \((in_slot\[\d\])\) begin", body, flags=re.M)
        assert len(tests) == len(set(tests))
    assert max(map(len, text.splitlines())) < 3000


class Asking(wiring.Component):
    """A wire that records whether the garbage collector is on while it is converted."""

    def __init__(self) -> None:
        self.collects: list[bool] = []
        super().__init__({"i": In(1), "o": Out(1)})

    def elaborate(self, platform: object) -> Module:
        self.collects.append(gc.isenabled())
        m = Module()
        m.d.comb += self.o.eq(self.i)
        return m


def test_a_conversion_leaves_the_garbage_of_other_threads_to_the_collector() -> None:
    asking, ended = Asking(), threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        netlist.verilog_text(asking, "unit")
    finally:
        ended.set()
        thread.join()
    assert asking.collects == [True]
    assert gc.isenabled()
