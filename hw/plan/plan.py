"""Plan a datapath from a formatted graph: which unit executes each operation, and in which cycle."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from dynagate.base.arguments import is_whole, store_plain_numbers
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.fixedpoint.format import WRAP, Arithmetic, Format
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.ranges.reachable import Reachable, reachable
from dynagate.fixedpoint.wordlength.goal import DSP48E2, Multiplier
from dynagate.graph.parts import needed, part_outputs, parts_of
from dynagate.hw.export.identifiers import Names, plain
from dynagate.hw.plan.bind import Binding, Source, bind
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
from dynagate.hw.units.table import ELEMENTARY, HARDWARE, Elementary, OfCores, Own, Product, Wiring, unit_dsp_blocks

SPARE = 1.01
"""Multipliers per multiplier that full use would need: a few free slots save registers."""


EARLY_SLACK = 4
"""Cycles after its critical path in which the outputs of one of several functions are delivered."""


@explained
@dataclass(frozen=True)
class Stages:
    """Register stages in addition to the fewest, 0 to MOST_STAGES each, for targets with slow logic.

    Raises:
        ArgumentError: A number of stages is outside of this range.
    """

    multiply: int = 0
    """Stages behind every shared multiplier."""
    add: int = 0
    """Stages behind every sum."""

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        for count in (self.multiply, self.add):
            if not is_whole(count) or not 0 <= count <= MOST_STAGES:
                raise ArgumentError(
                    f"{self}; expected whole numbers of stages from 0 to {MOST_STAGES}", code="DG-HW-016"
                )


@dataclass(frozen=True)
class UnitClass:
    """A class of shared units with the same function, formats and latency."""

    name: str
    kind: str
    """"multiply", or the kind of an elementary unit."""
    latency: int
    """Cycles from an operand to the result."""
    key: tuple[Any, ...]
    """Parameters that the unit is built for: operand widths of a multiplier, `Elementary.key` of other units."""

    @property
    def spare(self) -> float:
        """Return the units per unit that full use would need."""
        return SPARE if self.kind == "multiply" else ELEMENTARY[self.kind].spare

    @property
    def commutes(self) -> bool:
        """Return whether an operand that fits both ports may go to either: the unit is one multiplier block."""
        return self.kind == "multiply" and self.dsp_blocks == 1

    @property
    def dsp_blocks(self) -> int:
        """Return the DSP48E2 blocks of one unit."""
        return unit_dsp_blocks(self.kind, self.key)


class Operand(NamedTuple):
    """An operand of an operation."""

    node: int | None
    """Node that is read; None for the operation's own constant."""
    format: Format


def operands(formatted: FormattedGraph, node: int) -> tuple[Operand, ...]:
    """Return the operands of a node: a constant is last, and a product has the wider operand first."""
    args = formatted.graph.nodes[node].args
    read = [Operand(a, formatted.formats[a]) for a in args]
    if node in formatted.constants:
        read.append(Operand(None, formatted.constants[node][1]))
    if isinstance(HARDWARE[formatted.graph.nodes[node].op], Product):
        read.sort(key=lambda operand: -operand.format.width)
    return tuple(read)


@dataclass(frozen=True)
class FunctionOutputs:
    """The outputs of one function, all read in the same cycle of a sample."""

    name: str
    code: int
    """Number that a sample of this function carries."""
    outputs: dict[str, tuple[int, ...]]
    """Nodes by name of the output, in order."""
    nodes: tuple[int, ...]
    """Nodes of the numbers of a result, each once."""
    needed: frozenset[int]
    """Nodes that the outputs depend on."""
    cycle: int
    """Cycle of a sample in which the outputs are read."""


