"""Measure how far rollouts in integers drift from float64, by word length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import dynagate
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.figures import grid, new_figure, origin, saved
from dynagate.base.text_table import Column, table_lines
from dynagate.dynamics import ROLLOUT
from dynagate.fixedpoint.assign import LARGEST_WORD, Policy
from dynagate.fixedpoint.wordlength.results_file import ResultsFile, SweepCell, SweepProgress, Timed, timed
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.host.drift_motions import ComparedMotions, compared_motions
from dynagate.hw.processor.compiler.motion import ToleranceError
from dynagate.integrators.trajectories import motions
from dynagate.robot import Robot

SHORTEST = 18
"""Word length that the search begins with, in bits."""
STEPS = 200
"""Default number of steps of a trajectory."""
TRAJECTORIES = 200
"""Default number of trajectories."""
QUANTILE = 0.99
"""Share of the trajectories whose drift a point reports."""
TINY = np.finfo(float).tiny
"""Smallest divisor of a relative error."""
ENERGIES = ("kinetic_energy", "potential_energy")


@dataclass(frozen=True)
class Drift:
    """Drift of trajectories within a region."""

    word: int
    """Word length in bits."""
    errors: npt.NDArray[Any]
    """Errors of the state (trajectories, steps + 1), relative to the trajectory's own motion.

    Each is the larger of the errors of q and q̇: a norm over the norm of their ranges. It is infinite after an overflow.
    """
    energies: npt.NDArray[Any]
    """Errors of the energy after the last step (trajectories,), relative to the range of the trajectory's energy."""
    tracking: tuple[npt.NDArray[Any], npt.NDArray[Any]]
    """Largest error of a position, rad or m, and of a velocity, rad/s or m/s, in all steps, (trajectories,) each.

    They are infinite after an overflow.
    """
    unsolved: npt.NDArray[np.bool_]
    """Trajectories with a step that float64 solves and the integers do not, (trajectories,)."""

    def end(self, quantile: float) -> float:
        """Return the error after the last step that this share of the trajectories keeps."""
        return float(np.quantile(self.errors[:, -1], quantile, method="higher"))


@dataclass(frozen=True)
class DriftPoint:
    """Drift of the trajectories of one word length. Errors are infinite if more than 1 - QUANTILE of them overflow."""

    word: int
    """Word length in bits."""
    median: float
    """Median error of the state after the last step, relative to the motion."""
    error: float
    """The same error at QUANTILE."""
    position: float
    """Largest error of a position in all steps, rad or m, at QUANTILE."""
    velocity: float
    """Largest error of a velocity in all steps, rad/s or m/s, at QUANTILE."""
    energy: float
    """Error of the energy after the last step, relative to its range, at QUANTILE."""
    overflow: float
    """Share of the trajectories that overflow."""
    unsolved: float
    """Share of the trajectories with a step whose equations float64 solves and the integers do not."""
    reason: str = ""
    """Why no trajectory was computed, if the integrator does not converge in this word length."""

    @classmethod
    def of(cls, own: Drift) -> DriftPoint:
        """Return the point of a drift."""

        def kept(errors: npt.NDArray[Any]) -> float:
            return float(np.quantile(errors, QUANTILE, method="higher"))

        position, velocity = map(kept, own.tracking)
        overflow, unsolved = float(np.isinf(own.errors[:, -1]).mean()), float(own.unsolved.mean())
        return cls(
            own.word, own.end(0.5), own.end(QUANTILE), position, velocity, kept(own.energies), overflow, unsolved
        )

    @classmethod
    def without_trajectories(cls, word: int, reason: str) -> DriftPoint:
        """Return the point of a word length in which the integrator does not converge."""
        return cls(word, np.inf, np.inf, np.inf, np.inf, np.inf, overflow=0.0, unsolved=1.0, reason=reason)


