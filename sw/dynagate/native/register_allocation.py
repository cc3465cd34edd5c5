"""Register allocation: the loads, computations and stores of a kernel, in order.

A compiler that gets thousands of operations at once stores many values twice and reloads values it has just stored.
Here each value is stored at most once. If all registers are in use, the value whose next use is farthest away leaves
its register (L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", 1966). It is stored in
the memory slot of a value that is no longer needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dynagate.graph import Graph
from dynagate.graph.ops import TRIG
from dynagate.native.sums import fusable


@dataclass(frozen=True)
class KernelStep:
    """A load of a value from a memory slot to a register, its computation, or a store to a slot."""

    action: Literal["load", "compute", "store"]
    node: int
    slot: int = 0


@dataclass
class KernelProgram:
    """The steps of a kernel."""

    segments: list[list[KernelStep]]
    """Runs of steps. Values pass from one segment to the next in memory only."""
    fused: dict[int, int]
    """Sum -> the product that is computed in the same instruction and has no step of its own."""
    slot: dict[int, int]
    """Memory slots of inputs, of their sines and cosines, and of outputs."""
    slots: int
    """Number of slots, including slot 0, which holds zero."""


def program(graph: Graph, registers: int, segment_operations: int) -> KernelProgram:
    """Allocate registers and memory slots for a graph, and return the steps of its kernel.

    Independent parts that share only inputs, such as the legs of a robot with a fixed base, are computed one after
    another, so that fewer values are live at a time.

    Args:
        graph: The graph, whose order is kept within each part.
        registers: Number of values in registers.
        segment_operations: Approximate number of operations in a segment; all segments are equally long.
    """
    fused, operands = operations_in_order(graph)
    order = list(operands)
    count = max(1, round(len(order) / segment_operations))
    cuts = {len(order) * s // count for s in range(1, count)}
    memory = _Memory(graph, operands, registers)
    segments: list[list[KernelStep]] = [[]]
    for at, i in enumerate(order):
        if at in cuts:
            segments[-1] += memory.emptied()
            segments.append([])
        segments[-1] += memory.computed(at, i)
    return KernelProgram(segments, fused, memory.fixed, memory.slots)


def operations_in_order(graph: Graph) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Return the operations of a kernel: sums with the products that they fuse, and operations with their operands.

    Args:
        graph: The graph.

    Returns:
        Sum -> fused product; and operation -> nodes that it reads, in the order of computation.
    """
    fused = _fused(graph)
    without = set(fused.values())
    operands = {i: _operands(graph, fused, i) for i in _computed(graph) if i not in without}
    part = _parts(operands)
    return fused, {i: operands[i] for i in sorted(operands, key=lambda i: (part[i], i))}


def is_source(graph: Graph, i: int) -> bool:
    """Return whether a node is available before a kernel's segments begin: an input, or the sine or cosine
    of one.
    """
    node = graph.nodes[i]
    return node.op == "input" or (node.op in TRIG and graph.nodes[node.args[0]].op == "input")


def _computed(graph: Graph) -> Iterator[int]:
    """Return the nodes that a kernel's segments compute: all but sources and zeros."""
    return (i for i, node in enumerate(graph.nodes) if not is_source(graph, i) and not node.is_zero)


def _fused(graph: Graph) -> dict[int, int]:
    """Choose the product that each sum fuses, since one instruction multiplies and adds.

    A sum fuses one product. A product is fused by all its sums or by none; products of few sums are chosen first.
    """
    fused: dict[int, int] = {}
    for product in sorted(fusable(graph), key=lambda i: (len(graph.users[i]), i)):
        sums = graph.users[product]
        if len(set(sums)) == len(sums) and not any(i in fused for i in sums):
            fused |= dict.fromkeys(sums, product)
    return fused


def _operands(graph: Graph, fused: Mapping[int, int], i: int) -> list[int]:
    """Return the nodes that must be in registers to compute node i and the product fused with it."""
    parts = (graph.nodes[a].args if fused.get(i) == a else (a,) for a in graph.nodes[i].args)
    return list(dict.fromkeys(a for part in parts for a in part))


def _parts(operands: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return for each operation the first operation of its connected component, by union-find."""
    first = {i: i for i in operands}

    def root(i: int) -> int:
        while first[i] != i:
            first[i] = i = first[first[i]]
        return i

    for i, args in operands.items():
        for a in args:
            if a in operands:
                low, high = sorted((root(a), root(i)))
                first[high] = low
    return {i: root(i) for i in operands}


@dataclass
class _Memory:
    """The values in registers and in memory slots, updated operation by operation."""

    graph: Graph
    operands: Mapping[int, Sequence[int]]
    registers: int
    fixed: dict[int, int] = field(init=False)
    """Slots of inputs, their sines and cosines, and outputs, which no other value uses."""

    def __post_init__(self) -> None:
        nodes = self.graph.nodes
        sources = [*self.graph.input_nodes, *(i for i in range(len(nodes)) if is_source(self.graph, i))]
        outputs = [i for i in self.graph.output_nodes if not nodes[i].is_zero]
        self.fixed = {i: k for k, i in enumerate(dict.fromkeys([*sources, *outputs]), start=1)}
        self.slots = len(self.fixed) + 1
        self._slot = {**{i: 0 for i, node in enumerate(nodes) if node.is_zero}, **self.fixed}
        self._stored = {i for i in self._slot if i in sources or nodes[i].is_zero}
        self._free: list[int] = []
        self._held: set[int] = set()
        self._uses: dict[int, list[int]] = {}  # per value the operations that read it, the last one first
        for at, args in reversed(list(enumerate(self.operands.values()))):
            for a in args:
                self._uses.setdefault(a, []).append(at)

    def computed(self, at: int, i: int) -> Iterator[KernelStep]:
        """Yield the steps of operation i, which is number `at` in the order."""
        for a in self.operands[i]:
            if a not in self._held:
                self._held.add(a)
                yield KernelStep("load", a, self._slot[a])
        yield KernelStep("compute", i)
        for a in self.operands[i]:
            self._uses[a].pop()
            if not self._uses[a]:
                self._held.discard(a)
                if a in self._slot and a in self.operands and a not in self.fixed:
                    self._free.append(self._slot.pop(a))
        if i in self.fixed:
            yield from self._stores(i)
        if self._uses.get(i):
            self._held.add(i)
        while len(self._held) > self.registers:
            latest = max(self._held, key=lambda a: (self._uses[a][-1], a))
            self._held.remove(latest)
            yield from self._stores(latest)

    def emptied(self) -> Iterator[KernelStep]:
        """Yield the steps that store all values in registers that are not in memory."""
        for a in sorted(self._held):
            yield from self._stores(a)
        self._held.clear()

    def _stores(self, i: int) -> Iterator[KernelStep]:
        """Yield the step that stores value i, unless its slot already holds it."""
        if i in self._stored:
            return
        if i not in self._slot:
            if not self._free:
                self._free.append(self.slots)
                self.slots += 1
            self._slot[i] = self._free.pop()
        self._stored.add(i)
        yield KernelStep("store", i, self._slot[i])
