"""The sweep: its points, its files, its restart, and its clusters."""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
import pytest
from click.testing import CliRunner
from dynagate import Region, Rollout, robots, trace
from dynagate.cli import main, studies
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.wordlength import sweep as module
from dynagate.fixedpoint.wordlength.results_file import (
    SweepCell,
    SweepError,
    SweepProgress,
    coarse_to_fine,
    remaining_seconds,
)
from dynagate.fixedpoint.wordlength.sweep import sweep
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import Graph
from dynagate.graph.ops import OPS
from dynagate.host.drift import drift, sweep_motions, table
from dynagate.hw.processor.compiler.motion import ToleranceError
from dynagate.integrators.trajectories import motions
from dynagate.robot.random_chain import random_chain

from tests.oracle import pinocchio_of


@pytest.fixture(scope="module")
def region() -> Region:
    return Region.of(robots.load("two_joint_arm"))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return trace(robots.load("two_joint_arm"), "forward_dynamics_gradient")


def test_longer_words_err_less_and_own_points_less_than_a_global_one(graph: Graph, region: Region) -> None:
    points = {(p.policy, p.word): p for p in sweep(graph, region, (14, 18, 22), states=1000)}
    for policy in ("global", "word"):
        errors = [points[policy, word].error for word in (14, 18, 22)]
        assert errors[0] > 4.0 * errors[1] > 16.0 * errors[2]
    assert points["word", 18].error < 0.2 * points["global", 18].error
    for word in (14, 18, 22):
        assert points["optimized", word].error <= points["word", word].error
        assert points["optimized", word].register_bits <= 1.05 * points["word", word].register_bits
    assert points["optimized", 22].dsp < points["word", 22].dsp


def test_a_point_counts_what_is_built() -> None:
    """Late terms last make a difference of a sum and a negation: fewer nodes than were traced."""
    robot = random_chain(2, 1)
    region, graph = Region.of(robot), trace(robot, "forward_dynamics")
    formatted = assign(graph, region, Policy(word=20))
    assert len(formatted.graph.nodes) < len(graph.nodes)
    widths = [f.width for f in formatted.formats]
    sums = [w for node, w in zip(formatted.graph.nodes, widths, strict=True) if OPS[node.op].counted in ("add", "neg")]
    point = module.measure(graph, region, "word", 20, 50)
    assert (point.lut, point.register_bits) == (sum(sums), sum(widths))


def counted(steps: list[tuple[int, int]]) -> Callable[[SweepProgress[Any]], None]:
    """Return a progress function that lists the numbers of finished points and of all points."""
    return lambda state: steps.append((len(state.points), state.total))


