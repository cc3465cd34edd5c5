"""Executor "numpy": the graph in float64, the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dynagate.base.explained import explained
from dynagate.base.progress import Progress, quiet
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.graph.loop import Loop, evaluate_loop
from dynagate.graph.parts import part_graph, parts_of
from dynagate.host.devices.certified import CertifiedOptions, certified_graph_of
from dynagate.host.devices.face import Executor, Overflow
from dynagate.host.devices.functions import opening_graphs
from dynagate.host.devices.loops import LoopExecutor
from dynagate.host.devices.options import DeviceOptions
from dynagate.host.devices.parts import FunctionsDevice, PartDevice
from dynagate.host.devices.scan import set_ports
from dynagate.host.devices.sources import DesignSource, LoopSource
from dynagate.host.inputs import Arrays, check_angles, check_results


@dataclass(frozen=True)
class LoopInNumpy(DeviceOptions):
    """Options of numpy in float64 for a rollout or a solver: nothing but the device's name."""

    name: ClassVar[str] = "numpy"


@dataclass(frozen=True)
class DesignInNumpy(LoopInNumpy):
    """Options of numpy in float64 for the functions of a design."""

    pack: bool = False
    """Return each result as a vector of its distinct entries, without those that are always zero
    (`Function.unpack`).
    """


@explained
@dataclass(frozen=True)
class Numpy(CertifiedOptions, DesignInNumpy):
    """Options of numpy in float64 for a function of a robot."""


def _open_graph(graph: Graph, options: DesignInNumpy, progress: Progress = quiet) -> Executor:
    return NumpyDevice(graph, pack=options.pack)


def _open_scan(loop: Loop, external_forces: bool, options: Numpy, progress: Progress) -> Executor:
    return NumpyScan(loop, external_forces, pack=options.pack)


open_function = opening_graphs(_open_graph, _open_scan, certified_graph_of)


def open_loop(source: LoopSource, options: LoopInNumpy, progress: Progress = quiet) -> LoopExecutor:
    """Return the device that computes a loop in numpy, the reference.

    Args:
        source: The loop.
        options: None.
        progress: Not used.

    Returns:
        The device.
    """
    return ReferenceLoop(source.loop)


def open_design(source: DesignSource, options: DesignInNumpy, progress: Progress = quiet) -> Executor:
    """Return the device that computes the functions of a pipeline in float64.

    Args:
        source: The design.
        options: Whether results are packed.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The device.
    """
    graph = source.formatted.graph
    parts = parts_of(graph.name)
    if not parts:
        return _open_graph(graph, options)
    devices = {part.name: PartDevice(part, _open_graph(part_graph(graph, part), options)) for part in parts}
    return FunctionsDevice(graph.name, devices)


class ReferenceLoop(LoopExecutor):
    """A loop in float64, with all samples in one array."""

    def __init__(self, loop: Loop) -> None:
        self.loop, self.dtype = loop, np.dtype(np.float64)

    def __call__(self, inputs: Mapping[str, npt.NDArray[Any]], outputs: Mapping[str, npt.NDArray[Any]]) -> bool:
        batch = len(next(iter(outputs.values())))
        constants = {name: np.repeat(x, batch, axis=0) for name, x in inputs.items() if len(x) == 1 != batch}
        with np.errstate(all="ignore"):
            for name, value in evaluate_loop(self.loop, {**inputs, **constants}).items():
                outputs[name][...] = value
        return False


class NumpyDevice(Executor):
    """The reference: a graph in float64.

    Args:
        graph: The graph.
        pack: As of `DesignInNumpy`.
    """

    text = "numpy, float64"

    def __init__(self, graph: Graph, *, pack: bool = False) -> None:
        self.graph = self._packed(graph, pack)
        self._evaluate: Callable[[Arrays], Arrays] = partial(evaluate, self.graph)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        if not batch:
            return np.zeros(0, dtype=bool)
        check_angles(arrays, self.angles, self.dtype)
        with np.errstate(all="ignore"):  # what becomes too large is looked for below
            results = self._evaluate({name: array.astype(np.float64) for name, array in arrays.items()})
        check_results(results, self.dtype)
        for name, value in results.items():
            outputs[name][...] = value
        return np.zeros(batch, dtype=bool)


class NumpyScan(NumpyDevice):
    """The reference of a loop over links: the graphs of its bodies in float64, link by link."""

    text = "numpy, float64, a loop over links"

    def __init__(self, loop: Loop, external_forces: bool, *, pack: bool = False) -> None:
        set_ports(self, loop, external_forces, pack)
        self._evaluate = partial(evaluate_loop, loop)
