"""The part that solvers of loops share: they trace and compile the loop, and run it on arrays."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.explained import explained
from dynagate.base.progress import showing
from dynagate.graph.loop import Loop
from dynagate.host.bound import BoundCall, repeated
from dynagate.host.compiling import device_of
from dynagate.host.devices.fixed import IntegerExecutor
from dynagate.host.devices.integer_loop import IntegerLoop
from dynagate.host.devices.loops import LoopExecutor
from dynagate.host.devices.options import LOOP, DeviceOptions
from dynagate.host.devices.sources import LoopSource
from dynagate.host.links import BatchTiming
from dynagate.host.opened import Opened
from dynagate.robot import Robot

Self = TypeVar("Self", bound="LoopSolver")
OWNED = ("_compute", "_holding")
"""Attributes of a solver that closing it closes."""


@explained
class LoopSolver(Opened):
    """Base class of solvers that are a loop of a robot on a device."""

    results: type[Any]
    """Class of the results of a call, a dataclass of arrays."""
    robot: Robot
    """The robot."""
    device: str
    """Name of the device."""
    overflows: Mapping[str, int]
    """Problems of the last call with a number that did not fit its format, by graph; empty in floating point."""

    def choose(self, function: str, device: str | DeviceOptions, options: Mapping[str, Any]) -> None:
        """Choose the device that computes the loop.

        Args:
            function: What the solver computes, for errors.
            device: Name or options of a device.
            options: Options that the caller changed.

        Raises:
            ArgumentError: There is no such device, or it keeps its states on a chip.
        """
        self._chosen = device_of(device, (LOOP,), options, function)
        self.function, self.functions, self.device, self._closed = function, {}, self._chosen.name, False

    def compile(self, loop: Callable[[], Loop]) -> None:
        """Trace a loop, and compile it for the device.

        Args:
            loop: Function that traces the loop.
        """
        with showing() as progress:
            progress(f"tracing {self.robot.name} {self.function}")
            self.loop = loop()
            progress(f"compiling {self.robot.name} {self.function} for {self.device}")
            self._compute = self.opened(self.loop)
        self.dtype = self._compute.dtype

    def opened(self, loop: Loop) -> LoopExecutor:
        """Return the executor of a loop.

        Args:
            loop: The loop.

        Returns:
            Its executor on the device of the solver.
        """
        compute: LoopExecutor = self._chosen.open(LoopSource(loop, None))
        return compute

    def in_fixed_point(self: Self, compute: IntegerLoop) -> Self:
        """Return a solver of the same problem in fixed point. Each one is closed by itself.

        Args:
            compute: The loop in fixed point.

        Returns:
            The solver.
        """
        solver = object.__new__(type(self))
        vars(solver).update({name: value for name, value in vars(self).items() if name not in OWNED})
        solver._maker = None  # its formats come from the problems of a call
        solver._compute, solver.device, solver.dtype = compute, IntegerExecutor.name, compute.dtype
        solver.overflows = compute.integers.overflows
        return solver

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(each.name for each in fields(self.results))

    @property
    def transfer(self) -> BatchTiming:
        return BatchTiming(0, 0.0)

    @abstractmethod
    def __call__(self, *args: Any, **options: Any) -> Any: ...

    def bind(self, *args: Any, **options: Any) -> BoundCall:
        """Return a function that repeats a call on the same arrays, as `Opened.bind` does."""
        return repeated(self, args, options, ())

    def close(self) -> None:
        """Release what the device holds. Later calls raise DeviceError."""
        self._closed = True
        self._compute.close()

    def new_outputs(self, batch: int) -> dict[str, Array]:
        """Return arrays for the outputs of the loop.

        Args:
            batch: Number of problems.

        Returns:
            Arrays (batch, *shape) by name.
        """
        return {port.name: np.empty((batch, *port.shape), self.dtype) for port in self.loop.outputs}

    def bound(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], batch: int) -> Callable[..., Any]:
        """Prepare repeated calls on the same arrays.

        Args:
            inputs: Arrays (batch, *shape) by name.
            outputs: Arrays (batch, *shape) by name, which are overwritten.
            batch: Number of problems.

        Returns:
            A function that solves the problems.
        """
        if not batch:
            return lambda: True
        read = {port.name: inputs[port.name] for port in self.loop.inputs}
        return self._compute.bound(read, {port.name: outputs[port.name] for port in self.loop.outputs})
