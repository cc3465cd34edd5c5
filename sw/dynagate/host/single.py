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
    """Call for one state at a time, in arrays that belong to the device. Hold the device's lock during a call.

    Args:
        device: The device.
        arrays: Inputs (1, *shape) by name.
        outputs: Outputs (1, *shape) by name.
        call: The device's bound call of these arrays.
    """

    def __init__(self, device: Executor, arrays: Arrays, outputs: Arrays, call: Callable[[], Any]) -> None:
        self._device, self._arrays, self._call = device, arrays, call
        own = {port.name: arrays[port.name].reshape(port.shape) for port in device.inputs}
        self._inputs = [(name, array, array.shape) for name, array in own.items()]
        self._outputs = [(name, array.reshape(array.shape[1:])) for name, array in outputs.items()]
        self._count, self._dtype = len(own), device.dtype
        units = [(port.name, place) for port in device.inputs for place in port.unit_vectors]
        self._units = [own[name][slice(*place)] for name, place in units]

    def __call__(self, inputs: Mapping[str, Any]) -> Results | None:
        """Compute one state.

        Args:
            inputs: Inputs by name.

        Returns:
            The results in new arrays; None if the inputs are not all numpy arrays of the device's dtype and of one
            state. Then `Function.__call__` makes the call, or says what is wrong with it.

        Raises:
            EntryError: The device finds a wrong number, or a quaternion does not have length 1.
        """
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
    """Return the call for one state at a time.

    Args:
        device: The device.

    Returns:
        The call; None if the device has none that is faster, or if an input has restrictions other than quaternions of
        length 1.
    """
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
