"""The comparison: complete, serializable, drawn, and honest about what is missing."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Axi, Region, Robot, evaluate, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.bench import (
    boards,
    budget,
    codegen,
    comparison,
    contacts,
    cores,
    deadline,
    figures,
    grid,
    measure,
    paper,
    peers,
    record,
    report,
    rollouts,
    sampling,
    solvers,
    tiers,
)
from dynagate.bench.driver import drivers_ns
from dynagate.bench.options import BenchOptions
from dynagate.cli import main
from dynagate.design.words import sample_bytes
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.fuse import fused
from dynagate.hw import boards as hw_boards
from dynagate.hw.plan.plan import plan
from dynagate.hw.processor.board import cores_of
from dynagate.hw.processor.compiler.instructions import instructions
from dynagate.hw.processor.compiler.schedule import schedule
from dynagate.hw.processor.compiler.scheduled import OUTPUT_OVERHEAD_CYCLES
from dynagate.hw.targets.board_fit import fastest_plan, most_bytes, rate_text
from dynagate.robot import Joint, Link
from dynagate.views.bars import Bar, draw_bars, ticks
from dynagate.views.svg import NAMESPACE

from tests.samples import inputs_of, states


def quick(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A run of the two-joint arm, as short as it goes."""
    patch.setattr(measure, "SECONDS", 0.01)
    patch.setattr(comparison, "THROUGHPUT_BATCHES", (128, 256))
    patch.setattr(rollouts, "ROUNDS", 1)
    patch.setattr(solvers, "ROUNDS", 1)
    patch.setattr(solvers, "PROBLEMS", 16)
    patch.setattr(solvers, "CALLS", 20)
    patch.setattr(sampling, "CALLS", 2)
    robot = robots.load("two_joint_arm")
    return comparison.compare(robot, Region.of(robot), BenchOptions((16, 64), no_pinocchio=True))


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        return quick(patch)


SIZES = dict(zip(budget.STAGES, (4.1, 14.0, 19.5, 25.3, 115.1), strict=True))
"""Thousands of operations of a humanoid's functions."""


