"""Batches of position-based steps through C of a graph, vectors of trajectories at a time."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.forces.contact import Contact
from dynagate.forces.servo import Servo
from dynagate.integrators.position_based_inputs import Inputs
from dynagate.integrators.position_based_links import Floats
from dynagate.integrators.position_based_loop import trajectory_loop
from dynagate.integrators.position_based_state import Record, Settings
from dynagate.native.loop import LoopKernel
from dynagate.robot import Robot


class GraphSteps:
    """A robot's steps as `position_based_loop.trajectory_loop`, compiled. Raises as that does, and CompileError."""

    def __init__(self, robot: Robot, settings: Settings, contact: Contact | None, servo: Servo | None) -> None:
        scale = [float(s) for s in settings.scale]
        loop = trajectory_loop(robot, settings.dt, scale, settings.most, contact=contact, servo=servo)
        self._kernel = LoopKernel(loop, np.float64)

    def run(self, inputs: Inputs, before: Floats, record: Record, threads: int) -> None:
        """Fills in the record. before (batch, nq): the configurations one step before the start."""
        batch, steps = inputs.tau.shape[:2]
        arrays = {"q": inputs.q0, "before": before, "tau": inputs.tau, "target": inputs.target}
        outputs = self._kernel.new_outputs(batch, steps)
        ends = np.linspace(0, batch, min(threads, batch) + 1).astype(int)
        kept: dict[str, npt.NDArray[Any]] = {"best": record.q[:, 1:], "energy": record.energy[:, 1:]}
        kept |= {"counted": record.iterations, "rest": record.residual}

        def work(low: int, high: int) -> None:
            self._kernel(_part(arrays, low, high), _part(outputs, low, high), high - low, steps)
            for name, array in kept.items():
                array[low:high] = outputs[name][low:high]

        with ThreadPoolExecutor(len(ends) - 1) as pool:
            list(pool.map(work, ends[:-1], ends[1:]))


def _part(arrays: Mapping[str, Floats], low: int, high: int) -> dict[str, Floats]:
    return {name: array[low:high] for name, array in arrays.items()}
