"""Devices made of devices: some outputs of one, one function of several, several functions."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.design.datapath import DesignFunction
from dynagate.design.program import ProgramFunction
from dynagate.dynamics import CODE, Part
from dynagate.host.devices.face import Executor, Overflow
from dynagate.host.inputs import Arrays
from dynagate.host.links import DeviceError

if TYPE_CHECKING:
    from dynagate.host.devices.stream import UnderWay


class ChosenDevice(Executor):
    """Some outputs of a device that computes all."""

    def __init__(self, device: Executor, outputs: Sequence[str]) -> None:
        self.device = device
        self.robot, self.function, self.text, self.dtype = device.robot, device.function, device.text, device.dtype
        self.checks_finite, self.exclusive = device.checks_finite, device.exclusive
        self.saturates = device.saturates
        self.inputs, self.outputs = device.inputs, [port for port in device.outputs if port.name in outputs]
        if device.packing is not None:
            self.packing = {port.name: device.packing[port.name] for port in self.outputs}

    def new_inputs(self, batch: int) -> Arrays:
        return self.device.new_inputs(batch)

    def new_outputs(self, batch: int) -> Arrays:
        every = self.device.new_outputs(batch)
        return {port.name: every[port.name] for port in self.outputs}

    def fits(self, array: npt.NDArray[Any]) -> bool:
        return self.device.fits(array)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        every = {**self.device.new_outputs(batch), **outputs}
        overflow = self.device.run(arrays, every, batch)
        self.device.clear(every)
        self.transfer = self.device.transfer
        return overflow

    def launch(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any], Callable[[], None]]:
        if outputs is not None:
            raise ArgumentError(
                "out of some outputs, for arrays on a GPU; expected out=None, or outputs chosen by dynagate.compile"
            )
        every, call = self.device.launch(inputs, None)
        return {port.name: every[port.name] for port in self.outputs}, call


class PartDevice(Executor):
    """One of several functions on a device that takes samples of all: it adds the code and the inputs that the function
    lacks, which are zero."""

    def __init__(
        self, part: DesignFunction | ProgramFunction | Part, device: Executor, own: Container[str] | None = None
    ) -> None:
        """own: the inputs of the function; all of the device but the code unless given."""
        self.device, self._code = device, part.code
        self.robot, self.function, self.text, self.dtype = device.robot, part.name, device.text, device.dtype
        self.checks_finite, self.saturates = device.checks_finite, device.saturates
        names = [port.name for port in device.inputs if port.name != CODE.name and (own is None or port.name in own)]
        self.inputs = [port for port in device.inputs if port.name in names]
        self.outputs, self.packing = device.outputs, device.packing
        self._added = [port for port in device.inputs if port.name not in names]

    def choosing(self, outputs: Sequence[str]) -> Executor:
        other = copy(self)
        other.device = self.device.choosing(outputs)
        other.outputs, other.packing = other.device.outputs, other.device.packing
        return other

    def _completed(self, arrays: Arrays, batch: int) -> Arrays:
        added = {port.name: np.zeros((batch, *port.shape), self.dtype) for port in self._added}
        if CODE.name in added:
            added[CODE.name][...] = self._code
        return {**arrays, **added}

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        overflow = self.device.run(self._completed(arrays, batch), outputs, batch)
        self.transfer = self.device.transfer
        return overflow

    def submit(self, arrays: Arrays, batch: int) -> UnderWay | None:
        return self.device.submit(self._completed(arrays, batch), batch)

    def close(self) -> None:
        self.device.close()


class FunctionsDevice(Executor):
    """Devices of several functions by name, of which one computes at a time."""

    def __init__(self, name: str, functions: Mapping[str, Executor]) -> None:
        self.functions = dict(functions)
        first = next(iter(self.functions.values()))
        self.robot, self.function, self.text, self.dtype = first.robot, name, first.text, first.dtype
        self.inputs = self.outputs = ()

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        raise ArgumentError(
            f"{self.text} computes several functions; expected a call of one of {', '.join(self.functions)}"
        )

    def close(self) -> None:
        for device in self.functions.values():
            device.close()


class WithoutProgram(Executor):
    """A processor whose last program was not loaded, because the link failed. before: the device of the program
    before, whose interface it keeps."""

    def __init__(self, before: Executor) -> None:
        self.before = before
        self.robot, self.function, self.text, self.dtype = before.robot, before.function, before.text, before.dtype
        self.inputs, self.outputs = before.inputs, before.outputs

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        raise DeviceError(f"{self.text} has no program, because loading the last one failed; load it again")

    def load(self, design: Any) -> Executor:
        return self.before.load(design)

    def close(self) -> None:
        self.before.close()