def test_stopped_sweep_goes_on(graph: Graph, region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "new" / "points.jsonl"
    first = sweep(graph, region, (12, 13), ("word",), states=200, results=results)
    with results.open("a") as file:
        file.write('{"policy": "word", "wo')  # killed while writing
    measured: list[int] = []
    real = module.measure
    monkeypatch.setattr(module, "measure", lambda *a: measured.append(a[3]) or real(*a))
    steps: list[tuple[int, int]] = []
    again = sweep(graph, region, (12, 13, 14), ("word",), states=200, results=results, progress=counted(steps))
    assert again[:2] == first
    assert measured == [14]
    assert steps == [(2, 3), (3, 3)]
    assert sweep(graph, region, (12, 13, 14), ("word",), states=200, results=results) == again
    assert measured == [14]


def test_damaged_and_foreign_results_are_refused(graph: Graph, region: Region, tmp_path: Path) -> None:
    results = tmp_path / "points.jsonl"
    sweep(graph, region, (12,), ("word",), states=200, results=results)
    with pytest.raises(SweepError, match="holds another sweep: states 200 there, 300 here. Expected the same options"):
        sweep(graph, region, (12,), ("word",), states=300, results=results)
    slower = Region.of(region.robot, velocity=1.0)
    with pytest.raises(SweepError, match="holds another sweep: another region. Expected"):
        sweep(graph, slower, (12,), ("word",), states=200, results=results)
    results.write_text(results.read_text() + "nonsense\n")
    with pytest.raises(SweepError, match="is damaged .* move it away to begin anew"):
        sweep(graph, region, (12,), ("word",), states=200, results=results)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [lines[0], lines[1][:40] + b"\n", lines[2]], "damaged in line 2 (JSONDecodeError"),
        (lambda lines: [lines[0], b"\xff\xfe\n", lines[1]], "damaged in line 2 (UnicodeDecodeError"),
        (lambda lines: [*lines, b"null\n"], "damaged in line 4 (AttributeError"),
        (lambda lines: [*lines, b"[1, 2]\n"], "damaged in line 4 (TypeError"),
        (lambda lines: [*lines, b"{}\n"], "damaged in line 4 (TypeError"),
        (lambda lines: [*lines, b"\n"], "damaged in line 4 (JSONDecodeError"),
        (lambda lines: [lines[0], lines[1].replace(b'"word": 13', b'"word": "13"')], "word is '13'; expected int"),
        (lambda lines: [lines[0], lines[1].replace(b'"word": 13', b'"word": null')], "word is None; expected int"),
        (lambda lines: [lines[0], lines[1].replace(b'"dsp"', b'"dps"')], "unexpected keyword argument 'dps'"),
        (
            lambda lines: [lines[0], lines[1].replace(b'"seconds": ', b'"seconds": "a", "b": ')],
            "seconds is 'a'; expected a",
        ),
        (lambda lines: [b'{"sweep": "0f3a"}\n', *lines[1:]], "damaged in line 1 (TypeError"),
        (lambda lines: [b"{}\n", *lines[1:]], "damaged in line 1 (KeyError: 'sweep')"),
        (lambda lines: [b"[]\n"], "damaged in line 1 (TypeError"),
        (lambda lines: [b"my notes"], "damaged in line 1 (JSONDecodeError"),
        (lambda lines: [b"\x00" * 50], "damaged in line 1 (JSONDecodeError"),
    ],
)
def test_damaged_results_are_refused_by_line_and_kept(
    change: Callable[[list[bytes]], list[bytes]], message: str, graph: Graph, region: Region, tmp_path: Path
) -> None:
    results = tmp_path / "points.jsonl"
    sweep(graph, region, (12, 13), ("word",), states=50, results=results)
    damaged = b"".join(change(results.read_bytes().splitlines(keepends=True)))
    results.write_bytes(damaged)
    with pytest.raises(SweepError, match=re.escape(message)) as caught:
        sweep(graph, region, (12, 13), ("word",), states=50, results=results)
    assert str(caught.value).startswith(f"{results} is damaged in line ")
    assert caught.value.text.endswith("delete the line, or move it away to begin anew")
    assert results.read_bytes() == damaged


