"""What computes for an `Accelerator`: float64 numpy, integers, compiled C, a GPU, or a datapath in simulation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError, ArgumentTypeError, Error
from dynagate.design.design import Design, DesignFunction
from dynagate.dynamics import CODE, Part
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.graph.ops import TRIG
from dynagate.graph.packing import Packing, packed
from dynagate.host.drivers import Driver
from dynagate.host.inputs import (
    TOO_LARGE,
    Arrays,
    Port,
    brought,
    check_angles,
    check_finite,
    check_results,
    moderate,
)
from dynagate.host.links import DeviceError, Transfer
from dynagate.host.transfers import Batch
from dynagate.native.arrays import lies
from dynagate.native.gpu import GpuError, GpuKernel
from dynagate.native.kernel import TANGLED

if TYPE_CHECKING:
    from dynagate.fixedpoint.assign import FormattedGraph

Step = Callable[[str], Any]
Overflow = npt.NDArray[np.bool_]


class Device(ABC):
    """Arrays by name in, arrays by name out. text: what it is, in a few words. checks_finite: `run` refuses inputs that
    are not, else the caller does. packing: of outputs that are packed, as `graph.packing` has it. angles: by input the
    entries of a sample, counted through, that are angles."""

    robot: str
    function: str
    inputs: Sequence[Port]
    outputs: Sequence[Port]
    text: str
    dtype: np.dtype[Any] = np.dtype(np.float64)
    transfer: Transfer = Transfer(0, 0.0)
    checks_finite: bool = False
    exclusive: bool = False
    packing: Packing | None = None
    angles: Mapping[str, Sequence[int]] = {}

    def new_inputs(self, batch: int) -> Arrays:
        return {port.name: np.zeros((batch, *port.shape), self.dtype) for port in self.inputs}

    def new_outputs(self, batch: int) -> Arrays:
        return {port.name: np.zeros((batch, *port.shape), self.dtype) for port in self.outputs}

    def fits(self, array: npt.NDArray[Any]) -> bool:
        """Whether results can be written into an array as it lies in memory."""
        return bool(array.flags.c_contiguous)

    def clear(self, outputs: Arrays) -> None:  # noqa: B027
        """Zeros in the entries of outputs that `run` does not write, as they always are zero."""

    def launch(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any], Callable[[], None]]:
        """Arrays in a GPU's memory, where the device is one: the outputs, and what computes them each time that it is
        called. outputs: to be written; None for new ones."""
        raise ArgumentTypeError(f"{self.text} takes arrays in host memory; expected numpy arrays, or device 'cuda'")

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        """`run` on the same arrays again and again, where that is faster; None stands for no overflow. Several threads
        may call it at a time unless `exclusive`."""
        return None

    @abstractmethod
    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        """Fills the outputs (batch, *shape) from checked inputs; returns which samples overflowed, (batch,)."""

    def submit(self, arrays: Arrays, batch: int) -> UnderWay | None:
        """Gives checked inputs to a device that computes beside the host, where it is one. Raises as `run` does for
        inputs, DeviceError where it is closed."""
        return None

    def load(self, design: Any) -> None:
        """Another program, where the device is a processor. Raises ValueError: it is none."""
        raise ArgumentError(f"{self.text} has no program; expected a processor, of a design built with units=4, say")

    def choosing(self, outputs: Sequence[str]) -> Device:
        """The device with these of its outputs alone, in their order."""
        return ChosenDevice(self, outputs)

    def close(self) -> None:  # noqa: B027
        """Gives back what the device holds."""

    def _of(self, graph: Graph) -> None:
        self.robot, self.function = graph.robot, graph.name
        self.inputs, self.outputs = graph.inputs, graph.outputs
        angles = {a for node in graph.nodes if node.op in TRIG for a in node.args}
        entries = {port.name: [k for k, i in enumerate(port.nodes) if i in angles] for port in graph.inputs}
        self.angles = {name: places for name, places in entries.items() if places}

    def _packed(self, graph: Graph, pack: bool) -> Graph:
        if pack:
            graph, self.packing = packed(graph)
        self._of(graph)
        return graph


class NumpyDevice(Device):
    """The reference: the graph in float64. pack: as for "cpu"."""

    text = "numpy, float64"

    def __init__(self, graph: Graph, *, pack: bool = False) -> None:
        self.graph = self._packed(graph, pack)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        if not batch:
            return np.zeros(0, dtype=bool)
        check_angles(arrays, self.angles, self.dtype)
        with np.errstate(all="ignore"):  # what becomes too large is looked for below
            results = evaluate(self.graph, {name: array.astype(np.float64) for name, array in arrays.items()})
        check_results(results, self.dtype)
        for name, value in results.items():
            outputs[name][...] = value
        return np.zeros(batch, dtype=bool)


class FixedDevice(Device):
    """The integers that hardware computes, in numpy. design: whose AXI shell rounds inputs and results."""

    text = "integers"

    def __init__(self, formatted: FormattedGraph, design: Design | None = None) -> None:
        self.formatted = formatted
        self._of(formatted.graph)
        self._numbers = {} if design is None else design.numbers
        self.dtype = self.dtype if design is None else np.dtype(design.results)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        from dynagate.fixedpoint.evaluate import evaluate as evaluate_fixed

        if not batch:
            return np.zeros(0, dtype=bool)
        doubles = {name: array.astype(np.float64) for name, array in arrays.items()}
        self._check_ranges(doubles)
        result = evaluate_fixed(self.formatted, doubles, self._numbers)
        for name, value in result.outputs.items():
            outputs[name][...] = value
        return result.overflow

    def _check_ranges(self, arrays: Arrays) -> None:
        bounds, formats = self.formatted.bounds, self.formatted.formats
        for port in self.formatted.graph.inputs:
            flat = arrays[port.name].reshape(-1, len(port.nodes))
            for k, i in enumerate(port.nodes):
                brought(port, k, flat[:, k], bounds[i], formats[i], self._numbers.get(port.name))


class CpuDevice(Device):
    """C compiled for this machine, vectors over the batch. Inputs are checked as they are read, and results by the
    processor's flags; arrays are only looked through if that says so.

    dtype: float64 or float32. threads: how many share a batch. layout: "rows" or "planes", as `native.kernel` has it.
    pack: outputs are vectors of their different entries, without those that are always zero (`Accelerator.unpack`).
    """

    checks_finite = True

    def __init__(
        self,
        graph: Graph,
        *,
        dtype: npt.DTypeLike = np.float64,
        threads: int = 1,
        layout: str = "rows",
        pack: bool = False,
        step: Step | None = None,
    ) -> None:
        from dynagate.native.kernel import Kernel

        graph = self._packed(graph, pack)
        self.dtype = np.dtype(dtype)
        if step:
            step("C compiler: kernel")
        self.kernel = Kernel(graph, self.dtype, threads=threads, layout=layout)
        self.text = f"C, {self.dtype}, {threads} thread{'s' if threads > 1 else ''}"

    def new_inputs(self, batch: int) -> Arrays:
        return self.kernel.new_inputs(batch)

    def new_outputs(self, batch: int) -> Arrays:
        return self.kernel.new_outputs(batch)

    def fits(self, array: npt.NDArray[Any]) -> bool:
        return self.kernel.fits(array)

    def clear(self, outputs: Arrays) -> None:
        self.kernel.clear(outputs)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        if batch and (status := self.kernel.status(arrays, self.kernel.written(outputs), batch)):
            self._refuse(status, arrays, outputs)
        return np.zeros(batch, dtype=bool)

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        call = self.kernel.bound(arrays, self.kernel.written(outputs), batch) if batch else None
        if call is None:
            return None

        def run() -> None:
            if status := call():
                self._refuse(status, arrays, outputs)

        return run

    def _refuse(self, status: int, arrays: Arrays, outputs: Arrays) -> None:
        """Raises ValueError: what the kernel has noticed."""
        if status & TANGLED:
            raise ArgumentError(
                "out lies over inputs of other samples in memory; expected arrays apart, or the same ones"
            )
        check_finite(arrays, self.dtype)
        check_angles(arrays, self.angles, self.dtype)
        check_results(outputs, self.dtype)
        raise ArgumentError(TOO_LARGE.format(self.dtype))

    def close(self) -> None:
        self.kernel.close()


@contextmanager
def on_card(card: str) -> Iterator[None]:
    """What fails on a GPU as a device's failure."""
    try:
        yield
    except GpuError as error:
        raise DeviceError(f"{card}: {error}") from None


