"""Openers of functions for devices that compute graphs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress, quiet
from dynagate.base.request_key import request_key
from dynagate.dynamics import function as function_row
from dynagate.dynamics.functions.record import SCAN
from dynagate.graph import Graph, trace
from dynagate.graph.kept_graph import KeptGraph
from dynagate.graph.loop import Loop
from dynagate.graph.single_precision import check_single_precision
from dynagate.host.devices.face import Executor
from dynagate.host.devices.options import Opener
from dynagate.host.devices.parts import FunctionsDevice
from dynagate.host.devices.scan import loop_over_links
from dynagate.host.devices.sources import FunctionSource
from dynagate.native.cache import keep, read_kept

GraphOf = Callable[[FunctionSource, Any, Progress], Graph]


def traced(source: FunctionSource, options: Any, progress: Progress) -> Graph:
    """Return the graph of a function.

    Args:
        source: The function.
        options: Options of the device, which are not used.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The graph.
    """
    return trace(source.robot, source.function, source.algorithm, progress=progress)


FEWEST_LINKS, FEWEST_NODES = 6, 5000
"""Links of a robot, and operations of a graph, from which on the cache keeps facts. Smaller ones are traced at once."""


def kept_graph(source: FunctionSource, options: Any, progress: Progress) -> Graph:
    """Return the graph of a function. If an earlier process opened the function, its operations are traced when needed.

    Args:
        source: The function.
        options: Options of the device, which are not used.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The graph.
    """
    robot, name, algorithm = source
    asks = len(robot.links) >= FEWEST_LINKS and not algorithm.forces
    key = request_key("graph", robot, name, algorithm) if asks else ""
    if not key:
        return traced(source, options, progress)
    if facts := read_kept(f"graph-{key}"):
        with suppress(ValueError, KeyError, TypeError):
            return KeptGraph.untraced(facts, key, lambda: trace(robot, name, algorithm))
    graph = traced(source, options, progress)
    if len(graph) < FEWEST_NODES or graph.forces:
        return graph
    kept = KeptGraph.of(graph, key)
    keep(f"graph-{key}", kept.facts())
    return kept


def opening_graphs(
    of_graph: Callable[[Graph, Any, Progress], Executor],
    of_scan: Callable[[Loop, bool, Any, Progress], Executor] | None = None,
    graph_of: GraphOf = traced,
) -> Callable[[FunctionSource, Any, Progress], Executor]:
    """Return the function with which a device opens functions of a robot.

    Args:
        of_graph: Function that returns the device of a graph, of the options and of `progress`.
        of_scan: Function that returns the device of a loop over links, whether its function takes external forces, of
            the options and of `progress`; None for a device that computes only graphs.
        graph_of: Function that returns the graph of a function.

    Returns:
        Function of the source, the options and `progress` that returns the device.
    """

    def one(source: FunctionSource, options: Any, progress: Progress) -> Executor:
        robot, name, algorithm = source
        if of_scan is not None and (loop := loop_over_links(robot, name, algorithm, list(options.changed()))):
            return of_scan(loop, algorithm.external_forces, options, progress)
        graph = graph_of(source, options, progress)
        if np.dtype(getattr(options, "dtype", "float64") or "float32") == np.float32:  # a GPU's None is float32
            check_single_precision(robot, graph, algorithm)
        return of_graph(graph, options, progress)

    def opened(source: FunctionSource, options: Any, progress: Progress = quiet) -> Executor:
        row = function_row(source.function)
        if not row.parts:
            return one(source._replace(function=row.name), options, progress)
        devices = {part.name: one(source._replace(function=part.name), options, progress) for part in row.parts}
        return FunctionsDevice(row.name, devices)

    return opened


def check_form(form: str | None, name: str, opener: Opener, scanning: list[str]) -> None:
    """Refuse a loop over links for a device that does not compute them.

    Args:
        form: Name of the algorithm, or None.
        name: Name of the device.
        opener: How the device opens functions.
        scanning: Names of the devices that compute loops over links.

    Raises:
        ArgumentError: The algorithm is a loop over links, and the device does not compute such loops.
    """
    if form == SCAN and not opener.scans:
        raise ArgumentError(
            f"form '{SCAN}' on device '{name}'; expected one of {', '.join(scanning)}, or another form",
            code="DG-DEVICE-015",
        )
