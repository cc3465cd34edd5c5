"""FormattedGraph -> which unit does what, when: everything the datapath needs before any gateware is made."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from dynagate.base.arguments import is_whole, store_plain_numbers
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.graph.parts import needed, part_outputs, parts_of
from dynagate.hw.plan.bind import Binding, bind
from dynagate.hw.plan.modulo import modulo_schedule
from dynagate.hw.plan.schedule import (
    MOST_STAGES,
    Early,
    Operation,
    Problem,
    Schedule,
    ScheduleError,
    check_interval,
    registers_held,
)
from dynagate.hw.units import add, latencies
from dynagate.hw.units.table import ELEMENTARY, HARDWARE, Elementary, OfCores, Own, Product, Wiring, dsp_blocks

SPARE = 1.01
"""Multipliers for each that full use needs: a slot that is free here and there saves registers."""


EARLY_SLACK = 4
"""Cycles after its critical path in which the outputs of one of several functions are delivered."""


@explained
@dataclass(frozen=True)
class Stages:
    """Register stages that a target wants beyond the least, 0 to MOST_STAGES each.

    multiply: behind every shared product. add: behind every sum. Raises ValueError: one is not in this range.
    """

    multiply: int = 0
    add: int = 0

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        for count in (self.multiply, self.add):
            if not is_whole(count) or not 0 <= count <= MOST_STAGES:
                raise ArgumentError(f"{self}; expected whole numbers of stages from 0 to {MOST_STAGES}")


@dataclass(frozen=True)
class UnitClass:
    """A class of shared units. kind: "multiply", or that of an elementary unit. key: what they are built for, as
    `Elementary.key` says; of multipliers the operand widths."""

    name: str
    kind: str
    latency: int
    key: tuple[Any, ...]

    @property
    def spare(self) -> float:
        """Units for each that full use needs."""
        return SPARE if self.kind == "multiply" else ELEMENTARY[self.kind].spare

    @property
    def dsp_blocks(self) -> int:
        """DSP48E2 blocks of one unit's products."""
        return dsp_blocks(self.kind, self.key)


class Operand(NamedTuple):
    """An operand of an operation: a node, or its own constant (None), and its format."""

    node: int | None
    format: Format


def operands(formatted: FormattedGraph, node: int) -> tuple[Operand, ...]:
    """The node's operands, a constant last; but of a product the wider first."""
    args = formatted.graph.nodes[node].args
    read = [Operand(a, formatted.formats[a]) for a in args]
    if node in formatted.constants:
        read.append(Operand(None, formatted.constants[node][1]))
    if isinstance(HARDWARE[formatted.graph.nodes[node].op], Product):
        read.sort(key=lambda operand: -operand.format.width)
    return tuple(read)


@dataclass(frozen=True)
class FunctionOutputs:
    """The outputs of one function, all read in one cycle of its samples. code: of these samples. outputs: nodes by
    name, in order. nodes: the numbers of a result. needed: the nodes that the outputs depend on."""

    name: str
    code: int
    outputs: dict[str, tuple[int, ...]]
    nodes: tuple[int, ...]
    needed: frozenset[int]
    cycle: int


