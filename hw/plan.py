"""FormattedGraph -> which unit does what, when: everything the datapath needs before any gateware is made."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from dynagate.fixedpoint.assign import FormattedGraph, drops
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.goal import DSP_BITS
from dynagate.fixedpoint.late import Read, Stretch, Waiting
from dynagate.graph import OPS
from dynagate.hw.bind import Binding, bind
from dynagate.hw.modulo import modulo_schedule
from dynagate.hw.schedule import MOST_STAGES, Operation, Problem, Schedule, check_interval, registers_held
from dynagate.hw.units import add, multiply, reciprocal, shared_add, sincos

SPARE = {"multiply": 1.01, "sincos": 2.0, "reciprocal": 2.0, "add": 1.05}
"""Units for each that full use needs: everything waits for sines, pivots of like branches come together, and a slot
that is free here and there saves registers."""


@dataclass(frozen=True)
class Stages:
    """Register stages that a target wants beyond the least, 0 to MOST_STAGES: behind every shared product, behind every
    sum. Raises ValueError."""

    multiply: int = 0
    add: int = 0

    def __post_init__(self) -> None:
        for count in (self.multiply, self.add):
            if not isinstance(count, int) or not 0 <= count <= MOST_STAGES:
                raise ValueError(f"{self}; expected whole numbers of stages from 0 to {MOST_STAGES}")


@dataclass(frozen=True)
class UnitClass:
    """A class of shared units. kind: multiply, sincos, reciprocal or add. widths, formats: what they are built for."""

    name: str
    kind: str
    latency: int
    widths: tuple[int, int] = (0, 0)
    formats: tuple[Format, ...] = ()

    @property
    def dsp_blocks(self) -> int:
        """DSP48E2 blocks of one unit's products."""
        if self.kind == "multiply":
            return multiply.dsp_blocks(*self.widths)
        inside: list[tuple[int, ...]]
        if self.kind == "add":
            return 0
        if self.kind == "sincos":
            inside = list(sincos.products(*self.formats))
        else:
            inside = [p for step in reciprocal.newton_steps(*self.widths) for p in (step.inner, step.outer)]
        return sum(multiply.dsp_blocks(*widths[:2]) for widths in inside)


class Operand(NamedTuple):
    """What an operation reads: a node, or its own constant (None). dropped: the node's lowest bits that it reads it
    without; format: of what it reads."""

    node: int | None
    format: Format
    dropped: int = 0


def operands(formatted: FormattedGraph, node: int) -> tuple[Operand, ...]:
    """The node's operands, a constant last; but of a product the wider first."""
    args = formatted.graph.nodes[node].args
    found = [
        Operand(a, formatted.read_format(node, k), formatted.dropped.get((node, k), 0)) for k, a in enumerate(args)
    ]
    if node in formatted.constants:
        found.append(Operand(None, formatted.constants[node][1]))
    if OPS[formatted.graph.nodes[node].op].unit == "multiply":
        found.sort(key=lambda operand: -operand.format.width)
    return tuple(found)


