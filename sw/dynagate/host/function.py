"""The user's class: numpy arrays in, named numpy arrays out, whatever the device."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import as_memory, is_whole, shown
from dynagate.base.errors import ArgumentError, ArgumentTypeError, EntryError
from dynagate.base.explained import explained
from dynagate.base.foreign_names import CALLED, spelled
from dynagate.base.forks import renew_in_child
from dynagate.base.upper_limits import MAX_BATCH
from dynagate.base.warned import warn
from dynagate.graph.evaluate import InputRange
from dynagate.graph.packing import unpacked
from dynagate.host.bound import BoundCall, ShapeCache
from dynagate.host.devices.face import Executor, Overflow, UnderWay
from dynagate.host.inputs import Arrays, check_finite, check_names, check_values, checked, merged_axes, restricted
from dynagate.host.links import BatchTiming, OverflowedError, OverflowWarning
from dynagate.host.opened import Maker, Opened, remake
from dynagate.host.pending import Pending
from dynagate.host.results import Results
from dynagate.host.single import SingleState, single
from dynagate.native.gpu import on_gpu, unpacked_there

MASK, RAISE = "mask", "raise"

Leading = tuple[int, ...]
"""The axes of a batch: () of a single state, (batch,), or more."""


@explained
class Function(Opened):
    """A function of one robot that is compiled for a device, or computed by a design.

    Call it with the inputs in the order of `inputs`, or by name. Leading axes are batches, and broadcast as in numpy.
    `dynagate.compile` and `dynagate.open` return such objects; use them as contexts where they hold a device. If a
    design computes one of several functions for each sample, call one by its name:
    `device.forward_dynamics(q, qd, tau)`.

    Threads may share a function: a call waits until the call of another thread is done. To compute in several threads
    at a time, compile a function for each. A closed function refuses calls with DeviceError. With `overflow="raise"`, a
    batch with a sample that overflowed raises OverflowedError.

    Example:
        >>> forward = dynagate.compile("two_joint_arm", "forward_dynamics", device="numpy")
        >>> forward(q=np.zeros(2), qd=np.zeros(2), tau=np.zeros(2)).qdd.shape
        (2,)
        >>> forward(np.zeros((8, 2)), np.zeros(2), np.zeros(2)).qdd.shape  # one velocity and torque for eight positions
        (8, 2)
    """

    _made_by = "dynagate.compile"
    """Call whose option `region` has the range of the formats."""

    def __init__(self, device: Executor, *, overflow: str = MASK) -> None:
        """Make the function that a device computes.

        Args:
            device: The device.
            overflow: "mask", so that results have the flags `overflow`, or "raise", so that a batch with a sample that
                overflowed raises OverflowedError.

        Raises:
            ArgumentError: overflow is neither.
        """
        check_overflow(overflow)
        self._raises = overflow == RAISE
        self._lock = device.lock  # held while the device computes, but for some bound calls
        renew_in_child(self, "_lock")
        self._closed = False
        self._has_warned = False
        self._chosen: dict[tuple[str, ...], Function] = {}
        self.functions: dict[str, Function] = {}
        """The functions of a design that computes several, by name. They share the device."""
        self._computes(device)

    def _computes(self, device: Executor) -> None:
        """Compute what a device computes from now on. The functions of the device before are closed."""
        for each in (*self.functions.values(), *self._chosen.values()):
            each._set_closed()
        self._chosen.clear()
        self.device, self.function, self.dtype = device, device.function, device.dtype
        self._names = tuple(port.name for port in device.inputs)
        self._kept: ShapeCache[SingleState | None] = ShapeCache(1)
        overflow = RAISE if self._raises else MASK
        self.functions = {name: type(self)(each, overflow=overflow) for name, each in device.functions.items()}

    if not TYPE_CHECKING:  # type checkers know the names below

        def __getattr__(self, name: str) -> Function:
            functions = vars(self).get("functions", {})
            if name in functions:
                return functions[name]
            expected = f"; its functions are {', '.join(functions)}" if functions else ""
            if spelled(name) in CALLED:
                expected = "; a function is called: write function(...)"
            raise AttributeError(f"{type(self).__name__} has no '{name}'{expected}")

    if TYPE_CHECKING:
        inverse_dynamics: Function
        mass_matrix: Function
        mass_matrix_inverse: Function
        forward_dynamics: Function
        inverse_dynamics_gradient: Function
        forward_dynamics_gradient: Function

    def choosing(self, outputs: str | Sequence[str]) -> Function:
        """Return this function with only some of its outputs.

        Both share the device: closing this one closes the other. A design that was built with `choice` computes all
        outputs and sends only these; other devices leave the rest out of the results. Calls with other outputs may
        follow: the device changes its choice when all samples have left it.

        Args:
            outputs: Names of the outputs, in their order.

        Returns:
            The function with these outputs.

        Raises:
            ArgumentError: There is no such output, or none is named.
        """
        names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
        with self._lock:
            self._check(None)
            known = [port.name for port in self.device.outputs]
            for name in names:
                if name not in known:
                    raise ArgumentError(
                        f"{self.device.function} has no output '{name}'; expected some of {', '.join(known)}",
                        code="DG-DEVICE-034",
                    )
            if not names:
                raise ArgumentError(
                    f"{self.device.function} without outputs; expected some of {', '.join(known)}", code="DG-DEVICE-035"
                )
            key = tuple(name for name in known if name in names)
            if key not in self._chosen:
                chosen = type(self)(self.device.choosing(key), overflow=RAISE if self._raises else MASK)
                if self._maker is not None:
                    chosen._keep_maker(_with_outputs, (self._maker, key), {})
                self._chosen[key] = chosen
            return self._chosen[key]

    def __call__(
        self,
        /,
        *arrays: npt.ArrayLike,
        out: Results | None = None,
        outputs: str | Sequence[str] | None = None,
        **named: npt.ArrayLike,
    ) -> Results:
        """Compute the function for each state.

        Args:
            arrays: The inputs in the order of `inputs`, real numbers (*leading, *shape), with the shapes and units of
                the function table. The leading axes broadcast as in numpy; a single state has none.
            out: Results with the leading axes of this call, to be written over, which saves new arrays. If the input
                arrays stay the same too, `bind` saves more.
            outputs: Names of the outputs to compute; all unless given (`choosing`).
            named: Inputs by name, where they are not in `arrays`.

        Returns:
            The outputs by name, each (*leading, *shape).

        Raises:
            ArgumentError: An input is missing, unknown, there twice, of another shape, not finite, an angle of 2^47 rad
                (float32: 2^18) and more, or (in fixed point) outside the operating region. Or its leading axes do not
                fit those of another input, or fit them in two ways. Nothing is computed then, except that "cpu" sees
                numbers that are not finite or too large when it reads them, and leaves `out` half written. Or values
                became too large for the dtype, and the text names the output and sample.
            ArgumentTypeError: There are too many arrays, or one does not hold real numbers, or is masked.
            DeviceError: The device fails or is closed.
            OverflowedError: A sample overflowed, with overflow="raise"; the results are written then.

        Arrays on a GPU (by the CUDA array interface or DLPack) go to "cuda" without a copy, and so do results. These
        have no `overflow`, and are not finite where inputs are not. The call returns before the results are there.
        """
        inputs = self._by_name(arrays, named) if arrays else named
        if outputs is not None:
            return self.choosing(outputs)(out=out, outputs=None, **inputs)
        with self._lock:
            if out is None and (single_results := self._single_call(inputs)) is not None:
                return single_results
            self._check(out)
            if any(map(on_gpu, inputs.values())):
                results_there, launch = self._launch(out, inputs)
                launch()
                return Results(**results_there) if out is None else out
            own, leading = checked(self.device.function, self.device.inputs, inputs)
            if out is None:
                results, written = self._new_results(leading)
                results.set_overflow(self._run(own, written, leading).reshape(leading))
                return results
            written = self._written(out, leading)
            out.set_overflow(self._run(own, written, leading).reshape(leading))
            self.device.clear(written)  # only now: they may be inputs as well
            return out

    def _by_name(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a call by name.

        Raises:
            ArgumentTypeError: There are too many arrays.
            ArgumentError: An input is given twice, or the device computes several functions.
        """
        names = self._names
        if self.functions:
            self._check(None)
        if len(arrays) > len(names):
            order = ", ".join(names)
            raise ArgumentTypeError(
                f"{self.function} got {len(arrays)} arrays; expected at most {len(names)}, in this order: {order}",
                code="DG-DEVICE-036",
            )
        for name in names[: len(arrays)]:
            if name in named:
                raise ArgumentError(
                    f"{self.function} got input '{name}' twice, in order and by name; expected it once",
                    code="DG-DEVICE-037",
                )
        return {**dict(zip(names, arrays, strict=False)), **named}

    def _single_call(self, inputs: Mapping[str, Any]) -> Results | None:
        """The call of one state in arrays of the device's dtype, where the device has a quick one; else None."""
        if self._closed or () not in self._kept:
            self._check(None)
            self._kept.put((), single(self.device))
        call = self._kept.get(())
        if call is None:
            return None
        try:
            results = call(inputs)
        except EntryError as error:
            raise error.within(()) from None
        if results is not None and results.overflow:
            arrays = {name: array.reshape(1, *array.shape) for name, array in results.items()}
            self._looked_at(results.overflow.reshape(1), (), arrays)
        return results

    def bind(self, /, *arrays: Any, out: Results | None = None, **named: Any) -> BoundCall:
        """Check a call once, and return it as a function without arguments for many repetitions.

        Write new inputs into the arrays that were bound, then call `run()`: it reads these arrays, overwrites the
        results and returns them. It computes and raises the same as a call with these arrays, without the checks of
        names, shapes and dtypes.

            inputs = forward.new_inputs(256) run = forward.bind(**inputs) inputs["q"][...] = q accelerations = run().qdd

        The bound call keeps the arrays, so that numpy refuses to resize them in place. It continues to use the same
        memory if an array gets another shape or dtype in place, or becomes read-only. Arrays on a GPU must stay where
        they are. After the function is closed, `run()` raises DeviceError.

        Args:
            arrays: numpy arrays (*leading, *shape) in the order of `inputs`. They all have the same leading axes: bound
                arrays are not broadcast. Arrays of `new_inputs` are the fastest; those of another dtype or layout are
                converted in each call.
            out: Results that are overwritten; by default new ones. Entries that are always zero are only written here,
                so leave them unchanged.
            named: The same arrays by name.

        Returns:
            The bound call.

        Raises:
            ArgumentTypeError, ArgumentError: As a call raises them, or an input cannot be read in place: it is no
                array, or its leading axes have gaps in memory.
        """
        inputs = self._by_name(arrays, named) if arrays else named
        with self._lock:
            self._check(out)
            if any(map(on_gpu, inputs.values())):
                outputs, launch = self._launch(out, inputs)
                return BoundCall(self, Results(**outputs) if out is None else out, launch, [])
            for name, value in inputs.items():
                if not isinstance(value, np.ndarray):
                    raise ArgumentTypeError(
                        f"input '{name}' is a {type(value).__name__}, which cannot be read in place; expected a numpy "
                        f"array, such as numpy.array({name}, dtype=float), or one of new_inputs",
                        code="DG-DEVICE-038",
                    )
            _, leading = checked(self.device.function, self.device.inputs, inputs, in_place=True)
            own = {port.name: _in_place(port.name, inputs[port.name], leading) for port in self.device.inputs}
            results, written = self._new_results(leading) if out is None else (out, self._written(out, leading))
            _with_flags(results, leading)
            call = self._bound(own, written, leading, results.overflow)
            return BoundCall(self, results, call, [*inputs.values(), *results.values(), results.overflow])

    def _bound(self, arrays: Arrays, outputs: Arrays, leading: Leading, overflow: Overflow) -> Callable[[], None]:
        """Return the function that a bound call runs."""
        device = self.device
        looked_at = [port for port in device.inputs if restricted(port)]
        checked_before: Arrays = {}
        shared = any(np.may_share_memory(a, b) for a in arrays.values() for b in outputs.values())
        if not shared:
            device.clear(outputs)
        direct = None if shared or looked_at else device.bound(arrays, outputs, math.prod(leading))
        if direct is not None:

            def at_once() -> None:
                try:
                    flags = direct()
                except EntryError as error:
                    raise error.within(leading) from None
                if flags is None:
                    overflow.fill(False)
                else:
                    overflow[...] = flags.reshape(leading)
                    self._looked_at(flags, leading, outputs)

            return self._exclusively(at_once) if device.exclusive else at_once

        def call() -> None:
            with self._lock:
                self._check(None)
                for port in looked_at:
                    _check_changed(port, arrays[port.name], leading, checked_before)
                overflow[...] = self._run(arrays, outputs, leading).reshape(leading)
                if shared:
                    device.clear(outputs)

        return call

    def _exclusively(self, call: Callable[[], None]) -> Callable[[], None]:
        def locked() -> None:
            with self._lock:
                if self._closed:
                    self._check(None)
                call()

        return locked

    def _run(self, arrays: Arrays, outputs: Arrays, leading: Leading) -> Overflow:
        """Which samples overflowed, (batch,)."""
        try:
            if not self.device.checks_finite:
                check_finite(arrays, self.device.dtype)
            return self._looked_at(self.device.run(arrays, outputs, math.prod(leading)), leading, outputs)
        except EntryError as error:
            raise error.within(leading) from None

    def _looked_at(self, overflow: Overflow, leading: Leading, outputs: Arrays) -> Overflow:
        """Set the results of samples that overflowed to NaN, unless the device saturates, and return the flags.

        The first call with such samples gives an OverflowWarning.

        Args:
            overflow: Flags (batch,).
            leading: Leading axes of the call, for the error.
            outputs: Results (batch, *shape) by name.

        Raises:
            OverflowedError: A sample overflowed, with overflow="raise".
        """
        if not overflow.any():
            return overflow
        if not self.device.saturates:
            for array in outputs.values():
                array[overflow] = np.nan
        if self._raises:
            first = np.unravel_index(int(np.argmax(overflow)), leading) if leading else ()
            raise OverflowedError(
                f"{int(overflow.sum())} of {overflow.size} samples overflowed, the first at "
                f"{tuple(int(k) for k in first)}; expected states inside the formats' region, or overflow='{MASK}'",
                code="DG-DEVICE-039",
            )
        if not self._has_warned:
            self._has_warned = True
            self._warn_of(overflow)
        return overflow

    def _warn_of(self, overflow: Overflow) -> None:
        """Give the warning about samples that overflowed, flags (batch,)."""
        results = "the nearest numbers that fit" if self.device.saturates else "NaN"
        warn(
            f"{int(overflow.sum())} of {overflow.size} samples of {self.device.robot} {self.function} overflowed, and "
            "their results are "
            f"{results}: most likely a result, such as an acceleration, is larger than the formats allow; expected "
            f"region=dynagate.Region.of(robot, acceleration=...) with larger limits in {self._made_by}, or "
            "overflow='raise' for an error (`results.overflow` has the flags)",
            OverflowWarning,
            code="DG-DEVICE-040",
        )

    def submit(self, /, *arrays: Any, **named: Any) -> Pending:
        """Begin a call, and return at once if the device computes concurrently with the host ("sim" and links to
        boards).

        Other devices compute the results before `submit` returns. Batches finish in the order in which they were
        submitted. The device takes a few at a time; `submit` waits when there are more. A call waits until all of them
        are done.

        Args:
            arrays: Inputs in the order of `inputs`, as of a call. They are read before `submit` returns.
            named: Inputs by name, as of a call.

        Returns:
            The call. Its `result` raises errors that occur later.

        Raises:
            ArgumentError, ArgumentTypeError: As a call raises them for inputs.
        """
        inputs = self._by_name(arrays, named) if arrays else named
        with self._lock:
            self._check(None)
            under_way: UnderWay | None = None
            if not any(map(on_gpu, inputs.values())):
                own, leading = checked(self.device.function, self.device.inputs, inputs)
                try:
                    if not self.device.checks_finite:
                        check_finite(own, self.device.dtype)
                    under_way = self.device.submit(own, math.prod(leading))
                except EntryError as error:
                    raise error.within(leading) from None
            if under_way is None:
                results = self(**inputs)
                return Pending(self, lambda: results, lambda: True)
            return Pending(self, lambda: self._finished(under_way, leading), under_way.done.is_set)

    def _finished(self, under_way: UnderWay, leading: Leading) -> Results:
        under_way.done.wait()
        with self._lock:
            values, overflow = under_way.result()
            self._looked_at(overflow, leading, values)
            shaped = {name: array.reshape((*leading, *array.shape[1:])) for name, array in values.items()}
            return Results(overflow=overflow.reshape(leading), **shaped)

    def _check(self, out: Results | None) -> None:
        self.check_open()
        if self.device.functions:
            calls = ", ".join(f"accelerator.{name}(...)" for name in self.device.functions)
            raise ArgumentError(
                f"the accelerator computes several functions; expected a call of one: {calls}", code="DG-DEVICE-041"
            )
        if out is not None and not isinstance(out, Results):
            raise ArgumentTypeError(
                f"out is a {type(out).__name__}; expected results of an earlier call", code="DG-DEVICE-042"
            )

    def _launch(self, out: Results | None, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[], None]]:
        check_names(self.device.function, self.device.inputs, inputs)
        outputs = None if out is None else {port.name: getattr(out, port.name) for port in self.device.outputs}
        return self.device.launch(inputs, outputs)

    def _new_results(self, leading: Leading) -> tuple[Results, Arrays]:
        """New results, and their arrays as (batch, *shape)."""
        outputs = self.device.new_outputs(math.prod(leading))
        shaped = {name: array.reshape((*leading, *array.shape[1:])) for name, array in outputs.items()}
        return Results(**shaped), outputs

    def _written(self, out: Results, leading: Leading) -> Arrays:
        """Return the arrays of results as (batch, *shape), for writing in place. Raise ArgumentError if that is not
        possible.
        """
        arrays: Arrays = {}
        for port in self.device.outputs:
            array, shape = as_memory(out.get(port.name)), (*leading, *port.shape)
            if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != self.device.dtype:
                kind = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "nothing"
                raise ArgumentError(
                    f"out.{port.name} is {kind}; expected {self.device.dtype} {shape}", code="DG-DEVICE-043"
                )
            view = merged_axes(array, len(leading))
            if not _is_view(view, array) or not self.device.fits(view) or not view.flags.writeable:
                raise ArgumentError(
                    f"out.{port.name} cannot be written in one piece; expected results of an earlier call",
                    code="DG-DEVICE-044",
                )
            arrays[port.name] = view
        for (a, one), (b, other) in itertools.combinations(arrays.items(), 2):
            if np.may_share_memory(one, other) and np.shares_memory(one, other):
                raise ArgumentError(
                    f"out.{a} and out.{b} share memory; expected an array for each", code="DG-DEVICE-045"
                )
        return arrays

    def new_inputs(self, batch: int | tuple[int, ...]) -> Arrays:
        """Return zeros for the inputs of a call, in the dtype and memory layout that the device reads fastest.

        Args:
            batch: Number of samples, or the leading axes; () for a single state.

        Returns:
            Arrays (*leading, *shape) by name.

        Raises:
            ArgumentError: A number is not a whole number of 0 or more.
        """
        leading = tuple(batch) if isinstance(batch, Sequence) and not isinstance(batch, str) else (batch,)
        if not all(is_whole(count) and 0 <= count <= MAX_BATCH for count in leading):
            raise ArgumentError(
                f"batch={shown(batch)}; expected a whole number of 0 or more, or several", code="DG-DEVICE-046"
            )
        if math.prod(leading) > MAX_BATCH:
            raise ArgumentError(f"batch={shown(batch)}; expected at most {MAX_BATCH:g} samples", code="DG-DEVICE-047")
        try:
            arrays = self.device.new_inputs(math.prod(leading))
        except MemoryError as error:
            raise ArgumentError(
                f"batch={shown(batch)} does not fit into memory ({error}); expected fewer", code="DG-DEVICE-048"
            ) from None
        return {name: array.reshape((*leading, *array.shape[1:])) for name, array in arrays.items()}

    def unpack(self, results: Results) -> Results:
        """Return packed results in their full shapes.

        Args:
            results: Results (*leading, entries) of this function, compiled with `pack=True`; all outputs or some. For
                each output `device.packing` has the place of each entry in its vector, -1 for entries that are always
                zero.

        Returns:
            The results (*leading, *shape).

        Raises:
            ArgumentError: The function does not pack its results.
        """
        packing = self.device.packing
        if packing is None:
            raise ArgumentError(
                f"{self!r} does not pack its results; expected one with pack=True", code="DG-DEVICE-049"
            )
        full = {
            name: (unpacked_there if on_gpu(value) else unpacked)(value, packing[name])
            for name, value in results.items()
        }
        return Results(**full, overflow=vars(results).get("overflow"))  # results on a GPU have none

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in the order in which a call accepts them."""
        return self._names

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the results."""
        return tuple(port.name for port in self.device.outputs)

    @property
    def transfer(self) -> BatchTiming:
        """Cycles that the last batch of any thread took; zeros where the device has no clock that can be seen."""
        return self.device.transfer

    def close(self) -> None:
        """Gives back what the device holds, when calls of other threads are done."""
        with self._lock:
            self._set_closed()
            self.device.close()

    def _set_closed(self) -> None:
        self._closed = True
        for each in (*self.functions.values(), *self._chosen.values()):
            each._set_closed()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.device.robot} {self.device.function}, {self.device.text}>"


