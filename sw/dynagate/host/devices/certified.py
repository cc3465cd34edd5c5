"""Options of devices that compute in floating point and may bound the error of each result."""

from __future__ import annotations

from dataclasses import dataclass

from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress
from dynagate.graph import Graph
from dynagate.graph.certificate import check_certificate
from dynagate.graph.region import Region
from dynagate.host.devices.functions import GraphOf, traced
from dynagate.host.devices.options import DeviceOptions
from dynagate.host.devices.sources import FunctionSource


@dataclass(frozen=True, kw_only=True)
class CertifiedOptions(DeviceOptions):
    """Options of devices that can compute an error bound next to forward dynamics."""

    certificate: bool = False
    """Whether forward dynamics has another output, "certificate" (): for each state of the region an upper bound of the
    length of the error of q̈, rad/s² or m/s².
    """
    region: Region | None = None
    """Operating region in which certificates hold; by default that of the limits in the URDF file."""


def certified_graph_of(
    source: FunctionSource, options: CertifiedOptions, progress: Progress, graph_of: GraphOf = traced
) -> Graph:
    """Return the graph of a function, with its certificate if the options ask for one.

    Args:
        source: The function.
        options: Options of the device.
        progress: Function that receives a line of text before each slow stage.
        graph_of: Function that returns the graph without a certificate.

    Returns:
        The graph, with the output "certificate" in the second case.
    """
    if options.region is not None and not options.certificate:
        raise ArgumentError(
            "region without certificate=True; expected both: a region is where certificates hold", code="DG-DEVICE-008"
        )
    if options.certificate:
        check_certificate(source.function, source.algorithm, source.robot)
    graph = (traced if options.certificate else graph_of)(source, options, progress)
    if not options.certificate:
        return graph
    from dynagate.fixedpoint.proof.certificate import certified_graph

    region = options.region or Region.of(source.robot)
    return certified_graph(graph, region, getattr(options, "dtype", "float64"))[0]