@dataclass(frozen=True)
class Plan:
    """root: node -> the node whose register it is (a shift moves the binary point, not a bit).
    position: root node -> its operation in the schedule; constants have none. stages: that it was made with."""

    formatted: FormattedGraph
    ii: int
    classes: dict[str, UnitClass]
    root: tuple[int, ...]
    position: dict[int, int]
    schedule: Schedule
    binding: Binding
    stages: Stages

    @property
    def latency(self) -> int:
        """Cycles from the input handshake until the outputs are at the output FIFO."""
        return self.schedule.length

    @cached_property
    def deliveries(self) -> tuple[FunctionOutputs, ...]:
        """Return the outputs of each function with the cycle of delivery: one entry, or one for each of several
        functions.
        """
        graph, early = self.formatted.graph, self.schedule.problem.early
        parts = parts_of(graph.name)
        ports = {port.name: port.nodes for port in graph.outputs}
        if not parts:
            return (
                FunctionOutputs(graph.name, 0, ports, graph.result_nodes, frozenset(range(len(graph))), self.latency),
            )
        deliveries = []
        for part in parts:
            nodes = part_outputs(graph, part)
            read = {self.position[self.root[i]] for i in nodes if self.root[i] in self.position}
            cycles = [e.cycle for e in early if read.issubset(e.outputs)]
            needs = frozenset(needed(graph, part))
            outputs = {argument.name: ports[argument.name] for argument in part.function.outputs}
            cycle = min(cycles, default=self.latency)
            deliveries.append(FunctionOutputs(part.name, part.code, outputs, nodes, needs, cycle))
        return tuple(deliveries)

    def ready(self, node: int) -> int:
        """The cycle from which the node's value can be read."""
        return self.schedule.ready(self.position[self.root[node]])

    def start(self, node: int) -> int:
        return self.schedule.start[self.position[node]]

    def holds(self, node: int) -> bool:
        return self.schedule.problem.operations[self.position[self.root[node]]].holds

    def register_index(self, node: int, cycle: int) -> int:
        """Which register has the node's value in this cycle: 1 the first; 0 the unit's output itself."""
        return registers_held(self.holds(node), cycle - self.ready(node), self.ii)

    def source(self, node: int, operand: Operand) -> Hashable:
        """Return a key for the source of an operand: equal keys mean the same bits of a register or constant."""
        if operand.node is None:
            return self.formatted.constants[node]
        root = self.root[operand.node]
        return root, self.register_index(root, self.start(node)) if root in self.position else 0

    def registers(self, node: int) -> int:
        return self.schedule.registers(self.position[node])

    def unit_counts(self) -> Counter[str]:
        """Units by kind."""
        counts: Counter[str] = Counter()
        for name, limit in self.schedule.problem.limits.items():
            counts[self.classes[name].kind] += limit
        return counts

    def dsp_blocks(self) -> int:
        return Demand(self.schedule.problem, self.position, self.classes).dsp_blocks()

    def register_words(self) -> int:
        return self.schedule.total_registers()

    def register_bits(self) -> int:
        return self.schedule.register_bits()

    @cached_property
    def signal_names(self) -> tuple[str, ...]:
        """Per node, its signal's name in the hardware: the node's name with every other character an underscore."""
        taken: set[str] = set()
        names = []
        for node in self.formatted.graph.nodes:
            plain = candidate = re.sub(r"\W", "_", node.name)
            k = 1
            while candidate in taken:
                k += 1
                candidate = f"{plain}_v{k}"
            taken.add(candidate)
            names.append(candidate)
        return tuple(names)

    def module(self, node: int) -> tuple[str, ...]:
        """The submodule of the datapath that has the node's signals; the inputs' are in the datapath itself. What keeps
        nothing in registers has no module of its own."""
        path = self._part(node)
        while path not in self._modules:
            path = path[:-1]
        return path

    def _part(self, node: int) -> tuple[str, ...]:
        graph = self.formatted.graph
        return () if graph.nodes[node].op == "input" else graph.scope_paths[node]

    @cached_property
    def _modules(self) -> set[tuple[str, ...]]:
        kept = {self._part(i) for i in self.position if self.registers(i)}
        return {(), *(path[:k] for path in kept for k in range(1, len(path) + 1))}


def plan(formatted: FormattedGraph, ii: int, stages: Stages | None = None) -> Plan:
    """Classes of units, a verified schedule with ceil(operations / ii) units of each (and some to spare), and
    the binding.

    Raises ScheduleError: ii is below 1 or above `schedule.LONGEST_INTERVAL`.
    """
    stages = stages or Stages()
    asked = demand(formatted, ii, stages)
    schedule = modulo_schedule(asked.problem)
    root, position = formatted.graph.roots, asked.position
    draft = Plan(formatted, ii, asked.classes, root, position, schedule, Binding({}, 0), stages)
    node_at = {p: i for i, p in position.items()}

    def sources(operation: int) -> tuple[Hashable, ...]:
        node = node_at[operation]
        return tuple(draft.source(node, operand) for operand in operands(formatted, node))

    return Plan(formatted, ii, asked.classes, root, position, schedule, bind(schedule, sources), stages)


