"""The user's class: numpy arrays in, named numpy arrays out, whatever the device."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.graph.packing import unpacked
from dynagate.host.devices import DEVICES, Device
from dynagate.host.inputs import Arrays, check_finite, check_names, checked
from dynagate.host.links import DeviceError, Transfer
from dynagate.native.gpu import on_gpu
from dynagate.robot import Robot

if TYPE_CHECKING:
    from dynagate.hw.build import Build


class _Held:
    """Arrays by name, as a call has checked them.

    Their numbers may change, but they cannot move: numpy does not resize an array that a weak reference leads to.
    each: name, array and dtype.
    """

    __slots__ = ("_references", "arrays", "batch", "each")

    def __init__(self, arrays: Arrays, batch: int) -> None:
        self.arrays, self.batch = arrays, batch
        self.each = [(name, array, array.dtype) for name, array in arrays.items()]
        self._references = list(map(weakref.ref, arrays.values()))

    def same(self, others: Mapping[str, Any]) -> bool:
        """Whether the others of these names are these very arrays, in the same shape and dtype. As arrays cannot move,
        the number of rows tells of the shape."""
        batch = self.batch
        try:
            for name, array, dtype in self.each:
                if others[name] is not array or len(array) != batch or array.dtype is not dtype:
                    return False
        except (KeyError, TypeError):  # missing, or without rows
            return False
        return True


@dataclass(frozen=True, slots=True)
class _Target:
    """Results to be written over. key: of the accelerator that writes them. target: as its device takes them."""

    key: object
    outputs: _Held
    target: Any

    def fits(self, out: Results, batch: int) -> bool:
        """Whether these are still the arrays of the results, of so many samples, and can be written."""
        if self.outputs.batch != batch or not self.outputs.same(vars(out)):
            return False
        for _, array, _ in self.outputs.each:  # noqa: SIM110 - `all` takes twice as long
            if not array.flags.writeable:
                return False
        return True


class Results(SimpleNamespace):
    """Outputs as attributes, (batch, *shape) each, float64 unless the device was opened for float32; `overflow`
    (batch,) marks samples some value of which did not fit its format, and whose results are therefore wrong: none of a
    device that computes in floating point. Any other name raises AttributeError, which lists the outputs."""

    __slots__ = ("_target",)
    overflow: npt.NDArray[np.bool_]

    def __init__(self, **outputs: Any) -> None:
        super().__init__(**outputs)
        self._target: _Target | None = None  # of the last call that wrote over them

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no result '{name}'; expected one of {', '.join(vars(self))}")


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A call that has been made twice with the same arrays, and how to make it once more. Threads may make it at the
    same time."""

    out: Results
    target: _Target
    inputs: _Held
    overflow: npt.NDArray[np.bool_]
    call: Callable[[], None]

    def fits(self, out: Results, inputs: Mapping[str, Any]) -> bool:
        """Whether inputs are the same, as `_Held.same` has it, and results go to the same arrays, which can still be
        written. All here, because a control loop waits for each line of it."""
        held = self.inputs
        if out is not self.out or out._target is not self.target or len(inputs) != len(held.each):
            return False
        batch = held.batch
        try:
            for name, array, dtype in held.each:
                if inputs[name] is not array or len(array) != batch or array.dtype is not dtype:
                    return False
            results = out.__dict__
            for name, array, _ in self.target.outputs.each:
                if results[name] is not array or not array.flags.writeable:
                    return False
        except (KeyError, TypeError):
            return False
        return True


