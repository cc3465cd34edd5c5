"""The accelerator as AXI sees it: streams of float32 words, registers, resets, and input that no sample can have."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from dynagate import build, robots
from dynagate.design.design import Sides
from dynagate.design.words import beats
from dynagate.fixedpoint.assign import Policy
from dynagate.hw.designs import Design
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.regmap import IDENTITY, REGISTERS, VERSION
from dynagate.sim.runner import expected_words

from tests.benches import notices, passes, passes_in_verilator
from tests.designs import verilog

FUNCTION = "forward_dynamics"


def shell(designs: Path, axi: Axi, ii: int, guard_bits: float = 1.0, robot: str = "two_joint_arm") -> Design:
    """guard_bits: negative ones make some states overflow."""
    policy = Policy(word=20, guard_bits=guard_bits)
    return build(robots.load(robot), FUNCTION, ii=ii, policy=policy, axi=axi, folder=designs)


@pytest.mark.parametrize(
    ("axi", "ii", "guard_bits"),
    [
        (Axi(128, "sample"), 3, -0.3),
        pytest.param(Axi(64, "batch"), 5, 1.0, marks=pytest.mark.long),
        (Axi(512, "batch"), 1, -0.3),
    ],
    ids=str,
)
def test_streams_registers_and_resets(axi: Axi, ii: int, guard_bits: float, designs: Path) -> None:
    passes(shell(designs, axi, ii, guard_bits).folder, "accelerator")


@pytest.mark.long
@pytest.mark.parametrize("width", [64, 256])
@pytest.mark.parametrize("robot", ["iiwa14", "hyq"])
def test_robots_in_their_shells(robot: str, width: int, designs: Path) -> None:
    passes_in_verilator(shell(designs, Axi(width, "batch"), 8, robot=robot).folder)


def test_words_are_the_hosts_own_results(designs: Path) -> None:
    """What is expected of the hardware is what the integer executor says in float64, as float32."""
    import dynagate

    built = shell(designs, Axi(128), 3)
    inputs = built.region.sample(FUNCTION, 50, seed=1)
    short = {name: value.astype(np.float32) for name, value in inputs.items()}
    words = np.concatenate([short[port.name].reshape(50, -1) for port in built.graph.inputs], axis=1).view(np.uint32)
    results, bad, _ = expected_words(built, words)
    assert not bad.any()
    with dynagate.compile(
        robots.load("two_joint_arm"), FUNCTION, device="fixed", policy=Policy(word=20), region=built.region
    ) as fixed:
        qdd = fixed(**short).qdd
    np.testing.assert_array_equal(results.view(np.float32), qdd.astype(np.float32))


FAULTS: dict[str, tuple[str, tuple[str, str], str]] = {
    "a tag has another bit": ("sample", (r"(  tag <= [^;]+);", r"\1 ^ 32'h1;"), r"sample \d+ is"),
    "broken samples are not counted": ("sample", (r"misaligned <= \(strange[^;]+;", "misaligned <= 1'b0;"), "register"),
    "a missing TLAST is not counted": ("sample", (r"(misaligned <= [^;]+) \| unaligned_d2;", r"\1;"), "register"),
    "holes are not shown": ("sample", (r"holes <= holes \| hole;", "holes <= holes;"), "register"),
    "broken samples are not poisoned": ("sample", (r"broken_d1 <= [^;]+;", "broken_d1 <= 1'b0;"), r"sample \d+ is"),
    "a sample that is cut short passes": ("batch", (r"(broken_d1 <= [^;]+) \| cut_d2;", r"\1;"), r"sample \d+ is"),
    "a word behind the tag passes": ("batch", (r"(broken_d1 <= )\(strange \| ([^;]+;)", r"\1(\2"), r"sample \d+ is"),
    "a reset takes back what is offered": (
        "sample",
        (r"(m_axis_tvalid <= 1'b0;\n    end\n)", r"\1    if (reset) m_axis_tvalid <= 1'b0;\n"),
        "a reset by the register changed a result that was offered",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bench_notices_a_planted_fault(fault: str, designs: Path, tmp_path: Path) -> None:
    """More of them in `test_verify`, of a ring in its shell."""
    last, change, says = FAULTS[fault]
    built = shell(designs, Axi(128, "sample"), 3, -0.3) if last == "sample" else shell(designs, Axi(64, "batch"), 5)
    assert re.search(says, notices(built, tmp_path, change, "accelerator"))


def test_design_file_has_what_a_host_needs(designs: Path) -> None:
    axi = shell(designs, Axi(128, "batch"), 3).design.axi
    assert axi is not None
    assert (axi.width, axi.last) == (128, "batch")
    assert (axi.identity, axi.version) == (IDENTITY, VERSION)
    assert axi.words == Sides(6, 2)
    assert axi.beats == Sides(2, 1)  # with the tags
    assert axi.registers == REGISTERS
    assert (beats(15, 512), beats(16, 512)) == (1, 2)


def test_every_signal_of_the_shell_has_our_name(designs: Path) -> None:
    assert "signal$" not in verilog(shell(designs, Axi(128), 3).module("accelerator"))


def test_widths_and_marks_are_checked() -> None:
    with pytest.raises(ValueError, match="stream of 48 bits; expected one of 32, 64, 128, 256, 512"):
        Axi(48)
    with pytest.raises(ValueError, match="TLAST per 'frame'; expected 'sample' or 'batch'"):
        Axi(last="frame")


def test_datasheet_says_what_was_built(designs: Path) -> None:
    built = shell(designs, Axi(128), 3)
    text = (built.folder / "datasheet.md").read_text()
    assert "until the datapath, up to 2 until its next slot" in text
    assert f"{built.hardware.plan.dsp_blocks()} DSP48E2 blocks, {built.hardware.plan.register_words()} words" in text
    for name, register in REGISTERS.items():
        assert f"| 0x{register.address:02X} | `{name}` | {register.access} |" in text
    assert f"| made for | {built.region.text()} |" in text
    rows = re.findall(r"^(\w+) +\|[ █]{60}\| +(\d+) to (\d+) ", text, flags=re.M)
    assert {scope for scope, _, _ in rows} == set(built.graph.scopes)
    assert max(int(last) for _, _, last in rows) <= built.hardware.plan.latency
