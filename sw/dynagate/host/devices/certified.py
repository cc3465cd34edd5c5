"""Options of devices that compute in floating point and may bound the error of each result."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress
from dynagate.dynamics.options import AlgorithmOptions
from dynagate.graph import Graph
from dynagate.graph.certificate import check_certificate
from dynagate.graph.region import Region
from dynagate.host.devices.options import FUNCTION, DeviceOptions, taken_for
from dynagate.robot import Robot


@dataclass(frozen=True)
class CertifiedOptions(DeviceOptions):
    """certificate: forward dynamics has an output "certificate" (), for each state of the region a bound of the length
    of q̈'s error, rad/s² or m/s². region: where certificates hold, inside the URDF's limits unless given."""

    certificate: bool = field(default=False, metadata=taken_for(FUNCTION), kw_only=True)
    region: Region | None = field(default=None, metadata=taken_for(FUNCTION), kw_only=True)

    def traced(self, robot: Robot, function: str, algorithm: AlgorithmOptions, progress: Progress | None) -> Graph:
        if self.region is not None and not self.certificate:
            raise ArgumentError("region without certificate=True; expected both: a region is where certificates hold")
        if self.certificate:
            check_certificate(function, algorithm, robot)
        graph = super().traced(robot, function, algorithm, progress)
        if not self.certificate:
            return graph
        from dynagate.fixedpoint.certificate import certified_graph

        return certified_graph(graph, self.region or Region.of(robot), self.precision)[0]

    @property
    def precision(self) -> npt.DTypeLike:
        """The type of the numbers that are computed."""
        return "float64"
