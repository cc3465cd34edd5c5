"""Waveforms: the nodes' names and values are in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dynagate import build, robots
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.models.evaluate import evaluate_integers, quantize_inputs
from dynagate.hw.build import BuildError
from dynagate.sim.waveform import write_vcd


def test_nodes_have_their_names_and_values_in_the_waveform(designs: Path, tmp_path: Path) -> None:
    built = build(robots.load("two_joint_arm"), "forward_dynamics", ii=4, policy=Policy(word=18), folder=designs)
    inputs = built.region.sample("forward_dynamics", 2, seed=1)
    write_vcd(built, inputs, tmp_path / "arm.vcd")
    assert [path.name for path in tmp_path.iterdir()] == ["arm.vcd"]
    with pytest.raises(BuildError, match="cannot keep more.vcd in .*arm.vcd"):
        write_vcd(built, inputs, tmp_path / "arm.vcd" / "more.vcd")
    text = (tmp_path / "arm.vcd").read_text()
    codes = dict(re.findall(r"\$var \w+ \d+ (\S+) (\w+)(?: \[\d+:0\])? \$end", text))
    names = set(codes.values())
    plan = built.hardware.plan
    assert {plan.signal_names[i] for i in plan.position} <= names
    values = evaluate_integers(built.formatted, quantize_inputs(built.formatted, inputs)).value
    for i in built.graph.output_nodes:
        width = built.formatted.formats[i].width
        code = next(code for code, name in codes.items() if name == plan.signal_names[i])
        seen = {int(bits, 2) for bits in re.findall(rf"^b([01]+) {re.escape(code)}$", text, flags=re.M)}
        assert {int(v) & ((1 << width) - 1) for v in values[i]} <= seen
