"""Waveforms of a datapath, every signal by its node's name: for a look at a few samples of a small robot."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.base.storage import scratch
from dynagate.fixedpoint.evaluate import quantise_inputs
from dynagate.hw.build import Build, BuildError
from dynagate.hw.datapath import Datapath


def write_vcd(built: Build, inputs: Mapping[str, npt.NDArray[np.float64]], path: str | PathLike[str]) -> None:
    """Stream the states through Amaranth's own simulator and write what happens as a VCD file.

    It runs some hundred cycles a second on the two-joint arm; a large robot takes minutes a sample. Raises BuildError:
    the file cannot be written.
    """
    from amaranth.sim import Simulator

    integers = quantise_inputs(built.formatted, inputs)
    names = built.plan.signal_names
    count = len(next(iter(integers.values())))

    async def send(context: Any) -> None:
        for k in range(count):
            payload = {names[i]: int(column[k]) for i, column in integers.items()}
            context.set(top.i.payload, payload)
            context.set(top.i.valid, 1)
            await context.tick().until(top.i.ready)
        context.set(top.i.valid, 0)

    async def receive(context: Any) -> None:
        context.set(top.o.ready, 1)
        for _ in range(count):
            await context.tick().until(top.o.valid)

    target = Path(path)
    with scratch(target.parent, BuildError, target.name) as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the simulator's remarks on names that a VCD cannot have
        top = Datapath(built.plan)
        simulator = Simulator(top)
        simulator.add_clock(1e-8)
        simulator.add_testbench(send)
        simulator.add_testbench(receive)
        with simulator.write_vcd(str(place / target.name)):
            simulator.run()
        (place / target.name).replace(target)