class Accelerator:
    """One function of one robot on a device. Call it with the inputs by name, batch first; use it as a context.

    Threads may share one: a call waits until that of another thread is done. For calls side by side open one for each
    thread. Once closed it refuses calls with DeviceError.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self._lock = threading.RLock()  # held while the device computes, but for a repeated call
        self._key = object()
        self._closed = False
        self._always_checked = any(port.unit_vectors for port in device.inputs)  # lengths
        # inputs of the call before, if they are arrays; those of two calls; and what a control loop gives all the time
        self._before: Arrays = {}
        self._read: _Held | None = None
        self._repeated: _Repeated | None = None

    def __call__(self, *, out: Results | None = None, **inputs: npt.ArrayLike) -> Results:
        """inputs: (batch, ...) real numbers, in the shapes and units of the function table.

        out: results of an earlier call with as large a batch, to be written over, which saves making arrays anew.
        Entries that are always zero are not written each time: leave them as they are.

        Raises ValueError or TypeError naming the input that is missing, unknown, misshapen, masked, not finite, an
        angle of 2^47 rad (float32: 2^18) and more, or (in fixed point) outside the range the formats were chosen for;
        nothing is computed then, except that "cpu" sees what is not finite or too large when it reads it: `out` is half
        written then. Raises ValueError naming the output and sample where results are not finite because values became
        too large for the dtype ("cuda" looks only where an input is 2^47, or 2^18, and more). Raises DeviceError where
        the device fails or is closed.

        Arrays that are given again are known by identity. The last ones are held, and cannot be resized in place.

        Arrays on a GPU (by the CUDA array interface or DLPack) go to "cuda" without a copy, and so do results, which
        then have no `overflow` and are not finite where inputs are not; the call comes back before they are there.
        """
        again = self._repeated
        if out is not None and again is not None and again.fits(out, inputs):
            again.call()
            again.overflow.fill(False)
            out.overflow = again.overflow
            return out
        with self._lock:
            return self._called(out, inputs)

    def _called(self, out: Results | None, inputs: Mapping[str, Any]) -> Results:
        if self._closed:
            raise DeviceError(f"{self!r} is closed; open it again")
        if out is not None and not isinstance(out, Results):
            raise ArgumentTypeError(f"out is a {type(out).__name__}; expected results of an earlier call")
        held = self._read
        if held is not None and not (len(inputs) == len(held.each) and held.same(inputs)):
            held = None
        if held is None and any(map(on_gpu, inputs.values())):
            return self._launched(out, inputs)
        arrays, batch = (held.arrays, held.batch) if held else self._arrays(inputs)
        if not self.device.checks_finite:
            check_finite(arrays, self.device.dtype)
        if out is None:
            outputs = self.device.new_outputs(batch)
            return Results(**outputs, overflow=self.device.run(arrays, batch, self.device.target(outputs)))
        before, target = out._target, self._target(out, batch)
        if target is not before:
            out._target = None  # whatever happens now, nobody has written all of it
        out.overflow = self.device.run(arrays, batch, target.target)
        if target is not before:
            self.device.clear(target.outputs.arrays)  # only now: they may be inputs as well
            out._target = target
        call = self.device.prepared(arrays, batch, target.target) if held and target is before else None
        self._repeated = _Repeated(out, target, held, out.overflow, call) if held and call else None
        return out

    def _launched(self, out: Results | None, inputs: Mapping[str, Any]) -> Results:
        check_names(self.device.function, self.device.inputs, inputs)
        outputs = None if out is None else {port.name: getattr(out, port.name) for port in self.device.outputs}
        results = self.device.launch(inputs, outputs)
        return Results(**results) if out is None else out

    def _arrays(self, inputs: Mapping[str, Any]) -> tuple[Arrays, int]:
        before, self._before, self._read = self._before, {}, None
        arrays, batch = checked(self.device.function, self.device.inputs, inputs)
        if self._always_checked:
            return arrays, batch
        if before and all(array is inputs[name] for name, array in before.items()):
            self._read = _Held(arrays, batch)
        self._before = arrays
        return arrays, batch

    def _target(self, out: Results, batch: int) -> _Target:
        """Results to be written over: those that this accelerator wrote last as they are, others checked."""
        before = out._target
        if before is not None and before.key is self._key and before.fits(out, batch):
            return before
        outputs = self._checked(out, batch)
        return _Target(self._key, _Held(outputs, batch), self.device.target(outputs))

    def _checked(self, out: Results, batch: int) -> Arrays:
        outputs: dict[str, Any] = {port.name: getattr(out, port.name, None) for port in self.device.outputs}
        for port in self.device.outputs:
            array, shape = outputs[port.name], (batch, *port.shape)
            if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != self.device.dtype:
                kind = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "nothing"
                raise ArgumentError(f"out.{port.name} is {kind}; expected {self.device.dtype} {shape}")
            if not self.device.fits(array) or not array.flags.writeable:
                raise ArgumentError(
                    f"out.{port.name} cannot be written in one piece; expected results of an earlier call"
                )
        for (a, one), (b, other) in itertools.combinations(outputs.items(), 2):
            if np.may_share_memory(one, other) and np.shares_memory(one, other):
                raise ArgumentError(f"out.{a} and out.{b} share memory; expected an array for each")
        return outputs

    def new_inputs(self, batch: int) -> Arrays:
        """Zeros (batch, ...) by name for a call's inputs, in the dtype and where in memory the device reads them
        fastest; other arrays do as well."""
        return self.device.new_inputs(batch)

    def unpack(self, results: Results) -> Results:
        """Results of this accelerator, opened with `pack=True`, in their full shapes. `device.packing` says per output
        where each entry is in its vector, -1 for those that are always zero."""
        packing = self.device.packing
        if packing is None:
            raise ArgumentError(f"{self!r} does not pack its results; expected one opened with pack=True")
        full = {name: unpacked(getattr(results, name), where) for name, where in packing.items()}
        return Results(**full, overflow=results.overflow)

    @property
    def transfer(self) -> Transfer:
        """Cycles that the last batch of any thread took; zeros where the device has no clock that can be seen."""
        return self.device.transfer

    def close(self) -> None:
        """Gives back what the device holds, when calls of other threads are done."""
        with self._lock:
            self._closed = True
            self._before, self._read, self._repeated = {}, None, None
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
    "sim"; `step` is called with what is about to happen; the rest go to the algorithm. Threads may share the
    accelerator; their calls then wait for each other.
    Raises ValueError for an unknown device, DesignError for a design or device that does not match, CompileError
    where there is no compiler.
    """
    chosen = device or ("cpu" if isinstance(what, Robot) else "sim")
    if chosen not in DEVICES:
        raise ArgumentError(f"device '{chosen}'; expected one of {', '.join(DEVICES)}")
    if not isinstance(what, Robot):
        if chosen != "sim":
            raise ArgumentError(f"device '{chosen}' computes from a robot; expected a Robot instead of a design")
        from dynagate.host.devices import open_design

        return Accelerator(open_design(what, **options))
    return Accelerator(DEVICES[chosen](what, function, **options))
