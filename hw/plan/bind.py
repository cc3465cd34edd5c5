"""Bind operations to units of their class, so that the multiplexers in front of the units have few inputs.

The operations of a slot are assigned to the units in one weighted bipartite matching, slot by slot, until no slot gets
cheaper. The method is that of Huang et al., "Data path allocation based on bipartite weighted matching" (DAC 1990).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from dynagate.hw.plan.schedule import Schedule, ScheduleError
from dynagate.hw.units.slot_selects import tables

SWEEPS = 5
"""Largest number of passes over all slots in which the matching improves a binding."""
PER_TABLE, PER_INPUT = 20, 6
"""Cost of a bit of a multiplexer's lookup tables, and of a bit of a new input, relative to a bit of a wider port."""


class Source(NamedTuple):
    """A register or wire that an operation reads at its start."""

    key: Hashable
    """Equal keys mean the same bits."""
    width: int = 1
    """Number of bits."""


Sources = Callable[[int], tuple[Source, ...]]
"""Function from an operation to its sources, one per operand port."""


@dataclass(frozen=True)
class Binding:
    """The unit that executes each operation of a schedule."""

    unit: dict[int, tuple[str, int]]
    """Resource class and instance, by operation."""
    mux_inputs: int
    """Number of different sources, summed over all operand ports of all units."""
    swapped: frozenset[int] = frozenset()
    """Operations that read their first operand at the second port, and the second at the first."""

    def operations_of(self, schedule: Schedule) -> dict[tuple[str, int], dict[int, int]]:
        """Group the operations by unit and slot.

        Args:
            schedule: Schedule that was bound.

        Returns:
            Operation in each slot (start cycle modulo the initiation interval), by resource class and instance.

        Raises:
            ScheduleError: Two operations share a unit and a slot.
        """
        result: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        for i, unit in self.unit.items():
            slot = schedule.start[i] % schedule.problem.ii
            if slot in result[unit]:
                raise ScheduleError(
                    f"operations {result[unit][slot]} and {i} are both bound to {unit} in slot {slot}", code="DG-HW-012"
                )
            result[unit][slot] = i
        return dict(result)


def bind(schedule: Schedule, sources: Sources, swappable: Callable[[int], bool] = lambda _: False) -> Binding:
    """Bind operations to units.

    Args:
        schedule: Verified schedule.
        sources: Function that returns the sources of an operation.
        swappable: Function that returns whether an operation may read its first two operands at each other's ports.
    """
    unit: dict[int, tuple[str, int]] = {}
    swapped: set[int] = set()
    inputs = 0
    by_class: dict[str, list[int]] = defaultdict(list)
    for i, operation in enumerate(schedule.problem.operations):
        if operation.resource is not None:
            by_class[operation.resource].append(i)
    for name, members in sorted(by_class.items()):
        bound = _ClassBinding(schedule, name, members, sources, swappable)
        bound.improve()
        unit.update((i, (name, instance)) for i, instance in bound.instance.items())
        swapped |= bound.swapped
        inputs += bound.inputs()
    return Binding(dict(sorted(unit.items())), inputs, frozenset(swapped))