class Demand(NamedTuple):
    """The units and the latency that a graph needs from a datapath, before any schedule.

    problem: its `limits` are units by class; its critical path is the least latency. position, classes: as in `Plan`.
    """

    problem: Problem
    position: dict[int, int]
    classes: dict[str, UnitClass]

    def multipliers(self) -> int:
        """Units for products."""
        return sum(count for name, count in self.problem.limits.items() if self.classes[name].kind == "multiply")

    def dsp_blocks(self) -> int:
        """DSP48E2 blocks of all units."""
        return sum(count * self.classes[name].dsp_blocks for name, count in self.problem.limits.items())


def demand(formatted: FormattedGraph, ii: int, stages: Stages | None = None) -> Demand:
    """The operations, and the units that they take at this interval. Raises ScheduleError as `plan`."""
    check_interval(ii)
    graph = formatted.graph
    root = graph.roots
    stages = stages or Stages()
    class_of, classes = _classes(formatted, stages)
    position: dict[int, int] = {}
    operations: list[Operation] = []
    for i, node in enumerate(graph.nodes):
        row = HARDWARE[node.op]
        if isinstance(row, Wiring) and node.op != "input":
            continue
        position[i], width = len(operations), formatted.formats[i].width
        reads = tuple(position[root[a]] for a in node.args if root[a] in position)
        if i in class_of:
            unit = classes[class_of[i]]
            operations.append(Operation(node.name, reads, unit.latency, unit.name, holds=False, width=width))
        else:
            extra = stages.add if isinstance(row, Own) else 0
            operations.append(Operation(node.name, reads, add.LATENCY + extra, width=width))
    counts = Counter(class_of.values())
    limits = {name: math.ceil(count * classes[name].spare / ii) for name, count in counts.items()}
    outputs = tuple(dict.fromkeys(position[root[i]] for i in graph.output_nodes if root[i] in position))
    problem = Problem(tuple(operations), ii, limits, outputs)
    early = []
    for part in parts_of(graph.name):
        read = tuple(dict.fromkeys(position[root[i]] for i in part_outputs(graph, part) if root[i] in position))
        early.append(Early(read, max((problem.earliest[k] for k in read), default=0) + EARLY_SLACK))
    if early:
        problem = replace(problem, outputs=(), early=tuple(early)).later(0, problem.critical_path())
    return Demand(problem, position, classes)


def _classes(formatted: FormattedGraph, stages: Stages) -> tuple[dict[int, str], dict[str, UnitClass]]:
    """The unit class of every node that needs a shared unit, and the classes."""
    graph, formats = formatted.graph, formatted.formats
    class_of: dict[int, str] = {}
    unit_classes: dict[str, UnitClass] = {}
    products: dict[str, list[tuple[int, int]]] = {}
    for i, node in enumerate(graph.nodes):
        row = HARDWARE[node.op]
        if isinstance(row, OfCores):
            raise ScheduleError(
                f"{graph.robot} {graph.name}: '{node.name}' is a {node.op}; expected a processor, which computes it"
            )
        if isinstance(row, Product):
            wide, narrow = (operand.format.width for operand in operands(formatted, i))
            name = "multiply" if latencies.dsp_blocks(wide, narrow) == 1 else "multiply_wide"
            products.setdefault(name, []).append((wide, narrow))
        elif isinstance(row, Elementary):
            key = row.key(formats[node.args[0]], formats[i])
            name = "_".join([row.kind, *map(str, key)])
            if name not in unit_classes:
                unit_classes[name] = UnitClass(name, row.kind, row.latency(*key), key)
        else:
            continue
        class_of[i] = name
    for name, pairs in products.items():
        widths = max(a for a, _ in pairs), max(b for _, b in pairs)
        unit_classes[name] = UnitClass(name, "multiply", latencies.product_latency(*widths) + stages.multiply, widths)
    return class_of, unit_classes
