"""Functions as loops over links, for robots that are too large to unroll: which they are, and what devices share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.dynamics import function
from dynagate.dynamics.functions.record import SCAN, SCANS
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import Port
from dynagate.graph.loop import Loop
from dynagate.graph.ops import TRIG
from dynagate.graph.scan import scans_of
from dynagate.graph.scan_trace import trace_scan
from dynagate.host.devices.face import Executor
from dynagate.robot import Robot

SCANNED_FROM = 48
"""Links from which on a function that has an algorithm over links takes it unless a form is requested. Atlas' 30 links
are twice as fast unrolled, since right angles and zeros of its frames fold, and ready in 13 s instead of 4; 30 links in
general frames are as fast either way (docs/scans.md)."""

OPTIONS = ("form", "external_forces", "forces")
"""Options of algorithms that a loop over links accepts."""

OF_GRAPHS = ("layout", "certificate", "tier")
"""Options of devices that only a graph has."""


def loop_over_links(robot: Robot, name: str, algorithm: AlgorithmOptions, others: Sequence[str]) -> Loop | None:
    """Return a function as a loop over links, if its form is SCAN, or if the robot is large and no option needs a
    graph.

    Args:
        robot: The robot.
        name: Name of the function.
        algorithm: Options of the algorithm.
        others: Names of the device's options in use.

    Returns:
        The loop; None if the function is computed as a graph.

    Raises:
        ArgumentError: A loop over links does not take one of the options.
    """
    asked = [option for option in algorithm.changed() if option not in OPTIONS]
    asked += [option for option in others if option in OF_GRAPHS]
    if algorithm.form != SCAN:
        large = len(robot.links) >= SCANNED_FROM and not robot.followers
        if algorithm.form is not None or asked or name not in SCANS or not large:
            return None
    if asked:
        raise ArgumentError(
            f"form '{SCAN}' takes no option '{asked[0]}'; expected another form, or none of it", code="DG-DEVICE-031"
        )
    options = {option: getattr(algorithm, option) for option in OPTIONS if option != "form"}
    return trace_scan(robot, name, **options)


def inputs_of(loop: Loop, external_forces: bool) -> list[Port]:
    """Return the inputs of a loop over links in the order of its function.

    Args:
        loop: The loop.
        external_forces: Whether the function takes forces on links.

    Returns:
        The inputs.
    """
    ports = {port.name: port for port in loop.inputs}
    return [ports[argument.name] for argument in function(loop.name).inputs_with(external_forces)]


def set_ports(device: Executor, loop: Loop, external_forces: bool, pack: bool = False) -> None:
    """Set the inputs and outputs of a device that computes a loop of one iteration, as `trace_scan` returns it.

    Args:
        device: The device.
        loop: The loop.
        external_forces: Whether the function takes forces on links.
        pack: Return each result as a vector of all of its entries, since none is known to be zero or equal to another.
    """
    device.robot, device.function = loop.robot, loop.name
    device.inputs, device.outputs = inputs_of(loop, external_forces), loop.outputs
    device.angles = _angles(loop)
    if pack:
        device.packing = {port.name: np.arange(len(port.nodes)) for port in loop.outputs}


def _angles(loop: Loop) -> dict[str, list[int]]:
    """Return, by input, the entries whose sine or cosine a body computes."""
    places: dict[str, set[int]] = {}
    inputs = {port.name for port in loop.inputs}
    for scan in scans_of(loop):
        for i in scan.order:
            body = scan.body(i)
            angles = {a for node in body.nodes if node.op in TRIG for a in node.args}
            for port in body.inputs:
                if port.name in inputs:
                    start = scan.starts[port.name][i]
                    own = {start + k for k, node in enumerate(port.nodes) if node in angles}
                    places.setdefault(port.name, set()).update(own)
    return {name: sorted(entries) for name, entries in places.items() if entries}
