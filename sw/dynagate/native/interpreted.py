"""The interpreter of blocks (`dynagate_blocks.h`) as the code of a kernel: compiled once for all graphs."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.graph import Graph
from dynagate.graph.kept_graph import KeptGraph
from dynagate.native.arrays import TYPES
from dynagate.native.cache import remembered
from dynagate.native.compile import BLOCKS, CompileError, library
from dynagate.native.instructions import InstructionList, instructions
from dynagate.native.kernel_code import KernelCode
from dynagate.native.source import CSource

NAME = "dynagate_blocks"
TEXT = f'#include "{NAME}.h"\n'


class _Program(ctypes.Structure):
    """`dg_program` in C."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("code", "constants", "input_slots", "input_sizes", "output_sizes")),
        *((name, ctypes.c_long) for name in ("count", "inputs", "outputs", "slots")),
    )


def interpreted_code(graph: Graph, dtype: np.dtype[Any], folder: Path | None = None) -> KernelCode:
    """Return the interpreter with the instructions of a graph. Its results are those of `compiled_code`, bit by bit.

    Args:
        graph: The graph.
        dtype: float32 or float64.
        folder: Folder of the cache; None for the user's.

    Raises:
        ArgumentError: The graph has an operation that the interpreter lacks.
        CompileError: The interpreter is not in the cache and cannot be compiled.
    """
    rows, planes, one = loaded(dtype, folder)
    listed = _kept_instructions(graph, folder)
    program = _program(listed)
    return KernelCode(rows, planes, one, (ctypes.addressof(program),), (program, listed))


def _kept_instructions(graph: Graph, folder: Path | None) -> InstructionList:
    """Return the instructions of a graph, from the cache if an earlier process opened the graph."""
    key = graph.key if isinstance(graph, KeptGraph) else ""
    if not key:
        return instructions(graph)
    return remembered(
        f"instructions-{key}", lambda: instructions(graph), InstructionList.content, InstructionList.of_content, folder
    )


def _program(listed: InstructionList) -> _Program:
    arrays = listed.code, listed.constants, listed.input_slots, listed.input_sizes, listed.output_sizes
    numbers = len(listed.code), len(listed.input_sizes), len(listed.output_sizes), listed.slots
    return _Program(*(array.ctypes.data for array in arrays), *numbers)


@cache
def loaded(dtype: np.dtype[Any], folder: Path | None) -> tuple[Any, Any, Any]:
    """Return the functions of the interpreter for rows, planes and single samples, compiled unless the cache has it.

    Raises:
        CompileError: The interpreter cannot be compiled or loaded.
    """
    source = CSource.of(NAME, {f"{NAME}.c": TEXT})
    path = library(source, double=dtype == np.float64, folder=folder, toolchain=BLOCKS)
    suffix = TYPES[dtype]
    try:
        functions = ctypes.CDLL(str(path))
        return tuple(getattr(functions, f"{NAME}{kind}_{suffix}") for kind in ("", "_planes", "_one"))
    except (OSError, AttributeError) as error:
        raise CompileError(f"{path} is not the interpreter of blocks: {error}", code="DG-COMPILE-022") from None
