"""Tiers of device "cpu": the interpreter of blocks, which is ready at once, and the change from it to compiled C."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dynagate.base.progress import Progress
from dynagate.base.warned import warn
from dynagate.graph import Graph
from dynagate.graph.loop import Loop
from dynagate.host.devices.certified import certified_graph_of
from dynagate.host.devices.cpu import TIERS, Cpu, CpuDevice, CpuScan
from dynagate.host.devices.face import Executor, Overflow
from dynagate.host.devices.functions import kept_graph, opening_graphs
from dynagate.host.devices.numpy import NumpyDevice
from dynagate.host.inputs import Arrays
from dynagate.native.arrays import new_arrays
from dynagate.native.compile import CompileError, CompileWarning
from dynagate.native.interpreted import interpreted_code, loaded

if TYPE_CHECKING:
    from dynagate.native.kernel import Kernel


def open_tier(graph: Graph, options: Cpu, progress: Progress) -> Executor:
    """Open a graph on the interpreter, or on numpy if the interpreter is neither in the cache nor can be compiled.

    Args:
        graph: The graph.
        options: Options of the device, with a tier other than "compiled".
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The device.

    Warns:
        CompileWarning: Numpy computes the function, because there is no compiler.
    """
    progress("interpreter: instructions")
    try:
        loaded(np.dtype(options.dtype), None)
    except CompileError as error:
        warn(
            f"{graph.name} of '{graph.robot}' is computed by numpy in float64, a hundred times as slow as compiled C: "
            f"{error}",
            CompileWarning,
            code="DG-DEVICE-070",
        )
        return UncompiledDevice(graph, options)
    return AutoDevice(graph, options) if options.tier == "auto" else InterpretedDevice(graph, options)


class InterpretedDevice(CpuDevice):
    """The interpreter of blocks. Its results are those of compiled C, bit by bit."""

    tier = "interpreted"

    def __init__(self, graph: Graph, options: Cpu) -> None:
        super().__init__(
            graph,
            dtype=options.dtype,
            threads=options.threads,
            layout=options.layout,
            pack=options.pack,
            code=interpreted_code,
        )
        self.text = self.text.replace("C, ", "interpreter, ", 1)


class AutoDevice(InterpretedDevice):
    """The interpreter until the compiler, which works at the same time, is done; then compiled C.

    A call is computed by one of them from beginning to end.
    """

    def __init__(self, graph: Graph, options: Cpu) -> None:
        super().__init__(graph, options)
        self._options = options
        self._ready: Kernel | None = None
        self._failure = ""
        self._is_open, self._change = True, threading.Lock()
        self._compiler = threading.Thread(target=self._compile, args=(self.kernel.graph,), daemon=True)
        self._compiler.start()

    def wait(self) -> None:
        """Wait until the compiler is done, and change to compiled C if it succeeded."""
        self._compiler.join()
        self._switch()

    def _compile(self, graph: Graph) -> None:
        from dynagate.native.kernel import Kernel

        options = self._options
        try:
            kernel = Kernel(graph, np.dtype(options.dtype), threads=options.threads, layout=options.layout)
        except (CompileError, OSError) as error:
            self._failure = str(error)
            return
        with self._change:
            if self._is_open:
                self._ready = kernel
                return
        kernel.close()

    def _switch(self) -> None:
        """Change to compiled C if it is ready. Warn once if the compiler failed."""
        if self._ready is None and not self._failure:
            return
        with self._change:
            ready, self._ready = self._ready, None
            failure, self._failure = self._failure, ""
            if ready is not None:
                old, self.kernel = self.kernel, ready
                self.tier, self.text = "compiled", self.text.replace("interpreter, ", "C, ", 1)
                old.close()
        if failure:
            warn(f"the interpreter computes {self.function}: {failure}", CompileWarning, code="DG-DEVICE-071")

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        self._switch()
        return super().run(arrays, outputs, batch)

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        self._switch()
        kernel, first = self.kernel, super().bound(arrays, outputs, batch)
        if first is None:
            return None
        call = first
        make = super().bound

        def run() -> Overflow | None:
            nonlocal kernel, call
            self._switch()
            if self.kernel is not kernel:
                kernel, call = self.kernel, make(arrays, outputs, batch) or call
            return call()

        return run

    def close(self) -> None:
        with self._change:
            self._is_open = False
            ready, self._ready = self._ready, None
        if ready is not None:
            ready.close()
        super().close()


class UncompiledDevice(NumpyDevice):
    """The graph in numpy with the options of the device "cpu", where there is no compiler. Threads are not used."""

    tier = "numpy"

    def __init__(self, graph: Graph, options: Cpu) -> None:
        super().__init__(graph, pack=options.pack)
        self.dtype, self._layout = np.dtype(options.dtype), options.layout
        self.text = f"numpy, float64, results in {self.dtype}"

    def new_inputs(self, batch: int) -> Arrays:
        return new_arrays(self.inputs, self.dtype, self._layout, batch)

    def new_outputs(self, batch: int) -> Arrays:
        return new_arrays(self.outputs, self.dtype, self._layout, batch)

    def fits(self, array: npt.NDArray[np.float64]) -> bool:
        return True


def _open_graph(graph: Graph, options: Cpu, progress: Progress) -> Executor:
    if options.tier != TIERS[0]:
        return open_tier(graph, options, progress)
    return CpuDevice(
        graph,
        dtype=options.dtype,
        threads=options.threads,
        layout=options.layout,
        pack=options.pack,
        progress=progress,
    )


def _open_scan(loop: Loop, external_forces: bool, options: Cpu, progress: Progress) -> Executor:
    return CpuScan(
        loop, external_forces, dtype=options.dtype, threads=options.threads, pack=options.pack, progress=progress
    )


open_function = opening_graphs(_open_graph, _open_scan, partial(certified_graph_of, graph_of=kept_graph))
