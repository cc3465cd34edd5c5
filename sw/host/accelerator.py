"""The user's class: numpy arrays in, named numpy arrays out, whatever the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from dynagate.graph.packing import unpacked
from dynagate.host.devices import DEVICES, Device
from dynagate.host.inputs import Arrays, check_finite, check_names, checked
from dynagate.host.links import Transfer
from dynagate.native.gpu import on_gpu
from dynagate.robot import Robot

if TYPE_CHECKING:
    from dynagate.hw.build import Build


class Results(SimpleNamespace):
    """Outputs as attributes, (batch, *shape) each, float64 unless the device was opened for float32; `overflow`
    (batch,) marks samples some value of which did not fit its format, and whose results are therefore wrong: none of a
    device that computes in floating point."""

    overflow: npt.NDArray[np.bool_]


def _same(arrays: Arrays, given: Mapping[str, Any]) -> bool:
    """Whether these very arrays are given."""
    for name, array in arrays.items():  # noqa: SIM110 - `all` takes twice as long
        if given.get(name) is not array:
            return False
    return True


def _writable(arrays: Arrays, given: Mapping[str, Any]) -> bool:
    """The same, and whether they can be written."""
    for name, array in arrays.items():  # noqa: SIM110
        if given.get(name) is not array or not array.flags.writeable:
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A call that has been made twice with the same arrays, and how to make it once more. Written for speed: a control
    loop waits for each line of it."""

    out: Results
    inputs: Arrays
    outputs: Arrays
    overflow: npt.NDArray[np.bool_]
    call: Callable[[], None]

    def fits(self, out: Results, inputs: Mapping[str, Any]) -> bool:
        """Whether results go to the same arrays, which can still be written, and inputs are the same."""
        if out is not self.out or len(inputs) != len(self.inputs):
            return False
        return _same(self.inputs, inputs) and _writable(self.outputs, out.__dict__)