@pytest.mark.parametrize("cut", [0, 1, 20, 27])
def test_results_cut_in_their_first_line_begin_anew(cut: int, graph: Graph, region: Region, tmp_path: Path) -> None:
    results = tmp_path / "points.jsonl"
    first = sweep(graph, region, (12,), ("word",), states=50, results=results)
    whole = results.read_bytes()
    results.write_bytes(whole[:cut])
    assert sweep(graph, region, (12,), ("word",), states=50, results=results) == first
    assert results.read_bytes().splitlines()[0] == whole.splitlines()[0]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"policies": ("best",)}, "policy 'best'; expected one of global, word, optimized"),
        ({"words": (12, 64)}, "word 64; expected 4 to 32 bits"),
        ({"states": 0}, "states 0; expected 1 or more"),
        ({"jobs": 0}, "jobs 0; expected 1 or more"),
    ],
)
def test_what_cannot_be_swept_is_refused_at_once(
    request_: dict[str, Any], message: str, graph: Graph, region: Region, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        sweep(graph, region, **{"words": (12,), "results": tmp_path / "points.jsonl", **request_})
    assert not list(tmp_path.iterdir())


def test_processes_and_a_dask_cluster_give_the_same(graph: Graph, region: Region) -> None:
    from distributed import Client, LocalCluster

    expected = sweep(graph, region, (12, 16), ("word",), states=200)
    assert sweep(graph, region, (12, 16), ("word",), states=200, jobs=2) == expected
    local = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
    with local as cluster, Client(cluster):
        assert sweep(graph, region, (12, 16), ("word",), states=200, backend="dask") == expected


def test_command_writes_csv_json_and_a_figure(tmp_path: Path) -> None:
    arguments = ["sweep", "two_joint_arm", "--word", "12:13", "--policy", "word", "--states", "200"]
    done = CliRunner().invoke(main, [*arguments, "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert [row["word"] for row in csv.DictReader((tmp_path / "sweep.csv").read_text().splitlines())] == ["12", "13"]
    assert [row["word"] for row in json.loads((tmp_path / "sweep.json").read_text())] == [12, 13]
    assert (tmp_path / "sweep.png").read_bytes()[:4] == b"\x89PNG"
    assert done.stdout.splitlines()[0].split() == [
        "policy",
        "word",
        "median",
        "error",
        "overflow",
        "DSP",
        "LUT",
        "bits",
    ]
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [["word", "12"], ["word", "13"]]


def test_figure_has_a_grid_plain_ticks_the_goal_and_its_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        module.SweepPoint("word", bits, 1e-3, 2.0**-bits, 0.0, 8 * (40 + bits), 100, 100) for bits in (12, 24, 30)
    ]
    figures: list[Any] = []
    real = module.new_figure
    monkeypatch.setattr(module, "new_figure", lambda *a: figures.append(real(*a)) or figures[-1])
    module.draw(points, "two_joint_arm", tmp_path / "sweep.png", goal=1e-5)
    (figure,) = figures
    left, right = figure.get_axes()
    for axes in (left, right):
        assert axes.xaxis.get_gridlines()[0].get_visible()
        assert "goal 1e-05" in [text.get_text() for text in axes.get_legend().get_texts()]
    assert list(right.get_lines()[0].get_xdata()) == [point.dsp for point in points]
    assert "DSP48E2 blocks at II = 1, modeled" in right.get_xlabel()
    assert left.get_xlabel() == "word length, bits"
    assert all("×" not in tick.get_text() and "mathdefault" not in tick.get_text() for tick in right.get_xticklabels())
    assert re.search(r"cores; dynagate .*numpy .*; \d{4}-\d\d-\d\d$", figure.get_supxlabel())


def test_command_without_matplotlib_leaves_the_figure_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ["sweep", "two_joint_arm", "--word", "12", "--policy", "word", "--states", "50", "--folder", tmp_path]
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1].split()[:2] == ["word", "12"]
    assert "the figure is left out: it needs matplotlib; pip install 'dynagate[sweep]'" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["points.jsonl", "sweep.csv", "sweep.json"]


def test_command_prints_its_table_even_if_the_figure_fails(tmp_path: Path) -> None:
    (tmp_path / "sweep.png").mkdir()
    arguments = ["sweep", "two_joint_arm", "--word", "12", "--policy", "word", "--states", "50", "--folder", tmp_path]
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1].split()[:2] == ["word", "12"]
    assert f"Error: {tmp_path / 'sweep.png'} is a folder; expected a file or a free name" in done.stderr


def test_command_has_the_policies_of_the_module() -> None:
    assert studies.POLICIES == module.POLICIES