@dataclass(frozen=True)
class Plan:
    """root: node -> the node whose register it is (a shift moves the binary point, not a bit).
    position: root node -> its operation in the schedule; constants have none."""

    formatted: FormattedGraph
    ii: int
    classes: dict[str, UnitClass]
    root: tuple[int, ...]
    position: dict[int, int]
    schedule: Schedule
    binding: Binding

    @property
    def latency(self) -> int:
        """Cycles from the input handshake until the outputs are at the output FIFO."""
        return self.schedule.length

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
        """Where the node's operation reads this operand: equal for the same bits of a register or constant, at a shared
        adder also in the same place."""
        resource = self.schedule.problem.operations[self.position[node]].resource
        adds = resource is not None and self.classes[resource].kind == "add"
        place = operand.format.frac - self.formatted.formats[node].frac if adds else 0
        if operand.node is None:
            return self.formatted.constants[node], place
        root = self.root[operand.node]
        index = self.register_index(root, self.start(node)) if root in self.position else 0
        return root, index, place, operand.dropped

    def registers(self, node: int) -> int:
        return self.schedule.registers(self.position[node])

    def unit_counts(self) -> Counter[str]:
        """Units by kind."""
        counts: Counter[str] = Counter()
        for name, limit in self.schedule.problem.limits.items():
            counts[self.classes[name].kind] += limit
        return counts

    def dsp_blocks(self) -> int:
        limits = self.schedule.problem.limits
        return sum(limits[name] * unit.dsp_blocks for name, unit in self.classes.items())

    def register_words(self) -> int:
        return self.schedule.total_registers()

    def register_bits(self) -> int:
        return self.schedule.register_bits() - sum(sum(self.dropped(i)) for i in self.position)

    @cached_property
    def _reads(self) -> dict[int, dict[int, list[Read]]]:
        """By root node, and by the register that they read (`register_index`), which nodes read it as which operand."""
        found: dict[int, dict[int, list[Read]]] = {i: {} for i in self.position}
        for i in self.position:
            for k, a in enumerate(self.formatted.graph.nodes[i].args):
                if self.root[a] in found:
                    index = self.register_index(a, self.start(i))
                    found[self.root[a]].setdefault(index, []).append((i, k))
        return found

    def dropped(self, node: int) -> list[int]:
        """The lowest bits that each register of a root node does without: no operation reads them there or later. An
        operation's own register has all."""
        count, fewest = self.registers(node), math.inf
        if node in self._outputs:
            return [0] * count
        found = []
        for index in range(count, 0, -1):
            reads = self._reads[node].get(index, [])
            fewest = min([fewest, *(self.formatted.dropped.get(read, 0) for read in reads)])
            found.append(0 if index == 1 and self.holds(node) else int(fewest))
        return found[::-1]

    @cached_property
    def _outputs(self) -> set[int]:
        return {self.root[i] for i in self.formatted.graph.output_nodes}

    def waiting(self) -> Waiting:
        """What waits, and who reads it when. Outputs wait whole, and so does what a sine or reciprocal unit reads."""
        nodes = self.formatted.graph.nodes
        stretches: dict[int, list[Stretch]] = {}
        for node, reads in self._reads.items():
            whole = [index for index, some in reads.items() if not all(drops(nodes[i].op) for i, _ in some)]
            first = max(whole, default=min(reads, default=0))
            ends = [first, *sorted(index for index in reads if index > first)]
            if len(ends) > 1 and node not in self._outputs:
                early = tuple(read for index, some in reads.items() if index <= first for read in some)
                late = [Stretch(end - before, tuple(reads[end])) for before, end in pairwise(ends)]
                stretches[node] = [Stretch(first, early), *late]
        cost = self.register_bits() + DSP_BITS * self.dsp_blocks()
        return Waiting(stretches, self.register_words(), cost)

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