@dataclass(frozen=True)
class Plan:
    """A datapath before any gateware: units, start cycles and registers."""

    formatted: FormattedGraph
    ii: int
    """Initiation interval in cycles."""
    classes: dict[str, UnitClass]
    """Classes of shared units, by name."""
    root: tuple[int, ...]
    """Node whose register holds each node's value. A shift by a constant moves the binary point and shares the
    register.
    """
    position: dict[int, int]
    """Operation of the schedule, by root node. Constants have none."""
    schedule: Schedule
    binding: Binding
    """Unit that executes each operation."""
    stages: Stages
    """Register stages in addition to the fewest."""

    @property
    def latency(self) -> int:
        """Return the cycles from the input handshake until the last outputs enter the output FIFO."""
        return self.schedule.length

    @cached_property
    def deliveries(self) -> tuple[FunctionOutputs, ...]:
        """Return the outputs and the cycle of delivery of each function; one entry for a single function."""
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
        """Return the first cycle of a sample in which a node's value can be read."""
        return self.schedule.ready(self.position[self.root[node]])

    def start(self, node: int) -> int:
        """Return the cycle of a sample in which the operation of a node starts."""
        return self.schedule.start[self.position[node]]

    def holds(self, node: int) -> bool:
        """Return whether the unit's own register holds a node's value for one interval."""
        return self.schedule.problem.operations[self.position[self.root[node]]].holds

    def register_index(self, node: int, cycle: int) -> int:
        """Return the register of the delay line that holds a node's value in a cycle: 0 is the unit's output, 1 the
        first.
        """
        return registers_held(self.holds(node), cycle - self.ready(node), self.ii)

    def source(self, node: int, operand: Operand) -> Hashable:
        """Return a key for the source of an operand: equal keys mean the same bits of a register or constant."""
        if operand.node is None:
            return self.formatted.constants[node]
        root = self.root[operand.node]
        return root, self.register_index(root, self.start(node)) if root in self.position else 0

    def port_operands(self, node: int) -> tuple[Operand, ...]:
        """Return the operands of a node in the order of its unit's ports."""
        read = operands(self.formatted, node)
        return read[::-1] if self.position.get(node) in self.binding.swapped else read

    def registers(self, node: int) -> int:
        """Return the length of a node's delay line, in registers."""
        return self.schedule.registers(self.position[node])

    def unit_counts(self) -> Counter[str]:
        """Return the number of units by kind."""
        counts: Counter[str] = Counter()
        for name, limit in self.schedule.problem.limits.items():
            counts[self.classes[name].kind] += limit
        return counts

    def dsp_blocks(self) -> int:
        """Return the DSP48E2 blocks of all units."""
        return Demand(self.schedule.problem, self.position, self.classes).dsp_blocks()

    def register_words(self) -> int:
        """Return the number of registers in all delay lines."""
        return self.schedule.total_registers()

    def register_bits(self) -> int:
        """Return the number of bits in all delay lines."""
        return sum(self.registers(i) * self.stored(i)[0].width for i in self.position)

    @cached_property
    def bounds(self) -> Reachable:
        """Return the values that nodes may have for any input."""
        return reachable(self.formatted)

    def may_overflow(self, node: int) -> bool:
        """Return whether some input overflows the operation of a node."""
        return self.bounds.overflows[node]

    def exact_width(self, node: int) -> int | None:
        """Return the bits of a node's rounded results before they wrap or saturate; None if no number is known."""
        return self.bounds.exact_widths[node]

    def multiplier_widths(self, nodes: Sequence[int], block: Multiplier = DSP48E2) -> tuple[int, int, int]:
        """Return the bits of both factors and of the sum, for a multiplier that computes these nodes.

        The sum has the bits that some result needs, and at least two bits of the last block's product.

        Args:
            nodes: Products that share the multiplier.
            block: Type of the device's multiplier block.
        """
        reads = [[each.format for each in self.port_operands(i)] for i in nodes]
        width_a, width_b = (max(formats[port].width for formats in reads) for port in range(2))
        needs = [2 + max(part.weight for part in latencies.parts(width_a, width_b, block))]
        for i, (a, b) in zip(nodes, reads, strict=True):
            dropped = max(a.frac + b.frac - self.formatted.formats[i].frac, 0)
            needs.append((self.exact_width(i) or width_a + width_b) + dropped)
        return width_a, width_b, min(width_a + width_b, max(needs))

    def overflowing(self, delivery: FunctionOutputs) -> tuple[int, ...]:
        """Return the passes of a function in which an operation may overflow, in order."""
        scope_of = self.formatted.graph.scope_of
        return tuple(sorted({scope_of[i] for i in self.position if i in delivery.needed and self.may_overflow(i)}))

    def stored(self, node: int) -> tuple[Format, Arithmetic]:
        """Return the format in which registers hold a node's value, and how the exact result enters it.

        The format has the bits that some value uses. An operation that never overflows neither wraps nor saturates.
        """
        own, arithmetic = self.formatted.formats[node], self.formatted.arithmetic
        if self.may_overflow(node):
            return own, arithmetic
        return Format(self.bounds.widths[node], own.frac), replace(arithmetic, overflow=WRAP)

    @cached_property
    def signal_names(self) -> tuple[str, ...]:
        """Return the name of each node's signal in the hardware: the node's name as a plain identifier."""
        taken = Names()
        return tuple(taken.unique(plain(node.name), "v") for node in self.formatted.graph.nodes)

    def module(self, node: int) -> tuple[str, ...]:
        """Return the path of the submodule that holds a node's registers; () is the datapath, which has those of
        inputs.

        A part of the graph without registers has no module.
        """
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
    """Plan a datapath.

    Args:
        formatted: Graph with a format for each node.
        ii: Initiation interval in cycles.
        stages: Register stages in addition to the fewest.

    Returns:
        Classes with ceil(operations / ii) units and a few spare ones, a verified schedule, and the binding.

    Raises:
        ScheduleError: ii is below 1 or above `schedule.LONGEST_INTERVAL`.
    """
    stages = stages or Stages()
    asked = demand(formatted, ii, stages)
    schedule = modulo_schedule(asked.problem)
    root, position = formatted.graph.roots, asked.position
    draft = Plan(formatted, ii, asked.classes, root, position, schedule, Binding({}, 0), stages)
    node_at = {p: i for i, p in position.items()}

    def sources(operation: int) -> tuple[Source, ...]:
        node = node_at[operation]
        return tuple(Source(draft.source(node, read), read.format.width) for read in operands(formatted, node))

    def swappable(operation: int) -> bool:
        unit = asked.classes[schedule.problem.operations[operation].resource or ""]
        return unit.commutes and max(source.width for source in sources(operation)) <= unit.key[1]

    binding = bind(schedule, sources, swappable)
    return Plan(formatted, ii, asked.classes, root, position, schedule, binding, stages)


