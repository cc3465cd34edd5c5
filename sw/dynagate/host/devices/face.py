"""The interface of executors: arrays by name in, arrays by name out."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.forks import renew_in_child
from dynagate.fixedpoint.models.model import Ranges
from dynagate.graph import Graph
from dynagate.graph.packing import Packing, packed
from dynagate.host.inputs import Arrays, InputRange
from dynagate.host.links import BatchTiming

Overflow = npt.NDArray[np.bool_]


class UnderWay(ABC):
    """A batch that a device computes while the host does other work."""

    done: threading.Event
    """Set when there are results or an error."""

    @abstractmethod
    def result(self) -> tuple[Arrays, Overflow]:
        """Results by name, (batch, *shape), and which samples overflowed. Raises as `Executor.run` does."""


class Executor(ABC):
    """Base class of devices: computes one function or several, with arrays by name as inputs and outputs."""

    robot: str
    """Name of the robot."""
    function: str
    """Name of the function, or names separated by commas."""
    inputs: Sequence[InputRange]
    """Inputs in their order, with the values that they may have."""
    outputs: Sequence[InputRange]
    """Outputs in their order."""
    text: str
    """Short description of the device."""
    dtype: np.dtype[Any] = np.dtype(np.float64)
    """Type of the arrays."""
    transfer: BatchTiming = BatchTiming(0, 0.0)
    """Cycles of the last batch."""
    checks_finite: bool = False
    """Whether `run` refuses inputs that are not finite. If not, the caller does."""
    exclusive: bool = False
    """Whether one thread at a time may call what `bound` returns."""
    packing: Packing | None = None
    """Packing of outputs that are packed, as `graph.packing` has it."""
    saturates: bool = False
    """Whether results of samples that overflow are the nearest numbers that fit. If not, they are no results."""
    carry: Mapping[str, str] = {}
    """Output -> input of the next step, of a motion whose states stay in the device.

    `run` then takes the states that the first steps begin with, (batch, *shape), the other inputs of all steps, (batch,
    steps, *shape), STEPS and EVERY. It fills the outputs, (batch, steps, *shape), and returns which steps overflowed,
    (batch, steps). Both count where `shown` is true.
    """
    ranges: Ranges = MappingProxyType({})
    """Values that the inputs may have, of a motion. Other devices check their inputs as they run."""
    step_graph: Graph | None = None
    """Graph of a step of a motion, if the device computes the integers of one; for texts on overflow."""
    functions: Mapping[str, Executor] = {}
    """The devices of several functions by name, of which one computes at a time."""
    angles: Mapping[str, Sequence[int]] = {}
    """Entries of a sample that are angles, counted through, by input."""

    @cached_property
    def lock(self) -> Any:
        """Lock that callers hold while the device computes. Devices that share hardware share it."""
        renew_in_child(self, "lock")
        return threading.RLock()

    def share_lock(self, lock: Any) -> None:
        """Use a lock that other objects on the same hardware use too.

        Args:
            lock: The lock, held while a batch is computed.
        """
        self.lock = lock
        renew_in_child(self, "lock")

    @property
    def keeps_states(self) -> bool:
        """Whether outputs are per step of a motion, whose states stay in the device."""
        return bool(self.carry)

    def new_inputs(self, batch: int) -> Arrays:
        return {port.name: np.zeros((batch, *port.shape), self.dtype) for port in self.inputs}

    def new_outputs(self, batch: int) -> Arrays:
        return {port.name: np.zeros((batch, *port.shape), self.dtype) for port in self.outputs}

    def fits(self, array: npt.NDArray[Any]) -> bool:
        """Return whether results can be written directly into an array.

        Args:
            array: Array with its layout in memory and its dtype.

        Returns:
            True if they can; False if they need a copy.
        """
        return bool(array.flags.c_contiguous)

    def clear(self, outputs: Arrays) -> None:  # noqa: B027
        """Write the entries of outputs that are always zero, which `run` does not write.

        Args:
            outputs: Arrays (batch, *shape) by name.
        """

    def launch(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any], Callable[[], None]]:
        """Prepare a call on arrays in the memory of a GPU, if the device is one.

        Args:
            inputs: Arrays on the GPU by name.
            outputs: Arrays that are overwritten; None for new ones.

        Returns:
            The outputs by name, and a function that computes them on each call.
        """
        raise ArgumentTypeError(
            f"{self.text} takes arrays in host memory; expected numpy arrays, or device 'cuda'", code="DG-DEVICE-012"
        )

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        """Prepare repeated calls on the same arrays, if they are faster than `run`. Threads may call the function
        concurrently unless `exclusive` is true.

        Args:
            arrays: Checked inputs (batch, *shape) by name.
            outputs: Arrays (batch, *shape) by name, which are overwritten.
            batch: Number of samples.

        Returns:
            A function that computes the outputs and returns which samples overflowed, None for no sample; or None if it
            would not be faster.
        """
        return None

    @abstractmethod
    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        """Compute a batch.

        Args:
            arrays: Checked inputs (batch, *shape) by name.
            outputs: Arrays (batch, *shape) by name, which are overwritten.
            batch: Number of samples.

        Returns:
            Which samples overflowed, (batch,).
        """

    def submit(self, arrays: Arrays, batch: int) -> UnderWay | None:
        """Begin a batch on a device that computes concurrently with the host.

        Args:
            arrays: Checked inputs (batch, *shape) by name.
            batch: Number of samples.

        Returns:
            The batch; None if the device does not compute concurrently.

        Raises:
            ArgumentError: As `run` does for inputs.
            DeviceError: The device is closed.
        """
        return None

    def choosing(self, outputs: Sequence[str]) -> Executor:
        """Return the device with only some of its outputs.

        Args:
            outputs: Names of the outputs, in their order.

        Returns:
            A view of the same device.
        """
        return SelectedOutputs(self, outputs)

    def load(self, design: Any) -> Executor:
        """Load another program into a processor.

        Args:
            design: The program.

        Returns:
            The device of the new program.

        Raises:
            ArgumentError: The device is no processor.
        """
        raise ArgumentError(
            f"{self.text} has no program; expected a processor, of a design built with units=4, say",
            code="DG-DEVICE-013",
        )

    def close(self) -> None:  # noqa: B027
        """Gives back what the device holds."""

    def computes(self, graph: Graph) -> None:
        """Set the function, inputs and outputs of the device from a graph.

        Args:
            graph: Graph of the function.
        """
        self.robot, self.function = graph.robot, graph.name
        self.inputs, self.outputs = graph.inputs, graph.outputs
        entries = {port.name: [k for k, i in enumerate(port.nodes) if i in graph.angles] for port in graph.inputs}
        self.angles = {name: places for name, places in entries.items() if places}

    def _packed(self, graph: Graph, pack: bool) -> Graph:
        if pack:
            graph, self.packing = packed(graph)
        self.computes(graph)
        return graph


class SelectedOutputs(Executor):
    """Some outputs of a device that computes all."""

    def __init__(self, device: Executor, outputs: Sequence[str]) -> None:
        self.device = device
        self.share_lock(device.lock)
        self.robot, self.function, self.text, self.dtype = device.robot, device.function, device.text, device.dtype
        self.checks_finite, self.exclusive = device.checks_finite, device.exclusive
        self.saturates = device.saturates
        self.inputs, self.outputs = device.inputs, [port for port in device.outputs if port.name in outputs]
        if device.packing is not None:
            self.packing = {port.name: device.packing[port.name] for port in self.outputs}

    @property
    def keeps_states(self) -> bool:
        """Whether outputs are per step of a motion, whose states stay in the device."""
        return bool(self.carry)

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
                "out of some outputs, for arrays on a GPU; expected out=None, or outputs chosen by dynagate.compile",
                code="DG-DEVICE-014",
            )
        every, call = self.device.launch(inputs, None)
        return {port.name: every[port.name] for port in self.outputs}, call
