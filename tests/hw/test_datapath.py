"""Whole datapaths in the simulator: bit for bit the integer executor under any stalls, and where a fault shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dynagate import build, robots
from dynagate.fixedpoint.assign import Policy
from dynagate.graph.region import Region
from dynagate.hw.designs import Design
from dynagate.sim.compare import first_difference
from dynagate.sim.verilate import SimulationError

from tests.benches import notices, passes, passes_in_verilator
from tests.designs import faulty, verilog

FUNCTION = "forward_dynamics_gradient"


def arm(designs: Path, ii: int, function: str = FUNCTION, word: int = 24, **options: bool) -> Design:
    return build(robots.load("two_joint_arm"), function, ii=ii, policy=Policy(word=word), folder=designs, **options)


@pytest.mark.parametrize("ii", [1, *(pytest.param(ii, marks=pytest.mark.long) for ii in (2, 8)), 3])
def test_arm_equals_integers_under_stalls(ii: int, designs: Path) -> None:
    built = arm(designs, ii)
    passes(built.folder)


@pytest.mark.long
def test_iiwa14_equals_integers_under_stalls(designs: Path) -> None:
    built = build(robots.load("iiwa14"), FUNCTION, ii=8, folder=designs)
    passes_in_verilator(built.folder)


def test_compare_agrees_with_a_sound_datapath(designs: Path) -> None:
    built = arm(designs, 3)
    assert first_difference(built, built.region.sample(FUNCTION, 5, seed=3)) is None


def test_compare_names_the_first_node_of_a_planted_fault(designs: Path, tmp_path: Path) -> None:
    built = arm(designs, 3)
    inputs = built.region.sample(FUNCTION, 3, seed=3)
    graph, plan = built.graph, built.hardware.plan
    node = next(i for i, n in enumerate(graph.nodes) if n.op == "sub" and graph.users[i])
    name = plan.signal_names[node]
    change = rf"({name}_exact = .*?) ?;", r"\1 + 16;"
    verilog = faulty(built.module("datapath"), tmp_path, *change, 1)
    found = first_difference(built, inputs, verilog=verilog)
    assert found is not None
    assert (found.node, found.signal, found.cycle, found.sample) == (graph.nodes[node].name, name, plan.ready(node), 0)
    assert found.got != found.expected
    assert str(found) == (
        f"sample 0, cycle {plan.ready(node)}: node '{found.node}' (signal {name}) is {found.got}, "
        f"expected {found.expected}"
    )
    (tmp_path / "folder").mkdir()
    assert re.search(r"sample \d+ is ", notices(built, tmp_path / "folder", change))


def _a_slot_early(match: re.Match[str]) -> str:
    """Of three slots; the one before the first is the last, of the sample before."""
    step, slot = int(match[1]), int(match[2])
    return f"w_en = valid_0[{step if slot else step - 1}] & in_slot[{(slot - 1) % 3}]"


FAULTS: dict[str, tuple[str, str | Callable[[re.Match[str]], str]]] = {
    # results are written into a full FIFO and lost
    "credit is not spent": (r"= credit - accept;", "= {1'b0, credit};"),
    # a sample comes out twice, or one that never went in
    "valid bit stays": (r"(in_slot\[0\] \?) [^:;]+ : valid_0\[0\]", r"\1 1'b1 : valid_0[0]"),
    # an output leaves although nobody takes it
    "output ignores ready": (r"taken = o_valid & o_ready", "taken = o_valid"),
    "samples enter in any slot": (r"i_ready = in_slot\[0\] &", "i_ready ="),
    "results are written a slot early": (r"w_en = valid_0\[(\d+)\] & in_slot\[(\d)\]", _a_slot_early),
    "a sum is one too large": (r"(id_\w+_exact = [^;]* \+ [^;]*);", r"\1 + 32;"),
    "a register is loaded in another slot": (r"if \(in_slot\[1\]\) begin", "if (in_slot[2]) begin"),
    "a product is not rounded": (r"(sum0 <= )[^;]+;", r"\1product0;"),
    "an operand is a cycle late": (r"a0_d1 <= a;", "a0_d1 <= a0_d1;"),
    "the sine's sign is lost": (r"second_half_d1 <= second_half;", "second_half_d1 <= 1'b0;"),
    "a cosine is a sine": (r"wants_cosine_d1 <= 1'b1;", "wants_cosine_d1 <= 1'b0;"),
    "the reciprocal is that of the segment's center": (r"offset_d1 <= [^;]*;", "offset_d1 <= 0;"),
    "an overflow bit is lost": (r"(overflow_0_late_1) <= \S+;", r"\1 <= 1'b0;"),
}


QUICK = ("credit is not spent", "an overflow bit is lost")
"""A bug of the flow and one of the flags. The benches of units find wrong values too."""


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=[] if fault in QUICK else [pytest.mark.long]) for fault in FAULTS]
)
def test_bench_notices_a_planted_fault(fault: str, designs: Path, tmp_path: Path) -> None:
    """Ranges so tight that some states overflow, so that the flags are seen to work too."""
    tight = Policy(word=16, guard_bits=-0.4)
    built = build(robots.load("two_joint_arm"), "forward_dynamics", ii=3, policy=tight, folder=designs)
    if fault == next(iter(FAULTS)):
        passes(built.folder)
    notices(built, tmp_path, FAULTS[fault])


def test_equal_requests_give_identical_verilog_in_any_process(tmp_path: Path) -> None:
    program = (
        "import sys, dynagate; from dynagate import robots;"
        "built = dynagate.build(robots.load('two_joint_arm'), 'forward_dynamics', ii=2, folder=sys.argv[1]);"
        "print(built.folder)"
    )
    made = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", program, folder], env=env, capture_output=True, text=True, check=True
        )
        made.append(Path(done.stdout.strip()))
    assert made[0].name == made[1].name
    for file in ("files.f", "design.json", *(made[0] / "files.f").read_text().split()):
        assert (made[0] / file).read_bytes() == (made[1] / file).read_bytes()


def modules_of(built: Design) -> dict[str, str]:
    """Ports and body by name."""
    return dict(re.findall(r"^module (\w+) \((.*?)^endmodule", verilog(built.module("datapath")), flags=re.M | re.S))


def test_every_signal_has_our_name(designs: Path) -> None:
    """Registers of the datapath are named, in the module of their part and link; none is reset but the control's."""
    modules = modules_of(arm(designs, 8))
    found: dict[str, set[str]] = {}
    for name, body in modules.items():
        if name.startswith(("datapath__flow", "datapath__units")):
            continue
        found[name] = set(re.findall(r"^  (?:output )?reg (?:\[\d+:0\] )?([a-z]\w*)", body, flags=re.M))
        # registers without a name of ours would be called after the temporaries of the Verilog writer
        assert set(re.findall(r"^ +(\S+) <= ", body, flags=re.M)) <= found[name]
        assert not re.search(r"\b(register|value)_\d+\b", " ".join(found[name]))
        assert "if (rst)" not in body  # which is the flow's and the slot counters' alone
    assert "if (rst)" in modules["datapath__flow"]
    assert {"q_0", "qd_1"} <= found["datapath"]
    assert "ltdl_link0_d_d1" in found["datapath__ltdl__link0"]
    assert "acc_link1_wd_z" in found["datapath__acc__link1"]
    assert sum(map(len, found.values())) > 100


