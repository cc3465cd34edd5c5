"""Choose formats and a tolerance for motions whose steps solve equations iteratively."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

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
from dynagate.integrators.chip_motion import FAILURES, STATE, ChipMotion, extra
from dynagate.integrators.methods import method_of
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
    method = method_of(options.method)
    least: float = method.tolerance  # type: ignore[attr-defined]
    tolerance = least * 2.0 ** max(32 - policy.word, 0)
    while tolerance <= method.largest_tolerance:
        motion = ChipMotion.of(robot, options, policy.word, tolerance)
        formatted = _formatted(motion, region, policy)
        if _meets(motion, formatted, region):
            return replace(options, tolerance=tolerance), formatted
        tolerance *= 4.0
    raise ToleranceError(
        f"integrator '{options.integrator}' of {robot.name} does not converge in words of {policy.word} bits, even to "
        f"tolerance {tolerance / 4.0:.1e}; expected a longer word, another dt or a tolerance of your own",
        code="DG-CORE-011",
    )


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


def _meets(motion: ChipMotion, formatted: FormattedLoop, region: Region) -> bool:
    """Return whether nearly all steps converge in integers, of those that converge in float64."""
    q, qd, tau = _starts(motion, region, CHECKED, ITERATIONS, 2)
    integers = LoopTrajectories(formatted, integers_of(formatted, motion.begun(q, qd)))
    failed, flagged = np.zeros(len(q)), np.zeros(len(q), dtype=bool)
    for iteration in range(ITERATIONS):
        values, flagged = integers.advance(integers_of(formatted, {"tau": tau[:, iteration]}))
        failed = values_of(values[FAILURES], ())
    good = ~flagged
    if good.sum() < 0.5 * len(q):
        return False
    few = motion.method.unsolved
    if (failed[good] > 0).mean() <= few:
        return True
    solved = motion.solved(q[good], qd[good], tau[good])
    return bool(solved.any() and (failed[good][solved] > 0).mean() <= few)