class CudaDevice(Device):
    """A GPU. Arrays in host memory pass through pinned memory in chunks; arrays that are on the GPU stay there.

    dtype, layout, pack: as of "cpu". number: which card. stream: a cudaStream_t as a number, on which arrays on the GPU
    are ready and results will be; 0 is the default one.
    """

    checks_finite = True

    def __init__(
        self,
        graph: Graph,
        *,
        dtype: npt.DTypeLike = np.float32,
        layout: str = "rows",
        pack: bool = False,
        number: int = 0,
        stream: int = 0,
        step: Step | None = None,
    ) -> None:
        graph = self._packed(graph, pack)
        self.dtype, self.stream, self._layout = np.dtype(dtype), stream, layout
        if step:
            step("nvcc: kernel")
        with on_card(f"GPU {number}"):
            self.kernel = GpuKernel(graph, self.dtype, layout=layout, device=number)
        self.text = f"CUDA, {self.dtype}, card {number}"

    def new_inputs(self, batch: int) -> Arrays:
        return self.kernel.new_inputs(batch)

    def new_outputs(self, batch: int) -> Arrays:
        with on_card(self.text):
            return self.kernel.new_outputs(batch)

    def fits(self, array: npt.NDArray[Any]) -> bool:
        return lies(array, self._layout)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        ordinary = moderate(arrays, self.dtype)
        if not ordinary:
            check_finite(arrays, self.dtype)
            check_angles(arrays, self.angles, self.dtype)
        if any(np.may_share_memory(a, b) for a in arrays.values() for b in outputs.values()):
            arrays = {name: array.copy() for name, array in arrays.items()}  # read when the first chunks are written
        with on_card(self.text):
            self.kernel(arrays, outputs)
        if not ordinary:
            check_results(outputs, self.dtype)
        return np.zeros(batch, dtype=bool)

    def launch(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any], Callable[[], None]]:
        with on_card(self.text):
            results, call = self.kernel.bound(inputs, outputs, self.stream)

        def launched() -> None:
            try:  # `on_card` would take a microsecond more
                call()
            except GpuError as error:
                raise DeviceError(f"{self.text}: {error}") from None

        return results, launched

    def close(self) -> None:
        self.kernel.close()


