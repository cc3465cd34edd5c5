"""The sweep: its points, its files, its restart, and its clusters."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Region, robots, trace
from dynagate.cli import main
from dynagate.fixedpoint import sweep as module
from dynagate.fixedpoint.confidence import quantile_bound, rate_bound
from dynagate.fixedpoint.sweep import SweepError, sweep
from dynagate.graph import Graph


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
        assert points["optimised", word].error <= points["word", word].error
        assert points["optimised", word].register_bits <= 1.05 * points["word", word].register_bits
    assert points["optimised", 22].dsp < points["word", 22].dsp


def test_stopped_sweep_goes_on(graph: Graph, region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "new" / "points.jsonl"
    first = sweep(graph, region, (12, 13), ("word",), states=200, results=results)
    with results.open("a") as file:
        file.write('{"policy": "word", "wo')  # killed while writing
    measured: list[int] = []
    real = module.measure
    monkeypatch.setattr(module, "measure", lambda *a: measured.append(a[3]) or real(*a))
    steps: list[tuple[int, int]] = []
    again = sweep(graph, region, (12, 13, 14), ("word",), states=200, results=results, step=lambda *x: steps.append(x))
    assert again[:2] == first
    assert measured == [14]
    assert steps == [(2, 3), (3, 3)]


def test_damaged_and_foreign_results_are_refused(graph: Graph, region: Region, tmp_path: Path) -> None:
    results = tmp_path / "points.jsonl"
    sweep(graph, region, (12,), ("word",), states=200, results=results)
    with pytest.raises(SweepError, match="holds another sweep; expected this robot, function, region and states"):
        sweep(graph, region, (12,), ("word",), states=300, results=results)
    results.write_text(results.read_text() + "nonsense\n")
    with pytest.raises(SweepError, match="is damaged .* move it away to begin anew"):
        sweep(graph, region, (12,), ("word",), states=200, results=results)
    with pytest.raises(ValueError, match="policy 'best'; expected one of global, word, optimised"):
        sweep(graph, region, (12,), ("best",))


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
    done = CliRunner().invoke(main, ["sweep", "two_joint_arm", "--word", "long", "--folder", str(tmp_path)])
    assert done.exit_code == 1
    assert "--word long; expected two numbers such as 12:32" in done.output


def test_bounds_hold_what_they_say() -> None:
    """Against the exact chances: 0 of n with rate p has a chance of (1 - p)^n."""
    assert rate_bound(0, 16384, 0.99) == pytest.approx(1.0 - 0.01 ** (1 / 16384), rel=1e-9)
    assert rate_bound(5, 5, 0.99) == 1.0
    assert quantile_bound(np.arange(4000.0), 0.999, 0.99) == float("inf")  # 0.999^4000 = 1.8 %
    assert quantile_bound(np.arange(5000.0), 0.999, 0.99) == 4999.0
