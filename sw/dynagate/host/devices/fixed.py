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
from dynagate.host.devices.scan import SCAN, inputs_of, loop_over_links
from dynagate.host.devices.sources import DesignSource, FunctionSource, MotionSource
from dynagate.host.inputs import Arrays, check_ranges
from dynagate.integrators.design_graph import graph_of
from dynagate.integrators.step import CARRY

if TYPE_CHECKING:
    from dynagate.fixedpoint.assign import Policy
    from dynagate.fixedpoint.formatted import FormattedGraph


@dataclass(frozen=True)
class MotionInFixed(DeviceOptions):
    """Options of a rollout in the integers of a chip that keeps the states, computed in numpy."""

    name: ClassVar[str] = "fixed"

    policy: Policy | None = None
    """Word length in bits and binary points; None for the default ones."""
    region: Region | None = None
    """Operating region that the number formats are chosen for; by default that of the limits in the URDF file."""


@explained
@dataclass(frozen=True)
class IntegerExecutor(MotionInFixed):
    """Options of a function in the integers of hardware, computed in numpy."""

    certificate: bool = False
    """Whether forward dynamics has the output "certificate", as of `CertifiedOptions`."""


@dataclass(frozen=True)
class DesignInFixed(DeviceOptions):
    """Options of a design's integers, computed in numpy: nothing but the device's name."""

    name: ClassVar[str] = "fixed"


def open_function(source: FunctionSource, options: IntegerExecutor, progress: Progress = quiet) -> Executor:
    """Return the device that computes one function or several in fixed point.

    A loop over links is only used on request, since hardware computes the integers of graphs.

    Args:
        source: The function.
        options: Word length, region and certificate.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The device.
    """
    robot, function, algorithm = source
    region = (options.region or Region.of(robot)).of_robot(robot)
    if options.certificate:
        check_certificate(function, algorithm, robot)
    if algorithm.form == SCAN and (loop := loop_over_links(robot, function, algorithm, list(options.changed()))):
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
    """Return the device that computes a rollout in fixed point.

    Args:
        source: The rollout.
        options: Word length and region.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The device.
    """
    robot, algorithm = source
    region = (options.region or Region.of(robot)).of_robot(robot)
    formatted = _assigned(graph_of(robot, ROLLOUT, algorithm), region, options)
    return FixedDevice(StepModel(formatted, CARRY))


def open_design(source: DesignSource, options: DesignInFixed, progress: Progress = quiet) -> Executor:
    """Return the device that computes the integers of a pipeline without its hardware.

    Args:
        source: The design.
        options: None.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The device.
    """
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
    """Return the device that computes a graph in fixed point, with each of its functions by name if there are several.

    Args:
        formatted: The graph with its number formats.
        limits: Limits of the inputs of each function, as `of_part` takes them.
        design: Design whose AXI shell rounds inputs and results; None for no rounding.

    Returns:
        The device.
    """
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
    """Return the device that computes one graph in fixed point.

    Args:
        formatted: The graph with its number formats.
        design: Design whose streams round inputs and results; None for no rounding.

    Returns:
        The device.
    """
    if design is None:
        return FixedDevice(GraphModel(formatted))
    return FixedDevice(GraphModel(formatted, design.numbers, design.samples_per_packet), design)


class FixedDevice(Executor):
    """The integers of a model, in numpy or C.

    Args:
        model: The model that computes the integers.
        design: Design whose AXI shell rounds inputs and results; None for no rounding.
    """

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