def test_a_run_of_a_large_robot_measures_what_is_worth_most() -> None:
    def of(times: float, everything: bool = False) -> budget.Selection:
        known = {name: round(1000 * times * size) for name, size in SIZES.items()}
        return budget.choose(known.__getitem__, card=False, peers=True, everything=everything)

    arm = dict(zip(budget.STAGES, (449, 844, 535, 2306, 3999), strict=True))  # iiwa14
    assert budget.choose(lambda name: 3 * arm[name] // 2, card=True, peers=True, everything=False).left_out == {}
    small, large, huge = of(0.03), of(1.0), of(3.0)
    assert (small.left_out, small.text()) == ({}, "")
    assert (of(1.0, everything=True).left_out, of(1.0, everything=True).operations) == ({}, large.operations)
    kept = {dtype: [name for name in budget.STAGES if large.has(dtype, name)] for dtype in ("float32", "float64")}
    assert kept == {"float32": [*budget.STAGES[:3], "forward_dynamics_gradient"], "float64": ["inverse_dynamics"]}
    assert not any(large.has(what) for what in (budget.ROLLOUTS, budget.NUMPY, budget.CASADI, budget.DATAPATHS))
    assert not any(large.has(what, name) for what in (budget.PACKED32, budget.PACKED64) for name in budget.STAGES)
    assert [name for name in budget.STAGES if huge.has(budget.FLOAT32, name)] == ["forward_dynamics_gradient"]
    assert large.text().startswith(
        "left out: float32 of inverse_dynamics_gradient, forward_dynamics_gradient_given_minv; float64 of "
        "forward_dynamics, mass_matrix_inverse, inverse_dynamics_gradient, forward_dynamics_gradient, "
        "forward_dynamics_gradient_given_minv; rollouts; numpy; packed float32; packed float64; "
    )
    assert large.text().endswith(" operations to compile, a run has 160,000; --all brings it")


@pytest.mark.long
def test_figures_that_are_left_out_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The arm as if it were large: the functions in float32 alone."""
    arm = robots.load("two_joint_arm")
    sizes = [len(trace(arm, name, **comparison.options_for(arm, name))) for name in budget.STAGES]
    monkeypatch.setattr(budget, "MOST", sum(sizes))
    found = json.loads(json.dumps(quick(monkeypatch)))
    assert {name: list(row) for name, row in found["single_call"].items()} == {
        name: ["float32"] for name in budget.STAGES
    }
    assert {(row["dtype"], row["layout"]) for row in found["throughput"]} == {
        ("float32", "rows"),
        ("float32", "planes"),
    }
    assert {row["partition"] for row in found["partitions"]} == {"split", "completely fused"}
    assert {(row["device"], row["dtype"], row["packed"]) for row in found["batches"]} == {("cpu", "float32", False)}
    assert list(found["accuracy"]) == ["float32 fewest operations"]
    assert max(found["accuracy"]["float32 fewest operations"].values()) < 1e-4
    text = report.text(found)
    assert found["left_out"] in text.splitlines()
    for line in (
        r"^rollouts are not measured: rollouts left out; --all brings it$",
        r"^one sample until its result: datapaths, boards and the deadline left out; --all brings it$",
        r"^  CPU +forward_dynamics_gradient_given_minv left out; --all brings it$",
        r"^forward_dynamics +- +- +- +- +\d+ +-$",
    ):
        assert re.search(line, text, re.M), line
    assert len(figures.figures(found, tmp_path)) == 3


def test_figures_are_complete_and_serializable(result: dict[str, Any]) -> None:
    again = json.loads(json.dumps(result))
    assert again["machine"]["cores"] >= 1
    assert set(again["single_call"]) == {*comparison.STAGES, *paper.STEPS}
    assert all(row[dtype]["ns"] > 0.0 for row in again["single_call"].values() for dtype in row)
    assert {(r["dtype"], r["layout"], r["threads"], r["batch"]) for r in again["throughput"]} == {
        (dtype, layout, threads, batch)
        for dtype in ("float32", "float64")
        for layout in ("rows", "packed", "planes", "packed planes")
        for threads, batch in ((1, 128), (1, 256), (2, 256))
    }
    assert {r["partition"] for r in again["partitions"]} == {"split", "fused", "completely fused"}
    assert again["accuracy"]["float64"]["dqdd_dq"] < 1e-12 < again["accuracy"]["float32"]["dqdd_dq"] < 1e-4
    assert again["fpga_modeled"]["batches"][1]["ns"] > again["fpga_modeled"]["batches"][0]["ns"]


def test_partitions_of_the_datapath_have_the_measured_part_of_the_host(result: dict[str, Any]) -> None:
    model = result["fpga_modeled"]
    rows = {(row["partition"], row["batch"]): row for row in model["partitions"]}
    for measured in result["partitions"]:
        row = rows[measured["partition"], measured["batch"]]
        assert row["host_ns"] == measured["host_ns"]
        assert (row["host_ns"] > 0.0) == (row["partition"] != "completely fused")
    for whole in model["batches"]:
        assert rows["completely fused", whole["batch"]]["ns"] == whole["ns"]
        assert rows["split", whole["batch"]]["host_ns"] > rows["fused", whole["batch"]]["host_ns"]
    assert model["single_call"]["forward_dynamics_gradient"] == pytest.approx(model["latency_cycles"] * 4.0)
    assert "FPGA partition split (modeled)" in report.text(result)


def test_an_interrupted_run_goes_on(result: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured is taken over; after a change of what is asked, of the robot or of the file it is not."""
    arm = robots.load("two_joint_arm")
    asked = BenchOptions((16, 64), no_pinocchio=True)
    kept: list[dict[str, Any]] = []

    def stop(figures: dict[str, Any]) -> None:
        kept.append(json.loads(json.dumps(figures)))
        if "accuracy" in figures:
            raise KeyboardInterrupt

    parts = {name: (lambda value=value: value) for name, value in result.items() if name not in ("robot", "machine")}
    del parts["degrees_of_freedom"]
    monkeypatch.setattr(comparison, "measurements", lambda *_: parts)
    with pytest.raises(KeyboardInterrupt):
        comparison.compare(arm, Region.of(arm), asked, keep=stop)
    begun = kept[-1]
    assert "accuracy" in begun
    assert "deadline" not in begun
    counted: list[str] = []
    monkeypatch.setattr(
        comparison, "measurements", lambda *_: {name: (lambda name=name: counted.append(name)) for name in parts}
    )
    whole = comparison.compare(arm, Region.of(arm), asked, begun=begun)
    assert counted == ["fpga_modeled", "deadline", "paper"]
    assert comparison.OPTIONS_KEY not in whole
    for change in ({"batches": (16,)}, {"threads": 1}, {"ii": 16}, {"everything": True}):
        counted.clear()
        comparison.compare(arm, Region.of(arm), replace(asked, **change), begun=begun)
        assert counted == list(parts)
    counted.clear()
    comparison.compare(arm, Region.of(arm), asked, begun=whole)  # a run that is over is measured anew
    assert counted == list(parts)


def test_solver_is_measured_beside_crocoddyl_on_the_same_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "ROUNDS", 1)
    monkeypatch.setattr(solvers, "PROBLEMS", 16)
    monkeypatch.setattr(solvers, "CALLS", 20)
    monkeypatch.setattr(sampling, "CALLS", 2)
    arm = robots.load("two_joint_arm")
    figures = solvers.measured(arm, Region.of(arm))
    assert isinstance(figures, dict)
    assert figures["cost"] < 1e-9
    assert min(figures[name]["ns"] for name in ("one", "many", "single", "crocoddyl")) > 0.0
    assert re.search(r"one problem +\d+\.\d +\d+\.\d\n", solvers.text(figures))
    assert re.search(r"\neach of 16 problems, float32 +\d+\.\d +\d+\.\d\n", solvers.text(figures))
    tail = figures["tail"]
    assert 0.0 < tail["median_ns"] <= tail["per_mille_ns"] <= tail["worst_ns"]
    assert re.search(r"\n20 calls of an iteration, .*worst( +\d+\.\d){3}\n", solvers.text(figures))
    for dtype in sampling.DTYPES:
        taken = [figures[f"{name}_{dtype}"]["ns"] / 1e3 for name in ("rollouts", "mppi")]
        of_one = f"{f'a call, {dtype}':<34}{taken[1]:>16.1f}{taken[0] / taken[1]:>18.2f}"
        assert of_one in solvers.text(figures).splitlines()
    legged = robots.load("hyq", floating_base=True)
    why = solvers.measured(legged, Region.of(arm))
    assert solvers.text(why) == (
        "iLQR is not measured: expected at most 14 joints of one degree of freedom that mimic no other"
    )


