"""Options of devices that compute in floating point and may bound the error of each result."""

from __future__ import annotations

from dataclasses import dataclass

from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress
from dynagate.graph import Graph
from dynagate.graph.certificate import check_certificate
from dynagate.graph.region import Region
from dynagate.host.devices.functions import traced
from dynagate.host.devices.options import DeviceOptions
from dynagate.host.devices.sources import FunctionSource


@dataclass(frozen=True, kw_only=True)
class CertifiedOptions(DeviceOptions):
    """certificate: forward dynamics has an output "certificate" (), for each state of the region a bound of the length
    of q̈'s error, rad/s² or m/s². region: where certificates hold, inside the URDF's limits unless given."""

    certificate: bool = False
    region: Region | None = None


def certified_graph_of(source: FunctionSource, options: CertifiedOptions, progress: Progress) -> Graph:
    """Return the graph of a function, with its certificate if the options say so."""
    if options.region is not None and not options.certificate:
        raise ArgumentError("region without certificate=True; expected both: a region is where certificates hold")
    if options.certificate:
        check_certificate(source.function, source.algorithm, source.robot)
    graph = traced(source, options, progress)
    if not options.certificate:
        return graph
    from dynagate.fixedpoint.proof.certificate import certified_graph

    region = options.region or Region.of(source.robot)
    return certified_graph(graph, region, getattr(options, "dtype", "float64"))[0]
