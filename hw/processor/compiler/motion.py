"""Choose formats and a tolerance for motions whose steps solve equations iteratively."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.fuse import angle_format
from dynagate.fixedpoint.models.loops import (
    FormattedLoop,
    LoopTrajectories,
    Observed,
    assign_loop,
    integers_of,
    observe,
    values_of,
)
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.region import KINDS, Region
from dynagate.hw.processor.isa.shape import LARGEST_WORD
from dynagate.integrators.chip_motion import FAILURES, STATE, ChipMotion, extra
from dynagate.integrators.methods import method_of
from dynagate.integrators.motion import Integrator
from dynagate.robot import Robot

ITERATIONS = 4
"""Steps of each trajectory that formats come from."""
USUAL, ABOVE = 0.95, 4.0
"""Quantile of a scattered value, and the factor of it beyond which a motion does not count."""
BEYOND = 1 / 16
"""Share of its limits by which a motion may leave the region and still count: a step from the border leaves it at once.
"""
CHECKED = 96
"""Number of trajectories of each kind on which a tolerance is tried."""


MOST_OVERFLOWS = 0.5
"""Largest share of the trajectories that may overflow."""
BELOW = 0.5
"""Part of the residual of rounding below which no tolerance is tried."""
RESIDUAL_OF_STEP = extra("residual")


class ToleranceError(ArgumentError):
    """No tolerance exists that the integers meet; the text suggests a remedy."""


def motion_and_formats(
    robot: Robot, options: AlgorithmOptions, region: Region, policy: Policy
) -> tuple[AlgorithmOptions, FormattedLoop]:
    """Return the options of a motion with its tolerance, and the formats of its steps in one word length.

    Unless the options have a tolerance, it is the smallest of a series that the integers meet in nearly all steps from
    states of the region.

    Raises:
        ToleranceError: The integers meet no tolerance of the series.
        ArgumentError: The integrator does not run on a processor.
    """
    if options.tolerance is not None:
        motion = ChipMotion.of(robot, options, policy.word, options.tolerance)
        return options, _formatted(motion, region, policy)
    method, word = method_of(options.method), policy.word
    least, left = _least_residual(robot, options, word), Unsolved()
    for tolerance in _tolerances(method, word):
        if tolerance < BELOW * least:
            continue
        motion = ChipMotion.of(robot, options, word, tolerance)
        formatted = _formatted(motion, region, policy)
        left = _unsolved(motion, formatted, region)
        if left.few:
            return replace(options, tolerance=tolerance), formatted
    wider = _wider_word(robot, options, region, policy)
    expected = f"words of {wider} bits" if wider else f"another dt: words of {LARGEST_WORD} bits do not suffice either"
    raise ToleranceError(
        f"integrator '{options.integrator}' of {robot.name} does not converge in words of {word} bits, even to "
        f"tolerance {tolerance:.1e}: {left}; expected {expected}, or a tolerance of your own",
        code="DG-CORE-011",
    )


def _tolerances(method: Integrator, word: int) -> list[float]:
    """Return the tolerances that integers of a word length may have, smallest first."""
    first: float = method.tolerance * 2.0 ** max(32 - word, 0)  # type: ignore[attr-defined]
    series = (first * 4.0**k for k in range(64))
    return [each for each in series if each <= method.largest_tolerance] or [method.largest_tolerance]


def _least_residual(robot: Robot, options: AlgorithmOptions, word: int) -> float:
    """Return the residual that rounding leaves. Raise ToleranceError if each tolerance of the word length is less."""
    method, dt = method_of(options.method), options.step(integrator=None).dt
    if dt is None:
        return 0.0  # `ChipMotion.of` refuses it

    def fits(bits: int, step: float) -> bool:
        return method.least_residual(robot, step, bits) <= _tolerances(method, bits)[-1]

    least = method.least_residual(robot, dt, word)
    if fits(word, dt):
        return least
    wider = next((bits for bits in range(word + 1, LARGEST_WORD + 1) if fits(bits, dt)), None)
    longer = next((step for k in range(1, 64) if fits(word, step := dt * 1.25**k)), dt)
    words = "" if wider is None else f"words of {wider} bits, "
    raise ToleranceError(
        f"integrator '{options.integrator}' of {robot.name} does not converge in words of {word} bits: in steps of "
        f"{dt:g} s, rounding leaves a residual of {least:.1e}, above the largest "
        f"tolerance, {_tolerances(method, word)[-1]:.1e}; expected {words}dt={longer:.2g}, or a tolerance of your own",
        code="DG-CORE-035",
    )


def _wider_word(robot: Robot, options: AlgorithmOptions, region: Region, policy: Policy) -> int | None:
    """Return the shortest longer word, of those with an even number of bits, in which most steps converge; None if
    there is no such word.
    """
    words, method = range(policy.word + 2 & ~1, LARGEST_WORD + 1, 2), method_of(options.method)

    def converges(word: int) -> bool:
        motion = ChipMotion.of(robot, options, word, _tolerances(method, word)[-1])
        return _unsolved(motion, _formatted(motion, region, replace(policy, word=word)), region).few

    at = bisect_left(words, True, key=converges)
    return words[at] if at < len(words) else None


def angles_of(graphs: Iterable[FormattedGraph], word: int) -> Format:
    """Return the common format of all angles in a program's graphs."""
    return min((angle_format(graph, word) for graph in graphs), key=lambda angle: angle.frac)


