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


def call_inputs(
    motion: ChipMotion, ports: Sequence[AnyPort], ranges: Ranges, velocity: Sequence[float]
) -> tuple[tuple[AnyPort, ...], Ranges]:
    """Return the inputs of a call for a rollout, and the values that they may have: q, qd and the inputs of each step.

    Args:
        motion: The rollout on the chip.
        ports: Inputs of one step.
        ranges: Values that these may have.
        velocity: Largest velocity of each joint, rad/s or m/s.

    Returns:
        The inputs of a call, and the values that they may have by name.
    """
    own = {port.name: port for port in ports}
    per_iteration = motion.blocks.loop.per_iteration
    qd = Port("qd", (len(velocity),), ())
    limits = {name: ranges[name] for name in ("q", *per_iteration)}
    limits["qd"] = [EntryRange((-float(fastest), float(fastest)), 0.0) for fastest in velocity]
    return (own["q"], qd, *(own[name] for name in per_iteration)), limits


def motion_device(formatted: FormattedLoop, motion: ChipMotion, design: DesignRecord[ProgramBody]) -> FixedDevice:
    """Return the device that computes a rollout in fixed point.

    Args:
        formatted: The loop with its number formats.
        motion: The rollout on the chip.
        design: Program whose streams round inputs and results.

    Returns:
        The device.
    """
    inputs, ranges = call_inputs(motion, formatted.inputs, loop_ranges(formatted), [np.inf] * motion.robot.nv)
    return FixedDevice(MotionModel(formatted, motion.begun, inputs, ranges, design.numbers), design)
