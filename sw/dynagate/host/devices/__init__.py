"""What computes for an `Function` or a `Rollout`: one file a device, and the one list of them.

A new device is a file beside these, with a class for its options, and a place in `registry.DEVICES`.
"""

from __future__ import annotations

from dynagate.host.devices.board import Board
from dynagate.host.devices.cpu import Cpu, CpuDevice
from dynagate.host.devices.cuda import Cuda, CudaDevice
from dynagate.host.devices.face import Executor
from dynagate.host.devices.fixed import Fixed, FixedDevice
from dynagate.host.devices.numpy import Numpy, NumpyDevice
from dynagate.host.devices.options import DeviceOptions
from dynagate.host.devices.parts import FunctionsDevice, PartDevice
from dynagate.host.devices.registry import DEVICES
from dynagate.host.devices.sim import Sim
from dynagate.host.devices.stream import StreamDevice
from dynagate.host.devices.turns import IntegerTurns, StreamTurns, TurnDevice

__all__ = [
    "DEVICES",
    "Board",
    "Cpu",
    "CpuDevice",
    "Cuda",
    "CudaDevice",
    "DeviceOptions",
    "Executor",
    "Fixed",
    "FixedDevice",
    "FunctionsDevice",
    "IntegerTurns",
    "Numpy",
    "NumpyDevice",
    "PartDevice",
    "Sim",
    "StreamDevice",
    "StreamTurns",
    "TurnDevice",
]
