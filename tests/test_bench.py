"""The comparison: complete, serialisable, drawn, and honest about what is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Region, evaluate, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.bench import (
    boards,
    codegen,
    comparison,
    contacts,
    cores,
    deadline,
    figures,
    grid,
    measure,
    peers,
    report,
    rollouts,
    solvers,
)
from dynagate.cli import main
from dynagate.design.words import sample_bytes
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.fuse import fused
from dynagate.hw import boards as hw_boards
from dynagate.hw.choice import _most_bytes, choose, rate_text
from dynagate.hw.plan import plan
from dynagate.hw.processor.board import cores_of
from dynagate.hw.processor.instructions import instructions
from dynagate.hw.processor.schedule import SENDING, schedule
from dynagate.robot.urdf import read_urdf

from tests.samples import inputs_of, states


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    patch = pytest.MonkeyPatch()
    patch.setattr(measure, "SECONDS", 0.01)
    patch.setattr(comparison, "THROUGHPUT_BATCHES", (128, 256))
    patch.setattr(rollouts, "ROUNDS", 1)
    patch.setattr(solvers, "ROUNDS", 1)
    patch.setattr(solvers, "PROBLEMS", 16)
    patch.setattr(solvers, "CALLS", 20)
    robot = robots.load("two_joint_arm")
    found = comparison.compare(robot, Region.of(robot), batches=(16, 64), pinocchio=False)
    patch.undo()
    return found


def test_figures_are_complete_and_serialisable(result: dict[str, Any]) -> None:
    again = json.loads(json.dumps(result))
    assert again["machine"]["cores"] >= 1
    assert set(again["single_call"]) == set(comparison.STAGES)
    assert all(row[dtype]["ns"] > 0.0 for row in again["single_call"].values() for dtype in row)
    assert {(r["dtype"], r["layout"], r["threads"], r["batch"]) for r in again["throughput"]} == {
        (dtype, layout, threads, batch)
        for dtype in ("float32", "float64")
        for layout in ("rows", "packed", "planes", "packed planes")
        for threads, batch in ((1, 128), (1, 256), (2, 256))
    }
    assert {r["partition"] for r in again["partitions"]} == {"split", "fused", "completely fused"}
    assert again["accuracy"]["float64"]["dqdd_dq"] < 1e-12 < again["accuracy"]["float32"]["dqdd_dq"] < 1e-4
    assert again["fpga_modelled"]["batches"][1]["ns"] > again["fpga_modelled"]["batches"][0]["ns"]


def test_partitions_of_the_datapath_have_the_measured_part_of_the_host(result: dict[str, Any]) -> None:
    model = result["fpga_modelled"]
    rows = {(row["partition"], row["batch"]): row for row in model["partitions"]}
    for measured in result["partitions"]:
        row = rows[measured["partition"], measured["batch"]]
        assert row["host_ns"] == measured["host_ns"]
        assert (row["host_ns"] > 0.0) == (row["partition"] != "completely fused")
    for whole in model["batches"]:
        assert rows["completely fused", whole["batch"]]["ns"] == whole["ns"]
        assert rows["split", whole["batch"]]["host_ns"] > rows["fused", whole["batch"]]["host_ns"]
    assert model["single_call"]["forward_dynamics_gradient"] == pytest.approx(model["latency_cycles"] * 4.0)
    assert "FPGA partition split (modelled)" in report.text(result)


def test_an_interrupted_run_goes_on(result: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured is taken over; after a change of what is asked, of the robot or of the file it is not."""
    arm = robots.load("two_joint_arm")
    asked: dict[str, Any] = {"batches": (16, 64), "pinocchio": False}
    kept: list[dict[str, Any]] = []

    def stop(figures: dict[str, Any]) -> None:
        kept.append(json.loads(json.dumps(figures)))
        if "accuracy" in figures:
            raise KeyboardInterrupt

    parts = {name: (lambda value=value: value) for name, value in result.items() if name not in ("robot", "machine")}
    del parts["degrees_of_freedom"]
    monkeypatch.setattr(comparison, "_parts", lambda *_: parts)
    with pytest.raises(KeyboardInterrupt):
        comparison.compare(arm, Region.of(arm), **asked, keep=stop)
    begun = kept[-1]
    assert "accuracy" in begun
    assert "deadline" not in begun
    counted: list[str] = []
    monkeypatch.setattr(
        comparison, "_parts", lambda *_: {name: (lambda name=name: counted.append(name)) for name in parts}
    )
    whole = comparison.compare(arm, Region.of(arm), **asked, begun=begun)
    assert counted == ["fpga_modelled", "deadline"]
    assert comparison.ASKED not in whole
    for change in ({"batches": (16,)}, {"threads": 1}, {"ii": 16}):
        counted.clear()
        comparison.compare(arm, Region.of(arm), **{**asked, **change}, begun=begun)
        assert counted == list(parts)
    counted.clear()
    comparison.compare(arm, Region.of(arm), **asked, begun=whole)  # a run that is over is measured anew
    assert counted == list(parts)