def drift(
    region: Region,
    word: int,
    *,
    steps: int = STEPS,
    dt: float = 5e-3,
    count: int = TRAJECTORIES,
    seed: int = 1,
    options: AlgorithmOptions | None = None,
) -> Drift:
    """Return the drift with words of this many bits.

    Args:
        region: Region that the trajectories stay in.
        word: Word length in bits.
        steps: Number of steps of a trajectory.
        dt: Time step, s.
        count: Number of trajectories.
        seed: Seed of the trajectories.
        options: Integrator, forces and other options of a rollout.

    Raises:
        ToleranceError: The integrator does not converge in words of this many bits.
        ArgumentError: A word length, a time step or a number is out of range, or integers refuse an option.
    """
    start = motions(region, steps, dt, count, seed)
    both = compared_motions(region, word, start, dt=dt, seed=seed, options=options)
    (q, qd), (own_q, own_qd) = both.exact, both.fixed
    true, end = _energy(region.robot, q, qd), _energy(region.robot, own_q[:, -1:], own_qd[:, -1:])[:, 0]
    scale, lost = np.maximum(np.ptp(true, axis=1), TINY), both.overflowed[:, -1]
    moved, faster = both.moved(), own_qd - qd
    energies = np.where(lost, np.inf, np.abs(end - true[:, -1]) / scale)
    position, velocity = (np.where(lost, np.inf, np.abs(error).max(axis=(1, 2))) for error in (moved, faster))
    return Drift(word, _errors(both, moved, faster), energies, (position, velocity), both.unsolved)


def _energy(robot: Robot, q: Array, qd: Array) -> Array:
    """Return kinetic plus potential energy, J, of states (trajectories, steps, ·)."""
    states = {"q": q.reshape(-1, q.shape[-1]), "qd": qd.reshape(-1, qd.shape[-1])}
    graphs = [trace(robot, name) for name in ENERGIES]
    parts = [evaluate(graph, {port.name: states[port.name] for port in graph.inputs})[graph.name] for graph in graphs]
    return np.asarray(sum(parts)).reshape(q.shape[:2])


def _errors(both: ComparedMotions, moved: Array, faster: Array) -> npt.NDArray[Any]:
    """Return the larger of the errors of q and q̇ of each state, relative to the ranges of the trajectory."""
    each = [
        np.linalg.norm(error, axis=-1) / np.maximum(np.linalg.norm(np.ptp(x, axis=1), axis=-1), TINY)[:, None]
        for error, x in zip((moved, faster), both.exact, strict=True)
    ]
    return np.where(both.overflowed, np.inf, np.maximum(*each))


def sweep_motions(
    region: Region,
    words: Sequence[int],
    *,
    steps: int = STEPS,
    count: int = TRAJECTORIES,
    options: AlgorithmOptions | None = None,
    results: Path | None = None,
    progress: Callable[[SweepProgress[DriftPoint]], Any] | None = None,
) -> list[DriftPoint]:
    """Measure the drift of a rollout at each word length.

    Args:
        region: Region that the trajectories stay in.
        words: Word lengths in bits.
        steps: Number of steps of a trajectory.
        count: Number of trajectories.
        options: Time step, integrator, forces and other options of a rollout.
        results: File to which every finished point is added, and from which an interrupted sweep continues.
        progress: Function that receives the state of the sweep before the first point and after each one.

    Raises:
        ToleranceError: The integrator does not converge even in the longest of the words.
        ArgumentError: A word length or a number is out of range, or integers refuse an option.
        SweepError: The results file is damaged or of another sweep.
    """
    options = AlgorithmOptions() if options is None else options
    for word in words:
        Policy(word=word)
    subject = {"robot": region.robot.name, "function": ROLLOUT, "region": region, "steps": steps, "trajectories": count}
    file = ResultsFile(results, {**subject, **options.as_dict()}, DriftPoint, _cell)
    measured = partial(_measured, region, steps, count, options, max(words, default=0))
    return file.completed([SweepCell(ROLLOUT, word) for word in words], measured, progress)


def _cell(point: DriftPoint) -> SweepCell:
    return SweepCell(ROLLOUT, point.word)


def _measured(
    region: Region, steps: int, count: int, options: AlgorithmOptions, longest: int, cells: Sequence[SweepCell]
) -> Iterator[Timed[DriftPoint]]:
    """Yield the point of each word length. longest: the word in which an integrator must converge."""

    def point(word: int) -> DriftPoint:
        try:
            dt = options.step(integrator=None).dt or 0.0
            return DriftPoint.of(drift(region, word, steps=steps, dt=dt, count=count, options=options))
        except ToleranceError as error:
            if word == longest:
                raise
            return DriftPoint.without_trajectories(word, error.text)

    return (timed(point, cell.word) for cell in cells)