def test_command_runs_on_a_dask_cluster_and_says_where_none_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    arguments = ["sweep", "two_joint_arm", "--word", "12", "--policy", "word", "--states", "50", "--folder", tmp_path]
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        # clients of one process need its own kind of address
        command = [*arguments, "--backend", "dask", "--cluster", cluster.scheduler_address]
        done = CliRunner().invoke(main, list(map(str, command)))
        assert done.exit_code == 0, done.output
    monkeypatch.setattr(studies, "CONNECT_SECONDS", 1)
    done = CliRunner().invoke(main, list(map(str, [*arguments, "--backend", "dask", "--cluster", "127.0.0.1:1"])))
    assert done.exit_code == 2
    assert "no Dask scheduler at 127.0.0.1:1 (Timed out trying to connect to " in done.output
    assert " after 1 s); expected an address such as tcp://host:8786" in done.output


def test_rollouts_drift_less_in_longer_words(region: Region, tmp_path: Path) -> None:
    options = AlgorithmOptions(dt=0.005, integrator="rk2")
    results = tmp_path / "points.jsonl"
    settings: dict[str, Any] = {"steps": 30, "count": 20, "options": options, "results": results}
    short, long = sweep_motions(region, (20, 26), **settings)
    assert short.median > 16.0 * long.median > 0.0
    assert short.energy > 4.0 * long.energy > 0.0
    assert short.overflow == long.overflow == 0.0
    steps: list[tuple[int, int]] = []
    again = sweep_motions(region, (20, 23, 26), **settings, progress=counted(steps))
    assert (again[0], again[2]) == (short, long)
    assert steps == [(2, 3), (3, 3)]
    with pytest.raises(
        SweepError, match="holds another sweep: dt 0.005 there, 0.004 here, integrator rk2 there, left out"
    ):
        sweep_motions(region, (20,), **{**settings, "options": AlgorithmOptions(dt=0.004)})


def test_the_drift_of_a_point_is_that_of_its_rollouts(region: Region) -> None:
    """Computed here once more, from the states of both rollouts and the textbook's energy of the arm's mass matrix."""
    point, own = sweep_motions(region, (20,), steps=10, count=8)[0], drift(region, 20, steps=10, dt=1e-3, count=8)
    start = motions(region, 10, 1e-3, 8, 1)
    exact, fixed = (
        Rollout(region.robot, steps=10, dt=1e-3, device=device, **extra)(*start)
        for device, extra in (("numpy", {}), ("fixed", {"region": region, "policy": Policy(word=20)}))
    )
    ends = [
        np.linalg.norm(a[:, -1] - b[:, -1], axis=1) / np.linalg.norm(np.ptp(b, axis=1), axis=1)
        for a, b in ((fixed.q, exact.q), (fixed.qd, exact.qd))
    ]
    assert point.error == pytest.approx(np.maximum(*ends).max())
    assert point.position == pytest.approx(np.abs(fixed.q - exact.q).max(), rel=1e-9)
    assert point.velocity == pytest.approx(np.abs(fixed.qd - exact.qd).max(), rel=1e-9)
    model = pinocchio_of(region.robot)
    data = model.createData()

    def energy(q: np.ndarray, qd: np.ndarray) -> float:
        potential = pinocchio.computePotentialEnergy(model, data, q)
        return float(pinocchio.computeKineticEnergy(model, data, q, qd) + potential)

    energies = np.array(
        [[energy(*state) for state in zip(*both, strict=True)] for both in zip(exact.q, exact.qd, strict=True)]
    )
    last = np.array([energy(q[-1], qd[-1]) for q, qd in zip(fixed.q, fixed.qd, strict=True)])
    expected = np.abs(last - energies[:, -1]) / np.ptp(energies, axis=1)
    np.testing.assert_allclose(own.energies, expected, rtol=1e-6)