class Accelerator:
    """One function of one robot on a device. Call it with the inputs by name, batch first; use it as a context."""

    def __init__(self, device: Device) -> None:
        self.device = device
        # what a control loop gives again and again: inputs with their batch, results with the device's target, and both
        self._read: tuple[Arrays, int] | None = None
        self._written: tuple[Results, Arrays, Any] | None = None
        self._repeated: _Repeated | None = None

    def __call__(self, *, out: Results | None = None, **inputs: npt.ArrayLike) -> Results:
        """inputs: (batch, ...) real numbers, in the shapes and units of the function table.

        out: results of an earlier call of this accelerator with as large a batch, to be written over, which saves
        making arrays anew. Raises ValueError or TypeError naming the input that is missing, unknown, misshapen, not
        finite or (in fixed point) outside the range the formats were chosen for; nothing is computed then, except that
        "cpu" sees what is not finite when it reads it: `out` is half written then. Raises DeviceError where the device
        fails.

        Arrays on a GPU (by the CUDA array interface or DLPack) go to "cuda" without a copy, and so do results, which
        then have no `overflow` and are not finite where inputs are not; the call comes back before they are there.
        """
        again = self._repeated
        if out is not None and again is not None and again.fits(out, inputs):
            again.call()
            again.overflow.fill(False)
            out.overflow = again.overflow
            return out
        known = self._known(inputs)
        if known is None and any(map(on_gpu, inputs.values())):
            return self._launched(out, inputs)
        arrays, batch = known or self._arrays(inputs)
        if not self.device.checks_finite:
            check_finite(arrays)
        if out is not None:
            before = self._written
            written, target = self._target(out, batch)
            out.overflow = self.device.run(arrays, batch, target)
            call = self.device.prepared(arrays, batch, target) if known and self._written is before else None
            self._repeated = _Repeated(out, arrays, written, out.overflow, call) if call else None
            return out
        outputs = self.device.new_outputs(batch)
        overflow = self.device.run(arrays, batch, self.device.target(outputs))
        return Results(**outputs, overflow=overflow)

    def _launched(self, out: Results | None, inputs: Mapping[str, Any]) -> Results:
        check_names(self.device.function, self.device.inputs, inputs)
        outputs = None if out is None else {port.name: getattr(out, port.name) for port in self.device.outputs}
        found = self.device.launch(inputs, outputs)
        return Results(**found) if out is None else out

    def _known(self, inputs: Mapping[str, Any]) -> tuple[Arrays, int] | None:
        """The inputs of the call before, where these are the same arrays."""
        if self._read is None or len(inputs) != len(self._read[0]):
            return None
        return self._read if _same(self._read[0], inputs) else None

    def _arrays(self, inputs: Mapping[str, Any]) -> tuple[Arrays, int]:
        self._read = None
        found = checked(self.device.function, self.device.inputs, inputs)
        if not any(port.unit_vectors for port in self.device.inputs):  # lengths are checked every time
            self._read = found
        return found

    def _target(self, out: Results, batch: int) -> tuple[Arrays, Any]:
        """Results to be written over, and as the device takes them."""
        if self._written is not None and self._written[0] is out:
            _, arrays, target = self._written
            if _writable(arrays, vars(out)) and all(len(array) == batch for array in arrays.values()):
                return arrays, target
        outputs = self._checked(out, batch)
        target = self.device.target(outputs)
        self._written = out, outputs, target
        return outputs, target

    def _checked(self, out: Results, batch: int) -> Arrays:
        outputs = {port.name: getattr(out, port.name, None) for port in self.device.outputs}
        for port in self.device.outputs:
            array, shape = outputs[port.name], (batch, *port.shape)
            if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != self.device.dtype:
                found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "nothing"
                raise ValueError(f"out.{port.name} is {found}; expected {self.device.dtype} {shape}")
            if not self.device.fits(array) or not array.flags.writeable:
                raise ValueError(f"out.{port.name} cannot be written in one piece; expected results of an earlier call")
        return outputs  # type: ignore[return-value]

    def new_inputs(self, batch: int) -> Arrays:
        """Zeros (batch, ...) by name for a call's inputs, in the dtype and where in memory the device reads them
        fastest; other arrays do as well."""
        return self.device.new_inputs(batch)

    def unpack(self, results: Results) -> Results:
        """Results of this accelerator, opened with `pack=True`, in their full shapes. `device.packing` says per output
        where each entry is in its vector, -1 for those that are always zero."""
        packing = self.device.packing
        if packing is None:
            raise ValueError(f"{self!r} does not pack its results; expected one opened with pack=True")
        full = {name: unpacked(getattr(results, name), where) for name, where in packing.items()}
        return Results(**full, overflow=results.overflow)

    @property
    def transfer(self) -> Transfer:
        """Cycles that the last batch took; zeros where the device has no clock that can be seen."""
        return self.device.transfer

    def close(self) -> None:
        self._repeated = None
        self.device.close()

    def __enter__(self) -> Accelerator:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Accelerator {self.device.robot} {self.device.function}, {self.device.text}>"


def open(
    what: Robot | Build | str | PathLike[str],
    function: str = "forward_dynamics_gradient",
    *,
    device: str | None = None,
    **options: Any,
) -> Accelerator:
    """A function of a robot on a device: "cpu" (the default), "numpy", "fixed", "cuda" or "sim".

    what: a robot; or what `dynagate.build` returned, or its folder, which know their function and go to "sim".
    options are the device's (`host.devices`): `dtype`, `layout` and `pack` of "cpu" and "cuda", `threads` of the one,
    `number` and `stream` of the other, `policy` and `region` of "fixed", those of `dynagate.build` and `SimLink` of
    "sim"; `step` is called with what is about to happen; the rest go to the algorithm.
    Raises ValueError for an unknown device, DesignError for a design or device that does not match, CompileError
    where there is no compiler.
    """
    chosen = device or ("cpu" if isinstance(what, Robot) else "sim")
    if chosen not in DEVICES:
        raise ValueError(f"device '{chosen}'; expected one of {', '.join(DEVICES)}")
    if not isinstance(what, Robot):
        if chosen != "sim":
            raise ValueError(f"device '{chosen}' computes from a robot; expected a Robot instead of a design")
        from dynagate.host.devices import open_design

        return Accelerator(open_design(what, **options))
    return Accelerator(DEVICES[chosen](what, function, **options))
