"""What computes: arrays by name in, arrays by name out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.graph import Graph
from dynagate.graph.ops import TRIG
from dynagate.graph.packing import Packing, packed
from dynagate.host.inputs import Arrays, Port
from dynagate.host.links import Transfer

if TYPE_CHECKING:
    from dynagate.host.devices.stream import UnderWay

Overflow = npt.NDArray[np.bool_]


class Executor(ABC):
    """Arrays by name in, arrays by name out. text: what it is, in a few words. checks_finite: `run` refuses inputs that
    are not, else the caller does. saturates: results of samples that overflowed are the nearest numbers that fit;
    elsewhere they are no results. loaded: whether a processor has its program; False after a failed `load`. packing: of
    outputs that are packed, as `graph.packing` has it. angles: by input the entries of a sample, counted through, that
    are angles."""

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
    saturates: bool = False
    loaded: bool = True
    keeps_states: bool = False
    """Whether outputs are per step of a motion, whose states stay in the device."""
    functions: Mapping[str, Executor] = {}
    """The devices of several functions by name, of which one computes at a time."""
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

    def choosing(self, outputs: Sequence[str]) -> Executor:
        """The device with these of its outputs alone, in their order."""
        from dynagate.host.devices.parts import ChosenDevice

        return ChosenDevice(self, outputs)

    def load(self, design: Any) -> Executor:
        """Load another program into a processor and return its device. Raises ArgumentError: this is no processor."""
        raise ArgumentError(f"{self.text} has no program; expected a processor, of a design built with units=4, say")

    def close(self) -> None:  # noqa: B027
        """Gives back what the device holds."""

    def computes(self, graph: Graph) -> None:
        """Sets what the device is to compute."""
        self.robot, self.function = graph.robot, graph.name
        self.inputs, self.outputs = graph.inputs, graph.outputs
        angles = {a for node in graph.nodes if node.op in TRIG for a in node.args}
        entries = {port.name: [k for k, i in enumerate(port.nodes) if i in angles] for port in graph.inputs}
        self.angles = {name: places for name, places in entries.items() if places}

    def _packed(self, graph: Graph, pack: bool) -> Graph:
        if pack:
            graph, self.packing = packed(graph)
        self.computes(graph)
        return graph
