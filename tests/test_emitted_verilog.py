"""The Verilog that is written: blocks that run from the start in every simulator, and Icarus Verilog's results."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from dynagate import Region, robots
from dynagate.design.files import text_of
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.format import Format
from dynagate.host.chip_rollout import ChipRollout
from dynagate.host.devices import IntegerTurns
from dynagate.host.sim_links import SimShellLink
from dynagate.hw.axi import Axi
from dynagate.hw.build import SHELL_TOP, Build
from dynagate.hw.netlist import verilog_text
from dynagate.hw.units.sincos import SinCos
from dynagate.hw.verilog import START
from dynagate.sim.ring import run_ring_bench
from dynagate.sim.runner import Icarus, run_bench, run_shell_bench

ARM = robots.load("two_joint_arm")
icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog (iverilog) is not installed")


@pytest.fixture(scope="module")
def ring(designs: Path) -> Build:
    region = Region.of(ARM, velocity=12.0, acceleration=40.0)
    return dynagate.build(ARM, "rollout", ii=4, region=region, dt=0.02, axi=Axi(128), folder=designs)


def shell(designs: Path, axi: Axi, ii: int) -> Build:
    return dynagate.build(ARM, "forward_dynamics", ii=ii, policy=Policy(word=20), axi=axi, folder=designs)


def blocks(text: str) -> list[tuple[str, int, int]]:
    """By module: how many blocks without a clock it has, and how many of them read START first."""
    modules = re.findall(r"^module (\S+?) ?\((.*?)^endmodule", text, flags=re.M | re.S)
    first = f"always @* begin\n    if ({START}) begin end\n"
    return [(name, len(re.findall(r"always @\*", body)), body.count(first)) for name, body in modules]


class Switched(wiring.Component):
    """o: one of four numbers, by a register that keeps its initial value."""

    def __init__(self) -> None:
        super().__init__({"o": Out(4)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        which = Signal(2, init=2)
        m.d.sync += which.eq(which)
        with m.Switch(which):
            for k in range(4):
                with m.Case(k):
                    m.d.comb += self.o.eq(k + 9)
        return m


@icarus
def test_every_block_runs_from_the_start(ring: Build, tmp_path: Path) -> None:
    """A block of what never changes waits for ever unless it reads what changes once all blocks wait."""
    for file in (ring.accelerator, ring.ring, ring.verilog):
        text = file.read_text()
        counts = blocks(text)
        assert all(count == started for _, count, started in counts)
        assert text.count(f"  reg {START};\n  initial {START} <= 0;\n") == sum(count > 0 for _, count, _ in counts)
    text = verilog_text(Switched(), "unit")
    assert [count for _, count, _ in blocks(text)] == [1]
    bench = (
        "module bench; wire [3:0] o; unit u (.clk(1'b0), .rst(1'b0), .o(o)); initial #1 $display(\"%d\", o); endmodule"
    )
    assert ran_in_icarus(tmp_path, text + bench) == "11"
    assert ran_in_icarus(tmp_path, text.replace(f"if ({START}) begin end", "") + bench) == "x"


def ran_in_icarus(folder: Path, text: str) -> str:
    """What module `bench` prints."""
    (folder / "bench.v").write_text(text)
    subprocess.run(["iverilog", "-g2012", "-s", "bench", "-o", folder / "bench", folder / "bench.v"], check=True)
    done = subprocess.run([folder / "bench"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_equal_gateware_gives_equal_verilog() -> None:
    texts = {verilog_text(SinCos(Format(20, 16), Format(20, 18)), "unit") for _ in range(2)}
    assert len(texts) == 1


@icarus
@pytest.mark.parametrize(("axi", "ii"), [(Axi(128), 3), (Axi(64, "batch"), 5)], ids=str)
def test_accelerators_in_icarus(axi: Axi, ii: int, designs: Path) -> None:
    """Results, padding, registers and resets, as Verilator has them."""
    built = shell(designs, axi, ii)
    run_shell_bench(built, built.region.sample("forward_dynamics", 32, seed=ii), icarus=True)


def trajectories(batch: int, turns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    shapes = (batch, 2), (batch, 2), (batch, turns, 2)
    return tuple(random.uniform(-1.0, 1.0, shape).astype(np.float32).astype(np.float64) for shape in shapes)  # type: ignore[return-value]


@icarus
def test_a_ring_in_icarus(ring: Build) -> None:
    q, qd, tau = trajectories(12, 5)
    steps = np.array([5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 5])
    run_ring_bench(ring, {"q": q, "qd": qd, "tau": tau}, steps, icarus=True)


@icarus
def test_a_ring_in_its_shell_in_icarus(ring: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """The beats of a batch of trajectories, which Verilator's model answers as the integers do."""
    beats: dict[str, Any] = {}
    write, read = SimShellLink.write, SimShellLink.read

    def noted_write(link: SimShellLink, samples: Any, results: int | None = None) -> None:
        beats["inputs"] = samples.copy()
        write(link, samples, results)

    def noted_read(link: SimShellLink, results: Any) -> int:
        count = read(link, results)
        beats["outputs"] = results.copy()
        return count

    states = trajectories(12, 4)
    with dynagate.open(ring, link="sim") as chip:
        monkeypatch.setattr(SimShellLink, "write", noted_write)
        monkeypatch.setattr(SimShellLink, "read", noted_read)
        result = chip(*states)
    np.testing.assert_array_equal(result.q, ChipRollout(IntegerTurns(ring.formatted))(*states).q.astype(np.float32))
    rows = {side: array.reshape(len(array), -1) for side, array in beats.items()}
    count = len(rows["outputs"])
    assert count == len(rows["inputs"]) == 48
    nothing = np.zeros((count, len(ring.graph.scopes)), bool)
    data = {**rows, "bad": nothing[:, 0], "overflow": nothing, "seed": 1, "design": text_of(ring.design)}
    program = Icarus(SHELL_TOP, (ring.accelerator, ring.ring, ring.verilog))
    run_bench(program, "dynagate.sim.bench_shell", data, only="streams_under_stalls")