def test_solver_is_measured_beside_crocoddyl_on_the_same_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "ROUNDS", 1)
    monkeypatch.setattr(solvers, "PROBLEMS", 16)
    monkeypatch.setattr(solvers, "CALLS", 20)
    arm = robots.load("two_joint_arm")
    figures = solvers.measured(arm, Region.of(arm))
    assert isinstance(figures, dict)
    assert figures["cost"] < 1e-9
    assert min(figures[name]["ns"] for name in ("one", "many", "crocoddyl")) > 0.0
    assert re.search(r"one problem +\d+\.\d +\d+\.\d\n", solvers.text(figures))
    tail = figures["tail"]
    assert 0.0 < tail["median_ns"] <= tail["per_mille_ns"] <= tail["worst_ns"]
    assert re.search(r"\n20 calls of an iteration, .*worst( +\d+\.\d){3}\n", solvers.text(figures))
    legged = robots.load("hyq", floating_base=True)
    why = solvers.measured(legged, Region.of(arm))
    assert solvers.text(why) == (
        "iLQR is not measured: expected at most 14 joints of one degree of freedom that mimic no other"
    )


def test_text_says_what_is_modelled_and_what_is_missing(result: dict[str, Any]) -> None:
    text = report.text(result)
    assert "ratios to Pinocchio's C++ in double, one core, single calls (not asked for)" in text
    assert "without CasADi: not asked for" in text
    assert "ns per sample, batches of" in text
    assert "128               256    256, 2 threads" in text
    assert "FPGA (modelled)" in text
    assert "rollouts by semi-implicit Euler, 1024 trajectories of 50 steps, one thread" in text
    assert re.search(r"Crocoddyl, SolverDDP +not asked for\none problem +\d+\.\d\neach of 16 problems +\d", text)
    assert re.search(r"pinocchio +not asked for\nmujoco +\d", text)
    assert re.search(r"step / forward dynamics, float32 +\d", text)
    assert "nothing of it was measured on a board" in text
    times = [{"batch": 16, "ns": 5000.0, "call_ns": 9000.0}, {"batch": 64, "ns": 7000.0, "call_ns": 11000.0}]
    measured = {
        "card": "a card",
        "host": [{"results": "the same", **row} for row in times],
        "partitions": [{"partition": "split", **row} for row in times],
        "resident": [{"layout": "rows", **row} for row in times],
        "grid": [{"batch": 64, "ns": 70000.0, "call_ns": 80000.0}],
    }
    with_gpu = report.text({**result, "cuda": measured})
    assert "cuda float32, the same results" in with_gpu
    assert "cuda partition split" in with_gpu
    assert "       64     7.0     9  10.0×     11.0        70.0      80.0" in with_gpu
    assert "       16     5.0     3             9.0" in with_gpu
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
    again = read_urdf(tmp_path / "robot.urdf")
    function = "forward_dynamics"
    inputs = inputs_of(function, states(robot, 8, seed=1))
    found = evaluate(trace(again, function), inputs)["qdd"]
    np.testing.assert_allclose(found, evaluate(trace(robot, function), inputs)["qdd"], rtol=1e-9)


