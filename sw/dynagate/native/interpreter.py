"""An interpreter of graphs on integers, in C: one library for all graphs, whose operations and formats are data."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.native.compile import C, CompileError, library
from dynagate.native.source import CSource

INTEGERS = replace(C, flags=(*C.flags, "-O3", "-fwrapv"))
ELEMENTARY, BLOCKS = "dynagate_integers.h", "dynagate_interpreter.h"
NAME = "dynagate_integers"
MOST_BLOCK, FEWEST_BLOCK = 1024, 64
BLOCK_BYTES = 2**19
"""Bytes of the values of a block of states: half of a second-level cache."""

FIELDS = (
    *("kernel", "out", "in0", "in1", "in2", "up0", "up1", "up2", "constant", "down", "half", "width", "saturate"),
    *("scope", "node", "table"),
)
"""Fields of `struct step`, in order."""

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class InterpreterKernel(NamedTuple):
    """An operation for the interpreter. text: the exact result of operands x, y and z, a constant last. values: how
    many of them are values of the graph. bits: of its type."""

    name: str
    text: str
    values: int
    bits: int

    @property
    def function(self) -> str:
        return f"{self.name}_{self.bits}"

    def lines(self) -> str:
        used = [k for k, x in enumerate("xyz") if re.search(rf"\b{x}\b", self.text)]
        values = [f"const T {'xyz'[k]} = (T){'abc'[k]}[i] << up{k};" for k in used if k < self.values]
        constants = [f"const T {'xyz'[k]} = (T)s->constant << up{k};" for k in used if k >= self.values]
        return f"KERNEL({self.function}, {self.bits}, {' '.join(constants)}, {' '.join(values)}, {self.text})"


class InterpreterProgram(NamedTuple):
    """A graph for the interpreter.

    steps: (steps, FIELDS). tables: numbers of all plans. low, high: (inputs,), the limits of their formats.
    input_slots, output_slots: where inputs are read to, and results from. slots, scopes, nodes: their numbers.
    word: bits in which values are kept, 32 or 64.
    """

    steps: Int64s
    tables: Int64s
    low: Int64s
    high: Int64s
    input_slots: Int64s
    output_slots: Int64s
    slots: int
    scopes: int
    nodes: int
    word: int


class Interpreted(NamedTuple):
    """outputs: (outputs, batch). by_scope: (scopes, batch), where a node of the scope overflowed. origins: (nodes,), in
    how many states overflow began there."""

    outputs: Int64s
    by_scope: Flags
    origins: Int64s


def interpret(
    program: InterpreterProgram, kernels: tuple[InterpreterKernel, ...], inputs: Int64s
) -> Interpreted | None:
    """inputs: (inputs, batch). None: one of them is not in its format. Raises CompileError."""
    batch = inputs.shape[1]
    inputs = np.ascontiguousarray(inputs, dtype=np.int64)
    most = BLOCK_BYTES // (program.word // 8 * program.slots)
    block = min(max(most // FEWEST_BLOCK * FEWEST_BLOCK, FEWEST_BLOCK), MOST_BLOCK)
    outputs = np.empty((len(program.output_slots), batch), np.int64)
    by_scope, overflow = np.zeros((program.scopes, batch), np.bool_), np.zeros(batch, np.bool_)
    origins = np.zeros(program.nodes, np.int64)
    memory = np.zeros(block * program.slots, np.dtype(f"int{program.word}"))
    arrays = program.steps, program.tables, program.low, program.high, program.input_slots, program.output_slots
    numbers = len(program.steps), len(inputs), len(outputs), block
    described = _Program(*(array.ctypes.data for array in arrays), *numbers)
    status = loaded(program.word, kernels, None)(
        *(ctypes.byref(described), _rows(inputs), _rows(outputs)),
        *(array.ctypes.data for array in (by_scope, overflow, origins, memory)),
        batch,
    )
    return None if status else Interpreted(outputs, by_scope, origins)


def _rows(array: Int64s) -> Any:
    """The addresses of an array's rows."""
    return (ctypes.c_void_p * len(array))(*(array.ctypes.data + k * array.strides[0] for k in range(len(array))))


class _Program(ctypes.Structure):
    """`struct program` in C."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("steps", "tables", "low", "high", "input_slots", "output_slots")),
        *((name, ctypes.c_longlong) for name in ("count", "inputs", "outputs", "block")),
    )


@cache
def loaded(word: int, kernels: tuple[InterpreterKernel, ...], folder: Path | None) -> Any:
    """The interpreter of these kernels, compiled unless the cache holds it. Raises CompileError."""
    path = library(_source(word, kernels), double=False, folder=folder, toolchain=INTEGERS)
    try:
        function = ctypes.CDLL(str(path)).dynagate_integers
    except (OSError, AttributeError) as error:
        raise CompileError(f"{path} is not the interpreter of integers: {error}") from None
    function.argtypes = [ctypes.c_void_p] * 7 + [ctypes.c_long]
    return function


def _source(word: int, kernels: tuple[InterpreterKernel, ...]) -> CSource:
    lines = [
        f'#include "{ELEMENTARY}"',
        f"typedef dg_{word} word;",
        f'#include "{BLOCKS}"',
    ]
    lines += [kernel.lines() for kernel in kernels]
    functions = ", ".join(kernel.function for kernel in kernels)
    text = "\n".join([*lines, f"static kernel *const kernels[] = {{{functions}}};", ""])
    return CSource.of(NAME, {f"{NAME}.c": text})
