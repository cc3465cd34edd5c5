"""Refuse algorithms that are wrong in float32 for a robot.

The algorithms for serial chains lose digits with the length of the chain. Their results in float32 are therefore
compared with articulated bodies in float64 before they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.warned import warn
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.evaluate import evaluate
from dynagate.graph.graph import Graph, GraphWarning
from dynagate.graph.loop import evaluate_loop
from dynagate.graph.reference_gradient import relative_errors
from dynagate.graph.region import LimitError, Region
from dynagate.graph.scan_trace import trace_scan
from dynagate.graph.trace import trace
from dynagate.robot import Robot

LOSSY_FORMS = ("jsiia", "abia", "cfa", "cfa_refined")
"""Algorithms of forward dynamics whose error in float32 grows with the length of a chain."""
BASE = "forward_dynamics"
DERIVED = tuple(f"{BASE}_{product}" for product in ("vjp", "jvp", "second_order"))
"""Functions that are derived from forward dynamics, with the same algorithms."""
REFERENCE = "aba"
"""Algorithm that the others are compared with."""
MAX_ERROR = 1e-2
"""Largest accepted error of a state's accelerations, relative to their length."""
STATES, SEED = 32, 1
"""Number of drawn states that are compared, and their seed."""
SPEED = 1.0
"""Largest speed of a joint without a limit, in rad/s or m/s, for the states that are compared."""


def check_single_precision(robot: Robot, graph: Graph, algorithm: AlgorithmOptions, *, warns: bool = False) -> None:
    """Refuse a graph that is wrong in float32.

    Args:
        robot: The robot.
        graph: Graph of a function.
        algorithm: Options with which the graph was traced.
        warns: Warn instead of raising an error, for code that computes in float64 as well.

    Raises:
        ArgumentError: The accelerations of a drawn state differ by more than MAX_ERROR from those by REFERENCE. The
            message has the error and the length of chain up to which the algorithm is accurate.
    """
    form = algorithm.form
    if form not in LOSSY_FORMS:
        return
    if graph.name in DERIVED:  # derivatives of wrong accelerations are wrong
        algorithm = replace(AlgorithmOptions(), form=form)
        graph = trace(robot, BASE, algorithm)
    if graph.name != BASE or "qdd" not in [port.name for port in graph.outputs]:
        return
    error = _error(robot, graph, algorithm)
    if error <= MAX_ERROR:
        return
    longest = _accurate_length(robot, graph.name, algorithm)
    accurate = f", or a chain as long as its first {longest} links, which it computes" if longest else ""
    wrong = ArgumentError(
        f"form '{form}' in float32 errs by {100.0 * error:.2g} % for robot '{robot.name}', whose chain has "
        f"{len(robot.links)} links; at most {100.0 * MAX_ERROR:g} % is accepted, at {STATES} drawn states. Expected "
        f"float64, form '{REFERENCE}'{accurate}",
        code="DG-GRAPH-025",
    )
    if not warns:
        raise wrong
    warn(wrong.text, GraphWarning, code=wrong.code)


def check_step_form(robot: Robot, form: str | None, dtype: npt.DTypeLike) -> None:
    """Refuse time steps in float32 by an algorithm that is wrong for a robot, as `check_single_precision` does.

    Args:
        robot: The robot.
        form: Algorithm of forward dynamics in each step; None for the first.
        dtype: Type of the numbers.
    """
    if form in LOSSY_FORMS and np.dtype(dtype) == np.float32:
        algorithm = replace(AlgorithmOptions(), form=form)
        check_single_precision(robot, trace(robot, BASE, algorithm), algorithm)


def check_accelerations(robot: Robot, form: str, dynamics: Callable[[Array, Array, Array], Array]) -> None:
    """Refuse forward dynamics in float32 that are wrong for a robot.

    Args:
        robot: The robot.
        form: Name of the algorithm, for the error.
        dynamics: Function of q, q̇ and τ (states, nv) in float32 that returns q̈ (states, nv).

    Raises:
        ArgumentError: The accelerations of a drawn state differ by more than MAX_ERROR from those of articulated
            bodies in float64.
    """
    states = drawn_region(robot).sample("forward_dynamics", STATES, SEED)
    inputs = [states[name].astype(np.float32) for name in ("q", "qd", "tau")]
    loop = trace_scan(robot, "forward_dynamics")
    expected = evaluate_loop(loop, {port.name: states[port.name] for port in loop.inputs})["qdd"]
    with np.errstate(all="ignore"):
        error = float(relative_errors(dynamics(*inputs), expected).max())
    if not error <= MAX_ERROR:
        raise ArgumentError(
            f"{form} in float32 errs by {100.0 * error:.2g} % for robot '{robot.name}' of {len(robot.links)} links; "
            f"at most {100.0 * MAX_ERROR:g} % is accepted, at {STATES} drawn states. Expected float64, form 'scan', or "
            "a shorter chain",
            code="DG-GRAPH-026",
        )


def _error(robot: Robot, graph: Graph, algorithm: AlgorithmOptions) -> float:
    """Return the largest relative error of q̈ in float32 over drawn states; infinity if a result is not finite."""
    states = drawn_region(robot).states(graph, STATES, SEED)
    expected = evaluate(trace(robot, graph.name, replace(algorithm, form=REFERENCE)), states)["qdd"]
    with np.errstate(all="ignore"):
        rough = evaluate(graph, {name: value.astype(np.float32) for name, value in states.items()})["qdd"]
        error = float(relative_errors(rough, expected).max())
    return error if np.isfinite(error) else float("inf")


def drawn_region(robot: Robot) -> Region:
    """Return the region that the compared states are drawn from: speeds up to SPEED where the file has no limit."""
    try:
        return Region.of(robot)
    except LimitError as error:
        return Region.of(robot, velocity=dict.fromkeys(error.joints, SPEED))


def _accurate_length(robot: Robot, function: str, algorithm: AlgorithmOptions) -> int:
    """Return how many links of the chain, from the base, an algorithm computes accurately in float32."""
    plain = Robot(robot.name, robot.links, gravity=robot.gravity)
    options = replace(AlgorithmOptions(), form=algorithm.form)

    def accurate(links: int) -> bool:
        part = replace(plain, links=plain.links[:links])
        return _error(part, trace(part, function, options), options) <= MAX_ERROR

    longest, shortest_wrong = 0, len(robot.links)
    for links in _doubled(len(robot.links)):
        if not accurate(links):
            shortest_wrong = links
            break
        longest = links
    while shortest_wrong - longest > 1:
        middle = (longest + shortest_wrong) // 2
        longest, shortest_wrong = (middle, shortest_wrong) if accurate(middle) else (longest, middle)
    return longest


def _doubled(end: int) -> Iterator[int]:
    """Yield 1, 2, 4 and so on below an end: short chains cost less to trace."""
    links = 1
    while links < end:
        yield links
        links *= 2