def test_text_says_what_is_modeled_and_what_is_missing(result: dict[str, Any]) -> None:
    text = report.text(result)
    assert "ratios to Pinocchio's C++ in double, one core, single calls (not requested)" in text
    assert "without CasADi: not requested" in text
    assert "ns per sample, batches of" in text
    assert "128               256    256, 2 threads" in text
    assert "FPGA (modeled)" in text
    assert "rollouts by semi-implicit Euler, 1024 trajectories of 50 steps, one thread" in text
    assert re.search(r"Crocoddyl, SolverDDP +not requested\none problem +\d+\.\d\neach of 16 problems +\d", text)
    assert re.search(r"pinocchio +not requested\nmujoco +\d", text)
    assert re.search(r"step / forward dynamics, float32 +\d", text)
    assert "nothing of it was measured on a board" in text
    times = [{"batch": 16, "ns": 5000.0, "call_ns": 9000.0}, {"batch": 64, "ns": 7000.0, "call_ns": 11000.0}]
    measured = {
        "card": "NVIDIA H100 80GB HBM3",
        "driver": "580.159.04",
        "compiler": "nvcc 13.0",
        "steps": {"inverse_dynamics": {"ns": 5500.0}},
        "host": [{"results": f"the same{dtype}", **row} for row in times for dtype in ("", ", float64")],
        "partitions": [{"partition": "split", "host_ns": 1.0, **row} for row in times],
        "resident": [{"layout": "rows", **row} for row in times],
        "grid": [{"batch": 64, "ns": 70000.0, "call_ns": 80000.0}],
    }
    with_gpu = report.text({**result, "cuda": measured})
    assert "cuda float32, the same results" in with_gpu
    assert "cuda partition split" in with_gpu
    assert "       64     7.0     9  10.0×     11.0        70.0      80.0" in with_gpu
    assert "       16     5.0     3             9.0" in with_gpu
    assert "cuda float32, the same, float64" not in with_gpu
    card = record.card_run({**result, "cuda": measured}, "dynagate bench two_joint_arm")
    assert (card["cpu"], card["driver"], card["compiler"]) == ("NVIDIA H100 80GB HBM3", "580.159.04", "nvcc 13.0")
    assert record.card_name({**result, "cuda": measured}) == "two_joint_arm-nvidia-h100"
    name = "forward_dynamics_gradient/cuda float32"
    assert card["figures"][f"{name}/resident/64"] == {"ns": 7000.0, "times_grid": 10.0}
    assert card["figures"][f"{name}/resident call/16"] == {"ns": 9000.0}
    assert card["figures"]["forward_dynamics_gradient/cuda float64/host/16"] == {"ns": 5000.0}
    without = report.text(
        {**result, "cuda": {**measured, "resident": "no CuPy", "partitions": "no CuPy", "grid": "no GRiD"}}
    )
    assert "without GRiD: no GRiD" in without
    assert "without arrays on the GPU: no CuPy" in without
    assert "without a GPU: no CUDA driver" in report.text({**result, "cuda": "no CUDA driver"})
    ratios = {"times": {"forward_dynamics_gradient": [1000.0, 1.0]}, "float32_error": [1e-5, 2e-5]}
    ns = result["single_call"]["forward_dynamics_gradient"]["float64"]["ns"]
    assert f"{1000.0 / ns:.1f}×" in report.text({**result, "pinocchio": ratios})


