"""Measure error and cost over word lengths and policies, point by point, and keep the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
from dynagate.base.errors import ArgumentError
from dynagate.base.figures import grid, new_figure, origin, plain_logarithmic, saved
from dynagate.base.text_table import Column, table_lines
from dynagate.fixedpoint.assign import ONE_WORD, Policy, assign
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.wordlength.confidence import block_floors, measured
from dynagate.fixedpoint.wordlength.goal import Goal, dsp_blocks
from dynagate.fixedpoint.wordlength.optimize import AccuracyError, optimize
from dynagate.fixedpoint.wordlength.results_file import ResultsFile, SweepCell, SweepProgress, Timed, timed
from dynagate.graph import OPS, Graph
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region

POLICIES = ("global", "word", "optimized")
"""Policies that can be compared."""
QUANTILE = 0.999
"""Share of the states whose errors a point reports."""
SEED = 41
"""Seed of a point's states."""
FRESH = 16384
"""Number of states on which optimized formats are checked; a point's own states are fresh, too."""


@dataclass(frozen=True)
class SweepPoint:
    """Result of one policy at one word length."""

    policy: str
    word: int
    """Word length in bits; for "optimized", the one whose error the formats must reach."""
    median: float
    """Median error of the worst block, as `Goal` defines errors."""
    error: float
    """Error of the worst block at QUANTILE."""
    overflow: float
    """Share of the states that overflow."""
    dsp: int
    """DSP48E2 blocks of a pipeline with an initiation interval of 1, in which no products share one."""
    lut: int
    """Bits of all adders."""
    register_bits: int
    """Bits of all values, each stored once."""


def sweep(
    graph: Graph,
    region: Region,
    words: Sequence[int],
    policies: Sequence[str] = POLICIES,
    *,
    states: int = 4096,
    jobs: int = 1,
    backend: str = "loky",
    results: Path | None = None,
    progress: Callable[[SweepProgress[SweepPoint]], Any] | None = None,
) -> list[SweepPoint]:
    """Measure each policy at each word length.

    Args:
        graph: The graph.
        region: Operating region.
        words: Word lengths in bits.
        policies: Some of POLICIES.
        states: Number of states per point.
        jobs: Number of parallel jobs.
        backend: joblib's backend: "loky" on this computer, "dask" on the cluster of the current Dask client, or "ray".
        results: File to which every finished point is added, and from which an interrupted sweep continues.
        progress: Function that receives the state of the sweep before the first point and after each one.

    Returns:
        A point per policy and word, in that order.

    Raises:
        ArgumentError: A policy or a word length does not exist, or there are no states or jobs.
        SweepError: The results file is damaged or of another sweep.
    """
    for policy in policies:
        if policy not in POLICIES:
            raise ArgumentError(f"policy '{policy}'; expected one of {', '.join(POLICIES)}", code="DG-FORMAT-048")
    for word in words:
        Policy(word=word)
    for name, number in (("states", states), ("jobs", jobs)):
        if number < 1:
            raise ArgumentError(f"{name} {number}; expected 1 or more", code="DG-FORMAT-049")
    cells = [SweepCell(policy, word) for policy in policies for word in words]
    subject = {"robot": region.robot.name, "function": graph.name, "graph": (graph.nodes, graph.outputs)}
    file = ResultsFile(results, {**subject, "region": region, "states": states}, SweepPoint, _cell)
    measured = partial(_computed, graph, region, states=states, jobs=jobs, backend=backend)
    return file.completed(cells, measured, progress, jobs)


def _cell(point: SweepPoint) -> SweepCell:
    """Return the policy and the word length of a point."""
    return SweepCell(point.policy, point.word)


def _computed(
    graph: Graph, region: Region, points: Sequence[SweepCell], *, states: int, jobs: int, backend: str
) -> Iterator[Timed[SweepPoint]]:
    """Yield the points as they are finished, computed in parallel jobs."""
    if jobs == 1 and backend == "loky":
        yield from (timed(measure, graph, region, policy, word, states) for policy, word in points)
        return
    import joblib

    with joblib.parallel_config(backend=backend, n_jobs=jobs):
        work = (joblib.delayed(timed)(measure, graph, region, policy, word, states) for policy, word in points)
        yields = joblib.parallel.get_active_backend()[0].supports_return_generator
        yield from joblib.Parallel(return_as="generator_unordered" if yields else "list")(work)


