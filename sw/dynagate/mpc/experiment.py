"""Study of the narrowest number formats with which a controller still works, for each policy of choosing formats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dynagate.base.progress import Progress, quiet
from dynagate.base.text_table import Column, table_lines
from dynagate.fixedpoint.assign import ONE_WORD, Policy
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_fixed
from dynagate.fixedpoint.wordlength.goal import Goal
from dynagate.fixedpoint.wordlength.optimize import AccuracyError, optimize
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.mpc.problem import Derivatives, Reach, ReachSolution, solve, track
from dynagate.robot import Robot

FUNCTION = "forward_dynamics_gradient"
"""Function that the controller calls."""
REACHES = {
    "iiwa14": Reach((0.0, 0.5, 0.0, -1.2, 0.0, 0.8, 0.0), (1.0, -0.3, 0.6, -0.6, 0.5, -0.4, 0.9)),
    "two_joint_arm": Reach((0.3, 0.2), (-1.0, 1.1)),
}
CLOSE = 0.01
"""Largest relative increase of the cost, against float64 derivatives, that counts as the same solution."""


@dataclass(frozen=True)
class LoopOutcome:
    """Result of one policy at one setting."""

    policy: str
    """Name of the policy."""
    setting: float
    """Word length in bits, or the error for "optimized"."""
    words: tuple[int, int]
    """Shortest and longest word length in bits."""
    success: bool
    """Whether the solver converged."""
    iterations: int
    """Number of solver iterations."""
    cost: float
    """Cost of the trajectory, rolled out in float64."""
    same: bool
    """Whether the cost is within CLOSE of float64's."""
    tracking: float
    """RMS tracking error of the disturbed controller in rad; infinite if it fails."""


def exact(robot: Robot) -> Derivatives:
    """Return derivatives in float64."""
    graph = trace(robot, FUNCTION)
    return lambda state: evaluate(graph, state)


def rounded(formatted: FormattedGraph) -> Derivatives:
    """Return derivatives from the integers that the hardware computes."""
    return lambda state: evaluate_fixed(formatted, state).outputs


