"""Executor "fixed": the integers that hardware computes, in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dynagate.base.explained import explained
from dynagate.base.progress import Progress
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import Design
from dynagate.dynamics import ROLLOUT
from dynagate.dynamics.options import AlgorithmOptions
from dynagate.graph import Graph, trace
from dynagate.graph.certificate import check_certificate
from dynagate.graph.loop import Loop
from dynagate.graph.parts import parts_of
from dynagate.graph.region import Region, limits_of
from dynagate.host.devices.face import Executor, Overflow
from dynagate.host.devices.options import DESIGN, FUNCTION, ROLLOUT_DESIGN, DesignSource, DeviceOptions, taken_for
from dynagate.host.devices.parts import FunctionsDevice, PartDevice
from dynagate.host.devices.scan import SCAN, describe, scanned
from dynagate.host.devices.turns import IntegerTurns, TurnDevice
from dynagate.host.inputs import Arrays, brought, check_range
from dynagate.integrators.turn import graph_of
from dynagate.robot import Robot

if TYPE_CHECKING:
    from dynagate.fixedpoint.assign import FormattedGraph, Policy
    from dynagate.fixedpoint.scans import FormattedScans


@explained
@dataclass(frozen=True)
class Fixed(DeviceOptions):
    """The integers of a function or of a chip that keeps the states, in numpy.

    policy: word length and binary points. region: the states that the formats are for. certificate: as
    `CertifiedOptions` has it.
    """

    name: ClassVar[str] = "fixed"
    opens: ClassVar[tuple[str, ...]] = (FUNCTION, ROLLOUT, DESIGN, ROLLOUT_DESIGN)
    together: ClassVar[bool] = True
    scans: ClassVar[bool] = True
    keeps_states: ClassVar[bool] = True

    policy: Policy | None = None
    region: Region | None = None
    certificate: bool = field(default=False, metadata=taken_for(FUNCTION))

    def of_function(
        self, robot: Robot, function: str, algorithm: AlgorithmOptions, progress: Progress | None
    ) -> Executor:
        region = (self.region or Region.of(robot)).of_robot(robot)
        if self.certificate:
            check_certificate(function, algorithm, robot)
        if algorithm.form == SCAN and (loop := scanned(robot, function, algorithm, self.changed())):
            return self._of_scan(loop, region, algorithm)
        formatted = self._assigned(trace(robot, function, progress=progress, **algorithm.as_dict()), region)
        if self.certificate:
            from dynagate.fixedpoint.certificate import certified

            formatted, _ = certified(formatted, region, self.policy)
        return fixed_device(formatted, {part.name: limits_of(part, region) for part in parts_of(formatted.graph.name)})

    def _of_scan(self, loop: Loop, region: Region, algorithm: AlgorithmOptions) -> Executor:
        """Only where it is asked for: hardware computes the integers of graphs."""
        from dynagate.fixedpoint.scans import assign_scans

        external = algorithm.external_forces
        formatted = assign_scans(loop, region, self.policy, external_forces=external, forces=algorithm.forces)
        return FixedScan(formatted, external)

    def of_rollout(self, robot: Robot, algorithm: AlgorithmOptions, progress: Progress | None = None) -> TurnDevice:
        graph = graph_of(robot, ROLLOUT, **algorithm.as_dict())
        return IntegerTurns(self._assigned(graph, (self.region or Region.of(robot)).of_robot(robot)))

    def of_design(self, source: DesignSource, progress: Progress | None = None) -> Executor:
        design = source.design
        if design.body.ring is not None:
            return IntegerTurns(source.formatted, dict(design.body.ring.carry), design)
        return fixed_device(source.formatted, {each.name: each.limits for each in design.body.functions}, design)

    def _assigned(self, graph: Graph, region: Region) -> FormattedGraph:
        from dynagate.fixedpoint.assign import assign

        return assign(graph, region, self.policy)


def fixed_device(
    formatted: FormattedGraph, limits: Mapping[str, Any], design: Design[DatapathBody] | None = None
) -> Executor:
    """The integers of a graph, or of each of the functions in it. limits: as `of_part` takes them, by function."""
    parts = parts_of(formatted.graph.name)
    if not parts:
        return FixedDevice(formatted, design)
    designs = {} if design is None else {each.name: design.of_function(each) for each in design.functions}
    own = {part.name: FixedDevice(formatted.of_part(part, limits[part.name]), designs.get(part.name)) for part in parts}
    devices = {part.name: PartDevice(part, own[part.name]) for part in parts}
    return FunctionsDevice(formatted.graph.name, devices)


class FixedDevice(Executor):
    """The integers that hardware computes, in numpy. design: whose AXI shell rounds inputs and results."""

    text = "integers"

    def __init__(self, formatted: FormattedGraph, design: Design | None = None) -> None:
        self.formatted = formatted
        self.computes(formatted.graph)
        self.saturates = design is not None and design.saturates
        self._numbers = {} if design is None else design.numbers
        self.dtype = self.dtype if design is None else np.dtype(design.results)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        from dynagate.fixedpoint.evaluate import evaluate as evaluate_fixed

        if not batch:
            return np.zeros(0, dtype=bool)
        doubles = {name: array.astype(np.float64) for name, array in arrays.items()}
        self._check_ranges(doubles)
        result = evaluate_fixed(self.formatted, doubles, self._numbers)
        for name, value in result.outputs.items():
            outputs[name][...] = value
        return result.overflow

    def _check_ranges(self, arrays: Arrays) -> None:
        bounds, formats = self.formatted.bounds, self.formatted.formats
        for port in self.formatted.graph.inputs:
            flat = arrays[port.name].reshape(-1, len(port.nodes))
            for k, i in enumerate(port.nodes):
                brought(port, k, flat[:, k], bounds[i], formats[i], self._numbers.get(port.name))


class FixedScan(Executor):
    """The integers of a loop over links, in numpy or C."""

    text = "integers, a loop over links"

    def __init__(self, formatted: FormattedScans, external_forces: bool) -> None:
        self.formatted = formatted
        describe(self, formatted.loop, external_forces)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        from dynagate.fixedpoint.scans import evaluate_scans

        if not batch:
            return np.zeros(0, dtype=bool)
        for port in self.inputs:
            flat = arrays[port.name].reshape(batch, -1).astype(np.float64)
            for k, bounds in enumerate(self.formatted.bounds[port.name] or ()):
                check_range(port, k, flat[:, k], bounds, SLACK * max(map(abs, bounds)))
        results, overflow = evaluate_scans(self.formatted, arrays)
        for name, value in results.items():
            outputs[name][...] = value
        return overflow


SLACK = 1e-6
"""By how much of its limits an input may be outside: as rounding does."""
