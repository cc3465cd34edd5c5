"""Measure how far rollouts in integers drift from float64, by word length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from dynagate.fixedpoint.assign import LARGEST_WORD, Policy
from dynagate.fixedpoint.wordlength.results_file import ResultsFile
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.host.rollouts import Rollout, Trajectories
from dynagate.integrators.chip_motion import solves
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

    def end(self, quantile: float) -> float:
        """Return the error after the last step that this share of the trajectories keeps."""
        return float(np.quantile(self.errors[:, -1], quantile, method="higher"))


@dataclass(frozen=True)
class DriftPoint:
    """Drift of the trajectories of one word length, after their last step."""

    word: int
    """Word length in bits."""
    median: float
    """Median error of the state."""
    error: float
    """Error of the state at QUANTILE."""
    energy: float
    """Error of the energy at QUANTILE."""
    overflow: float
    """Share of the trajectories that overflow."""


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
        options: Integrator, forces and other options of a rollout on a pipeline.

    Raises:
        ArgumentError: A word length, a time step or a number is out of range, or integers refuse an option.
    """
    start = motions(region, steps, dt, count, seed)
    own: dict[str, Any] = {"steps": steps, "dt": dt}
    if options is not None:
        own |= {name: value for name, value in options.changed().items() if name != "dt"}
    exact = Rollout(region.robot, device="numpy", **own)(*start)
    fixed = Rollout(region.robot, device="fixed", region=region, policy=Policy(word=word), **own)(*start)
    for joint, at, _ in region.robot.moving():
        if region.robot.is_periodic(joint):  # angles that come back between -π and π
            fixed.q[..., at] += 2.0 * np.pi * np.round((exact.q[..., at] - fixed.q[..., at]) / (2.0 * np.pi))
    overflowed = fixed.diverged >= 0
    true = _energy(region.robot, exact.q, exact.qd)
    own_energy = _energy(region.robot, fixed.q[:, -1:], fixed.qd[:, -1:])[:, 0]
    scale = np.maximum(np.ptp(true, axis=1), np.finfo(float).tiny)
    return Drift(word, _errors(fixed, exact), np.where(overflowed, np.inf, np.abs(own_energy - true[:, -1]) / scale))


def _energy(robot: Robot, q: Array, qd: Array) -> Array:
    """Return kinetic plus potential energy, J, of states (trajectories, steps, ·)."""
    states = {"q": q.reshape(-1, q.shape[-1]), "qd": qd.reshape(-1, qd.shape[-1])}
    graphs = [trace(robot, name) for name in ENERGIES]
    parts = [evaluate(graph, {port.name: states[port.name] for port in graph.inputs})[graph.name] for graph in graphs]
    return np.asarray(sum(parts)).reshape(q.shape[:2])


def _errors(fixed: Trajectories, exact: Trajectories) -> npt.NDArray[Any]:
    each = [
        np.linalg.norm(a - b, axis=-1) / np.linalg.norm(np.ptp(b, axis=1), axis=-1)[:, None]
        for a, b in ((fixed.q, exact.q), (fixed.qd, exact.qd))
    ]
    errors = np.maximum(*each)
    step = np.arange(errors.shape[1])
    overflowed = (fixed.diverged >= 0)[:, None] & (step >= fixed.diverged[:, None])
    return np.where(overflowed, np.inf, errors)


def sweep_motions(
    region: Region,
    words: Sequence[int],
    *,
    steps: int = STEPS,
    count: int = TRAJECTORIES,
    options: AlgorithmOptions | None = None,
    results: Path | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> list[DriftPoint]:
    """Measure the drift of a rollout at each word length.

    Args:
        region: Region that the trajectories stay in.
        words: Word lengths in bits.
        steps: Number of steps of a trajectory.
        count: Number of trajectories.
        options: Time step, integrator, forces and other options of a rollout.
        results: File to which every finished point is added, and from which an interrupted sweep continues.
        progress: Function that receives the number of finished points and of all points.

    Raises:
        ArgumentError: A word length or a number is out of range, or integers refuse an option.
        SweepError: The results file is damaged or of another sweep.
    """
    options = AlgorithmOptions() if options is None else options
    for word in words:
        Policy(word=word)
    if solves(options):
        raise ArgumentError(
            f"integrator '{options.integrator}' of a sweep; expected an explicit one: `dynagate run ROBOT "
            "--function rollout --units 4` reports the drift of integrators that solve equations",
            code="DG-ROLLOUT-001",
        )
    subject = (region, steps, count, sorted(options.as_dict().items()))
    measured = partial(_measured, region, steps, count, options)
    return ResultsFile(results, subject, DriftPoint, _word).completed(words, measured, progress)


def _word(point: DriftPoint) -> int:
    return point.word


def _measured(
    region: Region, steps: int, count: int, options: AlgorithmOptions, words: Sequence[int]
) -> Iterator[DriftPoint]:
    """Yield the point of each word length."""
    for word in words:
        own = drift(region, word, steps=steps, dt=options.step().dt or 0.0, count=count, options=options)
        energy = float(np.quantile(own.energies, QUANTILE, method="higher"))
        yield DriftPoint(word, own.end(0.5), own.end(QUANTILE), energy, float(np.isinf(own.errors[:, -1]).mean()))


COLUMNS: list[Column[DriftPoint]] = [
    Column("word", 5, lambda point: point.word),
    Column("median", 10, lambda point: point.median, ".1e"),
    Column("99 %", 10, lambda point: point.error, ".1e"),
    Column("energy", 10, lambda point: point.energy, ".1e"),
    Column("overflow", 10, lambda point: point.overflow, ".1e"),
]
"""Columns of the table for a terminal."""


def table(points: Sequence[DriftPoint]) -> str:
    """Return a table for the terminal, with a line for each point."""
    return "\n".join(table_lines(COLUMNS, points))


def draw(points: Sequence[DriftPoint], title: str, path: Path, goal: float | None = None) -> None:
    """Draw the errors of states and energies against word length.

    Args:
        points: Results of a sweep.
        title: Title of the figure.
        path: File of the figure.
        goal: Error to mark, if any.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure(6, 4.4, "sweep")
    axes = figure.subplots()
    for label, name in (("state, median", "median"), (f"state, {QUANTILE:.0%}", "error"), ("energy", "energy")):
        finite = [(point.word, value) for point in points if 0.0 < (value := asdict(point)[name]) < np.inf]
        axes.semilogy(*zip(*finite, strict=True) if finite else ((), ()), marker="o", markersize=3, label=label)
    axes.set_xlabel("bits")
    axes.set_ylabel("error after the last step, relative to the motion")
    axes.xaxis.get_major_locator().set_params(integer=True)
    if goal is not None:
        axes.axhline(goal, color="#d55e00", linestyle=":", label=f"goal {goal:g}")
    grid(axes)
    axes.legend()
    figure.suptitle(title, parse_math=False)
    saved(figure, path, [origin(f"dynagate {dynagate.__version__}, integer executor, no compiler")])


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