def test_the_command_sweeps_rollouts(tmp_path: Path) -> None:
    arguments = ["sweep", "two_joint_arm", "--function", "rollout", "--word", "20:21", "--folder", str(tmp_path)]
    done = CliRunner().invoke(main, [*arguments, "--steps", "9", "--states", "5", "--dt", "0.002"])
    assert done.exit_code == 0, done.output
    assert [p["word"] for p in json.loads((tmp_path / "sweep.json").read_text())] == [20, 21]
    assert (tmp_path / "sweep.csv").read_text().startswith("word,median,error,position,velocity,energy,")
    for extra, text in (
        (["--policy", "global"], "expected them left out: a rollout has one word length"),
        (["--dt", "0.003"], "holds another sweep: dt 0.002 there, 0.003 here, steps 9 there, 200 here"),
    ):
        refused = CliRunner().invoke(main, [*arguments, *extra])
        assert refused.exit_code in (1, 2), refused.output
        assert text in " ".join(refused.output.split()), refused.output
    others = ["sweep", "two_joint_arm", "--steps", "9", "--folder", str(tmp_path)]
    assert "--steps without --function rollout" in CliRunner().invoke(main, others).output


def test_rollouts_that_solve_equations_are_swept(region: Region) -> None:
    options = AlgorithmOptions(dt=0.002, integrator="variational")
    short, long = sweep_motions(region, (18, 26), steps=8, count=8, options=options)
    assert short.position > 4.0 * long.position > 0.0
    assert short.velocity > long.velocity > 0.0
    assert short.overflow == long.overflow == short.unsolved == long.unsolved == 0.0


def test_a_word_in_which_an_integrator_does_not_converge(region: Region) -> None:
    """It is a point with its reason, unless it is the longest word: then no word of the sweep is long enough."""
    options = AlgorithmOptions(dt=0.001, integrator="position_based")
    short, long = points = sweep_motions(region, (12, 28), steps=3, count=8, options=options)
    assert math.isinf(short.position)
    assert short.unsolved == 1.0 > long.unsolved
    assert "12 bits: integrator 'position_based' of two_joint_arm does not converge in words of 12 bits" in table(
        points
    )
    with pytest.raises(ToleranceError, match="does not converge in words of 12 bits"):
        sweep_motions(region, (12,), steps=3, count=8, options=options)


def test_the_order_of_points_and_the_estimate_of_the_time_left() -> None:
    """The ends of each series come first; costs between measured words are interpolated."""
    cells = [SweepCell(series, word) for series in ("word", "optimized") for word in range(12, 21)]
    order = coarse_to_fine(cells)
    assert sorted(order) == sorted(cells)
    assert [cell.word for cell in order[:6]] == [20, 20, 12, 12, 16, 16]
    assert remaining_seconds({}, cells, 1) is None
    costs = {SweepCell("word", 20): 3.0, SweepCell("word", 12): 1.0}
    assert remaining_seconds(costs, cells, 1) is None  # nothing is known about "optimized"
    assert remaining_seconds(costs, [SweepCell("word", 16), SweepCell("word", 24)], 1) == pytest.approx(2.0 + 3.0)
    assert remaining_seconds(costs, [SweepCell("word", 16), SweepCell("word", 24)], 4) == pytest.approx(3.0)


def test_an_interrupted_command_leaves_its_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, arguments = module.measure, ["sweep", "two_joint_arm", "--word", "12:15", "--policy", "word"]
    measured: list[int] = []

    def interrupted(*inputs: Any) -> Any:
        measured.append(inputs[3])
        if len(measured) == 3:
            raise KeyboardInterrupt
        return real(*inputs)

    monkeypatch.setattr(module, "measure", interrupted)
    command = [*arguments, "--states", "50", "--folder", str(tmp_path)]
    stopped = CliRunner().invoke(main, command)
    assert stopped.exit_code != 0
    assert [line.split()[1] for line in stopped.stdout.splitlines()[1:]] == ["12", "15"]
    assert "2 points are in " in stopped.stderr
    assert "the same command continues from them" in stopped.stderr
    assert [row["word"] for row in json.loads((tmp_path / "sweep.json").read_text())] == [12, 15]
    assert [row["word"] for row in csv.DictReader((tmp_path / "sweep.csv").read_text().splitlines())] == ["12", "15"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert sorted(measured[3:]) == [13, 14]