@pytest.mark.parametrize("name", robots.names())
def test_a_robot_written_for_grid_is_the_same(name: str, tmp_path: Path) -> None:
    robot = robots.load(name)
    (tmp_path / "robot.urdf").write_text(grid.described(robot))
    again = Robot.from_urdf(tmp_path / "robot.urdf")
    function = "forward_dynamics"
    inputs = inputs_of(function, states(robot, 8, seed=1))
    found = evaluate(trace(again, function), inputs)["qdd"]
    np.testing.assert_allclose(found, evaluate(trace(robot, function), inputs)["qdd"], rtol=1e-9)


def test_missing_grid_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = robots.load("two_joint_arm")
    monkeypatch.setattr(grid, "PACKAGE", "no-such-package")
    assert grid.grid(robot, [16]) == "GRiD is not installed: pip install no-such-package"


def test_the_three_figures_hold_what_was_measured(result: dict[str, Any]) -> None:
    """Figure 1: steps that add up to the function of the last one. Figures 2 and 3: rows of the run. Each says that
    there is no card."""
    drawn = result["paper"]
    for each in drawn.values():
        assert each["GPU"] == "no CUDA driver"
    up_to = {name: result["single_call"][name]["float32"]["ns"] for name in paper.STEPS}
    steps = drawn["figure1"]["CPU"]
    assert list(steps) == ["v, a, f", "∂τ/∂u", "−M⁻¹ ∂τ/∂u"]
    assert steps["v, a, f"] == min(up_to.values())
    assert sum(steps.values()) == pytest.approx(up_to[paper.STEPS[-1]])
    cycles = drawn["figure1"]["FPGA (modeled)"]
    assert sum(cycles.values()) == result["fpga_modeled"]["single_call"][paper.STEPS[-1]]
    assert drawn["figure1"]["CPU, Pinocchio C++"] == "not requested"
    rows = {(row["partition"], row["batch"]): row for row in drawn["figure2"]["CPU"]}
    assert list(rows) == [(name, batch) for batch in (16, 64) for name in paper.PARTITIONS]
    assert all(rows[key]["ns"] == row["ns"] for key, row in zip(rows, result["partitions"], strict=True))
    assert [row["batch"] for row in drawn["figure3"]["CPU, 2 threads"]] == [16, 64]
    modeled = [row["ns"] for row in result["fpga_modeled"]["batches"]]
    assert [row["ns"] for row in drawn["figure3"]["FPGA (modeled)"]] == modeled
    text = report.text(result)
    assert re.search(r"CPU, Pinocchio C\+\+ +not requested\n  CPU( +[\d.]+){4}\n  GPU +no CUDA driver", text)
    assert re.search(r"CPU split +16: +[\d.]+ \([\d.]+\) +64: ", text)


