"""Run a formatted graph in the C interpreter (`native.interpreter`), with the same integers as numpy's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.entering import entering, types_of
from dynagate.fixedpoint.format import Format, Integers
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.operations import FIXED, ExactResult, Unit
from dynagate.fixedpoint.operations.row import NotInCError
from dynagate.graph import OPS
from dynagate.graph.slots import slots_of
from dynagate.native.compile import CompileError
from dynagate.native.interpreter import FIELDS, Interpreted, InterpreterKernel, InterpreterProgram, interpret, loaded

NARROW, WIDE = 32, 64
"""Bits in which values are stored."""


def kernels() -> tuple[InterpreterKernel, ...]:
    """Return the kernels of all operations in every integer type that an operation has."""
    return tuple(
        InterpreterKernel(op, row.meaning.text.format(bits=bits), OPS[op].arity, bits)
        for op, row in FIXED.items()
        for bits in types_of(row.meaning)
        if op != "input"
    )


WORTH = 20_000_000
"""Work in numpy, in nodes times states, after which a process compiles the interpreter.

Compiling takes seconds, once; this work takes about 0.3 s.
"""
OVERHEAD = 1000
"""Time that numpy needs for a node in addition to that for its states, in states."""


def evaluate_in_c(
    formatted: FormattedGraph, inputs: Mapping[int, Integers], keep_all: bool
) -> tuple[dict[int, Integers], npt.NDArray[np.bool_], dict[int, int]] | None:
    """Return the fields of `evaluate.Values`, computed by the interpreter.

    Returns None if numpy has to compute them: there is no compiler, the interpreter is neither loaded nor worth
    compiling, or formats or inputs need more than 64 bits. Arguments are those of `evaluate_integers`.
    """
    batch = len(next(iter(inputs.values())))
    if not _worth(len(formatted.graph) * (batch + OVERHEAD)):
        return None
    encoded = _encoded(formatted, keep_all)
    if encoded is None or not _ready(encoded) or any(value.dtype == object for value in inputs.values()):
        return None
    result = encoded(inputs)
    if result is None:
        return None
    origins = {int(i): int(result.origins[i]) for i in np.flatnonzero(result.origins)}
    return dict(zip(encoded.kept, result.outputs, strict=True)), result.by_scope.T, origins


def _encoded(formatted: FormattedGraph, keep_all: bool) -> Encoded | None:
    """Return the graph for the interpreter; None if C has no types for it."""
    if keep_all not in formatted.encodings:
        try:
            formatted.encodings[keep_all] = Encoded(formatted, keep_all)
        except NotInCError:
            formatted.encodings[keep_all] = None
    encoded: Encoded | None = formatted.encodings[keep_all]
    return encoded


_loaded: dict[tuple[int, tuple[InterpreterKernel, ...]], bool] = {}
"""Whether this process has loaded the interpreter (True) or failed to compile it (False), by word length and
kernels.
"""

_work = 0
"""Work that this process has done, in nodes times states."""


def _worth(work: int) -> bool:
    """Return whether an interpreter is loaded, or worth compiling after this work."""
    global _work
    _work += work
    return any(_loaded.values()) if _loaded else _work >= WORTH


def _ready(encoded: Encoded) -> bool:
    """Compile and load the interpreter for a graph if necessary.

    Returns:
        Whether it is loaded; False if it cannot be compiled.
    """
    key = encoded.program.word, encoded.kernels
    if key not in _loaded:
        try:
            loaded(*key, None)
            _loaded[key] = True
        except CompileError:
            _loaded[key] = False
    return _loaded[key]


def word_of(formatted: FormattedGraph) -> int:
    """Return the bits in which values are stored.

    Raises:
        NotInCError: There is no such type.
    """
    widest = max(format.width for format in formatted.formats)
    most = max(widest, *(format.width for _, format in formatted.constants.values()), 0)
    if most > WIDE - 2:
        raise NotInCError(f"a word of {most} bits; expected at most {WIDE - 2}", code="DG-FORMAT-032")
    return NARROW if widest <= NARROW else WIDE


class Encoded:
    """A formatted graph in the form that the interpreter expects.

    The attribute `kept` lists the nodes whose integers it returns.

    Args:
        formatted: Graph with formats.
        keep_all: Whether to return all nodes, and not only the outputs.

    Raises:
        NotInCError: The formats need wider types than C has.
    """

    def __init__(self, formatted: FormattedGraph, keep_all: bool) -> None:
        word = word_of(formatted)
        self.kernels = kernels()
        self._place = {(k.name, k.bits): i for i, k in enumerate(self.kernels)}
        self._formatted = formatted
        self._tables: list[int] = []
        self._planned: dict[tuple[Any, tuple[Format, ...], Format], tuple[ExactResult, int]] = {}
        graph, formats = formatted.graph, formatted.formats
        self.kept = tuple(range(len(graph))) if keep_all else tuple(dict.fromkeys(graph.output_nodes))
        slot, slots = slots_of(graph, self.kept)
        steps = np.array([self._step(i, slot) for i, node in enumerate(graph.nodes) if node.op != "input"], np.int64)
        limits = [formats[i] for i in graph.input_nodes]
        self.program = InterpreterProgram(
            steps=steps.reshape(-1, len(FIELDS)),
            tables=np.array(self._tables or [0], np.int64),
            low=np.array([format.lowest for format in limits], np.int64),
            high=np.array([format.highest for format in limits], np.int64),
            input_slots=np.array([slot[i] for i in graph.input_nodes], np.int64),
            output_slots=np.array([slot[i] for i in self.kept], np.int64),
            slots=slots,
            scopes=len(graph.scopes),
            nodes=len(graph),
            word=word,
        )

    def _step(self, i: int, slot: Sequence[int]) -> tuple[int, ...]:
        """Return the FIELDS of a node's operation."""
        formatted = self._formatted
        node, to = formatted.graph.nodes[i], formatted.formats[i]
        constant, _ = formatted.constants.get(i, (0, None))
        sources, meaning = formatted.operand_formats(i), FIXED[node.op].meaning
        if isinstance(meaning, Unit):
            exact, table = self._plan(meaning, sources, to)
        else:
            exact, table = meaning.in_c(sources, to), 0
        enter = entering(meaning, exact, to, formatted.arithmetic)
        operands = [slot[a] for a in node.args] + [0] * (3 - len(node.args))
        ups = (*exact.up, 0, 0, 0)[:3]
        scope = formatted.graph.scope_of[i]
        return (
            *(self._place[node.op, enter.type], slot[i], *operands, *ups, constant, enter.down, enter.half, to.width),
            *(enter.saturate, scope, i, table),
        )

    def _plan(self, unit: Unit, sources: Sequence[Format], to: Format) -> tuple[ExactResult, int]:
        """Return the exact result of a unit's operation, and the index of the first number of its plan."""
        key = unit.plan, tuple(sources), to
        if key not in self._planned:
            exact = unit.plan(*sources, to)
            self._planned[key] = exact, len(self._tables)
            self._tables += exact.plan
        return self._planned[key]

    def __call__(self, inputs: Mapping[int, Integers]) -> Interpreted | None:
        """Run the interpreter.

        Args:
            inputs: Integers (batch,) of every input, by node.

        Returns:
            The results; None if an input does not fit its format.

        Raises:
            CompileError: The interpreter cannot be compiled.
        """
        graph = self._formatted.graph
        return interpret(self.program, self.kernels, np.stack([inputs[i] for i in graph.input_nodes]))
