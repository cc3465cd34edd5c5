"""The functions that a kernel calls: compiled for one graph, or the interpreter with the graph's instructions."""

from __future__ import annotations

import ctypes
import json
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from dynagate.graph import Graph
from dynagate.graph.kept_graph import KeptGraph
from dynagate.native.arrays import TYPES
from dynagate.native.cache import remembered
from dynagate.native.compile import STRAIGHT, CompileError, library
from dynagate.native.emit import emit
from dynagate.native.source import CSource


class KernelCode(NamedTuple):
    """Functions of the signature that the header of a generated kernel declares."""

    rows: Any
    """Function of a batch in rows."""
    planes: Any
    """Function of a batch in planes."""
    one: Any
    """Function of a single sample."""
    leading: tuple[int, ...] = ()
    """Addresses that precede those of the inputs."""
    kept: Any = None
    """Objects that must stay alive as long as the functions are called."""
    stamp: str = ""
    """Hash of the generated source; "" for the interpreter."""


class CodeOf(Protocol):
    """Function that returns the code of a graph."""

    def __call__(self, graph: Graph, dtype: np.dtype[Any], folder: Path | None = None) -> KernelCode: ...


def compiled_code(graph: Graph, dtype: np.dtype[Any], folder: Path | None = None) -> KernelCode:
    """Return the C of a graph, compiled for this machine unless the cache has it.

    Args:
        graph: The graph.
        dtype: float32 or float64.
        folder: Folder of the cache; None for the user's.

    Raises:
        CompileError: The source cannot be compiled or loaded.
    """
    source = _kept_source(graph, folder)
    path = library(source, double=dtype == np.float64, folder=folder, toolchain=STRAIGHT)
    suffix = TYPES[dtype]
    try:
        functions = ctypes.CDLL(str(path))
        rows, planes, one = (getattr(functions, f"{source.name}{kind}_{suffix}") for kind in ("", "_planes", "_one"))
        return KernelCode(rows, planes, one, stamp=source.stamp)
    except (OSError, AttributeError) as error:
        raise CompileError(f"{path} is not the library of {source.name}: {error}", code="DG-COMPILE-011") from None


def _kept_source(graph: Graph, folder: Path | None) -> CSource:
    """Return the source of a graph, from the cache if an earlier process opened the graph."""
    key = graph.key if isinstance(graph, KeptGraph) else ""
    if not key:
        return emit(graph)
    return remembered(f"source-{key}", lambda: emit(graph), _as_content, _of_content, folder)


def _as_content(source: CSource) -> bytes:
    """Return a source as compressed JSON."""
    return zlib.compress(json.dumps(asdict(source)).encode(), FASTEST)


def _of_content(content: bytes) -> CSource:
    """Return the source that `_as_content` wrote."""
    return CSource(**json.loads(zlib.decompress(content)))


FASTEST = 1
"""Level of compression that takes the least time."""