def test_a_gpu_and_pinocchio_have_bars_where_they_are(result: dict[str, Any]) -> None:
    row = {"partition": "split", "batch": 16, "ns": 5000.0, "host_ns": 2000.0}
    taken = {name: {"ns": 100.0 * (k + 1)} for k, name in enumerate(paper.STEPS)}
    host = [{"results": name, "batch": 16, "ns": ns} for name, ns in (("the same", 7.0), ("new", 8.0))]
    times = {name: [100.0 * k, 1.0] for k, name in zip((1, 3, 2), paper.STEPS, strict=True)}
    card = {"steps": taken, "partitions": [row], "host": host}
    found = paper.paper({**result, "threads": 2, "cuda": card, "pinocchio": {"times": times}})
    assert found["figure1"]["GPU"] == dict.fromkeys(paper.STEP_NAMES, 100.0)
    assert list(found["figure1"]["CPU, Pinocchio C++"].values()) == [100.0, 100.0, 0.0]  # the last one took less
    assert found["figure2"]["GPU"] == [row]
    assert found["figure3"]["GPU"] == [{"batch": 16, "ns": 7.0}]


def test_figures_are_drawn(result: dict[str, Any], tmp_path: Path) -> None:
    paths = figures.figures(result, tmp_path)
    assert [path.name for path in paths] == ["figure1.svg", "figure2.svg", "figure3.svg"]
    machine = result["machine"]
    texts = []
    for path in paths:
        drawing = ElementTree.parse(path)
        texts.append(["".join(each.itertext()) for each in drawing.iter(f"{{{NAMESPACE}}}text")])
        assert all(str(machine[part]) in "".join(texts[-1]) for part in ("cpu", "compiler", "date"))
        assert "no CUDA driver" in texts[-1]
    steps = result["paper"]["figure1"]["CPU"].values()
    assert f"{sum(1e-3 * ns for ns in steps):.3g}" in texts[0], "in µs, added up as they are drawn"
    assert {"N = 16", "N = 64", "CPU, split", "FPGA (modeled), completely fused", "host"} <= set(texts[1])
    assert {"N = 16", "CPU, 2 threads", "FPGA (modeled)"} <= set(texts[2])


def test_bars_are_as_long_as_their_numbers() -> None:
    groups: dict[str, dict[str, Bar | str]] = {"a": {"x": {"p": 1.0, "q": 3.0}, "y": "none"}, "b": {"z": {"q": 2.0}}}
    drawing = ElementTree.fromstring(draw_bars("t", groups, {"p": "#111111", "q": "#222222"}, "µs"))
    bars = {
        (each.get("fill"), each.find(f"{{{NAMESPACE}}}title").text): (float(each.get("x")), float(each.get("width")))  # type: ignore[union-attr, arg-type]
        for each in drawing.iter(f"{{{NAMESPACE}}}rect")
        if each.find(f"{{{NAMESPACE}}}title") is not None
    }
    first, second, third = (
        bars[key] for key in (("#111111", "x, p: 1 µs"), ("#222222", "x, q: 3 µs"), ("#222222", "z, q: 2 µs"))
    )
    assert second[1] == pytest.approx(3 * first[1], abs=0.02)
    assert third[1] == pytest.approx(2 * first[1], abs=0.02)
    assert second[0] == pytest.approx(first[0] + first[1], abs=0.02)
    assert ticks(4.0) == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_product_of_partitions_is_that_of_numpy() -> None:
    random = np.random.default_rng(1)
    minv, given = (random.normal(size=(5, 7, 7)).astype(np.float32) for _ in range(2))
    out, call = measure.less_product(minv, given)
    call()
    np.testing.assert_allclose(out, -minv @ given, rtol=1e-4, atol=1e-5)
    with pytest.raises(ArgumentError, match=r"float64 \(5, 7, 7\); expected float32 \(5, 7, 7\) in rows without gaps"):
        measure.less_product(minv, given.astype(float))


def test_missing_pinocchio_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    robot = robots.load("two_joint_arm")
    monkeypatch.setattr(peers.sysconfig, "get_path", lambda name: str(tmp_path))
    assert peers.pinocchio(robot) == "Pinocchio is not installed: pip install 'dynagate[bench]'"
    (tmp_path / "cmeel.prefix" / "include" / "pinocchio").mkdir(parents=True)
    assert peers.pinocchio(robot) == "Eigen's headers are not installed: pip install 'dynagate[bench]'"


