"""Bind operations to units of their class, so that the multiplexers in front of the units have few inputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from dynagate.hw.plan.schedule import Schedule, ScheduleError

Sources = Callable[[int], tuple[Hashable, ...]]
"""Function from an operation to the registers or wires that it reads at its start, one per operand port."""


@dataclass(frozen=True)
class Binding:
    """The unit that executes each operation of a schedule."""

    unit: dict[int, tuple[str, int]]
    """Resource class and instance, by operation."""
    mux_inputs: int
    """Number of different sources, summed over all operand ports of all units."""

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


def bind(schedule: Schedule, sources: Sources) -> Binding:
    """Bind operations in the order of their starts.

    An operation gets the free instance whose operand ports already read the most of its sources; among equals, the
    first.

    Args:
        schedule: Verified schedule.
        sources: Function that returns the sources of an operation.
    """
    problem = schedule.problem
    unit: dict[int, tuple[str, int]] = {}
    taken: dict[tuple[str, int], set[int]] = defaultdict(set)  # (class, slot) -> instances in use
    seen: set[tuple[str, int, int, Hashable]] = set()  # (class, instance, port, source)
    fans: dict[tuple[str, int, Hashable], list[int]] = defaultdict(list)  # (class, port, source) -> instances
    order = sorted(
        (i for i, o in enumerate(problem.operations) if o.resource is not None),
        key=lambda i: (schedule.start[i], i),
    )
    for i in order:
        resource = problem.operations[i].resource
        assert resource is not None
        slot = schedule.start[i] % problem.ii
        operands = sources(i)
        busy = taken[resource, slot]
        score: dict[int, int] = defaultdict(int)
        for port, source in enumerate(operands):
            for instance in fans[resource, port, source]:
                if instance not in busy:
                    score[instance] += 1
        free = next(k for k in range(problem.limits[resource]) if k not in busy)
        best = max(score, key=lambda k: (score[k], -k), default=free)
        busy.add(best)
        unit[i] = resource, best
        for port, source in enumerate(operands):
            if (resource, best, port, source) not in seen:
                seen.add((resource, best, port, source))
                fans[resource, port, source].append(best)
    return Binding(unit, len(seen))