SLOTS = 8
"""Batches under way, or waiting for somebody to take their results, in a device's ring of buffers."""


class UnderWay:
    """A batch in a slot of a device's ring. `collect` gives the slot back, `result` is what it found there."""

    def __init__(self, device: StreamDevice, batch: Batch, slot: _Slot) -> None:
        self.batch = batch
        self._device, self._slot = device, slot
        self._values: tuple[Arrays, Overflow] | None = None
        self._collected = False

    def collect(self) -> None:
        """Waits for the batch and takes its results out of the slot."""
        if self._collected:
            return
        batch = self.batch
        batch.done.wait()
        try:
            if batch.error is None:
                self._values = self._device.driver.unpack(batch.samples, batch.results)
        except Error as error:
            batch.error = error
        self._collected = True
        self._device.free(self, self._slot)

    def result(self) -> tuple[Arrays, Overflow]:
        """Results by name, (batch, *shape), and which samples overflowed. Raises as `run` does."""
        self.collect()
        if self._values is None:
            assert self.batch.error is not None
            raise self.batch.error
        return self._values


class _Slot:
    """Buffers for a batch, grown as batches need."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._rows = 0

    def batch(self, count: int) -> Batch:
        if count > self._rows or not self._rows:
            self._rows = count
            link = self._driver.link
            self._samples = link.buffer((count, *self._driver.sample))
            self._results = link.buffer((count, *self._driver.result))
        return Batch(self._samples[:count], self._results[:count])


class StreamDevice(Device):
    """A datapath behind a link, with a ring of buffers for batches under way."""

    exclusive = True

    def __init__(self, driver: Driver) -> None:
        self.driver, design = driver, driver.design
        self.robot, self.function = design.robot_name, design.function
        self.inputs, self.outputs, self.dtype = design.input.ports, design.output.ports, driver.dtype
        self.text = f"ii {design.ii}, latency {design.latency}, {type(driver.link).__name__}"
        self._free: list[_Slot] = []
        self._used: deque[UnderWay] = deque()

    def choosing(self, outputs: Sequence[str]) -> Device:
        driver = self.driver.choosing(outputs)
        return super().choosing(outputs) if driver is None else StreamDevice(driver)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        values, overflow = self.driver.run(arrays, batch)
        for name, value in values.items():
            outputs[name][...] = value
        self.transfer = self.driver.transfer
        return overflow

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        return self.driver.bound(arrays, outputs, batch)

    def submit(self, arrays: Arrays, batch: int) -> UnderWay | None:
        if not batch:
            return None
        if len(self._used) == SLOTS:
            self._used[0].collect()
        self.driver.wait_for_others()
        slot = self._free.pop() if self._free else _Slot(self.driver)
        try:
            under_way = slot.batch(batch)
            self.driver.pack(arrays, batch, under_way.samples)
            self.driver.queue.put(under_way)
        except BaseException:
            self._free.append(slot)
            raise
        self._used.append(UnderWay(self, under_way, slot))
        return self._used[-1]

    def free(self, under_way: UnderWay, slot: _Slot) -> None:
        """The batch has left its slot."""
        self._used.remove(under_way)
        self._free.append(slot)
        self.transfer = self.driver.transfer

    def close(self) -> None:
        self.driver.close()


class ChosenDevice(Device):
    """Some outputs of a device that computes all."""

    def __init__(self, device: Device, outputs: Sequence[str]) -> None:
        self.device = device
        self.robot, self.function, self.text, self.dtype = device.robot, device.function, device.text, device.dtype
        self.checks_finite, self.exclusive = device.checks_finite, device.exclusive
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
                "out of some outputs, for arrays on a GPU; expected out=None, or outputs chosen by dynagate.open"
            )
        every, call = self.device.launch(inputs, None)
        return {port.name: every[port.name] for port in self.outputs}, call


class PartDevice(Device):
    """One of several functions on a device that takes samples of all: it adds the code and the inputs that the function
    lacks, which are zero."""

    def __init__(self, part: DesignFunction | Part, device: Device, own: Container[str] | None = None) -> None:
        """own: the inputs of the function; all of the device but the code unless given."""
        self.device, self._code = device, part.code
        self.robot, self.function, self.text, self.dtype = device.robot, part.name, device.text, device.dtype
        self.checks_finite = device.checks_finite
        names = [port.name for port in device.inputs if port.name != CODE.name and (own is None or port.name in own)]
        self.inputs = [port for port in device.inputs if port.name in names]
        self.outputs, self.packing = device.outputs, device.packing
        self._added = [port for port in device.inputs if port.name not in names]

    def choosing(self, outputs: Sequence[str]) -> Device:
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


class FunctionsDevice(Device):
    """Devices of several functions by name, of which one computes at a time."""

    def __init__(self, name: str, functions: Mapping[str, Device]) -> None:
        self.functions = dict(functions)
        first = next(iter(self.functions.values()))
        self.robot, self.function, self.text, self.dtype = first.robot, name, first.text, first.dtype
        self.inputs = self.outputs = ()

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        raise ArgumentError(self.expected())

    def expected(self) -> str:
        calls = ", ".join(f"accelerator.{name}(...)" for name in self.functions)
        return f"the accelerator computes several functions; expected a call of one: {calls}"

    def close(self) -> None:
        for device in self.functions.values():
            device.close()