def plan(formatted: FormattedGraph, ii: int, stages: Stages | None = None, *, share_adders: bool = False) -> Plan:
    """Classes of units, a verified schedule with ceil(operations / ii) units of each (`SPARE` has the exceptions), and
    the binding.

    share_adders: sums share adders where that delays no output. It saves registers, and cycles at long intervals; the
    multiplexers take more lookup tables than the adders would (docs/hardware.md).
    Raises ScheduleError: ii is below 1 or above `schedule.LONGEST_INTERVAL`.
    """
    check_interval(ii)
    graph = formatted.graph
    root = graph.roots
    stages = stages or Stages()
    class_of, classes = _classes(formatted, stages)
    if share_adders:
        shared = UnitClass("add", "add", shared_add.LATENCY + stages.add)
        own = add.LATENCY + stages.add
        latency = {i: classes[class_of[i]].latency if i in class_of else own for i in range(len(graph))}
        if late := dict.fromkeys(_late_sums(formatted, latency, shared.latency), shared.name):
            classes[shared.name] = shared
            class_of |= late
    last: dict[int, int] = {}  # by root node the most bits that a read of it does without
    for (i, k), bits in formatted.dropped.items():
        a = root[graph.nodes[i].args[k]]
        last[a] = max(last.get(a, 0), bits)
    position: dict[int, int] = {}
    operations: list[Operation] = []
    for i, node in enumerate(graph.nodes):
        if node.op in ("shift", "const"):
            continue
        position[i], width = len(operations), formatted.formats[i].width
        reads = tuple(position[root[a]] for a in node.args if root[a] in position)
        if i in class_of:
            unit = classes[class_of[i]]
            operations.append(
                Operation(node.name, reads, unit.latency, unit.name, holds=False, width=width, dropped=last.get(i, 0))
            )
        else:
            extra = stages.add if OPS[node.op].unit == "add" else 0
            operations.append(Operation(node.name, reads, add.LATENCY + extra, width=width, dropped=last.get(i, 0)))
    wanted = Counter(class_of.values())
    limits = {name: math.ceil(count * SPARE[classes[name].kind] / ii) for name, count in wanted.items()}
    outputs = tuple(dict.fromkeys(position[root[i]] for i in graph.output_nodes if root[i] in position))
    schedule = modulo_schedule(Problem(tuple(operations), ii, limits, outputs))
    draft = Plan(formatted, ii, classes, root, position, schedule, Binding({}, 0))
    node_at = {p: i for i, p in position.items()}

    def sources(operation: int) -> tuple[Hashable, ...]:
        node = node_at[operation]
        return tuple(draft.source(node, operand) for operand in operands(formatted, node))

    return Plan(formatted, ii, classes, root, position, schedule, bind(schedule, sources))


def _late_sums(formatted: FormattedGraph, latency: Mapping[int, int], shared: int) -> Iterator[int]:
    """The sums that a shared adder of this latency can take without any output being later than the longest path."""
    graph, root = formatted.graph, formatted.graph.roots
    behind = [0] * len(graph)  # cycles from a node's value to the last output
    for i in reversed(range(len(graph))):
        for a in graph.nodes[i].args:
            cycles = latency[i] if root[i] == i else 0
            behind[root[a]] = max(behind[root[a]], behind[i] + cycles)
    ready = [0] * len(graph)
    length = max(behind[i] + latency[i] for i in graph.input_nodes)
    for i, node in enumerate(graph.nodes):
        if root[i] != i or node.op == "const":
            ready[i] = ready[root[i]]
            continue
        start = max((ready[a] for a in node.args), default=0)
        ready[i] = start + latency[i]
        if OPS[node.op].unit == "add" and start + shared + behind[i] <= length:
            formats = [operand.format for operand in operands(formatted, i)]
            if shared_add.shared_sum(node.op, formats, formatted.formats[i], formatted.arithmetic) is not None:
                ready[i] = start + shared
                yield i


def _classes(formatted: FormattedGraph, stages: Stages) -> tuple[dict[int, str], dict[str, UnitClass]]:
    """The unit class of every node that needs a shared unit, and the classes."""
    graph, formats = formatted.graph, formatted.formats
    class_of: dict[int, str] = {}
    found: dict[str, UnitClass] = {}
    products: dict[str, list[tuple[int, int]]] = {}
    for i, node in enumerate(graph.nodes):
        kind = OPS[node.op].unit
        if kind == "multiply":
            wide, narrow = (operand.format.width for operand in operands(formatted, i))
            name = "multiply" if multiply.dsp_blocks(wide, narrow) == 1 else "multiply_wide"
            products.setdefault(name, []).append((wide, narrow))
        elif kind == "sincos":
            key = formats[node.args[0]], formats[i]
            name = f"sincos_{key[0]}_{key[1]}"
            if name not in found:
                found[name] = UnitClass(name, kind, sincos.latency(*key), formats=key)
        elif kind == "reciprocal":
            ends = formats[node.args[0]].width, formats[i].width
            name = f"reciprocal_{ends[0]}_{ends[1]}"
            if name not in found:
                found[name] = UnitClass(name, kind, reciprocal.latency(*ends), widths=ends)
        else:
            continue
        class_of[i] = name
    for name, pairs in products.items():
        widths = max(a for a, _ in pairs), max(b for _, b in pairs)
        found[name] = UnitClass(name, "multiply", multiply.latency(*widths) + stages.multiply, widths=widths)
    return class_of, found