class Demand(NamedTuple):
    """Units and latency that a graph needs from a datapath, known before it is scheduled."""

    problem: Problem
    """Scheduling problem: its `limits` are units by class, and its critical path is the smallest latency."""
    position: dict[int, int]
    """Operation of the problem, by root node."""
    classes: dict[str, UnitClass]
    """Classes of shared units, by name."""

    def multipliers(self) -> int:
        """Return the number of units for products."""
        return sum(count for name, count in self.problem.limits.items() if self.classes[name].kind == "multiply")

    def dsp_blocks(self) -> int:
        """Return the DSP48E2 blocks of all units."""
        return sum(count * self.classes[name].dsp_blocks for name, count in self.problem.limits.items())


def demand(formatted: FormattedGraph, ii: int, stages: Stages | None = None) -> Demand:
    """Return the operations of a graph, and the units that they need at an interval.

    Args:
        formatted: Graph with a format for each node.
        ii: Initiation interval in cycles.
        stages: Register stages in addition to the fewest.

    Raises:
        ScheduleError: ii is below 1 or above `schedule.LONGEST_INTERVAL`.
    """
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
    problem = replace(problem, limits={name: max(n, limits[name]) for name, n in problem.units_at_once().items()})
    early = []
    for part in parts_of(graph.name):
        read = tuple(dict.fromkeys(position[root[i]] for i in part_outputs(graph, part) if root[i] in position))
        early.append(Early(read, max((problem.earliest[k] for k in read), default=0) + EARLY_SLACK))
    if early:
        problem = replace(problem, outputs=(), early=tuple(early)).later(0, problem.critical_path())
    return Demand(problem, position, classes)


def _classes(formatted: FormattedGraph, stages: Stages) -> tuple[dict[int, str], dict[str, UnitClass]]:
    """Return the unit class of every node that needs a shared unit, and the classes by name."""
    graph, formats = formatted.graph, formatted.formats
    class_of: dict[int, str] = {}
    unit_classes: dict[str, UnitClass] = {}
    products: dict[str, list[tuple[int, int]]] = {}
    for i, node in enumerate(graph.nodes):
        row = HARDWARE[node.op]
        if isinstance(row, OfCores):
            raise ScheduleError(
                f"{graph.robot} {graph.name}: '{node.name}' is a {node.op}; expected a processor, which computes it",
                code="DG-HW-017",
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