def test_missing_grid_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = robots.load("two_joint_arm")
    monkeypatch.setattr(grid, "PACKAGE", "no-such-package")
    assert grid.grid(robot, [16]) == "GRiD is not installed: pip install no-such-package"


def test_figures_are_drawn(result: dict[str, Any], tmp_path: Path) -> None:
    peer = {"times": dict.fromkeys(comparison.STAGES, (1000.0, 1.0)), "float32_error": [1e-5, 2e-5]}
    for name, changed in (("whole", {**result, "pinocchio": peer}), ("without", result)):
        paths = figures.figures(changed, tmp_path / name)
        assert [path.name for path in paths] == ["single_call.png", "partitions.png", "batches.png"]
        assert all(path.read_bytes()[:4] == b"\x89PNG" for path in paths)


def test_figures_say_where_they_come_from(
    result: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, Any] = {}
    real = figures.saved

    def keeping(figure: Any, path: Path, notes: Sequence[str]) -> Path:
        drawn[path.stem] = figure
        return real(figure, path, notes)

    monkeypatch.setattr(figures, "saved", keeping)
    figures.figures(result, tmp_path)
    machine = result["machine"]
    for figure in drawn.values():
        (axes,) = figure.get_axes()
        assert axes.xaxis.get_gridlines()[0].get_visible()
        below = figure.get_supxlabel()
        assert all(str(machine[part]) in below for part in ("cpu", "compiler", "date")), below
        assert "distance of the quartiles" in below
    assert "without Pinocchio: not asked for" in drawn["single_call"].get_supxlabel()
    (axes,) = drawn["single_call"].get_axes()
    assert axes.texts[0].get_text() == f"{result['single_call']['inverse_dynamics']['float64']['ns']:.0f}"
    assert "completely fused: one kernel" in drawn["partitions"].get_supxlabel()
    (axes,) = drawn["partitions"].get_axes()
    assert axes.get_title().endswith("partitions of the gradient in C")
    (axes,) = drawn["batches"].get_axes()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(axes.collections) == len(labels)  # a band each
    drawn["batches"].canvas.draw()
    box = axes.get_legend().get_window_extent()
    assert box.x0 >= axes.get_window_extent().x1 - 1.0, "the legend covers curves"


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


def test_deadline_has_measured_exact_and_modelled_figures_and_says_which() -> None:
    robot, function = robots.load("two_joint_arm"), "forward_dynamics"
    graph, region = trace(robot, function), Region.of(robot)
    planned = plan(assign(graph, region), 4)
    result = deadline.deadline(graph, region.sample(function, 1, 3), planned, 100e6, calls=2000)
    assert 0.0 < result["median_ns"] <= result["per_mille_ns"] <= result["worst_ns"]
    assert result["datapath_ns_at_assumed_clock"] == 10.0 * planned.latency
    slow = {"input": 0, "const": 0, "reciprocal": 18, "sqrt": 22, "sin": 40, "cos": 40}
    assert deadline.modelled(graph, 1e9, 1.0) == pytest.approx(sum(slow.get(node.op, 2) for node in graph.nodes))
    text = deadline.lines(result)
    for what in ("99.9 %", "worst", f"datapath, {planned.latency} cycles", "cycles exact, clock assumed", "modelled"):
        assert sum(what in line for line in text) >= 1, what


def test_command_prints_and_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SECONDS", 0.01)
    monkeypatch.setattr(hw_boards, "names", lambda: ["ulx3s"])
    file, folder = tmp_path / "figures.json", tmp_path / "figures"
    arguments = ["bench", "two_joint_arm", "--no-pinocchio", "--batch", "16", "--json", file, "--figures", folder]
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    assert "link of ulx3s, modelled: 3000000 baud / 10 bits of a byte" in done.output
    kept = json.loads(file.read_text())
    assert (kept["robot"], kept["machine"]["cores"] > 0) == ("two_joint_arm", True)
    assert [row["function"] for row in kept["boards_modelled"]] == list(boards.FUNCTIONS)
    assert len(list(folder.glob("*.png"))) == 3


