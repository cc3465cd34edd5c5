"""Random reaching problems for any robot, near enough for its speed and torque limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.base.progress import Progress, quiet
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.mpc.problem import Derivatives, Reach, solve
from dynagate.robot import Robot, RobotError

TRIES = 20
"""Number of seeds that are tried until the float64 controller reaches the goal within the limits."""

NEAR = 0.1
"""Time in s at its largest speed that a joint travels. The controller is about ten times as fast on average."""

MARGIN = 0.1
"""Fraction of a joint's range at each end in which no configuration is drawn."""

SHAKE = 10.0
"""Largest acceleration of a joint by the torque noise, rad/s² or m/s²."""


@dataclass(frozen=True)
class DrawnReach:
    """A reaching problem on which the float64 controller converges."""

    reach: Reach
    """The problem."""
    seed: int
    """Seed that drew it."""
    load: float
    """Largest ratio of a torque to its effort limit, 0 without limits."""
    inside: bool
    """Whether the motion satisfies the position and effort limits."""

    def text(self) -> str:
        """Return a description in one line."""
        seconds = self.reach.knots * self.reach.dt
        text = f"reach of seed {self.seed}, {seconds:g} s, torques up to {self.load:.0%} of the effort limits"
        return text if self.inside else f"{text}: not within all limits, which no seed that was tried keeps"


Posture = Mapping[str, float]
"""Positions by joint, rad or m."""


def drawn(
    robot: Robot,
    region: Region,
    seed: int,
    *,
    seconds: float = 1.0,
    start: Posture | None = None,
    goal: Posture | None = None,
) -> Reach:
    """Return a random reaching problem inside the region's positions, which the seed determines.

    Args:
        robot: The robot.
        region: The operating region.
        seed: Seed of the random numbers.
        seconds: Length of the motion, s.
        start: First positions of some joints, instead of random ones.
        goal: Last positions of some joints, instead of random ones.

    Raises:
        RobotError: The robot has quaternions, or a joint is unknown or outside its limits.
    """
    low, high = _range(robot, region)
    margin = MARGIN * (high - low)
    random = np.random.default_rng(seed)
    first = random.uniform(low + margin, high - margin)
    step = np.minimum(0.5 * (high - low), NEAR * np.array(region.velocity))
    last = random.uniform(np.maximum(low + margin, first - step), np.minimum(high - margin, first + step))
    first = _with(robot, region, "start", first, start)
    last = _with(robot, region, "goal", last, goal)
    minv = evaluate(trace(robot, "mass_matrix_inverse"), {"q": last[None]})["minv"][0]
    return Reach(
        start=tuple(first.tolist()),
        goal=tuple(last.tolist()),
        knots=knots(seconds),
        sway=tuple(np.minimum(0.3, 0.25 * (high - low)).tolist()),
        noise=tuple(np.minimum(1.0, SHAKE / np.diagonal(minv)).tolist()),
    )


def changed(
    robot: Robot,
    region: Region,
    kept: Reach,
    *,
    seconds: float = 1.0,
    start: Posture | None = None,
    goal: Posture | None = None,
) -> Reach:
    """Return a reaching problem with the positions of some joints and its time replaced. Raise RobotError as `drawn`
    does.
    """
    return replace(
        kept,
        start=tuple(_with(robot, region, "start", np.array(kept.start), start).tolist()),
        goal=tuple(_with(robot, region, "goal", np.array(kept.goal), goal).tolist()),
        knots=knots(seconds),
    )


def knots(seconds: float) -> int:
    """Return the number of steps in this many seconds."""
    return max(round(seconds / Reach.dt), 1)


def find(
    robot: Robot,
    region: Region,
    derivatives: Derivatives,
    seed: int,
    progress: Progress = quiet,
    **choices: Any,
) -> DrawnReach:
    """Return the first reaching problem, from a seed on, that the controller solves within the limits.

    If none of TRIES seeds gives one, the result is the problem with the smallest torques.

    Args:
        robot: The robot.
        region: The operating region.
        derivatives: Derivatives that the controller uses.
        seed: First seed.
        progress: Function that receives a line of text before each slow stage.
        choices: Options of `drawn`.

    Raises:
        RobotError: See `drawn`; or the controller converges on none.
    """
    best: DrawnReach | None = None
    low, high = (np.array(limits) for limits in (region.lower, region.upper))
    for number in range(seed, seed + TRIES):
        progress(f"reach of seed {number}")
        reach = drawn(robot, region, number, **choices)
        solution = solve(robot, reach, derivatives)
        if not solution.success:
            continue
        postures = solution.states[:, : robot.nv]
        load = _load(robot, solution.torques)
        inside = load <= 1.0 and bool(((low <= postures) & (postures <= high)).all())
        candidate = DrawnReach(reach, number, load, inside)
        if inside:
            return candidate
        best = min((best or candidate, candidate), key=lambda reach: reach.load)
    if best is None:
        raise RobotError(
            f"robot '{robot.name}': the float64 controller converges on no reach of seeds {seed} to "
            f"{seed + TRIES - 1}; expected more seconds, or a start and a goal that it masters",
            code="DG-MPC-008",
        )
    return best


def _range(robot: Robot, region: Region) -> tuple[Floats, Floats]:
    """Return lower and upper positions; a wide range is cut to one rotation around the position nearest to zero."""
    if robot.nq != robot.nv:
        raise RobotError(
            f"robot '{robot.name}' has quaternions; expected joints of one degree of freedom", code="DG-MPC-009"
        )
    robot.check_uncoupled("the closed loop")
    low, high = np.array(region.lower), np.array(region.upper)
    middle = np.clip(0.0, low, high)
    return np.maximum(low, middle - math.pi), np.minimum(high, middle + math.pi)


def _with(robot: Robot, region: Region, name: str, posture: Floats, positions: Posture | None) -> Floats:
    """Return a configuration with the positions of some joints replaced."""
    joints = [link.joint.name for link in robot.links]
    result = posture.copy()
    for joint, position in (positions or {}).items():
        if joint not in joints:
            raise RobotError(
                f"{name} names joint '{joint}', which robot '{robot.name}' does not have", code="DG-MPC-010"
            )
        i = joints.index(joint)
        if not region.lower[i] <= position <= region.upper[i]:
            raise RobotError(
                f"{name} of joint '{joint}' is {position:g}; expected {region.lower[i]:g} to {region.upper[i]:g}",
                code="DG-MPC-011",
            )
        result[i] = position
    return result


def _load(robot: Robot, torques: Floats) -> float:
    limits = np.array([link.joint.effort or math.inf for link in robot.links])
    return float((np.abs(torques) / limits).max())