class _ClassBinding:
    """The binding of the operations of one class."""

    def __init__(
        self,
        schedule: Schedule,
        name: str,
        members: list[int],
        sources: Sources,
        swappable: Callable[[int], bool],
    ) -> None:
        self.slots: dict[int, list[int]] = defaultdict(list)
        for i in members:
            self.slots[schedule.start[i] % schedule.problem.ii].append(i)
        self.reads = {i: sources(i) for i in members}
        self.ports = max(map(len, self.reads.values()))
        self.may_swap = {i for i in members if len(self.reads[i]) > 1 and swappable(i)}
        self.number: dict[Hashable, int] = {}
        for i in members:
            for source in self.reads[i]:
                self.number.setdefault(source.key, len(self.number))
        units = schedule.problem.limits[name]
        self.readers = np.zeros((self.ports, len(self.number), units), dtype=np.int32)
        """Number of operations that read a source, by port, source and unit."""
        self.widths = np.zeros((self.ports, schedule.problem.ii, units), dtype=np.int32)
        """Width that each slot reads, by port, slot and unit."""
        self.instance: dict[int, int] = {}
        self.swapped: set[int] = set()
        for slot in sorted(self.slots):
            self._match(slot)

    def inputs(self) -> int:
        """Return the number of different sources, summed over the ports of all units."""
        return int((self.readers > 0).sum())

    def improve(self) -> None:
        """Match the operations of each slot again while this saves bits of lookup tables."""
        best, kept = self._cost(), (dict(self.instance), set(self.swapped), self.readers.copy())
        for _ in range(SWEEPS if len(self.slots) > 1 else 0):
            for slot in sorted(self.slots):
                for i in self.slots[slot]:
                    self._count(slot, i, -1)
                self._match(slot)
            cost = self._cost()
            if cost >= best:
                break
            best, kept = cost, (dict(self.instance), set(self.swapped), self.readers.copy())
        self.instance, self.swapped, self.readers = kept

    def _cost(self) -> int:
        """Return the cost of all multiplexers."""
        inputs = (self.readers > 0).sum(axis=1)
        width = self.widths.max(axis=1)
        return int((PER_TABLE * tables(inputs) * width + PER_INPUT * inputs * width).sum())

    def _sources(self, i: int, *, swap: bool) -> tuple[Source, ...]:
        """Return the sources of an operation in the order of the ports."""
        reads = self.reads[i]
        return (reads[1], reads[0], *reads[2:]) if swap else reads

    def _count(self, slot: int, i: int, by: int) -> None:
        """Add an operation to the readers of its unit, or remove it."""
        unit = self.instance[i]
        for port, source in enumerate(self._sources(i, swap=i in self.swapped)):
            self.readers[port, self.number[source.key], unit] += by
            self.widths[port, slot, unit] = source.width if by > 0 else 0

    def _match(self, slot: int) -> None:
        """Assign the operations of a slot, which have no units, with the least cost in total."""
        from scipy.optimize import linear_sum_assignment  # a processor's program imports this module and binds nothing

        operations = self.slots[slot]
        inputs, width = (self.readers > 0).sum(axis=1), self.widths.max(axis=1)
        plain = self._costs(operations, inputs, width, swap=False)
        crossed = plain
        if self.ports > 1 and self.may_swap:
            crossed = self._costs(operations, inputs, width, swap=True)
            fixed = [k for k, i in enumerate(operations) if i not in self.may_swap]
            crossed[fixed] = plain[fixed]
        rows, columns = linear_sum_assignment(np.minimum(plain, crossed))
        for k, unit in zip(rows, columns, strict=True):
            i = operations[k]
            self.instance[i] = int(unit)
            self.swapped.discard(i)
            if crossed[k, unit] < plain[k, unit]:
                self.swapped.add(i)
            self._count(slot, i, 1)

    def _costs(self, operations: list[int], inputs: np.ndarray, width: np.ndarray, *, swap: bool) -> np.ndarray:
        """Return what each operation of a slot adds to the multiplexers of each unit."""
        reads = [self._sources(i, swap=swap and i in self.may_swap) for i in operations]
        total = np.zeros((len(operations), self.readers.shape[2]), dtype=np.int64)
        for port in range(self.ports):
            rows = [k for k, sources in enumerate(reads) if port < len(sources)]
            if not rows:
                continue
            bits = np.array([[reads[k][port].width] for k in rows])
            new = self.readers[port, [self.number[reads[k][port].key] for k in rows]] == 0
            wide = np.maximum(width[port], bits)
            more = tables(inputs[port] + new) * wide - tables(inputs[port]) * width[port]
            total[rows] += PER_TABLE * more + PER_INPUT * new * bits + (wide - width[port])
        return total