def _starts(motion: ChipMotion, region: Region, count: int, iterations: int, seed: int) -> tuple[Array, Array, Array]:
    """Draw q, qd (batch, ·) of each kind, and constant torques (batch, iterations, nv)."""
    samples = [motion.starts(region, count, seed, kind) for kind in KINDS]
    q, qd, tau = (np.concatenate([sample[name] for sample in samples]) for name in ("q", "qd", "tau"))
    return q, qd, np.repeat(tau[:, None], iterations, axis=1)


def _formatted(motion: ChipMotion, region: Region, policy: Policy) -> FormattedLoop:
    """Return the steps of a motion with formats that hold the sampled trajectories."""
    q, qd, tau = _starts(motion, region, max(policy.samples // len(KINDS) // ITERATIONS, 1), ITERATIONS, policy.seed)
    region = replace(region, velocity=tuple(motion.method.faster * v for v in region.velocity))
    lower, upper, fastest = (np.array(x) for x in (region.lower, region.upper, region.velocity))

    def stays(values: Mapping[str, Array]) -> Array:
        """Return the trajectories that converge and leave the region by at most BEYOND."""
        place, speed = (values[name] for name in STATE)
        more = BEYOND * (upper - lower)
        inside = ((place >= lower - more) & (place <= upper + more)).all(axis=1)
        inside &= (np.abs(speed) <= (1.0 + BEYOND) * fastest).all(axis=1)
        for name in motion.motion.scattered:
            inside &= _usual(values[extra(name)])
        return np.asarray(inside & (values[FAILURES] == 0.0))

    observed = observe(motion.blocks, motion.begun(q, qd), {"tau": tau}, stays)
    if not observed.inputs:
        raise ToleranceError(
            f"no step of {motion.robot.name} from its region converges within it; expected a shorter dt, or a larger "
            "tolerance",
            code="DG-CORE-012",
        )
    spread(observed, motion.reach(), policy.seed)
    return assign_loop(motion.blocks, observed, region, policy)


def _usual(values: Array) -> Array:
    """Return the rows (batch,) of a value (batch, ·) that are not far above most of those with another value than 0."""
    largest = np.abs(values).reshape(len(values), -1).max(axis=1)
    some = largest[np.isfinite(largest) & (largest > 0.0)]
    return np.asarray(largest <= ABOVE * np.quantile(some, USUAL)) if len(some) else np.ones(len(values), dtype=bool)


def spread(observed: Observed, reach: Mapping[str, float], seed: int) -> None:
    """Widen the sample of some inputs: replace a quarter of their rows by values up to the largest that they can have.

    Args:
        observed: Inputs of all graphs, as observed. They are changed.
        reach: Largest value of each input, by name.
        seed: Seed of the replaced values.
    """
    random = np.random.default_rng(seed)
    for inputs in (inputs for batches in observed.inputs.values() for inputs in batches):
        for name in sorted(inputs.keys() & reach.keys()):  # the order of draws decides formats
            own = inputs[name].copy()
            rows = random.random(len(own)) < 0.25
            own[rows] = random.uniform(0.0, reach[name], own[rows].shape)
            inputs[name] = own


@dataclass(frozen=True)
class Unsolved:
    """Trajectories with a step that float64 solves and integers do not.

    few: Whether they are so few that the tolerance fits. share: Their share, of those without overflow. step: Step in
    which most of them occur. residual: Their median residual in that step, relative to the tolerance; None if steps
    report no residual. overflows: Share of the trajectories with an overflow, if it is too large.
    """

    few: bool = False
    share: float = 0.0
    step: int = 0
    residual: float | None = None
    overflows: float = 0.0

    def __str__(self) -> str:
        """Return the reason, as errors print it."""
        if self.overflows:
            return f"{self.overflows:.0%} of the trajectories overflow within {ITERATIONS} steps"
        if not self.share:
            return f"float64 solves {ITERATIONS} steps of no trajectory"
        rest = "" if self.residual is None else f", with a residual of {self.residual:.3g} times the tolerance"
        return f"{self.share:.1%} of the trajectories stay above it, most of them in step {self.step}{rest}"


def _unsolved(motion: ChipMotion, formatted: FormattedLoop, region: Region) -> Unsolved:
    """Return which steps do not converge in integers, of those that converge in float64."""
    q, qd, tau = _starts(motion, region, CHECKED, ITERATIONS, 2)
    integers = LoopTrajectories(formatted, integers_of(formatted, motion.begun(q, qd)))
    failures, residuals, flagged = [np.zeros(len(q))], [], np.zeros(len(q), dtype=bool)
    for iteration in range(ITERATIONS):
        values, flagged = integers.advance(integers_of(formatted, {"tau": tau[:, iteration]}))
        failures.append(values_of(values[FAILURES], ()))
        if RESIDUAL_OF_STEP in values:
            residuals.append(values_of(values[RESIDUAL_OF_STEP], ()))
    good, failed, most = ~flagged, failures[-1] > 0, motion.method.unsolved
    if flagged.mean() > MOST_OVERFLOWS:
        return Unsolved(overflows=float(flagged.mean()))
    if failed[good].mean() <= most:
        return Unsolved(few=True)
    solved = good.copy()
    solved[good] = motion.solved(q[good], qd[good], tau[good])
    failed &= solved
    share = float(failed.sum() / max(solved.sum(), 1))
    if share <= most:
        return Unsolved(few=bool(solved.any()))
    fresh = np.diff(np.stack(failures), axis=0) > 0
    step = int((fresh & failed).sum(axis=1).argmax())
    residual = float(np.median(residuals[step][fresh[step] & failed])) if residuals else None
    return Unsolved(False, share, step + 1, residual)