def measure(graph: Graph, region: Region, policy: str, word: int, states: int) -> SweepPoint:
    """Return one point.

    Args:
        graph: The graph.
        region: Operating region.
        policy: One of POLICIES.
        word: Word length in bits.
        states: Number of states.
    """
    inputs = region.states(graph, states, SEED)
    expected = evaluate(graph, inputs)
    floors = block_floors(graph, region, Goal(0.5, states=states))
    formatted = ONE_WORD.get(policy, assign)(graph, region, Policy(word=word))
    median, error, overflow = _errors(formatted, inputs, expected, floors)
    if policy == "optimized" and 0.0 < error < 1.0:
        try:
            formatted = optimize(graph, region, Goal(error, fresh=FRESH)).formatted
            median, error, overflow = _errors(formatted, inputs, expected, floors)
        except AccuracyError:  # longer words than one DSP block takes: the one word length stays
            pass
    adders = [i for i, node in enumerate(formatted.graph.nodes) if OPS[node.op].counted in ("add", "neg")]
    return SweepPoint(
        policy,
        word,
        median,
        error,
        overflow,
        sum(dsp_blocks(formatted)),
        sum(formatted.formats[i].width for i in adders),
        sum(f.width for f in formatted.formats),
    )


def _errors(
    formatted: FormattedGraph, inputs: dict[str, Any], expected: dict[str, Any], floors: dict[str, float]
) -> tuple[float, float, float]:
    """Return the median error, the error at QUANTILE, and the share of states that overflow."""
    result = measured(formatted, inputs, expected, floors)
    return (
        max(float(np.median(e)) for e in result.errors.values()),
        max(float(np.quantile(e, QUANTILE)) for e in result.errors.values()),
        float(result.overflow.mean()),
    )


COLUMNS: list[Column[SweepPoint]] = [
    Column("policy", 12, lambda point: point.policy, left=True),
    Column("word", 5, lambda point: point.word),
    Column("median", 10, lambda point: point.median, ".1e"),
    Column("error", 10, lambda point: point.error, ".1e"),
    Column("overflow", 10, lambda point: point.overflow, ".1e"),
    Column("DSP", 8, lambda point: point.dsp),
    Column("LUT", 9, lambda point: point.lut),
    Column("bits", 9, lambda point: point.register_bits),
]
"""Columns of the table for a terminal."""


def table(points: Sequence[SweepPoint]) -> str:
    """Return a table for the terminal, with a line for each point."""
    return "\n".join(table_lines(COLUMNS, points))


def draw(points: Sequence[SweepPoint], title: str, path: Path, goal: float | None = None) -> None:
    """Draw error against word length, and error against cost.

    Args:
        points: Results of a sweep.
        title: Title of the figure.
        path: File of the figure.
        goal: Error to mark, if any.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure(10, 4.4, "sweep")
    left, right = figure.subplots(1, 2)
    for policy in dict.fromkeys(point.policy for point in points):
        chosen = [p for p in points if p.policy == policy and 0.0 < p.error < 1e3]
        errors = [p.error for p in chosen]
        left.semilogy([p.word for p in chosen], errors, marker="o", markersize=3, label=policy)
        right.loglog([p.dsp for p in chosen], errors, marker="o", markersize=3, label=policy)
    left.set_xlabel("word length, bits")
    left.xaxis.get_major_locator().set_params(integer=True)
    right.set_xlabel("DSP48E2 blocks at II = 1, modeled: no products share one")
    plain_logarithmic(right.xaxis)
    for axes in (left, right):
        axes.set_ylabel(f"relative L2 error, {QUANTILE:.1%} of the states")
        if goal is not None:
            axes.axhline(goal, color="#d55e00", linestyle=":", label=f"goal {goal:g}")
        grid(axes)
        axes.legend()
    figure.suptitle(title, parse_math=False)
    saved(figure, path, [origin(f"dynagate {dynagate.__version__}, integer executor, no compiler")])