def test_boards_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hw_boards, "names", lambda: ["vcu118"])
    monkeypatch.setattr(comparison, "compare", None)
    file = tmp_path / "figures.json"
    done = CliRunner().invoke(main, ["bench", "two_joint_arm", "--boards", "--json", str(file)])
    assert done.exit_code == 0, done.output
    assert "nothing was measured on a board" in done.output
    kept = json.loads(file.read_text())
    assert {row["board"] for row in kept["boards_modelled"]} == {"vcu118"}
    assert "samples a second of programs, modelled likewise" in done.output
    assert [(row["function"], row["cores"]) for row in kept["cores_modelled"]] == [(f, 6) for f in boards.FUNCTIONS]


def test_cores_are_modelled_by_the_cycles_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates of four cores, of one word a cycle, and of the link; what a core does not hold says why."""
    robot, function = robots.load("two_joint_arm"), "forward_dynamics"
    monkeypatch.setattr(hw_boards, "names", lambda: ["pynq-z2", "gatemate-evb"])
    (row,) = cores.core_rows(robot, Region.of(robot), [function])
    assert isinstance(row, cores.CoreRow)
    core = cores_of(hw_boards.load("pynq-z2")).core
    scheduled = schedule(instructions(fused(assign(trace(robot, function), Region.of(robot)))), core)
    assert (row.cycles, row.cores) == (scheduled.period, 4)
    assert row.rates.datapath == pytest.approx(4 * 100e6 / scheduled.period)
    assert row.rates.stream == pytest.approx(100e6 / (2 + 2 + 2 * core.units + SENDING))
    assert row.rates.decided_by == "datapath"
    monkeypatch.setattr(cores, "cores_of", lambda board: replace(cores_of(board), core=replace(core, program_bits=5)))
    monkeypatch.setattr(hw_boards, "names", lambda: ["pynq-z2"])
    (row,) = cores.core_rows(robot, Region.of(robot), [function])
    text = cores.core_table([row])
    assert re.search(
        r"^no core of pynq-z2: .* takes \d+ words, \d+ more than the core's 32; expected a core", text, re.M
    )


def test_boards_are_modelled_as_bitstreams_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates are those of the choice; the driver's time is measured; what does not fit says why."""
    robot, function = robots.load("two_joint_arm"), "inverse_dynamics"
    full = hw_boards.load("kv260")
    small = replace(full, resources=replace(full.resources, dsp=2))
    monkeypatch.setattr(hw_boards, "names", lambda: ["kv260", "small"])
    monkeypatch.setattr(hw_boards, "load", lambda name: {"kv260": full, "small": small}[name])
    row, refusal = boards.board_rows(robot, Region.of(robot), [function])
    assert isinstance(row, boards.BoardRow)
    assert isinstance(refusal, boards.Refusal)
    choice = choose(assign(trace(robot, function), Region.of(robot), Policy()), full)
    assert (row.ii, row.latency, row.clock_mhz) == (choice.plan.ii, choice.plan.latency, choice.clock_mhz)
    assert (row.datapath, row.link, row.end_to_end) == (
        choice.rates.datapath,
        choice.rates.link,
        choice.rates.end_to_end,
    )
    assert row.driver.call_ns > 0.0 < row.driver.sample_ns
    text = boards.board_table([row, refusal])
    assert "link of kv260, modelled: memory of 64 bits" in text
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
    model = comparison._modelled(plan(formatted, 8), [1])
    assert board.link.width == comparison.STREAM_BITS
    assert model["bytes_out"] == _most_bytes(formatted, board) == sample_bytes(words, board.link.width)
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
    with pytest.raises(ArgumentError, match="expected point contacts alone to compare with Pinocchio"):
        comparison.compare(robot.with_contact("trunk", "fixed"), Region.of("hyq"), pinocchio=False)
