"""A graph as a list of instructions for the interpreter of blocks (`dynagate_blocks.h`).

The list has the operations of the generated C, in its order of sums and with its fused products, so the results have
the same bits. Each value has a slot, which a later value takes over when nothing reads it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from heapq import heappop, heappush
from io import BytesIO

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.graph import Graph
from dynagate.native.fused_sums import fused_call
from dynagate.native.graph_text import constant_of, entries
from dynagate.native.nan_sentinels import watched
from dynagate.native.register_allocation import is_source, operations_in_order
from dynagate.native.sums import chained

CODES = (
    *("add", "sub", "add_const", "neg", "mul", "mul_const", "reciprocal", "const"),
    *("sin", "cos", "exp", "sqrt", "noise", "select", "sincos", "store", "watch"),
    *("fma", "fms", "fnma", "fma_y", "fms_y", "fnma_y", "fma_z", "fma_yz"),
)
"""Names of the instructions, in the order of their numbers in C. A name that ends in _y or _z has constants there."""
CODE = {name: k for k, name in enumerate(CODES)} | {"shift": CODES.index("mul_const")}

FIELDS = 5
"""Fields of an instruction: its number, the slot of the result, and slots or constants a, b and c."""
LARGEST = 2**16 - 1
"""Largest number in a field. Short instructions leave more of the cache to the values."""


@dataclass(frozen=True)
class InstructionList:
    """A graph for the interpreter."""

    code: npt.NDArray[np.uint16]
    """Instructions, (count, FIELDS)."""
    constants: npt.NDArray[np.float64]
    """Constants, which instructions number."""
    input_slots: npt.NDArray[np.int32]
    """Slot of each entry of each input, 0 for entries that nothing reads."""
    input_sizes: npt.NDArray[np.int32]
    """Entries of a sample of each input."""
    output_sizes: npt.NDArray[np.int32]
    """Entries of a sample of each output."""
    slots: int
    """Number of slots, including slot 0, which holds zero."""

    def content(self) -> bytes:
        """Return the list as numpy's compressed arrays."""
        file = BytesIO()
        np.savez_compressed(file, **{each.name: getattr(self, each.name) for each in fields(self)})
        return file.getvalue()

    @classmethod
    def of_content(cls, content: bytes) -> InstructionList:
        """Return the list that `content` stands for.

        Raises:
            ValueError, KeyError, BadZipFile: It has another format.
        """
        with np.load(BytesIO(content), allow_pickle=False) as arrays:
            named = {each.name: arrays[each.name] for each in fields(cls)}
        return cls(**{**named, "slots": int(named["slots"])})


def instructions(graph: Graph) -> InstructionList:
    """Return the instructions of a graph.

    Args:
        graph: The graph.

    Raises:
        ArgumentError: The graph has an operation that the interpreter lacks, or is too large for it.
    """
    ordered = chained(graph)
    for node in ordered.nodes:
        if node.op != "input" and node.op not in CODE:
            raise ArgumentError(
                f"{graph.name} has the operation '{node.op}', which the interpreter lacks; expected tier='compiled'",
                code="DG-COMPILE-020",
            )
    listed = _Writer(ordered).written()
    if listed.slots > LARGEST or len(listed.constants) > LARGEST or max(listed.output_sizes) > LARGEST:
        raise ArgumentError(
            f"{graph.name} keeps {listed.slots} values and has {len(listed.constants)} constants; the interpreter "
            f"takes at most {LARGEST}: expected tier='compiled'",
            code="DG-COMPILE-021",
        )
    return listed


