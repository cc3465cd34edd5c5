"""Devices: what computes functions, rollouts, solvers and designs.

A new device is a file here, with a class of options and an opener for each kind of source that it opens, and a row for
each in `host.openers.OPENERS`.
"""

from __future__ import annotations

from dynagate.host.devices.board import BoardExecutor
from dynagate.host.devices.cpu import Cpu, CpuDevice
from dynagate.host.devices.cuda import Cuda, CudaDevice
from dynagate.host.devices.face import Executor
from dynagate.host.devices.fixed import FixedDevice, IntegerExecutor
from dynagate.host.devices.numpy import Numpy, NumpyDevice
from dynagate.host.devices.options import DeviceOptions
from dynagate.host.devices.parts import FunctionsDevice, PartDevice
from dynagate.host.devices.sim import Sim
from dynagate.host.devices.stream import StreamDevice
from dynagate.host.devices.stream_steps import StreamSteps

__all__ = [
    "BoardExecutor",
    "Cpu",
    "CpuDevice",
    "Cuda",
    "CudaDevice",
    "DeviceOptions",
    "Executor",
    "FixedDevice",
    "FunctionsDevice",
    "IntegerExecutor",
    "Numpy",
    "NumpyDevice",
    "PartDevice",
    "Sim",
    "StreamDevice",
    "StreamSteps",
]
