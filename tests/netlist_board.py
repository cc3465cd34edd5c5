"""Compare a board whose device is a simulated netlist with the integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from dynagate import Function
from dynagate.fixedpoint.models.evaluate import evaluate
from dynagate.host.devices import StreamDevice
from dynagate.host.drivers import ShellSession
from dynagate.host.uart_link import UartLink
from dynagate.hw.designs import Design
from dynagate.sim.line import SimulatedBoard, netlist_library

STATES = 64


def check_netlist(built: Design, netlist: Path, clocks: int, family: str = "ecp5") -> None:
    """Check that a netlist behind its serial pins computes the integers."""
    with SimulatedBoard(netlist_library(netlist, family), clocks) as board, opened(built, board.path) as accelerator:
        check_accelerator(built, accelerator)


def check_accelerator(built: Design, accelerator: Function) -> None:
    """Check that a device computes the integers of `STATES` states."""
    states = built.region.sample(built.graph.name, STATES, 3)
    states = {name: np.clip(value.astype(np.float32), *bounds(built, name)) for name, value in states.items()}
    results = accelerator(**states)
    expected = evaluate(built.formatted, states)
    assert not expected.overflow.all()
    for name, value in expected.outputs.items():
        words = value.astype(np.float32)
        words[expected.overflow] = np.nan
        np.testing.assert_array_equal(getattr(results, name), words)


def bounds(built: Design, name: str) -> np.ndarray:
    """Lowest and highest value of each entry of an input."""
    (port,) = (port for port in built.graph.inputs if port.name == name)
    return np.array([built.formatted.bounds[i] for i in port.nodes]).T.astype(np.float32)


def opened(built: Design, path: str) -> Function:
    link = UartLink(path, built.design, timeout=60.0)
    return Function(StreamDevice(ShellSession(built.design, link).driver()))
