"""Packages of portable C and C++ from graphs and loops, with test vectors in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.untrusted import plain_text
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.graph.loop import Loop, evaluate_loop
from dynagate.graph.region import Region
from dynagate.native.package_content import STATES, Package, ReferenceVectors
from dynagate.native.portable import PortableStep, arguments_of, graph_body
from dynagate.native.portable_loop import PortableLoop
from dynagate.native.portable_sampling import PortableSampling
from dynagate.native.source import kernel_name
from dynagate.robot import Robot

MARGIN = 16
"""Factor from the float32 error that numpy makes on the test vectors to the error that the test accepts: compilers may
fuse products and sums, and mathematical libraries differ in the last place."""

LOOP_TOLERANCE, LOOP_TOLERANCE_SINGLE = 1e-6, 1e-2
"""Error that the test of a loop accepts in float64 and in float32: each iteration carries on the errors of the others.
Solvers are not compared in float32, because they end after another number of iterations."""

LEAST_TOLERANCE = {"f32": 1e-4, "f64": 1e-9}
"""Smallest error that the test accepts, relative to the largest entry of an output, by precision."""


def graph_package(graph: Graph, robot: Robot, region: Region) -> Package:
    """Return the package of a graph.

    Args:
        graph: The function.
        robot: Its robot, for the comments.
        region: The operating region that the states of the test are drawn from.
    """
    name, arguments, step = kernel_name(graph), arguments_of(graph), PortableStep(graph, "sample")
    return Package(
        name,
        f"{plain_text(graph.robot)} {graph.name}",
        robot,
        arguments,
        list(graph_body(step, name, arguments)),
        _vectors(graph, region),
        step.program.slots,
    )


def loop_package(
    loop: Loop,
    robot: Robot,
    problems: Mapping[str, Array],
    *,
    fixed: Mapping[str, Array] | None = None,
    same: Mapping[str, str] | None = None,
) -> Package:
    """Return the package of a loop, such as a rollout or a solver.

    Args:
        loop: The loop.
        robot: Its robot, for the comments.
        problems: Loop inputs of the test by name, (batch, *shape). Those of each iteration have the shape
            (batch, iterations, *shape).
        fixed: Inputs that are constants of the emitted function, (1, *shape) by name.
        same: Loop input -> loop input that always has the same values.
    """
    name, fixed = kernel_name(loop), fixed or {}
    problems = {k: _of_test(np.asarray(x, np.float64)) for k, x in problems.items() if k not in fixed}
    text = PortableLoop(loop, name, fixed, same or {})
    expected = evaluate_loop(loop, {**{k: np.repeat(x, STATES, axis=0) for k, x in fixed.items()}, **problems})
    compared = {"f64": LOOP_TOLERANCE, "f32": LOOP_TOLERANCE_SINGLE if text.checks else math.inf}
    own = {each.port.name for each in text.arguments if not each.is_output}
    return Package(
        name,
        f"{plain_text(loop.robot)} {loop.name}",
        robot,
        text.arguments,
        list(text.body()),
        ReferenceVectors(
            {name: value for name, value in problems.items() if name in own},
            expected,
            {suffix: dict.fromkeys(expected, error) for suffix, error in compared.items()},
        ),
        workspace=text.workspace,
        counts=text.counts,
        iterations=loop.iterations(problems),
        reports=text.checks,
    )


def sampling_package(
    text: PortableSampling, robot: Robot, problems: Mapping[str, Array], expected: Mapping[str, Array]
) -> Package:
    """Return the package of sampled rollouts.

    Args:
        text: The C.
        robot: Its robot, for the comments.
        problems: Inputs of the test by name, (STATES, *shape).
        expected: Results of the test by name, (STATES, *shape). They are not compared in float32, whose rounding
            changes the weights.
    """
    loop = text.loop.loop
    tolerances = {"f64": dict.fromkeys(expected, LEAST_TOLERANCE["f64"]), "f32": dict.fromkeys(expected, math.inf)}
    return Package(
        text.name,
        f"{plain_text(loop.robot)} {loop.name}",
        robot,
        text.arguments,
        list(text.body()),
        ReferenceVectors(problems, expected, tolerances),
        workspace=text.workspace,
        reports=False,
    )


def _of_test(array: Array) -> Array:
    """Return STATES problems: the first ones of an array (batch, ...), again and again if it has fewer."""
    return array[np.arange(STATES) % len(array)]


def _vectors(graph: Graph, region: Region) -> ReferenceVectors:
    states = region.states(graph, STATES, seed=1)
    expected = evaluate(graph, states)
    rough = evaluate(graph, {name: value.astype(np.float32) for name, value in states.items()})
    errors = {name: _error(rough[name], value) for name, value in expected.items()}
    return ReferenceVectors(
        states,
        expected,
        {
            suffix: {name: max(least, MARGIN * errors[name] * (suffix == "f32")) for name in expected}
            for suffix, least in LEAST_TOLERANCE.items()
        },
    )


def _error(actual: Array, expected: Array) -> float:
    """Return the largest error relative to the largest entry, 0 if there are no entries."""
    scale = float(np.abs(expected).max(initial=0.0))
    return float(np.abs(actual - expected).max(initial=0.0)) / scale if scale else 0.0
