"""Motions whose steps solve equations, on chips: what their states begin with, and their integers in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynagate.design.design import DesignRecord
from dynagate.design.program import ProgramBody
from dynagate.fixedpoint.models.loops import FormattedLoop
from dynagate.fixedpoint.models.model import EntryRange, MotionModel, Ranges, loop_ranges
from dynagate.graph.graph import Port
from dynagate.host.devices.fixed import FixedDevice
from dynagate.integrators.chip_motion import ChipMotion

AnyPort = Any


def outside(
    motion: ChipMotion, ports: Sequence[AnyPort], ranges: Ranges, velocity: Sequence[float]
) -> tuple[tuple[AnyPort, ...], Ranges]:
    """Return ports and ranges of the arguments of a call: q, qd and the inputs of each step. velocity: its largest."""
    own = {port.name: port for port in ports}
    per_iteration = motion.blocks.loop.per_iteration
    qd = Port("qd", (len(velocity),), ())
    limits = {name: ranges[name] for name in ("q", *per_iteration)}
    limits["qd"] = [EntryRange((-float(fastest), float(fastest)), 0.0) for fastest in velocity]
    return (own["q"], qd, *(own[name] for name in per_iteration)), limits


def motion_device(formatted: FormattedLoop, motion: ChipMotion, design: DesignRecord[ProgramBody]) -> FixedDevice:
    """Return the integers of a motion. design: whose streams round inputs and results."""
    inputs, ranges = outside(motion, formatted.inputs, loop_ranges(formatted), [np.inf] * motion.robot.nv)
    return FixedDevice(MotionModel(formatted, motion.begun, inputs, ranges, design.numbers), design)
