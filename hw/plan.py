"""FormattedGraph -> which unit does what, when: everything the datapath needs before any gateware is made."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.format import Format
from dynagate.graph import OPS
from dynagate.hw.bind import Binding, bind
from dynagate.hw.schedule import Operation, Problem, Schedule, modulo_schedule
from dynagate.hw.units import add, multiply, reciprocal, sincos


@dataclass(frozen=True)
class UnitClass:
    """A class of shared units. kind: multiply, sincos or reciprocal. widths, formats: what its units are built for."""

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
        if self.kind == "sincos":
            inside = list(sincos.products(*self.formats))
        else:
            inside = [p for step in reciprocal.newton_steps(*self.widths) for p in (step.inner, step.outer)]
        return sum(multiply.dsp_blocks(*widths[:2]) for widths in inside)


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
        lifetime = cycle - self.ready(node)
        return lifetime // self.ii + 1 if self.holds(node) else math.ceil(lifetime / self.ii)

    def registers(self, node: int) -> int:
        return self.schedule.registers(self.position[node])

    def operands(self, node: int) -> tuple[int, ...]:
        """The node's operands, for a product the wider one first."""
        args = self.formatted.graph.nodes[node].args
        formats = self.formatted.formats
        if self.formatted.graph.nodes[node].op == "mul" and formats[args[0]].width < formats[args[1]].width:
            return args[::-1]
        return args

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
        return sum(self.registers(i) * self.formatted.formats[i].width for i in self.position)

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


def plan(formatted: FormattedGraph, ii: int) -> Plan:
    """Classes of units, a verified schedule with ceil(operations / ii) units of each, and the binding.

    Raises ScheduleError: ii is below 1.
    """
    graph = formatted.graph
    root: list[int] = []
    for i, node in enumerate(graph.nodes):
        root.append(root[node.args[0]] if node.op == "shift" else i)
    class_of, classes = _classes(formatted)
    position: dict[int, int] = {}
    operations: list[Operation] = []
    for i, node in enumerate(graph.nodes):
        if node.op in ("shift", "const"):
            continue
        position[i] = len(operations)
        operands = tuple(position[root[a]] for a in node.args if root[a] in position)
        if i in class_of:
            unit = classes[class_of[i]]
            operations.append(Operation(node.name, operands, unit.latency, unit.name, holds=False))
        else:
            operations.append(Operation(node.name, operands, add.LATENCY))
    wanted = Counter(class_of.values())
    limits = {name: math.ceil(count / max(ii, 1)) for name, count in wanted.items()}
    outputs = tuple(dict.fromkeys(position[root[i]] for i in graph.output_nodes if root[i] in position))
    schedule = modulo_schedule(Problem(tuple(operations), ii, limits, outputs))
    draft = Plan(formatted, ii, classes, tuple(root), position, schedule, Binding({}, 0))
    node_at = {p: i for i, p in position.items()}

    def sources(operation: int) -> tuple[Hashable, ...]:
        node = node_at[operation]
        cycle = schedule.start[operation]
        found: list[Hashable] = []
        for a in draft.operands(node):
            constant = graph.nodes[root[a]].op == "const"
            found.append((root[a], 0 if constant else draft.register_index(a, cycle)))
        if node in formatted.constants:
            found.append(("constant", formatted.constants[node]))
        return tuple(found)

    return Plan(formatted, ii, classes, tuple(root), position, schedule, bind(schedule, sources))


def _classes(formatted: FormattedGraph) -> tuple[dict[int, str], dict[str, UnitClass]]:
    """The unit class of every node that needs a shared unit, and the classes."""
    graph, formats = formatted.graph, formatted.formats
    class_of: dict[int, str] = {}
    found: dict[str, UnitClass] = {}
    products: dict[str, list[tuple[int, int]]] = {}
    for i, node in enumerate(graph.nodes):
        kind = OPS[node.op].unit
        if kind == "multiply":
            widths = [formats[a].width for a in node.args]
            if i in formatted.constants:
                widths.append(formatted.constants[i][1].width)
            wide, narrow = sorted(widths, reverse=True) if node.op == "mul" else widths
            name = "multiply" if multiply.dsp_blocks(wide, narrow) == 1 else "multiply_wide"
            products.setdefault(name, []).append((wide, narrow))
        elif kind == "sincos":
            key = formats[node.args[0]], formats[i]
            name = f"sincos_{key[0]}_{key[1]}"
            if name not in found:
                found[name] = UnitClass(name, kind, sincos.latency(*key), formats=key)
        elif kind == "reciprocal":
            widths2 = formats[node.args[0]].width, formats[i].width
            name = f"reciprocal_{widths2[0]}_{widths2[1]}"
            if name not in found:
                found[name] = UnitClass(name, kind, reciprocal.latency(*widths2), widths=widths2)
        else:
            continue
        class_of[i] = name
    for name, pairs in products.items():
        widths = max(a for a, _ in pairs), max(b for _, b in pairs)  # type: ignore[assignment]
        found[name] = UnitClass(name, "multiply", multiply.latency(*widths), widths=widths)  # type: ignore[arg-type]
    return class_of, found
