"""The CUDA text of a graph as host code: its numbers without a GPU."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from dynagate.graph import Graph
from dynagate.native.cuda import emit_cuda


def as_host_code(
    graph: Graph, inputs: Mapping[str, np.ndarray], folder: Path, *, planes: bool = False
) -> dict[str, np.ndarray]:
    """Outputs by name, (batch, *shape), in float64."""
    source, library = folder / "kernel.cpp", folder / "kernel.so"
    source.write_text(emit_cuda(graph, double=True))
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
    kernel = getattr(ctypes.CDLL(str(library)), f"{graph.robot}_{graph.name}{'_planes' if planes else ''}")
    batch = len(next(iter(inputs.values())))

    def laid_out(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(array, 0, -1) if planes else array)

    operands = [laid_out(inputs[port.name]) for port in graph.inputs]
    results = [laid_out(np.zeros((batch, *port.shape))) for port in graph.outputs]
    kernel(*(ctypes.c_void_p(array.ctypes.data) for array in (*operands, *results)), ctypes.c_long(batch))
    return {
        port.name: np.moveaxis(result, -1, 0) if planes else result
        for port, result in zip(graph.outputs, results, strict=True)
    }