def test_timing_is_a_median() -> None:
    taken = measure.timing(lambda: np.zeros(1), share=0.1)
    assert taken.ns > 0.0
    assert taken.repeats >= measure.LEAST
    assert taken.per(10).ns == pytest.approx(taken.ns / 10)


def test_deadline_has_measured_exact_and_modeled_figures_and_says_which() -> None:
    robot, function = robots.load("two_joint_arm"), "forward_dynamics"
    graph, region = trace(robot, function), Region.of(robot)
    planned = plan(assign(graph, region), 4)
    result = deadline.deadline(graph, region.sample(function, 1, 3), planned, 100e6, calls=2000)
    assert 0.0 < result["median_ns"] <= result["per_mille_ns"] <= result["worst_ns"]
    assert result["datapath_ns_at_assumed_clock"] == 10.0 * planned.latency
    slow = {"input": 0, "const": 0, "reciprocal": 18, "sqrt": 22, "sin": 40, "cos": 40}
    assert deadline.modeled(graph, 1e9, 1.0) == pytest.approx(sum(slow.get(node.op, 2) for node in graph.nodes))
    text = deadline.lines(result)
    for what in ("99.9 %", "worst", f"datapath, {planned.latency} cycles", "cycles exact, clock assumed", "modeled"):
        assert sum(what in line for line in text) >= 1, what


def test_command_prints_and_keeps(result: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[BenchOptions] = []

    def compared(robot: Robot, region: Region, options: BenchOptions, **rest: Any) -> dict[str, Any]:
        asked.append(options)
        assert rest["begun"] is None
        return result

    monkeypatch.setattr(comparison, "compare", compared)
    monkeypatch.setattr(hw_boards, "names", lambda: ["ulx3s"])
    file, folder = tmp_path / "figures.json", tmp_path / "figures"
    arguments = ["bench", "two_joint_arm", "--no-pinocchio", "--batch", "16", "--json", file, "--figures", folder]
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    assert "link of ulx3s, modeled: 3000000 baud / 10 bits of a byte" in done.output
    kept = json.loads(file.read_text())
    assert (kept["robot"], kept["machine"]["cores"] > 0) == ("two_joint_arm", True)
    assert [row["function"] for row in kept["boards_modeled"]] == list(boards.FUNCTIONS)
    assert asked == [BenchOptions((16,), no_pinocchio=True)]
    assert "ns per sample, batches of" in done.output
    assert len(list(folder.glob("*.svg"))) == 3
    assert set(kept["paper"]) == {"figure1", "figure2", "figure3"}
    left_out = {**result, "fpga_modeled": "left out", "deadline": "left out", "paper": {}}
    left_out["paper"] = paper.paper({**left_out, "threads": 2})
    monkeypatch.setattr(comparison, "compare", lambda robot, region, options, **_: asked.append(options) or left_out)
    done = CliRunner().invoke(main, ["bench", "two_joint_arm", "--all"])
    assert done.exit_code == 0, done.output
    assert asked[1:] == [BenchOptions(everything=True)]
    assert "link of ulx3s" not in done.output


def test_figures_of_an_interrupted_run_are_refused_once_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {"robot": "two_joint_arm", "asked": {"ii": 8}, "machine": {"cores": 2}, "partitions": [{"batch": 16}]}
    begun: list[Any] = []

    def interrupted(robot: Robot, region: Region, options: BenchOptions, **rest: Any) -> dict[str, Any]:
        begun.append(rest["begun"])
        rest["keep"](figures)
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "compare", interrupted)
    file = tmp_path / "figures.json"
    for _ in range(2):
        CliRunner().invoke(main, ["bench", "two_joint_arm", "--json", str(file)])
    assert begun == [None, figures]
    for old, new in (('"batch": 16', '"batch": 17'), ('"batch": 16', '"size": 16'), ('"machine"', '"computer"')):
        file.write_text(whole := file.read_text().replace(old, new))
        done = CliRunner().invoke(main, ["bench", "two_joint_arm", "--json", str(file)])
        assert done.exit_code == 1
        assert re.search(
            r"figures.json was changed after an interrupted run wrote it: its checksum is \w{16}", done.output
        )
        assert "expected the file as it was, or another --json for a new run" in done.output
        assert file.read_text() == whole
        assert len(begun) == 2
        file.write_text(whole.replace(new, old))


