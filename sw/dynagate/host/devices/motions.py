"""Motions whose steps solve equations, on chips: what their states begin with, and their integers in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.design.design import Design
from dynagate.design.program import ProgramBody
from dynagate.fixedpoint.loops import FormattedLoop, LoopIntegers, integers_of, values_of
from dynagate.graph.graph import Port
from dynagate.host.devices.face import Overflow
from dynagate.host.devices.turns import Bounds, TurnDevice
from dynagate.host.inputs import Arrays
from dynagate.integrators.chip_motion import ChipMotion

AnyPort = Any


def outside(
    motion: ChipMotion, ports: Sequence[AnyPort], bounds: Mapping[str, Sequence[Bounds]], velocity: Sequence[float]
) -> tuple[tuple[AnyPort, ...], dict[str, Sequence[Bounds]]]:
    """Ports and bounds of what a user gives: q, qd and the inputs of each step. velocity: the largest of the region."""
    own = {port.name: port for port in ports}
    per_turn = motion.blocks.loop.per_turn
    qd = Port("qd", (len(velocity),), ())
    limits = {name: bounds[name] for name in ("q", *per_turn)}
    limits["qd"] = [((-float(fastest), float(fastest)), 0.0) for fastest in velocity]
    return (own["q"], qd, *(own[name] for name in per_turn)), limits


class MotionIntegers(TurnDevice):
    """The integers of a motion, in numpy. formatted: its loop. design: whose streams round inputs and results."""

    text = "integers"
    exclusive = False

    def __init__(self, formatted: FormattedLoop, motion: ChipMotion, design: Design[ProgramBody]) -> None:
        self.formatted, self.motion = formatted, motion
        self.robot, self.function = formatted.loop.robot, formatted.loop.name
        self.carry = dict(formatted.loop.carry)
        self._numbers, self.dtype = design.numbers, np.dtype(design.results)
        self.outputs = tuple(port for port, _ in formatted.outputs.values())
        bounds = {
            port.name: [(graph.bounds[i], graph.formats[i].step) for i in first.nodes]
            for port, (first, graph) in ((port, formatted.ports[port.name]) for port in formatted.inputs)
        }
        velocity = [0.0] * motion.robot.nv
        self.inputs, self.bounds = outside(motion, formatted.inputs, bounds, velocity)
        self.bounds = {**self.bounds, "qd": [((-np.inf, np.inf), 0.0)] * motion.robot.nv}

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        begun = self.motion.begun(arrays["q"], arrays["qd"])
        loop = LoopIntegers(self.formatted, integers_of(self.formatted, begun, self._numbers))
        turns = next(iter(outputs.values())).shape[1]
        flagged: npt.NDArray[np.bool_] = np.zeros((batch, turns), bool)
        for turn in range(turns):
            own = {name: arrays[name][:, turn] for name in self.formatted.loop.per_turn}
            values, flagged[:, turn] = loop.turn(integers_of(self.formatted, own, self._numbers))
            for port in self.outputs:
                outputs[port.name][:, turn] = values_of(values[port.name], port.shape)
        return flagged
