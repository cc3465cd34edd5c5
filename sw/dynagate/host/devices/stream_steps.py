"""Devices that keep the states of trajectories, so that their outputs are per step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord
from dynagate.fixedpoint.models.feedback import StepOrder
from dynagate.fixedpoint.models.model import EntryRange
from dynagate.host.devices.face import Executor, Overflow
from dynagate.host.inputs import Arrays
from dynagate.host.ring_drivers import RingDriver

STEPS, EVERY = "steps", "every"
"""Arrays in addition to the inputs of a step: how many steps each trajectory takes, (batch,); of which every this many
results come out, (), besides those of each last one."""


def returned_steps(steps: npt.NDArray[np.int64], every: int, longest: int) -> npt.NDArray[np.bool_]:
    """Return the steps whose results the device sends, (batch, longest)."""
    step, last = np.arange(1, longest + 1), steps[:, None]
    return (step == last) | ((step % every == 0) & (step < last))


def empty_outputs(device: Executor, batch: int, steps: int) -> Arrays:
    """Return zeros for the outputs of a device that keeps states.

    Args:
        device: The device.
        batch: Number of trajectories.
        steps: Number of steps.

    Returns:
        Arrays (batch, steps, *shape) by name.
    """
    return {port.name: np.zeros((batch, steps, *port.shape), device.dtype) for port in device.outputs}


def stream_ranges(design: DesignRecord) -> dict[str, list[EntryRange]]:
    """Return the values that the inputs of a design may have, if its streams carry the inputs of one step.

    Args:
        design: Record of the design.

    Returns:
        For each input a range for each of its entries.
    """
    fields = [EntryRange(field.range, field.format.step) for field in design.input.fields]
    return {port.name: [fields[k] for k in port.fields] for port in design.input.ports}


class StreamSteps(Executor):
    """A rollout design whose steps a driver streams.

    Args:
        design: Record of the design, with its ring.
    """

    exclusive = True

    def __init__(self, design: DesignRecord[DatapathBody], driver: RingDriver) -> None:
        assert design.body.ring is not None
        self.driver = driver
        self.capacity, self.carry = design.body.ring.capacity, dict(design.body.ring.carry)
        self.robot, self.function, self.text, self.dtype = (
            design.robot_name,
            design.function,
            driver.link.text,
            driver.dtype,
        )
        self.inputs, self.outputs = design.input.ports, design.output.ports
        self.ranges = stream_ranges(design)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        steps, every = arrays[STEPS], int(arrays[EVERY])
        count = next(iter(outputs.values())).shape[1]
        order = StepOrder.of(steps, self.capacity)
        own = order.inputs({port.name: arrays[port.name] for port in self.inputs}, self.carry.values())
        comes = np.flatnonzero(returned_steps(steps, every, count)[order])
        results, overflow = self.driver.run_steps(own, order.commands(steps), comes, every)
        back = StepOrder(order.trajectory[comes], order.step[comes])
        for name, x in results.items():
            outputs[name][back] = x
        flagged = np.zeros((batch, count), bool)
        flagged[back] = overflow
        self.transfer = self.driver.transfer
        return flagged

    def close(self) -> None:
        self.driver.session.close()