def test_boards_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hw_boards, "names", lambda: ["vcu118"])
    monkeypatch.setattr(comparison, "compare", None)
    file = tmp_path / "figures.json"
    done = CliRunner().invoke(main, ["bench", "two_joint_arm", "--boards", "--json", str(file)])
    assert done.exit_code == 0, done.output
    assert "nothing was measured on a board" in done.output
    kept = json.loads(file.read_text())
    assert {row["board"] for row in kept["boards_modeled"]} == {"vcu118"}
    assert "samples a second of programs, modeled" in done.output
    assert [(row["function"], row["cores"]) for row in kept["cores_modeled"]] == [(f, 6) for f in boards.FUNCTIONS]


def test_cores_are_modeled_by_the_cycles_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates of four cores, of one word a cycle, and of the link; what a core does not hold says why."""
    robot, function = robots.load("two_joint_arm"), "forward_dynamics"
    monkeypatch.setattr(hw_boards, "names", lambda: ["pynq-z2", "gatemate-evb"])
    (row,) = cores.core_rows(robot, Region.of(robot), [function])
    assert isinstance(row, cores.CoreRow)
    core = cores_of(hw_boards.load("pynq-z2")).core
    scheduled = schedule(instructions(fused(assign(trace(robot, function), Region.of(robot)))), core)
    assert (row.cycles, row.cores) == (scheduled.period, 4)
    assert row.rates.datapath == pytest.approx(4 * 100e6 / scheduled.period)
    assert row.rates.stream == pytest.approx(100e6 / (2 + 2 + 2 * core.units + OUTPUT_OVERHEAD_CYCLES))
    assert row.rates.decided_by == "datapath"
    monkeypatch.setattr(cores, "cores_of", lambda board: replace(cores_of(board), core=replace(core, program_bits=5)))
    monkeypatch.setattr(hw_boards, "names", lambda: ["pynq-z2"])
    (row,) = cores.core_rows(robot, Region.of(robot), [function])
    text = cores.core_table([row])
    assert re.search(
        r"^no core of pynq-z2: .* takes \d+ words, \d+ more than the core's 32; expected a core", text, re.M
    )


def test_times_of_the_driver_are_not_negative_on_a_clock_with_noise(tmp_path: Path) -> None:
    """Differences of times that other processes disturb were printed as negative times."""
    built = dynagate.build(
        robots.load("two_joint_arm"), "inverse_dynamics", ii=8, axi=Axi(64, "batch"), folder=tmp_path
    )
    times: list[float] = []
    for seed in range(8):
        noise = np.random.default_rng(seed)
        now = itertools.accumulate(int(noise.integers(0, 10**6)) for _ in itertools.count())
        times += drivers_ns(built.design, built.region, (1, 8), rounds=1, clock=now.__next__)
    assert min(times) == 0.0


def test_the_driver_of_a_robot_that_floats_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its quaternion is looked at in each call, so the call is no compiled one and reads the device's counters."""
    inertia = ((0.1, 0.0, 0.0), (0.0, 0.2, 0.0), (0.0, 0.0, 0.15))
    robot = Robot("body", (Link("body", -1, Joint("free", "floating"), 1.0, (0.1, 0.0, 0.0), inertia),))
    monkeypatch.setattr(hw_boards, "names", lambda: ["u250"])
    (row,) = boards.board_rows(robot, Region.of(robot, velocity=1.0), ["kinetic_energy"])
    assert isinstance(row, boards.BoardRow)
    assert row.driver.call_ns > 0.0


def test_boards_are_modeled_as_bitstreams_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates are those of the choice; the driver's time is measured; what does not fit says why."""
    robot, function = robots.load("two_joint_arm"), "inverse_dynamics"
    full = hw_boards.load("kv260")
    small = replace(full, resources=replace(full.resources, dsp=2))
    monkeypatch.setattr(hw_boards, "names", lambda: ["kv260", "small"])
    monkeypatch.setattr(hw_boards, "load", lambda name: {"kv260": full, "small": small}[name])
    row, refusal = boards.board_rows(robot, Region.of(robot), [function])
    assert isinstance(row, boards.BoardRow)
    assert isinstance(refusal, boards.RefusedDesign)
    choice = fastest_plan(assign(trace(robot, function), Region.of(robot), Policy()), full)
    assert (row.ii, row.latency, row.clock_mhz) == (choice.plan.ii, choice.plan.latency, choice.clock_mhz)
    assert (row.datapath, row.link, row.end_to_end) == (
        choice.rates.datapath,
        choice.rates.link,
        choice.rates.end_to_end,
    )
    assert row.driver.call_ns > 0.0 < row.driver.sample_ns
    text = boards.board_table([row, refusal])
    assert "link of kv260, modeled: memory of 64 bits" in text
    assert f"{rate_text(row.end_to_end)}  {row.decided_by}" in text
    assert "not on small: two_joint_arm inverse_dynamics fits at no interval up to 64" in text


