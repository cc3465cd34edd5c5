"""Time of forward dynamics of serial chains over the number of links and of groups: figures 2, 3a and 3b of

    Yang, Wu & Pan, "A Novel GPU-based Parallel Implementation Scheme and Performance Analysis of Robot Forward Dynamics
    Algorithms", 2016,

measured on one core of this machine, with the longest path of each algorithm, which bounds the time on a machine with
enough units. From a fresh clone:

    make .venv/test.stamp && .venv/bin/python examples/parallel_forward_dynamics.py

This writes figure2.png, figure3a.png, figure3b.png and figures.json into build/parallel. --quick takes seconds, but its
figures are rough. The comparison compiles Pinocchio's C++ first, which takes minutes; --no-peer omits it.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported: JSIIA's solver uses one core

import argparse
import json
import math
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from dynagate import trace
from dynagate.robot.random_chain import random_chain
from parallel.loops import ALGORITHMS, PAPER, forward_dynamics

LABELS = {
    "aba": "ABA, link by link",
    "jsiia": "JSIIA",
    "abia": "ABIA, square factors",
    "cfa": "CFA, odd-even elimination",
}
SEED = 1
ENOUGH = 0.2
"""Time in s for which a point is measured, unless REPEATS calls take less."""
REPEATS = 1000
PEER_RUNS = 3
Times = dict[str, dict[int, float]]


def seconds(algorithm: str, links: int, groups: int) -> float:
    """Return the median processor time of a call on `groups` random states, s."""
    dynamics = forward_dynamics(random_chain(links, SEED), algorithm)
    random = np.random.default_rng(SEED)
    state = [random.uniform(-1.0, 1.0, (groups, links)) for _ in range(3)]
    dynamics(*state)
    times: list[float] = []
    while len(times) < 3 or (len(times) < REPEATS and sum(times) < ENOUGH):
        start = time.process_time()
        dynamics(*state)
        times.append(time.process_time() - start)
    return float(np.median(times))


def errors(lengths: Sequence[int], states: int = 64) -> dict[str, Times]:
    """Return the largest relative error of q̈ over random states and three chains, by precision, algorithm and number
    of links.

    The reference is the articulated-body algorithm in float64.
    """
    result: dict[str, Times] = {"float64": {}, "float32": {}}
    for dtype, times in result.items():
        for a in ALGORITHMS:
            times[a] = {n: max(error(a, n, dtype, states, seed) for seed in range(1, 4)) for n in lengths}
    del result["float64"]["aba"]  # the reference itself
    return result


def error(algorithm: str, links: int, dtype: str, states: int, seed: int) -> float:
    robot, random = random_chain(links, seed), np.random.default_rng(seed)
    state = [random.uniform(-width, width, (states, links)) for width in (np.pi, 1.0, 1.0)]
    exact = forward_dynamics(robot, "aba")(*state)
    try:
        rough = forward_dynamics(robot, algorithm, dtype, checked=False)(*state)
    except ValueError:  # a mass matrix that is not positive definite in float32
        return math.inf
    return float((np.linalg.norm(rough - exact, axis=1) / np.linalg.norm(exact, axis=1)).max())


def table(errors: dict[str, Times]) -> str:
    """Return the errors as a Markdown table."""
    columns = [(dtype, a) for dtype, times in errors.items() for a in times]
    lengths = list(errors["float32"]["aba"])
    rows = [[str(n), *(f"{errors[dtype][a][n]:.0e}" for dtype, a in columns)] for n in lengths]
    head = ["links", *(f"{a}, {dtype}" for dtype, a in columns)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def longest_paths(lengths: Sequence[int]) -> Times:
    """Return the number of operations on the longest path of the traced graph, by algorithm and number of links."""
    return {
        a: {n: trace(random_chain(n, SEED), "forward_dynamics", form=a).counts().depth for n in lengths}
        for a in ALGORITHMS
    }


def pinocchio_times(lengths: Sequence[int]) -> dict[int, float] | str:
    """Return seconds per call of Pinocchio's `aba` in C++ on one core by number of links, or the reason why they are
    missing.

    The time is the smallest of PEER_RUNS medians, because it is wall-clock time on a shared machine.
    """
    from dynagate.bench.peers import pinocchio

    times: dict[int, float] = {}
    for n in lengths:
        for _ in range(PEER_RUNS):
            peer = pinocchio(random_chain(n, SEED))
            if isinstance(peer, str):
                return peer
            times[n] = min(times.get(n, math.inf), peer.times["forward_dynamics"][0] * 1e-9)
    return times


def findings(single: Times, paths: Times, few: Times, many: Times) -> dict[str, bool]:
    """Return the paper's conclusions from its figures, and whether our numbers confirm each."""
    lengths, path_lengths = sorted(single["cfa"]), sorted(paths["cfa"])
    short = lengths[len(lengths) // 3]  # with fewer links, Python's overhead dominates
    groups_few, groups_many = max(few["cfa"]), max(many["cfa"])

    def extreme(times: Times, at: int, best: bool) -> str:
        return (min if best else max)(PAPER, key=lambda a: times[a][at])

    long = [n for n in lengths if n >= 0.25 * lengths[-1]]
    slope = float(np.polyfit(np.log(long), np.log([single["jsiia"][n] for n in long]), 1)[0]) if len(long) > 1 else 0.0
    return {
        "Fig. 2: CFA is the slowest for few links (time of a call)": extreme(single, short, False) == "cfa",
        "Fig. 2: CFA is the fastest for many links (time of a call)": extreme(single, lengths[-1], True) == "cfa",
        "Fig. 2: CFA has the longest path for few links": extreme(paths, path_lengths[1], False) == "cfa",
        "Fig. 2: CFA has the shortest path for many links": extreme(paths, path_lengths[-1], True) == "cfa",
        "Fig. 3a: of few links, JSIIA and CFA are alike in many groups": 0.5
        < few["jsiia"][groups_few] / few["cfa"][groups_few]
        < 2.0,
        "Fig. 3a: and ABIA is slower than both": extreme(few, groups_few, False) == "abia",
        "Fig. 3b: of many links, CFA is the fastest in many groups": extreme(many, groups_many, True) == "cfa",
        "Fig. 3b: and JSIIA the slowest": extreme(many, groups_many, False) == "jsiia",
        f"JSIIA's time grows as n³ (slope {slope:.1f} between {long[0]} and {long[-1]} links)": slope > 2.5,
        "ABIA is never the fastest of the three": all(
            extreme(times, n, True) != "abia" for times in (single, few, many) for n in list(times["cfa"])[1:]
        ),
    }


def measured(short: bool, peer: bool) -> dict[str, Any]:
    lengths = [1, 2, 5, 10] if short else [1, 2, 3, 5, 7, 10, 15, 20, 33, 50, 75, 100, 150, 200, 300, 512]
    path_lengths = [1, 2, 4] if short else [1, 2, 4, 8, 16, 32]
    few, many = (3, 6) if short else (10, 200)
    groups = [1, 16] if short else [1, 3, 10, 30, 100, 300, 1000]
    single = {a: {n: seconds(a, n, 1) for n in lengths} for a in ALGORITHMS}
    paths = longest_paths(path_lengths)
    by_groups = {n: {a: {g: seconds(a, n, g) for g in groups} for a in ALGORITHMS} for n in (few, many)}
    result: dict[str, Any] = {
        "machine": platform.processor() or platform.machine(),
        "single_call_s": single,
        "longest_path": paths,
        "groups_s": by_groups,
        "errors": errors([1, 5] if short else [1, 2, 3, 5, 6, 9, 13, 17, 33, 50, 100, 200]),
        "findings": findings(single, paths, by_groups[few], by_groups[many]),
    }
    if peer:
        times = pinocchio_times((few, many))
        result["pinocchio_aba_s"] = times
        if not isinstance(times, str):
            each = {n: {a: by_groups[n][a][groups[-1]] / groups[-1] for a in ALGORITHMS} for n in (few, many)}
            result["faster_than_pinocchio"] = {n: {a: times[n] / t for a, t in each[n].items()} for n in each}
    return result


def draw(result: dict[str, Any], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    def figure(name: str, panels: Sequence[tuple[Times, str, str, str]]) -> None:
        chart, axes = pyplot.subplots(1, len(panels), figsize=(6 * len(panels), 4.5), squeeze=False)
        for axis, (times, title, x, y) in zip(axes[0], panels, strict=True):
            for a in ALGORITHMS:
                style = {"marker": "o", "markersize": 3, "linestyle": "-" if a in PAPER else ":"}
                axis.plot(list(times[a]), list(times[a].values()), label=LABELS[a], **style)
            axis.set(xscale="log", yscale="log", title=title, xlabel=x, ylabel=y)
            axis.grid(alpha=0.3)
            axis.legend(fontsize=8)
        chart.tight_layout()
        chart.savefig(folder / f"{name}.png", dpi=120)
        pyplot.close(chart)

    figure(
        "figure2",
        [
            (result["single_call_s"], "a single call, one core", "links", "seconds"),
            (result["longest_path"], "longest path", "links", "operations one after another"),
        ],
    )
    for name, (links, times) in zip(("figure3a", "figure3b"), result["groups_s"].items(), strict=True):
        figure(name, [(times, f"{links} links, one core", "groups", "seconds")])


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="few points of short chains, no peer")
    parser.add_argument("--no-peer", action="store_true", help="do not compile and measure Pinocchio's C++")
    parser.add_argument("--folder", type=Path, default=Path("build/parallel"), help="where figures and numbers go")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    result = measured(options.short, not (options.short or options.no_peer))
    (options.folder / "figures.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(result, options.folder)
    for claim, holds in result["findings"].items():
        print(f"{'confirmed   ' if holds else 'contradicted'}  {claim}")
    print(table(result["errors"]))
    if isinstance(reason := result.get("pinocchio_aba_s"), str):
        print(f"no comparison with Pinocchio: {reason}")
    for n, ratios in result.get("faster_than_pinocchio", {}).items():
        best = max(ratios, key=ratios.__getitem__)
        listed = ", ".join(f"{a} {ratio:.2g}" for a, ratio in ratios.items())
        print(f"{n} links, float64, one core, times as fast as Pinocchio's aba in C++: {listed}; fastest {best}")
    print(f"figures and numbers in {options.folder}")
    return result


if __name__ == "__main__":
    main()
