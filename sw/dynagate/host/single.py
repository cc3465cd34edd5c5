"""A plain call of one state, without what only batches and other arrays need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dynagate.base.arguments import UNIT
from dynagate.graph.evaluate import SHARES
from dynagate.host.devices.face import Executor
from dynagate.host.inputs import Arrays, check_values
from dynagate.host.results import Results


class SingleState:
    """One state in arrays of the device's own, which it reads and writes in place. Hold the accelerator's lock around a
    call. device, call: what computes, and its bound call of `arrays` and `outputs`, each (1, *shape)."""

    def __init__(self, device: Executor, arrays: Arrays, outputs: Arrays, call: Callable[[], Any]) -> None:
        self._device, self._arrays, self._call = device, arrays, call
        own = {port.name: arrays[port.name].reshape(port.shape) for port in device.inputs}
        self._inputs = [(name, array, array.shape) for name, array in own.items()]
        self._outputs = [(name, array.reshape(array.shape[1:])) for name, array in outputs.items()]
        self._count, self._dtype = len(own), device.dtype
        units = [(port.name, place) for port in device.inputs for place in port.unit_vectors]
        self._units = [own[name][slice(*place)] for name, place in units]

    def __call__(self, inputs: Mapping[str, Any]) -> Results | None:
        """The results, arrays of their own. None: the inputs are not all numpy arrays of the device's dtype and of one
        state, so the call is one for `Function.__call__`, which says what is wrong with it if anything is.

        Raises EntryError: what the device notices, and a quaternion whose length is not 1."""
        if len(inputs) != self._count:
            return None
        for name, own, shape in self._inputs:
            value = inputs.get(name)
            if type(value) is not np.ndarray or value.dtype is not self._dtype or value.shape != shape:
                return None
            own[...] = value
        for unit in self._units:
            if not abs(unit.dot(unit) - 1.0) < UNIT:  # stricter than necessary: a value near the limit is checked again
                self._look_at_units()
        flags = self._call()
        overflow = np.zeros((), np.bool_) if flags is None else flags.reshape(()).copy()
        return Results(overflow=overflow, **{name: array.copy() for name, array in self._outputs})

    def _look_at_units(self) -> None:
        for port in self._device.inputs:
            check_values(port, self._arrays[port.name], (1,))


def single(device: Executor) -> SingleState | None:
    """A call of one state at a time; None where the device has none that is faster, or where some numbers are no values
    of an input in another way than that quaternions have length 1."""
    if (
        device.exclusive
        or any(p.switches or p.parameter or p.name in SHARES for p in device.inputs)
        or not device.inputs
    ):
        return None
    arrays, outputs = device.new_inputs(1), device.new_outputs(1)
    device.clear(outputs)
    call = device.bound(arrays, outputs, 1)
    return None if call is None else SingleState(device, arrays, outputs, call)