def test_missing_casadi_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codegen, "find_spec", lambda name: None)
    assert codegen.casadi(robots.load("two_joint_arm")) == "CasADi is not installed: pip install 'dynagate[bench]'"


@pytest.mark.long
@pytest.mark.parametrize("name", ["iiwa14", "hyq"])
def test_casadi_is_built_agrees_and_is_measured(name: str) -> None:
    """Minutes, the first time."""
    peer = codegen.casadi(robots.load(name))
    assert isinstance(peer, peers.Peer), peer
    assert all(0.0 < median < 1e5 for median, _ in peer.times.values())


@pytest.mark.long
def test_pinocchio_is_built_and_measured() -> None:
    """Minutes, the first time: its templates are large."""
    peer = peers.pinocchio(robots.load("hyq", floating_base=True))
    assert isinstance(peer, peers.Peer), peer
    assert set(comparison.STAGES) <= set(peer.times)
    assert peer.float32_error is None


def test_the_bytes_of_a_sample_are_counted_in_one_place() -> None:
    """The comparison, the boards and the simulated link say the same of a gradient behind streams of 512 bits."""
    iiwa = robots.load("iiwa14")
    formatted = assign(trace(iiwa, "forward_dynamics_gradient"), Region.of(iiwa), Policy())
    words = len(formatted.graph.result_nodes)
    board = hw_boards.load("vcu118")
    model = comparison.modeled_figures(plan(formatted, 8), [1])
    assert board.link.width == comparison.STREAM_BITS
    assert model["bytes_out"] == most_bytes(formatted, board) == sample_bytes(words, board.link.width)
    assert (words, model["bytes_in"], model["bytes_out"]) == (119, 128, 512)


@pytest.mark.long
def test_robots_with_feet_have_rows_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SECONDS", 0.01)
    robot = robots.load("hyq", floating_base=True)
    for foot in ("lf_foot", "rf_foot", "lh_foot", "rh_foot"):
        robot = robot.with_contact(foot)
    found = contacts.measured(robot, Region.of(robot, velocity={"root_joint": 1.0}), batch=16, pinocchio=False)
    assert found["landing"]["slower"] > 0.1  # the ground has stopped them
    assert found["landing"]["failed"] < 0.05
    assert "16 robots that land on their contacts: " in contacts.text(found)
    assert re.search(
        r"float64 +300 +2\.0 x", contacts.text({**found, "pinocchio": (600.0, 1.0), "float64": {"ns": 300}})
    )
    with pytest.raises(ArgumentError, match="expected only point contacts to compare with Pinocchio"):
        comparison.compare(robot.with_contact("trunk", "fixed"), Region.of("hyq"), BenchOptions(no_pinocchio=True))


def test_paired_calls_take_turns_and_the_quickest_repeat_counts() -> None:
    """The clock is the test's own: each call moves it on by its next step."""
    now, order = 0, []
    steps = {"a": iter([9, 9, 5, 3, 4, 8]), "b": iter([1, 1, 20, 30, 10, 40])}

    def call(name: str) -> Callable[[], int]:
        def run() -> int:
            nonlocal now
            order.append(name)
            now += next(steps[name])
            return 2 if name == "b" else 0

        return run

    calls = {name: call(name) for name in steps}
    taken = measure.paired(calls, 2, repeats=2, clock=lambda: now, count=int)
    assert taken == {"a": [3.0, 4.0], "b": [10.0, 5.0]}
    assert order == ["a", "a", "b", "b"] * 3


def test_waits_for_a_first_gradient_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    tiers.main(["two_joint_arm", "--no-pinocchio"])
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split(" | ")[1] for row in rows] == ["interpreted", "compiled"]
    for row in rows:
        assert all(float(number) > 0.0 for number in row.split(" | ")[2:5])
