"""An integer interpreter of graphs in C: one library for all graphs, with operations and formats as data."""

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
"""Size of the values of a block of states in bytes: half of a second-level cache."""

FIELDS = (
    *("kernel", "out", "in0", "in1", "in2", "up0", "up1", "up2", "constant", "down", "half", "width", "saturate"),
    *("scope", "node", "table"),
)
"""Fields of `struct step` in the C file, in order."""

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class InterpreterKernel(NamedTuple):
    """An operation of the interpreter."""

    name: str
    text: str
    """C expression of the exact result from operands x, y and z, with a constant last."""
    values: int
    """Number of operands that are values of the graph."""
    bits: int
    """Width of its integers."""

    @property
    def function(self) -> str:
        return f"{self.name}_{self.bits}"

    def lines(self) -> str:
        """Return the C text of the operation."""
        used = [k for k, x in enumerate("xyz") if re.search(rf"\b{x}\b", self.text)]
        values = [f"const T {'xyz'[k]} = (T){'abc'[k]}[i] << up{k};" for k in used if k < self.values]
        constants = [f"const T {'xyz'[k]} = (T)s->constant << up{k};" for k in used if k >= self.values]
        return f"KERNEL({self.function}, {self.bits}, {' '.join(constants)}, {' '.join(values)}, {self.text})"


class InterpreterProgram(NamedTuple):
    """A graph for the interpreter."""

    steps: Int64s
    """Steps, (steps, FIELDS)."""
    tables: Int64s
    """Numbers of the tables of all operations."""
    low: Int64s
    """Lower limits of the inputs' formats, (inputs,)."""
    high: Int64s
    """Upper limits of the inputs' formats, (inputs,)."""
    input_slots: Int64s
    """Slots of the inputs."""
    output_slots: Int64s
    """Slots of the outputs."""
    slots: int
    """Number of slots."""
    scopes: int
    """Number of scopes."""
    nodes: int
    """Number of nodes."""
    word: int
    """Bits in which values are stored, 32 or 64."""


class Interpreted(NamedTuple):
    """Results of the interpreter."""

    outputs: Int64s
    """Integers, (outputs, batch)."""
    by_scope: Flags
    """Whether a node of each scope overflowed, (scopes, batch)."""
    origins: Int64s
    """For each node, the number of states in which an overflow began there, (nodes,)."""


def interpret(
    program: InterpreterProgram, kernels: tuple[InterpreterKernel, ...], inputs: Int64s
) -> Interpreted | None:
    """Run a program on integers (inputs, batch).

    Returns:
        The results; None if an input is outside its format.

    Raises:
        CompileError: The interpreter cannot be compiled.
    """
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
    """Return the addresses of an array's rows."""
    return (ctypes.c_void_p * len(array))(*(array.ctypes.data + k * array.strides[0] for k in range(len(array))))


class _Program(ctypes.Structure):
    """`struct program` in C."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("steps", "tables", "low", "high", "input_slots", "output_slots")),
        *((name, ctypes.c_longlong) for name in ("count", "inputs", "outputs", "block")),
    )


@cache
def loaded(word: int, kernels: tuple[InterpreterKernel, ...], folder: Path | None) -> Any:
    """Return the interpreter with these operations, compiled unless the cache holds it. Raise CompileError if that
    fails.
    """
    path = library(_source(word, kernels), double=False, folder=folder, toolchain=INTEGERS)
    try:
        function = ctypes.CDLL(str(path)).dynagate_integers
    except (OSError, AttributeError) as error:
        raise CompileError(f"{path} is not the interpreter of integers: {error}", code="DG-COMPILE-009") from None
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