@contextmanager
def simulated(
    robot: Robot, formatted: FormattedGraph, region: Region, progress: Progress = quiet
) -> Iterator[Derivatives]:
    """Yield derivatives from the datapath with these formats, built and simulated by Verilator.

    Raises:
        SimulationError: The simulation cannot be built or fails.
    """
    from dynagate.design.files import load_datapath
    from dynagate.fixedpoint.models.evaluate import quantize_inputs
    from dynagate.fixedpoint.models.files import write_formats
    from dynagate.host.drivers import DatapathSession
    from dynagate.host.sim_links import SimLink
    from dynagate.host.words import unpack_outputs
    from dynagate.hw.build import build_request
    from dynagate.hw.request import DesignRequest
    from dynagate.sim.runner import input_payloads
    from dynagate.sim.verilate import library

    with TemporaryDirectory() as scratch:
        file = Path(scratch) / "formats.json"
        write_formats(formatted, file)
        built = build_request(DesignRequest(robot, FUNCTION, formats=file, region=region), progress=progress)
    design = load_datapath(built.folder)
    session = DatapathSession(design, SimLink(library(built.module("datapath"), progress=progress), design))
    driver = session.driver()

    def streamed(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        # iterates can leave the region: numbers too large for an input's format saturate, as in `rounded`
        return unpack_outputs(design, driver.payloads(input_payloads(built, quantize_inputs(formatted, state))))[0]

    try:
        yield streamed
    finally:
        session.close()


def experiment(
    robot: Robot,
    reach: Reach,
    region: Region,
    settings: dict[str, Sequence[float]],
    progress: Progress = quiet,
) -> tuple[ReachSolution, list[LoopOutcome]]:
    """Return the float64 solution, and the outcome of float64 and of each policy and setting.

    Formats are chosen for the region and for the states that the float64 controller visited.

    Args:
        robot: The robot.
        reach: The reaching problem.
        region: The operating region.
        settings: Settings by policy: word lengths for "global", "word" and "rtl" (the simulated datapath), errors for
            "optimized".
        progress: Function that receives a line of text before each slow stage.
    """
    progress("float64")
    visited: dict[str, list[np.ndarray]] = {"q": [], "qd": [], "tau": []}
    derivatives = _recording(exact(robot), visited)
    reference = solve(robot, reach, derivatives)
    tracking = _tracking(robot, reach, derivatives)
    trajectories = {name: np.concatenate(parts) for name, parts in visited.items()}
    outcomes = [LoopOutcome("float64", 64, (64, 64), True, reference.iterations, reference.cost, True, tracking)]
    graph = trace(robot, FUNCTION)
    for policy, values in settings.items():
        for value in values:
            progress(f"{policy} {value:g}")
            try:
                formatted = _formats(graph, region, policy, value, trajectories)
            except AccuracyError:
                continue
            rtl = policy == "rtl"
            with (
                simulated(robot, formatted, region, progress) if rtl else nullcontext(rounded(formatted)) as derivatives
            ):
                solved = solve(robot, reach, derivatives)
                tracking = _tracking(robot, reach, derivatives)
            widths = [f.width for f in formatted.formats]
            same = solved.success and solved.cost <= (1.0 + CLOSE) * reference.cost
            outcomes.append(
                LoopOutcome(
                    policy,
                    value,
                    (min(widths), max(widths)),
                    solved.success,
                    solved.iterations,
                    solved.cost,
                    same,
                    tracking,
                )
            )
    return reference, outcomes


def _tracking(robot: Robot, reach: Reach, derivatives: Derivatives) -> float:
    """Return the tracking error around the reach's goal for 2 s, with its sway at half a period per second and its
    noise.
    """
    goal, rate = np.array(reach.goal), np.pi
    sway = np.broadcast_to(reach.sway, goal.shape)

    def path(t: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        wave = np.sin(rate * t), rate * np.cos(rate * t), -(rate**2) * np.sin(rate * t)
        return goal + sway * wave[0], sway * wave[1], sway * wave[2]

    with np.errstate(all="ignore"):
        errors = track(robot, path, derivatives, plans={"noise": reach.noise})
    return float(np.sqrt(np.mean(np.square(errors)))) if np.isfinite(errors).all() else math.inf


def _recording(derivatives: Derivatives, visited: dict[str, list[np.ndarray]]) -> Derivatives:
    """Return derivatives that also record every state at which they are evaluated."""

    def recorded(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        for name, values in state.items():
            visited[name].append(values)
        return derivatives(state)

    return recorded


def _formats(
    graph: Any, region: Region, policy: str, value: float, trajectories: dict[str, np.ndarray]
) -> FormattedGraph:
    """Return the number formats that a policy chooses at one setting."""
    if policy == "optimized":
        return optimize(graph, region, Goal(value), trajectories=trajectories).formatted
    return ONE_WORD["word" if policy == "rtl" else policy](graph, region, Policy(word=int(value)), trajectories)


COLUMNS: list[Column[LoopOutcome]] = [
    Column("policy", 12, lambda outcome: outcome.policy, left=True),
    Column("setting", 9, lambda outcome: outcome.setting, "g"),
    Column("words", 9, lambda outcome: f"{outcome.words[0]}-{outcome.words[1]}"),
    Column("success", 9, lambda outcome: str(outcome.success)),
    Column("iterations", 12, lambda outcome: outcome.iterations),
    Column("cost", 13, lambda outcome: outcome.cost if np.isfinite(outcome.cost) else None, ".6g"),
    Column(f"within {CLOSE:.0%}", 11, lambda outcome: "yes" if outcome.same else "no"),
    Column("tracking", 11, lambda outcome: outcome.tracking, ".5f"),
]
"""Columns of the printed table."""


def table(reference: ReachSolution, outcomes: Sequence[LoopOutcome]) -> str:
    """Return a table of the outcomes."""
    lines = [
        f"float64: {'converged' if reference.success else 'not converged'} in {reference.iterations} iterations, "
        f"cost {reference.cost:.6g}",
        *table_lines(COLUMNS, outcomes),
    ]
    return "\n".join(lines)