COLUMNS: list[Column[DriftPoint]] = [
    Column("word", 5, lambda point: point.word),
    Column("median", 10, lambda point: point.median, ".1e"),
    Column("99 %", 10, lambda point: point.error, ".1e"),
    Column("position", 10, lambda point: point.position, ".1e"),
    Column("velocity", 10, lambda point: point.velocity, ".1e"),
    Column("energy", 10, lambda point: point.energy, ".1e"),
    Column("overflow", 10, lambda point: point.overflow, ".1e"),
    Column("unsolved", 10, lambda point: point.unsolved, ".1e"),
]
"""Columns of the table for a terminal."""
LEGEND = (
    "  median, 99 %: error of the state after the last step, relative to the motion; energy: relative to its range.",
    "  position, velocity: largest error in all steps, rad or m, rad/s or m/s. overflow, unsolved: of trajectories.",
)


def table(points: Sequence[DriftPoint]) -> str:
    """Return a table for the terminal: a line for each point, the units, and the words that do not converge."""
    reasons = [f"  {point.word} bits: {point.reason}" for point in points if point.reason]
    return "\n".join([*table_lines(COLUMNS, points), *LEGEND, *reasons])


def draw(points: Sequence[DriftPoint], title: str, path: Path, goal: float | None = None) -> None:
    """Draw the errors of states and energies against word length.

    Args:
        points: Results of a sweep.
        title: Title of the figure.
        path: File of the figure.
        goal: Relative error to mark, if any.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure(10, 4.4, "sweep")
    left, right = figure.subplots(1, 2)
    _curves(left, points, {"position, rad or m": "position", "velocity, rad/s or m/s": "velocity"})
    _curves(right, points, {"state, median": "median", f"state, {QUANTILE:.0%}": "error", "energy": "energy"})
    left.set_ylabel(f"largest error in {QUANTILE:.0%} of the trajectories")
    right.set_ylabel("relative error after the last step")
    if goal is not None:
        right.axhline(goal, color="#d55e00", linestyle=":", label=f"goal {goal:g}")
    for axes in (left, right):
        axes.set_xlabel("word length, bits")
        axes.xaxis.get_major_locator().set_params(integer=True)
        grid(axes)
        axes.legend()
    figure.suptitle(title, parse_math=False)
    saved(figure, path, [origin(f"dynagate {dynagate.__version__}, integer executor, no compiler")])


def _curves(axes: Any, points: Sequence[DriftPoint], fields: Mapping[str, str]) -> None:
    """Draw fields of the points on a logarithmic axis, by label; infinite errors are left out."""
    for label, name in fields.items():
        finite = [(point.word, value) for point in points if 0.0 < (value := asdict(point)[name]) < np.inf]
        axes.semilogy(*zip(*finite, strict=True) if finite else ((), ()), marker="o", markersize=3, label=label)


def shortest_word(
    region: Region,
    error: float = 1e-3,
    quantile: float = QUANTILE,
    *,
    steps: int = STEPS,
    dt: float = 5e-3,
    count: int = TRAJECTORIES,
    seed: int = 1,
) -> list[Drift]:
    """Search for the shortest word within an error, by bisection.

    Args:
        region: Region that the trajectories stay in.
        error: Largest error after the last step.
        quantile: Share of the trajectories within the error.
        steps: Number of steps of a trajectory.
        dt: Time step, s.
        count: Number of trajectories.
        seed: Seed of the trajectories.

    Returns:
        The drifts of all words that were tried; the last one is that of the shortest word within the error.

    Raises:
        ArgumentError: The longest word exceeds the error.
    """
    low, high, tried = SHORTEST - 1, LARGEST_WORD + 1, dict[int, Drift]()
    while high - low > 1:
        word = (low + high) // 2
        tried[word] = drift(region, word, steps=steps, dt=dt, count=count, seed=seed)
        if tried[word].end(quantile) <= error:
            high = word
        else:
            low = word
    if high > LARGEST_WORD:
        raise ArgumentError(
            f"words of {LARGEST_WORD} bits drift by {tried[LARGEST_WORD].end(quantile):.1e} in {steps} steps; expected "
            f"a larger error than {error:g}, or fewer steps",
            code="DG-ROLLOUT-002",
        )
    return [*(tried[word] for word in tried if word != high), tried[high]]