def _with_outputs(made_by: Maker, outputs: tuple[str, ...]) -> Function:
    """Return a function with some of its outputs, made anew."""
    function: Function = remake(*made_by)
    return function.choosing(outputs)


def check_overflow(overflow: str) -> None:
    """Check the argument `overflow`.

    Args:
        overflow: What a call does if a number overflows.

    Raises:
        ArgumentError: There is no such choice.
    """
    if overflow not in (MASK, RAISE):
        raise ArgumentError(f"overflow '{overflow}'; expected '{MASK}' or '{RAISE}'", code="DG-DEVICE-050")


def _is_view(view: npt.NDArray[Any], array: npt.NDArray[Any]) -> bool:
    return not array.size or np.may_share_memory(view, array)


def _in_place(name: str, array: npt.NDArray[Any], leading: Leading) -> npt.NDArray[Any]:
    """Return an input as (batch, *shape) in a view, so that the array's shape and dtype may change in place."""
    view = merged_axes(array.view(np.ndarray), len(leading))
    if not _is_view(view, array):
        raise ArgumentError(
            f"input '{name}' has gaps between its leading axes {leading} and cannot be read in place; expected an "
            f"array without gaps, such as numpy.ascontiguousarray({name})",
            code="DG-DEVICE-051",
        )
    return view


def _check_changed(port: InputRange, array: npt.NDArray[Any], leading: Leading, before: Arrays) -> None:
    """Check the numbers of an input as `check_values` does. Parameters of the robot that are equal to those in
    `before`, which passed the check, are not checked again.
    """
    if not port.parameter:
        check_values(port, array, leading)
    elif port.name not in before or not np.array_equal(array, before[port.name]):
        check_values(port, array, leading)
        before[port.name] = array.copy()


def _with_flags(results: Results, leading: Leading) -> None:
    """Gives results an array for `overflow` unless they have one that can be written."""
    flags = vars(results).get("overflow")
    if flags is None or flags.shape != leading or flags.dtype != np.bool_ or not flags.flags.writeable:
        results.set_overflow(np.zeros(leading, dtype=bool))