@pytest.mark.parametrize("function", ["forward_dynamics_gradient", "inverse_dynamics", "link_positions"])
def test_design_file_says_which_module_has_each_signal(function: str, designs: Path) -> None:
    """Parts of the algorithm that keep nothing in registers have no module."""
    built = arm(designs, 3, function)
    bodies = modules_of(built)
    for node in built.design.body.nodes:
        if node.ready is not None:
            assert re.search(rf"\b{node.signal}\b", bodies[node.module]), node


def test_interrupted_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dynagate.hw.export import netlist

    convert = netlist.verilog_files

    def fails(*args: object, **kwargs: object) -> dict[str, str]:
        convert(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(netlist, "verilog_files", fails)
    with pytest.raises(KeyboardInterrupt):
        arm(tmp_path, 2)
    assert list(tmp_path.iterdir()) == []


def test_failed_compilation_says_why_and_leaves_nothing(designs: Path, tmp_path: Path) -> None:
    from dynagate.sim.verilate import library

    broken = faulty(arm(designs, 3).module("datapath"), tmp_path, r"endmodule", "endmodul", 1)
    with pytest.raises(SimulationError, match=r"verilator failed with status \d+: \[DG.*\]\n(?s:.*)syntax error"):
        library(broken)
    assert [path.name for path in broken.parent.iterdir()] == ["datapath.v"]


def test_what_all_models_share_is_kept_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dynagate.sim.verilate import headers, runtime

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DYNAGATE_CACHE", str(tmp_path / "file" / "folder"))
    with pytest.raises(SimulationError, match=r"cannot keep libverilated-\w+ in .* set DYNAGATE_CACHE to a folder"):
        runtime()
    monkeypatch.setenv("DYNAGATE_CACHE", str(tmp_path / "cache"))
    folder = headers()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [folder.name]
    before = (folder / "common.fast.gch").stat().st_ino
    assert headers() == folder
    assert (folder / "common.fast.gch").stat().st_ino == before


def test_region_and_word_decide_the_design(designs: Path) -> None:
    robot = robots.load("two_joint_arm")
    slow = build(
        robot,
        "inverse_dynamics",
        ii=2,
        policy=Policy(word=16),
        region=Region.of(robot, velocity=0.5),
        folder=designs,
    )
    builds = [*(arm(designs, 2, "inverse_dynamics", word) for word in (16, 20)), slow]
    assert len({built.design.hash for built in builds}) == 3
    widths = [{field.width for field in built.design.input.fields} for built in builds]
    assert widths == [{16}, {20}, {16}]
    # qd of a slower region has fewer bits before the binary point
    fine, fast = (built.design.input.fields[2].frac for built in (slow, builds[0]))
    assert fine > fast
