"""Executor "fixed": the integers that hardware computes, in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dynagate.base.explained import explained
from dynagate.base.progress import Progress, quiet
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord
from dynagate.dynamics import ROLLOUT
from dynagate.fixedpoint.models.model import GraphModel, IntegerModel, ScanModel, StepModel
from dynagate.graph import Graph
from dynagate.graph.certificate import check_certificate
from dynagate.graph.parts import parts_of
from dynagate.graph.region import Region, limits_of
from dynagate.host.devices.face import Executor, Overflow
from dynagate.host.devices.functions import traced
from dynagate.host.devices.options import DeviceOptions
from dynagate.host.devices.parts import FunctionsDevice, PartDevice
from dynagate.host.devices.scan import SCAN, inputs_of, scanned
from dynagate.host.devices.sources import DesignSource, FunctionSource, MotionSource
from dynagate.host.inputs import Arrays, check_ranges
from dynagate.integrators.design_graph import graph_of
from dynagate.integrators.step import CARRY

if TYPE_CHECKING:
    from dynagate.fixedpoint.assign import Policy
    from dynagate.fixedpoint.formatted import FormattedGraph


@dataclass(frozen=True)
class MotionInFixed(DeviceOptions):
    """The integers of a chip that keeps the states, in numpy. policy, region: as of `IntegerExecutor`."""

    name: ClassVar[str] = "fixed"

    policy: Policy | None = None
    region: Region | None = None


@explained
@dataclass(frozen=True)
class IntegerExecutor(MotionInFixed):
    """The integers of a function, in numpy.

    policy: word length and binary points. region: the states that the formats are for. certificate: as
    `CertifiedOptions` has it.
    """

    certificate: bool = False


@dataclass(frozen=True)
class DesignInFixed(DeviceOptions):
    """The integers that a design computes, in numpy."""

    name: ClassVar[str] = "fixed"


def open_function(source: FunctionSource, options: IntegerExecutor, progress: Progress = quiet) -> Executor:
    """Return the integers of a function, or of several that one graph computes.

    A loop over links is only used on request: hardware computes the integers of graphs.
    """
    robot, function, algorithm = source
    region = (options.region or Region.of(robot)).of_robot(robot)
    if options.certificate:
        check_certificate(function, algorithm, robot)
    if algorithm.form == SCAN and (loop := scanned(robot, function, algorithm, list(options.changed()))):
        from dynagate.fixedpoint.models.scans import assign_scans

        external = algorithm.external_forces
        scans = assign_scans(loop, region, options.policy, external_forces=external, forces=algorithm.forces)
        inputs = inputs_of(loop, external)
        return FixedDevice(ScanModel(scans, inputs))
    formatted = _assigned(traced(source, options, progress), region, options)
    if options.certificate:
        from dynagate.fixedpoint.proof.certificate import certified

        formatted, _ = certified(formatted, region, options.policy)
    return fixed_device(formatted, {part.name: limits_of(part, region) for part in parts_of(formatted.graph.name)})


def open_motion(source: MotionSource, options: MotionInFixed, progress: Progress = quiet) -> Executor:
    """Return the integers of a rollout."""
    robot, algorithm = source
    region = (options.region or Region.of(robot)).of_robot(robot)
    formatted = _assigned(graph_of(robot, ROLLOUT, algorithm), region, options)
    return FixedDevice(StepModel(formatted, CARRY))


def open_design(source: DesignSource, options: DesignInFixed, progress: Progress = quiet) -> Executor:
    """Return the integers of a pipeline."""
    design = source.record
    if design.body.ring is not None:
        return FixedDevice(StepModel(source.formatted, dict(design.body.ring.carry), design.numbers), design)
    return fixed_device(source.formatted, {each.name: each.limits for each in design.body.functions}, design)


def _assigned(graph: Graph, region: Region, options: MotionInFixed) -> FormattedGraph:
    from dynagate.fixedpoint.assign import assign

    return assign(graph, region, options.policy)


def fixed_device(
    formatted: FormattedGraph, limits: Mapping[str, Any], design: DesignRecord[DatapathBody] | None = None
) -> Executor:
    """The integers of a graph, or of each of the functions in it. limits: as `of_part` takes them, by function."""
    parts = parts_of(formatted.graph.name)
    if not parts:
        return graph_device(formatted, design)
    designs = {} if design is None else {each.name: design.of_function(each) for each in design.body.functions}
    own = {
        part.name: graph_device(formatted.of_part(part, limits[part.name]), designs.get(part.name)) for part in parts
    }
    devices = {part.name: PartDevice(part, own[part.name]) for part in parts}
    return FunctionsDevice(formatted.graph.name, devices)


def graph_device(formatted: FormattedGraph, design: DesignRecord | None = None) -> FixedDevice:
    """Return the integers of a graph, as a design streams them."""
    if design is None:
        return FixedDevice(GraphModel(formatted))
    return FixedDevice(GraphModel(formatted, design.numbers, design.samples_per_packet), design)


class FixedDevice(Executor):
    """The integers of a model, in numpy or C. design: whose AXI shell rounds inputs and results."""

    text = "integers"

    def __init__(self, model: IntegerModel, design: DesignRecord | None = None) -> None:
        self.model = model
        self.robot, self.function, self.carry = model.robot, model.name, model.carry
        self.inputs, self.outputs, self.ranges = model.inputs, model.outputs, model.ranges
        self.step_graph = model.formatted.graph if isinstance(model, StepModel) else None
        self.saturates = design is not None and design.saturates
        self.dtype = self.dtype if design is None else np.dtype(design.results)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        if not batch:
            return np.zeros(0, dtype=bool)
        doubles = {port.name: arrays[port.name].astype(np.float64) for port in self.inputs}
        if not self.carry:
            check_ranges(self.inputs, self.ranges, doubles)
        values, overflow = self.model.run(doubles)
        for name, value in values.items():
            outputs[name][...] = value
        return overflow