@dataclass
class _Writer:
    """Instructions that are written one after the other, and the slots that are in use."""

    graph: Graph
    code: list[int] = field(default_factory=list)
    constants: dict[float, int] = field(default_factory=dict)
    _places: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Output node -> its ports and entries."""
    _watched: set[int] = field(default_factory=set)
    _slot: dict[int, int] = field(default_factory=dict)
    _free: list[int] = field(default_factory=list)
    _slots: int = 1

    def written(self) -> InstructionList:
        graph = self.graph
        for p, j, i in entries(graph.outputs):
            if not graph.nodes[i].is_zero:
                self._places.setdefault(i, []).append((p, j))
        self._watched = set(watched(graph))
        self._slot.update((i, 0) for i, node in enumerate(graph.nodes) if node.is_zero)
        fused, operands = operations_in_order(graph)
        left = _readers(operands.values())
        sources = [i for i in range(len(graph)) if is_source(graph, i)]
        for i in graph.input_nodes:
            self._slot[i] = self._new()
        inputs = np.array([self._slot[i] for _, _, i in entries(graph.inputs)], np.int32)
        self._sines(sources)
        for i in sources:
            self._finished(i)
        for i in sources:
            if i not in left:
                self._release(i)
        for i, read in operands.items():
            self._computed(i, read, fused, left)
        read_sizes, written_sizes = (
            np.array([len(port.nodes) for port in side], np.int32) for side in (graph.inputs, graph.outputs)
        )
        code = np.clip(np.array(self.code, np.int64).reshape(-1, FIELDS), 0, LARGEST).astype(np.uint16)
        return InstructionList(
            code, np.array([*self.constants], np.float64), inputs, read_sizes, written_sizes, self._slots
        )

    def _sines(self, sources: Sequence[int]) -> None:
        """Write the sines and cosines of inputs, both of an angle by one instruction."""
        by_angle: dict[int, dict[str, int]] = {}
        for i in sources:
            node = self.graph.nodes[i]
            if node.op != "input":
                by_angle.setdefault(node.args[0], {})[node.op] = i
        for angle, pair in by_angle.items():
            for i in pair.values():
                self._slot[i] = self._new()
            if len(pair) == 2:
                self._write("sincos", self._slot[pair["sin"]], self._slot[angle], self._slot[pair["cos"]])
            else:
                op, i = next(iter(pair.items()))
                self._write(op, self._slot[i], self._slot[angle])

    def _computed(self, i: int, read: Sequence[int], fused: Mapping[int, int], left: dict[int, int]) -> None:
        """Write the instruction of an operation, and where its result goes."""
        node = self.graph.nodes[i]
        if i in fused:
            call = fused_call(self.graph, i, fused[i])
            x, *others = call.operands
            suffix = "".join(name for name, value in zip("yz", others, strict=True) if isinstance(value, float))
            name = f"{call.name}_{suffix}" if suffix else call.name
            fields = [self._slot[x], *map(self._field, others)]
        else:
            name, fields = node.op, [self._slot[k] for k in node.args]
            if node.constant is not None:
                fields.append(self._field(constant_of(node)))
        for k in read:
            left[k] -= 1
            if not left[k]:
                self._release(k)
        self._slot[i] = self._new()
        self._write(name, self._slot[i], *fields)
        self._finished(i)
        if i not in left:
            self._release(i)

    def _finished(self, i: int) -> None:
        """Write where a value goes: to outputs, and to the test for numbers that are not finite."""
        for p, j in self._places.get(i, ()):
            self._write("store", p, self._slot[i], j)
        if i in self._watched:
            self._write("watch", 0, self._slot[i])

    def _field(self, operand: int | float) -> int:
        """Return the slot of a node, or the number of a constant."""
        if isinstance(operand, float):
            return self.constants.setdefault(operand, len(self.constants))
        return self._slot[operand]

    def _write(self, name: str, to: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        self.code += (CODE[name], to, a, b, c)

    def _new(self) -> int:
        if self._free:
            return heappop(self._free)
        self._slots += 1
        return self._slots - 1

    def _release(self, i: int) -> None:
        if self._slot[i]:
            heappush(self._free, self._slot[i])


def _readers(operands: Iterable[Sequence[int]]) -> dict[int, int]:
    """Return the number of operations that read each value."""
    count: dict[int, int] = {}
    for read in operands:
        for k in read:
            count[k] = count.get(k, 0) + 1
    return count
