"""Devices made of devices: one function of several, and several functions."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.design.design import OneFunction
from dynagate.dynamics import CODE, FunctionPart
from dynagate.host.devices.face import Executor, Overflow, UnderWay
from dynagate.host.inputs import Arrays


class PartDevice(Executor):
    """One of several functions on a device that computes one of them for each sample. It adds the function's code, and
    zeros for the inputs of the other functions.
    """

    def __init__(self, part: OneFunction | FunctionPart, device: Executor, own: Container[str] | None = None) -> None:
        """Select one function of a device.

        Args:
            part: The function.
            device: Device of all functions.
            own: Names of the function's inputs; by default all inputs of the device except the code.
        """
        self.device, self._part, self._own, self._code = device, part, own, part.code
        self.share_lock(device.lock)
        self.robot, self.function, self.text, self.dtype = device.robot, part.name, device.text, device.dtype
        self.checks_finite, self.saturates = device.checks_finite, device.saturates
        names = [port.name for port in device.inputs if port.name != CODE.name and (own is None or port.name in own)]
        self.inputs = [port for port in device.inputs if port.name in names]
        self.outputs, self.packing = device.outputs, device.packing
        self._added = [port for port in device.inputs if port.name not in names]

    def choosing(self, outputs: Sequence[str]) -> Executor:
        return PartDevice(self._part, self.device.choosing(outputs), self._own)

    def completed(self, arrays: Arrays, batch: int) -> Arrays:
        added = {port.name: np.zeros((batch, *port.shape), self.dtype) for port in self._added}
        if CODE.name in added:
            added[CODE.name][...] = self._code
        return {**arrays, **added}

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        overflow = self.device.run(self.completed(arrays, batch), outputs, batch)
        self.transfer = self.device.transfer
        return overflow

    def submit(self, arrays: Arrays, batch: int) -> UnderWay | None:
        return self.device.submit(self.completed(arrays, batch), batch)

    def load(self, design: Any) -> Executor:
        return self.device.load(design)

    def close(self) -> None:
        self.device.close()


class FunctionsDevice(Executor):
    """Devices of several functions by name, of which one computes at a time."""

    def __init__(self, name: str, functions: Mapping[str, Executor]) -> None:
        self.functions = dict(functions)
        self._first = first = next(iter(self.functions.values()))
        self.share_lock(first.lock)
        self.robot, self.function, self.text, self.dtype = first.robot, name, first.text, first.dtype
        self.inputs = self.outputs = ()

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        raise ArgumentError(
            f"{self.text} computes several functions; expected a call of one of {', '.join(self.functions)}",
            code="DG-DEVICE-016",
        )

    def load(self, design: Any) -> Executor:
        return self._first.load(design)

    def close(self) -> None:
        for device in self.functions.values():
            with device.lock:
                device.close()
